"""Pages of the change feed: whole transactions, up to a number and a size."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, Generic, TypeVar

from perseid.model import Row
from perseid.store.types import LoggedChange, Search

# A page holds whole transactions, so what is removed by one must fit on a page.
MAX_LOGGED_REMOVALS: Final = 100

T = TypeVar("T", Row, LoggedChange)


class TransactionPageBuilder(Generic[T]):
    """Fills a list with whole transactions."""

    def __init__(self, page: list[T], scope: Search) -> None:
        self._page: list[T] = page
        self._limit = scope.limit
        self._room = scope.max_bytes

    def add_transactions(self, changes: Iterable[T]) -> bool:
        """Adds whole transactions until the page is full; True if there are more."""
        page = self._page
        for each in changes:
            size = len(each.body or b"")
            is_full = len(page) >= self._limit or size > self._room
            if page and is_full and each.lsn != page[-1].lsn:
                return True
            page.append(each)
            self._room -= size
        return False


def in_transaction_order(rows: list[Row]) -> list[Row]:
    """Rows in the order in which they were written. The writes of a transaction share its LSN, and
    their etags ascend."""
    return sorted(rows, key=attrgetter("lsn", "etag"))
