"""Builds pages that are limited in rows and in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.model import Row, body_of
from perseid.store.types import Search, SearchPage


def complete_page(search: Search, rows: list[Row], *, is_ordered: bool) -> SearchPage | None:
    """A page of rows in memory; None if they may exceed its limit of bytes."""
    shown = rows[: search.limit]
    if sum(map(len, map(body_of, shown))) > search.max_bytes:
        return None
    return SearchPage(shown, len(rows) > len(shown), None, is_ordered)


class RowPageBuilder:
    """A page under construction: takes its first row in any case, more while there is room."""

    __slots__ = ("_limit", "room", "rows")

    def __init__(self, search: Search) -> None:
        self.rows: list[Row] = []
        self.room = search.max_bytes
        self._limit = search.limit

    @property
    def rows_to_fetch(self) -> int:
        """How many rows to fetch; one more than fits shows whether there are more."""
        return self._limit + 1 - len(self.rows)

    def add_columns(self, columns: Iterable[Any]) -> bool:
        """Adds the row; False if the page is full."""
        return self.add(Row._make(columns))

    def add(self, row: Row) -> bool:
        self.room -= len(row.body)
        if self.rows and (self.room < 0 or len(self.rows) == self._limit):
            return False
        self.rows.append(row)
        return True

    def fill(self, columns_of_rows: Iterable[Any]) -> SearchPage:
        """A page of the rows of a statement, which has one more if there are more."""
        return SearchPage(self.rows, not all(map(self.add_columns, columns_of_rows)))
