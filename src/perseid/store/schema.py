"""The SQLite file's layout, and the steps that bring an older file up to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import apsw
import orjson

from perseid.model import RANGE_SHIFT
from perseid.store.filling import LARGEST_BURIAL
from perseid.store.protocol import StoreError
from perseid.ttl import LIVE_SQL

APPLICATION_ID: Final = 0x50455253  # "PERS", so that `file` and sqlite3 know whose it is


def _create(db: apsw.Connection) -> None:
    db.execute(
        """
        CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE resources (
            rid TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            parent TEXT NOT NULL,
            id TEXT NOT NULL,
            etag TEXT NOT NULL,
            ts INTEGER NOT NULL,
            state TEXT NOT NULL,
            UNIQUE (kind, parent, id)
        );
        CREATE TABLE positions (
            container INTEGER NOT NULL,
            range INTEGER NOT NULL,
            lsn INTEGER NOT NULL,
            items INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            purged_items INTEGER NOT NULL,
            purged_bytes INTEGER NOT NULL,
            spared INTEGER NOT NULL,
            PRIMARY KEY (container, range)
        ) WITHOUT ROWID;
        CREATE TABLE audit (
            line INTEGER PRIMARY KEY AUTOINCREMENT,
            ts INTEGER NOT NULL,
            container TEXT NOT NULL,
            entry TEXT NOT NULL
        );
        """
    )


def _add_changes(db: apsw.Connection) -> None:
    """The change feed: an index over the last writes, and logs for containers that keep one."""
    # Before the first release there were files without these: refused, and left as they are.
    db.execute("SELECT purged_items, purged_bytes, spared FROM positions LIMIT 0")
    db.execute(
        """
        CREATE TABLE change_logs (
            container INTEGER NOT NULL,
            range INTEGER NOT NULL,
            floor INTEGER NOT NULL,  -- the log holds every change behind this LSN
            PRIMARY KEY (container, range)
        ) WITHOUT ROWID;
        """
    )
    for table in _item_tables(db):
        _index_changes(db, table)


def _item_tables(db: apsw.Connection) -> list[str]:
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'items_[0-9]*'"
    return [str(table) for (table,) in db.execute(tables)]


def _index_changes(db: apsw.Connection, table: str) -> None:
    """The order of last writes. What does not belong to a reader is passed over in here, without
    a look at the items: the dead, other keys, what was written before a point in time."""
    db.execute(
        f"CREATE INDEX {table}_changes ON {table} (number >> {RANGE_SHIFT}, lsn, ts, ttl, epk)"
    )


def _add_graves(db: apsw.Connection) -> None:
    db.execute(
        """
        CREATE TABLE graves (
            container INTEGER NOT NULL,
            pk BLOB NOT NULL,
            range INTEGER NOT NULL,
            lsn INTEGER NOT NULL,
            inherited INTEGER NOT NULL,
            own INTEGER NOT NULL,
            PRIMARY KEY (container, pk)
        ) WITHOUT ROWID;
        """
    )
    for table in _item_tables(db):
        show_standing(db, int(table.removeprefix("items_")))


def _log_graves(db: apsw.Connection) -> None:
    """What lies in a grave is logged when that is dug. It was when the items were removed, so those
    that are still there have yet to be: behind everything else, in the second of the last change.
    """
    for number, pk, part, lsn, inherited, own in db.execute(
        "SELECT container, pk, range, lsn, inherited, own FROM graves"
        " WHERE container IN (SELECT container FROM change_logs)"
    ).fetchall():
        db.execute(
            f"INSERT INTO changes_{number} SELECT NULL, :range,"
            f" (SELECT lsn FROM positions WHERE container = {number} AND range = :range)"
            f" + 1 + place / {LARGEST_BURIAL}, COALESCE("
            f"  (SELECT ts FROM changes_{number} ORDER BY entry DESC LIMIT 1),"
            f"  (SELECT MAX(ts) FROM items_{number})),"
            f" CASE WHEN {LIVE_SQL} THEN 'delete' ELSE 'expire' END, lsn, pk, id, epk,"
            f" CASE WHEN {LIVE_SQL} THEN CAST(json(body) AS BLOB) END"
            "  FROM (SELECT number AS hidden, ROW_NUMBER() OVER (ORDER BY number) - 1 AS place"
            f"  FROM items_{number} WHERE pk = :pk AND lsn <= :lsn)"
            f" CROSS JOIN items_{number} ON number = hidden ORDER BY place",
            {"range": part, "pk": pk, "lsn": lsn, "inherited": inherited, "own": own},
        )
        db.execute(
            "UPDATE positions SET lsn = MAX(lsn, COALESCE("
            f"(SELECT MAX(lsn) FROM changes_{number} WHERE range = :range), 0))"
            f" WHERE container = {number} AND range = :range",
            {"range": part},
        )


def _part_graves(db: apsw.Connection) -> None:
    """A partition may have several graves, each for what was written behind the one before."""
    columns = "container, pk, range, lsn, inherited, own"
    graves = db.execute(f"SELECT {columns} FROM graves").fetchall()
    # Not renamed: the views that name it would be renamed along.
    db.execute(
        """
        DROP TABLE graves;
        CREATE TABLE graves (
            container INTEGER NOT NULL,
            pk BLOB NOT NULL,
            range INTEGER NOT NULL,
            after INTEGER NOT NULL,
            lsn INTEGER NOT NULL,
            inherited INTEGER NOT NULL,
            own INTEGER NOT NULL,
            spare_inherited INTEGER NOT NULL,
            spare_own INTEGER NOT NULL,
            PRIMARY KEY (container, pk, lsn)
        ) WITHOUT ROWID;
        """
    )
    db.executemany(
        f"INSERT INTO graves ({columns}, spare_inherited, spare_own, after)"
        " VALUES (?, ?, ?, ?, ?5, ?6, ?5, ?6, 0)",
        graves,
    )


def _spare_graves(db: apsw.Connection) -> None:
    """The first files of layout 5 have graves that do not know the policy before."""
    columns = {name for (_, name, *_) in db.execute("PRAGMA table_info(graves)")}
    if "spare_own" not in columns:
        db.execute(
            """
            ALTER TABLE graves ADD COLUMN spare_inherited INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE graves ADD COLUMN spare_own INTEGER NOT NULL DEFAULT 0;
            UPDATE graves SET spare_inherited = inherited, spare_own = own;
            """
        )


# MIGRATIONS[n] brings a file of version n to version n + 1. Once written, a step stays as it is:
# there are files that it has made.
MIGRATIONS: Final[tuple[Callable[[apsw.Connection], None], ...]] = (
    _create,
    _add_changes,
    _add_graves,
    _log_graves,
    _part_graves,
    _spare_graves,
)
VERSION: Final = len(MIGRATIONS)


def check(db: apsw.Connection) -> None:
    """StoreError if the file is somebody else's or from the future; it is left as it is."""
    version, owner = db.pragma("user_version"), db.pragma("application_id")
    has_tables = db.execute("SELECT COUNT(*) FROM sqlite_schema").get
    if has_tables and owner != APPLICATION_ID:
        raise StoreError("the database file holds somebody else's tables; choose another --data")
    if version > VERSION:
        raise StoreError(
            f"the database file has layout {version}, this perseid knows up to {VERSION};"
            " it was written by a newer release"
        )


def migrate(db: apsw.Connection) -> None:
    """Brings the file to VERSION in one transaction."""
    version = db.pragma("user_version")
    if version == VERSION:
        return
    with db:
        for step in MIGRATIONS[version:]:
            step(db)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", VERSION)


def create_items(db: apsw.Connection, number: int, ranges: int) -> None:
    """The tables of one container.

    `number` orders items by range and age (see model.item_number). The two partial indexes find
    the dead of a range in expiry order without looking at the living, and tell what they weigh and
    what removing them costs without looking at the items themselves.
    """
    table = f"items_{number}"
    db.execute(
        f"""
        CREATE TABLE {table} (
            number INTEGER PRIMARY KEY,
            pk BLOB NOT NULL,
            id TEXT NOT NULL,
            epk BLOB NOT NULL,
            ts INTEGER NOT NULL,
            ttl INTEGER,
            lsn INTEGER NOT NULL,
            etag TEXT NOT NULL,
            size INTEGER NOT NULL,
            terms INTEGER NOT NULL,
            body BLOB NOT NULL
        );
        CREATE UNIQUE INDEX {table}_key ON {table} (pk, id);
        CREATE INDEX {table}_partition ON {table} (pk);
        CREATE INDEX {table}_inheriting ON {table} (number >> {RANGE_SHIFT}, ts, size, terms)
            WHERE ttl IS NULL;
        CREATE INDEX {table}_expiring ON {table} (number >> {RANGE_SHIFT}, ts + ttl, size, terms)
            WHERE ttl > 0;
        CREATE INDEX {table}_immortal ON {table} (number >> {RANGE_SHIFT}) WHERE ttl = -1;
        CREATE TABLE unique_{number} (
            entry BLOB PRIMARY KEY,
            number INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX unique_{number}_number ON unique_{number} (number);
        """
    )
    _index_changes(db, table)
    show_standing(db, number)
    # LSNs go on from those of dropped containers: a client that still holds a session token of a
    # container of the same name is not told to wait for a future that never comes.
    db.executemany(
        "INSERT INTO positions SELECT ?, ?, COALESCE((SELECT CAST(value AS INTEGER) FROM meta"
        " WHERE name = 'highest_dropped_lsn'), 0), 0, 0, 0, 0, 0",
        [(number, part) for part in range(ranges)],
    )


@lru_cache(maxsize=4096)
def standing_sql(number: int) -> str:
    """The condition that an item is not one of a partition that was cleared and has yet to be
    removed. For statements that must name an index, which a view does not have; whether there is
    any such partition is asked once, so the condition costs next to nothing without."""
    return (
        f"(NOT EXISTS (SELECT 1 FROM graves WHERE container = {number:d})"
        f" OR NOT EXISTS (SELECT 1 FROM graves WHERE container = {number:d}"
        f" AND graves.pk = items_{number}.pk AND items_{number}.lsn <= graves.lsn))"
    )


def show_standing(db: apsw.Connection, number: int) -> None:
    """The view that everything else reads, with that condition if it is needed. Part of the same
    snapshot as the items are, so nobody sees one half of them."""
    has_graves = db.execute("SELECT 1 FROM graves WHERE container = ?", (number,)).get is not None
    condition = f" WHERE {standing_sql(number)}" if has_graves else ""
    db.execute(
        f"DROP VIEW IF EXISTS standing_{number}; CREATE VIEW standing_{number} AS"
        f" SELECT * FROM items_{number}{condition}"
    )


def drop_items(db: apsw.Connection, number: int) -> None:
    db.execute(
        f"DROP VIEW standing_{number}; DROP TABLE items_{number}; DROP TABLE unique_{number}"
    )
    db.execute("DELETE FROM graves WHERE container = ?", (number,))
    db.execute(
        "INSERT INTO meta SELECT 'highest_dropped_lsn', COALESCE(MAX(lsn), 0) FROM positions"
        " WHERE container = ? ON CONFLICT (name)"
        " DO UPDATE SET value = MAX(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))",
        (number,),
    )
    db.execute("DELETE FROM positions WHERE container = ?", (number,))
    drop_log(db, number)


def remove_items(
    db: apsw.Connection, number: int, items: Sequence[int], *, has_unique_keys: bool = True
) -> None:
    """Removes items by their numbers, with what they hold of the unique keys if there are any."""
    numbers = orjson.dumps(items).decode()
    tables = (f"items_{number}", f"unique_{number}") if has_unique_keys else (f"items_{number}",)
    for table in tables:
        db.execute(
            f"DELETE FROM {table} WHERE number IN (SELECT value FROM json_each(?))", (numbers,)
        )


def create_log(db: apsw.Connection, number: int) -> None:
    """The log of all changes of one container, from now on."""
    db.execute(
        f"""
        CREATE TABLE changes_{number} (
            entry INTEGER PRIMARY KEY,
            range INTEGER NOT NULL,
            lsn INTEGER NOT NULL,
            ts INTEGER NOT NULL,
            kind TEXT NOT NULL,
            previous_lsn INTEGER,
            pk BLOB NOT NULL,
            id TEXT NOT NULL,
            epk BLOB NOT NULL,
            body BLOB
        );
        CREATE INDEX changes_{number}_order ON changes_{number} (range, lsn, entry, epk);
        """
    )
    db.execute(
        "INSERT INTO change_logs SELECT container, range, lsn FROM positions WHERE container = ?",
        (number,),
    )


def drop_log(db: apsw.Connection, number: int) -> None:
    db.execute(f"DROP TABLE IF EXISTS changes_{number}")
    db.execute("DELETE FROM change_logs WHERE container = ?", (number,))
