"""Writes the change logs, each entry in the transaction of the change that it records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw
import orjson

from perseid.store.sqlite import schema
from perseid.store.sqlite.tombstones import HiddenItem
from perseid.store.types import PurgedItem, Put, Remove

# The text of a removed item; NULL if it is damaged, so that it can be removed.
_READABLE_BODY = "CASE WHEN json_valid(body, 8) THEN CAST(json(body) AS BLOB) END"


class ChangeLogs:
    """Which containers keep a change log, and its entries; for the writing connection only."""

    def __init__(self, db: apsw.Connection, now: Callable[[], float]) -> None:
        self._db = db
        self._now = now
        self.logged_containers = self.read()

    def read(self) -> frozenset[int]:
        """The containers with a log in the file; `logged_containers` once that is durable."""
        containers = self._db.execute("SELECT DISTINCT container FROM change_logs")
        return frozenset(number for (number,) in containers)

    def set_logging(self, number: int, is_wanted: bool) -> None:
        """Creates or drops the log of a container."""
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
            # The removed body is read here, because the decision may not have fetched it.
            kind, body = ("expire", "NULL") if change.expired else ("delete", _READABLE_BODY)
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
        """Logs a purge, in the order of expiry."""
        self._db.execute(
            f"INSERT INTO changes_{number}"
            " SELECT NULL, ?, ?, ?, 'expire', items.lsn, items.pk, items.id, items.epk, NULL"
            f" FROM json_each(?) AS purged CROSS JOIN items_{number} AS items"
            " ON items.number = purged.value ORDER BY purged.key",
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
        """Logs the removal of a partition's items: live ones as deleted, the others as expired."""
        self._db.execute(
            f"INSERT INTO changes_{number} SELECT NULL, ?, ?, ?,"
            " CASE WHEN gone.value ->> 1 THEN 'delete' ELSE 'expire' END,"
            " items.lsn, items.pk, items.id, items.epk,"
            " CASE WHEN gone.value ->> 1 AND json_valid(items.body, 8)"
            " THEN CAST(json(items.body) AS BLOB) END"
            f" FROM json_each(?) AS gone CROSS JOIN items_{number} AS items"
            " ON items.number = gone.value ->> 0 ORDER BY gone.key",
            (
                range_index,
                lsn,
                ts,
                orjson.dumps([(item.number, item.is_live) for item in items]).decode(),
            ),
        )

    def trim(self, number: int, trimmed_until: int, limit: int) -> int:
        """Removes the oldest entries; the log begins after them."""
        if number not in self.logged_containers:
            return 0
        # Entries are in the order of commits. Their times may be slightly out of order, so the
        # first entry that is too new ends the trimming.
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
