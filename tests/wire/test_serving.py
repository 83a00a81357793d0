"""The server as a server: connections, framing, certificates, and when it refuses to start."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import http.client
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from perseid import __version__, certificates, server
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.server import Server, check_settings, claim_port
from perseid.store.protocol import StoreError
from tests.support.raw import RawClient, sign, signed_for
from tests.support.running import free_port, running
from tests.support.stores import Stores

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}
OTHER_KEY = "c29tZSBvdGhlciBrZXk="


def signature(method: str, path: str) -> dict[str, str]:
    kind, link = signed_for(path)
    date = formatdate(usegmt=True)
    return {"x-ms-date": date, "authorization": sign(WELL_KNOWN_KEY, method, kind, link, date)}


@pytest.fixture
def connection(endpoint: str) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=10)
    yield made
    made.close()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> Answer:
    sent = signature(method, path) | (headers or {})
    connection.request(method, path, body, sent, **options)
    response = connection.getresponse()
    return Answer(
        response.status,
        {name.lower(): value for name, value in response.getheaders()},
        response.read(),
    )


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
    assert raw.post(f"/dbs/{name}/colls/", {"id": "c", "partitionKey": KEY}).status == 201
    path = f"/dbs/{name}/colls/c"
    assert raw.post(f"{path}/docs/", {"id": "1", "pk": "a"}, pk='["a"]').status == 201
    assert raw.put(f"{path}/docs/1/", {"id": "1", "pk": "a"}, pk='["a"]').status == 200
    assert raw.delete(f"{path}/docs/1/", pk='["a"]').status == 204
    assert raw.put(f"{path}/", {"id": "c", "partitionKey": KEY}).status == 200
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


class Wire:
    """A plain socket with a buffer."""

    def __init__(self, endpoint: str) -> None:
        target = urlsplit(endpoint)
        self.host = target.netloc
        self._socket = socket.create_connection((target.hostname, target.port), timeout=10)
        self._file = self._socket.makefile("rb")

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
        lines = [f"{name}: {value}" for name, value in (signature(method, path) | headers).items()]
        start = [f"{method} {path} HTTP/1.1", f"host: {self.host}", *lines, "", ""]
        self._socket.sendall("\r\n".join(start).encode() + body)

    def send_more(self, data: bytes) -> None:
        self._socket.sendall(data)

    def head(self) -> tuple[int, dict[str, str]]:
        """The next status and headers; the body is left unread."""
        status = int(self._file.readline().split()[1])
        headers = http.client.parse_headers(self._file)
        return status, {name.lower(): value for name, value in headers.items()}

    def answer(self) -> tuple[int, bytes]:
        status, headers = self.head()
        return status, self._file.read(int(headers.get("content-length", "0")))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def wire(endpoint: str) -> Iterator[Wire]:
    made = Wire(endpoint)
    yield made
    made.close()


def test_expect_continue(raw: RawClient, wire: Wire, name: str) -> None:
    body = json.dumps({"id": name}).encode()
    headers = {"expect": "100-continue", "content-length": str(len(body))}
    wire.send("POST", "/dbs", headers)
    assert wire.head() == (100, {})
    wire.send_more(body)
    status, content = wire.answer()
    assert (status, json.loads(content)["id"]) == (201, name)
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


def test_chunks_with_extensions_and_trailers(raw: RawClient, wire: Wire, name: str) -> None:
    body = json.dumps({"id": name}).encode()
    content = b"%X;why=not\r\n%b\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(body), body)
    announced = {"transfer-encoding": "chunked", "trailer": "x-trailer"}
    wire.send("POST", "/dbs", announced, content)
    assert wire.answer()[0] == 201
    assert raw.delete(f"/dbs/{name}").status == 204


def test_a_body_in_pieces(raw: RawClient, wire: Wire, name: str) -> None:
    body = json.dumps({"id": name}).encode()
    wire.send("POST", "/dbs", {"content-length": str(len(body))})
    for n in range(len(body)):
        wire.send_more(body[n : n + 1])
    assert wire.answer()[0] == 201
    assert raw.delete(f"/dbs/{name}").status == 204


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    for path in ("/", "/nowhere", "/_perseid/health"):
        wire.send("GET", path, {})
    assert [wire.answer()[0] for _ in range(3)] == [200, 404, 200]


# The account's address ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost:8081", "example.test", "example.test:1234", "[::1]:8081", "host.docker.internal:9"],
)
def test_account_echoes_the_host(connection: http.client.HTTPConnection, host: str) -> None:
    account = json.loads(ask(connection, "GET", "/", headers={"host": host}).body)
    for locations in ("writableLocations", "readableLocations"):
        (location,) = account[locations]
        assert location["databaseAccountEndpoint"] == f"http://{host}/"


def test_account_without_a_host(settings: Settings) -> None:
    """HTTP/1.0 has none; then it is the address the server listens on."""
    lines = [f"{name}: {value}" for name, value in signature("GET", "/").items()]
    with socket.create_connection((settings.host, settings.port), timeout=10) as plain:
        plain.sendall("\r\n".join(["GET / HTTP/1.0", *lines, "", ""]).encode())
        content = b"".join(iter(lambda: plain.recv(65536), b""))
    account = json.loads(content.partition(b"\r\n\r\n")[2])
    location = account["writableLocations"][0]
    assert location["databaseAccountEndpoint"] == f"http://{settings.host}:{settings.port}/"


# The log -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one\ntwo", "a\r\nb", "\x1b[31m", "nul\x00", "\u2028"])
def test_a_request_is_one_line(raw: RawClient, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """An id may hold anything; whoever chooses it must not write lines of the log."""
    with caplog.at_level(logging.INFO, "perseid.http.app"):
        assert raw.get(f"/dbs/{name}").status == 404
    (line,) = {message for message in caplog.messages if " GET /dbs/" in message}
    assert line.isprintable()
    assert " 404 " in line


# The end -----------------------------------------------------------------------------------------


def half_a_head(wire: Wire) -> None:
    wire.send_more(b"GET / HTTP/1.1\r\nhost:")


def half_a_body(wire: Wire) -> None:
    wire.send("POST", "/dbs", {"content-length": "100"}, b'{"id":')


@pytest.mark.only_on("sqlite", reason="the listener is the same")
@pytest.mark.parametrize("occupy", [half_a_head, half_a_body])
def test_a_client_that_does_not_go_on_cannot_keep_the_server(
    occupy: Callable[[Wire], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_GRACE_SECONDS", 0.2)
    with running(Settings(memory=True)) as settings:
        wire = Wire(settings.endpoint)
        patience = threading.Timer(20, wire.close)
        patience.start()
        occupy(wire)
        other = RawClient(settings.endpoint)
        other.get("/")  # behind it, so that it has been noticed
        other.close()
    assert patience.is_alive()
    patience.cancel()
    wire.close()


# Health ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"), [("/_perseid/health", "ok"), ("/_perseid/ready", "ready")]
)
def test_probes_need_no_signature(raw: RawClient, path: str, status: str) -> None:
    for key in (None, OTHER_KEY):
        reply = raw.request("GET", path, sign_with=key)
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["status"] == status
        assert reply.json["version"] == __version__


def test_no_certificate_without_tls(raw: RawClient) -> None:
    reply = raw.request("GET", "/_perseid/certificate.pem", sign_with=None)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")


# HTTPS -------------------------------------------------------------------------------------------


def trusting(certificate: bytes) -> ssl.SSLContext:
    """Verifies as a client would that trusts this certificate and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate.decode())
    return context


def blind() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.fixture(scope="module")
def secure(stores: Stores) -> Iterator[Settings]:
    with stores.place() as place, running(place.fresh(tls=True)) as settings:
        yield settings


def download(secure: Settings) -> Answer:
    """The certificate as a user gets it, before there is anything to verify with."""
    connection = http.client.HTTPSConnection("127.0.0.1", secure.port, context=blind(), timeout=10)
    connection.request("GET", "/_perseid/certificate.pem")
    response = connection.getresponse()
    headers = {
        name.lower(): ", ".join(response.headers.get_all(name, [])) for name in response.headers
    }
    answer = Answer(response.status, headers, response.read())
    connection.close()
    return answer


@pytest.fixture(scope="module")
def certificate(secure: Settings) -> bytes:
    return download(secure).body


def test_certificate_for_download(secure: Settings) -> None:
    answer = download(secure)
    assert answer.status == 200
    assert answer.body.startswith(b"-----BEGIN CERTIFICATE-----")
    assert answer.headers["content-type"] == "application/x-pem-file"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_https_verifies(secure: Settings, certificate: bytes, host: str, name: str) -> None:
    context = trusting(certificate)
    connection = http.client.HTTPSConnection(host, secure.port, context=context, timeout=10)
    account = json.loads(ask(connection, "GET", "/").body)
    location = account["writableLocations"][0]
    assert location["databaseAccountEndpoint"] == f"https://{host}:{secure.port}/"
    body = json.dumps({"id": name}).encode()
    assert ask(connection, "POST", "/dbs", body).status == 201
    assert ask(connection, "DELETE", f"/dbs/{name}").status == 204
    connection.close()


def test_https_does_not_verify_without_the_certificate(secure: Settings) -> None:
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection("localhost", secure.port, context=context, timeout=10)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.connect()
    connection.close()


def test_certificate_names_this_machine_only(certificate: bytes) -> None:
    found = x509.load_pem_x509_certificate(certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "::1"}
    assert b"PRIVATE" not in certificate


def test_old_protocols_are_refused(secure: Settings) -> None:
    context = blind()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    plain = socket.create_connection(("127.0.0.1", secure.port), timeout=10)
    with plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain)


def test_plain_http_to_an_https_port(secure: Settings) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        try:
            content = plain.recv(65536)
        except ConnectionError:
            content = b""
    assert not content.startswith(b"HTTP/1.1 200")


def test_certificate_is_kept_with_the_data(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, durability="off", tls=True)
    found: list[bytes] = []
    for _ in range(2):
        with running(settings) as secure:
            found.append(download(secure).body)
    assert found[0] == found[1]
    if os.name == "posix":
        (secret,) = (path for path in tmp_path.glob("*.pem") if b"PRIVATE" in path.read_bytes())
        assert secret.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damaged", ["certificate.pem", "certificate-key.pem"])
def test_a_damaged_certificate_of_our_own_is_made_anew(tmp_path: Path, damaged: str) -> None:
    settings = Settings(data=tmp_path, durability="off", tls=True)
    for _ in range(2):
        with running(settings) as secure:
            assert download(secure).status == 200
        (tmp_path / damaged).write_text("nothing of the kind")


def pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate and its key."""
    made = folder / name
    made.mkdir()
    return certificates.provide(made, "localhost")


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    cert, key = pair(tmp_path, "one")
    other = pair(tmp_path, "two")[1]
    secret = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    (tmp_path / "empty").touch()
    for given, message in (
        ((tmp_path / "nowhere", key), f"--cert {tmp_path / 'nowhere'}: No such file"),
        ((tmp_path, key), f"--cert {tmp_path}: Is a directory"),
        ((cert, tmp_path / "nowhere"), f"--key-file {tmp_path / 'nowhere'}: No such file"),
        ((tmp_path / "empty", key), "not a certificate and its private key in PEM"),
        ((cert, cert), "not a certificate and its private key in PEM"),
        ((cert, other), "belongs to another certificate"),
        ((cert, locked), "without a passphrase"),
    ):
        settings = Settings(tls=True, cert=given[0], key_file=given[1])
        with pytest.raises(StoreError) as caught:
            check_settings(settings)
        assert message in str(caught.value)
    check_settings(Settings(tls=True, cert=cert, key_file=key))


# Refusing to start -------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test"])
@pytest.mark.parametrize("unsafe", [Settings(), Settings(key=OTHER_KEY, no_auth=True)])
def test_unsafe_beyond_loopback(host: str, unsafe: Settings) -> None:
    settings = dataclasses.replace(unsafe, host=host)
    with pytest.raises(StoreError) as caught:
        check_settings(settings)
    assert host in str(caught.value)
    assert "--allow-well-known-key" in str(caught.value)
    with pytest.raises(StoreError):
        Server(settings)
    check_settings(dataclasses.replace(settings, allow_well_known_key=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_is_safe(host: str) -> None:
    check_settings(Settings(host=host))
    check_settings(Settings(host=host, no_auth=True))


def test_own_key_beyond_loopback() -> None:
    check_settings(Settings(host="0.0.0.0", key=OTHER_KEY))


@pytest.mark.parametrize(
    "settings",
    [
        Settings(host="0.0.0.0", key=OTHER_KEY, secondary_key=WELL_KNOWN_KEY),
        Settings(host="0.0.0.0", key=OTHER_KEY, read_only_key=WELL_KNOWN_KEY),
        Settings(host="0.0.0.0", key=OTHER_KEY, secondary_read_only_key=WELL_KNOWN_KEY),
    ],
)
def test_the_well_known_key_in_any_place(settings: Settings) -> None:
    with pytest.raises(StoreError):
        check_settings(settings)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        (Settings(key="not base64!"), "--key"),
        (Settings(secondary_key="%"), "--secondary-key"),
        (Settings(read_only_key="x"), "--read-only-key"),
        (Settings(secondary_read_only_key="==="), "--secondary-read-only-key"),
        (Settings(key=""), "--key"),
        (Settings(cert=Path("c.pem"), tls=True), "--key-file"),
        (Settings(key_file=Path("k.pem"), tls=True), "--cert"),
        (Settings(cert=Path("c.pem"), key_file=Path("k.pem")), "--tls"),
        (Settings(memory=True, data=Path("kept")), "--data"),
    ],
)
def test_settings_that_make_no_sense(settings: Settings, flag: str) -> None:
    with pytest.raises(StoreError) as caught:
        check_settings(settings)
    assert flag in str(caught.value)


def test_second_server_on_the_same_data(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, durability="off")
    with running(settings) as first:
        with pytest.raises(StoreError) as caught, running(settings):
            pass
        assert str(tmp_path) in str(caught.value)
        assert "in use by another perseid server" in str(caught.value)
        assert str(os.getpid()) in str(caught.value)
        assert "--data" in str(caught.value)
        client = RawClient(first.endpoint)
        assert client.get("/").status == 200
        client.close()
    with running(settings):
        pass


def test_port_in_use(settings: Settings) -> None:
    second = Server(Settings(memory=True, port=settings.port))
    with pytest.raises(StoreError) as caught:
        asyncio.run(second.run())
    assert f"{settings.host}:{settings.port}" in str(caught.value)
    assert "--port" in str(caught.value)


def test_port_of_somebody_else() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StoreError):
            asyncio.run(Server(Settings(memory=True, port=port)).run())


def test_a_port_that_another_server_is_about_to_take() -> None:
    """Both would listen, since the listener shares its port, and each get some of the requests."""
    settings = Settings(memory=True, port=free_port())
    with claim_port(settings), pytest.raises(StoreError, match="choose another --port"):
        asyncio.run(Server(settings).run())


def test_host_nobody_has() -> None:
    settings = Settings(memory=True, host="no-such-host.invalid", key=OTHER_KEY, port=free_port())
    with pytest.raises(StoreError) as caught:
        asyncio.run(Server(settings).run())
    assert "no-such-host.invalid" in str(caught.value)


def test_address_nobody_here_has() -> None:
    settings = Settings(memory=True, host="192.0.2.1", key=OTHER_KEY, port=free_port())
    with pytest.raises(StoreError, match="not an address of this machine; choose another --host"):
        asyncio.run(Server(settings).run())


def test_a_port_that_is_not_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ones are, and for whom, depends on the system: nobody is using this one."""

    class Guarded(socket.socket):
        def bind(self, address: Any) -> None:
            raise PermissionError(errno.EACCES, f"not for you: {address}")

    monkeypatch.setattr(socket, "socket", Guarded)
    with pytest.raises(StoreError, match=":80: this user may not;"):
        claim_port(Settings(memory=True, port=80))


def test_data_directory_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("not a directory")
    with pytest.raises(StoreError) as caught, running(Settings(data=path)):
        pass
    assert str(path) in str(caught.value)


# The command line --------------------------------------------------------------------------------


def perseid(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perseid", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_help_names_every_setting() -> None:
    result = perseid("serve", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    for setting in dataclasses.fields(Settings):
        assert f"--{setting.name.replace('_', '-')}" in result.stdout
        assert f"PERSEID_{setting.name.upper()}" in result.stdout
    assert WELL_KNOWN_KEY not in result.stdout


def test_ctrl_c_before_anything_has_begun() -> None:
    """Loading the program takes a moment."""
    text = """
        import runpy, sys
        class Interrupted:
            def find_spec(self, name, *rest):
                if name == "perseid.cli":
                    raise KeyboardInterrupt
        sys.meta_path.insert(0, Interrupted())
        runpy.run_module("perseid", run_name="__main__")
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (130, b"")


def test_version() -> None:
    assert __version__ in perseid("--version").stdout


def test_refusals_are_one_line_and_an_exit_code(settings: Settings, tmp_path: Path) -> None:
    held = Settings(data=tmp_path, durability="off")
    with running(held):
        for arguments, fragment in (
            (("--host", "0.0.0.0"), "refusing to listen on 0.0.0.0"),
            (("--memory", "--port", str(settings.port)), "cannot listen on"),
            (("--memory", "--host", "a..b", "--allow-well-known-key"), "cannot listen on 'a..b'"),
            (("--data", str(tmp_path), "--port", str(free_port())), "in use by another perseid"),
        ):
            result = perseid("serve", *arguments)
            assert result.returncode == 1
            assert fragment in result.stderr
            assert "Traceback" not in result.stderr
            assert result.stdout == ""


def test_memory_and_a_data_directory_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what somebody means to keep is gone at the end."""
    data = tmp_path / "kept"
    for arguments, variables in (
        (("--memory", "--data", str(data)), {}),
        (("--memory", "--data", "perseid-data"), {}),  # which it would have been anyway
        (("--memory",), {"PERSEID_DATA": str(data)}),
        (("--data", str(data)), {"PERSEID_MEMORY": "1"}),
    ):
        with monkeypatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            result = perseid("serve", "--port", str(free_port()), *arguments)
        assert (result.returncode, result.stdout) == (1, "")
        assert "--memory keeps nothing, and --data names where to" in result.stderr
        assert not data.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "0"),
        ("--port", "70000"),
        ("--port", "x"),
        ("--durability", "some"),
        ("--sweep-pace", "nan"),
        ("--data", ""),
        ("--what",),
    ],
)
def test_bad_flags(arguments: tuple[str, ...]) -> None:
    result = perseid("serve", *arguments)
    assert result.returncode == 2
    assert arguments[0] in result.stderr
