"""The dead of a range on PostgreSQL: counted, removed, and by one front end at a time.

A lease says who removes them. It is part of the range's own row, which a removal locks anyway, so
it is taken and renewed by what it is for. It ends by the database's own clock, not by the test
clock: it is about processes that live and die in real time, and a clock that a test has frozen
must not keep the dead one in office. That nobody is removed twice does not depend on it; the lock
on the range sees to that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import psycopg

from perseid import ttl
from perseid.errors import OwnerNotFound
from perseid.model import Container, Row, StorageUsage
from perseid.store.postgres import statements
from perseid.store.postgres.catalog_version import VERSION_SQL, CatalogVersion
from perseid.store.postgres.failures import as_client_error
from perseid.store.postgres.overlay import LogRow
from perseid.store.postgres.placeholders import positional
from perseid.store.postgres.pool import DatabaseConnection, Pool, fetch_all
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.transactions import Statement, commit, execute, pipelined, transact
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.sql.purge_allowance import within_allowance
from perseid.store.sql.range_state import RangeState
from perseid.store.types import (
    NOTHING_PURGED,
    Cleared,
    ExpiryCount,
    PurgedItem,
    PurgeLeaseTaken,
    PurgeRequest,
    PurgeResult,
)
from perseid.ttl import (
    BEFORE_ANY_TS,
    EXPIRED_BY_CHANGE_SQL,
    EXPIRING_ITEMS_SQL,
    LIVE_SQL,
    Cutoff,
    ExpirySpan,
)

T = TypeVar("T")

LEASE: Final = 10.0  # seconds for which the one who removes the dead of a range keeps that office

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
_LEASE: Final = "SELECT purger, purged_until FROM positions WHERE part = $1"
_PURGE_ITEMS: Final = (
    "DELETE FROM items WHERE part = $1 AND number = ANY($2) RETURNING number, lsn, pk, id, epk"
)
# The items of a partition, counted by size where they are: it may hold more than fits in memory.
_DELETE_PARTITION: Final = (
    "WITH gone AS (DELETE FROM items WHERE part = :part AND pk = :pk"
    f" RETURNING size, terms, {LIVE_SQL} AS is_live, {EXPIRED_BY_CHANGE_SQL} AS is_spared)"
    " SELECT is_live, is_spared, size, COUNT(*), SUM(terms)::bigint FROM gone"
    " GROUP BY is_live, is_spared, size"
)
# With the items themselves, for the change log.
_DELETE_PARTITION_ROWS: Final = (
    f"DELETE FROM items WHERE part = $1 AND pk = $2 RETURNING {statements.COLUMNS}"
)
_RELEASE_PARTITION_ENTRIES: Final = (
    "DELETE FROM entries WHERE part = $1"
    " AND number IN (SELECT number FROM items WHERE part = $1 AND pk = $2)"
)
# Tried, never waited for: one is enough, and the others have something else to do.
_TRY_PURGE_LOCK: Final = f"SELECT pg_try_advisory_xact_lock({0x7065727365696402})"
_PURGE_DROPPED: Final = tuple(
    f"DELETE FROM {table} WHERE part = $1 AND ({key}) IN"
    f" (SELECT {key} FROM {table} WHERE part = $1 LIMIT $2) RETURNING 1"
    for table, key in (("items", "number"), ("entries", "number"), ("log", "lsn, entry"))
)
_NO_STATEMENT_TIMEOUT: Final = "SET LOCAL statement_timeout TO 0"


def _candidates(part: str, request: PurgeRequest, limit: int) -> Statement:
    values = request.expiry_ages._asdict() | request.cutoff._asdict()
    return positional(_PURGE_CANDIDATES, values | {"part": part, "limit": limit})


class PostgresExpiry:
    """What the store does about time, for one front end."""

    def __init__(
        self,
        pool: Pool,
        freshness: CatalogVersion,
        now: Callable[[], float],
        database_time: Callable[[], float],
        name: str,
    ) -> None:
        self._pool = pool
        self._catalog_version = freshness
        self._now = now
        self._database_time = database_time
        self._name = name
        # A drain beside the sweeper takes turns with it rather than leave the work to it.
        self._purging_dropped = asyncio.Lock()

    # Removing

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        part = range_key(request.container.number, request.range_index)

        async def work(db: DatabaseConnection) -> PurgeResult:
            lease, found = await pipelined(
                db, (_LEASE, (part,)), _candidates(part, request, limit=1)
            )
            if not found:  # nearly always; writes need not wait for a lock
                return NOTHING_PURGED
            if not request.take_over_lease and lease and self._is_lease_taken(*lease[0]):
                raise PurgeLeaseTaken
            return await self._purge_items(db, part, request)

        return await self._transact(work)

    async def _purge_items(
        self, db: DatabaseConnection, part: str, request: PurgeRequest
    ) -> PurgeResult:
        container = request.container
        ((*counters, floor, purger, until),) = await self._lock(db, container, part)
        if not request.take_over_lease and self._is_lease_taken(purger, until):
            raise PurgeLeaseTaken
        limit = request.max_items if floor is None else min(request.max_items, MAX_LOGGED_REMOVALS)
        (found,) = await pipelined(db, _candidates(part, request, limit))
        result = within_allowance([*map(PurgedItem._make, found)], request.allowance)
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
        sent.append(statements.update_range_state(part, range_state))
        sent.append(
            (
                "UPDATE positions SET purger = $2, purged_until = $3 WHERE part = $1",
                (part, self._name, self._database_time() + LEASE),
            )
        )
        await commit(db, *sent)
        return result

    def _is_lease_taken(self, purger: str | None, until: float) -> bool:
        return purger not in (None, self._name) and self._database_time() < until

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff,
    ) -> Cleared:
        part = range_key(container.number, range_index)

        async def work(db: DatabaseConnection) -> Cleared:
            ((*counters, floor, _purger, _until),) = await self._lock(db, container, part)
            range_state = RangeState._make(counters)
            first: list[Statement] = [(_NO_STATEMENT_TIMEOUT, ())]
            if container.unique_keys:
                first.append((_RELEASE_PARTITION_ENTRIES, (part, pk)))
            logged: list[LogRow] = []
            if floor is None:
                values = {"part": part, "pk": pk, **cutoff._asdict()}
                values |= {
                    "previous_inherited": previous_cutoff.inherited,
                    "previous_own": previous_cutoff.own,
                }
                (found,) = await pipelined(db, *first, positional(_DELETE_PARTITION, values))
                groups = [*map(_SizeGroup._make, found)]
            else:
                (found,) = await pipelined(db, *first, (_DELETE_PARTITION_ROWS, (part, pk)))
                rows = sorted(map(Row._make, found))
                groups = _size_groups(rows, cutoff, previous_cutoff)
                logged = self._clearing_log_rows(rows, range_state.lsn, cutoff)
            if not groups:
                return Cleared.of(range_state.lsn, ())
            expired = [group for group in groups if not group.is_live]
            range_state = range_state.after_clear(
                items=sum(group.items for group in groups),
                size=sum(group.size * group.items for group in groups),
                expired=sum(group.items for group in expired),
                expired_size=sum(group.size * group.items for group in expired),
                expired_by_change=sum(
                    group.items for group in expired if group.is_expired_by_change
                ),
                steps=logged[-1].lsn - range_state.lsn if logged else 1,
            )
            await commit(
                db,
                *statements.log_inserts(part, logged),
                statements.update_range_state(part, range_state),
            )
            size_groups = [(each.is_live, each.size, each.items, each.terms) for each in groups]
            return Cleared.of(range_state.lsn, size_groups)

        return await self._transact(work)

    def _clearing_log_rows(self, rows: Sequence[Row], lsn: int, cutoff: Cutoff) -> list[LogRow]:
        """As many transactions to the reader as it takes for each to fit on a page."""
        ts = int(self._now())
        lines = []
        for at, row in enumerate(rows):
            is_live = ttl.is_live(row.ts, row.ttl, cutoff)
            step, entry = divmod(at, MAX_LOGGED_REMOVALS)
            kind, body = ("delete", row.body) if is_live else ("expire", None)
            lines.append(
                LogRow(lsn + 1 + step, entry, ts, kind, row.lsn, row.pk, row.id, row.epk, body)
            )
        return lines

    async def purge_cleared(
        self, limit: int, drop_container: Callable[[int], Awaitable[None]]
    ) -> bool:
        """Removes some of what dropped containers have left; False if that is not for us to do:
        there is nothing, or another front end is at it."""
        found = await fetch_all(self._pool, "SELECT part FROM dropped LIMIT 1")
        if not found:
            return False
        ((part,),) = found
        try:
            async with self._purging_dropped:
                is_empty = await self._transact(lambda db: _purge_dropped_range(db, part, limit))
        except PurgeLeaseTaken:
            return False
        if is_empty:  # and stays so: nobody writes to a range without counters
            await drop_container(int(part.partition(":")[0]))
            await fetch_all(self._pool, "DELETE FROM dropped WHERE part = $1", (part,))
        return True

    async def _lock(self, db: DatabaseConnection, container: Container, part: str) -> Any:
        """Begins a transaction that holds the range; the range's row."""
        lock, version = await pipelined(
            db, ("BEGIN", ()), (statements.LOCK, (part,)), (statements.VERSION, ())
        )
        self._catalog_version.check(version[0][0], container)
        self._catalog_version.check_write(container)
        if not lock:
            raise OwnerNotFound
        return lock

    async def _transact(self, work: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        try:
            return await transact(self._pool, work)
        except psycopg.Error as exc:
            raise as_client_error(exc) from exc

    # Counting

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        part = range_key(container.number, range_index)
        expired = " + ".join(
            f"(SELECT {{figure}} FROM items"
            f" WHERE part = :part AND {condition} AND {base} <= :{bound})"
            for (condition, base), bound in zip(
                EXPIRING_ITEMS_SQL.values(), Cutoff._fields, strict=True
            )
        )
        columns = "items, bytes, purged_items, purged_bytes, spared"
        if cutoff.expires_nothing:
            gone_sql = "0, 0"
        else:
            gone_sql = (
                f"{expired.format(figure='COUNT(*)')},"
                f" ({expired.format(figure='COALESCE(SUM(size), 0)')})::bigint"
            )
        sql = f"SELECT {VERSION_SQL}, {columns}, {gone_sql} FROM positions WHERE part = :part"
        values = {"part": part, **cutoff._asdict()}
        rows = await fetch_all(self._pool, *positional(sql, values)) or [
            (*row, *(0,) * 7) for row in await fetch_all(self._pool, statements.VERSION)
        ]
        # Queries count through this: who else would notice that the horizon is an old one?
        version, items, size, *purged, gone, gone_size = rows[0]
        self._catalog_version.check(version, container)
        return StorageUsage(items - gone, size - gone_size, gone, gone_size, *purged)

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        values = {"part": range_key(container.number, range_index)} | cutoff._asdict()
        sql = f"SELECT COUNT(DISTINCT pk) FROM items WHERE part = :part AND {LIVE_SQL}"
        return int((await fetch_all(self._pool, *positional(sql, values)))[0][0])

    async def expiry_count(
        self, container: Container, range_index: int, span: ExpirySpan
    ) -> ExpiryCount:
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
        self, container: Container, range_index: int, span: ExpirySpan, limit: int
    ) -> list[Row]:
        columns = statements.COLUMNS.replace("body", "''::bytea")
        rows = await self._select_span(
            container, range_index, span, columns, "ORDER BY {base} LIMIT :limit", limit=limit
        )
        return [*map(Row._make, rows)]

    async def invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
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
    """Removes some of what is left of a dropped range; whether that was all.

    PurgedElsewhere if another front end does so: of two who remove the same rows the second would
    wait, find them gone, and take that for the end.
    """
    (turn,) = await pipelined(db, ("BEGIN", ()), (_TRY_PURGE_LOCK, ()))
    if turn != [(True,)]:
        raise PurgeLeaseTaken
    for sql in _PURGE_DROPPED:
        gone = await execute(db, sql, (part, limit))
        if len(gone) == limit:
            break
    await commit(db, is_writing=False)  # it may well be done twice
    return len(gone) < limit


class _SizeGroup(NamedTuple):
    """Items of one size, all living or all dead: how many, and how many index terms."""

    is_live: bool
    is_expired_by_change: bool
    size: int
    items: int
    terms: int


def _size_groups(rows: Sequence[Row], cutoff: Cutoff, previous_cutoff: Cutoff) -> list[_SizeGroup]:
    counts: Counter[tuple[bool, bool, int]] = Counter()
    terms: Counter[tuple[bool, bool, int]] = Counter()
    for row in rows:
        is_live = ttl.is_live(row.ts, row.ttl, cutoff)
        is_expired_by_change = ttl.is_expired_by_change(row.ts, row.ttl, cutoff, previous_cutoff)
        counts[is_live, is_expired_by_change, row.size] += 1
        terms[is_live, is_expired_by_change, row.size] += row.terms
    return [_SizeGroup(*group, items, terms[group]) for group, items in counts.items()]
