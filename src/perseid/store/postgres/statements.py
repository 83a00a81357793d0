"""The SQL that reads and writes items of one range; values are written $1, $2, …

Several rows are written by one statement with a list of them, which a Citus cluster sends to the
node of their range as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from perseid.model import ItemKey, Row
from perseid.store.postgres.arrays import BytesArray, TextArray
from perseid.store.postgres.catalog_version import VERSION_SQL
from perseid.store.postgres.numbers import normalized_json
from perseid.store.postgres.overlay import LogRow
from perseid.store.sql.range_state import RangeState

T = TypeVar("T")

# The order is that of model.Row.
COLUMNS: Final = "number, pk, id, epk, ts, ttl, lsn, etag, size, terms, body"
_QUALIFIED: Final = ", ".join(f"items.{name}" for name in COLUMNS.split(", "))
# A statement has room for so many values, and lists that long are not worth preparing.
_ROWS_AT_ONCE: Final = 256

# From the range, so that there is a row, and a version, although there is no such item.
READ: Final = (
    f"SELECT {VERSION_SQL}, positions.lsn, {_QUALIFIED} FROM positions LEFT JOIN items"
    " ON items.part = positions.part AND items.pk = $2 AND items.id = $3"
    " WHERE positions.part = $1"
)
# The item of each key is looked up by itself. A plain join might read the whole range instead, if
# the database expects fewer items in it than there are keys.
_WANTED_ITEMS: Final = (
    "unnest($2::bytea[], $3::text[]) AS wanted (pk, id) CROSS JOIN LATERAL"
    f" (SELECT {COLUMNS} FROM items"
    " WHERE part = $1 AND items.pk = wanted.pk AND items.id = wanted.id LIMIT 1) AS item"
)
READ_SEVERAL: Final = (
    f"SELECT {VERSION_SQL}, positions.lsn, item.* FROM positions"
    f" LEFT JOIN ({_WANTED_ITEMS}) ON true WHERE positions.part = $1"
)
READ_NUMBER: Final = (
    f"SELECT {VERSION_SQL}, positions.lsn, {_QUALIFIED} FROM positions LEFT JOIN items"
    " ON items.part = positions.part AND items.number = $2 WHERE positions.part = $1"
)
LOCK: Final = (
    "SELECT lsn, items, bytes, purged_items, purged_bytes, purged_since_change, floor,"
    " purge_lease_holder, purge_lease_until, indexes"
    " FROM positions WHERE part = $1 FOR UPDATE"
)
VERSION: Final = "SELECT version FROM shared"
FIND: Final = f"SELECT item.* FROM {_WANTED_ITEMS}"
FIND_ONE: Final = f"SELECT {COLUMNS} FROM items WHERE part = $1 AND pk = $2 AND id = $3"
UNIQUE_KEY_OWNERS: Final = (
    f"SELECT entries.entry, item.* FROM entries CROSS JOIN LATERAL (SELECT {COLUMNS} FROM items"
    " WHERE items.part = $1 AND items.number = entries.number LIMIT 1) AS item"
    " WHERE entries.part = $1 AND entries.entry = ANY($2)"
)
DELETE: Final = "DELETE FROM items WHERE part = $1 AND number = ANY($2)"
RELEASE: Final = "DELETE FROM entries WHERE part = $1 AND number = ANY($2)"
UPDATE_RANGE_STATE: Final = (
    "UPDATE positions SET lsn = $2, items = $3, bytes = $4, purged_items = $5, purged_bytes = $6,"
    " purged_since_change = $7 WHERE part = $1"
)
_WRITTEN: Final = ("part", "container", *COLUMNS.split(", "), "doc")
_UPDATED: Final = ", ".join(
    f"{name} = excluded.{name}"
    for name in _WRITTEN
    if name not in ("part", "container", "pk", "id")
)


def key_arrays(keys: Sequence[ItemKey]) -> tuple[BytesArray, TextArray]:
    return BytesArray.of(key.pk for key in keys), TextArray.of(key.id for key in keys)


def update_range_state(part: str, range_state: RangeState) -> tuple[str, tuple[Any, ...]]:
    return UPDATE_RANGE_STATE, (part, *range_state)


def inserts(part: str, container: int, rows: Sequence[Row]) -> Iterator[tuple[str, list[Any]]]:
    for chunk in _in_lists(rows):
        yield _insert_items(len(chunk)), _values(part, container, chunk)


def upserts(part: str, container: int, rows: Sequence[Row]) -> Iterator[tuple[str, list[Any]]]:
    """For rows that are there in an earlier version: it is the shortest way to replace several."""
    for chunk in _in_lists(rows):
        sql = f"{_insert_items(len(chunk))} ON CONFLICT (part, pk, id) DO UPDATE SET {_UPDATED}"
        yield sql, _values(part, container, chunk)


def _values(part: str, container: int, rows: Sequence[Row]) -> list[Any]:
    values: list[Any] = [part, container]
    for row in rows:
        values += row
        # The copy for conditions is made of the text there, unless it must differ.
        copy = normalized_json(row.body)
        values.append(None if copy is row.body else copy.decode())
    return values


def reserve_entries(
    part: str, reserved: Sequence[tuple[bytes, int]]
) -> Iterator[tuple[str, list[Any]]]:
    for chunk in _in_lists(reserved):
        values: list[Any] = [part]
        for reservation in chunk:
            values += reservation
        yield _insert("entries", 2, len(chunk)), values


def log_inserts(part: str, logged: Sequence[LogRow]) -> Iterator[tuple[str, list[Any]]]:
    for chunk in _in_lists(logged):
        values: list[Any] = [part]
        for line in chunk:
            values += line
        yield _insert("log", len(LogRow._fields), len(chunk)), values


def _in_lists(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]


@lru_cache(maxsize=_ROWS_AT_ONCE)
def _insert_items(count: int) -> str:
    """Its values are the part, the container, and of each row the columns and the copy."""
    width = len(Row._fields) + 1
    rows = []
    for first in range(3, 3 + count * width, width):
        *columns, body, copy = (f"${number}" for number in range(first, first + width))
        copied = f"COALESCE({copy}::text::jsonb, convert_from({body}::bytea, 'UTF8')::jsonb)"
        rows.append(f"($1, $2, {', '.join(columns)}, {body}::bytea, {copied})")
    return f"INSERT INTO items ({', '.join(_WRITTEN)}) VALUES {', '.join(rows)}"


@lru_cache(maxsize=2 * _ROWS_AT_ONCE)
def _insert(table: str, width: int, count: int) -> str:
    """Its values are the part, and the other columns of each row."""
    rows = (
        ", ".join(f"${number}" for number in range(first, first + width))
        for first in range(2, 2 + count * width, width)
    )
    return f"INSERT INTO {table} VALUES {', '.join(f'($1, {row})' for row in rows)}"
