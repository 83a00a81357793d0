"""Clients that do not read their responses, and idle connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]

from perseid.http.bytes_in_flight import BytesInFlight
from perseid.http.connections import (
    ClientConnection,
    ConnectionKey,
    close,
    count_descriptors,
    open_connections,
)
from perseid.http.headers import CONTENT_LENGTH
from perseid.http.request import Response
from perseid.http.wire_limits import WireLimits
from perseid.shared_timer import SharedTimer

# Smaller responses are not watched: all connections together cannot hold many of them.
LARGE_RESPONSE: Final = 64 * 1024
# Of HTTP/2, where a connection has many responses at a time. The listener takes one piece after the
# other as the client allows, and keeps no more than one or two of them itself.
LARGE_STREAM: Final = 4 * 1024
_PIECE: Final = 32 * 1024
# What a page is expected to need while it is read: less than the largest page, because most are
# small, but so much that only some of many streams read pages which are then refused.
_EXPECTED_PAGE: Final = 1024 * 1024
_NEARLY_ALL: Final = 0.9  # the share of connections from which on idle ones are closed


class _UnreadResponse:
    """A large response that its client may not have read yet."""

    __slots__ = ("acknowledged", "seconds", "seconds_idle", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.acknowledged = -1
        self.seconds = self.seconds_idle = 0.0


class UnreadResponses:
    """Counts large responses as bytes in flight until they are read; closes stalled connections.

    The count may include responses that have been read since the last look at the connections, so
    `make_room` looks again before it refuses one. Only the listener knows what the client of an
    HTTP/2 stream has taken: the operating system sees no bytes while the client allows none.
    """

    def __init__(
        self,
        limits: WireLimits,
        in_flight: BytesInFlight,
        timer: SharedTimer,
        schemes: Mapping[int, str],
    ) -> None:
        self._limits = limits
        self._in_flight = in_flight
        self._timer = timer
        self._schemes = schemes  # by port
        self._by_client: dict[ConnectionKey, _UnreadResponse] = {}
        self._streams: dict[asyncio.Task[None], tuple[ConnectionKey, _UnreadResponse]] = {}
        self._streams_of: Counter[ConnectionKey] = (
            Counter()
        )  # by client, to which they are still being sent
        self._pages_of: Counter[ConnectionKey] = (
            Counter()
        )  # by client, for whose streams they are being read
        self._page_count = 0  # of all clients

    def make_room(self, size: int) -> None:
        """429 if a response of this size would exceed the bytes in flight."""
        if self._in_flight.used + size > self._in_flight.limit:
            if self._by_client:
                self._release_read(open_connections(self._schemes))
            self._in_flight.check_room(size)

    def add(self, scope: HasClient, size: int) -> None:
        """Counts a response that has been handed to the listener."""
        client = _key(scope)
        self._release(client)  # a client that sends a request has read the response before
        self._by_client[client] = _UnreadResponse(size)
        self._in_flight.used += size
        self._timer.add(self)

    def stream(self, scope: HasClient, response: Response, protocol: Any) -> None:
        """Sends a response of HTTP/2, and counts it until its client has taken it."""
        client = _key(scope)
        body = response.body
        response.headers.append((CONTENT_LENGTH, str(len(body))))
        transport = protocol.response_stream(response.status, response.headers)
        if not _takes(transport, body[:_PIECE]):
            return
        for start in range(_PIECE, len(body), _PIECE):
            transport.send_bytes(body[start : start + _PIECE])
        task = asyncio.get_running_loop().create_task(_when_taken(protocol))
        self._streams[task] = client, _UnreadResponse(len(body))
        self._streams_of[client] += 1
        self._in_flight.used += len(body)
        self._timer.add(self)
        task.add_done_callback(self._release_stream)

    def check_client(self, scope: HasClient) -> None:
        """429 while bytes run out, for a client that has not taken its responses on other streams.

        The next responses would be counted, too, but a write cannot be refused when it is done.
        """
        if self._in_flight.is_pressed and self._streams_of[_key(scope)]:
            raise self._in_flight.exhausted()

    def begin_page(self, scope: HasClient) -> None:
        """429 if a further page of a connection would hardly have room; see `end_page`.

        A connection can ask for as many pages at a time as it has streams. Each would be read
        before its size is known, and then be refused. The first page of a connection is read, as
        long as the pages of all connections together are expected to have room.
        """
        client = _key(scope)
        expected = (self._page_count + 1) * _EXPECTED_PAGE
        if expected > self._in_flight.limit:
            raise self._in_flight.exhausted()
        if self._pages_of[client] or self._streams_of[client]:
            self._in_flight.check_room(expected)
        self._page_count += 1
        self._pages_of[client] += 1

    def end_page(self, scope: HasClient) -> None:
        """A page has been read and is being sent, or was refused."""
        client = _key(scope)
        self._page_count -= 1
        self._pages_of[client] -= 1
        if not self._pages_of[client]:
            del self._pages_of[client]

    def tick(self) -> None:
        connections = open_connections(self._schemes)
        self._release_read(connections)
        watched = [*self._by_client.items(), *self._streams.values()]
        for client, response in watched:
            response.seconds += self._limits.tick_seconds
            response.seconds_idle += self._limits.tick_seconds
            if connections is None:
                if response.seconds > self._limits.response_idle_seconds:
                    self._release(client)
                continue
            connection = connections.get(client)
            if connection is None:  # of a stream whose end is about to be noticed
                continue
            if connection.acknowledged > response.acknowledged:
                response.acknowledged = connection.acknowledged
                response.seconds_idle = 0.0
            if self._is_late(response):
                close(connection, client, self._schemes)
        if not watched:
            self._timer.remove(self)

    def _is_late(self, response: _UnreadResponse) -> bool:
        limits = self._limits
        idle_limit, limit = limits.response_idle_seconds, limits.response_seconds
        if self._in_flight.is_pressed:
            idle_limit, limit = limits.pressed_seconds, idle_limit
        return response.seconds > limit or response.seconds_idle > idle_limit

    def _release_read(self, connections: dict[ConnectionKey, ClientConnection] | None) -> None:
        if connections is not None:
            for client in tuple(self._by_client):
                connection = connections.get(client)
                if connection is None or not connection.has_unread:
                    self._release(client)

    def _release_stream(self, task: asyncio.Task[None]) -> None:
        client, response = self._streams.pop(task)
        self._in_flight.used -= response.size
        self._streams_of[client] -= 1
        if not self._streams_of[client]:
            del self._streams_of[client]

    def _release(self, client: ConnectionKey) -> None:
        response = self._by_client.pop(client, None)
        if response is not None:
            self._in_flight.used -= response.size


def _takes(transport: Any, piece: bytes) -> bool:
    """Hands the first piece of a response to the listener; False if the client has disconnected.

    The listener does not wait: what it returns has its result already.
    """
    try:
        transport.send_bytes(piece).__await__().__next__()
    except StopIteration:
        return True
    except ProtocolClosed:
        return False
    return True


async def _when_taken(protocol: Any) -> None:
    """Returns when the listener has no piece of a response left: it is sent, or cancelled."""
    await protocol.client_disconnect()


class HasClient(Protocol):
    scheme: str

    @property
    def client(self) -> str: ...


def _key(scope: HasClient) -> ConnectionKey:
    return scope.client, scope.scheme


class IdleConnections:
    """Closes idle and half-open connections.

    The listener has a deadline for the headers of HTTP/1.1, but none for the first bytes of a
    connection, which tell what it is, and for HTTP/2 only one for clients that no longer respond.
    While nearly all connections are in use the time is shorter: at the limit the listener accepts
    no more connections, so idle ones would lock out others. The limit is that of one listener; the
    connections of all count, so that together they stay near it.
    """

    def __init__(
        self,
        limits: WireLimits,
        max_connections: int,
        schemes: Mapping[int, str],
        running: Iterable[HasClient],
    ) -> None:
        self._limits = limits
        self._max_connections = max_connections
        self._schemes = schemes  # by port
        self._running = running  # the requests that are being answered
        self._timer: asyncio.TimerHandle | None = None
        self._seconds = 0.0  # since all connections were looked at

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._limits.pressed_seconds, self._check, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        limits = self._limits
        self._seconds += limits.pressed_seconds
        is_pressed = count_descriptors() >= self._max_connections * _NEARLY_ALL
        if is_pressed or self._seconds >= limits.header_seconds / 4:
            self._seconds = 0.0
            self._close_idle()
        self.start(loop)

    def _close_idle(self) -> None:
        connections = open_connections(self._schemes) or {}
        is_pressed = len(connections) >= self._max_connections * _NEARLY_ALL
        longest = self._limits.pressed_seconds if is_pressed else self._limits.header_seconds
        busy = {_key(scope) for scope in self._running}
        for client, connection in connections.items():
            is_idle = client not in busy and not connection.has_unread
            if is_idle and connection.silent_seconds >= longest:
                close(connection, client, self._schemes)
