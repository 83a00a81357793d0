"""Counts items, and the combinations of values that they have at some paths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import apsw
import orjson

from perseid.conditions import ARRAY, FALSE, NULL, TRUE, UNDEFINED, Condition, PropertyPath
from perseid.store.sql.group_documents import put_value
from perseid.store.sqlite.conditions_sql import bindings, condition_sql, rank_sql, value_sql
from perseid.store.sqlite.indexes import indexed_by
from perseid.store.sqlite.scans import scope_sql
from perseid.store.sqlite.schema import visible_sql
from perseid.store.types import GroupCount, OnGroups, Search

_CONSTANTS = {NULL: None, FALSE: False, TRUE: True}


def count(
    db: apsw.Connection,
    number: int,
    search: Search,
    index: str | None,
    *,
    has_tombstones: bool = True,
) -> int:
    """How many live items meet the condition. Without tombstones the index alone answers."""
    source, values = _source(number, search, index, has_tombstones=has_tombstones)
    return int(db.execute(f"SELECT COUNT(*) {source}", values).get)


def count_groups(
    db: apsw.Connection,
    number: int,
    search: Search,
    index: str | None,
    paths: Sequence[PropertyPath],
    on_groups: OnGroups,
) -> None:
    """See `store.protocol.QueryStore`. An index that does not exist is an error at once."""
    source, values = _source(number, search, index)
    columns = ", ".join(f"{rank_sql(path)}, {value_sql(path)}" for path in paths)
    places = ", ".join(str(3 + place) for place in range(2 * len(paths)))
    sql = f"SELECT COUNT(*), MIN(number), {columns} {source} GROUP BY {places} ORDER BY 2"
    cursor = db.execute(sql, values)
    try:
        on_groups(_group_count(paths, *columns) for columns in cursor)
    finally:
        # Evaluation may stop early; a statement left open would keep its snapshot of the file.
        cursor.close(True)


def _group_count(
    paths: Sequence[PropertyPath], items: int, _first: int, *columns: Any
) -> GroupCount:
    document: dict[str, Any] = {}
    for path, rank, value in zip(paths, columns[0::2], columns[1::2], strict=True):
        if rank != UNDEFINED:
            put_value(document, path, _decoded(rank, value))
    return GroupCount(items, document)


def _source(
    number: int, search: Search, index: str | None, *, has_tombstones: bool = True
) -> tuple[str, dict[str, Any]]:
    scope, values = scope_sql(search)
    values.update(bindings(search.where))
    condition = None if search.where is None else search.where.condition
    return _source_sql(number, scope, condition, index, has_tombstones), values


@lru_cache(maxsize=1024)
def _source_sql(
    number: int, scope: str, condition: Condition | None, index: str | None, has_tombstones: bool
) -> str:
    where = scope if condition is None else f"{condition_sql(condition)} AND {scope}"
    if index is None:
        return f"FROM visible_{number} WHERE {where}"
    source = f"FROM items_{number} {indexed_by(index)} WHERE {where}"
    return f"{source} AND {visible_sql(number)}" if has_tombstones else source


def _decoded(rank: int, value: Any) -> Any:
    if rank >= ARRAY:
        return orjson.loads(value)
    return _CONSTANTS.get(rank, value)
