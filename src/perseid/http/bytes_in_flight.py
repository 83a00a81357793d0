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
            raise TooManyRequests(
                _EXHAUSTED.format(self.limit >> 20),
                sub_status=0,
                headers=[(RETRY_AFTER_MS, "1000"), ("retry-after", "1")],
            )
