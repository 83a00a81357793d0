"""Turns a file of the present layout into one that an earlier release has written."""

from __future__ import annotations

import apsw


def restore_layout_6(db: apsw.Connection) -> None:
    """For a file whose only container has the number 7 and no undo state."""
    db.execute(
        """
        DROP VIEW visible_7;
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
