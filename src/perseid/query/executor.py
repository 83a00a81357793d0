"""Runs a compiled query over documents, as nested iterators.

Inputs, filters, groups and sorting move one row along: a stage that yields has left the row's
slots as its consumer must find them. Projection turns rows into values; DISTINCT, OFFSET, LIMIT
and TOP work on values. Only groups, sorting and DISTINCT keep anything, and sorting keeps no more
than TOP or LIMIT can return.

A reader that wants pages takes the same stages apart: see `CompiledQuery.paging`.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias
from typing import Literal as OneOf

from perseid.errors import BadRequest
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
from perseid.query.positions import LONGEST, Found, Position, Selection, tie_of
from perseid.query.values import (
    LONGEST_TEXT,
    UNDEFINED,
    canonical,
    is_writable,
    order_bytes,
    place_in_order,
    to_output,
)

# Puts the row in one state after the other.
_Steps: TypeAlias = Callable[[Row], Iterator[None]]

_DONE: Final = object()
_LISTS: Final = frozenset({"MAKELIST", "MAKESET"})
# A SELECT of more characters than this may name a long property very often.
_LONG_TEXT: Final = 2048
# Sorting with a limit throws away what cannot be returned whenever this many rows are waiting.
_PRUNE_AT: Final = 4096
# An item's number and the place of a row among those of the item.
_ORIGIN: Final = struct.Struct(">QI")
_COMPLEMENTS: Final = bytes(reversed(range(256)))

# STREAM: the rows of each document after those of the one before. SORT: the rows of documents,
# sorted. WHOLE: nothing is known before the last document.
Paging: TypeAlias = OneOf["STREAM", "SORT", "WHOLE"]


@dataclass(frozen=True, slots=True, eq=False)
class _Stages:
    """A query taken apart; `order` gives bytes in the order of ORDER BY, if there is one."""

    query: BoundQuery
    sources: _Steps
    steps: _Steps  # of the sources, those that pass WHERE
    groups: _Grouping | None
    order: Callable[[Row], bytes] | None
    project: Fn
    window: _Window


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A query that can run any number of times, at the same time too.

    `streaming` says that the result is that of each document after the other, so a reader may
    stop after any document and go on later with the next. `paging` says how else pages are made,
    and `gives_items` that rows are whole items: their reader has them, so `Found` leaves them out.
    """

    text: str
    bound: BoundQuery
    parameters: Mapping[str, int]
    streaming: bool
    paging: Paging
    gives_items: bool
    slots: int
    rows: Rows
    stages: _Stages
    output: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """A compiled query with its parameters in place, for one request and one thread.

    `is_filtered` says that only documents which pass WHERE come in, so it need not look again.
    """

    compiled: CompiledQuery
    row: Row
    is_filtered: bool = False

    @property
    def steps(self) -> _Steps:
        stages = self.compiled.stages
        return stages.sources if self.is_filtered else stages.steps

    def rows(self, documents: Iterable[Any]) -> Iterator[Any]:
        """The result over `documents`, ready for the JSON encoder; one iteration at a time."""
        row, output = self.row, self.compiled.output
        row[DOCUMENTS_SLOT] = documents
        for value in self.compiled.rows(row):
            yield output(value)

    def rows_of(self, document: Any) -> Iterator[Any]:
        """The rows of one document in a STREAM, before its window."""
        row, output, stages = self.row, self.compiled.output, self.compiled.stages
        row[DOCUMENTS_SLOT] = (document,)
        for value in _projected(self.steps, stages.project)(row):
            yield output(value)

    def sort_into(self, selection: Selection, number: int, document: Any, source: Any) -> None:
        """Adds the wanted rows of an item to a SORT; they come with `source`.

        Rows with equal keys go by the item's number, backwards if the first key descends.
        """
        row, output, stages = self.row, self.compiled.output, self.compiled.stages
        order, project = stages.order, stages.project
        assert order is not None  # noqa: S101  # that is what makes it a SORT
        backwards = stages.query.order_by[0].descending
        row[DOCUMENTS_SLOT] = (document,)
        for index, _ in enumerate(self.steps(row)):
            tie = _ORIGIN.pack(number, index)
            if backwards:
                tie = tie.translate(_COMPLEMENTS)
            key = order(row)
            if selection.wants(key, tie):
                value = project(row)
                if value is not UNDEFINED:
                    shown = None if self.compiled.gives_items else output(value)
                    selection.add(Found(key, tie, shown, source))

    def place(self, position: Position) -> tuple[int, Any, int] | None:
        """Where a SORT goes on: the rank and value of its first key, and an item's number.

        Rows behind the position are there or behind; None if that cannot be told.
        """
        backwards = self.compiled.stages.query.order_by[0].descending
        start, tie = position.start, position.tie
        if backwards:
            start = start.translate(_COMPLEMENTS)
        is_long = len(start) >= LONGEST
        found = place_in_order(start, is_whole=not is_long)
        if found is None or (is_long and backwards):
            return None
        if tie is None or is_long:
            return (*found, -1)
        number, _ = _ORIGIN.unpack(tie.translate(_COMPLEMENTS) if backwards else tie)
        return (*found, number)

    def collector(self) -> Collector:
        return Collector(self)


class Collector:
    """The rows of a WHOLE result, each with a key that depends on nothing but the row.

    Groups have their keys for that, other rows their values; under ORDER BY its values come
    first. Equal rows that are not one row, which only a query in FROM can give, are numbered.
    """

    def __init__(self, execution: Execution) -> None:
        compiled = execution.compiled
        self._stages = compiled.stages
        self._steps = execution.steps
        self._row = execution.row
        self._output = compiled.output
        self._gives_items = compiled.gives_items
        query = self._stages.query
        self._groups = None if self._stages.groups is None else self._stages.groups.begin()
        by_group = query.is_grouped and not query.distinct
        self._key_slots = [key.slot for key in query.group_by] if by_group else None
        self._counts_equals = not query.is_grouped and not query.distinct
        self._backwards = bool(query.order_by) and query.order_by[0].descending
        self._is_piecewise = reads_documents(query)
        self._waiting: list[Any] = []
        self._source: Any = None
        # Under what makes a row one row: its rank by ORDER BY, its number of arrival, itself.
        self._found: dict[bytes, tuple[bytes, int, Found]] = {}
        self._arrivals = 0
        self._equals: dict[bytes, int] = {}

    def feed(self, document: Any, source: Any = None, times: int = 1) -> bool:
        """Takes the next item, whose rows come with `source`; True if it passed the filter.

        `times` is how many items there are that look like it to the query: see `uses.combined`.
        """
        if times == 0:
            return False
        if not self._is_piecewise:
            self._waiting.append(document)
            return True
        self._source = source
        return self._consume((document,), times)

    @property
    def size(self) -> int:
        """How much there is to do in the end: items that wait, groups, rows."""
        groups = 0 if self._groups is None else len(self._groups)
        return len(self._waiting) + groups + len(self._found)

    def finish(self) -> list[Found]:
        """All rows, in the order the result has when it is not divided into pages."""
        if not self._is_piecewise:
            self._consume(self._waiting)
        if self._groups is not None:
            for _ in self._groups.results(self._row):
                self._take()
        return [found for _, _, found in sorted(self._found.values(), key=_PLACE)]

    def _consume(self, documents: Iterable[Any], times: int = 1) -> bool:
        row, groups = self._row, self._groups
        row[DOCUMENTS_SLOT] = documents
        was_used = False
        for _ in self._steps(row):
            was_used = True
            if groups is None:
                self._take()
            else:
                groups.add(row, times)
        return was_used

    def _take(self) -> None:
        stages, row = self._stages, self._row
        value = stages.project(row)
        if value is UNDEFINED:
            return
        rank = b"" if stages.order is None else stages.order(row)
        self._arrivals += 1
        arrival = -self._arrivals if self._backwards else self._arrivals
        parts = [value] if self._key_slots is None else [row[slot] for slot in self._key_slots]
        own = b"".join(map(order_bytes, parts))
        key = rank + own
        tie = tie_of(key)
        name = own
        if self._counts_equals:
            self._equals[key] = count = self._equals.get(key, 0) + 1
            tie += count.to_bytes(4, "big")
            name = key + tie
        known = self._found.get(name)
        if known is None or (rank, arrival) < known[:2]:
            shown = None if self._gives_items else self._output(value)
            self._found[name] = (rank, arrival, Found(key, tie, shown, self._source))


def prepare(
    compiled: CompiledQuery,
    parameters: Mapping[str, Any],
    ctx: CallContext,
    *,
    is_filtered: bool = False,
) -> Execution:
    """An execution; a parameter that was not supplied is undefined."""
    row = _supplied(compiled, parameters)
    row[CONTEXT_SLOT] = ctx
    return Execution(compiled, row, is_filtered)


def _supplied(compiled: CompiledQuery, parameters: Mapping[str, Any]) -> Row:
    row: Row = [EMPTY] * compiled.slots
    for name, slot in compiled.parameters.items():
        row[slot] = parameters.get(name, UNDEFINED)
    return row


def window(compiled: CompiledQuery, parameters: Mapping[str, Any]) -> tuple[int, int | None]:
    """How many rows OFFSET leaves out, and how many TOP or LIMIT lets through after them."""
    return compiled.stages.window.span(_supplied(compiled, parameters))


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
    compiler = Compiler(lambda query: _rows(_stages(query, compiler)), program.slots)
    query = program.query
    stages = _stages(query, compiler)
    if _multiplies(query) or len(text) > _LONG_TEXT:
        stages = replace(stages, project=_measured(stages.project))
    return CompiledQuery(
        text=text,
        bound=query,
        parameters=program.parameters,
        streaming=_is_streaming(query),
        paging=_paging(query),
        gives_items=_gives_items(query),
        slots=compiler.slots,
        rows=_rows(stages),
        stages=stages,
        output=_unchanged if _gives_stored_values(query) else to_output,
    )


def _multiplies(query: BoundQuery) -> bool:
    """True when a row may hold much more than the item it is made of."""
    functions = {
        part.expr.function for part in query.aggregates if isinstance(part.expr, Aggregate)
    }
    return query.has_joins or query.has_subqueries or not functions.isdisjoint(_LISTS)


def _measured(project: Fn) -> Fn:
    def measured(row: Row) -> Any:
        value = project(row)
        if not is_writable(value):
            raise BadRequest(
                f"A row of the result is longer than {LONGEST_TEXT >> 20} MB or nested too deeply:"
                " no response can hold it. Please select less."
            )
        return value

    return measured


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


def _gives_items(query: BoundQuery) -> bool:
    """True when each row is an item of the container as it is stored."""
    shown = query.items[0].expr
    return (
        query.shape != "LIST"
        and query.root is not None
        and isinstance(shown, Alias)
        and shown.slot == query.root.slot
    )


def _is_streaming(query: BoundQuery) -> bool:
    has_window = any(count is not None for count in (query.top, query.offset, query.limit))
    return not has_window and _paging(query) == "STREAM"


def _paging(query: BoundQuery) -> Paging:
    if query.is_grouped or query.distinct or not reads_documents(query):
        return "WHOLE"
    return "SORT" if query.order_by else "STREAM"


def reads_documents(query: BoundQuery) -> bool:
    """True when what FROM gives for several documents is what it gives for each of them."""
    if not query.sources:
        return False
    first = query.sources[0].collection
    return first is None or (isinstance(first, BoundQuery) and _is_streaming(first))


def _stages(query: BoundQuery, compiler: Compiler) -> _Stages:
    sources = _sourced([_source(source, compiler) for source in query.sources])
    steps = sources
    if query.where is not None:
        steps = _filtered(sources, compiler.predicate(query.where))
    return _Stages(
        query=query,
        sources=sources,
        steps=steps,
        groups=_Grouping(query, compiler) if query.is_grouped else None,
        order=_order(query, compiler) if query.order_by else None,
        project=_projection(query, compiler),
        window=_Window(query),
    )


def _rows(stages: _Stages) -> Rows:
    """All stages of a query, in the order in which the language evaluates them."""
    query, steps = stages.query, stages.steps
    slots = [source.slot for source in query.sources]
    if stages.groups is not None:
        steps = _grouped(steps, stages.groups)
        slots = [part.slot for part in (*query.group_by, *query.aggregates)]
    if stages.order is not None:
        window = stages.window if _keeps_rows(query) else None
        steps = _ordered(steps, stages.order, query.order_by[0].descending, slots, window)
    rows = _projected(steps, stages.project)
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


def _source(source: BoundSource, compiler: Compiler) -> _Steps:
    if source.collection is None:
        return _each_of(operator.itemgetter(DOCUMENTS_SLOT), source.slot)
    if isinstance(source.collection, BoundQuery):
        rows = _rows(_stages(source.collection, compiler))
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


def _grouped(steps: _Steps, grouping: _Grouping) -> _Steps:
    def grouped(row: Row) -> Iterator[None]:
        groups = grouping.begin()
        for _ in steps(row):
            groups.add(row)
        yield from groups.results(row)

    return grouped


def _aggregate(part: Grouped, compiler: Compiler) -> tuple[int, Callable[[], Any], Fn]:
    assert isinstance(part.expr, Aggregate)  # noqa: S101  # the binder lists no others
    return part.slot, AGGREGATES[part.expr.function], compiler.value(part.expr.argument)


def _order(query: BoundQuery, compiler: Compiler) -> Callable[[Row], bytes]:
    """Bytes that put rows in the order of ORDER BY."""
    keys = [(compiler.value(item.expr), item.descending) for item in query.order_by]

    def part(key: Fn, descending: bool) -> Callable[[Row], bytes]:
        if descending:
            return lambda row: order_bytes(key(row)).translate(_COMPLEMENTS)
        return lambda row: order_bytes(key(row))

    parts = [part(key, descending) for key, descending in keys]
    if len(parts) == 1:
        return parts[0]
    return lambda row: b"".join([each(row) for each in parts])


def _ordered(
    steps: _Steps,
    order: Callable[[Row], bytes],
    backwards: bool,
    slots: Sequence[int],
    window: _Window | None,
) -> _Steps:
    """Sorted rows; those with equal keys as they came, or the other way if the first descends."""
    step = -1 if backwards else 1

    def ordered(row: Row) -> Iterator[None]:
        most = math.inf if window is None else window.most(row)
        kept: list[_Sortable] = []
        for number, _ in enumerate(steps(row)):
            kept.append((order(row), number * step, [row[slot] for slot in slots]))
            if len(kept) >= most + _PRUNE_AT:
                kept.sort(key=_PLACE)
                del kept[int(most) :]
        kept.sort(key=_PLACE)
        for _, _, values in kept:
            for slot, value in zip(slots, values, strict=True):
                row[slot] = value
            yield

    return ordered


# Its key, its number, and the slots to restore when its turn comes.
_Sortable: TypeAlias = tuple[bytes, int, list[Any]]
_PLACE: Final = operator.itemgetter(0, 1)


# --- SELECT and what follows it


def _projection(query: BoundQuery, compiler: Compiler) -> Fn:
    if query.shape != "LIST":
        return compiler.value(query.items[0].expr)
    return object_of(
        [item.name for item in query.items], [compiler.value(item.expr) for item in query.items]
    )


def _projected(steps: _Steps, project: Fn) -> Rows:
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
