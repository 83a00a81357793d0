"""Connections, framing, the account's address, the request log, and shutdown."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from perseid import server
from perseid.config import Settings
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, signature
from tests.support.running import running
from tests.support.servers import Servers
from tests.support.sockets import PlainSocket
from tests.support.stores import Place
from tests.wire.serving.connections import ask

# Paths and connections ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/dbs", "/offers", "{database}", "{database}/colls", "{container}", "{container}/docs",
     "{container}/pkranges", "{container}/docs/1", "/_perseid/health", "/_perseid/ready"],
)  # fmt: skip
def test_trailing_slashes(raw: RawClient, database: str, container: str, path: str) -> None:
    raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    path = path.format(database=database, container=container)
    plain, slashed = (raw.get(each, pk='["a"]') for each in (path, f"{path}/"))
    assert plain.status == slashed.status == 200
    assert plain.body == slashed.body


def test_trailing_slashes_of_writes(raw: RawClient, name: str) -> None:
    """The way Python spells them."""
    assert raw.post("/dbs/", {"id": name}).status == 201
    assert raw.post(f"/dbs/{name}/colls/", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    path = f"/dbs/{name}/colls/c"
    assert raw.post(f"{path}/docs/", {"id": "1", "pk": "a"}, pk='["a"]').status == 201
    assert raw.put(f"{path}/docs/1/", {"id": "1", "pk": "a"}, pk='["a"]').status == 200
    assert raw.delete(f"{path}/docs/1/", pk='["a"]').status == 204
    assert raw.put(f"{path}/", {"id": "c", "partitionKey": PARTITION_KEY}).status == 200
    assert raw.delete(f"{path}/").status == 204
    assert raw.delete(f"/dbs/{name}/").status == 204


def test_connections_are_kept(connection: http.client.HTTPConnection, name: str) -> None:
    """Through every kind of answer, bodiless ones included."""
    connection.connect()
    first = connection.sock
    steps: list[tuple[str, str, bytes | None, int]] = [
        ("GET", "/", None, 200),
        ("POST", "/dbs", json.dumps({"id": name}).encode(), 201),
        ("POST", "/dbs", json.dumps({"id": name}).encode(), 409),
        ("POST", "/dbs", b"nonsense", 400),
        ("POST", "/dbs", b"", 400),
        ("GET", "/nowhere", None, 404),
        ("PUT", "/dbs", b"{}", 405),
        ("DELETE", f"/dbs/{name}", None, 204),
        ("DELETE", f"/dbs/{name}", None, 404),
        ("GET", "/_perseid/health", None, 200),
    ]
    for method, path, body, status in steps * 3:
        assert ask(connection, method, path, body).status == status
        assert connection.sock is first


def test_refused_signatures_keep_the_connection(connection: http.client.HTTPConnection) -> None:
    connection.connect()
    first = connection.sock
    for _ in range(3):
        for token in ("x", ""):
            assert ask(connection, "GET", "/", headers={"authorization": token}).status == 401
            refused = ask(connection, "POST", "/dbs", b"{}", {"authorization": token})
            assert refused.status == 401
    assert connection.sock is first


@pytest.mark.parametrize("size", [2, 1000, 200_000])
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
def test_bodies_where_none_belong(
    connection: http.client.HTTPConnection, method: str, size: int
) -> None:
    """They are read or the connection is closed with a word; the next request must not suffer."""
    for _ in range(20):
        assert ask(connection, method, "/", b"x" * size).status in (200, 400, 405)
        assert ask(connection, "GET", "/").status == 200


def test_connection_close(connection: http.client.HTTPConnection) -> None:
    connection.connect()
    first = connection.sock
    assert ask(connection, "GET", "/", headers={"connection": "close"}).status == 200
    assert connection.sock is None
    assert first is not None
    assert ask(connection, "GET", "/").status == 200


def test_many_connections_at_once(endpoint: str) -> None:
    clients = [RawClient(endpoint) for _ in range(50)]
    for _ in range(2):
        assert {client.get("/").status for client in clients} == {200}
    for client in clients:
        client.close()


# Framing -----------------------------------------------------------------------------------------


def test_expect_continue(raw: RawClient, wire: PlainSocket, name: str) -> None:
    body = json.dumps({"id": name}).encode()
    headers = {"expect": "100-continue", "content-length": str(len(body))}
    wire.send_request("POST", "/dbs", headers)
    assert wire.read_head() == (100, {})
    wire.send(body)
    reply = wire.read_reply()
    assert (reply.status, reply.json["id"]) == (201, name)
    assert raw.delete(f"/dbs/{name}").status == 204


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunked_bodies(
    connection: http.client.HTTPConnection, raw: RawClient, name: str, size: int
) -> None:
    body = json.dumps({"id": name, "x": "é" * 200}).encode()
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    headers = {"transfer-encoding": "chunked"}
    made = ask(connection, "POST", "/dbs", iter(parts), headers, encode_chunked=True)
    assert made.status == 201
    assert json.loads(made.body)["id"] == name
    assert ask(connection, "GET", f"/dbs/{name}").status == 200
    assert raw.delete(f"/dbs/{name}").status == 204


def test_chunks_with_extensions_and_trailers(raw: RawClient, wire: PlainSocket, name: str) -> None:
    body = json.dumps({"id": name}).encode()
    content = b"%X;why=not\r\n%b\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(body), body)
    announced = {"transfer-encoding": "chunked", "trailer": "x-trailer"}
    wire.send_request("POST", "/dbs", announced, content)
    assert wire.read_reply().status == 201
    assert raw.delete(f"/dbs/{name}").status == 204


def test_a_body_in_pieces(raw: RawClient, wire: PlainSocket, name: str) -> None:
    body = json.dumps({"id": name}).encode()
    wire.send_request("POST", "/dbs", {"content-length": str(len(body))})
    for n in range(len(body)):
        wire.send(body[n : n + 1])
    assert wire.read_reply().status == 201
    assert raw.delete(f"/dbs/{name}").status == 204


def test_pipelined_requests_are_answered_in_order(wire: PlainSocket) -> None:
    for path in ("/", "/nowhere", "/_perseid/health"):
        wire.send_request("GET", path, {})
    assert [wire.read_reply().status for _ in range(3)] == [200, 404, 200]


# The account's address ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "advertised"),
    [
        ("127.0.0.1:8081", "127.0.0.1:8081"),
        ("example.test", "example.test"),
        ("example.test:1234", "example.test:1234"),
        ("[::1]:8081", "[::1]:8081"),
        ("host.docker.internal:9", "host.docker.internal:9"),
        ("app.localhost:80", "app.localhost:80"),
        ("localhost:8081", "127.0.0.1:8081"),
        ("LocalHost:8081", "127.0.0.1:8081"),
        ("localhost", "127.0.0.1"),
    ],
)
def test_account_echoes_the_host_unless_it_is_localhost(
    servers: Servers, host: str, advertised: str
) -> None:
    """Emulators advertise an address for `localhost`, as the service advertises regional ones."""
    address = urlsplit(servers(allowed_host="example.test").endpoint).netloc
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        account = json.loads(ask(connection, "GET", "/", headers={"host": host}).body)
    for locations in ("writableLocations", "readableLocations"):
        (location,) = account[locations]
        assert location["databaseAccountEndpoint"] == f"http://{advertised}/"


def test_a_server_on_ipv6_alone_is_not_advertised_by_an_ipv4_address(place: Place) -> None:
    with running(place.fresh(host="::1")) as settings:
        connection = http.client.HTTPConnection("::1", settings.port, timeout=60)
        with closing(connection):
            account = json.loads(ask(connection, "GET", "/", headers={"host": "localhost:1"}).body)
    (location,) = account["writableLocations"]
    assert location["databaseAccountEndpoint"] == "http://localhost:1/"


def test_account_without_a_host(settings: Settings) -> None:
    """HTTP/1.0 has none; then it is the address the server listens on."""
    lines = [f"{name}: {value}" for name, value in signature("GET", "/").items()]
    with socket.create_connection((settings.host, settings.port), timeout=60) as plain:
        plain.sendall("\r\n".join(["GET / HTTP/1.0", *lines, "", ""]).encode())
        content = b"".join(iter(lambda: plain.recv(65536), b""))
    account = json.loads(content.partition(b"\r\n\r\n")[2])
    location = account["writableLocations"][0]
    assert location["databaseAccountEndpoint"] == f"http://{settings.host}:{settings.port}/"


# The log -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one\ntwo", "a\r\nb", "\x1b[31m", "nul\x00", "\u2028"])
def test_a_request_is_one_line(raw: RawClient, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """An id may hold anything; a client that chooses it must not write lines of the log."""
    with caplog.at_level(logging.INFO, "perseid.http.app"):
        assert raw.get(f"/dbs/{name}").status == 404
    (line,) = {message for message in caplog.messages if " GET /dbs/" in message}
    assert line.isprintable()
    assert " 404 " in line


@pytest.mark.parametrize("sent", ["a" * 60_000, "a" * 129, "a b", "a\tb", ""])
def test_strange_activity_ids_are_replaced(
    raw: RawClient, caplog: pytest.LogCaptureFixture, sent: str
) -> None:
    with caplog.at_level(logging.INFO, "perseid.http.app"):
        reply = raw.request("GET", "/", headers={"x-ms-activity-id": sent}, sign_with=None)
    assert reply.status == 401
    assert re.fullmatch("[0-9a-f-]{36}", reply.headers["x-ms-activity-id"])
    assert max(map(len, caplog.messages)) < 200


@pytest.mark.parametrize("sent", ["0f8fad5b-d9cb-469f-a165-70867728950e", "trace:17/a", "a" * 128])
def test_activity_ids_are_echoed(raw: RawClient, sent: str) -> None:
    reply = raw.request("GET", "/", headers={"x-ms-activity-id": sent}, sign_with=None)
    assert reply.headers["x-ms-activity-id"] == sent
    assert f"ActivityId: {sent}," in reply.json["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", f"/dbs/{'a' * 50_000}"), ("A" * 50_000, "/dbs"), ("A" * 50_000, "/_perseid/clock")],
)
def test_what_anyone_may_send_is_not_repeated_at_length(
    raw: RawClient, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    with caplog.at_level(logging.INFO, "perseid.http.app"):
        reply = raw.request(method, path, sign_with=None)
    assert reply.status in (401, 405)
    assert len(reply.body) < 4000
    assert max(map(len, caplog.messages)) < 2000


# The end -----------------------------------------------------------------------------------------


def half_a_head(wire: PlainSocket) -> None:
    wire.send(b"GET / HTTP/1.1\r\nhost:")


def half_a_body(wire: PlainSocket) -> None:
    wire.send_request("POST", "/dbs", {"content-length": "100"}, b'{"id":')


@pytest.mark.only_on("sqlite", reason="the listener is the same")
@pytest.mark.parametrize("occupy", [half_a_head, half_a_body])
def test_a_client_that_does_not_go_on_cannot_keep_the_server(
    occupy: Callable[[PlainSocket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_GRACE_SECONDS", 0.2)
    with running(Settings(memory=True)) as settings:
        wire = PlainSocket(settings.endpoint)
        time_limit = threading.Timer(60, wire.close)
        time_limit.start()
        occupy(wire)
        other = RawClient(settings.endpoint)
        other.get("/")  # behind it, so that it has been noticed
        other.close()
    assert time_limit.is_alive()
    time_limit.cancel()
    wire.close()
