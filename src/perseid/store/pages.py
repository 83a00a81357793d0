"""Fills a page with rows until it has as many, or as many bytes, as it may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.model import Row
from perseid.store.protocol import Page, Scan


class Filling:
    """A page that takes rows as statements give them; it holds at least one."""

    __slots__ = ("_limit", "room", "rows")

    def __init__(self, scan: Scan) -> None:
        self.rows: list[Row] = []
        self.room = scan.max_bytes
        self._limit = scan.limit

    @property
    def wanted(self) -> int:
        """How many rows to ask for; the last one only tells that there are more."""
        return self._limit + 1 - len(self.rows)

    def take(self, row: Row) -> bool:
        """False if the page is full without it."""
        room = self.room - len(row.body)
        if self.rows and (room < 0 or len(self.rows) == self._limit):
            return False
        self.room = room
        self.rows.append(row)
        return True


def collect(found: Iterable[Any], scan: Scan) -> Page:
    """A page out of what a statement gives; one row more tells that there are others."""
    page = Filling(scan)
    is_full = not all(page.take(Row._make(columns)) for columns in found)
    return Page(page.rows, is_full)
