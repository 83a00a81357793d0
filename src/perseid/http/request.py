"""A request and a response as the handlers see them, whatever server carries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf

from perseid.model import Container


class Request:
    """One HTTP request. `now` is read once, when it is admitted: after its body has come."""

    __slots__ = (
        "activity_id",
        "allowance",
        "body",
        "caller",
        "confined",
        "container",
        "gone",
        "header",
        "is_abandoned",
        "level",
        "method",
        "names",
        "now",
        "path",
        "query_string",
        "range_index",
        "ranges",
        "scheme",
    )

    def __init__(
        self,
        header: Callable[[str], str | None],
        method: str,
        path: str,
        query_string: str,
        scheme: str,
        activity_id: str,
    ) -> None:
        self.method = method
        self.path = path
        self.query_string = query_string
        self.scheme = scheme
        self.header = header
        self.now = 0.0
        self.activity_id = activity_id
        self.level = ""  # the consistency level in force
        self.caller = ""  # which key signed it, for the audit log
        # Known once they have been looked up; refusals carry their headers too.
        self.container: Container | None = None
        self.range_index = 0
        # The key that a resource token confines lists to, for those that do not name it.
        self.confined: str | None = None
        # With throughput enforced: the ranges it is for, and what each has left in request units.
        self.ranges: Sequence[int] = ()
        self.allowance = inf
        self.names: Sequence[str] = ()  # the ids in the path, outermost first
        self.body = b""
        # Returns when the client closes its connection; whoever then stops says so.
        self.gone: Callable[[], Awaitable[None]] | None = None
        self.is_abandoned = False


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
