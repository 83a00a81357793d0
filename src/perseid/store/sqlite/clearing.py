"""Clears logical partitions: small ones at once, large ones by a tombstone and a later purge."""

from __future__ import annotations

from typing import Final

from perseid.model import Container
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.sql.range_state import EMPTY_RANGE
from perseid.store.sqlite import tombstones
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.tombstones import Tombstone
from perseid.store.types import Cleared
from perseid.ttl import Cutoff

# Items that one transaction removes without delaying other writes noticeably.
MAX_IMMEDIATE_REMOVALS: Final = 1000


class PartitionClearing:
    """Shared by the item store, which clears partitions, and the expiry store, which purges."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._state = database.state

    async def clear(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff,
    ) -> Cleared:
        """Removes or hides the items of a partition in one transaction."""
        number = container.number
        being_counted = self._state.being_counted
        # Until the items are counted they are not purged.
        being_counted[number, pk] += 1
        earlier = Tombstone(number, pk, range_index, 0, 0, cutoff, previous_cutoff)
        try:
            done = await self._database.writer.submit(lambda: self._clear(earlier), is_heavy=True)
            if isinstance(done, Cleared):
                return done
            groups = await self._database.readers.in_thread(lambda db: tombstones.groups(db, done))
            return Cleared.of(done.lsn, groups)
        finally:
            being_counted[number, pk] -= 1
            if not being_counted[number, pk]:
                del being_counted[number, pk]

    def _clear(self, tombstone: Tombstone) -> Cleared | Tombstone:
        """Inside a transaction; the tombstone if one was created, which lacks only its LSNs."""
        db, state, number = self._database.write_db, self._state, tombstone.container
        range_key = tombstone.range_key
        range_state = state.range_states.get(range_key, EMPTY_RANGE)
        earlier = state.tombstones_of(number, tombstone.pk)
        tombstone = tombstone._replace(after=earlier[-1].lsn if earlier else 0, lsn=range_state.lsn)
        items = tombstones.hidden_items(db, tombstone, MAX_IMMEDIATE_REMOVALS + 1)
        if not items:
            return Cleared.of(range_state.lsn, ())
        is_logged = number in self._database.logs.logged_containers
        steps = self._log_hidden_items(tombstone) if is_logged else 1
        if len(items) > MAX_IMMEDIATE_REMOVALS:
            tombstone = tombstone._replace(lsn=range_state.lsn + steps)
            tombstones.create(db, tombstone)
            state.set_range_state(range_key, range_state._replace(lsn=tombstone.lsn))
            state.add_tombstone(tombstone)
            return tombstone
        range_state = tombstones.remove(db, number, items, range_state, steps=steps)
        state.set_range_state(range_key, range_state)
        state.add_changed(number, [item.number for item in items])
        groups = [(item.is_live, item.size, 1, item.terms) for item in items]
        return Cleared.of(range_state.lsn, groups)

    def _log_hidden_items(self, tombstone: Tombstone) -> int:
        """Logs the removals as transactions after the LSN of the tombstone, as many as it takes for
        each to fit on a page of the change feed; how many."""
        ts = int(self._database.now())
        steps, last = 0, -1
        while items := tombstones.hidden_items(
            self._database.write_db, tombstone, MAX_LOGGED_REMOVALS, after_number=last
        ):
            steps += 1
            lsn = tombstone.lsn + steps
            self._database.logs.clear(*tombstone.range_key, lsn, ts, items)
            last = items[-1].number
        return steps

    async def purge(self, limit: int) -> bool:
        """Removes up to `limit` hidden items; False if there were none."""
        state = self._state
        pending = (
            tombstone
            for hidden in state.tombstones.values()
            for of_partition in hidden.values()
            for tombstone in of_partition
            if (tombstone.container, tombstone.pk) not in state.being_counted
        )
        tombstone = next(pending, None)
        if tombstone is None:
            return False
        await self._database.writer.submit(lambda: self._purge(tombstone, limit), is_heavy=True)
        return True

    def _purge(self, tombstone: Tombstone, limit: int) -> None:
        db, state = self._database.write_db, self._state
        if tombstone not in state.tombstones_of(tombstone.container, tombstone.pk):
            return  # the container was dropped
        limit = self._database.reserve.step(limit)
        items = tombstones.hidden_items(db, tombstone, limit)
        range_state = state.range_states.get(tombstone.range_key, EMPTY_RANGE)
        # No reader sees this, so it has no LSN.
        state.set_range_state(
            tombstone.range_key,
            tombstones.remove(db, tombstone.container, items, range_state, steps=0),
        )
        if len(items) < limit:
            tombstones.remove_tombstone(db, tombstone)
            state.remove_tombstone(tombstone)
