"""Where a page of a result ends, told so that it outlives the rows: positions, rows behind one.

A row has a key, bytes in the order of the result, and a tie that tells rows with equal keys
apart. Both come from the row alone, never from its neighbours, so a position still means the same
when rows around it come and go. It holds the first `LONGEST` bytes of a key at most. Where longer
keys begin alike a page ends before or behind all of them; only when there are more of those than
a page holds do they go by their ties.
"""

from __future__ import annotations

import base64
import hashlib
import math
from itertools import pairwise
from typing import Any, Final, NamedTuple

# Written down, that is two thirds of the kilobyte which clients allow for a token.
LONGEST_KEY: Final = 400
# Rows that cannot be on the page are thrown away whenever this many are waiting.
_PRUNE_AT: Final = 4096


class ResultRow(NamedTuple):
    """A result row, its place in the order of the result, and what its reader said of its item."""

    key: bytes
    tie: bytes
    value: Any
    source: Any

    @property
    def start(self) -> bytes:
        return self.key[:LONGEST_KEY]

    @property
    def is_long(self) -> bool:
        return len(self.key) > LONGEST_KEY


class ResultPosition(NamedTuple):
    """The last row given: the start of its key, and its tie or None for all that start so."""

    start: bytes
    tie: bytes | None

    @property
    def splits_equal_starts(self) -> bool:
        """True when rows were told apart by their ties because their keys are too long."""
        return len(self.start) == LONGEST_KEY and self.tie is not None

    def is_before(self, key: bytes, tie: bytes) -> bool:
        start = key[:LONGEST_KEY]
        if start != self.start:
            return start > self.start
        return self.tie is not None and tie > self.tie

    def to_json(self) -> list[str | None]:
        tie = None if self.tie is None else base64.b85encode(self.tie).decode()
        return [base64.b85encode(self.start).decode(), tie]

    @classmethod
    def from_json(cls, value: list[Any]) -> ResultPosition:
        start, tie = value
        return cls(base64.b85decode(start), None if tie is None else base64.b85decode(tie))


def tie_breaker_of(key: bytes) -> bytes:
    """A tie for rows whose keys are all different, needed where a position cuts the key."""
    return hashlib.blake2b(key, digest_size=12).digest() if len(key) > LONGEST_KEY else b""


def is_in_order(rows: list[ResultRow]) -> bool:
    """Whether the rows come as their keys and ties do."""
    return all(one[:2] <= other[:2] for one, other in pairwise(rows))


class RowSelection:
    """The first `most` rows behind a position, out of rows that come in any order.

    With `by_tie`, long keys that start alike count as equal.
    """

    def __init__(self, after: ResultPosition | None, limit: float, *, by_tie: bool = False) -> None:
        self._after = after
        self._limit = limit
        self._by_tie = by_tie
        self._rows_kept: list[tuple[bytes, bytes, ResultRow]] = []
        self._bound: tuple[bytes, bytes] | None = None  # rows from here on are not wanted

    def accepts(self, key: bytes, tie: bytes) -> bool:
        """False when such a row cannot be among the selected."""
        if self._after is not None and not self._after.is_before(key, tie):
            return False
        return self._bound is None or (self._ordered(key), tie) < self._bound

    def add(self, row: ResultRow) -> None:
        """Takes a row that is wanted; no two have the same key and tie."""
        self._rows_kept.append((self._ordered(row.key), row.tie, row))
        if len(self._rows_kept) >= self._limit + _PRUNE_AT:
            self._prune()

    def ends_before(self, start: bytes) -> bool:
        """Whether rows whose keys begin with `start`, or come behind, cannot be among them."""
        self._prune()
        return self._bound is not None and self._bound[0] < start

    def __len__(self) -> int:
        """How many rows are kept now: at least those that will be selected of what came so far."""
        return len(self._rows_kept)

    def rows(self) -> list[ResultRow]:
        self._prune()
        return [row for _, _, row in self._rows_kept]

    def _ordered(self, key: bytes) -> bytes:
        return key[:LONGEST_KEY] if self._by_tie else key

    def _prune(self) -> None:
        self._rows_kept.sort(key=_sort_key)
        if len(self._rows_kept) >= self._limit < math.inf:
            del self._rows_kept[int(self._limit) :]
            self._bound = _sort_key(self._rows_kept[-1]) if self._rows_kept else (b"", b"")


def _sort_key(kept_row: tuple[bytes, bytes, ResultRow]) -> tuple[bytes, bytes]:
    return kept_row[0], kept_row[1]


def last_page_end(rows: list[ResultRow], first: int, end: int) -> int | None:
    """The last place up to `end`, behind `first`, where a page can end whatever the next one does.

    That is anywhere but between two long keys that start alike.
    """
    for at in range(end, first, -1):
        if not rows[at].is_long or rows[at - 1].start != rows[at].start:
            return at
    return None


def end_position(rows: list[ResultRow], end: int) -> ResultPosition:
    """The position of a page that ends before `rows[end]`."""
    last = rows[end - 1]
    whole = last.is_long and last.start != rows[end].start
    return ResultPosition(last.start, None if whole else last.tie)
