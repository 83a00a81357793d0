"""Positions in a result, where one page ends and the next begins, and the rows after a position.

A row has a key, bytes in the order of the result, and a tie breaker for rows with equal keys. Both
depend on the row alone and not on its neighbours, so a position keeps its meaning when other rows
are added or removed. It holds at most the first `LONGEST_KEY` bytes of a key. If longer keys have
equal starts, a page ends before or after all of them; only if they do not fit on one page are they
ordered by their tie breakers. Continuation tokens, which contain positions, are made elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import math
from itertools import pairwise
from typing import Any, Final, NamedTuple

# Encoded in a token, that is two thirds of the kilobyte that clients allow.
LONGEST_KEY: Final = 400
# So many rows beyond the limit are collected before the surplus is sorted out.
_PRUNE_AT: Final = 4096


class ResultRow(NamedTuple):
    """A result row with its place in the result; `source` is what came with its item."""

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
    """The last row of a page: the start of its key and its tie; None: all rows with that start."""

    start: bytes
    tie: bytes | None

    @property
    def splits_equal_starts(self) -> bool:
        """True if the page ended between rows whose long keys have equal starts."""
        return len(self.start) == LONGEST_KEY and self.tie is not None

    def is_before(self, key: bytes, tie: bytes) -> bool:
        """True if a row with this key and tie comes after the position."""
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


class ResumePosition(NamedTuple):
    """Where a client lets a result begin: a whole key, and the first tie among rows with that key;
    None: after all of them."""

    start: bytes
    tie: bytes | None

    def includes(self, key: bytes, tie: bytes) -> bool:
        """True if a row with this key and tie is at the position or after it."""
        if key != self.start:
            return key > self.start
        return self.tie is not None and tie >= self.tie


def tie_breaker_of(key: bytes) -> bytes:
    """The tie breaker of a row whose key is unique: needed only if a position truncates the key."""
    return hashlib.blake2b(key, digest_size=12).digest() if len(key) > LONGEST_KEY else b""


def is_in_order(rows: list[ResultRow]) -> bool:
    """True if the rows are sorted by key and tie."""
    return all(row[:2] <= following[:2] for row, following in pairwise(rows))


class RowSelection:
    """Selects the first `limit` rows after a position, out of rows in any order.

    With `by_tie`, long keys with equal starts count as equal. `resume`: rows before it are not
    selected either.
    """

    def __init__(
        self,
        after: ResultPosition | None,
        limit: float,
        *,
        by_tie: bool = False,
        resume: ResumePosition | None = None,
    ) -> None:
        self._after = after
        self._resume = resume
        self._limit = limit
        self._by_tie = by_tie
        self._rows_kept: list[tuple[bytes, bytes, ResultRow]] = []
        self._bound: tuple[bytes, bytes] | None = None  # new rows at or after it are not selected

    def accepts(self, key: bytes, tie: bytes) -> bool:
        """False if a row with this key and tie cannot be selected."""
        if self._after is not None and not self._after.is_before(key, tie):
            return False
        if self._resume is not None and not self._resume.includes(key, tie):
            return False
        return self._bound is None or (self._ordered(key), tie) < self._bound

    def add(self, row: ResultRow) -> None:
        """Adds an accepted row; no two rows have the same key and tie."""
        self._rows_kept.append((self._ordered(row.key), row.tie, row))
        if len(self._rows_kept) >= self._limit + _PRUNE_AT:
            self._prune()

    def ends_before(self, start: bytes) -> bool:
        """True if no row whose key begins with `start`, or comes after it, can be selected."""
        self._prune()
        return self._bound is not None and self._bound[0] < start

    def __len__(self) -> int:
        """How many rows are held now: at least as many as are selected so far."""
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
    """The last index up to `end`, after `first`, where a page may end, or None.

    A page may not end between two long keys with equal starts.
    """
    for index in range(end, first, -1):
        if not rows[index].is_long or rows[index - 1].start != rows[index].start:
            return index
    return None


def end_position(rows: list[ResultRow], end: int) -> ResultPosition:
    """The position of a page that ends before `rows[end]`, or after the last row."""
    last = rows[end - 1]
    is_last_of_start = last.is_long and (end == len(rows) or last.start != rows[end].start)
    return ResultPosition(last.start, None if is_last_of_start else last.tie)
