"""The stages of a query, as nested iterators that move one row along.

Inputs, filters, groups and sorting leave the row's slots as their consumer must find them.
Projection turns rows into values; DISTINCT, OFFSET, LIMIT and TOP work on values. Only groups,
sorting and DISTINCT keep anything, and sorting keeps no more than TOP or LIMIT can return.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from perseid.query.binder import CONTEXT_SLOT, DOCUMENTS_SLOT, check_count
from perseid.query.closures import Fn, Row, Rows, object_of
from perseid.query.compiler import Compiler
from perseid.query.functions import AGGREGATES
from perseid.query.nodes import (
    Aggregate,
    Alias,
    ArrayLiteral,
    BoundParameter,
    BoundQuery,
    BoundSource,
    Count,
    Grouped,
    Literal,
    ObjectLiteral,
)
from perseid.query.values import UNDEFINED, canonical, order_bytes

# Puts the row in one state after the other.
Steps: TypeAlias = Callable[[Row], Iterator[None]]

# Turns the order of bytes around.
COMPLEMENTS: Final = bytes(reversed(range(256)))
_DONE: Final = object()
# Sorting with a limit throws away what cannot be returned whenever this many rows are waiting.
_PRUNE_AT: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """A query taken apart; `order` gives bytes in the order of ORDER BY, if there is one, and
    `leading` those of its first key, with which they begin."""

    query: BoundQuery
    sources: Steps
    steps: Steps  # of the sources, those that pass WHERE
    groups: _Grouping | None
    order: Callable[[Row], bytes] | None
    leading: Callable[[Row], bytes] | None
    project: Fn
    window: _Window


def stages_of(query: BoundQuery, compiler: Compiler) -> Stages:
    sources = _sourced([_source(source, compiler) for source in query.sources])
    steps = sources
    if query.where is not None:
        steps = _filtered(sources, compiler.predicate(query.where))
    keys = _order_keys(query, compiler)
    return Stages(
        query=query,
        sources=sources,
        steps=steps,
        groups=_Grouping(query, compiler) if query.is_grouped else None,
        order=_joined(keys) if keys else None,
        leading=keys[0] if keys else None,
        project=_projection(query, compiler),
        window=_Window(query),
    )


def rows_through(stages: Stages) -> Rows:
    """All stages of a query, in the order in which the language evaluates them."""
    query, steps = stages.query, stages.steps
    slots = [source.slot for source in query.sources]
    if stages.groups is not None:
        steps = _grouped(steps, stages.groups)
        slots = [part.slot for part in (*query.group_by, *query.aggregates)]
    if stages.order is not None:
        window = stages.window if _keeps_rows(query) else None
        steps = _ordered(steps, stages.order, query.order_by[0].descending, slots, window)
    rows = projected(steps, stages.project)
    if query.distinct:
        rows = _distinct(rows)
    return stages.window.applied(rows)


def _keeps_rows(query: BoundQuery) -> bool:
    """True when every sorted row becomes a result, so that only the first few are needed."""
    if query.distinct:
        return False
    whole = (Alias, ArrayLiteral, ObjectLiteral)
    return query.shape != "VALUE" or isinstance(query.items[0].expr, whole)


# --- FROM


def _source(source: BoundSource, compiler: Compiler) -> Steps:
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


def _each_of(values: Callable[[Row], Iterable[Any]], slot: int) -> Steps:
    def steps(row: Row) -> Iterator[None]:
        for value in values(row):
            row[slot] = value
            yield

    return steps


def _elements(value: Fn) -> Callable[[Row], Iterable[Any]]:
    def elements(row: Row) -> Iterable[Any]:
        array = value(row)
        if type(array) is not list:
            return ()
        row[CONTEXT_SLOT].effort.spend(len(array))
        return array

    return elements


def _elements_of_rows(rows: Rows) -> Callable[[Row], Iterable[Any]]:
    """The elements of rows that are arrays, and other rows as they are: people write both."""

    def elements(row: Row) -> Iterator[Any]:
        for value in rows(row):
            if type(value) is list:
                row[CONTEXT_SLOT].effort.spend(len(value))
                yield from value
            else:
                yield value

    return elements


def _bound(value: Fn, slot: int) -> Steps:
    def steps(row: Row) -> Iterator[None]:
        found = value(row)
        if found is not UNDEFINED:
            row[slot] = found
            yield

    return steps


def _sourced(sources: Sequence[Steps]) -> Steps:
    """Every combination of the inputs; without inputs there is one row."""
    if len(sources) == 1:
        return sources[0]

    def steps(row: Row) -> Iterator[None]:
        if not sources:
            yield
            return
        # A list instead of nested loops: the number of inputs has no limit, the call stack has.
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


def _filtered(steps: Steps, predicate: Fn) -> Steps:
    def filtered(row: Row) -> Iterator[None]:
        for _ in steps(row):
            if predicate(row) is True:
                yield

    return filtered


class _Grouping:
    """What makes the groups of a query; without GROUP BY there is exactly one, of all rows."""

    __slots__ = ("aggregates", "keys")

    def __init__(self, query: BoundQuery, compiler: Compiler) -> None:
        self.keys = [(key.slot, compiler.value(key.expr)) for key in query.group_by]
        self.aggregates = [_aggregate(part, compiler) for part in query.aggregates]

    def begin(self) -> _Groups:
        return _Groups(self)


class _Groups:
    """The groups of one run, in the order of their first rows."""

    __slots__ = ("_groups", "_made_of")

    def __init__(self, made_of: _Grouping) -> None:
        self._made_of = made_of
        self._groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        if not made_of.keys:
            self._groups[()] = ([], self._new())

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, row: Row, times: int = 1) -> None:
        values = [value(row) for _, value in self._made_of.keys]
        key = tuple(map(canonical, values))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = (values, self._new())
        for state, (_, _, argument) in zip(group[1], self._made_of.aggregates, strict=True):
            state.add(argument(row), times)

    def results(self, row: Row) -> Iterator[None]:
        """Puts each group's values into the row."""
        keys, aggregates = self._made_of.keys, self._made_of.aggregates
        for values, states in self._groups.values():
            for (slot, _), value in zip(keys, values, strict=True):
                row[slot] = value
            for (slot, _, _), state in zip(aggregates, states, strict=True):
                row[slot] = state.result()
            yield

    def _new(self) -> list[Any]:
        return [kind() for _, kind, _ in self._made_of.aggregates]


def _grouped(steps: Steps, grouping: _Grouping) -> Steps:
    def grouped(row: Row) -> Iterator[None]:
        groups = grouping.begin()
        for _ in steps(row):
            groups.add(row)
        yield from groups.results(row)

    return grouped


def _aggregate(part: Grouped, compiler: Compiler) -> tuple[int, Callable[[], Any], Fn]:
    assert isinstance(part.expr, Aggregate)  # noqa: S101  # the binder lists no others
    return part.slot, AGGREGATES[part.expr.function], compiler.value(part.expr.argument)


def _order_keys(query: BoundQuery, compiler: Compiler) -> list[Callable[[Row], bytes]]:
    """For each key of ORDER BY, bytes that put rows in its order."""

    def part(key: Fn, descending: bool) -> Callable[[Row], bytes]:
        if descending:
            return lambda row: order_bytes(key(row)).translate(COMPLEMENTS)
        return lambda row: order_bytes(key(row))

    return [part(compiler.value(item.expr), item.descending) for item in query.order_by]


def _joined(parts: list[Callable[[Row], bytes]]) -> Callable[[Row], bytes]:
    if len(parts) == 1:
        return parts[0]
    return lambda row: b"".join([each(row) for each in parts])


def _ordered(
    steps: Steps,
    order: Callable[[Row], bytes],
    backwards: bool,
    slots: Sequence[int],
    window: _Window | None,
) -> Steps:
    """Sorted rows; those with equal keys as they came, or the other way if the first descends."""
    step = -1 if backwards else 1

    def ordered(row: Row) -> Iterator[None]:
        most = math.inf if window is None else window.most(row)
        kept: list[_Sortable] = []
        for number, _ in enumerate(steps(row)):
            kept.append((order(row), number * step, [row[slot] for slot in slots]))
            if len(kept) >= most + _PRUNE_AT:
                kept.sort(key=PLACE)
                del kept[int(most) :]
        kept.sort(key=PLACE)
        for _, _, values in kept:
            for slot, value in zip(slots, values, strict=True):
                row[slot] = value
            yield

    return ordered


# Its key, its number, and the slots to restore when its turn comes.
_Sortable: TypeAlias = tuple[bytes, int, list[Any]]
PLACE: Final = operator.itemgetter(0, 1)


# --- SELECT and what follows it


def _projection(query: BoundQuery, compiler: Compiler) -> Fn:
    if query.shape != "LIST":
        return compiler.value(query.items[0].expr)
    return object_of(
        [item.name for item in query.items], [compiler.value(item.expr) for item in query.items]
    )


def projected(steps: Steps, project: Fn) -> Rows:
    def rows(row: Row) -> Iterator[Any]:
        for _ in steps(row):
            value = project(row)
            if value is not UNDEFINED:
                yield value

    return rows


def _distinct(rows: Rows) -> Rows:
    def distinct(row: Row) -> Iterator[Any]:
        seen = set()
        for value in rows(row):
            key = canonical(value)
            if key not in seen:
                seen.add(key)
                yield value

    return distinct


class _Window:
    """OFFSET and LIMIT, then TOP."""

    __slots__ = ("_limit", "_offset", "_top")

    def __init__(self, query: BoundQuery) -> None:
        self._offset = _counter("OFFSET", query.offset)
        self._limit = _counter("LIMIT", query.limit)
        self._top = _counter("TOP", query.top)

    def most(self, row: Row) -> float:
        """How many rows from the first can matter at most."""
        start, stop = self.bounds(row)
        return math.inf if stop is None else max(start, stop)

    def applied(self, rows: Rows) -> Rows:
        if self._offset is None and self._limit is None and self._top is None:
            return rows

        def windowed(row: Row) -> Iterator[Any]:
            start, stop = self.bounds(row)
            return islice(rows(row), start, stop) if stop != start else iter(())

        return windowed

    def span(self, row: Row) -> tuple[int, int | None]:
        start, stop = self.bounds(row)
        return start, None if stop is None else stop - start

    def bounds(self, row: Row) -> tuple[int, int | None]:
        start = 0 if self._offset is None else self._offset(row)
        lengths = [count(row) for count in (self._limit, self._top) if count is not None]
        return start, start + min(lengths) if lengths else None


def _counter(clause: str, node: Count | None) -> Callable[[Row], int] | None:
    if isinstance(node, Literal):
        count = int(node.value)
        return lambda _row: count
    if isinstance(node, BoundParameter):
        slot, start, end = node.slot, node.start, node.end
        return lambda row: check_count(clause, row[slot], start, end)
    return None
