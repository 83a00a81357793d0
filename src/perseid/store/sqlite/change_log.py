"""The change feed in SQLite: the latest versions of items, and the logs of all versions.

The order of last writes is an index over the items. A log is a table of its own, for containers
that keep all versions; `change_log_writer` fills it.
"""

from __future__ import annotations

from typing import Any

import apsw

from perseid.model import RANGE_SHIFT, Container, Row
from perseid.store.sql.change_pages import TransactionPageBuilder, in_transaction_order
from perseid.store.sqlite import schema
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.scans import COLUMNS, key_sql
from perseid.store.sqlite.writer import client_errors
from perseid.store.types import ChangePage, ChangeSearch, LatestPage, LoggedChange
from perseid.ttl import LIVE_SQL


class SqliteChanges:
    """See `store.protocol.ChangeStore`."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def latest(self, container: Container, search: ChangeSearch) -> LatestPage:
        page = await self._database.readers.in_thread(
            lambda db: _read_latest(db, container.number, search)
        )
        self._database.damaged.check(container.number, page.rows)
        return page

    async def versions(
        self, container: Container, search: ChangeSearch, trimmed_until: int
    ) -> ChangePage:
        return await self._database.readers.in_thread(
            lambda db: _read_versions(db, container.number, search, trimmed_until)
        )

    async def trim(self, container: Container, trimmed_until: int, limit: int) -> int:
        database = self._database
        with client_errors():
            if not _has_changes_to_trim(database.point_db, container.number, trimmed_until):
                return 0  # nearly always; the writer need not do anything
        return await database.writer.submit(
            lambda: database.logs.trim(container.number, trimmed_until, limit), is_heavy=True
        )


def _has_changes_to_trim(db: apsw.Connection, number: int, trimmed_until: int) -> bool:
    """True if the container has a log that begins in the second `trimmed_until` or before."""
    with db:  # one snapshot: a log may come and go
        if db.execute("SELECT 1 FROM change_logs WHERE container = ?", (number,)).get is None:
            return False
        first = db.execute(f"SELECT ts FROM changes_{number} ORDER BY entry LIMIT 1").get
    return first is not None and first <= trimmed_until


def _read_latest(db: apsw.Connection, number: int, search: ChangeSearch) -> LatestPage:
    """A page of items in the order of their last writes."""
    scope = search.scope
    values: dict[str, Any] = {
        "range": search.range_index,
        "after": search.after,
        "since": search.since,
    }
    sql = (
        f"SELECT {COLUMNS} FROM items_{number} INDEXED BY items_{number}_changes"
        f" WHERE number >> {RANGE_SHIFT} = :range AND lsn > :after AND ts >= :since"
        f"{key_sql(scope, values)} AND {schema.visible_sql(number)}"
    )
    if not scope.cutoff.expires_nothing:
        sql += f" AND {LIVE_SQL}"
        values["inherited"], values["own"] = scope.cutoff.inherited, scope.cutoff.own
    sql += " ORDER BY lsn"
    rows: list[Row] = []
    with db:  # one snapshot: the position must not be ahead of the rows
        lsn = _lsn(db, number, search.range_index)
        has_more = TransactionPageBuilder(rows, scope).add_transactions(
            map(Row._make, db.execute(sql, values))
        )
    return LatestPage(in_transaction_order(rows), rows[-1].lsn if has_more else lsn)


def _read_versions(
    db: apsw.Connection, number: int, search: ChangeSearch, trimmed_until: int
) -> ChangePage:
    """A page of logged changes."""
    values: dict[str, Any] = {
        "range": search.range_index,
        "after": search.after,
        "since": search.since,
    }
    log = f"changes_{number} INDEXED BY changes_{number}_order"
    sql = (
        f"SELECT lsn, ts, kind, previous_lsn, pk, id, body FROM {log}"
        f" WHERE range = :range AND lsn > :after AND ts >= :since{key_sql(search.scope, values)}"
        " ORDER BY lsn, entry"
    )
    first = f"SELECT ts FROM {log} WHERE range = ? AND lsn > ? ORDER BY lsn, entry LIMIT 1"
    changes: list[LoggedChange] = []
    with db:
        lsn = _lsn(db, number, search.range_index)
        floor = db.execute(
            "SELECT floor FROM change_logs WHERE container = ? AND range = ?",
            (number, search.range_index),
        ).get
        if floor is None or search.after < floor:
            return ChangePage([], lsn, False)
        oldest = db.execute(first, (search.range_index, search.after)).get
        if oldest is not None and oldest <= trimmed_until:
            return ChangePage([], lsn, False)
        logged = map(LoggedChange._make, db.execute(sql, values))
        has_more = TransactionPageBuilder(changes, search.scope).add_transactions(logged)
    return ChangePage(changes, changes[-1].lsn if has_more else lsn, True)


def _lsn(db: apsw.Connection, number: int, range_index: int) -> int:
    return (
        db.execute(
            "SELECT lsn FROM positions WHERE container = ? AND range = ?", (number, range_index)
        ).get
        or 0
    )
