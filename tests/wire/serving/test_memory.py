"""What stalling clients make a server process hold, compared with what they send or ask for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.processes import ServerProcess, server_process
from tests.support.raw import RawClient
from tests.support.sockets import PlainSocket
from tests.support.stores import Stores
from tests.support.waiting import TooSlow, repeat_if_slow, slow_if

pytestmark = [
    pytest.mark.only_on("sqlite", reason="the store is not involved"),
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

DOCS = "/dbs/d/colls/c/docs"
MEGABYTE = 1_000_000
SHORT_BY_ONE = 2_100_000 - 1


Sockets = list[PlainSocket]  # of an attack; they are closed after it
Attack = Callable[[ServerProcess, Sockets], float]


@pytest.fixture
def check_growth(stores: Stores) -> Callable[[Attack], None]:
    """Runs an attack on a server with a few pages; it returns by how many bytes that may grow.

    Memory is read at one moment, and on a busy machine buffers are freed later.
    """

    def attempt(attack: Attack) -> None:
        sockets: Sockets = []
        with stores.place() as place, server_process(place.lasting()) as process:
            create_pages(process.raw)
            before = memory(process)
            try:
                allowed = attack(process, sockets)
                growth = memory(process) - before
            finally:
                for wire in sockets:
                    wire.close()
        if growth >= allowed:
            raise TooSlow(f"{growth} bytes more, {allowed} are allowed")

    return lambda attack: repeat_if_slow(lambda _: attempt(attack))


def create_pages(raw: RawClient) -> None:
    raw.post("/dbs", {"id": "d"})
    raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    for number in range(4):
        item = {"id": str(number), "pk": "a", "x": "y" * MEGABYTE}
        assert raw.post(DOCS, item, pk='["a"]').status == 201
    assert raw.post(DOCS, {"id": "small", "pk": "a"}, pk='["a"]').status == 201


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
    check_growth: Callable[[Attack], None], framing: bytes
) -> None:
    count = 250

    def attack(process: ServerProcess, sockets: Sockets) -> float:
        for _ in range(count):
            sockets.append(wire := PlainSocket(process.endpoint))
            head = wire.request_head("POST", "/dbs", framing)
            chunk = b"%x\r\n" % (SHORT_BY_ONE + 1) if b"chunked" in framing else b""
            with suppress(ConnectionError):
                wire.send(head + chunk + b"x" * SHORT_BY_ONE)
        assert_serves(process)
        return count * SHORT_BY_ONE * 3 / 4  # usually a third of what was sent

    check_growth(attack)


def test_bodies_without_a_signature(check_growth: Callable[[Attack], None]) -> None:
    count = 100

    def attack(process: ServerProcess, sockets: Sockets) -> float:
        for _ in range(count):
            sockets.append(wire := PlainSocket(process.endpoint))
            head = wire.request_head("POST", "/dbs", b"content-length: 2100000")
            # Closed early if the server has to wait for the body for so long.
            with suppress(ConnectionError):
                wire.send(head.replace(b"type%3Dmaster", b"type%3Dmonster") + b"x" * SHORT_BY_ONE)
        assert_serves(process)
        return count * SHORT_BY_ONE / 2  # usually an eighth of what was sent

    check_growth(attack)


def test_bodies_in_segments_of_one_byte(check_growth: Callable[[Attack], None]) -> None:
    def attack(process: ServerProcess, sockets: Sockets) -> float:
        for _ in range(40):
            sockets.append(wire := PlainSocket(process.endpoint))
            wire.send_segments_immediately()
            wire.send(wire.request_head("POST", "/dbs", b"content-length: 2000000"))
        for _ in range(300):
            with slow_if(ConnectionError):  # the server waits ten seconds for the next byte
                for wire in sockets:
                    wire.send(b"x")
            assert process.raw.get("/").status == 200  # so that each byte is received by itself
        return len(sockets) * 300 * 1000  # a kilobyte for each byte

    check_growth(attack)


def test_pages_that_are_not_read(check_growth: Callable[[Attack], None]) -> None:
    count = 150

    def attack(process: ServerProcess, sockets: Sockets) -> float:
        for _ in range(count):
            sockets.append(wire := PlainSocket(process.endpoint))
            wire.limit_receive_buffer()
            wire.send_request("GET", DOCS, {"x-ms-max-item-count": "-1"})
        with slow_if(ConnectionError, IndexError):  # closed before it was answered
            statuses = {wire.read_head()[0] for wire in sockets}
        assert statuses <= {200, 429}
        assert process.raw.get(f"{DOCS}/small", pk='["a"]').status == 200
        return count * 4 * MEGABYTE / 2

    check_growth(attack)


def test_headers_that_are_not_complete(check_growth: Callable[[Attack], None]) -> None:
    count = 200

    def attack(process: ServerProcess, sockets: Sockets) -> float:
        for _ in range(count):
            sockets.append(wire := PlainSocket(process.endpoint))
            with suppress(ConnectionError):
                wire.send(b"GET / HTTP/1.1\r\nx-long: " + b"x" * 500_000)
        assert_serves(process)
        return count * 500_000 / 2

    check_growth(attack)
