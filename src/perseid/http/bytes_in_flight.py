"""Counts the bytes that requests and unread responses hold, for all clients together."""

from __future__ import annotations

from typing import Final

from perseid.errors import TooManyRequests
from perseid.http.headers import RETRY_AFTER_MS

_PRESSED: Final = 0.9  # the share of the limit above which clients that stall get less time
_EXHAUSTED: Final = (
    "The server holds as many bytes of requests and unread responses as it may"
    " ({} MB for all clients together). Nothing was changed; try again shortly."
)


_TOO_MANY_STREAMS: Final = (
    "The server is answering as many requests as it may have connections ({}), and several of them"
    " share a connection. Nothing was changed; try again shortly."
)


def too_many_streams(limit: int) -> TooManyRequests:
    """The error for a request beyond the limit, which only streams of HTTP/2 can exceed."""
    return _try_again(_TOO_MANY_STREAMS.format(limit))


def _try_again(message: str) -> TooManyRequests:
    headers = [(RETRY_AFTER_MS, "1000"), ("retry-after", "1")]
    return TooManyRequests(message, sub_status=0, headers=headers)


class BytesInFlight:
    """Small bodies and responses are not counted: the limit of connections limits them."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def is_pressed(self) -> bool:
        return self.used > self.limit * _PRESSED

    def check_room(self, size: int) -> None:
        """429 unless as many bytes are left; clients retry by themselves."""
        if self.used + size > self.limit:
            raise self.exhausted()

    def exhausted(self) -> TooManyRequests:
        return _try_again(_EXHAUSTED.format(self.limit >> 20))
