"""Runs a compiled query over documents, as nested iterators.

Inputs, filters, groups and sorting move one row along: a stage that yields has left the row's
slots as its consumer must find them. Projection turns rows into values; DISTINCT, OFFSET, LIMIT
and TOP work on values. Only groups, sorting and DISTINCT keep anything, and sorting keeps no more
than TOP or LIMIT can return.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from perseid.query.binder import CONTEXT_SLOT, DOCUMENTS_SLOT, Program, check_count
from perseid.query.compiler import EMPTY, Compiler, Fn, Row, Rows, object_of
from perseid.query.functions import AGGREGATES, CallContext
from perseid.query.nodes import (
    Aggregate,
    Alias,
    ArrayLiteral,
    BoundParameter,
    BoundQuery,
    BoundSource,
    Call,
    ComputedProperty,
    Count,
    Grouped,
    Literal,
    ObjectLiteral,
    walk,
)
from perseid.query.values import UNDEFINED, canonical, sort_key, to_output

# Puts the row in one state after the other.
_Steps: TypeAlias = Callable[[Row], Iterator[None]]

_DONE: Final = object()
# Sorting with a limit throws away what cannot be returned whenever this many rows are waiting.
_PRUNE_AT: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A query that can run any number of times, at the same time too.

    `streaming` says that the result is that of each document after the other, so a reader may
    stop after any document and go on later with the next.
    """

    text: str
    bound: BoundQuery
    parameters: Mapping[str, int]
    streaming: bool
    slots: int
    rows: Rows
    output: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """A compiled query with its parameters in place, for one request and one thread."""

    compiled: CompiledQuery
    row: Row

    def rows(self, documents: Iterable[Any]) -> Iterator[Any]:
        """The result over `documents`, ready for the JSON encoder; one iteration at a time."""
        row, output = self.row, self.compiled.output
        row[DOCUMENTS_SLOT] = documents
        for value in self.compiled.rows(row):
            yield output(value)


def prepare(compiled: CompiledQuery, parameters: Mapping[str, Any], ctx: CallContext) -> Execution:
    """An execution; a parameter that was not supplied is undefined."""
    row: Row = [EMPTY] * compiled.slots
    row[CONTEXT_SLOT] = ctx
    for name, slot in compiled.parameters.items():
        row[slot] = parameters.get(name, UNDEFINED)
    return Execution(compiled, row)


def run(
    compiled: CompiledQuery,
    documents: Iterable[Any],
    parameters: Mapping[str, Any],
    ctx: CallContext,
) -> Iterator[Any]:
    """The result rows over all `documents`."""
    return prepare(compiled, parameters, ctx).rows(documents)


def rows_of(
    compiled: CompiledQuery, document: Any, parameters: Mapping[str, Any], ctx: CallContext
) -> Iterator[Any]:
    """The result rows of one document; only a streaming query has such rows."""
    if not compiled.streaming:
        raise ValueError("the rows of this query are not those of single documents")
    return run(compiled, (document,), parameters, ctx)


def compile_program(program: Program, text: str) -> CompiledQuery:
    """The closures of a bound query."""
    compiler = Compiler(lambda query: _rows(query, compiler), program.slots)
    rows = _rows(program.query, compiler)
    return CompiledQuery(
        text=text,
        bound=program.query,
        parameters=program.parameters,
        streaming=_is_streaming(program.query),
        slots=compiler.slots,
        rows=rows,
        output=_unchanged if _gives_stored_values(program.query) else to_output,
    )


def _unchanged(value: Any) -> Any:
    return value


def _gives_stored_values(query: BoundQuery) -> bool:
    """True when a result is what a document holds, which was fit for output when it was stored."""
    made = (BoundQuery, Call, ComputedProperty)
    return (
        query.shape != "LIST"
        and isinstance(query.items[0].expr, Alias)
        and not any(isinstance(node, made) for source in query.sources for node in walk(source))
    )


def _is_streaming(query: BoundQuery) -> bool:
    if (
        not query.sources
        or query.is_grouped
        or query.order_by
        or query.distinct
        or any(count is not None for count in (query.top, query.offset, query.limit))
    ):
        return False
    first = query.sources[0].collection
    return first is None or (isinstance(first, BoundQuery) and _is_streaming(first))


def _rows(query: BoundQuery, compiler: Compiler) -> Rows:
    """All stages of a query, in the order in which the language evaluates them."""
    steps = _sourced([_source(source, compiler) for source in query.sources])
    slots = [source.slot for source in query.sources]
    if query.where is not None:
        steps = _filtered(steps, compiler.predicate(query.where))
    if query.is_grouped:
        steps = _grouped(steps, query, compiler)
        slots = [part.slot for part in (*query.group_by, *query.aggregates)]
    window = _Window(query)
    if query.order_by:
        steps = _ordered(steps, query, slots, window if _keeps_rows(query) else None, compiler)
    rows = _projected(steps, query, compiler)
    if query.distinct:
        rows = _distinct(rows)
    return window.applied(rows)


def _keeps_rows(query: BoundQuery) -> bool:
    """True when every sorted row becomes a result, so that only the first few are needed."""
    if query.distinct:
        return False
    whole = (Alias, ArrayLiteral, ObjectLiteral)
    return query.shape != "VALUE" or isinstance(query.items[0].expr, whole)


# --- FROM


def _source(source: BoundSource, compiler: Compiler) -> _Steps:
    if source.collection is None:
        return _each_of(operator.itemgetter(DOCUMENTS_SLOT), source.slot)
    if isinstance(source.collection, BoundQuery):
        rows = _rows(source.collection, compiler)
        if not source.iterate:
            return _each_of(rows, source.slot)
        return _each_of(_elements_of_rows(rows), source.slot)
    value = compiler.value(source.collection)
    if source.iterate:
        return _each_of(_elements(value), source.slot)
    return _bound(value, source.slot)


def _each_of(values: Callable[[Row], Iterable[Any]], slot: int) -> _Steps:
    def steps(row: Row) -> Iterator[None]:
        for value in values(row):
            row[slot] = value
            yield

    return steps


def _elements(value: Fn) -> Callable[[Row], Iterable[Any]]:
    def elements(row: Row) -> Iterable[Any]:
        array = value(row)
        return array if type(array) is list else ()

    return elements


def _elements_of_rows(rows: Rows) -> Callable[[Row], Iterable[Any]]:
    """The elements of rows that are arrays, and other rows as they are: people write both."""

    def elements(row: Row) -> Iterator[Any]:
        for value in rows(row):
            if type(value) is list:
                yield from value
            else:
                yield value

    return elements


def _bound(value: Fn, slot: int) -> _Steps:
    def steps(row: Row) -> Iterator[None]:
        found = value(row)
        if found is not UNDEFINED:
            row[slot] = found
            yield

    return steps


def _sourced(sources: Sequence[_Steps]) -> _Steps:
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


def _filtered(steps: _Steps, predicate: Fn) -> _Steps:
    def filtered(row: Row) -> Iterator[None]:
        for _ in steps(row):
            if predicate(row) is True:
                yield

    return filtered


def _grouped(steps: _Steps, query: BoundQuery, compiler: Compiler) -> _Steps:
    """Groups in the order of their first rows; without GROUP BY exactly one, of all rows."""
    keys = [(key.slot, compiler.value(key.expr)) for key in query.group_by]
    aggregates = [_aggregate(part, compiler) for part in query.aggregates]

    def new_group() -> list[Any]:
        return [kind() for _, kind, _ in aggregates]

    def grouped(row: Row) -> Iterator[None]:
        groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        if not keys:
            groups[()] = ([], new_group())
        for _ in steps(row):
            values = [value(row) for _, value in keys]
            key = tuple(map(canonical, values))
            group = groups.get(key)
            if group is None:
                group = groups[key] = (values, new_group())
            for state, (_, _, argument) in zip(group[1], aggregates, strict=True):
                state.add(argument(row))
        for values, states in groups.values():
            for (slot, _), value in zip(keys, values, strict=True):
                row[slot] = value
            for (slot, _, _), state in zip(aggregates, states, strict=True):
                row[slot] = state.result()
            yield

    return grouped


def _aggregate(part: Grouped, compiler: Compiler) -> tuple[int, Callable[[], Any], Fn]:
    assert isinstance(part.expr, Aggregate)  # noqa: S101  # the binder lists no others
    return part.slot, AGGREGATES[part.expr.function], compiler.value(part.expr.argument)


def _ordered(
    steps: _Steps,
    query: BoundQuery,
    slots: Sequence[int],
    window: _Window | None,
    compiler: Compiler,
) -> _Steps:
    """Sorted rows; those with equal keys as they came, or the other way if the first descends."""
    keys = [compiler.value(item.expr) for item in query.order_by]
    descending = [item.descending for item in query.order_by]

    def sort(rows: list[_Sortable]) -> None:
        rows.sort(key=operator.itemgetter(0), reverse=descending[0])
        for at in reversed(range(len(keys))):
            rows.sort(key=lambda entry: entry[1][at], reverse=descending[at])

    def ordered(row: Row) -> Iterator[None]:
        most = math.inf if window is None else window.most(row)
        kept: list[_Sortable] = []
        for number, _ in enumerate(steps(row)):
            sort_keys = [sort_key(key(row)) for key in keys]
            kept.append((number, sort_keys, [row[slot] for slot in slots]))
            if len(kept) >= most + _PRUNE_AT:
                sort(kept)
                del kept[int(most) :]
        sort(kept)
        for _, _, values in kept:
            for slot, value in zip(slots, values, strict=True):
                row[slot] = value
            yield

    return ordered


# Its number, its keys, and the slots to restore when its turn comes.
_Sortable: TypeAlias = tuple[int, list[Any], list[Any]]


# --- SELECT and what follows it


def _projected(steps: _Steps, query: BoundQuery, compiler: Compiler) -> Rows:
    if query.shape == "LIST":
        project = object_of(
            [item.name for item in query.items],
            [compiler.value(item.expr) for item in query.items],
        )
    else:
        project = compiler.value(query.items[0].expr)

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
        start, stop = self._bounds(row)
        return math.inf if stop is None else max(start, stop)

    def applied(self, rows: Rows) -> Rows:
        if self._offset is None and self._limit is None and self._top is None:
            return rows

        def windowed(row: Row) -> Iterator[Any]:
            start, stop = self._bounds(row)
            return islice(rows(row), start, stop) if stop != start else iter(())

        return windowed

    def _bounds(self, row: Row) -> tuple[int, int | None]:
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
