"""Runs a compiled query over documents: all of them, or piece by piece for a reader of pages.

Such a reader takes the stages of a query apart: see `CompiledQuery.paging`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from typing import Literal as OneOf

from perseid.errors import BadRequest
from perseid.query.binder import CONTEXT_SLOT, DOCUMENTS_SLOT, Program
from perseid.query.closures import Fn, Row, Rows
from perseid.query.compiler import EMPTY, Compiler
from perseid.query.functions import CallContext
from perseid.query.functions.aggregates import LISTS
from perseid.query.nodes import Aggregate, Alias, BoundQuery, Call, ComputedProperty, Expr, walk
from perseid.query.positions import LONGEST, Found, Position, Selection, tie_of
from perseid.query.settled import is_timed, settled_parts
from perseid.query.stages import (
    COMPLEMENTS,
    PLACE,
    Stages,
    Steps,
    projected,
    rows_through,
    stages_of,
)
from perseid.query.values import (
    LONGEST_TEXT,
    UNDEFINED,
    first_in_order,
    is_writable,
    order_bytes,
    to_output,
)

# A SELECT of more characters than this may name a long property very often.
_LONG_TEXT: Final = 2048
# An item's number and the place of a row among those of the item.
_ORIGIN: Final = struct.Struct(">QI")

# STREAM: the rows of each document after those of the one before. SORT: the rows of documents,
# sorted. WHOLE: nothing is known before the last document.
Paging: TypeAlias = OneOf["STREAM", "SORT", "WHOLE"]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A query that can run any number of times, at the same time too.

    `streaming` says that the result is that of each document after the other, so a reader may
    stop after any document and go on later with the next. `paging` says how else pages are made,
    and `gives_items` that rows are whole items: their reader has them, so `Found` leaves them out.
    `settled` are the parts of WHERE that no item has a say in; `is_timed`, that time has.
    """

    text: str
    bound: BoundQuery
    parameters: Mapping[str, int]
    streaming: bool
    paging: Paging
    gives_items: bool
    settled: Mapping[Expr, Fn]
    is_timed: bool
    slots: int
    rows: Rows
    stages: Stages
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
    def steps(self) -> Steps:
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
        for value in projected(self.steps, stages.project)(row):
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
                tie = tie.translate(COMPLEMENTS)
            key = order(row)
            if selection.wants(key, tie):
                value = project(row)
                if value is not UNDEFINED:
                    shown = None if self.compiled.gives_items else output(value)
                    selection.add(Found(key, tie, shown, source))

    def place(self, position: Position) -> tuple[int, Any, int] | None:
        """Where a SORT goes on: the rank and value of its first key, and an item's number.

        Rows behind the position are there or behind; None if that cannot be told. The number is
        -1 where rows with that value of the first key may be behind it, whatever their numbers.
        """
        keys = self.compiled.stages.query.order_by
        backwards = keys[0].descending
        start, tie = position.start, position.tie
        first = first_in_order(start.translate(COMPLEMENTS) if backwards else start)
        if first is None or (backwards and not first.is_whole):
            return None
        number = -1
        if tie is not None and len(keys) == 1 and len(start) < LONGEST:
            number, _ = _ORIGIN.unpack(tie.translate(COMPLEMENTS) if backwards else tie)
        return first.rank, first.value, number

    def leading(self, document: Any) -> bytes:
        """What the keys of the rows of an item begin with in a SORT by a path of the item."""
        query, leading = self.compiled.bound, self.compiled.stages.leading
        assert query.root is not None and leading is not None  # noqa: S101, PT018  # its planner knows
        self.row[query.root.slot] = document
        return leading(self.row)

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
            self._waiting += [document] * times
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
        return [found for _, _, found in sorted(self._found.values(), key=PLACE)]

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


def settle(
    compiled: CompiledQuery, parameters: Mapping[str, Any], ctx: CallContext
) -> dict[Expr, Any]:
    """What the parts of WHERE that no item has a say in are worth in this run."""
    row = prepare(compiled, parameters, ctx).row
    return {part: value(row) for part, value in compiled.settled.items()}


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
    compiler = Compiler(lambda query: rows_through(stages_of(query, compiler)), program.slots)
    query = program.query
    stages = stages_of(query, compiler)
    if _multiplies(query) or len(text) > _LONG_TEXT:
        stages = replace(stages, project=_measured(stages.project))
    settled = {part: compiler.value(part) for part in settled_parts(query.where)}
    return CompiledQuery(
        text=text,
        bound=query,
        parameters=program.parameters,
        streaming=_is_streaming(query),
        paging=_paging(query),
        gives_items=_gives_items(query),
        settled=settled,
        is_timed=any(map(is_timed, settled)),
        slots=compiler.slots,
        rows=rows_through(stages),
        stages=stages,
        output=_unchanged if _gives_stored_values(query) else to_output,
    )


def _multiplies(query: BoundQuery) -> bool:
    """True when a row may hold much more than the item it is made of."""
    functions = {
        part.expr.function for part in query.aggregates if isinstance(part.expr, Aggregate)
    }
    return query.has_joins or query.has_subqueries or not functions.isdisjoint(LISTS)


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
