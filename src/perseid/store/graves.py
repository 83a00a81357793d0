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
_HIDDEN: Final = "pk = :pk AND lsn > :after AND lsn <= :lsn"  # what lies in a grave
# The rule of LIVE_SQL, by the horizon of the grave.
_WAS_LIVE: Final = LIVE_SQL.replace(":inherited", "graves.inherited").replace(":own", "graves.own")


class Grave(NamedTuple):
    """The items of a partition written behind `after` and up to `lsn` are hidden; the horizon told
    which of them were dead. What an earlier grave of the partition hides is not in this one."""

    container: int
    pk: bytes
    range_index: int
    after: int
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
        Grave(container, pk, part, after, lsn, Horizon(inherited, own))
        for container, pk, part, after, lsn, inherited, own in db.execute(
            "SELECT container, pk, range, after, lsn, inherited, own FROM graves"
            " ORDER BY container, pk, lsn"
        )
    ]


def first_items(
    db: apsw.Connection, container: int, pk: bytes, horizon: Horizon, limit: int, after: int = -1
) -> list[Hidden]:
    """Items of a partition that is to be cleared, from the oldest on; those behind one of them."""
    condition = "pk = :pk AND number > :after"
    return _select(db, f"standing_{container}", condition, limit, horizon, pk=pk, after=after)


def hidden_items(db: apsw.Connection, grave: Grave, limit: int) -> list[Hidden]:
    return _select_hidden(db, grave, limit)


def live_groups(db: apsw.Connection, grave: Grave) -> list[tuple[int, int, int]]:
    """What lived in a partition that is hidden now, see protocol.Cleared."""
    groups = db.execute(
        f"SELECT size, COUNT(*), SUM(terms) FROM items_{grave.container}"
        f" WHERE {_HIDDEN} AND {LIVE_SQL} GROUP BY size",
        _bounds(grave) | grave.horizon._asdict(),
    )
    return [(size, items, terms) for size, items, terms in groups]


class HiddenUsage(NamedTuple):
    """Items and bytes of a range that are hidden; then those of them that were dead by then."""

    items: int
    size: int
    dead: int
    dead_size: int


def hidden_usage(db: apsw.Connection, container: int, range_index: int) -> HiddenUsage:
    found = db.execute(
        f"SELECT COUNT(*), COALESCE(SUM(size), 0), COUNT(*) FILTER (WHERE NOT {_WAS_LIVE}),"
        f" COALESCE(SUM(size) FILTER (WHERE NOT {_WAS_LIVE}), 0)"
        f" FROM graves CROSS JOIN items_{container} AS items ON items.pk = graves.pk"
        " AND items.lsn > graves.after AND items.lsn <= graves.lsn"
        " WHERE graves.container = ? AND graves.range = ?",
        (container, range_index),
    ).get
    return HiddenUsage._make(found)


def dig(db: apsw.Connection, grave: Grave) -> None:
    db.execute(
        "INSERT INTO graves (container, pk, range, after, lsn, inherited, own)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*grave[:5], *grave.horizon),
    )
    schema.show_standing(db, grave.container)


def close(db: apsw.Connection, grave: Grave) -> None:
    db.execute(
        "DELETE FROM graves WHERE container = ? AND pk = ? AND lsn = ?",
        (grave.container, grave.pk, grave.lsn),
    )
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


def free_entries(db: apsw.Connection, container: int, entries: Iterable[bytes]) -> None:
    """Removes those of the unique-key entries that hidden items hold."""
    unique = f"unique_{container}"
    for entry in entries:
        db.execute(
            f"DELETE FROM {unique} WHERE entry = ?"
            f" AND NOT EXISTS (SELECT 1 FROM standing_{container} AS standing"
            f" WHERE standing.number = {unique}.number)",
            (entry,),
        )


def hidden_item(db: apsw.Connection, grave: Grave, item_id: str) -> list[Hidden]:
    """The item in a grave that stands in the way of a new one with its id, if there is one."""
    return _select_hidden(db, grave, 1, " AND id = :id", id=item_id)


def _bounds(grave: Grave) -> dict[str, Any]:
    return {"pk": grave.pk, "after": grave.after, "lsn": grave.lsn}


def _select_hidden(
    db: apsw.Connection, grave: Grave, limit: int, condition: str = "", **values: Any
) -> list[Hidden]:
    table = f"items_{grave.container}"
    values |= _bounds(grave)
    return _select(db, table, _HIDDEN + condition, limit, grave.horizon, **values)


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
