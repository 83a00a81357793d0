"""Reads the bodies of requests: within limits of size and time, and only where they are wanted."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]

from perseid.documents import TOO_LARGE
from perseid.errors import BadRequest, CosmosError, RequestEntityTooLarge, RequestTimeout
from perseid.http.bytes_in_flight import BytesInFlight
from perseid.http.headers import CONTENT_LENGTH, EXPECT, TRAILER, TRANSFER_ENCODING
from perseid.http.request import HeaderLookup
from perseid.http.wire_limits import WireLimits
from perseid.limits import MAX_BODY_BYTES
from perseid.shared_timer import SharedTimer

# A little above the largest item, so that the error for an item slightly too large is exact.
_LARGEST_READ: Final = MAX_BODY_BYTES + 64 * 1024
_LARGEST_UNCOUNTED: Final = 16 * 1024  # smaller bodies do not count as bytes in flight
# Each piece costs a turn of the event loop, so many of them must not be tiny.
_MANY_PIECES: Final = 16 * 1024
_SMALL_PIECE: Final = 64
_MOST_EMPTY_PIECES: Final = 4  # one after the other
_INCOMPLETE: Final = "The request body ended before it was complete."
_TOO_SLOW: Final = (
    "The request body did not arrive in time: {} of {} bytes in {:.0f} seconds. A body must arrive"
    " within {:.0f} seconds and without a pause of {:.0f} seconds."
)
_SMALL_TOO_SLOW: Final = (
    "The request body did not arrive in time: a small body must arrive within {:.0f} seconds."
)
_TINY_PIECES: Final = (
    f"The request body arrived in more than {_MANY_PIECES} pieces of less than {_SMALL_PIECE} bytes"
    " on average; send it in larger pieces."
)
_SMALL_DIGITS: Final = 4  # of a Content-Length
HTTP_2: Final = "2"
# Requests of HTTP/2 that may have a body although no header says so.
_MAY_HAVE_BODY: Final = frozenset(("POST", "PUT", "PATCH"))


def is_small(length: str) -> bool:
    """True for a Content-Length below 10,000.

    Such a body is read before the request is authorized, unless the client waits for permission.
    """
    return len(length) <= _SMALL_DIGITS and length.isdigit()


def has_body(header: HeaderLookup, length: str | None, stream_method: str) -> bool:
    """True if a request with this Content-Length has a body, or may have one.

    `stream_method` is the method of a request of HTTP/2, "" for one of HTTP/1.1.
    """
    if length is not None and length != "0":
        return True
    return header(TRANSFER_ENCODING) is not None or stream_method in _MAY_HAVE_BODY


class SmallBodies:
    """Bodies that are too small to be counted; they are read at once, before authorization.

    Nearly all bodies are small, so waiting for one costs no more than its place in a set. One timer
    checks all of them: a body is late after one to two of its intervals.
    """

    def __init__(self, limits: WireLimits) -> None:
        self.awaited: set[Any] = set()  # what the listener gave to wait for
        self._seconds = limits.body_idle_seconds
        self._awaited_before: set[Any] = set()
        self._late: set[Any] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._seconds, self._check, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def failure(self, body: Any, exc: BaseException) -> CosmosError:
        """What to answer after waiting for a body failed: 408 if it is late, 400 if it ended."""
        if isinstance(exc, ProtocolClosed):
            return BadRequest(_INCOMPLETE)
        if body in self._late:
            self._late.remove(body)
            return RequestTimeout(_SMALL_TOO_SLOW.format(self._seconds))
        if isinstance(exc, CosmosError):
            return exc
        raise exc

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Gives up the bodies that were awaited at the last check already."""
        for body in self._awaited_before & self.awaited:
            self._late.add(body)
            body.cancel()
        self._awaited_before = set(self.awaited)
        self.start(loop)


class BodyRules:
    """What all bodies share: limits, the timer of their deadlines, and the count of bytes."""

    __slots__ = ("in_flight", "limits", "timer")

    def __init__(self, limits: WireLimits, in_flight: BytesInFlight) -> None:
        self.limits = limits
        self.timer = SharedTimer(limits.tick_seconds)
        self.in_flight = in_flight


class RequestBody:
    """The body of one request: `read` or `discard` it, and `release` it when it is processed.

    Most attributes keep the defaults of the class, because every request with a body makes one.
    """

    content: bytes | None = None
    is_complete = False  # everything that the client sent has been read
    _size = 0
    _last_size = 0
    _pieces = 0
    _empty_pieces = 0  # one after the other
    counted = 0
    _seconds = 0.0
    _seconds_idle = 0.0
    _is_given_up = False
    _is_started = False
    _task: asyncio.Task[Any] | None = None

    def __init__(
        self, header: HeaderLookup, protocol: Any, rules: BodyRules, http_version: str
    ) -> None:
        length = header(CONTENT_LENGTH)
        self._length = int(length) if length is not None and length.isdigit() else None
        self._header = header
        self._is_stream = http_version == HTTP_2
        self._rules = rules
        self.protocol = protocol

    @property
    def is_slow(self) -> bool:
        """True if it took so long that what was checked before may have changed."""
        return self._seconds > 0

    async def read(self) -> bytes:
        """All of it. 408 if it is late, 413 if it is too large, 429 if memory runs out.

        Most bodies arrive in one piece, and then nothing is copied.
        """
        if self.content is not None:  # a request that is repeated
            return self.content
        if self._length is not None and self._length > _LARGEST_READ:
            raise RequestEntityTooLarge(TOO_LARGE, listed=True)
        self._task = asyncio.current_task()
        self._rules.timer.add(self)
        try:
            self._is_started = True
            pieces = self.protocol.__aiter__()
            piece: bytes = await pieces.__anext__()
            if len(piece) == self._length:
                if self._length > _LARGEST_UNCOUNTED:
                    self._count(self._length)
                self.is_complete = True
            elif self._is_stream:
                piece = await self._join_stream(pieces, piece)
            else:
                piece = await self._join(pieces, piece)
        except asyncio.CancelledError:
            self._raise_if_late()
            raise
        except ProtocolClosed as exc:
            raise BadRequest(_INCOMPLETE) from exc
        finally:
            self._rules.timer.remove(self)
        self.content = piece
        return piece

    async def _join(self, pieces: Any, piece: bytes) -> bytes:
        content = bytearray()
        while piece:
            self._add(piece)
            content += piece
            if self._size == self._length:
                self.is_complete = True
                return bytes(content)
            piece = await pieces.__anext__()
        await self._check_end(pieces)
        return bytes(content)

    async def _join_stream(self, pieces: Any, piece: bytes) -> bytes:
        """The pieces of a stream, which may be empty anywhere; only the end of them is the end.

        A stream that its client resets ends in the same way. What was sent of it is not executed,
        because a part of a JSON object or array is not valid, and no client waits for the response.
        """
        content = bytearray()
        further: bytes | None = piece
        while further is not None:
            self._add(further)
            content += further
            further = await self._next(pieces)
        if self._length is not None and self._length != self._size:
            raise BadRequest(_INCOMPLETE)
        self.is_complete = True
        return bytes(content)

    def _add(self, piece: bytes) -> None:
        """Counts a piece. 400 if there are many tiny ones, 413 if all are too large."""
        self._pieces += 1
        if self._pieces > _MANY_PIECES and self._size < self._pieces * _SMALL_PIECE:
            self._is_given_up = True
            raise BadRequest(_TINY_PIECES)
        self._count(len(piece))
        self._size += len(piece)
        if self._size > _LARGEST_READ:
            raise RequestEntityTooLarge(TOO_LARGE, listed=True)

    async def _check_end(self, pieces: Any) -> None:
        """400 if the transfer was interrupted; called after an empty piece.

        The listener marks the end of the body with one empty piece. A second one means that
        something was not data: an interrupted transfer, or trailers, which a header announces.
        """
        marks = 1
        while (piece := await self._next(pieces)) is not None:
            marks += not piece
        if self._length is not None or (marks > 1 and self._header(TRAILER) is None):
            raise BadRequest(_INCOMPLETE)
        self.is_complete = True

    async def _next(self, pieces: Any) -> bytes | None:
        """A further piece; None at the end, ProtocolClosed if many are empty.

        A stream of HTTP/2 whose client has disconnected gives empty pieces without end.
        """
        try:
            piece: bytes = await pieces.__anext__()
        except StopAsyncIteration:
            return None
        self._empty_pieces = 0 if piece else self._empty_pieces + 1
        if self._empty_pieces > _MOST_EMPTY_PIECES:
            self._is_given_up = True
            raise ProtocolClosed
        return piece

    async def discard(self) -> None:
        """Reads the rest of a body that is not wanted, within small limits.

        A client that is still sending does not read an error response. One that waits for
        permission to send (`Expect`) reads it, and would take reading for the permission. A stream
        of HTTP/2 is reset after the response, which its client reads meanwhile.
        """
        self.release()
        if self._is_stream:
            self.is_complete = True
            return
        waits_for_permission = not self._is_started and self._header(EXPECT) is not None
        if self.is_complete or self._is_given_up or waits_for_permission:
            return
        limits = self._rules.limits
        try:
            async with asyncio.timeout(limits.discard_seconds):
                pieces = self.protocol if self._is_started else self.protocol.__aiter__()
                self._is_started = True
                while (piece := await self._next(pieces)) is not None:
                    self._size += len(piece)
                    if self._size > limits.discard_bytes:
                        return
                self.is_complete = True
        except (TimeoutError, ProtocolClosed):
            return

    def release(self) -> None:
        """The bytes are no longer in flight."""
        self._rules.in_flight.used -= self.counted
        self.counted = 0

    def _count(self, size: int) -> None:
        self._rules.in_flight.check_room(size)
        self._rules.in_flight.used += size
        self.counted += size

    # Deadlines

    def tick(self) -> None:
        """Cancels the request if its body makes no progress or takes too long."""
        limits = self._rules.limits
        self._seconds += limits.tick_seconds
        self._seconds_idle += limits.tick_seconds
        if self._size > self._last_size:
            self._last_size = self._size
            self._seconds_idle = 0.0
        is_pressed = self.counted and self._rules.in_flight.is_pressed
        idle_limit, limit = limits.body_idle_seconds, limits.body_seconds
        if is_pressed:
            idle_limit, limit = limits.pressed_seconds, idle_limit
        if self._seconds > limit or self._seconds_idle > idle_limit:
            self._is_given_up = True
            if self._task is not None:
                self._task.cancel()

    def _raise_if_late(self) -> None:
        """408 if the deadline has cancelled the request, not something else."""
        if not self._is_given_up:
            return
        if self._task is not None:
            self._task.uncancel()
        limits = self._rules.limits
        length = "an unknown number of" if self._length is None else self._length
        raise RequestTimeout(
            _TOO_SLOW.format(
                self._size, length, self._seconds, limits.body_seconds, limits.body_idle_seconds
            )
        )
