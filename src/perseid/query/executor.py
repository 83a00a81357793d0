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
from perseid.query.closures import Fn, ResultIterator, SlotRow
from perseid.query.compiler import EMPTY, Compiler
from perseid.query.functions import CallContext
from perseid.query.functions.aggregates import LISTS
from perseid.query.nodes import Aggregate, Alias, BoundQuery, Call, ComputedProperty, Expr, walk
from perseid.query.planner.row_independent import depends_on_time, row_independent_parts
from perseid.query.positions import (
    LONGEST_KEY,
    ResultPosition,
    ResultRow,
    RowSelection,
    tie_breaker_of,
)
from perseid.query.stages import (
    INVERTED_BYTES,
    SORT_KEY,
    RowIterator,
    Stages,
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
_TIE_BREAKER: Final = struct.Struct(">QI")

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
    row_independent: Mapping[Expr, Fn]
    depends_on_time: bool
    slots: int
    rows: ResultIterator
    stages: Stages
    output: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """A compiled query with its parameters in place, for one request and one thread.

    `is_filtered` says that only documents which pass WHERE come in, so it need not look again.
    """

    compiled: CompiledQuery
    row: SlotRow
    is_filtered: bool = False

    @property
    def steps(self) -> RowIterator:
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

    def sort_into(self, selection: RowSelection, number: int, document: Any, source: Any) -> None:
        """Adds the wanted rows of an item to a SORT; they come with `source`.

        Rows with equal keys go by the item's number, backwards if the first key descends.
        """
        row, output, stages = self.row, self.compiled.output, self.compiled.stages
        order, project = stages.order, stages.project
        assert order is not None  # noqa: S101  # that is what makes it a SORT
        backwards = stages.query.order_by[0].descending
        row[DOCUMENTS_SLOT] = (document,)
        for index, _ in enumerate(self.steps(row)):
            tie = _TIE_BREAKER.pack(number, index)
            if backwards:
                tie = tie.translate(INVERTED_BYTES)
            key = order(row)
            if selection.accepts(key, tie):
                value = project(row)
                if value is not UNDEFINED:
                    selected = None if self.compiled.gives_items else output(value)
                    selection.add(ResultRow(key, tie, selected, source))

    def place(self, position: ResultPosition) -> tuple[int, Any, int] | None:
        """Where a SORT goes on: the rank and value of its first key, and an item's number.

        Rows behind the position are there or behind; None if that cannot be told. The number is
        -1 where rows with that value of the first key may be behind it, whatever their numbers.
        """
        keys = self.compiled.stages.query.order_by
        backwards = keys[0].descending
        start, tie = position.start, position.tie
        first = first_in_order(start.translate(INVERTED_BYTES) if backwards else start)
        if first is None or (backwards and not first.is_whole):
            return None
        number = -1
        if tie is not None and len(keys) == 1 and len(start) < LONGEST_KEY:
            number, _ = _TIE_BREAKER.unpack(tie.translate(INVERTED_BYTES) if backwards else tie)
        return first.rank, first.value, number

    def first_key(self, document: Any) -> bytes:
        """What the keys of the rows of an item begin with in a SORT by a path of the item."""
        query, first_key = self.compiled.bound, self.compiled.stages.first_key
        assert query.root is not None and first_key is not None  # noqa: S101, PT018  # its planner knows
        self.row[query.root.slot] = document
        return first_key(self.row)

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
        self._numbers_equal_rows = not query.is_grouped and not query.distinct
        self._backwards = bool(query.order_by) and query.order_by[0].descending
        self._is_piecewise = reads_documents(query)
        self._waiting: list[Any] = []
        self._source: Any = None
        # Under what makes a row one row: its rank by ORDER BY, its number of arrival, itself.
        self._rows_by_name: dict[bytes, tuple[bytes, int, ResultRow]] = {}
        self._arrivals = 0
        self._equal_counts: dict[bytes, int] = {}

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
        return len(self._waiting) + groups + len(self._rows_by_name)

    def finish(self) -> list[ResultRow]:
        """All rows, in the order the result has when it is not divided into pages."""
        if not self._is_piecewise:
            self._consume(self._waiting)
        if self._groups is not None:
            for _ in self._groups.results(self._row):
                self._take()
        return [
            result_row for _, _, result_row in sorted(self._rows_by_name.values(), key=SORT_KEY)
        ]

    def _consume(self, documents: Iterable[Any], times: int = 1) -> bool:
        row, groups = self._row, self._groups
        row[DOCUMENTS_SLOT] = documents
        has_passed = False
        for _ in self._steps(row):
            has_passed = True
            if groups is None:
                self._take()
            else:
                groups.add(row, times)
        return has_passed

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
        tie = tie_breaker_of(key)
        name = own
        if self._numbers_equal_rows:
            self._equal_counts[key] = count = self._equal_counts.get(key, 0) + 1
            tie += count.to_bytes(4, "big")
            name = key + tie
        earlier = self._rows_by_name.get(name)
        if earlier is None or (rank, arrival) < earlier[:2]:
            selected = None if self._gives_items else self._output(value)
            self._rows_by_name[name] = (rank, arrival, ResultRow(key, tie, selected, self._source))


def prepare(
    compiled: CompiledQuery,
    parameters: Mapping[str, Any],
    ctx: CallContext,
    *,
    is_filtered: bool = False,
) -> Execution:
    """An execution; a parameter that was not supplied is undefined."""
    row = _row_of_parameters(compiled, parameters)
    row[CONTEXT_SLOT] = ctx
    return Execution(compiled, row, is_filtered)


def _row_of_parameters(compiled: CompiledQuery, parameters: Mapping[str, Any]) -> SlotRow:
    row: SlotRow = [EMPTY] * compiled.slots
    for name, slot in compiled.parameters.items():
        row[slot] = parameters.get(name, UNDEFINED)
    return row


def offset_limit(compiled: CompiledQuery, parameters: Mapping[str, Any]) -> tuple[int, int | None]:
    """How many rows OFFSET leaves out, and how many TOP or LIMIT lets through after them."""
    return compiled.stages.offset_limit.offset_and_count(_row_of_parameters(compiled, parameters))


def evaluate_row_independent(
    compiled: CompiledQuery, parameters: Mapping[str, Any], ctx: CallContext
) -> dict[Expr, Any]:
    """What the parts of WHERE that no item has a say in are worth in this run."""
    row = prepare(compiled, parameters, ctx).row
    return {part: value(row) for part, value in compiled.row_independent.items()}


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
    if _may_exceed_item(query) or len(text) > _LONG_TEXT:
        stages = replace(stages, project=_size_checked(stages.project))
    row_independent = {part: compiler.value(part) for part in row_independent_parts(query.where)}
    return CompiledQuery(
        text=text,
        bound=query,
        parameters=program.parameters,
        streaming=_is_streaming(query),
        paging=_paging(query),
        gives_items=_gives_items(query),
        row_independent=row_independent,
        depends_on_time=any(map(depends_on_time, row_independent)),
        slots=compiler.slots,
        rows=rows_through(stages),
        stages=stages,
        output=_unchanged if _gives_stored_values(query) else to_output,
    )


def _may_exceed_item(query: BoundQuery) -> bool:
    """True when a row may hold much more than the item it is made of."""
    functions = {
        part.expr.function for part in query.aggregates if isinstance(part.expr, Aggregate)
    }
    return query.has_joins or query.has_subqueries or not functions.isdisjoint(LISTS)


def _size_checked(project: Fn) -> Fn:
    def measured(row: SlotRow) -> Any:
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
    computed_nodes = (BoundQuery, Call, ComputedProperty)
    return (
        query.shape != "LIST"
        and isinstance(query.items[0].expr, Alias)
        and not any(
            isinstance(node, computed_nodes) for source in query.sources for node in walk(source)
        )
    )


def _gives_items(query: BoundQuery) -> bool:
    """True when each row is an item of the container as it is stored."""
    selected = query.items[0].expr
    return (
        query.shape != "LIST"
        and query.root is not None
        and isinstance(selected, Alias)
        and selected.slot == query.root.slot
    )


def _is_streaming(query: BoundQuery) -> bool:
    has_offset_limit = any(count is not None for count in (query.top, query.offset, query.limit))
    return not has_offset_limit and _paging(query) == "STREAM"


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
