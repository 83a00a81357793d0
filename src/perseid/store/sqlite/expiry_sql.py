"""Counts and finds expired and expiring items with the indexes over expiry, without live items.

An item without a ttl is found by its `_ts`, one with a ttl by `_ts + ttl`: see `ttl.py`.
"""

from __future__ import annotations

import apsw
import orjson

from perseid.model import RANGE_SHIFT, Row, StorageUsage
from perseid.store.sql.span_order import span_order_sql
from perseid.store.sqlite import tombstones
from perseid.store.types import ExpiryCount, PurgedItem, PurgeRequest, SpanPosition
from perseid.ttl import (
    EXPIRING_ITEMS_SQL,
    LIVE_SQL,
    Cutoff,
    ExpirySpan,
    bucket_sql,
    expired_spans,
    inherited_expired_at_sql,
)


def usage(db: apsw.Connection, number: int, range_index: int, cutoff: Cutoff) -> StorageUsage:
    """The live and expired items of a range."""
    with db:  # one snapshot: a purge that commits in between would be counted by half
        items, size, purged, purged_size, expired_by_change = db.execute(
            "SELECT items, bytes, purged_items, purged_bytes, purged_since_change FROM positions"
            " WHERE container = ? AND range = ?",
            (number, range_index),
        ).get or (0, 0, 0, 0, 0)
        counts = [_count(db, number, range_index, span) for span in expired_spans(cutoff)]
        hidden = tombstones.hidden_usage(db, number, range_index)
    expired, expired_size = (sum(column) for column in zip(*counts, strict=True))
    # Hidden items count as removed, whether they are purged yet or not.
    return StorageUsage(
        items - hidden.items - expired,
        size - hidden.size - expired_size,
        expired,
        expired_size,
        purged + hidden.expired,
        purged_size + hidden.expired_size,
        expired_by_change + hidden.expired_by_change,
    )


def count_partitions(db: apsw.Connection, number: int, range_index: int, cutoff: Cutoff) -> int:
    """How many logical partitions of a range have a live item."""
    sql = (
        f"SELECT COUNT(DISTINCT pk) FROM visible_{number}"
        f" WHERE number >= :first AND number < :end AND {LIVE_SQL}"
    )
    first, end = range_index << RANGE_SHIFT, (range_index + 1) << RANGE_SHIFT
    return int(db.execute(sql, {"first": first, "end": end} | cutoff._asdict()).get)


def purge_candidates(db: apsw.Connection, request: PurgeRequest, limit: int) -> list[PurgedItem]:
    """The first expired items of a range in the order of their expiry, from both indexes."""
    number = request.container.number
    part = f"number >> {RANGE_SHIFT} = :range"
    # All in one row: for each row fetched this thread would wait for the interpreter lock.
    sql = (
        "SELECT json_group_array(json_array(number, kind, base, expired_at, size, terms)) FROM ("
        "SELECT * FROM ("
        " SELECT * FROM (SELECT number, 'inheriting' AS kind, ts AS base,"
        f" {inherited_expired_at_sql(':until', ':before', ':after')} AS expired_at, size, terms"
        f" FROM visible_{number} WHERE {part} AND ttl IS NULL AND ts <= :inherited"
        " ORDER BY ts LIMIT :limit)"
        " UNION ALL SELECT * FROM (SELECT number, 'own', ts + ttl, ts + ttl, size, terms"
        f" FROM visible_{number} WHERE {part} AND ttl > 0 AND ts + ttl <= :own"
        " ORDER BY ts + ttl LIMIT :limit)"
        ") ORDER BY expired_at LIMIT :limit)"
    )
    values = request.expiry_ages._asdict() | request.cutoff._asdict()
    values |= {"range": request.range_index, "limit": limit}
    return [*map(PurgedItem._make, orjson.loads(db.execute(sql, values).get))]


def count(db: apsw.Connection, number: int, range_index: int, span: ExpirySpan) -> ExpiryCount:
    columns = "COUNT(*), COALESCE(SUM(size), 0), MIN(ts), MAX(ts), MAX({base})"
    sql = _span_sql(number, span, columns)
    return ExpiryCount._make(db.execute(sql, _span_values(range_index, span)).get)


def histogram(
    db: apsw.Connection, number: int, range_index: int, span: ExpirySpan, origin: int, width: int
) -> dict[int, tuple[int, int]]:
    """Items and bytes by buckets of `width` seconds from `origin` on."""
    sql = _span_sql(
        number,
        span,
        f"{bucket_sql('{base}', ':origin', ':width')} AS bucket, COUNT(*), SUM(size)",
        "GROUP BY bucket",
    )
    values = _span_values(range_index, span) | {"origin": origin, "width": width}
    return {bucket: (items, size) for bucket, items, size in db.execute(sql, values)}


def sample(
    db: apsw.Connection,
    number: int,
    range_index: int,
    span: ExpirySpan,
    limit: int,
    after: SpanPosition | None = None,
) -> list[Row]:
    """The first items of a span, without their bodies, in the order of the index."""
    columns = "number, pk, id, epk, ts, ttl, lsn, etag, size, terms, x''"
    sql = _span_sql(number, span, columns, span_order_sql(after))
    values = _span_values(range_index, span) | {"limit": limit}
    if after is not None:
        values |= after._asdict()
    return [*map(Row._make, db.execute(sql, values))]


def count_invalid_ttls(db: apsw.Connection, number: int, cutoff: Cutoff) -> int:
    """How many live items have an invalid `ttl`."""
    sql = (
        f"SELECT COUNT(*) FROM visible_{number} WHERE ttl IS NULL AND {LIVE_SQL}"
        " AND json_type(body, '$.ttl') IS NOT NULL"
    )
    return int(db.execute(sql, cutoff._asdict()).get)


def _count(db: apsw.Connection, number: int, range_index: int, span: ExpirySpan) -> tuple[int, int]:
    """Items and bytes of a span, from the index alone."""
    sql = _span_sql(number, span, "COUNT(*), COALESCE(SUM(size), 0)")
    items, size = db.execute(sql, _span_values(range_index, span)).get
    return items, size


def _span_sql(number: int, span: ExpirySpan, columns: str, rest: str = "") -> str:
    """SQL over the items of a span, in the order of their bases; binds :range :after :upto."""
    condition, base = EXPIRING_ITEMS_SQL[span.kind]
    return (
        f"SELECT {columns.format(base=base)} FROM visible_{number}"
        f" WHERE number >> {RANGE_SHIFT} = :range AND {condition}"
        f" AND {base} > :after AND {base} <= :upto {rest.format(base=base)}"
    )


def _span_values(range_index: int, span: ExpirySpan) -> dict[str, int]:
    return {"range": range_index, "after": span.after, "upto": span.upto}
