"""Clients that stall: bodies that do not arrive, responses that are not read, idle connections.

Each test shortens the deadlines it is about, so that it need not wait, and leaves those that an
honest client could miss on a busy machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPException

import pytest

from perseid.config import Settings
from perseid.http import wire_limits
from perseid.http.connections import open_connections
from perseid.http.wire_limits import WireLimits
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.sockets import PlainSocket
from tests.support.waiting import TooSlow, repeat_if_slow, slow_if
from tests.wire.bad_requests.refusals import answer, assert_refused

pytestmark = pytest.mark.only_on("sqlite", reason="the store is not involved")

MEGABYTE = 1 << 20
IN_FLIGHT = 8 * MEGABYTE
Connect = Callable[[], PlainSocket]


@contextmanager
def slow_server(
    monkeypatch: pytest.MonkeyPatch, limits: WireLimits, max_connections: int
) -> Iterator[RawClient]:
    monkeypatch.setattr(wire_limits, "LIMITS", limits)
    settings = Settings(memory=True, max_connections=max_connections)
    with running(settings) as ready, closing(RawClient(ready.endpoint)) as raw:
        yield raw


def limited(**seconds: float) -> WireLimits:
    return WireLimits(bytes_in_flight=IN_FLIGHT, tick_seconds=0.1, **seconds)  # type: ignore[arg-type]


def with_limits(**seconds: float) -> pytest.MarkDecorator:
    """The server of the test has these deadlines; the others are those of users."""
    return pytest.mark.parametrize("limits", [limited(**seconds)], ids=[""])


@pytest.fixture
def limits() -> WireLimits:
    return limited()


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch, limits: WireLimits) -> Iterator[RawClient]:
    with slow_server(monkeypatch, limits, 64) as raw:
        yield raw


@contextmanager
def connecting(raw: RawClient) -> Iterator[Connect]:
    """Opens connections, which are closed at the end."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(PlainSocket(raw.endpoint)))


@pytest.fixture
def connect(raw: RawClient) -> Iterator[Connect]:
    with connecting(raw) as opening:
        yield opening


def is_closed(wire: PlainSocket) -> bool:
    """True if the server closes the connection without another response."""
    return wire.reply() is None


# Bodies ------------------------------------------------------------------------------------------


@with_limits(body_idle_seconds=0.3, discard_seconds=0.3)
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


@with_limits(body_seconds=1.5, discard_seconds=0.3)
def test_a_body_that_trickles(connect: Connect) -> None:
    """It makes progress, so that the deadline for the whole body ends it."""
    wire = connect()
    wire.send(wire.request_head("POST", "/dbs", b"content-length: 2000000"))
    with suppress(ConnectionError):
        while not wire.has_reply(within=0.05):
            wire.send(b"x")
    assert_refused(answer(wire), 408, "RequestTimeout")


@with_limits(body_idle_seconds=0.3, discard_seconds=0.3)
def test_tiny_chunks(connect: Connect) -> None:
    wire = connect()
    wire.send(wire.request_head("POST", "/dbs", b"transfer-encoding: chunked"))
    with suppress(ConnectionError):
        wire.send(b"1\r\nx\r\n" * 20_000)
    assert answer(wire).status in (400, 408)


@with_limits(discard_seconds=0.3)
def test_headers_are_authorized_before_the_body(raw: RawClient, connect: Connect) -> None:
    """Without a valid signature no body is kept, and the response does not wait for all of it."""
    wire = connect()
    head = wire.request_head("POST", "/dbs", b"content-length: 2000000")
    wire.send(head.replace(b"type%3Dmaster", b"type%3Dmonster") + b"x" * 1000)
    assert answer(wire).status == 401
    assert is_closed(wire)


@with_limits(discard_seconds=0.3)
@pytest.mark.parametrize("path", ["/nowhere", "/_perseid/nowhere", "/_explorer/nothing"])
def test_the_route_is_found_before_the_body(connect: Connect, path: str) -> None:
    wire = connect()
    wire.send(wire.request_head("POST", path, b"content-length: 2000000") + b"x" * 1000)
    assert answer(wire).status in (404, 405)


@with_limits(discard_seconds=60)
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


def test_bytes_in_flight_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight megabytes are allowed, eight clients send sixteen and then wait."""

    def attempt(factor: int) -> None:
        limits = limited(
            body_idle_seconds=0.3 * factor, pressed_seconds=0.2 * factor, discard_seconds=0.3
        )
        with slow_server(monkeypatch, limits, 64) as raw, connecting(raw) as connect:
            send_too_much(raw, connect)

    repeat_if_slow(attempt)


def send_too_much(raw: RawClient, connect: Connect) -> None:
    """TooSlow if the first bodies are given up, and released, before the last ones arrive."""
    stalled = [connect() for _ in range(8)]
    for wire in stalled:
        wire.send(wire.request_head("POST", "/dbs", b"content-length: 2000001") + b"x" * 2_000_000)
    assert raw.get("/").status == 200
    small = raw.post("/dbs", {"id": "small"})
    replies = [answer(wire) for wire in stalled]
    assert {reply.status for reply in replies} <= {408, 429}
    refused = [reply for reply in replies if reply.status == 429]
    assert len(refused) < 8
    for reply in refused:
        assert "bytes of requests" in assert_refused(reply, 429, "TooManyRequests")
        assert int(reply.headers["x-ms-retry-after-ms"]) > 0
    large = raw.post("/dbs", {"id": "large", "x": "y" * 2_000_000})
    if len(refused) < 4 or 408 in (small.status, large.status):
        raise TooSlow(f"{len(refused)} refused; {small}, {large}")
    assert (small.status, large.status) == (201, 201)  # everything has been released


# Responses ---------------------------------------------------------------------------------------


@pytest.fixture
def pages(raw: RawClient) -> str:
    return create_pages(raw)


def create_pages(raw: RawClient) -> str:
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
def test_connections_that_do_not_read_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(factor: int) -> None:
        limits = limited(response_idle_seconds=0.5 * factor, response_seconds=3 * factor)
        with slow_server(monkeypatch, limits, 64) as raw, connecting(raw) as connect:
            pages = create_pages(raw)
            wire = connect()
            wire.limit_receive_buffer()
            wire.send_request("GET", pages, {"x-ms-max-item-count": "-1"})
            port = int(raw.endpoint.rstrip("/").rpartition(":")[2])
            while (wire.address, "http") in (open_connections({port: "http"}) or {}):
                assert raw.get("/").status == 200
            for _ in range(20):  # its bytes are no longer in flight
                with slow_if(OSError, HTTPException):  # not read in time
                    reply = raw.get(pages, x_ms_max_item_count="-1")
                assert reply.status == 200

    repeat_if_slow(attempt)


def test_large_responses_that_are_read(raw: RawClient, pages: str) -> None:
    """Each response counts until it is read, and then no longer."""
    clients = [RawClient(raw.endpoint) for _ in range(8)]
    for _ in range(3):
        for client in clients:
            assert len(client.get(pages, x_ms_max_item_count="-1").body) > 2 * MEGABYTE
    for client in clients:
        client.close()


# Connections -------------------------------------------------------------------------------------


@with_limits(header_seconds=0.5, pressed_seconds=0.2)
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

    def attempt(factor: int) -> None:
        limits = WireLimits(header_seconds=600, pressed_seconds=0.2 * factor)
        with slow_server(monkeypatch, limits, 16) as raw, connecting(raw) as connect:
            for _ in range(40):
                with suppress(ConnectionError):  # closed before it says anything
                    connect().send(start)
            with closing(RawClient(raw.endpoint)) as other, slow_if(OSError, HTTPException):
                assert json.loads(other.get("/").body)["id"]

    repeat_if_slow(attempt)
