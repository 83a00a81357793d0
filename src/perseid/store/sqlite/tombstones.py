"""Tombstones hide the items of cleared partitions until they are purged: their SQL.

Removing many items in one transaction would delay every other write. So a large partition gets a
tombstone, a row that hides its items: all readers use a view that leaves them out (see
schema.create_visible_items_view), and small steps remove them later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import apsw
import orjson

from perseid.store.sql.range_state import RangeState
from perseid.store.sqlite import schema
from perseid.ttl import EXPIRED_BY_CHANGE_SQL, LIVE_SQL, Cutoff, expired_by_change_sql, live_sql

_HIDDEN: Final = "pk = :pk AND lsn > :after AND lsn <= :lsn"  # by one tombstone
_COLUMNS: Final = (
    "container, pk, range, after_lsn, up_to_lsn, inherited_cutoff, own_cutoff,"
    " previous_inherited_cutoff, previous_own_cutoff"
)
# By the cutoffs of the tombstone.
_WAS_EXPIRED: Final = f"NOT {live_sql('inherited_cutoff', 'own_cutoff')}"
_WAS_EXPIRED_BY_CHANGE: Final = expired_by_change_sql(
    "inherited_cutoff", "own_cutoff", "previous_inherited_cutoff", "previous_own_cutoff"
)


class Tombstone(NamedTuple):
    """Hides the items of a partition that were written after the LSN `after` and up to `lsn`.
    Items that an earlier tombstone of the partition hides are not among them.

    `cutoff` says which of them had expired, `previous_cutoff` which would have under the policy
    before the last change.
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
    """An item of a cleared partition."""

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
            f"SELECT {_COLUMNS} FROM tombstones ORDER BY container, pk, up_to_lsn"
        )
    ]


def hidden_items(
    db: apsw.Connection, tombstone: Tombstone, limit: int, after_number: int = -1
) -> list[HiddenItem]:
    """The first items that the tombstone hides, or would hide, after an item number."""
    return _select(db, tombstone, limit, "number > :after_number", after_number=after_number)


def groups(db: apsw.Connection, tombstone: Tombstone) -> list[tuple[int, int, int, int]]:
    """The hidden items in groups: a flag for live ones, then as in types.Cleared."""
    groups = db.execute(
        f"SELECT {LIVE_SQL}, size, COUNT(*), SUM(terms) FROM items_{tombstone.container}"
        f" WHERE {_HIDDEN} GROUP BY 1, 2",
        _values(tombstone),
    )
    return [(is_live, size, items, terms) for is_live, size, items, terms in groups]


class HiddenUsage(NamedTuple):
    """Hidden items and bytes of a range; how many of them had expired; how many of those were live
    under the policy before the last change."""

    items: int
    size: int
    expired: int
    expired_size: int
    expired_by_change: int


def hidden_usage(db: apsw.Connection, container: int, range_index: int) -> HiddenUsage:
    totals = db.execute(
        f"SELECT COUNT(*), COALESCE(SUM(size), 0), COUNT(*) FILTER (WHERE {_WAS_EXPIRED}),"
        f" COALESCE(SUM(size) FILTER (WHERE {_WAS_EXPIRED}), 0),"
        f" COUNT(*) FILTER (WHERE {_WAS_EXPIRED_BY_CHANGE})"
        f" FROM tombstones CROSS JOIN items_{container} AS items"
        " ON items.pk = tombstones.pk AND items.lsn > tombstones.after_lsn"
        " AND items.lsn <= tombstones.up_to_lsn"
        " WHERE tombstones.container = ? AND tombstones.range = ?",
        (container, range_index),
    ).get
    return HiddenUsage._make(totals)


def create(db: apsw.Connection, tombstone: Tombstone) -> None:
    db.execute(
        f"INSERT INTO tombstones ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*tombstone[:5], *tombstone.cutoff, *tombstone.previous_cutoff),
    )
    schema.create_visible_items_view(db, tombstone.container)


def remove_tombstone(db: apsw.Connection, tombstone: Tombstone) -> None:
    db.execute(
        "DELETE FROM tombstones WHERE container = ? AND pk = ? AND up_to_lsn = ?",
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
    """Removes the items and their unique-key entries; the state of the range after that."""
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
    """Removes the unique-key entries that hidden items own."""
    unique = f"unique_{container}"
    for entry in entries:
        db.execute(
            f"DELETE FROM {unique} WHERE entry = ?"
            f" AND NOT EXISTS (SELECT 1 FROM visible_{container} AS visible"
            f" WHERE visible.number = {unique}.number)",
            (entry,),
        )


def hidden_item(db: apsw.Connection, tombstone: Tombstone, item_id: str) -> list[HiddenItem]:
    """The hidden item with this id, if any: a new item of the same id replaces it."""
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
    # All in one row: for each row fetched this thread would wait for the interpreter lock.
    items = db.execute(
        "SELECT json_group_array(json_array("
        f"number, size, terms, {LIVE_SQL}, {EXPIRED_BY_CHANGE_SQL})) FROM"
        f" (SELECT number, size, terms, ts, ttl FROM items_{tombstone.container}"
        f" WHERE {_HIDDEN} AND {condition} ORDER BY number LIMIT :limit)",
        values | {"limit": limit} | _values(tombstone),
    ).get
    return [*map(HiddenItem._make, orjson.loads(items))]
