"""What handlers take and return: a request, what is learned while answering it, a response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

from perseid.model import Container

HeaderLookup: TypeAlias = Callable[[str], str | None]


class Request(NamedTuple):
    """What the client sent, and the time it was admitted: after its body had arrived.

    A NamedTuple because every request makes one: a frozen dataclass takes twice as long.
    """

    method: str
    path: str
    query_string: str
    scheme: str
    header: HeaderLookup
    body: bytes
    activity_id: str
    now: float
    gone: Callable[[], Awaitable[None]] | None = None  # returns when the client disconnects


class Exchange:
    """What is learned while a request is answered. A retry gets a new one.

    Error responses read the container and the range, since they carry headers about both; billing
    reads the ranges.
    """

    __slots__ = (
        "allowance",
        "caller",
        "confined_key",
        "consistency",
        "container",
        "is_abandoned",
        "may_rename",
        "names",
        "range_index",
        "ranges",
    )

    def __init__(self) -> None:
        self.names: Sequence[str] = ()  # the ids in the path, outermost first
        self.caller = ""  # which key signed the request, for the audit log
        self.consistency = ""  # the consistency level in force
        self.container: Container | None = None
        self.range_index = 0
        # The partition key of a resource token, for lists that name hashes instead of the key.
        self.confined_key: str | None = None
        self.may_rename = True  # False: a resource token names this resource and no other
        # With throughput enforced: the ranges to bill, and the request units each has left.
        self.ranges: Sequence[int] = ()
        self.allowance = inf
        self.is_abandoned = False  # the client disconnected and the work was cancelled

    def abandon(self) -> asyncio.CancelledError:
        """What to raise when the client has disconnected: then there is no response."""
        self.is_abandoned = True
        return asyncio.CancelledError()


class Response:
    """Status, headers beyond those every response has, and the body's bytes."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        headers: list[tuple[str, str]],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.content_type = content_type
