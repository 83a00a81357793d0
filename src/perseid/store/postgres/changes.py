"""The change feed on PostgreSQL: who was written last, and the log of all versions.

Writes to a range come one after the other, so whoever sees one sees all before it; nothing here
needs a snapshot of more than one range.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from psycopg import AsyncRawCursor

from perseid.errors import OwnerNotFound
from perseid.model import Container, Row
from perseid.store.filling import Filling
from perseid.store.postgres import statements
from perseid.store.postgres.connecting import Connection, Pool, borrowed, fetch_all
from perseid.store.postgres.freshness import VERSION_SQL, Freshness
from perseid.store.postgres.schema import part_of
from perseid.store.postgres.sql import positional
from perseid.store.postgres.writing import commit, in_transaction, pipelined
from perseid.store.protocol import Change, ChangePage, ChangeScan, LatestPage
from perseid.store.scoping import key_sql
from perseid.ttl import LIVE_SQL

T = TypeVar("T")

_CHUNK: Final = 64  # rows of the first look; each further one is twice as large


async def read_latest(
    pool: Pool, freshness: Freshness, container: Container, scan: ChangeScan
) -> LatestPage:
    """A page of items in the order of their last writes."""
    scope = scan.scope
    part = part_of(container.number, scan.range_index)
    values: dict[str, Any] = {"part": part, "since": scan.since}
    sql = (
        f"SELECT {statements.COLUMNS} FROM items WHERE part = :part AND ts >= :since"
        " AND lsn >= :lsn AND (lsn, number) > (:lsn, :number)"
        f"{key_sql(scope, values, ':{}'.format)}"
    )
    if not scope.horizon.is_endless:
        sql += f" AND {LIVE_SQL}"
        values |= scope.horizon._asdict()
    sql += " ORDER BY lsn, number LIMIT :limit"
    rows: list[Row] = []
    async with borrowed(pool) as db, db.transaction():
        lsn, _ = await _begin(db, freshness, container, part)
        filling = Filling(rows, scope)
        has_more = False
        start = {"lsn": scan.after, "number": 2**62}
        async for chunk in _chunks(db, sql, values, start, Row._make, _row_place):
            if filling.take(chunk):
                has_more = True
                break
    return LatestPage(rows, rows[-1].lsn if has_more else lsn)


async def read_versions(
    pool: Pool, freshness: Freshness, container: Container, scan: ChangeScan, lost: int
) -> ChangePage:
    """A page of logged changes."""
    part = part_of(container.number, scan.range_index)
    values: dict[str, Any] = {"part": part, "since": scan.since}
    sql = (
        "SELECT lsn, ts, kind, previous_lsn, pk, id, body, entry FROM log WHERE part = :part"
        " AND ts >= :since AND lsn >= :lsn AND (lsn, entry) > (:lsn, :entry)"
        f"{key_sql(scan.scope, values, ':{}'.format)} ORDER BY lsn, entry LIMIT :limit"
    )
    changes: list[Change] = []
    async with borrowed(pool) as db, db.transaction():
        lsn, floor = await _begin(db, freshness, container, part)
        if floor is None or scan.after < floor:
            return ChangePage([], lsn, False)
        oldest = await _fetch(
            db,
            "SELECT ts FROM log WHERE part = $1 AND lsn > $2 ORDER BY lsn, entry LIMIT 1",
            (part, scan.after),
        )
        if oldest and oldest[0][0] <= lost:
            return ChangePage([], lsn, False)
        filling = Filling(changes, scan.scope)
        has_more = False
        start = {"lsn": scan.after, "entry": 2**31 - 1}
        async for chunk in _chunks(db, sql, values, start, _change, _entry_place):
            if filling.take(chunk):
                has_more = True
                break
    return ChangePage(changes, changes[-1].lsn if has_more else lsn, True)


async def forget(pool: Pool, container: Container, lost: int, limit: int) -> int:
    """Removes the oldest lines of each range; from then on its log begins behind them."""
    removed = 0
    for each in container.ranges:
        part = part_of(container.number, each.index)
        first = await fetch_all(
            pool, "SELECT ts FROM log WHERE part = $1 ORDER BY lsn, entry LIMIT 1", (part,)
        )
        if first and first[0][0] <= lost and removed < limit:
            removed += await in_transaction(pool, partial(_forget, part, lost, limit - removed))
    return removed


async def _forget(part: str, lost: int, limit: int, db: Connection) -> int:
    # Lines are in the order of commits, which is that of time but for requests that overtake each
    # other within a moment: one that is not due yet holds the others back.
    lock, found = await pipelined(
        db,
        ("BEGIN", ()),
        (statements.LOCK, (part,)),
        (
            "SELECT lsn, entry, ts FROM log WHERE part = $1 ORDER BY lsn, entry LIMIT $2",
            (part, limit),
        ),
    )
    due = 0
    while due < len(found) and found[due][2] <= lost:
        due += 1
    if not lock or not due:
        await db.execute("ROLLBACK")
        return 0
    lsn, entry, _ = found[due - 1]
    await commit(
        db,
        ("DELETE FROM log WHERE part = $1 AND (lsn, entry) <= ($2, $3)", (part, lsn, entry)),
        ("UPDATE positions SET floor = $2 WHERE part = $1", (part, lsn)),
    )
    return due


async def _begin(
    db: Connection, freshness: Freshness, container: Container, part: str
) -> tuple[int, int | None]:
    """Takes one look at the range for all that follows; its LSN, and where its log begins."""
    await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    ((lsn, floor, version),) = await _fetch(
        db,
        f"SELECT lsn, floor, {VERSION_SQL} FROM positions WHERE part = $1",
        (part,),
    ) or ((None, None, (await _fetch(db, statements.VERSION, ()))[0][0]),)
    freshness.check(version, container)
    if lsn is None:
        raise OwnerNotFound("Owner resource does not exist")
    return lsn, floor


async def _fetch(db: Connection, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor: AsyncRawCursor[Any] = AsyncRawCursor(db)
    await cursor.execute(sql, values, binary=True)
    return await cursor.fetchall()


async def _chunks(
    db: Connection,
    sql: str,
    values: dict[str, Any],
    place: dict[str, int],
    make: Callable[[tuple[Any, ...]], T],
    place_of: Callable[[tuple[Any, ...]], dict[str, int]],
) -> AsyncIterator[list[T]]:
    """The rows behind a place, some at a time: nobody knows how large they are."""
    limit = _CHUNK
    while True:
        rows = await _fetch(db, *positional(sql, values | place | {"limit": limit}))
        yield [make(row) for row in rows]
        if len(rows) < limit:
            return
        place = place_of(rows[-1])
        limit *= 2


def _change(columns: tuple[Any, ...]) -> Change:
    return Change._make(columns[:-1])


def _row_place(columns: tuple[Any, ...]) -> dict[str, int]:
    return {"lsn": columns[6], "number": columns[0]}


def _entry_place(columns: tuple[Any, ...]) -> dict[str, int]:
    return {"lsn": columns[0], "entry": columns[-1]}
