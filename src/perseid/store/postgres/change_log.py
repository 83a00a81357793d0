"""The change feed on PostgreSQL: the latest versions of items, and the log of all versions.

Writes to a range are ordered, so a reader that sees one sees all before it; no snapshot spans more
than one range.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, TypeVar

from perseid.errors import OwnerNotFound
from perseid.model import Container, Row
from perseid.store.postgres import statements
from perseid.store.postgres.catalog_version import VERSION_SQL, CatalogVersion
from perseid.store.postgres.placeholders import positional
from perseid.store.postgres.pool import DatabaseConnection, Pool, fetch_all, pooled_connection
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.transactions import commit, execute, pipelined, transact_for_client
from perseid.store.sql.change_pages import TransactionPageBuilder, in_transaction_order
from perseid.store.sql.scope import key_sql
from perseid.store.types import ChangePage, ChangeSearch, LatestPage, LoggedChange
from perseid.ttl import LIVE_SQL

T = TypeVar("T")

_CHUNK: Final = 64  # rows of the first chunk; each further one is twice as large


class PostgresChanges:
    """See `store.protocol.ChangeStore`."""

    def __init__(self, pool: Pool, catalog_version: CatalogVersion) -> None:
        self._pool = pool
        self._catalog_version = catalog_version

    async def latest(self, container: Container, search: ChangeSearch) -> LatestPage:
        return await _read_latest(self._pool, self._catalog_version, container, search)

    async def versions(
        self, container: Container, search: ChangeSearch, trimmed_until: int
    ) -> ChangePage:
        return await _read_versions(
            self._pool, self._catalog_version, container, search, trimmed_until
        )

    async def trim(self, container: Container, trimmed_until: int, limit: int) -> int:
        return await _trim(self._pool, container, trimmed_until, limit)


async def _read_latest(
    pool: Pool, catalog_version: CatalogVersion, container: Container, search: ChangeSearch
) -> LatestPage:
    """A page of items in the order of their last writes."""
    scope = search.scope
    part = range_key(container.number, search.range_index)
    values: dict[str, Any] = {"part": part, "since": search.since}
    sql = (
        f"SELECT {statements.COLUMNS} FROM items WHERE part = :part AND ts >= :since"
        " AND lsn >= :lsn AND (lsn, number) > (:lsn, :number)"
        f"{key_sql(scope, values, ':{}'.format)}"
    )
    if not scope.cutoff.expires_nothing:
        sql += f" AND {LIVE_SQL}"
        values |= scope.cutoff._asdict()
    sql += " ORDER BY lsn, number LIMIT :limit"
    rows: list[Row] = []
    async with pooled_connection(pool) as db, db.transaction():
        lsn, _ = await _begin(db, catalog_version, container, part)
        filling = TransactionPageBuilder(rows, scope)
        has_more = False
        start = {"lsn": search.after, "number": 2**62}
        async for chunk in _chunks(db, sql, values, start, Row._make, _row_position):
            if filling.add_transactions(chunk):
                has_more = True
                break
    return LatestPage(in_transaction_order(rows), rows[-1].lsn if has_more else lsn)


async def _read_versions(
    pool: Pool,
    catalog_version: CatalogVersion,
    container: Container,
    search: ChangeSearch,
    trimmed_until: int,
) -> ChangePage:
    """A page of logged changes."""
    part = range_key(container.number, search.range_index)
    values: dict[str, Any] = {"part": part, "since": search.since}
    sql = (
        "SELECT lsn, ts, kind, previous_lsn, pk, id, body, entry FROM log WHERE part = :part"
        " AND ts >= :since AND lsn >= :lsn AND (lsn, entry) > (:lsn, :entry)"
        f"{key_sql(search.scope, values, ':{}'.format)} ORDER BY lsn, entry LIMIT :limit"
    )
    changes: list[LoggedChange] = []
    async with pooled_connection(pool) as db, db.transaction():
        lsn, floor = await _begin(db, catalog_version, container, part)
        if floor is None or search.after < floor:
            return ChangePage([], lsn, False)
        oldest = await execute(
            db,
            "SELECT ts FROM log WHERE part = $1 AND lsn > $2 ORDER BY lsn, entry LIMIT 1",
            (part, search.after),
        )
        if oldest and oldest[0][0] <= trimmed_until:
            return ChangePage([], lsn, False)
        filling = TransactionPageBuilder(changes, search.scope)
        has_more = False
        start = {"lsn": search.after, "entry": 2**31 - 1}
        async for chunk in _chunks(db, sql, values, start, _change, _entry_position):
            if filling.add_transactions(chunk):
                has_more = True
                break
    return ChangePage(changes, changes[-1].lsn if has_more else lsn, True)


async def _trim(pool: Pool, container: Container, trimmed_until: int, limit: int) -> int:
    """Removes the oldest entries of each range; its log begins after them."""
    removed = 0
    for each in container.ranges:
        part = range_key(container.number, each.index)
        first = await fetch_all(
            pool, "SELECT ts FROM log WHERE part = $1 ORDER BY lsn, entry LIMIT 1", (part,)
        )
        if first and first[0][0] <= trimmed_until and removed < limit:
            removed += await transact_for_client(
                pool, partial(_trim_range, part, trimmed_until, limit - removed)
            )
    return removed


async def _trim_range(part: str, trimmed_until: int, limit: int, db: DatabaseConnection) -> int:
    # Entries are in the order of commits. Their times may be slightly out of order, so the first
    # entry that is too new ends the trimming.
    lock, entries = await pipelined(
        db,
        ("BEGIN", ()),
        (statements.LOCK, (part,)),
        (
            "SELECT lsn, entry, ts FROM log WHERE part = $1 ORDER BY lsn, entry LIMIT $2",
            (part, limit),
        ),
    )
    due = 0
    while due < len(entries) and entries[due][2] <= trimmed_until:
        due += 1
    if not lock or not due:
        await db.execute("ROLLBACK")
        return 0
    lsn, entry, _ = entries[due - 1]
    await commit(
        db,
        ("DELETE FROM log WHERE part = $1 AND (lsn, entry) <= ($2, $3)", (part, lsn, entry)),
        ("UPDATE positions SET floor = $2 WHERE part = $1", (part, lsn)),
    )
    return due


async def _begin(
    db: DatabaseConnection, catalog_version: CatalogVersion, container: Container, part: str
) -> tuple[int, int | None]:
    """Begins a snapshot; the LSN of the range, and where its log begins."""
    await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    ((lsn, floor, version),) = await execute(
        db,
        f"SELECT lsn, floor, {VERSION_SQL} FROM positions WHERE part = $1",
        (part,),
    ) or ((None, None, (await execute(db, statements.VERSION, ()))[0][0]),)
    catalog_version.check(version, container)
    if lsn is None:
        raise OwnerNotFound
    return lsn, floor


async def _chunks(
    db: DatabaseConnection,
    sql: str,
    values: dict[str, Any],
    position: dict[str, int],
    make: Callable[[tuple[Any, ...]], T],
    position_of: Callable[[tuple[Any, ...]], dict[str, int]],
) -> AsyncIterator[list[T]]:
    """The rows after a position in chunks, because their sizes are unknown."""
    limit = _CHUNK
    while True:
        rows = await execute(db, *positional(sql, values | position | {"limit": limit}))
        yield [make(row) for row in rows]
        if len(rows) < limit:
            return
        position = position_of(rows[-1])
        limit *= 2


def _change(columns: tuple[Any, ...]) -> LoggedChange:
    return LoggedChange._make(columns[:-1])


def _row_position(columns: tuple[Any, ...]) -> dict[str, int]:
    return {"lsn": columns[6], "number": columns[0]}


def _entry_position(columns: tuple[Any, ...]) -> dict[str, int]:
    return {"lsn": columns[0], "entry": columns[-1]}
