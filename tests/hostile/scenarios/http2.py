"""The attacks of `bodies` on streams of HTTP/2, and those that only HTTP/2 knows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import h2.exceptions
from h2.settings import SettingCodes

from tests.hostile.attack import MEGABYTES_2, PK, Attack, Scenario, calm
from tests.hostile.scenarios.bodies import prepare_pages
from tests.support.http2 import Http2Client

CONNECTIONS: Final = 40
STREAMS: Final = 32  # of a connection; the server allows no more
# What ends a stream or a connection that misbehaves.
ENDED: Final = (OSError, h2.exceptions.H2Error, KeyError)


def _connect(attack: Attack, window: int | None = None) -> Http2Client | None:
    """None if the server accepts no more connections."""
    try:
        return Http2Client(attack.endpoint, window=window, timeout=2.0)
    except OSError:
        attack.tally.add_closed()
        attack.stop.wait(0.05)
        return None


@contextlib.contextmanager
def _held(attack: Attack) -> Iterator[list[Http2Client]]:
    """Connections that stay open until the end; counts what was answered on their streams."""
    held: list[Http2Client] = []
    try:
        yield held
        attack.rest()
        for client in held:
            _count(attack, client)
    finally:
        for client in held:
            client.close()


def _count(attack: Attack, client: Http2Client) -> None:
    """Takes what has arrived, and counts the statuses."""
    client.socket.settimeout(0.01)
    with contextlib.suppress(*ENDED):
        while not client.closed:
            client.receive()
    for head in client.answered.values():
        status = head[":status"]
        attack.tally.add_all(status, 1)
        if status.startswith("5"):
            attack.tally.fail(f"status {status}", "a stream of HTTP/2")
    attack.tally.add_all("reset", len(client.resets.keys() - client.answered.keys()))
    attack.tally.add_all("open", client.opened - len(client.answered.keys() | client.resets.keys()))
    if client.closed:
        attack.tally.add_closed()


def _on_streams(
    attack: Attack, work: Callable[[Http2Client, int], None], window: int | None = None
) -> None:
    """Lets every stream of many connections begin, and holds all of them until the end."""
    calm()
    with _held(attack) as held:
        for _ in range(CONNECTIONS):
            client = None if attack.is_over else _connect(attack, window)
            if client is None:
                continue
            held.append(client)
            for number in range(STREAMS):
                if not attack.is_over and not client.closed:
                    with contextlib.suppress(*ENDED):  # a stream that was refused early
                        work(client, number)


def _slow_bodies(attack: Attack) -> None:
    """Each body is one byte short; every second request is not even signed."""
    body = b'{"id":"1","pk":"a","x":"' + b"x" * (MEGABYTES_2 - 2000)

    def begin(client: Http2Client, number: int) -> None:
        headers = PK | {"content-length": str(len(body) + 1)}
        stream = client.open("POST", attack.docs, headers, signed=bool(number % 2))
        client.send(stream, body)

    _on_streams(attack, begin)


def _waiting_bodies(attack: Attack) -> None:
    """Nothing of any body is sent."""

    def begin(client: Http2Client, _number: int) -> None:
        client.open("POST", attack.docs, PK)

    _on_streams(attack, begin)


def _unread_pages(attack: Attack) -> None:
    """The clients allow not a byte of their pages."""

    def ask(client: Http2Client, _number: int) -> None:
        client.open("GET", attack.docs, {"x-ms-max-item-count": "-1"}, end=True)

    _on_streams(attack, ask, window=0)


def _repeat(attack: Attack, work: Callable[[Http2Client], None], window: int | None = None) -> None:
    """Lets clients do something again and again, each on one connection as long as it lasts."""

    def pour(_number: int) -> None:
        calm()
        while not attack.is_over:
            client = _connect(attack, window)
            if client is None:
                continue
            with contextlib.closing(client), contextlib.suppress(*ENDED):
                while not attack.is_over and not client.closed:
                    work(client)
                _count(attack, client)
            attack.tally.add_all("connections", 1)

    attack.parallel(4, pour)


def _endless_bodies(attack: Attack) -> None:
    def send(client: Http2Client) -> None:
        stream = client.open("POST", attack.docs, PK)
        while not attack.is_over and stream not in client.answered and not client.closed:
            client.send(stream, b"x" * 16384)

    _repeat(attack, send)


def _tiny_frames(attack: Attack) -> None:
    def send(client: Http2Client) -> None:
        stream = client.open("POST", attack.docs, PK)
        for number in range(2000):
            client.protocol.send_data(stream, b"x" * (number % 2))
        client.flush()
        client.receive()

    _repeat(attack, send)


def _rapid_resets(attack: Attack) -> None:
    def reset(client: Http2Client) -> None:
        for _ in range(100):
            stream = client.open("GET", attack.docs, end=True)
            client.protocol.reset_stream(stream)
        client.flush()

    _repeat(attack, reset)


def _header_bombs(attack: Attack) -> None:
    """A header that is sent once and then named by one byte, as often as the limit allows."""

    def send(client: Http2Client) -> None:
        named = [("x-long", "x" * 3000)] * 20
        for _ in range(STREAMS):
            stream = int(client.protocol.get_next_available_stream_id())
            head = [(":method", "POST"), (":path", attack.docs), (":scheme", "http")]
            client.protocol.send_headers(stream, [*head, (":authority", "localhost"), *named])
            client.opened += 1
        client.flush()
        client.receive()
        for stream in tuple(client.answered):
            with contextlib.suppress(h2.exceptions.H2Error):
                client.protocol.reset_stream(stream)

    _repeat(attack, send)


def _continuations(attack: Attack) -> None:
    """Headers that never end."""
    frame = (16384).to_bytes(3, "big") + b"\x09\x00" + (1).to_bytes(4, "big") + b"\x00" * 16384

    def send(client: Http2Client) -> None:
        client.socket.sendall((0).to_bytes(3, "big") + b"\x01\x00" + (1).to_bytes(4, "big"))
        for _ in range(1000):
            client.socket.sendall(frame)

    _repeat(attack, send)


def _control_frames(attack: Attack) -> None:
    """Frames that the server has to answer; none of the answers is read."""

    def send(client: Http2Client) -> None:
        for number in range(500):
            client.protocol.ping(number.to_bytes(8, "big"))
            client.protocol.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65535 + number % 2})
        client.flush()

    _repeat(attack, send)


def _small_windows(attack: Attack) -> None:
    """Each client allows its pages to be sent byte by byte."""

    def read(client: Http2Client) -> None:
        headers = {"x-ms-max-item-count": "-1"}
        streams = [client.open("GET", attack.docs, headers, end=True) for _ in range(STREAMS)]
        while not attack.is_over and not client.closed:
            for stream in streams:
                with contextlib.suppress(h2.exceptions.H2Error):
                    client.protocol.increment_flow_control_window(1, stream)
            client.flush()
            client.receive()

    _repeat(attack, read, window=0)


def _abandoned_pages(attack: Attack) -> None:
    """Pages on every stream, of connections that are closed at once."""

    def ask(client: Http2Client) -> None:
        for _ in range(STREAMS):
            headers = {"x-ms-max-item-count": "-1"}
            client.open("GET", attack.docs, headers, end=True, flush=False)
        client.flush()
        raise ConnectionError

    _repeat(attack, ask)


HTTP2: Final = (
    Scenario("h2-slow-bodies", "streams, one byte short of 2 MB each", _slow_bodies),
    Scenario("h2-waiting-bodies", "streams whose bodies never begin", _waiting_bodies),
    Scenario("h2-endless-bodies", "streams whose bodies never end", _endless_bodies),
    Scenario("h2-tiny-frames", "bodies of empty frames and single bytes", _tiny_frames),
    Scenario("h2-rapid-resets", "requests that are cancelled at once", _rapid_resets),
    Scenario("h2-header-bombs", "headers that expand a thousand times", _header_bombs),
    Scenario("h2-continuations", "headers that never end", _continuations),
    Scenario("h2-control-frames", "pings and settings, answers unread", _control_frames),
    Scenario("h2-small-windows", "pages that are read by the byte", _small_windows, prepare_pages),
    Scenario(
        "h2-abandoned-pages",
        "clients that ask for pages of 4 MB and disconnect",
        _abandoned_pages,
        prepare_pages,
        is_met=False,
    ),
    Scenario(
        "h2-unread-pages",
        "clients that allow nothing of their pages of 4 MB to be sent",
        _unread_pages,
        prepare_pages,
    ),
)
