"""Clients that stall: bodies that do not arrive, responses that are not read, idle connections.

The servers of this file have short deadlines, so that the tests need not wait.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

from perseid.config import Settings
from perseid.http import wire_limits
from perseid.http.connections import open_connections
from perseid.http.wire_limits import WireLimits
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.sockets import PlainSocket
from tests.wire.bad_requests.refusals import answer, assert_refused

pytestmark = pytest.mark.only_on("sqlite", reason="the store is not involved")

MEGABYTE = 1 << 20
SHORT = WireLimits(
    bytes_in_flight=8 * MEGABYTE,
    header_seconds=0.5,
    body_idle_seconds=0.3,
    body_seconds=1.5,
    discard_seconds=0.3,
    response_idle_seconds=0.5,
    response_seconds=3,
    pressed_seconds=0.2,
    tick_seconds=0.1,
)
Connect = Callable[[], PlainSocket]


@contextmanager
def slow_server(
    monkeypatch: pytest.MonkeyPatch, limits: WireLimits, max_connections: int
) -> Iterator[RawClient]:
    monkeypatch.setattr(wire_limits, "LIMITS", limits)
    settings = Settings(memory=True, max_connections=max_connections)
    with running(settings) as ready, closing(RawClient(ready.endpoint)) as raw:
        yield raw


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawClient]:
    with slow_server(monkeypatch, SHORT, 64) as raw:
        yield raw


@pytest.fixture
def connect(raw: RawClient) -> Iterator[Connect]:
    """Opens connections, which are closed after the test."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(PlainSocket(raw.endpoint)))


def is_closed(wire: PlainSocket) -> bool:
    """True if the server closes the connection without another response."""
    return wire.reply() is None


# Bodies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("framing", "content"),
    [
        (b"content-length: 100", b'{"id":'),
        (b"content-length: 100", b""),
        (b"content-length: 2100000", b"x" * 300_000),
        (b"transfer-encoding: chunked", b"5\r\nhello\r\n"),
        (b"transfer-encoding: chunked", b""),
    ],
    ids=["short", "nothing", "long", "chunked", "no chunk"],
)
def test_a_body_that_does_not_arrive(
    raw: RawClient, connect: Connect, framing: bytes, content: bytes
) -> None:
    wire = connect()
    wire.send(wire.request_head("POST", "/dbs", framing) + content)
    reply = answer(wire)
    assert "did not arrive in time" in assert_refused(reply, 408, "RequestTimeout")
    assert reply.headers["connection"] == "close"
    assert is_closed(wire)
    assert raw.get("/").status == 200


def test_a_body_that_trickles(connect: Connect) -> None:
    """It makes progress, so that the deadline for the whole body ends it."""
    wire = connect()
    wire.send(wire.request_head("POST", "/dbs", b"content-length: 2000000"))
    with suppress(ConnectionError):
        while not wire.has_reply(within=0.05):
            wire.send(b"x")
    assert_refused(answer(wire), 408, "RequestTimeout")


def test_tiny_chunks(connect: Connect) -> None:
    wire = connect()
    wire.send(wire.request_head("POST", "/dbs", b"transfer-encoding: chunked"))
    with suppress(ConnectionError):
        wire.send(b"1\r\nx\r\n" * 20_000)
    assert answer(wire).status in (400, 408)


def test_headers_are_authorized_before_the_body(raw: RawClient, connect: Connect) -> None:
    """Without a valid signature no body is kept, and the response does not wait for all of it."""
    wire = connect()
    head = wire.request_head("POST", "/dbs", b"content-length: 2000000")
    wire.send(head.replace(b"type%3Dmaster", b"type%3Dmonster") + b"x" * 1000)
    assert answer(wire).status == 401
    assert is_closed(wire)


@pytest.mark.parametrize("path", ["/nowhere", "/_perseid/nowhere", "/_explorer/nothing"])
def test_the_route_is_found_before_the_body(connect: Connect, path: str) -> None:
    wire = connect()
    wire.send(wire.request_head("POST", path, b"content-length: 2000000") + b"x" * 1000)
    assert answer(wire).status in (404, 405)


def test_refused_clients_that_are_still_sending_read_the_response(connect: Connect) -> None:
    for size in (1000, 200_000, 2_000_000, 4_000_000):
        wire = connect()
        head = wire.request_head("POST", "/dbs", b"content-length: %d" % size)
        wire.send(head.replace(b"type%3Dmaster", b"type%3Dmonster") + b"x" * size)
        assert answer(wire).status == 401
        wire.send_request("GET", "/", {})
        assert answer(wire).status == 200  # the connection is still in use


def test_refused_clients_that_wait_for_permission_read_the_response(connect: Connect) -> None:
    wire = connect()
    lines = (b"content-length: 1000", b"expect: 100-continue")
    head = wire.request_head("POST", "/dbs", *lines)
    wire.send(head.replace(b"type%3Dmaster", b"type%3Dmonster"))
    assert wire.read_head()[0] == 401


def test_bytes_in_flight_are_limited(raw: RawClient, connect: Connect) -> None:
    """Eight megabytes are allowed, eight clients send sixteen and then wait."""
    stalled = [connect() for _ in range(8)]
    for wire in stalled:
        wire.send(wire.request_head("POST", "/dbs", b"content-length: 2000001") + b"x" * 2_000_000)
    assert raw.get("/").status == 200
    assert raw.post("/dbs", {"id": "small"}).status == 201
    replies = [answer(wire) for wire in stalled]
    assert {reply.status for reply in replies} == {408, 429}
    refused = [reply for reply in replies if reply.status == 429]
    assert 4 <= len(refused) < 8
    for reply in refused:
        assert "bytes of requests" in assert_refused(reply, 429, "TooManyRequests")
        assert int(reply.headers["x-ms-retry-after-ms"]) > 0
    large = raw.post("/dbs", {"id": "large", "x": "y" * 2_000_000})
    assert large.status == 201  # everything has been released


# Responses ---------------------------------------------------------------------------------------


@pytest.fixture
def pages(raw: RawClient) -> str:
    """The path of a feed whose page has two megabytes."""
    raw.post("/dbs", {"id": "d"})
    raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    for number in range(2):
        item = {"id": str(number), "pk": "a", "x": "y" * MEGABYTE}
        assert raw.post("/dbs/d/colls/c/docs", item, pk='["a"]').status == 201
    raw.post("/dbs/d/colls/c/docs", {"id": "small", "pk": "a"}, pk='["a"]')
    return "/dbs/d/colls/c/docs"


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the system must tell")


@needs_linux
def test_unread_responses_are_limited(raw: RawClient, connect: Connect, pages: str) -> None:
    """Three pages fit; the next clients get a sentence, and point reads go on."""
    stalled = [connect() for _ in range(12)]
    for wire in stalled:
        wire.limit_receive_buffer()
        wire.send_request("GET", pages, {"x-ms-max-item-count": "-1"})
    assert raw.get(f"{pages}/small", pk='["a"]').status == 200
    statuses = [wire.read_head()[0] for wire in stalled]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) < 12


@needs_linux
def test_connections_that_do_not_read_are_closed(
    raw: RawClient, connect: Connect, pages: str
) -> None:
    wire = connect()
    wire.limit_receive_buffer()
    wire.send_request("GET", pages, {"x-ms-max-item-count": "-1"})
    port = int(raw.endpoint.rstrip("/").rpartition(":")[2])
    while wire.address in (open_connections(port) or {}):
        assert raw.get("/").status == 200
    for _ in range(20):  # its bytes are no longer in flight
        assert raw.get(pages, x_ms_max_item_count="-1").status == 200


def test_large_responses_that_are_read(raw: RawClient, pages: str) -> None:
    """Each response counts until it is read, and then no longer."""
    clients = [RawClient(raw.endpoint) for _ in range(8)]
    for _ in range(3):
        for client in clients:
            assert len(client.get(pages, x_ms_max_item_count="-1").body) > 2 * MEGABYTE
    for client in clients:
        client.close()


# Connections -------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nhost:"], ids=["idle", "half a head"])
def test_connections_without_a_request_are_closed(connect: Connect, start: bytes) -> None:
    wire = connect()
    wire.send(start)
    assert is_closed(wire)


@needs_linux
@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nhost:"], ids=["idle", "half a head"])
def test_idle_connections_do_not_lock_out_others(
    monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    """The deadline for headers is far away; the limit of connections is reached."""
    limits = WireLimits(header_seconds=600, pressed_seconds=0.2)
    with slow_server(monkeypatch, limits, 16) as raw, ExitStack() as opened:
        for _ in range(40):
            wire = opened.enter_context(closing(PlainSocket(raw.endpoint)))
            wire.send(start)
        with closing(RawClient(raw.endpoint)) as other:
            assert json.loads(other.get("/").body)["id"]
