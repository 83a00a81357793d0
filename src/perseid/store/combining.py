"""Counts items, and the combinations of values that they have at a few paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import orjson

from perseid.conditions import ARRAY, FALSE, NULL, TRUE, UNDEFINED, Path
from perseid.store.predicates import bindings, condition_sql, rank_sql, value_sql
from perseid.store.property_indexes import indexed_by
from perseid.store.protocol import Scan
from perseid.store.scanning import scope_sql
from perseid.store.schema import standing_sql

_CONSTANTS = {NULL: None, FALSE: False, TRUE: True}


def count(db: apsw.Connection, number: int, scan: Scan, index: str | None) -> int:
    """How many live items meet the condition."""
    source, values = _source(number, scan, index)
    return int(db.execute(f"SELECT COUNT(*) {source}", values).get)


def combine(
    db: apsw.Connection,
    number: int,
    scan: Scan,
    index: str | None,
    paths: Sequence[Path],
    take: Callable[[int, dict[str, Any]], None],
) -> None:
    """See `store.protocol.Store.combine`."""
    source, values = _source(number, scan, index)
    columns = ", ".join(f"{rank_sql(path)}, {value_sql(path)}" for path in paths)
    places = ", ".join(str(3 + place) for place in range(2 * len(paths)))
    sql = f"SELECT COUNT(*), MIN(number), {columns} {source} GROUP BY {places} ORDER BY 2"
    for times, _, *found in db.execute(sql, values):
        document: dict[str, Any] = {}
        for path, rank, value in zip(paths, found[0::2], found[1::2], strict=True):
            if rank != UNDEFINED:
                put(document, path, _decoded(rank, value))
        take(times, document)


def _source(number: int, scan: Scan, index: str | None) -> tuple[str, dict[str, Any]]:
    scope, values = scope_sql(scan)
    if scan.where is not None:
        scope = f"{condition_sql(scan.where.condition)} AND {scope}"
        values |= bindings(scan.where)
    if index is None:
        return f"FROM standing_{number} WHERE {scope}", values
    return (
        f"FROM items_{number} {indexed_by(index)} WHERE {scope} AND {standing_sql(number)}",
        values,
    )


def _decoded(rank: int, value: Any) -> Any:
    if rank >= ARRAY:
        return orjson.loads(value)
    return _CONSTANTS.get(rank, value)


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """No path is the beginning of another, so what is in between is made of objects."""
    for name in path[:-1]:
        document = document.setdefault(str(name), {})
    document[str(path[-1])] = value
