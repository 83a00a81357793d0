"""Plans for clients that query each range themselves: what to send where, and how to merge it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from perseid import partition
from perseid.errors import BadRequest, IndivisibleQuery
from perseid.model import Container
from perseid.query.distribution import Distribution, distribute
from perseid.query.parser import parse
from perseid.query.planner.key_filters import KeyAlternative, key_alternatives
from perseid.service.operation import Operation
from perseid.service.queries.requests import LONG_TEXT, QueryRequest, compile_for, parse_request


class KeyInterval(NamedTuple):
    """Effective partition keys from `min` to `max`; `max` is included if `is_closed`."""

    min: str
    max: str
    is_closed: bool

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
    op: Operation, body: bytes, supported: Collection[str] | None
) -> tuple[ClientQueryPlan, Sequence[int]]:
    """The plan of a request body, made in a thread if the query is long, and the LSNs."""
    request = parse_request(body)
    if len(request.text) <= LONG_TEXT:
        client_plan = query_plan(op.container, request, supported)
    else:
        evaluation = op.account.evaluation
        client_plan = await evaluation.plan(query_plan, op.container, request, supported)
    return client_plan, await op.stores.items.lsns(op.container)


def query_plan(
    container: Container, query: QueryRequest, supported: Collection[str] | None
) -> ClientQueryPlan:
    """The plan of a query for a client with the `supported` features; None stands for all.

    A query whose results cannot be merged is allowed if all items it can match are in one range.
    """
    bound = compile_for(container, query.text).bound
    has_key = bool(container.key.tokens)
    intervals: tuple[KeyInterval, ...]
    if not bound.sources:
        intervals = (ANY_RANGE,)
    elif not has_key:
        intervals = (ALL_KEYS,)
    else:
        alternatives = key_alternatives(bound, query.parameters, container.key.tokens)
        intervals = key_intervals(container.key, alternatives)
    has_one_key = not has_key or (len(intervals) == 1 and intervals[0].is_point)
    try:
        distribution = distribute(
            parse(query.text), bound, query.parameters, has_one_key=has_one_key
        )
    except IndivisibleQuery:
        if _ranges_touched(container, intervals) > 1:
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


def _ranges_touched(container: Container, intervals: Iterable[KeyInterval]) -> int:
    touched: set[int] = set()
    for interval in intervals:
        first = partition.range_of(interval.min, container.ranges).index
        last = first if interval.is_closed else _last_before(container, interval.max)
        touched.update(range(first, last + 1))
    return len(touched)


def _last_before(container: Container, end: str) -> int:
    return max(known.index for known in container.ranges if known.min < end)
