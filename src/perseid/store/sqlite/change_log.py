"""The change feed's rows: who was written last, and the logs of containers that keep all versions.

The order of last writes is an index over the items themselves and costs nothing but its upkeep.
A log is a table of its own, written in the transaction of the change it tells of, so neither can
be there without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import orjson

from perseid.model import RANGE_SHIFT, Row
from perseid.store.sql.change_pages import TransactionPageBuilder
from perseid.store.sqlite import schema
from perseid.store.sqlite.scans import COLUMNS, key_sql
from perseid.store.sqlite.tombstones import HiddenItem
from perseid.store.types import (
    ChangePage,
    ChangeSearch,
    LatestPage,
    LoggedChange,
    PurgedItem,
    Put,
    Remove,
)
from perseid.ttl import LIVE_SQL


class ChangeLogs:
    """Which containers keep a log, and the writing of it; for the writing connection alone."""

    def __init__(self, db: apsw.Connection, now: Callable[[], float]) -> None:
        self._db = db
        self._now = now
        self.logged_containers = self.read()

    def read(self) -> frozenset[int]:
        """Those that keep one according to the file: what `kept` is to be when that is durable."""
        found = self._db.execute("SELECT DISTINCT container FROM change_logs")
        return frozenset(number for (number,) in found)

    def set_logging(self, number: int, is_wanted: bool) -> None:
        """Begins a log or drops it, as the container's state says."""
        if is_wanted and number not in self.logged_containers:
            schema.create_log(self._db, number)
        elif not is_wanted and number in self.logged_containers:
            schema.drop_log(self._db, number)

    def record(
        self, number: int, range_index: int, lsn: int, ts: int, change: Put | Remove
    ) -> None:
        """Logs a change that is about to be applied."""
        row = change.row
        if isinstance(change, Remove):
            # What is removed is read here: nobody else needs to have fetched its body.
            kind, body = (
                ("expire", "NULL") if change.expired else ("delete", "CAST(json(body) AS BLOB)")
            )
            self._db.execute(
                f"INSERT INTO changes_{number} SELECT NULL, ?, ?, ?, ?, lsn, pk, id, epk, {body}"
                f" FROM items_{number} WHERE number = ?",
                (range_index, lsn, ts, kind, row.number),
            )
            return
        old = change.replaces
        kind, previous = ("create", None) if old is None else ("replace", old.lsn)
        self._db.execute(
            f"INSERT INTO changes_{number} VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (range_index, lsn, ts, kind, previous, row.pk, row.id, row.epk, row.body),
        )

    def log_purge(
        self, number: int, range_index: int, lsn: int, purged_items: Sequence[PurgedItem]
    ) -> None:
        """Logs the removal of the dead, in the order in which they died."""
        self._db.execute(
            f"INSERT INTO changes_{number}"
            " SELECT NULL, ?, ?, ?, 'expire', items.lsn, items.pk, items.id, items.epk, NULL"
            f" FROM json_each(?) AS dead CROSS JOIN items_{number} AS items"
            " ON items.number = dead.value ORDER BY dead.key",
            (
                range_index,
                lsn,
                int(self._now()),
                orjson.dumps([purged_item.number for purged_item in purged_items]).decode(),
            ),
        )

    def clear(
        self, number: int, range_index: int, lsn: int, ts: int, items: Sequence[HiddenItem]
    ) -> None:
        """Logs the removal of items with their partition; the dead among them had expired."""
        self._db.execute(
            f"INSERT INTO changes_{number} SELECT NULL, ?, ?, ?,"
            " CASE WHEN gone.value ->> 1 THEN 'delete' ELSE 'expire' END,"
            " items.lsn, items.pk, items.id, items.epk,"
            " CASE WHEN gone.value ->> 1 THEN CAST(json(items.body) AS BLOB) END"
            f" FROM json_each(?) AS gone CROSS JOIN items_{number} AS items"
            " ON items.number = gone.value ->> 0 ORDER BY gone.key",
            (
                range_index,
                lsn,
                ts,
                orjson.dumps([(item.number, item.is_live) for item in items]).decode(),
            ),
        )

    def trim_change_log(self, number: int, trimmed_until: int, limit: int) -> int:
        """Removes the oldest entries; from then on the log begins behind them."""
        if number not in self.logged_containers:
            return 0
        # Entries are in the order of commits, which is that of time but for requests that
        # overtake each other within a moment: one that is not due yet holds the others back.
        entries: list[tuple[int, int, int]] = []
        for entry, part, lsn, ts in self._db.execute(
            f"SELECT entry, range, lsn, ts FROM changes_{number} ORDER BY entry LIMIT ?", (limit,)
        ):
            if ts > trimmed_until:
                break
            entries.append((entry, part, lsn))
        if entries:
            self._db.execute(f"DELETE FROM changes_{number} WHERE entry <= ?", (entries[-1][0],))
            floors = {part: lsn for _, part, lsn in entries}  # the last of each range wins
            self._db.executemany(
                "UPDATE change_logs SET floor = ? WHERE container = ? AND range = ?",
                [(lsn, number, part) for part, lsn in floors.items()],
            )
        return len(entries)


def has_changes_to_trim(db: apsw.Connection, number: int, trimmed_until: int) -> bool:
    """Whether the log of a container, if it has one, begins with the second `lost` or before."""
    with db:  # one snapshot: a log may come and go
        if db.execute("SELECT 1 FROM change_logs WHERE container = ?", (number,)).get is None:
            return False
        first = db.execute(f"SELECT ts FROM changes_{number} ORDER BY entry LIMIT 1").get
    return first is not None and first <= trimmed_until


def read_latest(db: apsw.Connection, number: int, search: ChangeSearch) -> LatestPage:
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
    return LatestPage(rows, rows[-1].lsn if has_more else lsn)


def read_versions(
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
        found = map(LoggedChange._make, db.execute(sql, values))
        has_more = TransactionPageBuilder(changes, search.scope).add_transactions(found)
    return ChangePage(changes, changes[-1].lsn if has_more else lsn, True)


def _lsn(db: apsw.Connection, number: int, range_index: int) -> int:
    return (
        db.execute(
            "SELECT lsn FROM positions WHERE container = ? AND range = ?", (number, range_index)
        ).get
        or 0
    )
