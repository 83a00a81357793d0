"""Turns a file of the present layout into one that an earlier release has written."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import apsw

from perseid.store.sqlite import schema
from perseid.ttl import Cutoff

# The layout of version 1, as it was released.
VERSION_1: Final = """
    PRAGMA application_id = 0x50455253;
    PRAGMA user_version = 1;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE resources (rid TEXT PRIMARY KEY, kind TEXT NOT NULL, parent TEXT NOT NULL,
        id TEXT NOT NULL, etag TEXT NOT NULL, ts INTEGER NOT NULL, state TEXT NOT NULL,
        UNIQUE (kind, parent, id));
    CREATE TABLE positions (container INTEGER NOT NULL, range INTEGER NOT NULL,
        lsn INTEGER NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL,
        purged_items INTEGER NOT NULL, purged_bytes INTEGER NOT NULL, spared INTEGER NOT NULL,
        PRIMARY KEY (container, range)) WITHOUT ROWID;
    CREATE TABLE audit (line INTEGER PRIMARY KEY AUTOINCREMENT, ts INTEGER NOT NULL,
        container TEXT NOT NULL, entry TEXT NOT NULL);
    CREATE TABLE items_7 (number INTEGER PRIMARY KEY, pk BLOB NOT NULL, id TEXT NOT NULL,
        epk BLOB NOT NULL, ts INTEGER NOT NULL, ttl INTEGER, lsn INTEGER NOT NULL,
        etag TEXT NOT NULL, size INTEGER NOT NULL, terms INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE UNIQUE INDEX items_7_key ON items_7 (pk, id);
    CREATE INDEX items_7_partition ON items_7 (pk);
    CREATE INDEX items_7_inheriting ON items_7 (number >> 48, ts, size, terms) WHERE ttl IS NULL;
    CREATE INDEX items_7_expiring ON items_7 (number >> 48, ts + ttl, size, terms) WHERE ttl > 0;
    CREATE INDEX items_7_immortal ON items_7 (number >> 48) WHERE ttl = -1;
    CREATE TABLE unique_7 (entry BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX unique_7_number ON unique_7 (number);
    INSERT INTO positions VALUES (7, 0, 3, 2, 40, 0, 0, 0), (7, 1, 0, 0, 0, 0, 0, 0);
"""
# A file of version 1 from before its release.
WITHOUT_PURGE_COUNTERS: Final = "ALTER TABLE positions DROP COLUMN spared"


def restore_layout_6(db: apsw.Connection) -> None:
    """For a file whose only container has the number 7 and no undo state."""
    db.execute(
        """
        DROP VIEW visible_7;
        ALTER TABLE items_7 DROP COLUMN checksum;
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
        INSERT INTO graves SELECT * FROM tombstones;
        DROP TABLE tombstones;
        ALTER TABLE positions RENAME COLUMN purged_since_change TO spared;
        DROP INDEX items_7_non_expiring;
        CREATE INDEX items_7_immortal ON items_7 (number >> 48) WHERE ttl = -1;
        CREATE VIEW standing_7 AS SELECT * FROM items_7 WHERE NOT EXISTS (
            SELECT 1 FROM graves WHERE container = 7
                AND graves.pk = items_7.pk AND items_7.lsn <= graves.lsn);
        """
    )
    db.pragma("user_version", 6)


def restore_layout_5_without_previous_cutoffs(db: apsw.Connection) -> None:
    """For a file with one tombstone; layout 5 has been written with and without these columns."""
    restore_layout_6(db)
    assert db.execute("SELECT COUNT(*) FROM graves").get == 1
    db.execute(
        "ALTER TABLE graves DROP COLUMN spare_inherited; ALTER TABLE graves DROP COLUMN spare_own"
    )
    db.pragma("user_version", 5)


def write_old_tombstones(path: Path, *cleared: tuple[bytes, int, Cutoff], version: int) -> None:
    """Makes a file of an earlier release, with tombstones in it."""
    with contextlib.closing(apsw.Connection(str(path))) as old:
        restore_layout_6(old)
        old.execute("DROP VIEW standing_7; DROP TABLE graves")
        schema.MIGRATIONS[2](old)
        old.executemany(
            "INSERT INTO graves (container, pk, range, lsn, inherited, own)"
            " VALUES (7, ?, 0, ?, ?, ?)",
            [(pk, lsn, *cutoff) for pk, lsn, cutoff in cleared],
        )
        old.pragma("user_version", version)
