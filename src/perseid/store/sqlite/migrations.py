"""The steps that bring an older SQLite file to the present layout.

A step never changes after its release: files exist that it has made, and other files still wait for
it. So each step spells out its SQL and uses nothing of the code that reads and writes the present
layout. That includes names: the words of an old layout stay in the steps that knew it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import apsw

from perseid.store.sql.computed_ranges import with_bounds


def create_tables(db: apsw.Connection) -> None:
    """Layout 1. A container adds its own tables when it is created."""
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


def add_change_feed(db: apsw.Connection) -> None:
    """Layout 2: an index over the last writes, and logs for containers that keep all versions."""
    # Files from before the first release lack these columns. The error refuses such a file and
    # leaves it unchanged.
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
    for number in _containers(db):
        db.execute(
            f"CREATE INDEX items_{number}_changes ON items_{number}"
            " (number >> 48, lsn, ts, ttl, epk)"
        )


def add_cleared_partitions(db: apsw.Connection) -> None:
    """Layout 3: a row hides the items of a cleared partition until they are purged. Every reader
    uses the view; the table is empty here, so the view leaves out nothing yet."""
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
    for number in _containers(db):
        db.execute(
            f"DROP VIEW IF EXISTS standing_{number};"
            f" CREATE VIEW standing_{number} AS SELECT * FROM items_{number}"
        )


def log_cleared_items(db: apsw.Connection) -> None:
    """Layout 4: items are logged when their partition is cleared. Before, they were logged when
    they were purged, so those that are still stored are logged here: after all other changes, in
    the second of the last one, at most 100 in a transaction."""
    for number, pk, range_index, lsn, inherited, own in db.execute(
        "SELECT container, pk, range, lsn, inherited, own FROM graves"
        " WHERE container IN (SELECT container FROM change_logs)"
    ).fetchall():
        db.execute(
            f"""
            INSERT INTO changes_{number}
            SELECT NULL, :range,
                (SELECT lsn FROM positions WHERE container = {number} AND range = :range)
                    + 1 + place / 100,
                COALESCE(
                    (SELECT ts FROM changes_{number} ORDER BY entry DESC LIMIT 1),
                    (SELECT MAX(ts) FROM items_{number})
                ),
                CASE WHEN (CASE WHEN ttl IS NULL THEN ts > :inherited WHEN ttl = -1 THEN TRUE
                    ELSE ts + ttl > :own END) THEN 'delete' ELSE 'expire' END,
                lsn, pk, id, epk,
                CASE WHEN (CASE WHEN ttl IS NULL THEN ts > :inherited WHEN ttl = -1 THEN TRUE
                    ELSE ts + ttl > :own END) THEN CAST(json(body) AS BLOB) END
            FROM (SELECT number AS hidden, ROW_NUMBER() OVER (ORDER BY number) - 1 AS place
                FROM items_{number} WHERE pk = :pk AND lsn <= :lsn)
            CROSS JOIN items_{number} ON number = hidden ORDER BY place
            """,
            {"range": range_index, "pk": pk, "lsn": lsn, "inherited": inherited, "own": own},
        )
        db.execute(
            f"""
            UPDATE positions SET lsn = MAX(lsn, COALESCE(
                (SELECT MAX(lsn) FROM changes_{number} WHERE range = :range), 0))
            WHERE container = {number} AND range = :range
            """,
            {"range": range_index},
        )


def allow_repeated_clearing(db: apsw.Connection) -> None:
    """Layout 5: a partition may be cleared again before its items are purged. Each row hides what
    was written after the row before it."""
    rows = db.execute("SELECT container, pk, range, lsn, inherited, own FROM graves").fetchall()
    # Not renamed: SQLite would rename the table in the views that read it, too.
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
        "INSERT INTO graves"
        " (container, pk, range, lsn, inherited, own, spare_inherited, spare_own, after)"
        " VALUES (?, ?, ?, ?, ?5, ?6, ?5, ?6, 0)",
        rows,
    )


def add_previous_cutoffs(db: apsw.Connection) -> None:
    """Layout 6: the first files of layout 5 do not store the cutoffs of the previous policy."""
    columns = {name for (_, name, *_) in db.execute("PRAGMA table_info(graves)")}
    if "spare_own" not in columns:
        db.execute(
            """
            ALTER TABLE graves ADD COLUMN spare_inherited INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE graves ADD COLUMN spare_own INTEGER NOT NULL DEFAULT 0;
            UPDATE graves SET spare_inherited = inherited, spare_own = own;
            """
        )


def use_plain_names(db: apsw.Connection) -> None:
    """Layout 7: the names of tables, columns and keys that later releases use."""
    numbers = _containers(db)
    cleared = db.execute(
        "SELECT container, pk, range, after, lsn, inherited, own, spare_inherited, spare_own"
        " FROM graves"
    ).fetchall()
    # Not renamed: SQLite would rename the table in the views that read it, too.
    for number in numbers:
        db.execute(f"DROP VIEW IF EXISTS standing_{number}")
    db.execute(
        """
        DROP TABLE graves;
        CREATE TABLE tombstones (
            container INTEGER NOT NULL,
            pk BLOB NOT NULL,
            range INTEGER NOT NULL,
            after_lsn INTEGER NOT NULL,
            up_to_lsn INTEGER NOT NULL,
            inherited_cutoff INTEGER NOT NULL,
            own_cutoff INTEGER NOT NULL,
            previous_inherited_cutoff INTEGER NOT NULL,
            previous_own_cutoff INTEGER NOT NULL,
            PRIMARY KEY (container, pk, up_to_lsn)
        ) WITHOUT ROWID;
        ALTER TABLE positions RENAME COLUMN spared TO purged_since_change;
        """
    )
    db.executemany("INSERT INTO tombstones VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", cleared)
    for number in numbers:
        hidden = (
            f" WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE container = {number}"
            f" AND tombstones.pk = items_{number}.pk"
            f" AND items_{number}.lsn <= tombstones.up_to_lsn)"
        )
        condition = hidden if any(row[0] == number for row in cleared) else ""
        db.execute(
            f"""
            CREATE VIEW visible_{number} AS SELECT * FROM items_{number}{condition};
            DROP INDEX IF EXISTS items_{number}_immortal;
            CREATE INDEX items_{number}_non_expiring ON items_{number} (number >> 48)
                WHERE ttl = -1;
            """
        )
    _rename_keys(db)


def _rename_keys(db: apsw.Connection) -> None:
    """A definition that is no JSON stays as it is; reading it reports the damage."""
    renamed = (
        ("deaths", "final_cutoffs"),
        ("dead_age", "expired_age"),
        ("hold_horizon", "hold_cutoff"),
        ("previous.deaths", "previous.final_cutoffs"),
        ("previous.dead_age", "previous.expired_age"),
        ("previous.spared", "previous.purged_since_change"),
    )
    for old, new in renamed:
        db.execute(
            f"UPDATE resources SET state ="
            f" json_remove(json_set(state, '$.{new}', json(state -> '$.{old}')), '$.{old}')"
            f" WHERE kind = 'container' AND json_valid(state)"
            f" AND json_type(state, '$.{old}') IS NOT NULL"
        )
    for old, new in (("diedAtOnce", "expiredImmediately"), ("revived", "restored")):
        db.execute(
            f"UPDATE audit SET entry ="
            f" json_remove(json_set(entry, '$.{new}', json(entry -> '$.{old}')), '$.{old}')"
            f" WHERE json_valid(entry) AND json_type(entry, '$.{old}') IS NOT NULL"
        )
    db.execute(
        "UPDATE audit SET entry = json_set(entry, '$.event', 'counts')"
        " WHERE json_valid(entry) AND entry ->> '$.event' = 'figures'"
    )


def add_checksums(db: apsw.Connection) -> None:
    """Layout 8: items have a checksum; it is NULL until the item is written or verified.

    Not ALTER TABLE, which reads the whole schema again for each container: a thousand of them
    would take half a minute. It would write the same text.
    """
    version = db.pragma("schema_version")
    db.pragma("writable_schema", 1)
    try:
        db.execute(
            "UPDATE sqlite_schema"
            " SET sql = substr(sql, 1, length(sql) - 1) || ', checksum INTEGER)'"
            " WHERE type = 'table' AND name GLOB 'items_[0-9]*'"
        )
        db.pragma("schema_version", version + 1)
    finally:
        db.pragma("writable_schema", "RESET")


def store_bounds(db: apsw.Connection) -> None:
    """Layout 9: a container stores its physical ranges with their bounds, which followed from the
    number of ranges before."""
    state: Any
    for rid, state in db.execute(
        "SELECT rid, CAST(state AS BLOB) FROM resources WHERE kind = 'container'"
    ).fetchall():
        changed = with_bounds(state)
        if changed is not None:
            db.execute("UPDATE resources SET state = ? WHERE rid = ?", (changed.decode(), rid))


def _containers(db: apsw.Connection) -> list[int]:
    """The numbers of the containers that have a table of items."""
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'items_[0-9]*'"
    return [int(str(name).removeprefix("items_")) for (name,) in db.execute(tables)]


# MIGRATIONS[n] brings a file of layout n to layout n + 1.
MIGRATIONS: Final[tuple[Callable[[apsw.Connection], None], ...]] = (
    create_tables,
    add_change_feed,
    add_cleared_partitions,
    log_cleared_items,
    allow_repeated_clearing,
    add_previous_cutoffs,
    use_plain_names,
    add_checksums,
    store_bounds,
)
