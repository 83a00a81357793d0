"""The embedded store: one SQLite file, one writer thread, readers beside it.

Point reads run on the calling thread, where they cost microseconds; scans run on a small pool.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from perseid import conditions
from perseid.clock import ClockSetting, SystemClock
from perseid.errors import ServiceUnavailable
from perseid.model import Container, ItemKey, Row, StorageUsage
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.sql.purge_allowance import within_allowance
from perseid.store.sql.range_state import EMPTY_RANGE, RangeState
from perseid.store.sqlite import expiry, metadata, schema, tombstones
from perseid.store.sqlite.change_log import (
    ChangeLogs,
    has_changes_to_trim,
    read_latest,
    read_versions,
)
from perseid.store.sqlite.group import DRIVER_ERRORS, Group
from perseid.store.sqlite.indexes import PropertyIndexes
from perseid.store.sqlite.queries import SqliteQueries
from perseid.store.sqlite.readers import Readers
from perseid.store.sqlite.row_cache import RowCache
from perseid.store.sqlite.scans import COLUMNS
from perseid.store.sqlite.tombstones import Tombstone
from perseid.store.sqlite.writer import GroupCommitWriter, as_client_error, client_errors
from perseid.store.types import (
    AccessPath,
    AuditEntry,
    ChangePage,
    ChangeSearch,
    Cleared,
    Decision,
    ExpiryCount,
    LatestPage,
    OnGroups,
    PartitionAtCutoff,
    PurgedItem,
    PurgeRequest,
    PurgeResult,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Resource,
    Search,
    SearchPage,
    StoreError,
    View,
)
from perseid.ttl import (
    LIVE_SQL,
    Cutoff,
    ExpirySpan,
)

T = TypeVar("T")

_CACHED_BYTES: Final = 32 * 1024 * 1024
_BUSY: Final = 10_000  # milliseconds to wait for a lock
# The write-ahead log begins anew by itself whenever nobody reads from it. Under queries that never
# cease it would grow for ever: from so many bytes on, writes wait a moment until it can.
_LARGE_LOG: Final = 128 * 1024 * 1024
_CHECKPOINT_WAIT: Final = 1000  # milliseconds, for each time that it has this size
_IDENTITY_CHECK_INTERVAL: Final = (
    0.1  # seconds between two looks whether the file is still in its place
)
_DISPLACED: Final = "was moved, removed or replaced while the server had it open"
_SYNCHRONOUS: Final = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


class _Statements(NamedTuple):
    """The SQL of one container's tables."""

    read: str
    read_number: str
    unique_key_owner: str
    reserve: str
    release: str


@lru_cache(maxsize=4096)
def _statements(number: int) -> _Statements:
    # What is read is read from the view, so that nobody sees partitions that were cleared.
    unique, visible = f"unique_{number}", f"standing_{number}"
    return _Statements(
        read=f"SELECT {COLUMNS} FROM {visible} WHERE pk = ? AND id = ?",
        read_number=f"SELECT {COLUMNS} FROM {visible} WHERE number = ?",
        unique_key_owner=f"SELECT {COLUMNS} FROM {visible}"
        f" WHERE number = (SELECT number FROM {unique} WHERE entry = ?)",
        reserve=f"INSERT INTO {unique} VALUES (?, ?)",
        release=f"DELETE FROM {unique} WHERE number = ?",
    )


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    """The block's errors for the person who starts the server."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, ValueError) as exc:
        raise StoreError(f"{path} is not a usable database file: {exc}") from exc
    except apsw.Error as exc:
        raise StoreError(f"cannot open {path}: {exc}") from exc


class SqliteStore:
    """See `store.protocol.Store`."""

    catalog_generation = (
        0  # nobody else writes to the file, so one reading of the metadata is enough
    )

    def __init__(
        self,
        path: Path,
        *,
        durability: str = "full",
        now: Callable[[], float] | None = None,
    ) -> None:
        with _opening(path):
            self._set_up(path, durability, now)

    def _set_up(self, path: Path, durability: str, now: Callable[[], float] | None) -> None:
        self._path = path.absolute()  # whoever embeds a server may change the working directory
        self._synchronous = _SYNCHRONOUS[durability]
        self._write_db = self._open_file(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        schema.check(self._write_db)
        # Takes effect before the first table only: it lets the file shrink later.
        self._write_db.pragma("auto_vacuum", "INCREMENTAL")
        self._write_db.pragma("journal_mode", "WAL")
        schema.migrate(self._write_db)
        self._identity = _identity(self._path)
        self._identity_checked_at = time.monotonic()
        self._point_db = self._connect()
        # By (container, range): what is durable, and what the open transaction makes of it.
        self._range_states: dict[tuple[int, int], RangeState] = {
            (container, part): RangeState(*range_state)
            for container, part, *range_state in self._write_db.execute(
                "SELECT container, range, lsn, items, bytes, purged_items, purged_bytes, spared"
                " FROM positions"
            )
        }
        self._open: dict[tuple[int, int], RangeState] = {}
        self._dropped: set[int] = set()  # containers that the open transaction drops
        self._changed: list[tuple[int, int]] = []  # (container, item number), while open
        self._now = now or SystemClock().now
        self._logs = ChangeLogs(self._write_db, self._now)
        self._open_logs: frozenset[int] | None = None  # if they change
        # By container and partition key, the oldest first: those that are durable; then those of
        # this transaction.
        self._tombstones: dict[int, dict[bytes, list[Tombstone]]] = {}
        for tombstone in tombstones.read_all(self._write_db):
            self._apply_tombstone(tombstone, is_new=True)
        self._open_tombstones: list[tuple[Tombstone, bool]] = []  # whether it is dug or closed
        # Partitions not to be touched until they are weighed, by those who wait for that.
        self._being_counted: Counter[tuple[int, bytes]] = Counter()
        self._cache = RowCache(_CACHED_BYTES)
        self._log_file = path.with_name(f"{path.name}-wal")
        self._log_limit = _LARGE_LOG
        self._group = Group(self._write_db)
        self._writer = GroupCommitWriter(
            self._write_db,
            self._group,
            begin=self._before_group,
            before_commit=self._store_range_states,
            committed=self._committed,
            rolled_back=self._rolled_back,
        )
        self._readers = Readers(self._connect, self._writer, self._range_states)
        self._indexes = PropertyIndexes(self._write_db, self._writer, self._range_states)
        self._queries = SqliteQueries(
            self._readers, self._indexes, self._range_states, self._tombstones, self._cache
        )

    def _connect(self) -> apsw.Connection:
        """To the file that this store has opened, and no other."""
        db = self._open_file(apsw.SQLITE_OPEN_READWRITE)
        if _identity(self._path) != self._identity:
            db.close()
            raise ServiceUnavailable(f"The database file {_DISPLACED}.")
        return db

    def _open_file(self, flags: int) -> apsw.Connection:
        db = apsw.Connection(str(self._path), flags, statementcachesize=256)
        db.set_busy_timeout(_BUSY)
        # Without this a statement is planned anew for each value bound to a limit or compared with
        # an indexed expression, which takes several times as long as running it.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("synchronous", self._synchronous)
        db.pragma("temp_store", "MEMORY")
        db.pragma("cache_size", -16_384)
        return db

    async def close(self) -> None:
        await self._writer.close()
        self._readers.close()
        self._point_db.close()
        # Last, so that SQLite folds the log into the file and the file alone is the database.
        self._write_db.close()
        if _identity(self._path) != self._identity:
            raise StoreError(
                f"{self._path} {_DISPLACED}; what was stored is where it was moved to, or gone"
            )

    # Metadata

    async def check_catalog_version(self) -> None:
        """Always so: this process alone has the file."""

    async def publish_clock(self, setting: ClockSetting) -> None:
        """There is nobody to share it with."""

    async def get_meta(self, name: str) -> str | None:
        with client_errors():
            return metadata.get(self._point_db, name)

    async def put_meta(self, name: str, value: str) -> None:
        await self._writer.submit(lambda: metadata.put(self._write_db, name, value))

    async def put_meta_if_absent(self, name: str, value: str) -> str:
        return await self._writer.submit(
            lambda: metadata.put_if_absent(self._write_db, name, value)
        )

    async def next_number(self, series: str) -> int:
        return await self._writer.submit(lambda: metadata.next_number(self._write_db, series))

    async def resources(self) -> list[Resource]:
        with client_errors():
            return metadata.resources(self._point_db)

    async def audit_entries(
        self, container: str | None, after: int, limit: int
    ) -> list[tuple[int, AuditEntry]]:
        with client_errors():
            return metadata.audit_entries(self._point_db, container, after, limit)

    async def change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        def apply() -> None:
            for change in changes:
                metadata.apply(self._write_db, change)
                if isinstance(change, PutResource) and change.resource.kind == "container":
                    state = change.resource.state
                    self._logs.set_logging(state["number"], state.get("keeps_versions", False))
            # Only now: a change that failed above has left no trace.
            for change in changes:
                if isinstance(change, PutResource) and change.resource.kind == "container":
                    self._load_range_states(change)
                elif isinstance(change, RemoveResource) and change.resource.kind == "container":
                    self._drop_range_states(change.resource.state["number"])
            self._open_logs = self._logs.read()

        await self._writer.submit(apply, is_heavy=True)

    def _load_range_states(self, change: PutResource) -> None:
        if change.replaces is None:
            number = change.resource.state["number"]
            for part, *range_state in self._write_db.execute(
                "SELECT range, lsn, items, bytes, purged_items, purged_bytes, spared"
                " FROM positions WHERE container = ?",
                (number,),
            ):
                self._open[number, part] = RangeState(*range_state)

    def _drop_range_states(self, number: int) -> None:
        for range_key in [range_key for range_key in self._open if range_key[0] == number]:
            del self._open[range_key]
        self._dropped.add(number)
        self._indexes.drop_container(number)
        self._open_tombstones += [
            (tombstone, False)
            for tombstones_of_key in self._tombstones.get(number, {}).values()
            for tombstone in tombstones_of_key
        ]

    # Items

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        # Before the row: a reported LSN may lag behind what was read, never run ahead of it.
        number = container.number
        lsn = self._range_states.get((number, range_index), EMPTY_RANGE).lsn
        row = self._cache.get(number, key)
        if row is None:
            row = self._fetch(_statements(number).read, key)
            if row is not None:
                self._cache.put(number, row)
        return row, lsn

    async def read_number(self, container: Container, number: int) -> Row | None:
        return self._fetch(_statements(container.number).read_number, (number,))

    def _fetch(self, sql: str, values: tuple[Any, ...]) -> Row | None:
        try:
            columns = self._point_db.execute(sql, values).get
        except DRIVER_ERRORS as exc:
            raise as_client_error(exc) from exc
        return None if columns is None else Row._make(columns)

    async def lsns(self, container: Container) -> tuple[int, ...]:
        number, range_states = container.number, self._range_states
        if len(container.ranges) == 1:
            return (range_states.get((number, 0), EMPTY_RANGE).lsn,)
        return tuple(
            [range_states.get((number, part.index), EMPTY_RANGE).lsn for part in container.ranges]
        )

    async def write(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
        *,
        is_heavy: bool = False,
    ) -> T:
        return await self._writer.submit(
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
        range_key = (number, range_index)
        range_state = self._open.get(range_key) or self._range_states.get(range_key, EMPTY_RANGE)
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
        changes = decision.changes
        if changes:
            hidden = self._tombstones.get(number)
            is_logged = number in self._logs.logged_containers
            if is_logged or hidden or has_unique or any(map(_changes_id, changes)):
                group.flush()
                with self._savepoint():
                    if hidden:
                        range_state = self._remove_hidden_duplicates(hidden, changes, range_state)
                    ts = decision.second(self._now) if is_logged else 0
                    for change in changes:
                        if is_logged:
                            self._logs.record(number, range_index, lsn, ts, change)
                        self._apply(number, change, has_unique)
                group.record_all(number, changes)
            else:
                group.defer(number, changes)
            # Only now: a change that failed above has left no trace.
            self._changed += [(number, each.row.number) for each in changes]
            self._open[range_key] = range_state.after_write(changes)
        return decision.result

    def _look_up(
        self,
        number: int,
        decision: Decision[Any],
        owners: dict[bytes, Row | None],
        sizes: dict[PartitionAtCutoff, int],
    ) -> bool:
        """Adds what the decision needs to know; False if it knew everything."""
        entries = [entry for entry in decision.entries() if entry not in owners]
        for entry in entries:
            columns = self._write_db.execute(_statements(number).unique_key_owner, (entry,)).get
            owners[entry] = None if columns is None else Row._make(columns)
        partitions = [each for each in decision.needs_sizes if each not in sizes]
        for partition in partitions:
            sizes[partition] = self._partition_size(number, partition)
        return bool(entries or partitions)

    def _partition_size(self, number: int, partition: PartitionAtCutoff) -> int:
        self._group.flush()
        sql = f"SELECT COALESCE(SUM(size), 0) FROM standing_{number}"
        values = {"pk": partition.pk} | partition.cutoff._asdict()
        return int(self._write_db.execute(f"{sql} WHERE pk = :pk AND {LIVE_SQL}", values).get)

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        """All of the block's statements or none; errors as they are, so a full disk is told."""
        db = self._write_db
        db.execute("SAVEPOINT changes")
        try:
            yield
        except BaseException:
            if db.in_transaction:  # else the engine has undone everything already
                db.execute("ROLLBACK TO changes; RELEASE changes")
            raise
        db.execute("RELEASE changes")

    def _remove_hidden_duplicates(
        self,
        hidden: dict[bytes, list[Tombstone]],
        changes: Sequence[Put | Remove],
        range_state: RangeState,
    ) -> RangeState:
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

    def _apply(self, number: int, change: Put | Remove, has_unique: bool) -> None:
        if has_unique:
            sql, item = _statements(number), change.row.number
            if isinstance(change, Remove) or change.replaces is not None:
                self._write_db.execute(sql.release, (item,))
            if isinstance(change, Put):
                for entry in change.unique:
                    self._write_db.execute(sql.reserve, (entry, item))
        self._group.write(number, change)

    def _before_group(self) -> None:
        self._readers.end_snapshot()
        self._check_file_identity()

    def _check_file_identity(self) -> None:
        """503 if what would be written went into a file that nobody finds at the next start."""
        now = time.monotonic()
        if now - self._identity_checked_at < _IDENTITY_CHECK_INTERVAL:
            return
        if _identity(self._path) != self._identity:
            raise ServiceUnavailable(f"The database file {_DISPLACED}; nothing was written.")
        self._identity_checked_at = now

    def _store_range_states(self) -> None:
        for range_key, range_state in self._open.items():
            self._write_db.execute(
                "REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*range_key, *range_state)
            )

    def _committed(self) -> None:
        self._range_states.update(self._open)
        if self._dropped:
            for range_key in [
                range_key for range_key in self._range_states if range_key[0] in self._dropped
            ]:
                del self._range_states[range_key]
        for tombstone, is_new in self._open_tombstones:
            self._apply_tombstone(tombstone, is_new=is_new)
            if is_new:
                self._cache.drop_partition(tombstone.container, tombstone.pk)
        if not self._cache.is_empty:
            for number, item in self._changed:
                self._cache.drop(number, item)
        if self._open_logs is not None:
            self._logs.logged_containers = self._open_logs
        self._rolled_back()

    def _apply_tombstone(self, tombstone: Tombstone, *, is_new: bool) -> None:
        hidden = self._tombstones.setdefault(tombstone.container, {})
        tombstones_of_key = hidden.setdefault(tombstone.pk, [])
        if is_new:
            tombstones_of_key.append(tombstone)
            return
        tombstones_of_key.remove(tombstone)
        if not tombstones_of_key:
            del hidden[tombstone.pk]
        if not hidden:
            del self._tombstones[tombstone.container]

    def _rolled_back(self) -> None:
        """Looks at nothing but memory: what made it necessary may be that the file is no help."""
        self._open.clear()
        self._dropped.clear()
        self._open_tombstones.clear()
        self._changed.clear()
        self._open_logs = None
        self._group.clear()

    async def search(self, container: Container, search: Search) -> SearchPage:
        return await self._queries.search(container, search)

    def try_search(self, container: Container, search: Search) -> SearchPage | None:
        return self._queries.try_search(container, search)

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[conditions.PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        await self._queries.count_groups(container, search, paths, on_groups)

    async def access_path(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[conditions.PropertyPath] | None = None,
    ) -> AccessPath:
        return await self._queries.access_path(container, search, group_paths)

    async def drop_disallowed_indexes(self, container: Container) -> None:
        await self._queries.drop_disallowed_indexes(container)

    async def latest(self, container: Container, search: ChangeSearch) -> LatestPage:
        return await self._readers.in_thread(lambda db: read_latest(db, container.number, search))

    async def versions(
        self, container: Container, search: ChangeSearch, trimmed_until: int
    ) -> ChangePage:
        return await self._readers.in_thread(
            lambda db: read_versions(db, container.number, search, trimmed_until)
        )

    async def trim_change_log(self, container: Container, trimmed_until: int, limit: int) -> int:
        with client_errors():
            if not has_changes_to_trim(self._point_db, container.number, trimmed_until):
                return 0  # as nearly always; no need to trouble the writer
        return await self._writer.submit(
            lambda: self._logs.trim_change_log(container.number, trimmed_until, limit),
            is_heavy=True,
        )

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        if cutoff.expires_nothing and container.number not in self._tombstones:
            range_state = self._range_states.get((container.number, range_index), EMPTY_RANGE)
            return StorageUsage(range_state.items, range_state.size, 0, 0, *range_state[3:])
        return await self._readers.in_thread(
            lambda db: expiry.usage(db, container.number, range_index, cutoff)
        )

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        return await self._readers.in_thread(
            lambda db: expiry.count_partitions(db, container.number, range_index, cutoff)
        )

    # Whole partitions

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff | None = None,
    ) -> Cleared:
        number = container.number
        range_key = (number, range_index)
        # Until it is known what was in there: nothing is removed before that.
        self._being_counted[number, pk] += 1

        def work() -> Cleared | Tombstone:
            db, range_state = self._write_db, self._range_states.get(range_key, EMPTY_RANGE)
            earlier = self._tombstones.get(number, {}).get(pk)
            after = earlier[-1].lsn if earlier else 0
            tombstone = Tombstone(
                number, pk, range_index, after, range_state.lsn, cutoff, previous_cutoff or cutoff
            )
            items = tombstones.hidden_items(db, tombstone, tombstones.MAX_IMMEDIATE_REMOVALS + 1)
            if not items:
                return Cleared.of(range_state.lsn, ())
            steps = (
                self._log_hidden_items(tombstone) if number in self._logs.logged_containers else 1
            )
            if len(items) > tombstones.MAX_IMMEDIATE_REMOVALS:
                tombstone = tombstone._replace(lsn=range_state.lsn + steps)
                tombstones.create(db, tombstone)
                self._open[range_key] = range_state._replace(lsn=tombstone.lsn)
                self._open_tombstones.append((tombstone, True))
                return tombstone
            self._open[range_key] = tombstones.remove(db, number, items, range_state, steps=steps)
            self._changed += [(number, item.number) for item in items]
            groups = [(item.is_live, item.size, 1, item.terms) for item in items]
            return Cleared.of(self._open[range_key].lsn, groups)

        try:
            done = await self._writer.submit(work, is_heavy=True)
            if isinstance(done, Cleared):
                return done
            groups = await self._readers.in_thread(lambda db: tombstones.groups(db, done))
            return Cleared.of(done.lsn, groups)
        finally:
            self._being_counted[number, pk] -= 1
            if not self._being_counted[number, pk]:
                del self._being_counted[number, pk]

    def _log_hidden_items(self, tombstone: Tombstone) -> int:
        """Logs that the items of a grave are gone, as transactions behind its LSN: how many it
        takes for each to fit on a page."""
        ts = int(self._now())
        steps, last = 0, -1
        while items := tombstones.hidden_items(
            self._write_db, tombstone, MAX_LOGGED_REMOVALS, after_number=last
        ):
            steps += 1
            self._logs.clear(*tombstone.range_key, tombstone.lsn + steps, ts, items)
            last = items[-1].number
        return steps

    async def purge_cleared(self, limit: int) -> bool:
        waiting = (
            tombstone
            for hidden in self._tombstones.values()
            for tombstones_of_key in hidden.values()
            for tombstone in tombstones_of_key
            if (tombstone.container, tombstone.pk) not in self._being_counted
        )
        tombstone = next(waiting, None)
        if tombstone is None:
            return False

        def work() -> None:
            if tombstone not in self._tombstones.get(tombstone.container, {}).get(tombstone.pk, ()):
                return  # the container was dropped
            items = tombstones.hidden_items(self._write_db, tombstone, limit)
            range_state = self._range_states.get(tombstone.range_key, EMPTY_RANGE)
            # Nobody sees this, so it has no LSN.
            self._open[tombstone.range_key] = tombstones.remove(
                self._write_db, tombstone.container, items, range_state, steps=0
            )
            if len(items) < limit:
                tombstones.remove_tombstone(self._write_db, tombstone)
                self._open_tombstones.append((tombstone, False))

        await self._writer.submit(work, is_heavy=True)
        return True

    # Lifetimes

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        def work() -> PurgeResult:
            container, range_index = request.container, request.range_index
            is_logged = container.number in self._logs.logged_containers
            limit = min(request.max_items, MAX_LOGGED_REMOVALS) if is_logged else request.max_items
            candidates = expiry.purge_candidates(self._write_db, request, limit)
            result = within_allowance(candidates, request.allowance)
            if result.items:
                self._purge_items(container, range_index, result.items, request.previous_cutoff)
            return result

        return await self._writer.submit(work, is_heavy=True)

    def _purge_items(
        self,
        container: Container,
        range_index: int,
        purged_items: Sequence[PurgedItem],
        previous_cutoff: Cutoff | None,
    ) -> None:
        number = container.number
        range_key = (number, range_index)
        range_state = self._open.get(range_key) or self._range_states.get(range_key, EMPTY_RANGE)
        if number in self._logs.logged_containers:
            self._logs.log_purge(number, range_index, range_state.lsn + 1, purged_items)
        numbers = [purged_item.number for purged_item in purged_items]
        has_unique = bool(container.unique_keys)
        schema.remove_items(self._write_db, number, numbers, has_unique_keys=has_unique)
        self._open[range_key] = range_state.after_purge(purged_items, previous_cutoff)
        self._changed += [(number, each) for each in numbers]

    async def free_disk_space(self, pages: int) -> int:
        def free_pages() -> int:
            for _ in self._write_db.execute(f"PRAGMA incremental_vacuum({pages:d})"):
                pass
            left: int = self._write_db.pragma("freelist_count")
            return left

        await self._checkpoint()
        with client_errors():
            if self._point_db.pragma("freelist_count") == 0:
                return 0
        return await self._writer.submit(free_pages, is_heavy=True)

    async def _checkpoint(self) -> None:
        """Moves what the write-ahead log has into the file, if it has become large."""
        size = self._log_file.stat().st_size if self._log_file.exists() else 0
        if size < self._log_limit:
            return

        def checkpoint() -> bool:
            db = self._write_db
            db.set_busy_timeout(min(_BUSY, size // _LARGE_LOG * _CHECKPOINT_WAIT))
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False  # somebody has been reading all the time
            finally:
                db.set_busy_timeout(_BUSY)
            return True

        is_checkpointed = await self._writer.submit(checkpoint, is_outside_transaction=True)
        self._log_limit = _LARGE_LOG if is_checkpointed else size + _LARGE_LOG

    async def expiry_count(
        self, container: Container, range_index: int, span: ExpirySpan
    ) -> ExpiryCount:
        return await self._readers.in_thread(
            lambda db: expiry.expiry_count(db, container.number, range_index, span)
        )

    async def histogram(
        self, container: Container, range_index: int, span: ExpirySpan, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        return await self._readers.in_thread(
            lambda db: expiry.histogram(db, container.number, range_index, span, origin, width)
        )

    async def sample(
        self, container: Container, range_index: int, span: ExpirySpan, limit: int
    ) -> list[Row]:
        return await self._readers.in_thread(
            lambda db: expiry.sample(db, container.number, range_index, span, limit)
        )

    async def invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
        return await self._readers.in_thread(
            lambda db: expiry.invalid_ttls(db, container.number, cutoff)
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None if to none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _changes_id(change: Put | Remove) -> bool:
    return (
        isinstance(change, Put)
        and change.replaces is not None
        and change.replaces.id != change.row.id
    )
