"""Items by key in SQLite. Point reads run on the event loop, where they take microseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from perseid.errors import DamagedItem
from perseid.model import Container, ItemKey, Row, StorageUsage
from perseid.store.sql.range_state import EMPTY_RANGE, RangeState
from perseid.store.sqlite import expiry_sql, tombstones
from perseid.store.sqlite.checksums import CHECKED_COLUMNS, is_damaged
from perseid.store.sqlite.clearing import PartitionClearing
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.group import DRIVER_ERRORS, is_damaged_content
from perseid.store.sqlite.scans import COLUMNS
from perseid.store.sqlite.writer import as_client_error
from perseid.store.types import Cleared, Decision, PartitionAtCutoff, Put, Remove, View
from perseid.ttl import LIVE_SQL, Cutoff

T = TypeVar("T")


class _Statements(NamedTuple):
    """The SQL of one container's tables."""

    read: str
    read_number: str
    unique_key_owner: str
    reserve: str
    release: str
    partition_size: str


@lru_cache(maxsize=4096)
def _statements(number: int) -> _Statements:
    # Reads use the view, which leaves out cleared partitions.
    unique, visible = f"unique_{number}", f"visible_{number}"
    return _Statements(
        read=f"SELECT {CHECKED_COLUMNS} FROM {visible} WHERE pk = ? AND id = ?",
        read_number=f"SELECT {CHECKED_COLUMNS} FROM {visible} WHERE number = ?",
        unique_key_owner=f"SELECT {COLUMNS} FROM {visible}"
        f" WHERE number = (SELECT number FROM {unique} WHERE entry = ?)",
        reserve=f"INSERT INTO {unique} VALUES (?, ?)",
        release=f"DELETE FROM {unique} WHERE number = ?",
        partition_size=f"SELECT COALESCE(SUM(size), 0) FROM {visible}"
        f" WHERE pk = :pk AND {LIVE_SQL}",
    )


class SqliteItems:
    """See `store.protocol.ItemStore`."""

    def __init__(self, database: SqliteDatabase, clearing: PartitionClearing) -> None:
        self._database = database
        self._clearing = clearing
        self._state = database.state
        self._range_states = database.state.range_states
        self._cache = database.cache
        self._point_db = database.point_db
        self._write_db = database.write_db
        self._group = database.group
        self._reserve = database.reserve
        self._damaged = database.damaged

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        # Before the row: the LSN may be behind what was read, never ahead of it.
        number = container.number
        lsn = self._range_states.get((number, range_index), EMPTY_RANGE).lsn
        row = self._cache.get(number, key)
        if row is None:
            row = self._fetch(number, _statements(number).read, key, key.id)
            if row is not None:
                if row.key != key:  # a damaged index leads to another item
                    raise DamagedItem(key.id)
                self._cache.put(number, row)
        return row, lsn

    async def read_number(self, container: Container, number: int) -> Row | None:
        sql = _statements(container.number).read_number
        return self._fetch(container.number, sql, (number,), f"number {number}")

    def _fetch(self, container: int, sql: str, values: tuple[Any, ...], item_id: str) -> Row | None:
        try:
            columns = self._point_db.execute(sql, values).get
        except DRIVER_ERRORS as exc:
            if is_damaged_content(exc):
                raise DamagedItem(item_id) from exc
            raise as_client_error(exc) from exc
        if columns is None:
            return None
        if is_damaged(columns):
            self._damaged.add(container, columns[0], columns[2])
            raise DamagedItem(columns[2])
        return Row._make(columns[:11])

    async def lsns(self, container: Container) -> tuple[int, ...]:
        number, range_states = container.number, self._range_states
        if len(container.ranges) == 1:
            return (range_states.get((number, 0), EMPTY_RANGE).lsn,)
        return tuple(
            [range_states.get((number, each.index), EMPTY_RANGE).lsn for each in container.ranges]
        )

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff | None = None,
    ) -> Cleared:
        return await self._clearing.clear(
            container, range_index, pk, cutoff, previous_cutoff or cutoff
        )

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        number = container.number
        if cutoff.expires_nothing and number not in self._state.tombstones:
            state = self._range_states.get((number, range_index), EMPTY_RANGE)
            return StorageUsage(state.items, state.size, 0, 0, *state[3:])
        return await self._database.readers.in_thread(
            lambda db: expiry_sql.usage(db, number, range_index, cutoff)
        )

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        return await self._database.readers.in_thread(
            lambda db: expiry_sql.count_partitions(db, container.number, range_index, cutoff)
        )

    # Writes

    async def write(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
        *,
        is_heavy: bool = False,
    ) -> T:
        return await self._database.writer.submit(
            lambda: self._decide(container, range_index, keys, decide),
            needs=(container.number, keys),
            is_heavy=is_heavy,
        )

    def _decide(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
    ) -> T:
        number, group = container.number, self._group
        range_state = self._state.range_state((number, range_index))
        lsn = range_state.lsn + 1
        rows = {key: group.row(number, key) for key in keys}
        owners: dict[bytes, Row | None] = {}
        sizes: dict[PartitionAtCutoff, int] = {}
        has_unique = bool(container.unique_keys)
        decision = decide(View(rows, owners, sizes, lsn, range_state.size))
        while (has_unique or decision.needs_sizes) and self._look_up(
            number, decision, owners, sizes
        ):
            decision = decide(View(rows, owners, sizes, lsn, range_state.size))
        if decision.changes:
            if self._reserve.refuses_growth and any(
                isinstance(each, Put) for each in decision.changes
            ):
                self._reserve.refuse_growth()
            self._apply(container, range_index, decision, range_state)
        return decision.result

    def _look_up(
        self,
        number: int,
        decision: Decision[Any],
        owners: dict[bytes, Row | None],
        sizes: dict[PartitionAtCutoff, int],
    ) -> bool:
        """Adds what the decision needs to know; False if it knew everything."""
        sql = _statements(number)
        entries = [entry for entry in decision.entries() if entry not in owners]
        for entry in entries:
            columns = self._write_db.execute(sql.unique_key_owner, (entry,)).get
            owners[entry] = None if columns is None else Row._make(columns)
        partitions = [each for each in decision.needs_sizes if each not in sizes]
        for partition in partitions:
            self._group.flush()
            values = {"pk": partition.pk} | partition.cutoff._asdict()
            sizes[partition] = int(self._write_db.execute(sql.partition_size, values).get)
        return bool(entries or partitions)

    def _apply(
        self,
        container: Container,
        range_index: int,
        decision: Decision[Any],
        range_state: RangeState,
    ) -> None:
        number, changes, logs = container.number, decision.changes, self._database.logs
        has_unique = bool(container.unique_keys)
        hidden = self._state.tombstones.get(number)
        is_logged = number in logs.logged_containers
        if is_logged or hidden or has_unique or any(map(_changes_id, changes)):
            self._group.flush()
            lsn = range_state.lsn + 1
            with self._database.savepoint():
                if hidden:
                    range_state = self._remove_hidden_duplicates(hidden, changes, range_state)
                ts = decision.second(self._database.now) if is_logged else 0
                for change in changes:
                    if is_logged:
                        logs.record(number, range_index, lsn, ts, change)
                    self._write(number, change, has_unique)
            self._group.record_all(number, changes)
        else:
            self._group.defer(number, changes)
        # Only now: a change that failed above has no effect.
        self._state.add_changed(number, [change.row.number for change in changes])
        self._state.set_range_state((number, range_index), range_state.after_write(changes))

    def _remove_hidden_duplicates(
        self,
        hidden: dict[bytes, list[tombstones.Tombstone]],
        changes: Sequence[Put | Remove],
        range_state: RangeState,
    ) -> RangeState:
        """Removes hidden items that have the id or the unique keys of new ones."""
        db = self._write_db
        for change in changes:
            if not isinstance(change, Put):
                continue
            for tombstone in hidden.get(change.row.pk, ()):
                tombstones.free_entries(db, tombstone.container, change.unique)
                items = tombstones.hidden_item(db, tombstone, change.row.id)
                range_state = tombstones.remove(
                    db, tombstone.container, items, range_state, steps=0
                )
        return range_state

    def _write(self, number: int, change: Put | Remove, has_unique: bool) -> None:
        if has_unique:
            sql, item = _statements(number), change.row.number
            if isinstance(change, Remove) or change.replaces is not None:
                self._write_db.execute(sql.release, (item,))
            if isinstance(change, Put):
                for entry in change.unique:
                    self._write_db.execute(sql.reserve, (entry, item))
        self._group.write(number, change)


def _changes_id(change: Put | Remove) -> bool:
    return (
        isinstance(change, Put)
        and change.replaces is not None
        and change.replaces.id != change.row.id
    )
