"""The embedded store: one SQLite file, one writer thread, readers beside it.

Point reads run on the calling thread, where they cost microseconds; scans run on a small pool.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from perseid import conditions
from perseid.clock import ClockSetting, SystemClock
from perseid.conditions import Order, Place
from perseid.errors import ServiceUnavailable
from perseid.model import Container, ItemKey, Row, Usage
from perseid.store import graves, lifetimes, metadata, schema
from perseid.store.changes import ChangeLogs, has_lost, read_latest, read_versions
from perseid.store.filling import LARGEST_BURIAL
from perseid.store.graves import Grave
from perseid.store.group import DRIVER_ERRORS, Group
from perseid.store.position import START, Position
from perseid.store.property_indexes import IndexGone
from perseid.store.protocol import (
    NO_AGES,
    Access,
    Ages,
    ChangePage,
    ChangeScan,
    Cleared,
    Corpse,
    Decision,
    LatestPage,
    Note,
    Page,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Resource,
    Scan,
    Span,
    StoreError,
    Tally,
    View,
    Walk,
)
from perseid.store.row_cache import RowCache
from perseid.store.scanning import COLUMNS
from perseid.store.sqlite_queries import SqliteQueries
from perseid.store.writer import Writer, as_client_error, client_errors
from perseid.ttl import LIVE_SQL, Horizon

T = TypeVar("T")

_CACHED_BYTES: Final = 32 * 1024 * 1024
_BUSY: Final = 10_000  # milliseconds to wait for a lock
# The write-ahead log begins anew by itself whenever nobody reads from it. Under queries that never
# cease it would grow for ever: from so many bytes on, writes wait a moment until it can.
_LARGE_LOG: Final = 128 * 1024 * 1024
_LOG_PATIENCE: Final = 1000  # milliseconds, for each time that it has this size
_GLANCE: Final = 0.1  # seconds between two looks whether the file is still in its place
_DISPLACED: Final = "was moved, removed or replaced while the server had it open"
_NO_PATHS: Final[frozenset[conditions.Path]] = frozenset()
_SYNCHRONOUS: Final = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


class _Statements(NamedTuple):
    """The SQL of one container's tables."""

    read: str
    read_number: str
    holder: str
    claim: str
    unclaim: str


@lru_cache(maxsize=4096)
def _statements(number: int) -> _Statements:
    # What is read is read from the view, so that nobody sees partitions that were cleared.
    unique, standing = f"unique_{number}", f"standing_{number}"
    return _Statements(
        read=f"SELECT {COLUMNS} FROM {standing} WHERE pk = ? AND id = ?",
        read_number=f"SELECT {COLUMNS} FROM {standing} WHERE number = ?",
        holder=f"SELECT {COLUMNS} FROM {standing}"
        f" WHERE number = (SELECT number FROM {unique} WHERE entry = ?)",
        claim=f"INSERT INTO {unique} VALUES (?, ?)",
        unclaim=f"DELETE FROM {unique} WHERE number = ?",
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

    epoch = 0  # nobody else writes to the file, so one reading of the metadata is enough

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
        self._looked = time.monotonic()
        self._point_db = self._connect()
        # By (container, range): what is durable, and what the open transaction makes of it.
        self._positions: dict[tuple[int, int], Position] = {
            (container, part): Position(*position)
            for container, part, *position in self._write_db.execute(
                "SELECT container, range, lsn, items, bytes, purged_items, purged_bytes, spared"
                " FROM positions"
            )
        }
        self._open: dict[tuple[int, int], Position] = {}
        self._ended: set[int] = set()  # containers that the open transaction drops
        self._changed: list[tuple[int, int]] = []  # (container, item number), while open
        self._now = now or SystemClock().now
        self._logs = ChangeLogs(self._write_db, self._now)
        self._open_logs: frozenset[int] | None = None  # if they change
        # By container and partition key, the oldest first: those that are durable; then those of
        # this transaction.
        self._graves: dict[int, dict[bytes, list[Grave]]] = {}
        for grave in graves.read_all(self._write_db):
            self._note_grave(grave, is_dug=True)
        self._open_graves: list[tuple[Grave, bool]] = []  # whether it is dug or closed
        # Partitions not to be touched until they are weighed, by those who wait for that.
        self._weighing: Counter[tuple[int, bytes]] = Counter()
        self._cache = RowCache(_CACHED_BYTES)
        self._log_file = path.with_name(f"{path.name}-wal")
        self._log_limit = _LARGE_LOG
        self._group = Group(self._write_db)
        self._writer = Writer(
            self._write_db,
            self._group,
            begin=self._let_go,
            before_commit=self._store_positions,
            committed=self._committed,
            undone=self._undone,
        )
        self._queries = SqliteQueries(
            self._connect,
            self._writer,
            self._write_db,
            self._positions,
            self._graves,
            self._cache,
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
        self._queries.close()
        self._point_db.close()
        # Last, so that SQLite folds the log into the file and the file alone is the database.
        self._write_db.close()
        if _identity(self._path) != self._identity:
            raise StoreError(
                f"{self._path} {_DISPLACED}; what was stored is where it was moved to, or gone"
            )

    # Metadata

    async def confirm(self) -> None:
        """Always so: this process alone has the file."""

    async def share_clock(self, setting: ClockSetting) -> None:
        """There is nobody to share it with."""

    async def get_meta(self, name: str) -> str | None:
        with client_errors():
            return metadata.get(self._point_db, name)

    async def put_meta(self, name: str, value: str) -> None:
        await self._writer.submit(lambda: metadata.put(self._write_db, name, value))

    async def keep_meta(self, name: str, value: str) -> str:
        return await self._writer.submit(lambda: metadata.keep(self._write_db, name, value))

    async def next_number(self, series: str) -> int:
        return await self._writer.submit(lambda: metadata.next_number(self._write_db, series))

    async def resources(self) -> list[Resource]:
        with client_errors():
            return metadata.resources(self._point_db)

    async def notes(self, container: str | None, after: int, limit: int) -> list[tuple[int, Note]]:
        with client_errors():
            return metadata.notes(self._point_db, container, after, limit)

    async def change(self, changes: Sequence[PutResource | RemoveResource | Note]) -> None:
        def apply() -> None:
            for change in changes:
                metadata.apply(self._write_db, change)
                if isinstance(change, PutResource) and change.resource.kind == "container":
                    state = change.resource.state
                    self._logs.follow(state["number"], state.get("keeps_versions", False))
            # Only now: a change that failed above has left no trace.
            for change in changes:
                if isinstance(change, PutResource) and change.resource.kind == "container":
                    self._start_positions(change)
                elif isinstance(change, RemoveResource) and change.resource.kind == "container":
                    self._end_positions(change.resource.state["number"])
            self._open_logs = self._logs.read()

        await self._writer.submit(apply, is_heavy=True)

    def _start_positions(self, change: PutResource) -> None:
        if change.replaces is None:
            number = change.resource.state["number"]
            for part, *position in self._write_db.execute(
                "SELECT range, lsn, items, bytes, purged_items, purged_bytes, spared"
                " FROM positions WHERE container = ?",
                (number,),
            ):
                self._open[number, part] = Position(*position)

    def _end_positions(self, number: int) -> None:
        for place in [place for place in self._open if place[0] == number]:
            del self._open[place]
        self._ended.add(number)
        self._queries.forget(number)
        self._open_graves += [
            (grave, False) for dug in self._graves.get(number, {}).values() for grave in dug
        ]

    # Items

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        # Before the row: a reported LSN may lag behind what was read, never run ahead of it.
        number = container.number
        lsn = self._positions.get((number, range_index), START).lsn
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
        number, positions = container.number, self._positions
        if len(container.ranges) == 1:
            return (positions.get((number, 0), START).lsn,)
        return tuple([positions.get((number, part.index), START).lsn for part in container.ranges])

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
            wants=(container.number, keys),
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
        place = (number, range_index)
        position = self._open.get(place) or self._positions.get(place, START)
        lsn = position.lsn + 1
        rows = {key: group.row(number, key) for key in keys}
        holders: dict[bytes, Row | None] = {}

        weigh = partial(self._weigh, number)
        decision = decide(View(rows, holders, lsn, position.size, weigh))
        has_unique = bool(container.unique_keys)
        while has_unique and (
            wanted := [entry for entry in decision.entries() if entry not in holders]
        ):
            for entry in wanted:
                columns = self._write_db.execute(_statements(number).holder, (entry,)).get
                holders[entry] = None if columns is None else Row._make(columns)
            decision = decide(View(rows, holders, lsn, position.size, weigh))
        changes = decision.changes
        if changes:
            hidden = self._graves.get(number)
            is_logged = number in self._logs.kept
            if is_logged or hidden or has_unique or any(map(_renames, changes)):
                group.settle()
                with self._savepoint():
                    if hidden:
                        position = self._make_room(hidden, changes, position)
                    ts = decision.second(self._now) if is_logged else 0
                    for change in changes:
                        if is_logged:
                            self._logs.record(number, range_index, lsn, ts, change)
                        self._apply(number, change, has_unique)
                group.see(number, changes)
            else:
                group.put_off(number, changes)
            # Only now: a change that failed above has left no trace.
            self._changed += [(number, each.row.number) for each in changes]
            self._open[place] = position.moved(changes)
        return decision.result

    def _weigh(self, number: int, pk: bytes, horizon: Horizon) -> int:
        self._group.settle()
        sql = f"SELECT COALESCE(SUM(size), 0) FROM standing_{number}"
        values = {"pk": pk, "inherited": horizon.inherited, "own": horizon.own}
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

    def _make_room(
        self, hidden: dict[bytes, list[Grave]], changes: Sequence[Put | Remove], position: Position
    ) -> Position:
        db = self._write_db
        for change in changes:
            if not isinstance(change, Put):
                continue
            for grave in hidden.get(change.row.pk, ()):
                graves.free_entries(db, grave.container, change.unique)
                items = graves.hidden_item(db, grave, change.row.id)
                position = graves.remove(db, grave.container, items, position, steps=0)
        return position

    def _apply(self, number: int, change: Put | Remove, has_unique: bool) -> None:
        if has_unique:
            sql, item = _statements(number), change.row.number
            if isinstance(change, Remove) or change.replaces is not None:
                self._write_db.execute(sql.unclaim, (item,))
            if isinstance(change, Put):
                for entry in change.unique:
                    self._write_db.execute(sql.claim, (entry, item))
        self._group.write(number, change)

    def _let_go(self) -> None:
        self._queries.let_go()
        self._check_place()

    def _check_place(self) -> None:
        """503 if what would be written went into a file that nobody finds at the next start."""
        now = time.monotonic()
        if now - self._looked < _GLANCE:
            return
        if _identity(self._path) != self._identity:
            raise ServiceUnavailable(f"The database file {_DISPLACED}; nothing was written.")
        self._looked = now

    def _store_positions(self) -> None:
        for place, position in self._open.items():
            self._write_db.execute(
                "REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, *position)
            )

    def _committed(self) -> None:
        self._positions.update(self._open)
        if self._ended:
            for place in [place for place in self._positions if place[0] in self._ended]:
                del self._positions[place]
        for grave, is_dug in self._open_graves:
            self._note_grave(grave, is_dug=is_dug)
            if is_dug:
                self._cache.drop_partition(grave.container, grave.pk)
        if not self._cache.is_empty:
            for number, item in self._changed:
                self._cache.drop(number, item)
        if self._open_logs is not None:
            self._logs.kept = self._open_logs
        self._undone()

    def _note_grave(self, grave: Grave, *, is_dug: bool) -> None:
        hidden = self._graves.setdefault(grave.container, {})
        dug = hidden.setdefault(grave.pk, [])
        if is_dug:
            dug.append(grave)
            return
        dug.remove(grave)
        if not dug:
            del hidden[grave.pk]
        if not hidden:
            del self._graves[grave.container]

    def _undone(self) -> None:
        """Looks at nothing but memory: what made it necessary may be that the file is no help."""
        self._open.clear()
        self._ended.clear()
        self._open_graves.clear()
        self._changed.clear()
        self._open_logs = None
        self._group.clear()

    async def scan(self, container: Container, scan: Scan) -> Page:
        try:
            return await self._queries.scan(container, scan)
        except IndexGone:
            return await self._queries.scan(container, scan._replace(indexable=_NO_PATHS))

    async def walk(
        self,
        container: Container,
        scan: Scan,
        order: Order,
        start: Place | None,
    ) -> Walk | None:
        try:
            return await self._queries.walk(container, scan, order, start)
        except IndexGone:
            return None

    def at_once(self, container: Container, scan: Scan, order: Order | None) -> Page | None:
        try:
            return self._queries.at_once(container, scan, order)
        except IndexGone:
            return None

    async def combine(
        self,
        container: Container,
        scan: Scan,
        paths: Sequence[conditions.Path],
        take: Callable[[int, dict[str, Any]], None],
    ) -> None:
        try:
            await self._queries.combine(container, scan, paths, take)
        except IndexGone:  # which shows before anything is found
            await self._queries.combine(container, scan._replace(indexable=_NO_PATHS), paths, take)

    async def access(
        self,
        container: Container,
        scan: Scan,
        order: Order | None,
        combined: Sequence[conditions.Path] | None = None,
    ) -> Access:
        try:
            return await self._queries.access(container, scan, order, combined)
        except IndexGone:
            return await self._queries.access(
                container, scan._replace(indexable=_NO_PATHS), order, combined
            )

    async def keep_indexes(
        self, container: Container, keep: Callable[[conditions.Path], bool]
    ) -> None:
        await self._queries.keep_indexes(container, keep)

    async def latest(self, container: Container, scan: ChangeScan) -> LatestPage:
        return await self._queries.in_thread(lambda db: read_latest(db, container.number, scan))

    async def versions(self, container: Container, scan: ChangeScan, lost: int) -> ChangePage:
        return await self._queries.in_thread(
            lambda db: read_versions(db, container.number, scan, lost)
        )

    async def forget(self, container: Container, lost: int, limit: int) -> int:
        with client_errors():
            if not has_lost(self._point_db, container.number, lost):
                return 0  # as nearly always; no need to trouble the writer
        return await self._writer.submit(
            lambda: self._logs.forget(container.number, lost, limit), is_heavy=True
        )

    async def usage(self, container: Container, range_index: int, horizon: Horizon) -> Usage:
        if horizon.is_endless and container.number not in self._graves:
            position = self._positions.get((container.number, range_index), START)
            return Usage(position.items, position.size, 0, 0, *position[3:])
        return await self._queries.in_thread(
            lambda db: lifetimes.usage(db, container.number, range_index, horizon)
        )

    async def count_keys(self, container: Container, range_index: int, horizon: Horizon) -> int:
        return await self._queries.in_thread(
            lambda db: lifetimes.count_keys(db, container.number, range_index, horizon)
        )

    # Whole partitions

    async def clear(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        horizon: Horizon,
        spare: Horizon | None = None,
    ) -> Cleared:
        number = container.number
        place = (number, range_index)
        # Until it is known what was in there: nothing is removed before that.
        self._weighing[number, pk] += 1

        def work() -> Cleared | Grave:
            db, position = self._write_db, self._positions.get(place, START)
            earlier = self._graves.get(number, {}).get(pk)
            after = earlier[-1].lsn if earlier else 0
            grave = Grave(number, pk, range_index, after, position.lsn, horizon, spare or horizon)
            items = graves.items_in(db, grave, graves.AT_ONCE + 1)
            if not items:
                return Cleared.of(position.lsn, ())
            steps = self._log_clearing(grave) if number in self._logs.kept else 1
            if len(items) > graves.AT_ONCE:
                grave = grave._replace(lsn=position.lsn + steps)
                graves.dig(db, grave)
                self._open[place] = position._replace(lsn=grave.lsn)
                self._open_graves.append((grave, True))
                return grave
            self._open[place] = graves.remove(db, number, items, position, steps=steps)
            self._changed += [(number, item.number) for item in items]
            groups = [(item.is_live, item.size, 1, item.terms) for item in items]
            return Cleared.of(self._open[place].lsn, groups)

        try:
            done = await self._writer.submit(work, is_heavy=True)
            if isinstance(done, Cleared):
                return done
            groups = await self._queries.in_thread(lambda db: graves.groups(db, done))
            return Cleared.of(done.lsn, groups)
        finally:
            self._weighing[number, pk] -= 1
            if not self._weighing[number, pk]:
                del self._weighing[number, pk]

    def _log_clearing(self, grave: Grave) -> int:
        """Logs that the items of a grave are gone, as transactions behind its LSN: how many it
        takes for each to fit on a page."""
        ts = int(self._now())
        steps, last = 0, -1
        while items := graves.items_in(self._write_db, grave, LARGEST_BURIAL, behind=last):
            steps += 1
            self._logs.clear(*grave.place, grave.lsn + steps, ts, items)
            last = items[-1].number
        return steps

    async def reap(self, limit: int) -> bool:
        waiting = (
            grave
            for hidden in self._graves.values()
            for dug in hidden.values()
            for grave in dug
            if (grave.container, grave.pk) not in self._weighing
        )
        grave = next(waiting, None)
        if grave is None:
            return False

        def work() -> None:
            if grave not in self._graves.get(grave.container, {}).get(grave.pk, ()):
                return  # the container was dropped
            items = graves.items_in(self._write_db, grave, limit)
            position = self._positions.get(grave.place, START)
            # Nobody sees this, so it has no LSN.
            self._open[grave.place] = graves.remove(
                self._write_db, grave.container, items, position, steps=0
            )
            if len(items) < limit:
                graves.close(self._write_db, grave)
                self._open_graves.append((grave, False))

        await self._writer.submit(work, is_heavy=True)
        return True

    # Lifetimes

    async def purge(
        self,
        container: Container,
        range_index: int,
        horizon: Horizon,
        *,
        limit: int,
        ages: Ages = NO_AGES,
        spare: Horizon | None = None,
        afford: Callable[[Sequence[Corpse]], int] | None = None,
        takes_over: bool = False,  # noqa: ARG002 -- nobody else is at it
    ) -> list[Corpse]:
        def work() -> list[Corpse]:
            is_logged = container.number in self._logs.kept
            most = min(limit, LARGEST_BURIAL) if is_logged else limit
            corpses = lifetimes.corpses(
                self._write_db, container.number, range_index, horizon, most, ages
            )
            del corpses[len(corpses) if afford is None else afford(corpses) :]
            if corpses:
                self._bury(container, range_index, corpses, spare)
            return corpses

        return await self._writer.submit(work, is_heavy=True)

    def _bury(
        self,
        container: Container,
        range_index: int,
        corpses: Sequence[Corpse],
        spare: Horizon | None,
    ) -> None:
        number = container.number
        place = (number, range_index)
        position = self._open.get(place) or self._positions.get(place, START)
        if number in self._logs.kept:
            self._logs.bury(number, range_index, position.lsn + 1, corpses)
        numbers = [corpse.number for corpse in corpses]
        has_unique = bool(container.unique_keys)
        schema.remove_items(self._write_db, number, numbers, has_unique_keys=has_unique)
        self._open[place] = position.purged(corpses, spare)
        self._changed += [(number, each) for each in numbers]

    async def reclaim(self, pages: int) -> int:
        def give_back() -> int:
            for _ in self._write_db.execute(f"PRAGMA incremental_vacuum({pages:d})"):
                pass
            left: int = self._write_db.pragma("freelist_count")
            return left

        await self._fold_log()
        with client_errors():
            if self._point_db.pragma("freelist_count") == 0:
                return 0
        return await self._writer.submit(give_back, is_heavy=True)

    async def _fold_log(self) -> None:
        """Moves what the write-ahead log has into the file, if it has become large."""
        size = self._log_file.stat().st_size if self._log_file.exists() else 0
        if size < self._log_limit:
            return

        def fold() -> bool:
            db = self._write_db
            db.set_busy_timeout(min(_BUSY, size // _LARGE_LOG * _LOG_PATIENCE))
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False  # somebody has been reading all the time
            finally:
                db.set_busy_timeout(_BUSY)
            return True

        is_folded = await self._writer.submit(fold, is_bare=True)
        self._log_limit = _LARGE_LOG if is_folded else size + _LARGE_LOG

    async def tally(self, container: Container, range_index: int, span: Span) -> Tally:
        return await self._queries.in_thread(
            lambda db: lifetimes.tally(db, container.number, range_index, span)
        )

    async def histogram(
        self, container: Container, range_index: int, span: Span, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        return await self._queries.in_thread(
            lambda db: lifetimes.histogram(db, container.number, range_index, span, origin, width)
        )

    async def sample(
        self, container: Container, range_index: int, span: Span, limit: int
    ) -> list[Row]:
        return await self._queries.in_thread(
            lambda db: lifetimes.sample(db, container.number, range_index, span, limit)
        )

    async def invalid_ttls(self, container: Container, horizon: Horizon) -> int:
        return await self._queries.in_thread(
            lambda db: lifetimes.invalid_ttls(db, container.number, horizon)
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None if to none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _renames(change: Put | Remove) -> bool:
    return (
        isinstance(change, Put)
        and change.replaces is not None
        and change.replaces.id != change.row.id
    )
