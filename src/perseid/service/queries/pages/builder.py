"""What all page builders share: reading items, evaluating them, and the limits of a page."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, TypeVar

import orjson

from perseid import charges, documents
from perseid.model import Row, size_of
from perseid.query import prepare
from perseid.query.deadline import Deadline, DeadlineExceeded, call_context
from perseid.query.positions import ResultPosition
from perseid.service.queries.evaluation import Evaluator, LongEvaluation
from perseid.service.queries.pages.result import PageTimings
from perseid.service.queries.pages.source import ItemSource
from perseid.service.queries.pages.task import PageTask
from perseid.service.queries.plan_cache import BoundPlan

T = TypeVar("T")

CHUNK: Final = 500  # items that are read at a time
FEW_ROWS: Final = 32
# Bytes of the query times bytes of the items, up to which a query of linear cost is evaluated on
# the event loop: a few milliseconds at most.
_SMALL_WORK: Final = 1 << 23
_SHORT_QUERY: Final = 8 * 1024


class PageBuilder(ABC):
    """Builds one page. There is a subclass for each kind of paging.

    The position of the next page describes the last row by its content, not by the number of rows
    before it, because each page sees the items as they are when it is read.
    """

    def __init__(
        self, task: PageTask, bound: BoundPlan, source: ItemSource, evaluator: Evaluator
    ) -> None:
        plan, position = bound.plan, task.position
        self._task = task
        self._plan = plan
        self._source = source
        self._evaluator = evaluator
        self._largest_chunk = CHUNK * evaluator.chunks
        self._offset = bound.offset
        # The first page skips the rows of OFFSET; `_rows_left` counts down from TOP or LIMIT.
        self._skip, self._rows_left = bound.offset, bound.limit
        if position is not None:
            self._skip, self._rows_left = position.get("skip", 0), position.get("left")
        self._item_deadline = Deadline(task.budget.item_seconds)
        context = call_context(task.now, self._check_deadlines)
        self._work_limit = context.work_limit
        self._execution = prepare(
            plan.compiled,
            bound.request.parameters,
            context,
            is_filtered=plan.filter.is_exact,
        )
        self._length = bound.request.length
        self._is_linear = plan.is_linear and self._length <= _SHORT_QUERY
        self._gives_items = plan.compiled.gives_items
        self._search = task.scope._replace(where=bound.where, indexable=plan.indexable)
        self._limit = task.limit
        self._position = position or {}
        after = self._position.get("after")
        self._after = None if after is None else ResultPosition.from_json(after)
        self._bytes_left = task.budget.page_bytes
        self._started = time.perf_counter()
        self._allowance = task.allowance  # request units that are left
        self._has_read_store = False
        self.rows: list[bytes] = []
        self.loaded: list[int] = []
        self.counted = 0
        self.examined = 0  # items read in the order of an index
        self.ranges: set[int] = set()
        self.times = PageTimings()

    async def build(self) -> dict[str, Any] | None:
        """Fills the page and returns the position of the next one, if there is one."""
        try:
            next_position = None if self._position.get("end") else await self._build()
        except asyncio.CancelledError:
            self._item_deadline.end()  # stops the evaluation that another thread may be running
            raise
        finally:
            # The execution refers to this object through its deadline check. Such a cycle would
            # keep all items of the page in memory until the next garbage collection.
            del self._execution, self._work_limit
        if not self._has_read_store:
            await self._source.check_catalog_version()
        return next_position

    @abstractmethod
    async def _build(self) -> dict[str, Any] | None: ...

    @property
    def _rows_needed(self) -> int:
        """The most rows the page can need; one more than it returns shows that there are others."""
        if self._rows_left is not None and self._rows_left <= self._limit:
            return self._skip + self._rows_left
        return self._skip + self._limit + 1

    @property
    def _first_chunk(self) -> int:
        """About as many items as the page has rows, so that a small page reads few items."""
        return min(max(self._rows_needed, 4), CHUNK)

    def _next_chunk(self, size: int) -> int:
        """How many items to read after `size` items.

        It grows: a worker process waits for the first ones, and evaluates while others are read.
        """
        return CHUNK if size < CHUNK else min(2 * size, self._largest_chunk)

    @property
    def _is_full(self) -> bool:
        """True if the page has all rows it may have and TOP or LIMIT allows others.

        As in the service, such a page has a next one, which may be empty. Pages that the client
        merges have none: the JavaScript client never ends if it resumes a range that gives no rows.
        """
        count = len(self.rows)
        if self._task.is_merged or count != self._limit:
            return False
        if self._rows_left is not None and count >= self._rows_left:
            return False
        bound = self._plan.compiled.bound
        return bool(bound.sources) and not bound.is_grouped

    def _position_after(self, number: int) -> dict[str, Any]:
        """The position after an item, perhaps before all rows of OFFSET are skipped."""
        next_position = self._next_position({"item": number + 1, "given": 0})
        return next_position | {"skip": self._skip} if self._skip > 0 else next_position

    def _next_position(self, position: dict[str, Any]) -> dict[str, Any]:
        if self._rows_left is None:
            return position
        return position | {"left": self._rows_left - len(self.rows)}

    def _check_deadlines(self) -> None:
        """Stops the evaluation of an item that takes too long."""
        if self._work_limit.spent > self._evaluator.most_steps:
            raise LongEvaluation
        self._item_deadline.check()
        self._check_time(time.perf_counter())

    def _check_time(self, now: float) -> None:
        """Stops the evaluation of a page that takes too long, in this process or at all."""
        if now > self._evaluator.end:
            raise LongEvaluation

    def _restart_item_deadline(self, items: int = 1) -> None:
        self._check_time(time.perf_counter())
        self._item_deadline.restart(self._task.budget.item_seconds * items)

    def _is_small(self, rows: list[Row]) -> bool:
        return len(rows) <= FEW_ROWS and sum(map(size_of, rows)) * self._length <= _SMALL_WORK

    async def _evaluate(self, is_small: bool, work: Callable[..., T], *arguments: Any) -> T:
        """The result of the work, whose time counts as evaluating."""
        started = time.perf_counter()
        try:
            if is_small and self._is_linear:
                result = work(*arguments)
            else:
                result = await self._evaluator.run(work, *arguments)
        except orjson.JSONDecodeError as exc:
            raise documents.damaged_item() from exc
        self.times.evaluating += time.perf_counter() - started
        return result

    async def _read(
        self, after: int, limit: int, *, reads_on: bool = False
    ) -> tuple[list[Row], bool]:
        """The next items in the order of their numbers, and whether there are more."""
        search = self._search._replace(after=after, limit=limit)
        page = await self._timed(self._source.search(search, reads_on=reads_on))
        self._note_ranges(page.rows)
        return page.rows, page.has_more

    async def _timed(self, reading: Awaitable[T]) -> T:
        """The result of a call of the store, whose time counts as loading."""
        started = time.perf_counter()
        result = await reading
        self.times.loading += time.perf_counter() - started
        self._has_read_store = True
        return result

    def _note_ranges(self, rows: list[Row]) -> None:
        if len(self._task.container.ranges) > 1:
            self.ranges.update(row.range_index for row in rows)

    def _load(self, row: Row) -> None:
        self.loaded.append(row.size)
        if self._allowance != inf:
            self._allowance -= charges.read(row.size)

    def _add(self, text: bytes) -> bool:
        """Adds the row unless the page is full; the first row always fits."""
        if self.rows and (len(self.rows) >= self._limit or len(text) > self._bytes_left):
            return False
        self._bytes_left -= len(text)
        self.rows.append(text)
        return True

    def _clear(self) -> None:
        self.rows.clear()
        self._bytes_left = self._task.budget.page_bytes


class ItemPageBuilder(PageBuilder):
    """A page of rows in the order of item numbers. It can end after any row.

    It also ends when it is late, or when the items read for it have cost the allowance.
    """

    def _is_late(self) -> bool:
        return time.perf_counter() - self._started > self._task.budget.page_seconds

    def _is_exhausted(self) -> bool:
        return self._allowance <= 0 and bool(self.rows)

    def _position_at(self, number: int, given: int = 0) -> dict[str, Any]:
        """The position at an item of which `given` rows were returned."""
        return self._next_position({"item": number, "given": given})

    def _check_deadlines(self) -> None:
        super()._check_deadlines()
        if self.rows and self._is_late():
            raise DeadlineExceeded
