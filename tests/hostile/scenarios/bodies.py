"""Bodies that arrive slowly or without end, and answers that no client reads."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from typing import Final

from tests.hostile.attack import MEGABYTES_2, Attack, Scenario, calm
from tests.support.raw import RawClient
from tests.support.sockets import PlainSocket

SOCKETS: Final = 500
UNREAD: Final = 300
# A server may take its time to give up, but not more than this.
OPEN_SECONDS: Final = 40.0
CHUNK: Final = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
MOST_CHUNKS: Final = 3000  # of one client: 196 MB


@contextlib.contextmanager
def _held(attack: Attack) -> Iterator[list[PlainSocket]]:
    """Sockets that stay open until the end; counts what became of them."""
    held: list[PlainSocket] = []
    started = time.monotonic()
    try:
        yield held
        attack.rest()
        open_count = sum(not _count_answer(attack, each) for each in held)
        attack.tally.add_all("open", open_count)
        if open_count and time.monotonic() - started > OPEN_SECONDS:
            example = f"{open_count} of {len(held)} connections"
            attack.tally.fail(f"still open after {OPEN_SECONDS:.0f} s", example)
    finally:
        for each in held:
            each.close()


def _count_answer(attack: Attack, plain: PlainSocket) -> bool:
    """True if the server has answered or closed the connection."""
    if not plain.has_reply():
        return False
    try:
        reply = plain.reply()
    except (OSError, ValueError):
        reply = None
    if reply is None:
        attack.tally.add_closed()
    else:
        attack.tally.add("slow body", reply)
    return True


def _connect(attack: Attack, timeout: float = 2.0) -> PlainSocket | None:
    """None if the server accepts no more connections."""
    try:
        plain = PlainSocket(attack.endpoint)
    except OSError:
        attack.tally.add_closed()
        time.sleep(0.05)
        return None
    plain._socket.settimeout(timeout)
    return plain


def _head(plain: PlainSocket, attack: Attack, *lines: bytes, signed: bool = True) -> bytes:
    lines = (b'x-ms-documentdb-partitionkey: ["a"]', b"content-type: application/json", *lines)
    if signed:
        return plain.request_head("POST", attack.docs, *lines)
    start = f"POST {attack.docs} HTTP/1.1\r\nHost: {plain.host}\r\n".encode()
    return start + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def _slow_bodies(attack: Attack) -> None:
    """Each body is one byte short; every second request is not even signed."""
    calm()
    body = b'{"id":"1","pk":"a","x":"' + b"x" * (MEGABYTES_2 - 2000)
    length = f"content-length: {len(body) + 1}".encode()
    with _held(attack) as held:
        for number in range(SOCKETS):
            if attack.is_over:
                break
            plain = _connect(attack)
            if plain is None:
                continue
            held.append(plain)
            with contextlib.suppress(OSError):  # refused early, or not read: both are fine
                plain.send(_head(plain, attack, length, signed=bool(number % 2)) + body)


def _slow_headers(attack: Attack) -> None:
    """Requests whose headers never end, and connections on which nothing is sent."""
    calm()
    with _held(attack) as held:
        for number in range(2 * SOCKETS):
            if attack.is_over:
                break
            plain = _connect(attack)
            if plain is None:
                continue
            held.append(plain)
            if number % 2:
                with contextlib.suppress(OSError):
                    plain.send(b"GET /dbs HTTP/1.1\r\nHost: x\r\nx-long: " + b"x" * 8000)


def _endless_bodies(attack: Attack) -> None:
    """Chunks that never end, from clients with and without a signature."""

    def pour(number: int) -> None:
        calm()
        while not attack.is_over:
            plain = _connect(attack, timeout=10.0)
            if plain is None:
                continue
            head = _head(plain, attack, b"transfer-encoding: chunked", signed=bool(number % 2))
            with contextlib.closing(plain):
                with contextlib.suppress(OSError):  # it may answer before it closes
                    plain.send(head)
                    for _ in range(MOST_CHUNKS):
                        if attack.is_over or plain.has_reply():
                            break
                        plain.send(CHUNK)
                if not _count_answer(attack, plain):
                    attack.tally.add_all("open", 1)

    attack.parallel(20, pour)


def _tiny_segments(attack: Attack) -> None:
    """Bodies of 2 MB, each byte in a segment and a chunk of its own."""

    def drip(number: int) -> None:
        calm()
        plains = [each for each in (_connect(attack) for _ in range(25)) if each is not None]
        try:
            for plain in plains:
                plain._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.send(_head(plain, attack, b"transfer-encoding: chunked", signed=number > 0))
            while plains and not attack.is_over:
                plains = [each for each in plains if _drop(attack, each)]
        finally:
            attack.tally.add_all("open", len(plains))
            for plain in plains:
                plain.close()

    attack.parallel(2, drip)


def _drop(attack: Attack, plain: PlainSocket) -> bool:
    """Sends some bytes, each by itself; False if the connection is no more."""
    try:
        for _ in range(20):
            plain.send(b"1\r\nx\r\n")
        has_ended = _count_answer(attack, plain)
    except OSError:
        attack.tally.add_closed()
        has_ended = True
    if has_ended:
        plain.close()
    return not has_ended


def prepare_pages(raw: RawClient, container: str) -> None:
    """Pages of 4 MB."""
    for number in range(5):
        body = {"id": str(number), "pk": "a", "text": "x" * 1_000_000}
        assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201


def _unread_pages(attack: Attack) -> None:
    calm()
    with _held(attack) as held:
        for _ in range(UNREAD):
            if attack.is_over:
                break
            plain = _connect(attack)
            if plain is None:
                continue
            held.append(plain)
            plain._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(OSError):
                plain.send(plain.request_head("GET", attack.docs, b"x-ms-max-item-count: -1"))
        attack.rest()
        for plain in held:  # the answer that has begun is not read to its end
            if select.select([plain._socket], [], [], 0)[0]:
                attack.tally.add_all("begun", 1)
            plain.close()
        held.clear()


BODIES: Final = (
    Scenario("slow-bodies", f"{SOCKETS} sockets, one byte short of 2 MB each", _slow_bodies),
    Scenario(
        "slow-headers",
        f"{2 * SOCKETS:,} sockets, of which half send headers without end, the others nothing",
        _slow_headers,
    ),
    Scenario("endless-bodies", "chunked bodies without end", _endless_bodies),
    Scenario("tiny-segments", "chunked bodies, one byte in each segment", _tiny_segments),
    Scenario(
        "unread-pages",
        f"{UNREAD} clients that do not read their pages of 4 MB",
        _unread_pages,
        prepare_pages,
    ),
)
