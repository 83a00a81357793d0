"""Logical partitions that were cleared: at once if they are small, else hidden and then removed.

Removing many items takes its time, and a transaction that long would hold up every other write. So
a large partition gets a grave: one row that says which of its items nobody sees any more. The view
that everything reads leaves them out (see schema.show_standing); small steps remove them later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import apsw
import orjson

from perseid.store import schema
from perseid.store.position import Position
from perseid.ttl import LIVE_SQL, Horizon

AT_ONCE: Final = 1000  # items that one transaction removes without anyone noticing


class Grave(NamedTuple):
    """The items of a partition up to `lsn` are hidden; the horizon told which of them were dead."""

    container: int
    pk: bytes
    range_index: int
    lsn: int
    horizon: Horizon

    @property
    def place(self) -> tuple[int, int]:
        return self.container, self.range_index


class Hidden(NamedTuple):
    """An item to remove with its partition."""

    number: int
    size: int
    terms: int
    is_live: int


def read_all(db: apsw.Connection) -> list[Grave]:
    return [
        Grave(container, pk, part, lsn, Horizon(inherited, own))
        for container, pk, part, lsn, inherited, own in db.execute(
            "SELECT container, pk, range, lsn, inherited, own FROM graves"
        )
    ]


def first_items(
    db: apsw.Connection, container: int, pk: bytes, horizon: Horizon, limit: int, after: int = -1
) -> list[Hidden]:
    """Items of a partition that is to be cleared, from the oldest on; those behind one of them."""
    condition = "pk = :pk AND number > :after"
    return _select(db, f"standing_{container}", condition, limit, horizon, pk=pk, after=after)


def hidden_items(db: apsw.Connection, grave: Grave, limit: int) -> list[Hidden]:
    condition = "pk = :pk AND lsn <= :lsn"
    table = f"items_{grave.container}"
    return _select(db, table, condition, limit, grave.horizon, pk=grave.pk, lsn=grave.lsn)


def live_groups(db: apsw.Connection, grave: Grave, after: int) -> list[tuple[int, int, int]]:
    """What lived in a partition that is hidden now, see protocol.Cleared; what was written up to
    `after` had been cleared before."""
    groups = db.execute(
        f"SELECT size, COUNT(*), SUM(terms) FROM items_{grave.container}"
        f" WHERE pk = :pk AND lsn > :after AND lsn <= :lsn AND {LIVE_SQL} GROUP BY size",
        {"pk": grave.pk, "after": after, "lsn": grave.lsn} | grave.horizon._asdict(),
    )
    return [(size, items, terms) for size, items, terms in groups]


def hidden_usage(db: apsw.Connection, container: int, range_index: int) -> tuple[int, int]:
    """Items and bytes of a range that are hidden."""
    items, size = db.execute(
        f"SELECT COUNT(*), COALESCE(SUM(items.size), 0) FROM graves CROSS JOIN items_{container}"
        " AS items ON items.pk = graves.pk AND items.lsn <= graves.lsn"
        " WHERE graves.container = ? AND graves.range = ?",
        (container, range_index),
    ).get
    return items, size


def dig(db: apsw.Connection, grave: Grave) -> None:
    db.execute(
        "REPLACE INTO graves (container, pk, range, lsn, inherited, own) VALUES (?, ?, ?, ?, ?, ?)",
        (grave.container, grave.pk, grave.range_index, grave.lsn, *grave.horizon),
    )
    schema.show_standing(db, grave.container)


def close(db: apsw.Connection, grave: Grave) -> None:
    db.execute("DELETE FROM graves WHERE container = ? AND pk = ?", (grave.container, grave.pk))
    schema.show_standing(db, grave.container)


def remove(
    db: apsw.Connection, container: int, items: Sequence[Hidden], position: Position, *, steps: int
) -> Position:
    """Removes the items and their unique-key entries; the range's counters after that."""
    numbers = orjson.dumps([item.number for item in items]).decode()
    for table in (f"items_{container}", f"unique_{container}"):
        db.execute(
            f"DELETE FROM {table} WHERE number IN (SELECT value FROM json_each(?))", (numbers,)
        )
    dead = [item for item in items if not item.is_live]
    return position.cleared(
        items=len(items),
        size=sum(item.size for item in items),
        dead=len(dead),
        dead_size=sum(item.size for item in dead),
        steps=steps,
    )


def free_entries(db: apsw.Connection, grave: Grave, entries: Iterable[bytes]) -> None:
    """Removes those of the unique-key entries that hidden items hold."""
    unique = f"unique_{grave.container}"
    for entry in entries:
        db.execute(
            f"DELETE FROM {unique} WHERE entry = ?"
            f" AND NOT EXISTS (SELECT 1 FROM standing_{grave.container} AS standing"
            f" WHERE standing.number = {unique}.number)",
            (entry,),
        )


def hidden_item(db: apsw.Connection, grave: Grave, item_id: str) -> list[Hidden]:
    """The hidden item that stands in the way of a new one with its id, if there is one."""
    condition = "pk = :pk AND id = :id AND lsn <= :lsn"
    table = f"items_{grave.container}"
    return _select(db, table, condition, 1, grave.horizon, pk=grave.pk, id=item_id, lsn=grave.lsn)


def _select(
    db: apsw.Connection, table: str, condition: str, limit: int, horizon: Horizon, **values: Any
) -> list[Hidden]:
    # All in one row: each row fetched is a moment in which this thread asks the event loop's for
    # the interpreter.
    found = db.execute(
        f"SELECT json_group_array(json_array(number, size, terms, {LIVE_SQL})) FROM"
        f" (SELECT number, size, terms, ts, ttl FROM {table} WHERE {condition}"
        " ORDER BY number LIMIT :limit)",
        values | {"limit": limit} | horizon._asdict(),
    ).get
    return [*map(Hidden._make, orjson.loads(found))]
