"""Runs compiled queries over documents: over all of them, or document by document to build pages.

`CompiledQuery.paging` says how pages can be built. Where the documents come from, and how many rows
a page has, is decided by the caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    ResumePosition,
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

# A longer query text may select the same long property so often that a row gets too large.
_LONG_TEXT: Final = 2048
# The number of an item and the index of a row among the rows of that item.
_TIE_BREAKER: Final = struct.Struct(">QI")
_LAST_INDEX: Final = 2**32 - 1
_AFTER_ALL_ITEMS: Final = 2**63 - 1  # the largest number that databases compare

# STREAM: rows in the order of the documents. SORT: the rows of single documents, sorted. WHOLE: no
# row is known before the last document has been read.
CompiledPaging: TypeAlias = OneOf["STREAM", "SORT", "WHOLE"]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A query that can run any number of times, also concurrently.

    `streaming`: the result is the concatenation of the results of single documents, so a reader may
    stop after any document and continue with the next. `gives_items`: rows are whole stored items;
    the caller has them already, so a `ResultRow` leaves them out. `row_independent`: the parts of
    WHERE that do not depend on the item; `depends_on_time`: one of them depends on the time.
    """

    text: str
    bound: BoundQuery
    parameters: Mapping[str, int]
    streaming: bool
    paging: CompiledPaging
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

    `is_filtered`: the caller passes only documents that match WHERE, so it is not evaluated.
    """

    compiled: CompiledQuery
    row: SlotRow
    is_filtered: bool = False

    @property
    def steps(self) -> RowIterator:
        stages = self.compiled.stages
        return stages.sources if self.is_filtered else stages.steps

    def rows(self, documents: Iterable[Any]) -> Iterator[Any]:
        """The result over `documents`, ready for the JSON encoder; finish one before the next."""
        row, output = self.row, self.compiled.output
        row[DOCUMENTS_SLOT] = documents
        for value in self.compiled.rows(row):
            yield output(value)

    def rows_of(self, document: Any) -> Iterator[Any]:
        """The rows of one document in a STREAM, before OFFSET, LIMIT and TOP."""
        row, output, stages = self.row, self.compiled.output, self.compiled.stages
        row[DOCUMENTS_SLOT] = (document,)
        for value in projected(self.steps, stages.project)(row):
            yield output(value)

    def sort_into(self, selection: RowSelection, number: int, document: Any, source: Any) -> None:
        """Adds the rows of an item that `selection` accepts, each with `source`.

        Rows with equal keys are sorted by the item's number, descending if the first key is.
        """
        row, output, stages = self.row, self.compiled.output, self.compiled.stages
        order, project = stages.order, stages.project
        assert order is not None  # noqa: S101  # only for paging SORT
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

    def resume_position(
        self, values: Sequence[Any], number: int | None, *, exclude: bool
    ) -> ResumePosition:
        """The first place of a SORT that begins at these values, one for each key of ORDER BY.

        Among rows with these values it begins at the item with this number, or at the first of
        them; with `exclude`, after all of them.
        """
        keys = self.compiled.stages.query.order_by
        parts = (
            order_bytes(value).translate(INVERTED_BYTES if key.descending else None)
            for key, value in zip(keys, values, strict=True)
        )
        start = b"".join(parts)
        if exclude:
            return ResumePosition(start, None)
        if number is None:
            return ResumePosition(start, b"")
        if keys[0].descending:
            tie = _TIE_BREAKER.pack(number, _LAST_INDEX).translate(INVERTED_BYTES)
        else:
            tie = _TIE_BREAKER.pack(number, 0)
        return ResumePosition(start, tie)

    def place(self, position: ResultPosition | ResumePosition) -> tuple[int, Any, int] | None:
        """Where a SORT continues: type rank and value of its first key, and the number of an item.

        All rows that `position` allows are at that place or after it; None if the position does not
        tell it. The number is -1 if items of any number may follow that have this value as first
        key.
        """
        keys = self.compiled.stages.query.order_by
        backwards = keys[0].descending
        start, tie = position.start, position.tie
        first = first_in_order(start.translate(INVERTED_BYTES) if backwards else start)
        if first is None or (backwards and not first.is_whole):
            return None
        number = -1
        if len(keys) > 1:
            pass  # items with the same first key may have any number
        elif tie and len(start) < LONGEST_KEY:
            number, _ = _TIE_BREAKER.unpack(tie.translate(INVERTED_BYTES) if backwards else tie)
        elif tie is None and isinstance(position, ResumePosition):
            number = 0 if backwards else _AFTER_ALL_ITEMS
        return first.rank, first.value, number

    def first_key(self, document: Any) -> bytes:
        """The start of the keys of an item's rows, in a SORT that begins with a path of items."""
        query, first_key = self.compiled.bound, self.compiled.stages.first_key
        assert query.root is not None and first_key is not None  # noqa: S101, PT018  # the planner has checked
        self.row[query.root.slot] = document
        return first_key(self.row)

    def collector(self) -> Collector:
        return Collector(self)


class Collector:
    """Collects the rows of a WHOLE result, each with a key that depends on the row only.

    The key of a group consists of its GROUP BY values, that of another row of its value; with ORDER
    BY the sort keys come first. Equal rows that are separate rows of the result, which only a query
    in FROM can produce, are numbered.
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
        # By identity of the row: its sort key, its number of arrival, and the row.
        self._rows_by_identity: dict[bytes, tuple[bytes, int, ResultRow]] = {}
        self._arrivals = 0
        self._equal_counts: dict[bytes, int] = {}

    def feed(self, document: Any, source: Any = None, times: int = 1) -> bool:
        """Adds an item, whose rows get `source`; True if it passed the filter.

        It stands for `times` items that the query cannot tell apart: see `planner.grouping`.
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
        """How much work `finish` has: items not evaluated yet, groups and rows."""
        groups = 0 if self._groups is None else len(self._groups)
        return len(self._waiting) + groups + len(self._rows_by_identity)

    def finish(self) -> list[ResultRow]:
        """All rows, in the order of the result without pages."""
        if not self._is_piecewise:
            self._consume(self._waiting)
        if self._groups is not None:
            for _ in self._groups.results(self._row):
                self._take()
        return [
            result_row for _, _, result_row in sorted(self._rows_by_identity.values(), key=SORT_KEY)
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
        identity = own
        if self._numbers_equal_rows:
            self._equal_counts[key] = count = self._equal_counts.get(key, 0) + 1
            tie += count.to_bytes(4, "big")
            identity = key + tie
        earlier = self._rows_by_identity.get(identity)
        if earlier is None or (rank, arrival) < earlier[:2]:
            selected = None if self._gives_items else self._output(value)
            result_row = ResultRow(key, tie, selected, self._source)
            self._rows_by_identity[identity] = (rank, arrival, result_row)


def prepare(
    compiled: CompiledQuery,
    parameters: Mapping[str, Any],
    ctx: CallContext,
    *,
    is_filtered: bool = False,
) -> Execution:
    """An execution with these parameters; a missing parameter is undefined."""
    row = _row_of_parameters(compiled, parameters)
    row[CONTEXT_SLOT] = ctx
    return Execution(compiled, row, is_filtered)


def _row_of_parameters(compiled: CompiledQuery, parameters: Mapping[str, Any]) -> SlotRow:
    row: SlotRow = [EMPTY] * compiled.slots
    for name, slot in compiled.parameters.items():
        row[slot] = parameters.get(name, UNDEFINED)
    return row


def offset_limit(compiled: CompiledQuery, parameters: Mapping[str, Any]) -> tuple[int, int | None]:
    """How many rows OFFSET skips, and how many rows TOP or LIMIT allows after them."""
    return compiled.stages.offset_limit.offset_and_count(_row_of_parameters(compiled, parameters))


def evaluate_row_independent(
    compiled: CompiledQuery, parameters: Mapping[str, Any], ctx: CallContext
) -> dict[Expr, Any]:
    """The values of the parts of WHERE that do not depend on the item."""
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
    """The result rows of one document; raises ValueError unless the query is streaming."""
    if not compiled.streaming:
        raise ValueError("only a streaming query can run over single documents")
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
    """True if a row may be much larger than the item it was made from."""
    functions = {
        part.expr.function for part in query.aggregates if isinstance(part.expr, Aggregate)
    }
    return query.has_joins or query.has_subqueries or not functions.isdisjoint(LISTS)


def _size_checked(project: Fn) -> Fn:
    def measured(row: SlotRow) -> Any:
        value = project(row)
        if not is_writable(value):
            raise BadRequest(
                f"A result row is longer than {LONGEST_TEXT >> 20} MB or nested too deeply for a"
                " response. Please select fewer or smaller values."
            )
        return value

    return measured


def _unchanged(value: Any) -> Any:
    return value


def _gives_stored_values(query: BoundQuery) -> bool:
    """True if results are parts of stored documents, which need no conversion for output."""
    computed_nodes = (BoundQuery, Call, ComputedProperty)
    return (
        query.shape != "LIST"
        and isinstance(query.items[0].expr, Alias)
        and not any(
            isinstance(node, computed_nodes) for source in query.sources for node in walk(source)
        )
    )


def _gives_items(query: BoundQuery) -> bool:
    """True if each row is a stored item of the container."""
    selected = query.items[0].expr
    return (
        query.shape != "LIST"
        and query.root is not None
        and isinstance(selected, Alias)
        and selected.slot == query.root.slot
    )


def _is_streaming(query: BoundQuery) -> bool:
    return not query.has_offset_or_limit and _paging(query) == "STREAM"


def _paging(query: BoundQuery) -> CompiledPaging:
    if query.is_grouped or query.distinct or not reads_documents(query):
        return "WHOLE"
    return "SORT" if query.order_by else "STREAM"


def reads_documents(query: BoundQuery) -> bool:
    """True if FROM can be evaluated document by document."""
    if not query.sources:
        return False
    first = query.sources[0].collection
    return first is None or (isinstance(first, BoundQuery) and _is_streaming(first))
