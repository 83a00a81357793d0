"""HTTP/2 on the same port as HTTP/1.1: what differs, and the limits that hold for streams."""

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
from tests.support.binary_json import BinaryWriter
from tests.support.builders import PARTITION_KEY
from tests.support.http2 import Http2Client
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.sockets import PlainSocket
from tests.support.waiting import TooSlow, repeat_if_slow, slow_if, until
from tests.wire.bad_requests.refusals import assert_refused

pytestmark = pytest.mark.only_on("sqlite", reason="the store is not involved")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the system must tell")

MEGABYTE = 1 << 20
KEY = '["a"]'
STREAMS = 32  # of a connection
IN_FLIGHT = 8 * MEGABYTE
Connect = Callable[..., Http2Client]


@contextmanager
def server(
    monkeypatch: pytest.MonkeyPatch, limits: WireLimits, max_connections: int = 64
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
    with server(monkeypatch, limits) as raw:
        yield raw


@pytest.fixture
def connect(raw: RawClient) -> Iterator[Connect]:
    """Opens connections, which are closed after the test."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(closing(Http2Client(raw.endpoint, **options)))


@pytest.fixture
def docs(raw: RawClient) -> str:
    return create_docs(raw)


@pytest.fixture
def pages(raw: RawClient) -> str:
    return create_pages(raw)


def create_docs(raw: RawClient) -> str:
    raw.post("/dbs", {"id": "d"})
    raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    return "/dbs/d/colls/c/docs"


def create_pages(raw: RawClient) -> str:
    """The path of a feed whose page has two megabytes."""
    docs = create_docs(raw)
    for number in range(2):
        item = {"id": str(number), "pk": "a", "x": "y" * MEGABYTE}
        assert raw.post(docs, item, pk=KEY).status == 201
    assert raw.post(docs, {"id": "small", "pk": "a"}, pk=KEY).status == 201
    return docs


# What differs ------------------------------------------------------------------------------------


def test_the_account_has_the_address_of_the_request(connect: Connect) -> None:
    client = connect()
    port = client.authority.rpartition(":")[2]
    stream = client.open("GET", "/", end=True, authority=f"other.localhost:{port}")
    locations = client.reply(stream).json["writableLocations"]
    assert locations[0]["databaseAccountEndpoint"] == f"http://other.localhost:{port}/"


def test_the_authority_replaces_a_host_header(connect: Connect) -> None:
    client = connect()
    stream = client.open("GET", "/", {"host": "attacker.example"}, end=True)
    endpoint = client.reply(stream).json["writableLocations"][0]["databaseAccountEndpoint"]
    assert endpoint == f"http://{client.authority}/"


def test_names_of_other_sites_are_refused(connect: Connect) -> None:
    client = connect()
    stream = client.open("GET", "/", end=True, authority="attacker.example:8081")
    assert "attacker.example" in assert_refused(client.reply(stream), 403, "Forbidden")


@pytest.mark.parametrize("announced", [True, False], ids=["content-length", "no length"])
@pytest.mark.parametrize("size", [0, 100, 9_000, 20_000, 1_500_000])
def test_bodies(connect: Connect, docs: str, size: int, *, announced: bool) -> None:
    body = json.dumps({"id": "1", "pk": "a", "x": "y" * size}).encode()
    headers = {"x-ms-documentdb-partitionkey": KEY}
    if announced:
        headers["content-length"] = str(len(body))
    client = connect()
    stream = client.open("POST", docs, headers)
    client.send(stream, body, end=True)
    assert client.reply(stream).status == 201
    reply = client.request("GET", f"{docs}/1", x_ms_documentdb_partitionkey=KEY)
    assert len(reply.json["x"]) == size
    assert int(reply.headers["content-length"]) == len(reply.body)


def test_empty_pieces_are_not_the_end(connect: Connect, docs: str) -> None:
    client = connect()
    stream = client.open("POST", docs, {"x-ms-documentdb-partitionkey": KEY})
    for piece in (b"", b'{"id":"1",', b"", b"", b'"pk":"a"}', b""):
        client.protocol.send_data(stream, piece)
    client.send(stream, b"", end=True)
    assert client.reply(stream).status == 201


def test_a_post_without_a_body(connect: Connect, docs: str) -> None:
    reply = connect().request("POST", docs, x_ms_documentdb_partitionkey=KEY)
    assert "body is empty" in assert_refused(reply, 400, "BadRequest")


def test_a_delete_without_a_body(raw: RawClient, connect: Connect, docs: str) -> None:
    raw.post(docs, {"id": "1", "pk": "a"}, pk=KEY)
    reply = connect().request("DELETE", f"{docs}/1", x_ms_documentdb_partitionkey=KEY)
    assert (reply.status, reply.body) == (204, b"")


def test_a_body_in_binary(connect: Connect, docs: str) -> None:
    body = BinaryWriter(1).write({"id": "1", "pk": "a", "n": 1.5})
    reply = connect().request("POST", docs, body, x_ms_documentdb_partitionkey=KEY)
    assert (reply.status, reply.json["n"]) == (201, 1.5)


def test_streams_are_answered_side_by_side(connect: Connect, docs: str) -> None:
    client = connect()
    waiting = client.open("POST", docs, {"x-ms-documentdb-partitionkey": KEY})
    assert client.request("GET", "/").status == 200
    client.send(waiting, b'{"id":"1","pk":"a"}', end=True)
    assert client.reply(waiting).status == 201


def test_a_stream_that_is_reset_writes_nothing(raw: RawClient, connect: Connect, docs: str) -> None:
    client = connect()
    stream = client.open("POST", docs, {"x-ms-documentdb-partitionkey": KEY})
    client.send(stream, b'{"id":"1","pk":"a","x":')
    client.protocol.reset_stream(stream)
    client.flush()
    assert client.request("GET", "/").status == 200
    assert raw.get(docs).json["_count"] == 0


def test_large_pages(connect: Connect, pages: str) -> None:
    client = connect()
    streams = [client.open("GET", pages, {"x-ms-max-item-count": "-1"}, end=True) for _ in range(3)]
    for stream in streams:
        assert client.reply(stream).json["_count"] == 3


# Slow and greedy clients -------------------------------------------------------------------------


@with_limits(body_idle_seconds=0.3)
@pytest.mark.parametrize("length", [None, "100", "2000000"])
def test_a_body_that_does_not_arrive(raw: RawClient, connect: Connect, length: str | None) -> None:
    client = connect()
    stream = client.open("POST", "/dbs", {} if length is None else {"content-length": length})
    client.send(stream, b'{"id":')
    message = assert_refused(client.reply(stream), 408, "RequestTimeout")
    assert "did not arrive in time" in message
    assert raw.get("/").status == 200


@with_limits(body_seconds=1.5)
def test_a_body_that_trickles(connect: Connect) -> None:
    client = connect()
    stream = client.open("POST", "/dbs")
    client.socket.settimeout(0.05)
    while stream not in client.answered:
        client.send(stream, b"x")
        with suppress(TimeoutError):
            client.receive()
    assert client.status(stream) == 408


@with_limits(body_idle_seconds=0.3, body_seconds=1.5)
def test_tiny_pieces(raw: RawClient, connect: Connect) -> None:
    """The listener or the application ends it; both are fine."""
    client = connect()
    stream = client.open("POST", "/dbs")
    with suppress(ConnectionError, TimeoutError):
        for _ in range(20_000):
            client.send(stream, b"x")
        assert client.status(stream) in (400, 408)
    assert raw.get("/").status == 200


def test_a_body_without_end(connect: Connect) -> None:
    client = connect()
    stream = client.open("POST", "/dbs")
    with suppress(ConnectionError):
        for _ in range(400):
            client.send(stream, b"x" * 16384)
            if stream in client.answered or stream in client.resets:
                break
    assert client.status(stream) == 413


@pytest.mark.parametrize("size", [0, 1000, 2_000_000])
def test_refused_streams_are_answered_at_once(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Without a valid signature no body is awaited, and the connection stays in use."""
    limits = WireLimits(discard_seconds=600, discard_bytes=64 * MEGABYTE)
    with server(monkeypatch, limits) as raw, closing(Http2Client(raw.endpoint)) as client:
        for _ in range(3):
            stream = client.open("POST", "/dbs", signed=False)
            with suppress(ConnectionError):
                client.send(stream, b"x" * size)
            assert client.reply(stream).status == 401
            assert client.request("GET", "/").status == 200


def test_bytes_in_flight_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight megabytes are allowed; streams of one connection send sixteen and then wait."""

    def attempt(factor: int) -> None:
        limits = limited(body_idle_seconds=0.3 * factor, pressed_seconds=0.2 * factor)
        with server(monkeypatch, limits) as raw, closing(Http2Client(raw.endpoint)) as client:
            streams = []
            for _ in range(8):
                stream = client.open("POST", "/dbs", {"content-length": "2000001"})
                streams.append(stream)
                with suppress(ConnectionError):
                    client.send(stream, b"x" * 2_000_000)
            assert raw.get("/").status == 200
            statuses = [client.reply(stream).status for stream in streams]
            assert set(statuses) <= {408, 429}
            large = raw.post("/dbs", {"id": "large", "x": "y" * 2_000_000})
            if large.status == 408:
                raise TooSlow(f"{large}")
            assert large.status == 201

    repeat_if_slow(attempt)


def test_streams_count_as_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in progress are limited, however few connections they share."""
    limits = WireLimits(body_idle_seconds=60)
    with server(monkeypatch, limits, 10) as raw, closing(Http2Client(raw.endpoint)) as client:
        streams = [client.open("POST", "/dbs") for _ in range(30)]
        while len(client.answered) < 20:
            client.receive()
        for stream in client.answered:
            reply = client.reply(stream)
            assert "as many requests as it may" in assert_refused(reply, 429, "TooManyRequests")
            assert int(reply.headers["x-ms-retry-after-ms"]) > 0
        for stream in set(streams) - set(client.answered):
            client.send(stream, b"{}", end=True)
            assert client.reply(stream).status == 400
        assert client.request("GET", "/").status == 200


def test_streams_of_a_closed_connection_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their requests are no longer in progress, whatever time a body has."""
    limits = WireLimits(body_idle_seconds=600, body_seconds=600)
    with server(monkeypatch, limits, 10) as raw, closing(Http2Client(raw.endpoint)) as other:
        with closing(Http2Client(raw.endpoint)) as client:
            for _ in range(10):
                stream = client.open("POST", "/dbs")
                client.send(stream, b'{"id":')
            assert client.request("GET", "/").status == 429
        until(lambda: other.request("GET", "/").status != 429)
        assert other.request("GET", "/").status == 200


@needs_linux
@pytest.mark.parametrize("window", [0, 1000])
def test_unread_responses_are_limited(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """The system sees no unread bytes: the client allows none to be sent."""

    def attempt(factor: int) -> None:
        limits = limited(response_idle_seconds=0.5 * factor, pressed_seconds=0.2 * factor)
        with (
            server(monkeypatch, limits) as raw,
            closing(Http2Client(raw.endpoint, window=window)) as client,
        ):
            leave_unread(raw, client)

    repeat_if_slow(attempt)


def leave_unread(raw: RawClient, client: Http2Client) -> None:
    """TooSlow if the connection is closed before every stream is answered."""
    pages = create_pages(raw)
    all_items = {"x-ms-max-item-count": "-1"}
    with slow_if(ConnectionError):
        streams = [client.open("GET", pages, all_items, end=True) for _ in range(12)]
        statuses = [client.status(stream) for stream in streams]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= 4
    assert raw.get(f"{pages}/small", pk=KEY).status == 200
    port = int(raw.endpoint.rstrip("/").rpartition(":")[2])
    while (client.address, "http") in (open_connections({port: "http"}) or {}):
        assert raw.get("/").status == 200
    for _ in range(20):  # its bytes are no longer in flight
        with slow_if(OSError, HTTPException):  # not read in time
            reply = raw.get(pages, x_ms_max_item_count="-1")
        assert reply.status == 200


def ask_at_once(client: Http2Client, path: str) -> list[int]:
    """Asks for a page on every stream of a connection; they arrive together."""
    headers = {"x-ms-max-item-count": "-1"}
    streams = [client.open("GET", path, headers, end=True, flush=False) for _ in range(STREAMS)]
    client.flush()
    return streams


def test_pages_without_room_are_not_read(raw: RawClient, connect: Connect, pages: str) -> None:
    """A response about items names the session of its container; a page that is not read cannot."""
    for _ in range(3):
        with closing(Http2Client(raw.endpoint, window=0)) as client:
            streams = ask_at_once(client, pages)
            assert {client.status(stream) for stream in streams} <= {200, 429}
            read = [head for head in client.answered.values() if "x-ms-session-token" in head]
            assert len(read) <= IN_FLIGHT // MEGABYTE


def test_many_pages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that read their responses get all of them."""
    with server(monkeypatch, WireLimits(), 1024) as raw, ExitStack() as opened:
        raw.post("/dbs", {"id": "d"})
        raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
        raw.post("/dbs/d/colls/c/docs", {"id": "1", "pk": "a", "x": "y" * 60_000}, pk=KEY)
        clients = [opened.enter_context(closing(Http2Client(raw.endpoint))) for _ in range(3)]
        asked = [(client, ask_at_once(client, "/dbs/d/colls/c/docs")) for client in clients]
        for client, streams in asked:
            assert {client.reply(stream).status for stream in streams} == {200}


def test_small_responses_that_are_not_read_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is smaller than what counts on HTTP/1.1, where a connection has one at a time."""
    limits = WireLimits(bytes_in_flight=4 * MEGABYTE, pressed_seconds=60)
    with server(monkeypatch, limits) as raw, ExitStack() as opened:
        raw.post("/dbs", {"id": "d"})
        raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
        raw.post("/dbs/d/colls/c/docs", {"id": "1", "pk": "a", "x": "y" * 60_000}, pk=KEY)
        statuses = []
        for _ in range(5):
            client = opened.enter_context(closing(Http2Client(raw.endpoint, window=0)))
            for _ in range(STREAMS):
                headers = {"x-ms-documentdb-partitionkey": KEY}
                stream = client.open("GET", "/dbs/d/colls/c/docs/1", headers, end=True)
                statuses.append(client.status(stream))
        assert set(statuses) == {200, 429}
        assert statuses.count(200) * 60_000 < limits.bytes_in_flight
        small = raw.get("/dbs/d/colls/c/docs/1", pk=KEY)
        assert small.status == 200  # on a connection without such responses


def test_streams_of_a_connection_are_limited(raw: RawClient, connect: Connect) -> None:
    client = connect()
    client.request("GET", "/")
    assert client.protocol.remote_settings.max_concurrent_streams == STREAMS


def test_rapid_resets(raw: RawClient, connect: Connect) -> None:
    client = connect()
    client.request("GET", "/")
    with suppress(ConnectionError, OSError):
        for _ in range(5000):
            stream = client.open("GET", "/dbs", end=True)
            client.protocol.reset_stream(stream)
            client.flush()
    assert raw.get("/").status == 200
    assert connect().request("GET", "/").status == 200


@pytest.mark.parametrize("size", [66_000, 80_000])
def test_headers_that_are_too_long(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The application refuses what is a little too long, the listener what is longer."""
    limits = WireLimits()  # the client needs more than a second to write such headers
    with server(monkeypatch, limits) as raw, closing(Http2Client(raw.endpoint)) as client:
        stream = client.open("GET", "/dbs", {"x-long": "x" * size}, end=True)
        assert client.status(stream) == 431
        assert client.request("GET", "/").status == 200


def test_continuations_without_end(raw: RawClient, connect: Connect) -> None:
    client = connect()
    client.request("GET", "/")
    continuation = (
        (16384).to_bytes(3, "big") + b"\x09\x00" + (3).to_bytes(4, "big") + b"\x00" * 16384
    )
    head = (0).to_bytes(3, "big") + b"\x01\x00" + (3).to_bytes(4, "big")
    with suppress(OSError):
        client.socket.sendall(head)
        for _ in range(1000):
            client.socket.sendall(continuation)
    with suppress(OSError):
        while not client.closed:
            client.receive()
    assert client.closed
    assert raw.get("/").status == 200


# Connections -------------------------------------------------------------------------------------


@needs_linux
@with_limits(header_seconds=0.6, pressed_seconds=0.2)
@pytest.mark.parametrize(
    "start",
    [b"", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01"],
    ids=["nothing", "half a preface", "a preface", "TLS"],
)
def test_connections_that_say_nothing_are_closed(raw: RawClient, start: bytes) -> None:
    with closing(PlainSocket(raw.endpoint)) as wire:
        wire.send(start)
        with suppress(ConnectionError):  # a timeout is a failure
            while wire._socket.recv(4096):
                pass


def test_connections_that_answer_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server asks idle clients whether they are there."""

    def attempt(factor: int) -> None:
        limits = limited(header_seconds=0.6 * factor, pressed_seconds=0.2 * factor)
        with server(monkeypatch, limits) as raw, closing(Http2Client(raw.endpoint)) as client:
            client.socket.settimeout(0.1 * factor)
            for _ in range(15):  # more than twice the time that a silent connection has
                with suppress(TimeoutError):
                    client.receive()
            client.socket.settimeout(client.timeout)
            with slow_if(ConnectionError):
                assert client.request("GET", "/").status == 200

    repeat_if_slow(attempt)
