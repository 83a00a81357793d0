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

from perseid.store.sql.range_state import RangeState
from perseid.store.sqlite import schema
from perseid.ttl import EXPIRED_BY_CHANGE_SQL, LIVE_SQL, Cutoff, expired_by_change_sql, live_sql

MAX_IMMEDIATE_REMOVALS: Final = 1000  # items that one transaction removes without anyone noticing
_HIDDEN: Final = "pk = :pk AND lsn > :after AND lsn <= :lsn"  # what lies in a grave
_COLUMNS: Final = "container, pk, range, after, lsn, inherited, own, spare_inherited, spare_own"
# By the horizons of the grave.
_WAS_EXPIRED: Final = f"NOT {live_sql('inherited', 'own')}"
_WAS_EXPIRED_BY_CHANGE: Final = expired_by_change_sql(
    "inherited", "own", "spare_inherited", "spare_own"
)


class Tombstone(NamedTuple):
    """The items of a partition written behind `after` and up to `lsn` are hidden. What an earlier
    grave of the partition hides is not in this one.

    The horizon told which of them were dead; `spare` is that of the policy before, or the same.
    """

    container: int
    pk: bytes
    range_index: int
    after: int
    lsn: int
    cutoff: Cutoff
    previous_cutoff: Cutoff

    @property
    def range_key(self) -> tuple[int, int]:
        return self.container, self.range_index


class HiddenItem(NamedTuple):
    """An item to remove with its partition."""

    number: int
    size: int
    terms: int
    is_live: int
    is_expired_by_change: int


def read_all(db: apsw.Connection) -> list[Tombstone]:
    return [
        Tombstone(
            container, pk, part, after, lsn, Cutoff._make(bounds[:2]), Cutoff._make(bounds[2:])
        )
        for container, pk, part, after, lsn, *bounds in db.execute(
            f"SELECT {_COLUMNS} FROM graves ORDER BY container, pk, lsn"
        )
    ]


def hidden_items(
    db: apsw.Connection, tombstone: Tombstone, limit: int, after_number: int = -1
) -> list[HiddenItem]:
    """The first items that lie in a grave, or would if it were dug; behind the one of a number."""
    return _select(db, tombstone, limit, "number > :after_number", after_number=after_number)


def groups(db: apsw.Connection, tombstone: Tombstone) -> list[tuple[int, int, int, int]]:
    """What lies in a partition that is hidden now: whether alive, then as in protocol.Cleared."""
    found = db.execute(
        f"SELECT {LIVE_SQL}, size, COUNT(*), SUM(terms) FROM items_{tombstone.container}"
        f" WHERE {_HIDDEN} GROUP BY 1, 2",
        _values(tombstone),
    )
    return [(is_live, size, items, terms) for is_live, size, items, terms in found]


class HiddenUsage(NamedTuple):
    """Items and bytes of a range that are hidden; then those of them that were dead by then, and
    how many of these the policy before would have spared."""

    items: int
    size: int
    expired: int
    expired_size: int
    expired_by_change: int


def hidden_usage(db: apsw.Connection, container: int, range_index: int) -> HiddenUsage:
    found = db.execute(
        f"SELECT COUNT(*), COALESCE(SUM(size), 0), COUNT(*) FILTER (WHERE {_WAS_EXPIRED}),"
        f" COALESCE(SUM(size) FILTER (WHERE {_WAS_EXPIRED}), 0),"
        f" COUNT(*) FILTER (WHERE {_WAS_EXPIRED_BY_CHANGE})"
        f" FROM graves CROSS JOIN items_{container} AS items ON items.pk = graves.pk"
        " AND items.lsn > graves.after AND items.lsn <= graves.lsn"
        " WHERE graves.container = ? AND graves.range = ?",
        (container, range_index),
    ).get
    return HiddenUsage._make(found)


def create(db: apsw.Connection, tombstone: Tombstone) -> None:
    db.execute(
        f"INSERT INTO graves ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*tombstone[:5], *tombstone.cutoff, *tombstone.previous_cutoff),
    )
    schema.create_visible_items_view(db, tombstone.container)


def remove_tombstone(db: apsw.Connection, tombstone: Tombstone) -> None:
    db.execute(
        "DELETE FROM graves WHERE container = ? AND pk = ? AND lsn = ?",
        (tombstone.container, tombstone.pk, tombstone.lsn),
    )
    schema.create_visible_items_view(db, tombstone.container)


def remove(
    db: apsw.Connection,
    container: int,
    items: Sequence[HiddenItem],
    range_state: RangeState,
    *,
    steps: int,
) -> RangeState:
    """Removes the items and their unique-key entries; the range's counters after that."""
    schema.remove_items(db, container, [item.number for item in items])
    expired = [item for item in items if not item.is_live]
    return range_state.after_clear(
        items=len(items),
        size=sum(item.size for item in items),
        expired=len(expired),
        expired_size=sum(item.size for item in expired),
        expired_by_change=sum(item.is_expired_by_change for item in items),
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


def hidden_item(db: apsw.Connection, tombstone: Tombstone, item_id: str) -> list[HiddenItem]:
    """The item in a grave that stands in the way of a new one with its id, if there is one."""
    return _select(db, tombstone, 1, "id = :id", id=item_id)


def _values(tombstone: Tombstone) -> dict[str, Any]:
    bounds = {"pk": tombstone.pk, "after": tombstone.after, "lsn": tombstone.lsn}
    previous_cutoff = {
        "previous_inherited": tombstone.previous_cutoff.inherited,
        "previous_own": tombstone.previous_cutoff.own,
    }
    return bounds | tombstone.cutoff._asdict() | previous_cutoff


def _select(
    db: apsw.Connection, tombstone: Tombstone, limit: int, condition: str, **values: Any
) -> list[HiddenItem]:
    # All in one row: each row fetched is a moment in which this thread asks the event loop's for
    # the interpreter.
    found = db.execute(
        "SELECT json_group_array(json_array("
        f"number, size, terms, {LIVE_SQL}, {EXPIRED_BY_CHANGE_SQL})) FROM"
        f" (SELECT number, size, terms, ts, ttl FROM items_{tombstone.container}"
        f" WHERE {_HIDDEN} AND {condition} ORDER BY number LIMIT :limit)",
        values | {"limit": limit} | _values(tombstone),
    ).get
    return [*map(HiddenItem._make, orjson.loads(found))]
