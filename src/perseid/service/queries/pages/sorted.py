"""Pages of rows sorted by ORDER BY."""

from __future__ import annotations

from typing import Any

import orjson

from perseid.conditions import Order, OrderPosition
from perseid.model import Row
from perseid.query.positions import (
    LONGEST_KEY,
    ResultPosition,
    ResultRow,
    ResumePosition,
    RowSelection,
)
from perseid.service.queries import resume_filters
from perseid.service.queries.pages import builder
from perseid.service.queries.pages.builder import FEW_ROWS
from perseid.service.queries.pages.keyed import KeyedPageBuilder


class SortedPageBuilder(KeyedPageBuilder):
    """A row has its position by its sort keys and its item; only the rows of the page are kept."""

    _resume: ResumePosition | None = None

    async def _build(self) -> dict[str, Any] | None:
        resume = self._task.request.resume
        if resume is not None:
            number = resume_filters.item_number(resume, self._task.container)
            self._resume = self._execution.resume_position(
                resume.values, number, exclude=resume.exclude
            )
        for by_tie in self._tie_passes():
            selection = None if by_tie else await self._select_in_index_order()
            if selection is None:
                selection = await self._select_from_all(by_tie)
            is_done, next_position = await self._evaluate(
                self._rows_needed <= FEW_ROWS, self._finish_page, selection, by_tie
            )
            if is_done:
                break
        return next_position

    async def _select_in_index_order(self) -> RowSelection | None:
        """Reads items in the order of an index until the page is full; None if no index serves."""
        order = self._plan.order
        if order is None:
            return None
        start, position = None, self._first_position()
        if position is not None:
            start = self._order_position(order, position)
            if start is None:
                return None
        selection = RowSelection(self._after, self._rows_needed, resume=self._resume)
        size = self._first_chunk
        if not self._plan.is_fully_ordered:
            size += 1  # an item with another value shows that the rows before it are complete
        has_all = self._rows_needed == 0
        while not has_all:
            search = self._search._replace(limit=size, order=order, start=start)
            page = await self._timed(self._source.search(search))
            if not page.is_ordered:
                return None
            self.examined += len(page.rows)
            self._note_ranges(page.rows)
            has_all = await self._evaluate(
                self._is_small(page.rows), self._add_ordered_rows, selection, page.rows
            )
            if page.next_position is None:
                break
            # Every further item comes after these, or has the same first key as the last of them.
            start = page.next_position
            size = builder.CHUNK if self._plan.is_fully_ordered else min(4 * size, builder.CHUNK)
        return selection

    def _first_position(self) -> ResultPosition | ResumePosition | None:
        """The later of the positions of the continuation and of the client's resume filter."""
        after, resume = self._after, self._resume
        if after is None or (resume is not None and resume.start[:LONGEST_KEY] > after.start):
            return resume
        return after

    def _order_position(
        self, order: Order, position: ResultPosition | ResumePosition
    ) -> OrderPosition | None:
        """Where in the index the page begins; None if the position does not tell."""
        place = self._execution.place(position)
        if place is None:
            return None
        start = OrderPosition(*place)
        if start.number < 0 and order.is_descending:
            return start._replace(number=2**63 - 1)
        return start

    def _add_ordered_rows(self, selection: RowSelection, items: list[Row]) -> bool:
        """Adds items that come in the order of the first key; True if the selection is complete."""
        self._add_rows(selection, items)
        if len(selection) < self._rows_needed or not items:
            return False
        if self._plan.is_fully_ordered:
            return True
        return selection.ends_before(self._execution.first_key(orjson.loads(items[-1].body)))

    async def _select_from_all(self, by_tie: bool) -> RowSelection:
        """Reads all items and keeps the rows of the page."""
        selection = RowSelection(self._after, self._rows_needed, by_tie=by_tie, resume=self._resume)
        last, has_more, size = -1, self._rows_needed > 0, builder.CHUNK
        while has_more:
            rows, has_more = await self._read(last, size, reads_on=True)
            await self._evaluate(self._is_small(rows), self._add_rows, selection, rows)
            last = rows[-1].number if rows else last
            size = self._next_chunk(size)
        return selection

    def _add_rows(self, selection: RowSelection, items: list[Row]) -> None:
        for item in items:
            self._restart_item_deadline()
            source = item if self._gives_items else item._replace(body=b"")
            self._execution.sort_into(selection, item.number, orjson.loads(item.body), source)

    def _load_selected(self, rows: list[ResultRow]) -> None:
        self.loaded += {row.source.number: row.source.size for row in rows}.values()
