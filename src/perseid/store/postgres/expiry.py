"""Expired items on PostgreSQL: counts and purges them, one server process per range at a time.

A purge lease in the row of the range says which process purges it; each purge, which locks that row
anyway, takes or renews the lease. It ends by the database's clock, not by the test clock: if its
process stops, a frozen test clock must not keep the lease alive. Correctness does not depend on the
lease, because the lock on the range orders all purges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from perseid import ttl
from perseid.model import Container, Row
from perseid.store.postgres import property_values, statements
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.lease import LEASE
from perseid.store.postgres.overlay import LogRow
from perseid.store.postgres.placeholders import positional
from perseid.store.postgres.pool import DatabaseConnection, Pool, fetch_all
from perseid.store.postgres.range_lock import lock_range
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.transactions import (
    Statement,
    commit,
    execute,
    pipelined,
    transact_for_client,
)
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.sql.purge_allowance import within_allowance
from perseid.store.sql.range_state import RangeState
from perseid.store.sql.span_order import span_order_sql
from perseid.store.types import (
    NOTHING_PURGED,
    ExpiryCount,
    PurgedItem,
    PurgeLeaseTaken,
    PurgeRequest,
    PurgeResult,
    SpanPosition,
)
from perseid.ttl import BEFORE_ANY_TS, EXPIRING_ITEMS_SQL, Cutoff, ExpirySpan

T = TypeVar("T")

# The casts tell the server the types of parameters that stand next to each other only.
_EXPIRED_AT: Final = ttl.inherited_expired_at_sql(
    ":until::bigint", ":before::bigint", ":after::bigint"
)
_PURGE_CANDIDATES: Final = (
    "SELECT * FROM ("
    " (SELECT number, 'inheriting' AS kind, ts AS base,"
    f" {_EXPIRED_AT} AS expired_at, size, terms"
    " FROM items WHERE part = :part AND ttl IS NULL AND ts <= :inherited ORDER BY ts LIMIT :limit)"
    " UNION ALL (SELECT number, 'own', ts + ttl, ts + ttl, size, terms"
    " FROM items WHERE part = :part AND ttl > 0 AND ts + ttl <= :own"
    " ORDER BY ts + ttl LIMIT :limit)) AS expired ORDER BY expired_at, number LIMIT :limit"
)
_LEASE: Final = "SELECT purge_lease_holder, purge_lease_until FROM positions WHERE part = $1"
_PURGE_ITEMS: Final = (
    "DELETE FROM items WHERE part = $1 AND number = ANY($2) RETURNING number, lsn, pk, id, epk"
)
# Tried without waiting: one process is enough.
_TRY_PURGE_LOCK: Final = f"SELECT pg_try_advisory_xact_lock({0x7065727365696402})"
_PURGE_DROPPED: Final = tuple(
    f"DELETE FROM {table} WHERE part = $1 AND ({key}) IN"
    f" (SELECT {key} FROM {table} WHERE part = $1 LIMIT $2) RETURNING 1"
    for table, key in (
        ("items", "number"),
        ("entries", "number"),
        ("log", "lsn, entry"),
        ("property_values", "number, property"),
        ("property_indexes", "id"),
    )
)


def _candidates(part: str, request: PurgeRequest, limit: int) -> Statement:
    values = request.expiry_ages._asdict() | request.cutoff._asdict()
    return positional(_PURGE_CANDIDATES, values | {"part": part, "limit": limit})


class PostgresExpiry:
    """See `store.protocol.ExpiryStore`."""

    def __init__(
        self,
        pool: Pool,
        catalog_version: CatalogVersion,
        now: Callable[[], float],
        database_time: Callable[[], float],
        name: str,
    ) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._now = now
        self._database_time = database_time
        self._name = name
        # A drain and the sweeper take turns.
        self._purging_dropped = asyncio.Lock()

    # Removing

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        part = range_key(request.container.number, request.range_index)

        async def work(db: DatabaseConnection) -> PurgeResult:
            lease, candidates = await pipelined(
                db, (_LEASE, (part,)), _candidates(part, request, limit=1)
            )
            if not candidates:  # nearly always; writes need not wait for a lock
                return NOTHING_PURGED
            if not request.take_over_lease and lease and self._is_lease_taken(*lease[0]):
                raise PurgeLeaseTaken
            return await self._purge_items(db, part, request)

        return await transact_for_client(self._pool, work)

    async def _purge_items(
        self, db: DatabaseConnection, part: str, request: PurgeRequest
    ) -> PurgeResult:
        container = request.container
        ((*counters, floor, lease_holder, until, index_version),) = await lock_range(
            db, self._catalog_version, container, part
        )
        if not request.take_over_lease and self._is_lease_taken(lease_holder, until):
            raise PurgeLeaseTaken
        limit = request.max_items if floor is None else min(request.max_items, MAX_LOGGED_REMOVALS)
        (candidates,) = await pipelined(db, _candidates(part, request, limit))
        result = within_allowance([*map(PurgedItem._make, candidates)], request.allowance)
        if not result.items:
            return result
        numbers = [purged_item.number for purged_item in result.items]
        range_state = RangeState._make(counters).after_purge(result.items, request.previous_cutoff)
        sent: list[Statement] = []
        if floor is None:
            sent.append((statements.DELETE, (part, numbers)))
        else:
            (gone,) = await pipelined(db, (_PURGE_ITEMS, (part, numbers)))
            order = {number: entry for entry, number in enumerate(numbers)}
            ts = int(self._now())
            logged = [
                LogRow(range_state.lsn, order[number], ts, "expire", lsn, pk, item_id, epk, None)
                for number, lsn, pk, item_id, epk in gone
            ]
            sent += statements.log_inserts(part, logged)
        if container.unique_keys:
            sent.append((statements.RELEASE, (part, numbers)))
        if index_version:
            sent.append((property_values.DELETE, (part, numbers)))
        sent.append(statements.update_range_state(part, range_state))
        sent.append(
            (
                "UPDATE positions SET purge_lease_holder = $2, purge_lease_until = $3"
                " WHERE part = $1",
                (part, self._name, self._database_time() + LEASE),
            )
        )
        await commit(db, *sent)
        return result

    def _is_lease_taken(self, lease_holder: str | None, until: float) -> bool:
        return lease_holder not in (None, self._name) and self._database_time() < until

    async def purge_cleared(self, limit: int) -> bool:
        """Purges items of dropped containers; False if there are none, or another server process
        purges them."""
        parts = await fetch_all(self._pool, "SELECT part FROM dropped LIMIT 1")
        if not parts:
            return False
        ((part,),) = parts
        try:
            async with self._purging_dropped:
                is_empty = await transact_for_client(
                    self._pool, lambda db: _purge_dropped_range(db, part, limit)
                )
        except PurgeLeaseTaken:
            return False
        if is_empty:  # and stays empty: a range without counters is not written
            await fetch_all(self._pool, "DELETE FROM dropped WHERE part = $1", (part,))
        return True

    # Counting

    async def free_disk_space(self, pages: int) -> int:  # noqa: ARG002 -- the database does it
        return 0

    async def count(self, container: Container, range_index: int, span: ExpirySpan) -> ExpiryCount:
        columns = "COUNT(*), COALESCE(SUM(size), 0)::bigint, MIN(ts), MAX(ts), MAX({base})"
        rows = await self._select_span(container, range_index, span, columns)
        return ExpiryCount._make(rows[0])

    async def histogram(
        self, container: Container, range_index: int, span: ExpirySpan, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        rows = await self._select_span(
            container,
            range_index,
            span,
            f"{ttl.bucket_sql('{base}', ':origin', ':width')} AS bucket,"
            " COUNT(*), SUM(size)::bigint",
            "GROUP BY bucket",
            origin=origin,
            width=width,
        )
        return {bucket: (items, size) for bucket, items, size in rows}

    async def sample(
        self,
        container: Container,
        range_index: int,
        span: ExpirySpan,
        limit: int,
        after: SpanPosition | None = None,
    ) -> list[Row]:
        columns = statements.COLUMNS.replace("body", "''::bytea")
        more = {} if after is None else after._asdict()
        rows = await self._select_span(
            container, range_index, span, columns, span_order_sql(after), limit=limit, **more
        )
        return [*map(Row._make, rows)]

    async def count_invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
        parts = [range_key(container.number, each.index) for each in container.ranges]
        sql = (
            "SELECT COUNT(*) FROM items"
            " WHERE part = ANY($1) AND ttl IS NULL AND ts > $2 AND doc ? 'ttl'"
        )
        return int((await fetch_all(self._pool, sql, (parts, cutoff.inherited)))[0][0])

    async def _select_span(
        self,
        container: Container,
        range_index: int,
        span: ExpirySpan,
        columns: str,
        rest: str = "",
        **more: int,
    ) -> list[tuple[Any, ...]]:
        condition, base = EXPIRING_ITEMS_SQL[span.kind]
        sql = (
            f"SELECT {columns.format(base=base)} FROM items WHERE part = :part AND {condition}"
            f" AND {base} > :after AND {base} <= :upto {rest.format(base=base)}"
        )
        values = {
            "part": range_key(container.number, range_index),
            "after": max(span.after, BEFORE_ANY_TS),
            "upto": span.upto,
        }
        return await fetch_all(self._pool, *positional(sql, values | more))


async def _purge_dropped_range(db: DatabaseConnection, part: str, limit: int) -> bool:
    """Removes some rows of a dropped range; True if those were the last.

    PurgeLeaseTaken if another process does so: of two processes that remove the same rows, the
    second would wait, find none, and take the range for empty.
    """
    (turn,) = await pipelined(db, ("BEGIN", ()), (_TRY_PURGE_LOCK, ()))
    if turn != [(True,)]:
        raise PurgeLeaseTaken
    for sql in _PURGE_DROPPED:
        gone = await execute(db, sql, (part, limit))
        if len(gone) == limit:
            break
    await commit(db, is_writing=False)  # repeating it does no harm
    return len(gone) < limit
