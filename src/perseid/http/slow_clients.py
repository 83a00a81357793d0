"""Clients that do not read their responses, and idle ones while connections run out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from perseid.http.bytes_in_flight import BytesInFlight
from perseid.http.connections import ClientConnection, close, count_descriptors, open_connections
from perseid.http.wire_limits import WireLimits
from perseid.shared_timer import SharedTimer

# Smaller responses are not watched: all connections together cannot hold many of them.
LARGE_RESPONSE: Final = 64 * 1024
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
    `make_room` looks again before it refuses one.
    """

    def __init__(
        self, limits: WireLimits, in_flight: BytesInFlight, timer: SharedTimer, port: int
    ) -> None:
        self._limits = limits
        self._in_flight = in_flight
        self._timer = timer
        self._port = port
        self._by_client: dict[str, _UnreadResponse] = {}

    def make_room(self, size: int) -> None:
        """429 if a response of this size would exceed the bytes in flight."""
        if self._in_flight.used + size > self._in_flight.limit:
            self._release_read(open_connections(self._port))
            self._in_flight.check_room(size)

    def add(self, client: str, size: int) -> None:
        """Counts a response that has been handed to the listener."""
        self._release(client)  # a client that sends a request has read the response before
        self._by_client[client] = _UnreadResponse(size)
        self._in_flight.used += size
        self._timer.add(self)

    def tick(self) -> None:
        connections = open_connections(self._port)
        self._release_read(connections)
        for client, response in tuple(self._by_client.items()):
            response.seconds += self._limits.tick_seconds
            response.seconds_idle += self._limits.tick_seconds
            if connections is None:
                if response.seconds > self._limits.response_idle_seconds:
                    self._release(client)
                continue
            connection = connections[client]
            if connection.acknowledged > response.acknowledged:
                response.acknowledged = connection.acknowledged
                response.seconds_idle = 0.0
            if self._is_late(response):
                close(connection, client, self._port)
        if not self._by_client:
            self._timer.remove(self)

    def _is_late(self, response: _UnreadResponse) -> bool:
        limits = self._limits
        idle_limit, limit = limits.response_idle_seconds, limits.response_seconds
        if self._in_flight.is_pressed:
            idle_limit, limit = limits.pressed_seconds, idle_limit
        return response.seconds > limit or response.seconds_idle > idle_limit

    def _release_read(self, connections: dict[str, ClientConnection] | None) -> None:
        if connections is not None:
            for client in tuple(self._by_client):
                connection = connections.get(client)
                if connection is None or not connection.has_unread:
                    self._release(client)

    def _release(self, client: str) -> None:
        response = self._by_client.pop(client, None)
        if response is not None:
            self._in_flight.used -= response.size


class HasClient(Protocol):
    @property
    def client(self) -> str: ...


class IdleConnections:
    """Closes idle and half-open connections while nearly all connections are in use.

    At the limit the listener accepts no more connections, so idle ones would lock out others until
    the deadline for headers.
    """

    def __init__(
        self, limits: WireLimits, max_connections: int, port: int, running: Iterable[HasClient]
    ) -> None:
        self._limits = limits
        self._max_connections = max_connections
        self._port = port
        self._running = running  # the requests that are being answered
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._limits.pressed_seconds, self._check, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        if count_descriptors() >= self._max_connections * _NEARLY_ALL:
            self._close_idle()
        self.start(loop)

    def _close_idle(self) -> None:
        connections = open_connections(self._port) or {}
        if len(connections) < self._max_connections * _NEARLY_ALL:
            return
        busy = {scope.client for scope in self._running}
        for client, connection in connections.items():
            is_idle = client not in busy and not connection.has_unread
            if is_idle and connection.silent_seconds >= self._limits.pressed_seconds:
                close(connection, client, self._port)
