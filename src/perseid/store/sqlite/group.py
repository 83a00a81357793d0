"""The open group of writes: what it has read and what it will write, many items per statement.

A statement releases the interpreter lock while SQLite works, and under load getting it back takes
longer than the work. So the rows of all decisions of a group are read together, later decisions see
the changes of earlier ones, and all changes are written together at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import apsw

from perseid.model import ItemKey, Row
from perseid.store.sqlite import schema
from perseid.store.sqlite.checksums import CHECKED_COLUMNS, checksum, damaged_row, is_damaged
from perseid.store.types import Put, Remove

NeededKeys = tuple[int, Sequence[ItemKey]]  # a container's number, and keys of items in it

# The last two come from texts and bodies in a damaged file.
DRIVER_ERRORS: Final = (apsw.Error, UnicodeDecodeError, json.JSONDecodeError)
CONTENT_ERRORS: Final = (apsw.SQLError, UnicodeDecodeError, json.JSONDecodeError)
_LARGEST: Final = 64  # items in one statement


def is_damaged_content(exc: BaseException) -> bool:
    """True if the error comes from the content of an item, not from the file."""
    if isinstance(exc, apsw.SQLError):
        return "malformed JSON" in str(exc)
    return isinstance(exc, CONTENT_ERRORS)


class Group:
    """Rows as the decisions of a group see them, and the deferred changes."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        # By container and key; the key as a plain tuple, which is equal and made faster.
        self._known: dict[tuple[int, tuple[bytes, str]], Row | None] = {}
        # By container: rows by item number, and numbers of items.
        self._puts: dict[int, dict[int, Row]] = {}
        self._removed: dict[int, list[int]] = {}

    def read(self, needed: Iterable[NeededKeys]) -> None:
        """Reads the rows that the decisions need, as far as possible."""
        keys: dict[int, dict[ItemKey, None]] = {}
        for number, item_keys in needed:
            keys.setdefault(number, {}).update(dict.fromkeys(item_keys))
        for number, distinct in keys.items():
            try:
                rows = self._find(number, [*distinct])
            except DRIVER_ERRORS:
                if not self._db.in_transaction:
                    raise
                continue  # a dropped container or a damaged item: `row` raises the error again
            for key in distinct:
                self._known[number, key] = rows.get(key)

    def row(self, number: int, key: ItemKey) -> Row | None:
        """The item as the group has changed it."""
        cache_key = (number, key)
        if cache_key not in self._known:
            self.flush()
            try:
                row = self._find(number, [key]).get(key)
            except CONTENT_ERRORS as exc:
                if not is_damaged_content(exc):
                    raise
                row = self._find_damaged(number, key)
            self._known[cache_key] = row
        return self._known[cache_key]

    def defer(self, number: int, changes: Iterable[Put | Remove]) -> None:
        """Takes changes that keep the ids of items. If a deferred change fails, the whole group
        fails."""
        puts = self._puts.setdefault(number, {})
        for change in changes:
            row = change.row
            if isinstance(change, Put):
                puts[row.number] = row
            else:
                puts.pop(row.number, None)
                self._removed.setdefault(number, []).append(row.number)
            self._record(number, change)

    def write(self, number: int, change: Put | Remove) -> None:
        """Writes a change at once; there must be no deferred changes."""
        if isinstance(change, Put):
            self._db.execute(_put_sql(number, 1), _with_checksum(change.row))
        else:
            schema.remove_items(self._db, number, [change.row.number], has_unique_keys=False)

    def record_all(self, number: int, changes: Iterable[Put | Remove]) -> None:
        """Records changes that were written."""
        for change in changes:
            self._record(number, change)

    def flush(self) -> None:
        """Writes the deferred changes, removals first, because they free ids."""
        if self._removed:
            for number, removed_numbers in self._removed.items():
                schema.remove_items(self._db, number, removed_numbers, has_unique_keys=False)
            self._removed.clear()
        if self._puts:
            for number, puts in self._puts.items():
                rows = [*puts.values()]
                while rows:
                    size = min(_LARGEST, 1 << len(rows).bit_length() - 1)
                    self._db.execute(
                        _put_sql(number, size),
                        tuple(chain.from_iterable(map(_with_checksum, rows[:size]))),
                    )
                    del rows[:size]
            self._puts.clear()

    def clear(self) -> None:
        """Drops everything: the group was committed or rolled back."""
        self._known.clear()
        self._puts.clear()
        self._removed.clear()

    def _find(self, number: int, keys: list[ItemKey]) -> dict[ItemKey, Row]:
        rows = {}
        for start in range(0, len(keys), _LARGEST):
            part = keys[start : start + _LARGEST]
            # Rounded up to a power of two, so that there are few statements; a repeated key is
            # harmless.
            size = 1 << (len(part) - 1).bit_length()
            part += part[-1:] * (size - len(part))
            for columns in self._db.execute(_read_sql(number, size), (*chain.from_iterable(part),)):
                row = Row._make(columns[:11])
                rows[row.key] = damaged_row(columns, row.key) if is_damaged(columns) else row
        return rows

    def _find_damaged(self, number: int, key: ItemKey) -> Row | None:
        """The row of an item that cannot be read, without its body."""
        columns = self._db.execute(
            "SELECT number, pk, id, epk, ts, ttl, lsn, CAST(etag AS BLOB), size, terms"
            f" FROM visible_{number} WHERE pk = ? AND id = ?",
            key,
        ).get
        return None if columns is None else damaged_row(columns, key)

    def _record(self, number: int, change: Put | Remove) -> None:
        row = change.row
        if isinstance(change, Remove):
            self._known[number, (row.pk, row.id)] = None
            return
        old = change.replaces
        if old is not None and old.id != row.id:
            self._known[number, (old.pk, old.id)] = None
        self._known[number, (row.pk, row.id)] = row


def _with_checksum(row: Row) -> tuple[Any, ...]:
    return *row, checksum(*row)


@lru_cache(maxsize=1024)
def _read_sql(number: int, size: int) -> str:
    # From the view, which leaves out cleared partitions. CROSS JOIN makes SQLite start with the
    # keys.
    return (
        f"SELECT {CHECKED_COLUMNS} FROM (VALUES {','.join(['(?,?)'] * size)}) AS wanted"
        f" CROSS JOIN visible_{number} WHERE pk = wanted.column1 AND id = wanted.column2"
    )


@lru_cache(maxsize=1024)
def _put_sql(number: int, size: int) -> str:
    values = ",".join(["(?,?,?,?,?,?,?,?,?,?,jsonb(?),?)"] * size)
    return (
        f"INSERT INTO items_{number} VALUES {values} ON CONFLICT (number) DO UPDATE SET"
        " id = excluded.id, ts = excluded.ts, ttl = excluded.ttl, lsn = excluded.lsn,"
        " etag = excluded.etag, size = excluded.size, terms = excluded.terms, body = excluded.body,"
        " checksum = excluded.checksum"
    )
