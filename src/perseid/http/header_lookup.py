"""The headers of a request as the listener gives them, in a form that is fast to look up."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, Protocol

from perseid.errors import BadRequest, HeadersTooLarge
from perseid.http.headers import HOST, PARTITION_KEY, SIGNIFICANT_HEADERS
from perseid.http.request import HeaderLookup

_LARGEST_HEADERS: Final = 64 * 1024


class RsgiHeaders(Protocol):
    def get(self, key: str, default: Any = None) -> Any: ...
    def keys(self) -> Any: ...
    def items(self) -> Any: ...
    def __len__(self) -> int: ...


def look_up_headers(
    method: str, headers: RsgiHeaders, authority: str | None
) -> tuple[HeaderLookup, BadRequest | HeadersTooLarge | None]:
    """A function like `headers.get` that takes a quarter of its time, and what is wrong with them.

    Point reads have few headers that matter, and go without: they ignore unreadable headers, or
    miss the key. HTTP/2 has no Host header; its `authority` means the same and replaces one that is
    sent anyway.
    """
    if method == "GET" and authority is None and headers.get(PARTITION_KEY) is not None:
        return headers.get, None
    pairs = headers.items()
    if len("".join(chain.from_iterable(pairs))) > _LARGEST_HEADERS:
        return headers.get, HeadersTooLarge("The headers of the request exceed 64 KB in total.")
    values = dict(pairs)
    if len(values) < len(pairs):  # of a repeated header the first counts
        pairs.reverse()
        values = dict(pairs)
    if len(headers) > len(values):  # the server omits values it cannot decode
        for name in SIGNIFICANT_HEADERS.intersection(headers.keys()):
            if name not in values:
                return values.get, BadRequest(
                    f"The header {name} may contain visible ASCII characters only."
                )
    if authority is not None:
        values[HOST] = authority
    return values.get, None
