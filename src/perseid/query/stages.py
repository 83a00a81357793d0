"""The stages of a query as nested iterators over one mutable row.

Inputs, filters, groups and sorting fill the slots of the row for the next stage; projection turns
rows into values; DISTINCT, OFFSET, LIMIT and TOP work on values. Only groups, sorting and DISTINCT
keep rows in memory, and sorting keeps no more than TOP or LIMIT can return. The compiler makes the
closures of expressions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from perseid.query.binder import CONTEXT_SLOT, DOCUMENTS_SLOT, check_count
from perseid.query.closures import Fn, ResultIterator, SlotRow, object_of
from perseid.query.compiler import Compiler
from perseid.query.functions import AGGREGATES
from perseid.query.nodes import (
    Aggregate,
    Alias,
    ArrayLiteral,
    BoundParameter,
    BoundQuery,
    BoundSource,
    CountExpr,
    Grouped,
    Literal,
    ObjectLiteral,
)
from perseid.query.values import UNDEFINED, canonical, order_bytes

# Fills the slots of the row and yields, once for each state of the row.
RowIterator: TypeAlias = Callable[[SlotRow], Iterator[None]]

# Translates bytes so that they sort in reverse order.
INVERTED_BYTES: Final = bytes(reversed(range(256)))
_DONE: Final = object()
# Sorting with a limit collects so many rows beyond it before it drops the surplus.
_PRUNE_AT: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """The compiled parts of a query.

    `order` returns bytes that sort rows by ORDER BY, if there is one; they begin with those of
    `first_key`.
    """

    query: BoundQuery
    sources: RowIterator
    steps: RowIterator  # the rows of `sources` that pass WHERE
    groups: _Grouping | None
    order: Callable[[SlotRow], bytes] | None
    first_key: Callable[[SlotRow], bytes] | None
    project: Fn
    offset_limit: _OffsetLimit


def stages_of(query: BoundQuery, compiler: Compiler) -> Stages:
    sources = _combined_sources([_source(source, compiler) for source in query.sources])
    steps = sources
    if query.where is not None:
        steps = _filtered(sources, compiler.predicate(query.where))
    keys = _order_keys(query, compiler)
    return Stages(
        query=query,
        sources=sources,
        steps=steps,
        groups=_Grouping(query, compiler) if query.is_grouped else None,
        order=_joined_keys(keys) if keys else None,
        first_key=keys[0] if keys else None,
        project=_projection(query, compiler),
        offset_limit=_OffsetLimit(query),
    )


def rows_through(stages: Stages) -> ResultIterator:
    """All stages of a query, in the order of evaluation."""
    query, steps = stages.query, stages.steps
    slots = [source.slot for source in query.sources]
    if stages.groups is not None:
        steps = _grouped(steps, stages.groups)
        slots = [part.slot for part in (*query.group_by, *query.aggregates)]
    if stages.order is not None:
        offset_limit = stages.offset_limit if _returns_every_row(query) else None
        steps = _ordered(steps, stages.order, query.order_by[0].descending, slots, offset_limit)
    rows = projected(steps, stages.project)
    if query.distinct:
        rows = _distinct(rows)
    return stages.offset_limit.applied(rows)


def _returns_every_row(query: BoundQuery) -> bool:
    """True if every sorted row gives a result, so that sorting may drop rows beyond the limit."""
    if query.distinct:
        return False
    whole = (Alias, ArrayLiteral, ObjectLiteral)
    return query.shape != "VALUE" or isinstance(query.items[0].expr, whole)


# --- FROM


def _source(source: BoundSource, compiler: Compiler) -> RowIterator:
    if source.collection is None:
        return _each_of(operator.itemgetter(DOCUMENTS_SLOT), source.slot)
    if isinstance(source.collection, BoundQuery):
        rows = rows_through(stages_of(source.collection, compiler))
        if not source.iterate:
            return _each_of(rows, source.slot)
        return _each_of(_elements_of_rows(rows), source.slot)
    value = compiler.value(source.collection)
    if source.iterate:
        return _each_of(_elements(value), source.slot)
    return _bound(value, source.slot)


def _each_of(values: Callable[[SlotRow], Iterable[Any]], slot: int) -> RowIterator:
    def steps(row: SlotRow) -> Iterator[None]:
        for value in values(row):
            row[slot] = value
            yield

    return steps


def _elements(value: Fn) -> Callable[[SlotRow], Iterable[Any]]:
    def elements(row: SlotRow) -> Iterable[Any]:
        array = value(row)
        if type(array) is not list:
            return ()
        row[CONTEXT_SLOT].work_limit.spend(len(array))
        return array

    return elements


def _elements_of_rows(rows: ResultIterator) -> Callable[[SlotRow], Iterable[Any]]:
    """The elements of rows that are arrays, and other rows unchanged: both forms are in use."""

    def elements(row: SlotRow) -> Iterator[Any]:
        for value in rows(row):
            if type(value) is list:
                row[CONTEXT_SLOT].work_limit.spend(len(value))
                yield from value
            else:
                yield value

    return elements


def _bound(value: Fn, slot: int) -> RowIterator:
    def steps(row: SlotRow) -> Iterator[None]:
        result = value(row)
        if result is not UNDEFINED:
            row[slot] = result
            yield

    return steps


def _combined_sources(sources: Sequence[RowIterator]) -> RowIterator:
    """Every combination of the inputs; one row if there are no inputs."""
    if len(sources) == 1:
        return sources[0]

    def steps(row: SlotRow) -> Iterator[None]:
        if not sources:
            yield
            return
        # A list instead of recursion: the number of inputs is not limited, the call stack is.
        levels = [sources[0](row)]
        while levels:
            if next(levels[-1], _DONE) is _DONE:
                levels.pop()
            elif len(levels) == len(sources):
                yield
            else:
                levels.append(sources[len(levels)](row))

    return steps


# --- WHERE, GROUP BY, ORDER BY


def _filtered(steps: RowIterator, predicate: Fn) -> RowIterator:
    def filtered(row: SlotRow) -> Iterator[None]:
        for _ in steps(row):
            if predicate(row) is True:
                yield

    return filtered


class _Grouping:
    """The keys and aggregates of a query; without GROUP BY all rows are one group."""

    __slots__ = ("aggregates", "keys")

    def __init__(self, query: BoundQuery, compiler: Compiler) -> None:
        self.keys = [(key.slot, compiler.value(key.expr)) for key in query.group_by]
        self.aggregates = [_aggregate(part, compiler) for part in query.aggregates]

    def begin(self) -> _Groups:
        return _Groups(self)


class _Groups:
    """The groups of one run, ordered by their first rows."""

    __slots__ = ("_grouping", "_groups")

    def __init__(self, grouping: _Grouping) -> None:
        self._grouping = grouping
        self._groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        if not grouping.keys:
            self._groups[()] = ([], self._new())

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, row: SlotRow, times: int = 1) -> None:
        """Adds the row to its group, as if it came `times` times."""
        values = [value(row) for _, value in self._grouping.keys]
        key = tuple(map(canonical, values))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = (values, self._new())
        for state, (_, _, argument) in zip(group[1], self._grouping.aggregates, strict=True):
            state.add(argument(row), times)

    def results(self, row: SlotRow) -> Iterator[None]:
        """Writes the values of one group after the other into the row."""
        keys, aggregates = self._grouping.keys, self._grouping.aggregates
        for values, states in self._groups.values():
            for (slot, _), value in zip(keys, values, strict=True):
                row[slot] = value
            for (slot, _, _), state in zip(aggregates, states, strict=True):
                row[slot] = state.result()
            yield

    def _new(self) -> list[Any]:
        return [new_state() for _, new_state, _ in self._grouping.aggregates]


def _grouped(steps: RowIterator, grouping: _Grouping) -> RowIterator:
    def grouped(row: SlotRow) -> Iterator[None]:
        groups = grouping.begin()
        for _ in steps(row):
            groups.add(row)
        yield from groups.results(row)

    return grouped


def _aggregate(part: Grouped, compiler: Compiler) -> tuple[int, Callable[[], Any], Fn]:
    assert isinstance(part.expr, Aggregate)  # noqa: S101  # the binder lists no others
    return part.slot, AGGREGATES[part.expr.function], compiler.value(part.expr.argument)


def _order_keys(query: BoundQuery, compiler: Compiler) -> list[Callable[[SlotRow], bytes]]:
    """For each key of ORDER BY, a closure that returns bytes in its order."""

    def part(key: Fn, descending: bool) -> Callable[[SlotRow], bytes]:
        if descending:
            return lambda row: order_bytes(key(row)).translate(INVERTED_BYTES)
        return lambda row: order_bytes(key(row))

    return [part(compiler.value(item.expr), item.descending) for item in query.order_by]


def _joined_keys(parts: list[Callable[[SlotRow], bytes]]) -> Callable[[SlotRow], bytes]:
    if len(parts) == 1:
        return parts[0]
    return lambda row: b"".join([part(row) for part in parts])


def _ordered(
    steps: RowIterator,
    order: Callable[[SlotRow], bytes],
    backwards: bool,
    slots: Sequence[int],
    offset_limit: _OffsetLimit | None,
) -> RowIterator:
    """Sorted rows; ties stay in input order, or are reversed if the first key descends."""
    step = -1 if backwards else 1

    def ordered(row: SlotRow) -> Iterator[None]:
        row_limit = math.inf if offset_limit is None else offset_limit.row_limit(row)
        sorted_rows: list[_Sortable] = []
        for number, _ in enumerate(steps(row)):
            sorted_rows.append((order(row), number * step, [row[slot] for slot in slots]))
            if len(sorted_rows) >= row_limit + _PRUNE_AT:
                sorted_rows.sort(key=SORT_KEY)
                del sorted_rows[int(row_limit) :]
        sorted_rows.sort(key=SORT_KEY)
        for _, _, values in sorted_rows:
            for slot, value in zip(slots, values, strict=True):
                row[slot] = value
            yield

    return ordered


# The key of a row, its number, and the slots to restore when it is yielded.
_Sortable: TypeAlias = tuple[bytes, int, list[Any]]
SORT_KEY: Final = operator.itemgetter(0, 1)


# --- SELECT and what follows it


def _projection(query: BoundQuery, compiler: Compiler) -> Fn:
    if query.shape != "LIST":
        return compiler.value(query.items[0].expr)
    return object_of(
        [item.name for item in query.items], [compiler.value(item.expr) for item in query.items]
    )


def projected(steps: RowIterator, project: Fn) -> ResultIterator:
    def rows(row: SlotRow) -> Iterator[Any]:
        for _ in steps(row):
            value = project(row)
            if value is not UNDEFINED:
                yield value

    return rows


def _distinct(rows: ResultIterator) -> ResultIterator:
    def distinct(row: SlotRow) -> Iterator[Any]:
        seen = set()
        for value in rows(row):
            key = canonical(value)
            if key not in seen:
                seen.add(key)
                yield value

    return distinct


class _OffsetLimit:
    """OFFSET and LIMIT, then TOP."""

    __slots__ = ("_limit", "_offset", "_top")

    def __init__(self, query: BoundQuery) -> None:
        self._offset = _counter("OFFSET", query.offset)
        self._limit = _counter("LIMIT", query.limit)
        self._top = _counter("TOP", query.top)

    def row_limit(self, row: SlotRow) -> float:
        """How many rows, counted from the first, the result can need."""
        start, stop = self.bounds(row)
        return math.inf if stop is None else max(start, stop)

    def applied(self, rows: ResultIterator) -> ResultIterator:
        if self._offset is None and self._limit is None and self._top is None:
            return rows

        def limited(row: SlotRow) -> Iterator[Any]:
            start, stop = self.bounds(row)
            return islice(rows(row), start, stop) if stop != start else iter(())

        return limited

    def offset_and_count(self, row: SlotRow) -> tuple[int, int | None]:
        start, stop = self.bounds(row)
        return start, None if stop is None else stop - start

    def bounds(self, row: SlotRow) -> tuple[int, int | None]:
        start = 0 if self._offset is None else self._offset(row)
        lengths = [count(row) for count in (self._limit, self._top) if count is not None]
        return start, start + min(lengths) if lengths else None


def _counter(clause: str, node: CountExpr | None) -> Callable[[SlotRow], int] | None:
    if isinstance(node, Literal):
        count = int(node.value)
        return lambda _row: count
    if isinstance(node, BoundParameter):
        slot, start, end = node.slot, node.start, node.end
        return lambda row: check_count(clause, row[slot], start, end)
    return None
