"""A page of query results while it is filled: one way for each kind of paging."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeVar

import orjson

from perseid import charges, documents
from perseid.conditions import OrderPosition, PropertyPath
from perseid.limits import MAX_PAGE_BYTES
from perseid.model import Row, size_of
from perseid.query import Collector, prepare
from perseid.query.deadline import ITEM_SECONDS, Deadline, DeadlineExceeded, call_context
from perseid.query.positions import (
    ResultPosition,
    ResultRow,
    RowSelection,
    end_position,
    is_in_order,
    last_page_end,
)
from perseid.service.operation import Operation, check_catalog_version
from perseid.service.queries.plans import Plan
from perseid.service.queries.query_requests import QueryRequest
from perseid.store.types import GroupCount, Search

T = TypeVar("T")

CHUNK: Final = 500  # items that are asked for at a time
_FEW_ROWS: Final = 32
# Bytes of a query times those of the items, up to which a light one may run on the spot: some
# milliseconds at worst.
_SMALL_WORK: Final = 1 << 23
_SHORT_QUERY: Final = 8 * 1024


@dataclass(slots=True)
class PageTimings:
    """Where a page's time went, in seconds."""

    compiling: float = 0.0
    loading: float = 0.0
    evaluating: float = 0.0


class QueryPageBuilder:
    """A page under construction.

    There is a way for each kind of paging, which returns the position of the next page, if
    there is one. A position names the last row by what it is and not by how many came before,
    because each page sees the items of its own moment.
    """

    def __init__(
        self,
        op: Operation,
        plan: Plan,
        query: QueryRequest,
        scope: Search,
        limit: int,
        position: dict[str, Any] | None,
    ) -> None:
        self._op = op
        self._plan = plan
        # The first page leaves out what OFFSET says; `left` counts down from TOP or LIMIT.
        where, self._offset, self._rows_left = query.bind(plan, op.now)
        self._skip = self._offset
        self._is_filtered = plan.pushed_filter.is_exact
        self._execution = prepare(
            plan.compiled,
            query.parameters,
            call_context(op.now, self._check),
            is_filtered=self._is_filtered,
        )
        self._length = query.length
        self._is_linear = plan.is_linear and query.length <= _SHORT_QUERY
        self._item_deadline = Deadline()
        self._gives_items = plan.compiled.gives_items
        self._scope = scope._replace(where=where, indexable=plan.indexable)
        self._limit = limit
        self._position = position or {}
        place = self._position.get("after")
        self._after = None if place is None else ResultPosition.from_json(place)
        if position is not None:
            self._skip, self._rows_left = position.get("skip", 0), position.get("left")
        self._bytes_left = MAX_PAGE_BYTES
        self._deadline = time.perf_counter() + op.account.settings.query_page_seconds
        self.rows: list[bytes] = []
        self.loaded: list[int] = []
        self.counted = 0
        self.examined = 0  # items, along an order
        self.allowance = inf  # request units that are left
        self.ranges: set[int] = set()
        self.times = PageTimings()
        self._has_read_store = False

    async def build(self) -> dict[str, Any] | None:
        try:
            next_position = await self._build()
        except asyncio.CancelledError:
            self._item_deadline.end()  # the thread at work does not know that nobody waits for it
            raise
        finally:
            # It knows this page by its effort. Such a circle would keep all items it has seen until
            # somebody looks for circles, which is after millions of other objects.
            del self._execution
        if not self._has_read_store:
            await check_catalog_version(self._op)
        return next_position

    async def _build(self) -> dict[str, Any] | None:
        compiled = self._plan.compiled
        if compiled.paging == "SORT":
            return await self._sort()
        if compiled.paging == "WHOLE":
            return await self._collect()
        if self._plan.is_copied:
            return await self._copy()
        return await self._stream()

    async def _copy(self) -> dict[str, Any] | None:
        """A page ends anywhere; the position is the number of the next item."""
        after = self._position.get("item", 0) - 1
        while self._rows_left != 0:
            room = self._limit if self._rows_left is None else min(self._limit, self._rows_left)
            rows, has_more = await self._scan(after, self._skip + room - len(self.rows))
            for row in rows:
                if self.allowance <= 0 and self.rows:
                    return self._next_position({"item": row.number, "given": 0})
                after = row.number
                self._load(row)
                if self._skip > 0:
                    self._skip -= 1
                elif not self._add(row.body):
                    return self._next_position({"item": row.number, "given": 0})
                elif len(self.rows) == self._rows_left:
                    return None
            if not has_more:
                break
            if len(self.rows) >= self._limit or self._is_late():
                return self._position_after(after)
        return None

    async def _stream(self) -> dict[str, Any] | None:
        """Each item stands for itself, so a page ends anywhere and goes on from there.

        The position is the item of the next row, and how many rows it has given before.
        """
        after = self._position.get("item", 0) - 1
        size = self._first_chunk
        while self._rows_left != 0:
            rows, has_more = await self._scan(after, size)
            is_done, next_position = await self._evaluate(
                self._is_small(rows), self._stream_rows, rows
            )
            if is_done:
                return next_position
            if not has_more:
                break
            after = rows[-1].number
            if self._is_late():
                return self._position_after(after)
            size = CHUNK
        return None

    def _stream_rows(self, rows: list[Row]) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is done, and where the next one begins."""
        begun = self._position.get("item")
        for row in rows:
            if self.allowance <= 0 and self.rows:
                return True, self._next_position({"item": row.number, "given": 0})
            given = self._position["given"] if row.number == begun else 0
            self._item_deadline.restart(ITEM_SECONDS)
            used = 0  # of the rows of this item
            try:
                for result in self._execution.rows_of(orjson.loads(row.body)):
                    if used == 0:
                        self._load(row)
                    if used < given:
                        pass
                    elif self._skip > 0:
                        self._skip -= 1
                    elif not self._add(row.body if self._gives_items else orjson.dumps(result)):
                        return True, self._next_position({"item": row.number, "given": used})
                    elif len(self.rows) == self._rows_left:
                        return True, None
                    used += 1
            except DeadlineExceeded:
                if not self.rows:
                    raise
                return True, self._next_position({"item": row.number, "given": used})
            if row is not rows[-1] and self._is_late():
                return True, self._position_after(row.number)
        return False, None

    async def _sort(self) -> dict[str, Any] | None:
        """A row has its place by its sort keys and its item; only those of the page are kept."""
        for by_tie in self._tie_passes():
            selection = None if by_tie else await self._ordered_scan()
            if selection is None:
                selection = await self._select(by_tie)
            is_done, next_position = await self._evaluate(
                self._rows_needed <= _FEW_ROWS, self._finish_page, selection, by_tie
            )
            if is_done:
                break
        return next_position

    async def _ordered_scan(self) -> RowSelection | None:
        """Takes items in the order of the result until the page is full; None if it cannot."""
        order = self._plan.order
        if order is None:
            return None
        start = None
        if self._after is not None:
            place = self._execution.place(self._after)
            if place is None:
                return None
            start = OrderPosition(*place)
            if start.number < 0 and order.is_descending:
                start = start._replace(number=2**63 - 1)
        selection = RowSelection(self._after, self._rows_needed)
        size = self._first_chunk
        if not self._plan.is_sorted:
            size += 1  # with another value, which tells that the rows before it are all there are
        has_all = self._rows_needed == 0
        while not has_all:
            search = self._scope._replace(limit=size, order=order, start=start)
            page = await self._timed(self._op.stores.queries.search(self._op.container, search))
            if not page.is_ordered:
                return None
            rows = page.rows
            self.examined += len(rows)
            self._note_ranges(rows)
            has_all = await self._evaluate(
                self._is_small(rows), self._sort_ordered_rows, selection, rows
            )
            if page.next_position is None:
                break
            # Each further item has its place behind these, or beside the last in the first key.
            start, size = (
                page.next_position,
                CHUNK if self._plan.is_sorted else min(4 * size, CHUNK),
            )
        return selection

    def _sort_ordered_rows(self, selection: RowSelection, rows: list[Row]) -> bool:
        """Takes items that come in the order of the first key; True if no other can be wanted."""
        self._sort_into(selection, rows)
        if len(selection) < self._rows_needed or not rows:
            return False
        if self._plan.is_sorted:
            return True
        return selection.ends_before(self._execution.first_key(orjson.loads(rows[-1].body)))

    async def _select(self, by_tie: bool) -> RowSelection:
        """Goes through all items and keeps those of the page."""
        selection = RowSelection(self._after, self._rows_needed, by_tie=by_tie)
        last, has_more = -1, self._rows_needed > 0
        while has_more:
            rows, has_more = await self._scan(last, CHUNK)
            await self._evaluate(self._is_small(rows), self._sort_into, selection, rows)
            last = rows[-1].number if rows else last
        return selection

    def _sort_into(self, selection: RowSelection, rows: list[Row]) -> None:
        for row in rows:
            self._item_deadline.restart(ITEM_SECONDS)
            source = row if self._gives_items else row._replace(body=b"")
            self._execution.sort_into(selection, row.number, orjson.loads(row.body), source)

    async def _collect(self) -> dict[str, Any] | None:
        """Groups and different values are known when all items are; a page is a part of them."""
        collector = self._execution.collector()
        paths = self._plan.group_paths
        if paths is not None:
            await self._count_groups(collector, paths)
        elif self._plan.compiled.bound.sources:
            last, has_more = -1, True
            while has_more:
                rows, has_more = await self._scan(last, CHUNK)
                await self._evaluate(self._is_small(rows), self._feed, collector, rows)
                last = rows[-1].number if rows else last
        self._item_deadline.restart(ITEM_SECONDS * max(collector.size, 1))
        return await self._evaluate(collector.size <= _FEW_ROWS, self._page_of_groups, collector)

    async def _count_groups(self, collector: Collector, paths: tuple[PropertyPath, ...]) -> None:
        """Feeds each combination of the values that matter once, with the number of its items."""

        def take(groups: Iterable[GroupCount]) -> None:
            for times, document in groups:
                self.counted += times
                self._item_deadline.restart(ITEM_SECONDS)
                collector.feed(document, None, times)

        if paths:
            await self._timed(
                self._op.stores.queries.count_groups(self._op.container, self._scope, paths, take)
            )
        else:
            count = await self._timed(self._count())
            await self._evaluate(True, take, [GroupCount(count, {})])

    async def _count(self) -> int:
        account, container, scope = self._op.account, self._op.container, self._scope
        if scope.where is None and _is_whole(scope):
            return (await account.usage(container, scope.cutoff, scope.range_index)).items
        found: list[int] = []
        await self._op.stores.queries.count_groups(
            container, scope, (), lambda groups: found.extend(group.items for group in groups)
        )
        return sum(found)

    def _feed(self, collector: Collector, rows: list[Row]) -> None:
        for row in rows:
            self._item_deadline.restart(ITEM_SECONDS)
            if collector.feed(orjson.loads(row.body), row if self._gives_items else None):
                self.loaded.append(row.size)

    def _page_of_groups(self, collector: Collector) -> dict[str, Any] | None:
        """The whole result as it is if that fits into a page, else a page of it in key order.

        What OFFSET and LIMIT let through goes by the order of the whole result in either case, so
        that it does not depend on the size of pages.
        """
        found = collector.finish()
        self._skip = 0
        # Where keys are in that order the first page has left out for all what OFFSET says.
        if self._after is None or not is_in_order(found):
            del found[: self._offset]
        if self._after is not None:
            found = [
                result_row
                for result_row in found
                if self._after.is_before(result_row.key, result_row.tie)
            ]
        if self._rows_left is not None:
            del found[self._rows_left :]
        if self._after is None:
            if len(found) <= self._limit and all(
                self._add(self._text(result_row)) for result_row in found
            ):
                return None
            self._clear()
        for by_tie in self._tie_passes():
            selection = RowSelection(self._after, self._rows_needed, by_tie=by_tie)
            for result_row in found:
                if selection.accepts(result_row.key, result_row.tie):
                    selection.add(result_row)
            is_done, next_position = self._finish_page(selection, by_tie)
            if is_done:
                break
        return next_position

    def _tie_passes(self) -> tuple[bool, ...]:
        """Whether to go by tie among long keys: only if the page cannot be told without."""
        return (
            (True,)
            if self._after is not None and self._after.splits_equal_starts
            else (False, True)
        )

    @property
    def _rows_needed(self) -> int:
        """How many rows the page may need; one more than it gives tells that there are others."""
        if self._rows_left is not None and self._rows_left <= self._limit:
            return self._skip + self._rows_left
        return self._skip + self._limit + 1

    def _finish_page(
        self, selection: RowSelection, by_tie: bool
    ) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is done, and where the next one begins."""
        rows, first, next_position = selection.rows(), self._skip, None
        for found in rows[first:]:
            if not self._add(self._text(found)):
                break
        end = first + len(self.rows)
        if end < len(rows):
            cut = last_page_end(rows, first, end)
            if cut is None and not by_tie:
                self._clear()
                return False, None
            end = end if cut is None else cut
            del self.rows[end - first :]
            next_position = self._next_position({"after": end_position(rows, end).to_json()})
        if by_tie:
            places = sorted(range(len(self.rows)), key=lambda at: rows[first + at].key)
            self.rows = [self.rows[at] for at in places]
        if self._execution.compiled.paging == "SORT":
            self.loaded += {row.number: row.size for _, _, _, row in rows[:end]}.values()
        return True, next_position

    def _position_after(self, after: int) -> dict[str, Any]:
        """The position behind an item, perhaps before OFFSET has left out all it is to."""
        next_position = self._next_position({"item": after + 1, "given": 0})
        return next_position | {"skip": self._skip} if self._skip > 0 else next_position

    def _next_position(self, position: dict[str, Any]) -> dict[str, Any]:
        return (
            position
            if self._rows_left is None
            else position | {"left": self._rows_left - len(self.rows)}
        )

    def _text(self, found: ResultRow) -> bytes:
        body: bytes = found.source.body if self._gives_items else orjson.dumps(found.value)
        return body

    @property
    def _first_chunk(self) -> int:
        """About as many items as the page has rows, so that a small page is a small effort."""
        return min(max(self._rows_needed, 4), CHUNK)

    def _check(self) -> None:
        """Ends the evaluation of an item that takes too long; a page with rows ends in time."""
        self._item_deadline.check()
        if self._plan.compiled.paging == "STREAM" and self.rows and self._is_late():
            raise DeadlineExceeded

    def _is_late(self) -> bool:
        return time.perf_counter() > self._deadline

    def _is_small(self, rows: list[Row]) -> bool:
        return len(rows) <= _FEW_ROWS and sum(map(size_of, rows)) * self._length <= _SMALL_WORK

    async def _evaluate(self, is_small: bool, work: Callable[..., T], *arguments: Any) -> T:
        """Does the work here if it is little, else where nobody waits for it."""
        started = time.perf_counter()
        try:
            if is_small and self._is_linear:
                result = work(*arguments)
            else:
                result = await asyncio.to_thread(work, *arguments)
        except orjson.JSONDecodeError as exc:
            raise documents.damaged_item() from exc
        self.times.evaluating += time.perf_counter() - started
        return result

    async def _scan(self, after: int, limit: int) -> tuple[list[Row], bool]:
        search = self._scope._replace(after=after, limit=min(limit, CHUNK))
        page = await self._timed(self._op.stores.queries.search(self._op.container, search))
        self._note_ranges(page.rows)
        return page.rows, page.has_more

    async def _timed(self, reading: Awaitable[T]) -> T:
        """What the store gives; the time is that of loading."""
        started = time.perf_counter()
        found = await reading
        self.times.loading += time.perf_counter() - started
        self._has_read_store = True
        return found

    def _note_ranges(self, rows: list[Row]) -> None:
        if len(self._op.container.ranges) > 1:
            self.ranges.update(row.range_index for row in rows)

    def _load(self, row: Row) -> None:
        self.loaded.append(row.size)
        if self.allowance != inf:
            self.allowance -= charges.read(row.size)

    def _add(self, text: bytes) -> bool:
        """Takes the row unless the page is full; a page always takes its first."""
        if self.rows and (len(self.rows) >= self._limit or len(text) > self._bytes_left):
            return False
        self._bytes_left -= len(text)
        self.rows.append(text)
        return True

    def _clear(self) -> None:
        self.rows.clear()
        self._bytes_left = MAX_PAGE_BYTES


def _is_whole(scope: Search) -> bool:
    """True for all items of a container or of one of its ranges."""
    return scope.pk_prefix is None and scope.epk_min is None and scope.epk_max is None
