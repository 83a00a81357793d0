"""What pages of sorted and of collected rows share: rows are ordered by their keys."""

from __future__ import annotations

from typing import Any

import orjson

from perseid.errors import RequestTimeout
from perseid.query.positions import ResultRow, RowSelection, end_position, last_page_end
from perseid.service.queries.pages.builder import PageBuilder


class KeyedPageBuilder(PageBuilder):
    """A page ends after a key. The position is the beginning of that key, and a tie breaker."""

    def _check_time(self, now: float) -> None:
        """Also 408 for a page that takes too long: it cannot end before all items are read."""
        super()._check_time(now)
        seconds = self._task.budget.total_seconds
        if now - self._started > seconds:
            raise RequestTimeout(
                f"The query was stopped after {seconds:g} seconds: ORDER BY, GROUP BY, DISTINCT and"
                " aggregates need all items that match. Please add filters."
            )

    def _tie_passes(self) -> tuple[bool, ...]:
        """Whether to order rows with equal beginnings of long keys by their tie breakers.

        That is only done if the page cannot end otherwise, or if the previous page did it.
        """
        splits = self._after is not None and self._after.splits_equal_starts
        return (True,) if splits else (False, True)

    def _finish_page(
        self, selection: RowSelection, by_tie: bool
    ) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is finished, and where the next one begins."""
        rows, first, next_position = selection.rows(), self._skip, None
        for row in rows[first:]:
            if not self._add(self._text(row)):
                break
        end = first + len(self.rows)
        if end < len(rows):
            cut = last_page_end(rows, first, end)
            if cut is None and not by_tie:
                self._clear()
                return False, None
            end = end if cut is None else cut
            del self.rows[end - first :]
        if end < len(rows) or self._is_full:
            next_position = self._next_position({"after": end_position(rows, end).to_json()})
        if by_tie:
            places = sorted(range(len(self.rows)), key=lambda at: rows[first + at].key)
            self.rows = [self.rows[at] for at in places]
        self._load_selected(rows[:end])
        return True, next_position

    def _load_selected(self, rows: list[ResultRow]) -> None:
        """Notes which items the rows of the page were made of."""

    def _text(self, row: ResultRow) -> bytes:
        body: bytes = row.source.body if self._gives_items else orjson.dumps(row.value)
        return body
