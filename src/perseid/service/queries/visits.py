"""Queries over all partitions: which physical range each response is about, and their tokens.

The service answers such a query range by range, in the order of the bounds: each response has the
rows of one range, possibly none, and a token that names the interval of effective partition keys
and the position in it. If relaxed, one response may have rows of all ranges, and its tokens name
the interval of all keys. The token alone decides how a query continues.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from perseid import partition
from perseid.errors import BadRequest
from perseid.model import Container
from perseid.service.queries.client_plans import ranges_of
from perseid.service.queries.plan_cache import BoundPlan
from perseid.service.tokens import invalid_token
from perseid.store.types import Search

Interval: TypeAlias = tuple[str, str]  # effective partition keys: from and up to, not including


class Visit(NamedTuple):
    """The part of a query that one response covers."""

    interval: Interval
    token: str | None  # the position in the interval; None: its beginning
    following: Interval | None  # where the query continues after the interval

    @property
    def name(self) -> str:
        """Binds the token of a position to the interval; empty for the interval of all keys."""
        return "" if self.interval == partition.WHOLE else "-".join(self.interval)

    def confine(self, container: Container, search: Search) -> Search:
        """The search for the items of the interval only."""
        if self.interval == partition.WHOLE:
            return search
        for known in container.ranges:
            if (known.min, known.max) == self.interval:
                return search._replace(range_index=known.index)
        low, high = self.interval  # of a range that exists no more
        return search._replace(
            epk_min=bytes.fromhex(low) or None,
            epk_max=None if high == partition.WHOLE[1] else bytes.fromhex(high),
        )

    def continuation(self, token: str | None) -> str | None:
        """The token of the next response, if there is one; `token` continues the interval."""
        if token is not None:
            return _token_text(token, self.interval)
        return None if self.following is None else _token_text(None, self.following)


# One response about everything.
WHOLE: Final = Visit(partition.WHOLE, None, None)


def first_visit(container: Container, bound: BoundPlan) -> Visit:
    """The first range with items that the query can match."""
    if len(container.ranges) == 1:
        return WHOLE
    first, *others = _intervals(container, bound)
    return Visit(first, None, others[0] if others else None)


def resumed_visit(container: Container, bound: BoundPlan, text: str) -> Visit:
    """The visit that a token names; 400 if it is not a token of such a query."""
    if not text.startswith("{"):  # from before tokens named an interval
        return Visit(partition.WHOLE, text, None)
    token, interval = _parsed(text)
    if token is None and bound.plan.needs_client_plan:
        raise _invalid()  # such a query is answered as a whole or not at all
    if interval == partition.WHOLE:
        return Visit(interval, token, None)
    later = (known for known in _intervals(container, bound) if known[0] >= interval[1])
    return Visit(interval, token, next(later, None))


def _intervals(container: Container, bound: BoundPlan) -> list[Interval]:
    """The ranges with items that the query can match, in order."""
    ranges, key = container.ranges, bound.partition_key
    if key is not None:
        only = partition.range_of(partition.effective_of(key, container.key), ranges)
        return [(only.min, only.max)]
    return [(ranges[index].min, ranges[index].max) for index in ranges_of(container, bound.request)]


def _token_text(token: str | None, interval: Interval) -> str:
    low, high = interval
    return orjson.dumps({"token": token, "range": {"min": low, "max": high}}).decode()


def _parsed(text: str) -> tuple[str | None, Interval]:
    try:
        value: Any = orjson.loads(text)
        token, low, high = value["token"], value["range"]["min"], value["range"]["max"]
        is_valid = bytes.fromhex(low) < bytes.fromhex(high) and isinstance(token, str | None)
    except (ValueError, LookupError, TypeError):
        raise _invalid() from None
    if not is_valid:
        raise _invalid()
    return token or None, (low, high)


def _invalid() -> BadRequest:
    return invalid_token(
        "The continuation token of a query over all partitions is a JSON object; send it back"
        " unchanged."
    )
