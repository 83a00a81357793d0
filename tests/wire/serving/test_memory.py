"""What stalling clients make a server process hold, compared with what they send or ask for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.processes import ServerProcess, server_process
from tests.support.sockets import PlainSocket
from tests.support.stores import Place

pytestmark = [
    pytest.mark.only_on("sqlite", reason="the store is not involved"),
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

MEGABYTE = 1_000_000
SHORT_BY_ONE = 2_100_000 - 1


@pytest.fixture
def process(place: Place) -> Iterator[ServerProcess]:
    with server_process(place.lasting()) as started:
        assert started.raw.get("/").status == 200
        yield started


@pytest.fixture
def sockets(process: ServerProcess) -> Iterator[list[PlainSocket]]:
    """Connections of the attack: the test opens them, they are closed after it."""
    opened: list[PlainSocket] = []
    yield opened
    for wire in opened:
        wire.close()


def memory(process: ServerProcess) -> int:
    """Bytes that the process has in memory."""
    status = Path(f"/proc/{process.child.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def assert_serves(process: ServerProcess) -> None:
    """Others are served, and what was sent before has been noticed."""
    for _ in range(20):
        assert process.raw.get("/").status == 200


@pytest.mark.parametrize("framing", [b"content-length: 2100000", b"transfer-encoding: chunked"])
def test_bodies_that_are_not_complete(
    process: ServerProcess, sockets: list[PlainSocket], framing: bytes
) -> None:
    before = memory(process)
    count = 250
    for _ in range(count):
        sockets.append(wire := PlainSocket(process.endpoint))
        head = wire.request_head("POST", "/dbs", framing)
        chunk = b"%x\r\n" % (SHORT_BY_ONE + 1) if b"chunked" in framing else b""
        with suppress(ConnectionError):
            wire.send(head + chunk + b"x" * SHORT_BY_ONE)
    assert_serves(process)
    # Usually a third of what was sent; on a busy machine buffers are freed later.
    assert memory(process) - before < count * SHORT_BY_ONE * 3 / 4


def test_bodies_without_a_signature(process: ServerProcess, sockets: list[PlainSocket]) -> None:
    before = memory(process)
    count = 100
    for _ in range(count):
        sockets.append(wire := PlainSocket(process.endpoint))
        head = wire.request_head("POST", "/dbs", b"content-length: 2100000")
        wire.send(head.replace(b"type%3Dmaster", b"type%3Dmonster") + b"x" * SHORT_BY_ONE)
    assert_serves(process)
    assert memory(process) - before < count * SHORT_BY_ONE / 4


def test_bodies_in_segments_of_one_byte(process: ServerProcess, sockets: list[PlainSocket]) -> None:
    before = memory(process)
    for _ in range(40):
        sockets.append(wire := PlainSocket(process.endpoint))
        wire.send_segments_immediately()
        wire.send(wire.request_head("POST", "/dbs", b"content-length: 2000000"))
    for _ in range(300):
        for wire in sockets:
            wire.send(b"x")
        assert process.raw.get("/").status == 200  # so that each byte has been received by itself
    assert memory(process) - before < len(sockets) * 300 * 1000  # a kilobyte for each byte


def test_pages_that_are_not_read(process: ServerProcess, sockets: list[PlainSocket]) -> None:
    raw = process.raw
    raw.post("/dbs", {"id": "d"})
    raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    docs = "/dbs/d/colls/c/docs"
    for number in range(4):
        item = {"id": str(number), "pk": "a", "x": "y" * MEGABYTE}
        assert raw.post(docs, item, pk='["a"]').status == 201
    assert raw.post(docs, {"id": "small", "pk": "a"}, pk='["a"]').status == 201
    before = memory(process)
    count = 150
    for _ in range(count):
        sockets.append(wire := PlainSocket(process.endpoint))
        wire.limit_receive_buffer()
        wire.send_request("GET", docs, {"x-ms-max-item-count": "-1"})
    statuses = {wire.read_head()[0] for wire in sockets}
    assert statuses <= {200, 429}
    assert raw.get(f"{docs}/small", pk='["a"]').status == 200
    assert memory(process) - before < count * 4 * MEGABYTE / 2


def test_headers_that_are_not_complete(process: ServerProcess, sockets: list[PlainSocket]) -> None:
    before = memory(process)
    count = 200
    for _ in range(count):
        sockets.append(wire := PlainSocket(process.endpoint))
        with suppress(ConnectionError):
            wire.send(b"GET / HTTP/1.1\r\nx-long: " + b"x" * 500_000)
    assert_serves(process)
    assert memory(process) - before < count * 500_000 / 2
