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
from perseid.model import Container, Row, Usage
from perseid.store.filling import LARGEST_BURIAL
from perseid.store.position import Position
from perseid.store.postgres import statements
from perseid.store.postgres.connecting import Connection, Pool, fetch_all
from perseid.store.postgres.failures import as_client_error
from perseid.store.postgres.freshness import VERSION_SQL, Freshness
from perseid.store.postgres.overlay import Logged
from perseid.store.postgres.schema import part_of
from perseid.store.postgres.sql import positional
from perseid.store.postgres.transactions import Statement, commit, execute, pipelined, transact
from perseid.store.protocol import Ages, Cleared, Corpse, PurgedElsewhere, Span, Tally
from perseid.ttl import DAWN, LIVE_SQL, MORTALS_SQL, SPARED_SQL, Horizon

T = TypeVar("T")

LEASE: Final = 10.0  # seconds for which the one who removes the dead of a range keeps that office

_CORPSES: Final = (
    "SELECT * FROM ("
    " (SELECT number, 'inheriting' AS kind, ts AS base,"
    " ts + CASE WHEN ts <= :until THEN :before ELSE :after END AS ended, size, terms"
    " FROM items WHERE part = :part AND ttl IS NULL AND ts <= :inherited ORDER BY ts LIMIT :limit)"
    " UNION ALL (SELECT number, 'own', ts + ttl, ts + ttl, size, terms"
    " FROM items WHERE part = :part AND ttl > 0 AND ts + ttl <= :own"
    " ORDER BY ts + ttl LIMIT :limit)) AS dead ORDER BY ended, number LIMIT :limit"
).replace(":until", ":until::bigint").replace(":before", ":before::bigint").replace(
    ":after", ":after::bigint"
)  # fmt: skip
_LEASE: Final = "SELECT purger, purged_until FROM positions WHERE part = $1"
_BURY: Final = (
    "DELETE FROM items WHERE part = $1 AND number = ANY($2) RETURNING number, lsn, pk, id, epk"
)
# The items of a partition, counted by size where they are: it may hold more than fits in memory.
_CLEAR: Final = (
    "WITH gone AS (DELETE FROM items WHERE part = :part AND pk = :pk"
    f" RETURNING size, terms, {LIVE_SQL} AS is_live, {SPARED_SQL} AS is_spared)"
    " SELECT is_live, is_spared, size, COUNT(*), SUM(terms)::bigint FROM gone"
    " GROUP BY is_live, is_spared, size"
)
# With the items themselves, for the change log.
_TAKE: Final = f"DELETE FROM items WHERE part = $1 AND pk = $2 RETURNING {statements.COLUMNS}"
_RELEASE_ALL: Final = (
    "DELETE FROM entries WHERE part = $1"
    " AND number IN (SELECT number FROM items WHERE part = $1 AND pk = $2)"
)
# Tried, never waited for: one is enough, and the others have something else to do.
_REAP_ALONE: Final = f"SELECT pg_try_advisory_xact_lock({0x7065727365696402})"
_REAP: Final = tuple(
    f"DELETE FROM {table} WHERE part = $1 AND ({key}) IN"
    f" (SELECT {key} FROM {table} WHERE part = $1 LIMIT $2) RETURNING 1"
    for table, key in (("items", "number"), ("entries", "number"), ("log", "lsn, entry"))
)
_TAKE_YOUR_TIME: Final = "SET LOCAL statement_timeout TO 0"


class Lifetimes:
    """What the store does about time, for one front end."""

    def __init__(
        self,
        pool: Pool,
        freshness: Freshness,
        now: Callable[[], float],
        database_time: Callable[[], float],
        name: str,
    ) -> None:
        self._pool = pool
        self._freshness = freshness
        self._now = now
        self._database_time = database_time
        self._name = name
        # A drain beside the sweeper takes turns with it rather than leave the work to it.
        self._reaping = asyncio.Lock()

    # Removing

    async def purge(
        self,
        container: Container,
        range_index: int,
        horizon: Horizon,
        *,
        limit: int,
        ages: Ages,
        spare: Horizon | None,
        afford: Callable[[Sequence[Corpse]], int] | None,
        takes_over: bool,
    ) -> list[Corpse]:
        part = part_of(container.number, range_index)
        values = ages._asdict() | horizon._asdict() | {"part": part, "limit": limit}

        async def work(db: Connection) -> list[Corpse]:
            lease, found = await pipelined(
                db, (_LEASE, (part,)), positional(_CORPSES, values | {"limit": 1})
            )
            if not found:  # as nearly always; no need to hold up writes
                return []
            if not takes_over and lease and self._is_elsewhere(*lease[0]):
                raise PurgedElsewhere
            return await self._bury(db, container, part, values, spare, afford, takes_over)

        return await self._transact(work)

    async def _bury(
        self,
        db: Connection,
        container: Container,
        part: str,
        values: dict[str, Any],
        spare: Horizon | None,
        afford: Callable[[Sequence[Corpse]], int] | None,
        takes_over: bool,
    ) -> list[Corpse]:
        ((*counters, floor, purger, until),) = await self._lock(db, container, part)
        if not takes_over and self._is_elsewhere(purger, until):
            raise PurgedElsewhere
        if floor is not None:
            values = values | {"limit": min(values["limit"], LARGEST_BURIAL)}
        (found,) = await pipelined(db, positional(_CORPSES, values))
        corpses = [*map(Corpse._make, found)]
        del corpses[len(corpses) if afford is None else afford(corpses) :]
        if not corpses:
            return corpses
        numbers = [corpse.number for corpse in corpses]
        position = Position._make(counters).purged(corpses, spare)
        sent: list[Statement] = []
        if floor is None:
            sent.append((statements.DELETE, (part, numbers)))
        else:
            (gone,) = await pipelined(db, (_BURY, (part, numbers)))
            order = {number: entry for entry, number in enumerate(numbers)}
            ts = int(self._now())
            logged = [
                Logged(position.lsn, order[number], ts, "expire", lsn, pk, item_id, epk, None)
                for number, lsn, pk, item_id, epk in gone
            ]
            sent += statements.lines(part, logged)
        if container.unique_keys:
            sent.append((statements.RELEASE, (part, numbers)))
        sent.append(statements.moved(part, position))
        sent.append(
            (
                "UPDATE positions SET purger = $2, purged_until = $3 WHERE part = $1",
                (part, self._name, self._database_time() + LEASE),
            )
        )
        await commit(db, *sent)
        return corpses

    def _is_elsewhere(self, purger: str | None, until: float) -> bool:
        return purger not in (None, self._name) and self._database_time() < until

    async def clear(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        horizon: Horizon,
        spare: Horizon,
    ) -> Cleared:
        part = part_of(container.number, range_index)

        async def work(db: Connection) -> Cleared:
            ((*counters, floor, _purger, _until),) = await self._lock(db, container, part)
            position = Position._make(counters)
            first: list[Statement] = [(_TAKE_YOUR_TIME, ())]
            if container.unique_keys:
                first.append((_RELEASE_ALL, (part, pk)))
            logged: list[Logged] = []
            if floor is None:
                values = {"part": part, "pk": pk, **horizon._asdict()}
                values |= {"spare_inherited": spare.inherited, "spare_own": spare.own}
                (found,) = await pipelined(db, *first, positional(_CLEAR, values))
                groups = [*map(_Group._make, found)]
            else:
                (found,) = await pipelined(db, *first, (_TAKE, (part, pk)))
                rows = sorted(map(Row._make, found))
                groups = _groups(rows, horizon, spare)
                logged = self._cleared_lines(rows, position.lsn, horizon)
            if not groups:
                return Cleared.of(position.lsn, ())
            dead = [group for group in groups if not group.is_live]
            position = position.cleared(
                items=sum(group.items for group in groups),
                size=sum(group.size * group.items for group in groups),
                dead=sum(group.items for group in dead),
                dead_size=sum(group.size * group.items for group in dead),
                spared=sum(group.items for group in dead if group.is_spared),
                steps=logged[-1].lsn - position.lsn if logged else 1,
            )
            await commit(db, *statements.lines(part, logged), statements.moved(part, position))
            told = [(each.is_live, each.size, each.items, each.terms) for each in groups]
            return Cleared.of(position.lsn, told)

        return await self._transact(work)

    def _cleared_lines(self, rows: Sequence[Row], lsn: int, horizon: Horizon) -> list[Logged]:
        """As many transactions to the reader as it takes for each to fit on a page."""
        ts = int(self._now())
        lines = []
        for at, row in enumerate(rows):
            is_live = ttl.is_live(row.ts, row.ttl, horizon)
            step, entry = divmod(at, LARGEST_BURIAL)
            kind, body = ("delete", row.body) if is_live else ("expire", None)
            lines.append(
                Logged(lsn + 1 + step, entry, ts, kind, row.lsn, row.pk, row.id, row.epk, body)
            )
        return lines

    async def reap(self, limit: int, forget: Callable[[int], Awaitable[None]]) -> bool:
        """Removes some of what dropped containers have left; False if that is not for us to do:
        there is nothing, or another front end is at it."""
        found = await fetch_all(self._pool, "SELECT part FROM dropped LIMIT 1")
        if not found:
            return False
        ((part,),) = found
        try:
            async with self._reaping:
                is_empty = await self._transact(lambda db: _empty(db, part, limit))
        except PurgedElsewhere:
            return False
        if is_empty:  # and stays so: nobody writes to a range without counters
            await forget(int(part.partition(":")[0]))
            await fetch_all(self._pool, "DELETE FROM dropped WHERE part = $1", (part,))
        return True

    async def _lock(self, db: Connection, container: Container, part: str) -> Any:
        """Begins a transaction that holds the range; the range's row."""
        lock, version = await pipelined(
            db, ("BEGIN", ()), (statements.LOCK, (part,)), (statements.VERSION, ())
        )
        self._freshness.check(version[0][0], container)
        self._freshness.check_writing(container)
        if not lock:
            raise OwnerNotFound("Owner resource does not exist")
        return lock

    async def _transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await transact(self._pool, work)
        except psycopg.Error as exc:
            raise as_client_error(exc) from exc

    # Counting

    async def usage(self, container: Container, range_index: int, horizon: Horizon) -> Usage:
        part = part_of(container.number, range_index)
        dead = " + ".join(
            f"(SELECT {{figure}} FROM items"
            f" WHERE part = :part AND {condition} AND {base} <= :{bound})"
            for (condition, base), bound in zip(MORTALS_SQL.values(), Horizon._fields, strict=True)
        )
        columns = "items, bytes, purged_items, purged_bytes, spared"
        if horizon.is_endless:
            gone_sql = "0, 0"
        else:
            gone_sql = (
                f"{dead.format(figure='COUNT(*)')},"
                f" ({dead.format(figure='COALESCE(SUM(size), 0)')})::bigint"
            )
        sql = f"SELECT {VERSION_SQL}, {columns}, {gone_sql} FROM positions WHERE part = :part"
        values = {"part": part, **horizon._asdict()}
        rows = await fetch_all(self._pool, *positional(sql, values)) or [
            (*row, *(0,) * 7) for row in await fetch_all(self._pool, statements.VERSION)
        ]
        # Queries count through this: who else would notice that the horizon is an old one?
        version, items, size, *purged, gone, gone_size = rows[0]
        self._freshness.check(version, container)
        return Usage(items - gone, size - gone_size, gone, gone_size, *purged)

    async def count_keys(self, container: Container, range_index: int, horizon: Horizon) -> int:
        values = {"part": part_of(container.number, range_index)} | horizon._asdict()
        sql = f"SELECT COUNT(DISTINCT pk) FROM items WHERE part = :part AND {LIVE_SQL}"
        return int((await fetch_all(self._pool, *positional(sql, values)))[0][0])

    async def tally(self, container: Container, range_index: int, span: Span) -> Tally:
        columns = "COUNT(*), COALESCE(SUM(size), 0)::bigint, MIN(ts), MAX(ts), MAX({base})"
        rows = await self._spanned(container, range_index, span, columns)
        return Tally._make(rows[0])

    async def histogram(
        self, container: Container, range_index: int, span: Span, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        rows = await self._spanned(
            container,
            range_index,
            span,
            "({base} - :origin - 1) / :width AS bucket, COUNT(*), SUM(size)::bigint",
            "GROUP BY bucket",
            origin=origin,
            width=width,
        )
        return {bucket: (items, size) for bucket, items, size in rows}

    async def sample(
        self, container: Container, range_index: int, span: Span, limit: int
    ) -> list[Row]:
        columns = statements.COLUMNS.replace("body", "''::bytea")
        rows = await self._spanned(
            container, range_index, span, columns, "ORDER BY {base} LIMIT :limit", limit=limit
        )
        return [*map(Row._make, rows)]

    async def invalid_ttls(self, container: Container, horizon: Horizon) -> int:
        parts = [part_of(container.number, each.index) for each in container.ranges]
        sql = (
            "SELECT COUNT(*) FROM items"
            " WHERE part = ANY($1) AND ttl IS NULL AND ts > $2 AND doc ? 'ttl'"
        )
        return int((await fetch_all(self._pool, sql, (parts, horizon.inherited)))[0][0])

    async def _spanned(
        self,
        container: Container,
        range_index: int,
        span: Span,
        columns: str,
        rest: str = "",
        **more: int,
    ) -> list[tuple[Any, ...]]:
        condition, base = MORTALS_SQL[span.kind]
        sql = (
            f"SELECT {columns.format(base=base)} FROM items WHERE part = :part AND {condition}"
            f" AND {base} > :after AND {base} <= :upto {rest.format(base=base)}"
        )
        values = {
            "part": part_of(container.number, range_index),
            "after": max(span.after, DAWN),
            "upto": span.upto,
        }
        return await fetch_all(self._pool, *positional(sql, values | more))


async def _empty(db: Connection, part: str, limit: int) -> bool:
    """Removes some of what is left of a dropped range; whether that was all.

    PurgedElsewhere if another front end does so: of two who remove the same rows the second would
    wait, find them gone, and take that for the end.
    """
    (turn,) = await pipelined(db, ("BEGIN", ()), (_REAP_ALONE, ()))
    if turn != [(True,)]:
        raise PurgedElsewhere
    for sql in _REAP:
        gone = await execute(db, sql, (part, limit))
        if len(gone) == limit:
            break
    await commit(db, is_writing=False)  # it may well be done twice
    return len(gone) < limit


class _Group(NamedTuple):
    """Items of one size, all living or all dead: how many, and how many index terms."""

    is_live: bool
    is_spared: bool
    size: int
    items: int
    terms: int


def _groups(rows: Sequence[Row], horizon: Horizon, spare: Horizon) -> list[_Group]:
    counts: Counter[tuple[bool, bool, int]] = Counter()
    terms: Counter[tuple[bool, bool, int]] = Counter()
    for row in rows:
        is_live = ttl.is_live(row.ts, row.ttl, horizon)
        is_spared = not is_live and ttl.is_live(row.ts, row.ttl, spare)
        counts[is_live, is_spared, row.size] += 1
        terms[is_live, is_spared, row.size] += row.terms
    return [_Group(*group, items, terms[group]) for group, items in counts.items()]
