"""The present layout of the SQLite file; `migrations` brings older files to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import apsw
import orjson

from perseid.model import RANGE_SHIFT
from perseid.store.sqlite import migrations
from perseid.store.types import StoreError

APPLICATION_ID: Final = 0x50455253  # "PERS": tells `file` and sqlite3 which program owns the file
MIGRATIONS: Final = migrations.MIGRATIONS
VERSION: Final = len(MIGRATIONS)
_HIDDEN: Final = "hidden_container_"  # in `meta`, before the number of the container


def check(db: apsw.Connection) -> None:
    """StoreError if another program or a newer release wrote the file; it stays unchanged."""
    version, owner = db.pragma("user_version"), db.pragma("application_id")
    has_tables = db.execute("SELECT COUNT(*) FROM sqlite_schema").get
    if has_tables and owner != APPLICATION_ID:
        raise StoreError(
            "the database file contains tables of another program; choose another --data"
        )
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


def create_items(db: apsw.Connection, number: int, range_indexes: Sequence[int]) -> None:
    """The tables of one container.

    `number` orders items by range and age (see model.item_number). The two partial indexes over
    lifetimes list the expired items of a range in expiry order, with their sizes and the cost of
    purging them, without reading live items or bodies.
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
            body BLOB NOT NULL,
            checksum INTEGER
        );
        CREATE UNIQUE INDEX {table}_key ON {table} (pk, id);
        CREATE INDEX {table}_partition ON {table} (pk);
        CREATE INDEX {table}_inheriting ON {table} (number >> {RANGE_SHIFT}, ts, size, terms)
            WHERE ttl IS NULL;
        CREATE INDEX {table}_expiring ON {table} (number >> {RANGE_SHIFT}, ts + ttl, size, terms)
            WHERE ttl > 0;
        CREATE INDEX {table}_non_expiring ON {table} (number >> {RANGE_SHIFT}) WHERE ttl = -1;
        CREATE TABLE unique_{number} (
            entry BLOB PRIMARY KEY,
            number INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX unique_{number}_number ON unique_{number} (number);
        """
    )
    # The order of last writes. The index alone shows whether an item has expired, belongs to other
    # partition keys or was written before a point in time, so the change feed skips such items
    # without reading them.
    db.execute(
        f"CREATE INDEX {table}_changes ON {table} (number >> {RANGE_SHIFT}, lsn, ts, ttl, epk)"
    )
    create_visible_items_view(db, number)
    _add_range_states(db, number, range_indexes)


def _add_range_states(db: apsw.Connection, number: int, range_indexes: Sequence[int]) -> None:
    # LSNs continue from those of dropped containers. A client may still hold a session token of a
    # dropped container of the same name; with lower LSNs its reads would fail for a long time.
    db.executemany(
        "INSERT INTO positions SELECT ?, ?, COALESCE((SELECT CAST(value AS INTEGER) FROM meta"
        " WHERE name = 'highest_dropped_lsn'), 0), 0, 0, 0, 0, 0",
        [(number, index) for index in range_indexes],
    )


@lru_cache(maxsize=4096)
def visible_sql(number: int) -> str:
    """The condition that an item does not belong to a cleared partition pending purge. For
    statements that must name an index, which a view does not have. SQLite evaluates the first part
    once, so the condition is nearly free while no partition is pending."""
    return (
        f"(NOT EXISTS (SELECT 1 FROM tombstones WHERE container = {number:d})"
        f" OR NOT EXISTS (SELECT 1 FROM tombstones WHERE container = {number:d}"
        f" AND tombstones.pk = items_{number}.pk"
        f" AND items_{number}.lsn <= tombstones.up_to_lsn))"
    )


def create_visible_items_view(db: apsw.Connection, number: int) -> None:
    """Creates the view that all readers use, with that condition if it is needed. A view belongs
    to the same snapshot as the items, so a reader never sees a half-cleared partition."""
    has_tombstones = (
        db.execute("SELECT 1 FROM tombstones WHERE container = ?", (number,)).get is not None
    )
    condition = f" WHERE {visible_sql(number)}" if has_tombstones else ""
    db.execute(
        f"DROP VIEW IF EXISTS visible_{number}; CREATE VIEW visible_{number} AS"
        f" SELECT * FROM items_{number}{condition}"
    )


def drop_items(db: apsw.Connection, number: int) -> None:
    """Removes everything of a container."""
    _drop_tables(db, number)
    _drop_rows(db, number)


def hide_items(db: apsw.Connection, number: int) -> None:
    """Marks the tables of a container, which `drop_hidden` removes later.

    Each table takes milliseconds to drop if there are many: SQLite reads its whole schema for it.
    """
    db.execute("INSERT INTO meta VALUES (?, '')", (f"{_HIDDEN}{number}",))
    _drop_rows(db, number)


def hidden_containers(db: apsw.Connection) -> set[int]:
    """The numbers of the containers whose tables are still to be dropped."""
    names = db.execute("SELECT name FROM meta WHERE name GLOB ?", (f"{_HIDDEN}*",))
    return {int(name.removeprefix(_HIDDEN)) for (name,) in names}


def drop_hidden(db: apsw.Connection, number: int) -> None:
    _drop_tables(db, number)
    db.execute("DELETE FROM meta WHERE name = ?", (f"{_HIDDEN}{number}",))


def _drop_tables(db: apsw.Connection, number: int) -> None:
    db.execute(f"DROP VIEW visible_{number}; DROP TABLE items_{number}; DROP TABLE unique_{number}")
    db.execute(f"DROP TABLE IF EXISTS changes_{number}")


def _drop_rows(db: apsw.Connection, number: int) -> None:
    db.execute("DELETE FROM tombstones WHERE container = ?", (number,))
    db.execute("DELETE FROM change_logs WHERE container = ?", (number,))
    db.execute(
        "INSERT INTO meta SELECT 'highest_dropped_lsn', COALESCE(MAX(lsn), 0) FROM positions"
        " WHERE container = ? ON CONFLICT (name)"
        " DO UPDATE SET value = MAX(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))",
        (number,),
    )
    db.execute("DELETE FROM positions WHERE container = ?", (number,))


def remove_items(
    db: apsw.Connection, number: int, items: Sequence[int], *, has_unique_keys: bool = True
) -> None:
    """Removes items by their numbers, and their unique-key entries if there are any."""
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
