"""The values of indexed properties: an entry for each item and each property index of its range.

Entries are a function of the item, and change in the transaction that changes it. They repeat `ts`
and `ttl`, so counts, groups and orders leave out expired items without reading any item.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from perseid.conditions import PropertyPath
from perseid.store.postgres.conditions_sql import (
    head_of_sql,
    json_sql,
    measure_of_sql,
    rank_of_sql,
)


class PropertyIndex(NamedTuple):
    """A property index of one range. Its id is never used again in that range."""

    id: int
    path: PropertyPath


PropertyIndexSet: TypeAlias = tuple[PropertyIndex, ...]

DELETE: Final = "DELETE FROM property_values WHERE part = $1 AND number = ANY($2)"
_COLUMNS: Final = "part, number, property, rank, measure, head, ts, ttl"
_REPLACE: Final = "ON CONFLICT (part, number, property) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in ("rank", "measure", "head", "ts", "ttl")
)
# Adds the entries of items that have none yet: others were written since the index exists.
_FILL: Final = "ON CONFLICT (part, number, property) DO NOTHING"


def insert_values(part: str, numbers: Sequence[int], indexes: PropertyIndexSet) -> tuple[str, Any]:
    """Adds the entries of items that were inserted in this transaction."""
    return _add_sql(_paths(indexes), "items.number = ANY($2)"), _arguments(part, numbers, indexes)


def replace_values(part: str, numbers: Sequence[int], indexes: PropertyIndexSet) -> tuple[str, Any]:
    """Brings the entries of items to what this transaction has written."""
    sql = f"{_add_sql(_paths(indexes), 'items.number = ANY($2)')} {_REPLACE}"
    return sql, _arguments(part, numbers, indexes)


def fill_values(part: str, index: PropertyIndex, after: int, upto: int) -> tuple[str, Any]:
    """Adds the entries of items with these numbers."""
    among = "items.number > $2 AND items.number <= $4"
    return f"{_add_sql((index.path,), among)} {_FILL}", (part, after, index.id, upto)


def _paths(indexes: PropertyIndexSet) -> tuple[PropertyPath, ...]:
    return tuple([index.path for index in indexes])


def _arguments(part: str, numbers: Sequence[int], indexes: Iterable[PropertyIndex]) -> list[Any]:
    return [part, [*numbers], *(index.id for index in indexes)]


@lru_cache(maxsize=1024)
def _add_sql(paths: tuple[PropertyPath, ...], among: str) -> str:
    """The values are the part, what says which items, and the ids of the indexes."""
    # Here names are not escaped for placeholders, as `json_sql` does.
    values = ", ".join(
        f"(${place}::integer, {json_sql(path)})".replace("%%", "%")
        for place, path in enumerate(paths, 3)
    )
    return (
        f"INSERT INTO property_values ({_COLUMNS}) SELECT items.part, items.number, property,"
        f" {rank_of_sql('value')}, {measure_of_sql('value')}, {head_of_sql('value')}, ts, ttl"
        f" FROM items CROSS JOIN LATERAL (VALUES {values}) AS indexed (property, value)"
        f" WHERE items.part = $1 AND {among}"
    )
