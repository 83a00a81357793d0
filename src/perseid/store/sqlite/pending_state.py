"""What memory knows about the file: the durable state, and what the open transaction changes.

Lives on the event loop, except while a heavy job runs in the writer's thread, alone. The durable
part changes only after a commit, so readers on the event loop never see an open transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import apsw

from perseid.errors import OwnerNotFound
from perseid.store.sql.range_state import EMPTY_RANGE, RangeState
from perseid.store.sqlite import schema, tombstones
from perseid.store.sqlite.change_log_writer import ChangeLogs
from perseid.store.sqlite.checksums import DamagedItems
from perseid.store.sqlite.group import Group
from perseid.store.sqlite.row_cache import RowCache
from perseid.store.sqlite.tombstones import Tombstone
from perseid.store.types import PutResource

_STATE_COLUMNS = "lsn, items, bytes, purged_items, purged_bytes, purged_since_change"


class PendingState:
    """Range states, tombstones, logged containers and cached rows of one file."""

    def __init__(
        self,
        db: apsw.Connection,
        logs: ChangeLogs,
        group: Group,
        cache: RowCache,
        damaged: DamagedItems,
    ) -> None:
        self._db = db
        self._logs = logs
        self._group = group
        self._cache = cache
        self._damaged = damaged
        # By container and range: the durable states, and those that the transaction changes.
        self.range_states: dict[tuple[int, int], RangeState] = {
            (container, range_index): RangeState(*state)
            for container, range_index, *state in db.execute(
                f"SELECT container, range, {_STATE_COLUMNS} FROM positions"
            )
        }
        self._open: dict[tuple[int, int], RangeState] = {}
        self._dropped: set[int] = set()  # containers
        # Dropped containers whose tables still exist.
        self.hidden = schema.hidden_containers(db)
        self._open_hidden: set[int] = set()
        self._changed: list[tuple[int, int]] = []  # containers and item numbers
        self._open_logs: frozenset[int] | None = None  # the logged containers, if they change
        # The durable ones by container and partition key, the oldest first.
        self.tombstones: dict[int, dict[bytes, list[Tombstone]]] = {}
        self._open_tombstones: list[tuple[Tombstone, bool]] = []  # whether it is new or removed
        for tombstone in tombstones.read_all(db):
            self._apply_tombstone(tombstone, is_new=True)
        # Cleared partitions whose items are being counted; they are not purged meanwhile.
        self.being_counted: Counter[tuple[int, bytes]] = Counter()

    def range_state(self, range_key: tuple[int, int]) -> RangeState:
        """The state that the open transaction has made of a range."""
        state = self._open.get(range_key) or self.range_states.get(range_key)
        if state is not None:
            return state
        if range_key[0] in self.hidden:
            raise OwnerNotFound  # dropped a moment ago
        return EMPTY_RANGE

    def set_range_state(self, range_key: tuple[int, int], state: RangeState) -> None:
        self._open[range_key] = state

    def add_changed(self, container: int, numbers: Iterable[int]) -> None:
        self._changed += [(container, number) for number in numbers]

    def add_tombstone(self, tombstone: Tombstone) -> None:
        self._open_tombstones.append((tombstone, True))

    def remove_tombstone(self, tombstone: Tombstone) -> None:
        self._open_tombstones.append((tombstone, False))

    def tombstones_of(self, container: int, pk: bytes) -> list[Tombstone]:
        return self.tombstones.get(container, {}).get(pk, [])

    def set_logged_containers(self, logged: frozenset[int]) -> None:
        self._open_logs = logged

    def load_container(self, change: PutResource) -> None:
        """The range states of a container that the open transaction creates."""
        if change.replaces is None:
            number = change.resource.state["number"]
            for range_index, *state in self._db.execute(
                f"SELECT range, {_STATE_COLUMNS} FROM positions WHERE container = ?", (number,)
            ):
                self._open[number, range_index] = RangeState(*state)

    def drop_container(self, number: int, *, is_hidden: bool) -> None:
        for range_key in [range_key for range_key in self._open if range_key[0] == number]:
            del self._open[range_key]
        self._dropped.add(number)
        if is_hidden:
            self._open_hidden.add(number)
        self._open_tombstones += [
            (tombstone, False)
            for of_partition in self.tombstones.get(number, {}).values()
            for tombstone in of_partition
        ]

    def store(self) -> None:
        """Writes the changed range states, as the last part of the transaction."""
        for range_key, state in self._open.items():
            self._db.execute(
                "REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*range_key, *state)
            )

    def commit(self) -> None:
        """The open transaction is durable."""
        self.range_states.update(self._open)
        if self._dropped:
            for range_key in [each for each in self.range_states if each[0] in self._dropped]:
                del self.range_states[range_key]
        for tombstone, is_new in self._open_tombstones:
            self._apply_tombstone(tombstone, is_new=is_new)
            if is_new:
                self._cache.drop_partition(tombstone.container, tombstone.pk)
        if not self._cache.is_empty:
            for number, item in self._changed:
                self._cache.drop(number, item)
        self.hidden |= self._open_hidden
        if self._damaged:
            for number, item in self._changed:
                self._damaged.drop(number, item)
            for number in self._dropped:
                self._damaged.drop_container(number)
        if self._open_logs is not None:
            self._logs.logged_containers = self._open_logs
        self.roll_back()

    def roll_back(self) -> None:
        """Uses memory only: the file may be the reason for the rollback."""
        self._open.clear()
        self._dropped.clear()
        self._open_hidden.clear()
        self._open_tombstones.clear()
        self._changed.clear()
        self._open_logs = None
        self._group.clear()

    def _apply_tombstone(self, tombstone: Tombstone, *, is_new: bool) -> None:
        hidden = self.tombstones.setdefault(tombstone.container, {})
        of_partition = hidden.setdefault(tombstone.pk, [])
        if is_new:
            of_partition.append(tombstone)
            return
        of_partition.remove(tombstone)
        if not of_partition:
            del hidden[tombstone.pk]
        if not hidden:
            del self.tombstones[tombstone.container]
