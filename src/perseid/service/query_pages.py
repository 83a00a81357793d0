"""A page of query results while it is filled: one way for each kind of paging."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeVar

import orjson

from perseid import charges, documents
from perseid.conditions import Path, Place
from perseid.model import Row, size_of
from perseid.query import Collector, prepare
from perseid.query.positions import (
    Found,
    Position,
    Selection,
    is_in_order,
    last_cut,
    position_at,
)
from perseid.service.operation import Operation, confirm
from perseid.service.patience import ITEM_SECONDS, Overdue, Patience, call_context
from perseid.service.plans import Plan
from perseid.service.query_requests import QueryRequest
from perseid.store.protocol import Page, Scan

T = TypeVar("T")

CHUNK: Final = 500  # items that are asked for at a time
_FEW: Final = 32
# Bytes of a query times those of the items, up to which a light one may run on the spot: some
# milliseconds at worst.
_LITTLE: Final = 1 << 23
_SHORT: Final = 8 * 1024
_LARGEST_PAGE_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Times:
    """Where a page's time went, in seconds."""

    compiling: float = 0.0
    loading: float = 0.0
    evaluating: float = 0.0


class QueryWork:
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
        scope: Scan,
        limit: int,
        position: dict[str, Any] | None,
    ) -> None:
        self._op = op
        self._plan = plan
        # The first page leaves out what OFFSET says; `left` counts down from TOP or LIMIT.
        where, self._offset, self._left = query.bound_to(plan, op.now)
        self._skip = self._offset
        self._is_filtered = plan.pushdown.is_exact
        self._execution = prepare(
            plan.compiled,
            query.parameters,
            call_context(op.now, self._check),
            is_filtered=self._is_filtered,
        )
        self._length = query.length
        self._is_light = plan.is_light and query.length <= _SHORT
        self._patience = Patience()
        self._gives_items = plan.compiled.gives_items
        self._scope = scope._replace(where=where, indexable=plan.indexable)
        self._limit = limit
        self._position = position or {}
        place = self._position.get("after")
        self._after = None if place is None else Position.from_json(place)
        if position is not None:
            self._skip, self._left = position.get("skip", 0), position.get("left")
        self._room = _LARGEST_PAGE_BYTES
        self._deadline = time.perf_counter() + op.account.settings.query_page_seconds
        self.rows: list[bytes] = []
        self.loaded: list[int] = []
        self.counted = 0
        self.looked = 0  # items, along an order
        self.allowance = inf  # request units that are left
        self.ranges: set[int] = set()
        self.times = Times()
        self._has_looked = False

    async def fill(self) -> dict[str, Any] | None:
        try:
            onward = await self._filled()
        except asyncio.CancelledError:
            self._patience.end()  # the thread at work does not know that nobody waits for it
            raise
        finally:
            # It knows this page by its effort. Such a circle would keep all items it has seen until
            # somebody looks for circles, which is after millions of other objects.
            del self._execution
        if not self._has_looked:
            await confirm(self._op)
        return onward

    async def _filled(self) -> dict[str, Any] | None:
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
        while self._left != 0:
            room = self._limit if self._left is None else min(self._limit, self._left)
            rows, has_more = await self._scan(after, self._skip + room - len(self.rows))
            for row in rows:
                if self.allowance <= 0 and self.rows:
                    return self._onward({"item": row.number, "given": 0})
                after = row.number
                self._load(row)
                if self._skip > 0:
                    self._skip -= 1
                elif not self._add(row.body):
                    return self._onward({"item": row.number, "given": 0})
                elif len(self.rows) == self._left:
                    return None
            if not has_more:
                break
            if len(self.rows) >= self._limit or self._is_late():
                return self._pause(after)
        return None

    async def _stream(self) -> dict[str, Any] | None:
        """Each item stands for itself, so a page ends anywhere and goes on from there.

        The position is the item of the next row, and how many rows it has given before.
        """
        after = self._position.get("item", 0) - 1
        size = self._first_chunk
        while self._left != 0:
            rows, has_more = await self._scan(after, size)
            is_done, onward = await self._evaluated(self._is_little(rows), self._take, rows)
            if is_done:
                return onward
            if not has_more:
                break
            after = rows[-1].number
            if self._is_late():
                return self._pause(after)
            size = CHUNK
        return None

    def _take(self, rows: list[Row]) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is done, and where the next one begins."""
        begun = self._position.get("item")
        for row in rows:
            if self.allowance <= 0 and self.rows:
                return True, self._onward({"item": row.number, "given": 0})
            given = self._position["given"] if row.number == begun else 0
            self._patience.begin(ITEM_SECONDS)
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
                        return True, self._onward({"item": row.number, "given": used})
                    elif len(self.rows) == self._left:
                        return True, None
                    used += 1
            except Overdue:
                if not self.rows:
                    raise
                return True, self._onward({"item": row.number, "given": used})
            if row is not rows[-1] and self._is_late():
                return True, self._pause(row.number)
        return False, None

    async def _sort(self) -> dict[str, Any] | None:
        """A row has its place by its sort keys and its item; only those of the page are kept."""
        for by_tie in self._rounds():
            selection = None if by_tie else await self._walk()
            if selection is None:
                selection = await self._select(by_tie)
            is_done, onward = await self._evaluated(
                self._most <= _FEW, self._cut, selection, by_tie
            )
            if is_done:
                break
        return onward

    async def _walk(self) -> Selection | None:
        """Takes items in the order of the result until the page is full; None if it cannot."""
        order = self._plan.order
        if order is None:
            return None
        start = None
        if self._after is not None:
            place = self._execution.place(self._after)
            if place is None:
                return None
            start = Place(*place)
            if start.number < 0 and order.is_descending:
                start = start._replace(number=2**63 - 1)
        selection = Selection(self._after, self._most)
        size = self._first_chunk
        if not self._plan.is_sorted:
            size += 1  # with another value, which tells that the rows before it are all there are
        has_all = self._most == 0
        while not has_all:
            scan = self._scope._replace(limit=size)
            walk = await self._looked(self._op.store.walk(self._op.container, scan, order, start))
            if walk is None:
                return None
            rows = walk.rows
            self.looked += len(rows)
            self._note_ranges(rows)
            has_all = await self._evaluated(
                self._is_little(rows), self._sort_walked, selection, rows
            )
            if walk.onward is None:
                break
            # Each further item has its place behind these, or beside the last in the first key.
            start, size = walk.onward, CHUNK if self._plan.is_sorted else min(4 * size, CHUNK)
        return selection

    def _sort_walked(self, selection: Selection, rows: list[Row]) -> bool:
        """Takes items that come in the order of the first key; True if no other can be wanted."""
        self._sort_into(selection, rows)
        if len(selection) < self._most or not rows:
            return False
        if self._plan.is_sorted:
            return True
        return selection.ends_before(self._execution.leading(orjson.loads(rows[-1].body)))

    async def _select(self, by_tie: bool) -> Selection:
        """Goes through all items and keeps those of the page."""
        selection = Selection(self._after, self._most, by_tie=by_tie)
        last, has_more = -1, self._most > 0
        while has_more:
            rows, has_more = await self._scan(last, CHUNK)
            await self._evaluated(self._is_little(rows), self._sort_into, selection, rows)
            last = rows[-1].number if rows else last
        return selection

    def _sort_into(self, selection: Selection, rows: list[Row]) -> None:
        for row in rows:
            self._patience.begin(ITEM_SECONDS)
            source = row if self._gives_items else row._replace(body=b"")
            self._execution.sort_into(selection, row.number, orjson.loads(row.body), source)

    async def _collect(self) -> dict[str, Any] | None:
        """Groups and different values are known when all items are; a page is a part of them."""
        collector = self._execution.collector()
        paths = self._plan.combined
        if paths is not None:
            await self._combine(collector, paths)
        elif self._plan.compiled.bound.sources:
            last, has_more = -1, True
            while has_more:
                rows, has_more = await self._scan(last, CHUNK)
                await self._evaluated(self._is_little(rows), self._feed, collector, rows)
                last = rows[-1].number if rows else last
        self._patience.begin(ITEM_SECONDS * max(collector.size, 1))
        return await self._evaluated(collector.size <= _FEW, self._divide, collector)

    async def _combine(self, collector: Collector, paths: tuple[Path, ...]) -> None:
        """Feeds each combination of the values that matter once, with the number of its items."""

        def take(times: int, document: dict[str, Any]) -> None:
            self.counted += times
            self._patience.begin(ITEM_SECONDS)
            collector.feed(document, None, times)

        if paths:
            await self._looked(self._op.store.combine(self._op.container, self._scope, paths, take))
        else:
            count = await self._looked(self._count())
            await self._evaluated(True, take, count, {})

    async def _count(self) -> int:
        account, container, scope = self._op.account, self._op.container, self._scope
        if scope.where is None and _is_whole(scope):
            return (await account.usage(container, scope.horizon, scope.range_index)).items
        found: list[int] = []
        await self._op.store.combine(container, scope, (), lambda times, _: found.append(times))
        return sum(found)

    def _feed(self, collector: Collector, rows: list[Row]) -> None:
        for row in rows:
            self._patience.begin(ITEM_SECONDS)
            if collector.feed(orjson.loads(row.body), row if self._gives_items else None):
                self.loaded.append(row.size)

    def _divide(self, collector: Collector) -> dict[str, Any] | None:
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
            found = [each for each in found if self._after.is_before(each.key, each.tie)]
        if self._left is not None:
            del found[self._left :]
        if self._after is None:
            if len(found) <= self._limit and all(self._add(self._text(each)) for each in found):
                return None
            self._clear()
        for by_tie in self._rounds():
            selection = Selection(self._after, self._most, by_tie=by_tie)
            for each in found:
                if selection.wants(each.key, each.tie):
                    selection.add(each)
            is_done, onward = self._cut(selection, by_tie)
            if is_done:
                break
        return onward

    def _rounds(self) -> tuple[bool, ...]:
        """Whether to go by tie among long keys: only if the page cannot be told without."""
        return (True,) if self._after is not None and self._after.is_within else (False, True)

    @property
    def _most(self) -> int:
        """How many rows the page may need; one more than it gives tells that there are others."""
        if self._left is not None and self._left <= self._limit:
            return self._skip + self._left
        return self._skip + self._limit + 1

    def _cut(self, selection: Selection, by_tie: bool) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is done, and where the next one begins."""
        rows, first, onward = selection.rows(), self._skip, None
        for found in rows[first:]:
            if not self._add(self._text(found)):
                break
        end = first + len(self.rows)
        if end < len(rows):
            cut = last_cut(rows, first, end)
            if cut is None and not by_tie:
                self._clear()
                return False, None
            end = end if cut is None else cut
            del self.rows[end - first :]
            onward = self._onward({"after": position_at(rows, end).to_json()})
        if by_tie:
            places = sorted(range(len(self.rows)), key=lambda at: rows[first + at].key)
            self.rows = [self.rows[at] for at in places]
        if self._execution.compiled.paging == "SORT":
            self.loaded += {row.number: row.size for _, _, _, row in rows[:end]}.values()
        return True, onward

    def _pause(self, after: int) -> dict[str, Any]:
        """The position behind an item, perhaps before OFFSET has left out all it is to."""
        onward = self._onward({"item": after + 1, "given": 0})
        return onward | {"skip": self._skip} if self._skip > 0 else onward

    def _onward(self, position: dict[str, Any]) -> dict[str, Any]:
        return position if self._left is None else position | {"left": self._left - len(self.rows)}

    def _text(self, found: Found) -> bytes:
        body: bytes = found.source.body if self._gives_items else orjson.dumps(found.value)
        return body

    @property
    def _first_chunk(self) -> int:
        """About as many items as the page has rows, so that a small page is a small effort."""
        return min(max(self._most, 4), CHUNK)

    def _check(self) -> None:
        """Ends the evaluation of an item that takes too long; a page with rows ends in time."""
        self._patience.check()
        if self._plan.compiled.paging == "STREAM" and self.rows and self._is_late():
            raise Overdue

    def _is_late(self) -> bool:
        return time.perf_counter() > self._deadline

    def _is_little(self, rows: list[Row]) -> bool:
        return len(rows) <= _FEW and sum(map(size_of, rows)) * self._length <= _LITTLE

    async def _evaluated(self, is_little: bool, work: Callable[..., T], *arguments: Any) -> T:
        """Does the work here if it is little, else where nobody waits for it."""
        started = time.perf_counter()
        try:
            if is_little and self._is_light:
                result = work(*arguments)
            else:
                result = await asyncio.to_thread(work, *arguments)
        except orjson.JSONDecodeError as exc:
            raise documents.damaged() from exc
        self.times.evaluating += time.perf_counter() - started
        return result

    async def _scan(self, after: int, limit: int) -> Page:
        scan = self._scope._replace(after=after, limit=min(limit, CHUNK))
        page = await self._looked(self._op.store.scan(self._op.container, scan))
        self._note_ranges(page.rows)
        return page

    async def _looked(self, look: Awaitable[T]) -> T:
        """What the store gives; the time is that of loading."""
        started = time.perf_counter()
        found = await look
        self.times.loading += time.perf_counter() - started
        self._has_looked = True
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
        if self.rows and (len(self.rows) >= self._limit or len(text) > self._room):
            return False
        self._room -= len(text)
        self.rows.append(text)
        return True

    def _clear(self) -> None:
        self.rows.clear()
        self._room = _LARGEST_PAGE_BYTES


def _is_whole(scope: Scan) -> bool:
    """True for all items of a container or of one of its ranges."""
    return scope.pk_prefix is None and scope.epk_min is None and scope.epk_max is None
