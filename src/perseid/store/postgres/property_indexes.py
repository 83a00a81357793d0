"""Creates, fills and drops property indexes of a range, in steps that any server process can take.

Every step locks the row of the range, as each write does, and is short. An index is listed first;
from then on each write keeps its entries. Then the entries of older items are added, a few hundred
in a step, and the index is ready. If a process stops meanwhile, another one goes on. Dropped
indexes are no longer kept by writes, and lose their entries in steps, too.

`positions.indexes` counts the changes of the list, so a write knows whether the list in memory is
current, and each id is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from perseid.conditions import PropertyPath
from perseid.model import RANGE_SHIFT
from perseid.store.postgres.pool import DatabaseConnection, Pool, fetch_rows
from perseid.store.postgres.property_values import PropertyIndex, PropertyIndexSet, fill_values
from perseid.store.postgres.transactions import commit, execute, pipelined, transact

# Items in a step: a write waits for a step, which takes some milliseconds.
ITEMS_IN_A_STEP: Final = 500
# Entries that are removed in a step, which blocks no write.
_REMOVED_IN_A_STEP: Final = 2000

_LIST: Final = (
    "SELECT part, id, path, state, filled, last FROM property_indexes WHERE part = ANY($1)"
)
_LOCK: Final = "SELECT indexes FROM positions WHERE part = $1 FOR UPDATE"
_KEPT: Final = "SELECT id, path FROM property_indexes WHERE part = $1 AND state <> 'dropping'"
_NEXT_STEP: Final = (
    "SELECT filled, last, (SELECT max(number) FROM (SELECT number FROM items WHERE part = $1"
    " AND number > filled AND number <= last ORDER BY number LIMIT $3) AS step)"
    " FROM property_indexes WHERE part = $1 AND id = $2 AND state = 'filling'"
)
_SET_STEP: Final = (
    "UPDATE property_indexes SET filled = $3,"
    " state = CASE WHEN $3 >= last THEN 'ready' ELSE state END WHERE part = $1 AND id = $2"
)
_REMOVE_ENTRIES: Final = (
    "WITH gone AS (DELETE FROM property_values WHERE part = $1 AND property = $2 AND number IN"
    " (SELECT number FROM property_values WHERE part = $1 AND property = $2 LIMIT $3) RETURNING 1)"
    " SELECT count(*) FROM gone"
)
# Another process may remove entries as well, and be faster.
_REMOVE_INDEX: Final = (
    "DELETE FROM property_indexes WHERE part = $1 AND id = $2 AND state = 'dropping'"
    " AND NOT EXISTS (SELECT 1 FROM property_values WHERE part = $1 AND property = $2)"
)


class ListedIndex(NamedTuple):
    """A property index of a range as it is listed."""

    part: str
    id: int
    path: PropertyPath
    state: str
    filled: int  # the number of the last item that has an entry, among the older ones
    last: int  # the number of the last item that needs one

    @property
    def identity(self) -> PropertyIndex:
        return PropertyIndex(self.id, self.path)

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"

    @property
    def is_dropping(self) -> bool:
        return self.state == "dropping"

    @property
    def filled_part(self) -> float:
        """The part of the items that has entries, estimated from their numbers."""
        return 1.0 if self.is_ready else _filled_part(self.filled, self.last)


async def listed(pool: Pool, parts: Sequence[str]) -> list[ListedIndex]:
    """The indexes of ranges, including those that are not complete."""
    rows = await fetch_rows(pool, _LIST, ([*parts],))
    return [ListedIndex(part, number, _path_of(path), *rest) for part, number, path, *rest in rows]


async def kept_indexes(db: DatabaseConnection, part: str) -> PropertyIndexSet:
    """The indexes whose entries a write keeps; in a transaction that has locked the range."""
    rows = await execute(db, _KEPT, (part,))
    return tuple([PropertyIndex(number, _path_of(path)) for number, path in rows])


async def add(pool: Pool, part: str, path: PropertyPath) -> PropertyIndex | None:
    """Lists an index, unless it is listed already; None if the range was dropped."""
    text = orjson.dumps(path).decode()

    async def work(db: DatabaseConnection) -> PropertyIndex | None:
        lock, indexes = await pipelined(db, ("BEGIN", ()), (_LOCK, (part,)), (_KEPT, (part,)))
        if not lock:
            return None
        for number, other in indexes:
            if other == text:
                return PropertyIndex(number, path)
        number = lock[0][0] + 1
        await commit(
            db,
            (
                "INSERT INTO property_indexes SELECT $1, $2, $3, 'filling', -1,"
                " COALESCE(max(number), -1) FROM items WHERE part = $1",
                (part, number, text),
            ),
            ("UPDATE positions SET indexes = $2 WHERE part = $1", (part, number)),
        )
        return PropertyIndex(number, path)

    return await transact(pool, work)


async def fill_step(pool: Pool, part: str, index: PropertyIndex) -> float:
    """Adds the entries of some items. Returns the part of the items that has entries now; 1 if
    nothing is left to do."""

    async def work(db: DatabaseConnection) -> float:
        lock, rows = await pipelined(
            db,
            ("BEGIN", ()),
            (_LOCK, (part,)),
            (_NEXT_STEP, (part, index.id, ITEMS_IN_A_STEP)),
        )
        if not lock or not rows:
            return 1.0
        ((filled, last, upto),) = rows
        if upto is None:  # no items are left, or there were none
            await commit(db, (_SET_STEP, (part, index.id, last)))
            return 1.0
        await commit(
            db, fill_values(part, index, filled, upto), (_SET_STEP, (part, index.id, upto))
        )
        return _filled_part(upto, last)

    return await transact(pool, work)


async def mark_dropping(pool: Pool, part: str, index_id: int) -> None:
    """Ends the use of an index: queries see that at once, and writes keep it no longer."""

    async def work(db: DatabaseConnection) -> None:
        await pipelined(db, ("BEGIN", ()), (_LOCK, (part,)))
        await commit(
            db,
            (
                "UPDATE property_indexes SET state = 'dropping' WHERE part = $1 AND id = $2",
                (part, index_id),
            ),
            ("UPDATE positions SET indexes = indexes + 1 WHERE part = $1", (part,)),
        )

    await transact(pool, work)


async def remove_step(pool: Pool, part: str, index_id: int) -> bool:
    """Removes some entries of a dropped index, or else the index itself; False if it is gone."""
    ((removed,),) = await fetch_rows(pool, _REMOVE_ENTRIES, (part, index_id, _REMOVED_IN_A_STEP))
    if not removed:
        await fetch_rows(pool, _REMOVE_INDEX, (part, index_id))
    return bool(removed)


def _filled_part(filled: int, last: int) -> float:
    if filled >= last:
        return 1.0
    first = last >> RANGE_SHIFT << RANGE_SHIFT
    return max(0, filled - first) / (last - first)


def _path_of(text: str) -> PropertyPath:
    return tuple(orjson.loads(text))
