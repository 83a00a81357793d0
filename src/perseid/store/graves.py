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
from perseid.ttl import LIVE_SQL, SPARED_SQL, Horizon, live_sql, spared_sql

AT_ONCE: Final = 1000  # items that one transaction removes without anyone noticing
_HIDDEN: Final = "pk = :pk AND lsn > :after AND lsn <= :lsn"  # what lies in a grave
_COLUMNS: Final = "container, pk, range, after, lsn, inherited, own, spare_inherited, spare_own"
# By the horizons of the grave.
_WAS_DEAD: Final = f"NOT {live_sql('inherited', 'own')}"
_WAS_SPARED: Final = spared_sql("inherited", "own", "spare_inherited", "spare_own")


class Grave(NamedTuple):
    """The items of a partition written behind `after` and up to `lsn` are hidden. What an earlier
    grave of the partition hides is not in this one.

    The horizon told which of them were dead; `spare` is that of the policy before, or the same.
    """

    container: int
    pk: bytes
    range_index: int
    after: int
    lsn: int
    horizon: Horizon
    spare: Horizon

    @property
    def place(self) -> tuple[int, int]:
        return self.container, self.range_index


class Hidden(NamedTuple):
    """An item to remove with its partition."""

    number: int
    size: int
    terms: int
    is_live: int
    is_spared: int


def read_all(db: apsw.Connection) -> list[Grave]:
    return [
        Grave(container, pk, part, after, lsn, Horizon._make(bounds[:2]), Horizon._make(bounds[2:]))
        for container, pk, part, after, lsn, *bounds in db.execute(
            f"SELECT {_COLUMNS} FROM graves ORDER BY container, pk, lsn"
        )
    ]


def items_in(db: apsw.Connection, grave: Grave, limit: int, behind: int = -1) -> list[Hidden]:
    """The first items that lie in a grave, or would if it were dug; behind the one of a number."""
    return _select(db, grave, limit, "number > :behind", behind=behind)


def groups(db: apsw.Connection, grave: Grave) -> list[tuple[int, int, int, int]]:
    """What lies in a partition that is hidden now: whether alive, then as in protocol.Cleared."""
    found = db.execute(
        f"SELECT {LIVE_SQL}, size, COUNT(*), SUM(terms) FROM items_{grave.container}"
        f" WHERE {_HIDDEN} GROUP BY 1, 2",
        _values(grave),
    )
    return [(is_live, size, items, terms) for is_live, size, items, terms in found]


class HiddenUsage(NamedTuple):
    """Items and bytes of a range that are hidden; then those of them that were dead by then, and
    how many of these the policy before would have spared."""

    items: int
    size: int
    dead: int
    dead_size: int
    spared: int


def hidden_usage(db: apsw.Connection, container: int, range_index: int) -> HiddenUsage:
    found = db.execute(
        f"SELECT COUNT(*), COALESCE(SUM(size), 0), COUNT(*) FILTER (WHERE {_WAS_DEAD}),"
        f" COALESCE(SUM(size) FILTER (WHERE {_WAS_DEAD}), 0),"
        f" COUNT(*) FILTER (WHERE {_WAS_SPARED})"
        f" FROM graves CROSS JOIN items_{container} AS items ON items.pk = graves.pk"
        " AND items.lsn > graves.after AND items.lsn <= graves.lsn"
        " WHERE graves.container = ? AND graves.range = ?",
        (container, range_index),
    ).get
    return HiddenUsage._make(found)


def dig(db: apsw.Connection, grave: Grave) -> None:
    db.execute(
        f"INSERT INTO graves ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*grave[:5], *grave.horizon, *grave.spare),
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
    schema.remove_items(db, container, [item.number for item in items])
    dead = [item for item in items if not item.is_live]
    return position.cleared(
        items=len(items),
        size=sum(item.size for item in items),
        dead=len(dead),
        dead_size=sum(item.size for item in dead),
        spared=sum(item.is_spared for item in items),
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
    return _select(db, grave, 1, "id = :id", id=item_id)


def _values(grave: Grave) -> dict[str, Any]:
    bounds = {"pk": grave.pk, "after": grave.after, "lsn": grave.lsn}
    spare = {"spare_inherited": grave.spare.inherited, "spare_own": grave.spare.own}
    return bounds | grave.horizon._asdict() | spare


def _select(
    db: apsw.Connection, grave: Grave, limit: int, condition: str, **values: Any
) -> list[Hidden]:
    # All in one row: each row fetched is a moment in which this thread asks the event loop's for
    # the interpreter.
    found = db.execute(
        f"SELECT json_group_array(json_array(number, size, terms, {LIVE_SQL}, {SPARED_SQL})) FROM"
        f" (SELECT number, size, terms, ts, ttl FROM items_{grave.container}"
        f" WHERE {_HIDDEN} AND {condition} ORDER BY number LIMIT :limit)",
        values | {"limit": limit} | _values(grave),
    ).get
    return [*map(Hidden._make, orjson.loads(found))]
