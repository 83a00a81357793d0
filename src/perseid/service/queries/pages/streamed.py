"""Pages of rows that are evaluated item by item."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from perseid.model import Row
from perseid.query.deadline import DeadlineExceeded
from perseid.service.queries.pages.builder import FEW_ROWS, ItemPageBuilder

_MANY_ITEMS: Final = 2**31


class _Progress(NamedTuple):
    """Whether the page is finished, and if so, where the next one begins."""

    is_finished: bool
    next_position: dict[str, Any] | None = None


_UNFINISHED: Final = _Progress(False)


class StreamedPageBuilder(ItemPageBuilder):
    """Each item gives rows of its own, whatever the other items are.

    A position is the item of the next row, and how many of its rows were returned before.
    """

    async def _build(self) -> dict[str, Any] | None:
        after = self._position.get("item", 0) - 1
        size, items_read = self._first_chunk, 0
        while self._rows_left != 0:
            reads_on = self._expected_items(items_read) > size
            rows, has_more = await self._read(after, size, reads_on=reads_on)
            items_read += len(rows)
            progress = await self._evaluate(self._is_small(rows), self._add_rows_of, rows)
            if progress.is_finished:
                return progress.next_position
            after = rows[-1].number if rows else after
            if not has_more:
                break
            if self._is_late():
                return self._position_after(after)
            size = min(self._next_chunk(size), self._expected_items(items_read))
        return self._position_after(after) if self._is_full else None

    def _expected_items(self, items_read: int) -> int:
        """How many items fill the page if they give as many rows as those before them."""
        needed = self._rows_needed - len(self.rows)
        if self.rows:
            needed = needed * items_read // len(self.rows) + 1
        elif items_read:
            return _MANY_ITEMS
        return max(needed, FEW_ROWS)

    def _add_rows_of(self, items: list[Row]) -> _Progress:
        first_item = self._position.get("item")
        for item in items:
            if self._is_exhausted():
                return _Progress(True, self._position_at(item.number))
            given = self._position["given"] if item.number == first_item else 0
            progress = self._add_rows_of_item(item, given)
            if progress.is_finished:
                return progress
            if item is not items[-1] and self._is_late():
                return _Progress(True, self._position_after(item.number))
        return _UNFINISHED

    def _add_rows_of_item(self, item: Row, given: int) -> _Progress:
        """Adds the rows of one item except the first `given` ones."""
        self._restart_item_deadline()
        seen = 0  # rows of this item
        try:
            for result in self._execution.rows_of(orjson.loads(item.body)):
                if seen == 0:
                    self._load(item)
                if seen < given:
                    pass
                elif self._skip > 0:
                    self._skip -= 1
                elif not self._add(item.body if self._gives_items else orjson.dumps(result)):
                    return _Progress(True, self._position_at(item.number, seen))
                elif len(self.rows) == self._rows_left:
                    return _Progress(True)
                seen += 1
        except DeadlineExceeded:
            if not self.rows:
                raise
            return _Progress(True, self._position_at(item.number, seen))
        return _UNFINISHED
