"""Fills a page with rows until it has as many, or as many bytes, as it may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.model import Row, body_of
from perseid.store.types import Search, SearchPage


def complete_page(search: Search, rows: list[Row]) -> SearchPage | None:
    """A page out of rows that are there already; None if its bytes may not suffice for them."""
    shown = rows[: search.limit]
    if sum(map(len, map(body_of, shown))) > search.max_bytes:
        return None
    return SearchPage(shown, len(rows) > len(shown))


class PageBuilder:
    """A page while rows are put on it: it takes its first one, and more while there is room."""

    __slots__ = ("_limit", "room", "rows")

    def __init__(self, search: Search) -> None:
        self.rows: list[Row] = []
        self.room = search.max_bytes
        self._limit = search.limit

    @property
    def rows_to_fetch(self) -> int:
        """How many rows to ask for; the last one only tells that there are more."""
        return self._limit + 1 - len(self.rows)

    def add_columns(self, columns: Iterable[Any]) -> bool:
        """Puts the row on the page; False if it is full."""
        return self.add(Row._make(columns))

    def add(self, row: Row) -> bool:
        self.room -= len(row.body)
        if self.rows and (self.room < 0 or len(self.rows) == self._limit):
            return False
        self.rows.append(row)
        return True

    def fill(self, found: Iterable[Any]) -> SearchPage:
        """A page out of what a statement gives; one row more tells that there are others."""
        return SearchPage(self.rows, not all(map(self.add_columns, found)))
