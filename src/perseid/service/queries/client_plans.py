"""Plans for clients that query each range themselves: what to send where, and how to merge it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from perseid import partition
from perseid.errors import BadRequest, IndivisibleQuery
from perseid.model import Container
from perseid.query.distribution import Distribution, distribute
from perseid.query.nodes import BoundQuery
from perseid.query.parser import parse
from perseid.query.planner.key_filters import KeyAlternative, key_alternatives
from perseid.service.operation import Operation
from perseid.service.queries.requests import LONG_TEXT, QueryRequest, compile_for


class KeyInterval(NamedTuple):
    """Effective partition keys from `min` to `max`; `max` is included if `is_closed`."""

    min: str
    max: str
    is_closed: bool

    @property
    def includes_max(self) -> bool:
        """As clients expect it: the interval of a key prefix includes its end, all keys do not."""
        return self.is_closed or (self.min, self.max) != partition.WHOLE

    @property
    def is_point(self) -> bool:
        return self.is_closed and self.min != ""


class ClientQueryPlan(NamedTuple):
    """Which queries to send to which ranges, and how to merge the results."""

    distribution: Distribution
    intervals: tuple[KeyInterval, ...]


ALL_KEYS: Final = KeyInterval(*partition.WHOLE, is_closed=False)
# A query without FROM reads no items, but the client has to send it to some range.
ANY_RANGE: Final = KeyInterval("", "", is_closed=True)


async def prepare(
    op: Operation, request: QueryRequest, supported: Collection[str] | None, *, is_relaxed: bool
) -> ClientQueryPlan:
    """The plan of a query, made in a thread if the query is long."""
    arguments = (op.container, request, supported, is_relaxed)
    if len(request.text) <= LONG_TEXT:
        return query_plan(*arguments)
    return await op.account.evaluation.plan(query_plan, *arguments)


def query_plan(
    container: Container,
    query: QueryRequest,
    supported: Collection[str] | None,
    is_relaxed: bool,
) -> ClientQueryPlan:
    """The plan of a query for a client with the `supported` features; None stands for all.

    If relaxed, a query whose results cannot be merged is allowed if all items it can match are in
    one range.
    """
    bound = compile_for(container, query.text).bound
    intervals = _intervals_of(container, bound, query)
    has_one_key = not container.key.tokens or (len(intervals) == 1 and intervals[0].is_point)
    try:
        distribution = distribute(
            parse(query.text), bound, query.parameters, has_one_key=has_one_key
        )
    except IndivisibleQuery:
        if not is_relaxed or len(_ranges_touched(container, intervals)) > 1:
            raise
        distribution = Distribution(has_select_value=bound.shape == "VALUE")
    if supported is not None:
        missing = [name for name in distribution.features() if name not in supported]
        if missing:
            raise BadRequest(
                "Query contains the following features, which the calling client does not support:"
                f" {', '.join(missing)}.",
                listed=True,
            )
    return ClientQueryPlan(distribution, intervals)


def ranges_of(container: Container, query: QueryRequest) -> list[int]:
    """The indexes of the physical ranges whose items a query can match, in order."""
    bound = compile_for(container, query.text).bound
    return sorted(_ranges_touched(container, _intervals_of(container, bound, query)))


def _intervals_of(
    container: Container, bound: BoundQuery, query: QueryRequest
) -> tuple[KeyInterval, ...]:
    if not bound.sources:
        return (ANY_RANGE,)
    if not container.key.tokens:
        return (ALL_KEYS,)
    alternatives = key_alternatives(bound, query.parameters, container.key.tokens)
    return key_intervals(container.key, alternatives)


def key_intervals(
    definition: partition.KeyDefinition, alternatives: Iterable[KeyAlternative]
) -> tuple[KeyInterval, ...]:
    """The intervals that hold the items of all alternatives, in order and without overlaps."""
    candidates = {_key_interval(definition, alternative) for alternative in alternatives}
    disjoint: list[KeyInterval] = []
    for interval in sorted(candidates, key=lambda candidate: (candidate.min, candidate.is_closed)):
        if not disjoint or interval.min >= disjoint[-1].max:
            disjoint.append(interval)
    return tuple(disjoint) or (ANY_RANGE,)


def _key_interval(definition: partition.KeyDefinition, alternative: KeyAlternative) -> KeyInterval:
    key: list[Any] = []
    for path in definition.tokens:
        if path not in alternative:
            break
        key.append(alternative[path])
    if len(key) == len(definition.tokens):
        epk = partition.effective(tuple(key), definition)
        return KeyInterval(epk, epk, is_closed=True)
    return KeyInterval(*partition.prefix_interval(tuple(key), definition), is_closed=False)


def _ranges_touched(container: Container, intervals: Iterable[KeyInterval]) -> set[int]:
    touched: set[int] = set()
    for interval in intervals:
        first = partition.range_of(interval.min, container.ranges).index
        last = first if interval.is_closed else _last_before(container, interval.max)
        touched.update(range(first, last + 1))
    return touched


def _last_before(container: Container, end: str) -> int:
    return max(known.index for known in container.ranges if known.min < end)
