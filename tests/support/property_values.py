"""Compares the entries of property indexes on PostgreSQL with the items they are about."""

from __future__ import annotations

from typing import Any

import orjson
import psycopg

from perseid.store.postgres.conditions_sql import (
    head_of_sql,
    json_sql,
    measure_of_sql,
    rank_of_sql,
)


def add_index(db: psycopg.Connection[Any], path: list[str]) -> None:
    """Lists a complete index for all ranges, which have no items yet."""
    with db.transaction():
        db.execute(
            "INSERT INTO property_indexes"
            " SELECT part, indexes + 1, %s, 'ready', -1, -1 FROM positions FOR UPDATE",
            (orjson.dumps(path).decode(),),
        )
        db.execute("UPDATE positions SET indexes = indexes + 1")


def wrong_entries(db: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """Entries that complete indexes lack or have too many of, and entries of no index."""
    listed = db.execute(
        "SELECT part, id, path FROM property_indexes WHERE state = 'ready'"
    ).fetchall()
    wrong: list[tuple[Any, ...]] = []
    for part, index_id, path in listed:
        value = json_sql(tuple(orjson.loads(path))).replace("%%", "%")
        stored = (
            "SELECT number, rank::int, measure, head, ts, ttl FROM property_values"
            f" WHERE part = '{part}' AND property = {index_id}"
        )
        expected = (
            f"SELECT number, {rank_of_sql(value)}, {measure_of_sql(value)}, {head_of_sql(value)},"
            f" ts, ttl FROM items WHERE part = '{part}'"
        )
        for left, right in ((stored, expected), (expected, stored)):
            wrong += db.execute(f"({left}) EXCEPT ({right})").fetchall()
    wrong += db.execute(
        "SELECT part, number, property FROM property_values AS entry WHERE NOT EXISTS"
        " (SELECT 1 FROM property_indexes WHERE part = entry.part AND id = entry.property)"
    ).fetchall()
    return wrong
