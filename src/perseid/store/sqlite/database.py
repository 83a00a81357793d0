"""The open database file: connections, the writer, and the state that all its stores share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from perseid import private_files
from perseid.errors import ServiceUnavailable
from perseid.store.sqlite import schema
from perseid.store.sqlite.change_log_writer import ChangeLogs
from perseid.store.sqlite.checksums import DamagedItems
from perseid.store.sqlite.disk_reserve import DiskReserve, is_disk_full
from perseid.store.sqlite.group import Group
from perseid.store.sqlite.indexes import PropertyIndexes
from perseid.store.sqlite.lost_files import log_path, refuse_lost_database
from perseid.store.sqlite.pending_state import PendingState
from perseid.store.sqlite.readers import Readers
from perseid.store.sqlite.row_cache import RowCache
from perseid.store.sqlite.writer import BUSY_TIMEOUT, GroupCommitWriter
from perseid.store.types import ServerLoad, StoreError

_CACHED_BYTES: Final = 32 * 1024 * 1024
# Keeps what the connections share in memory instead of a file; locks out other processes.
_PRIVATE_VFS: Final = "unix-excl"
_INCREMENTAL: Final = 2
_DISPLACED: Final = "was moved, removed or replaced while the server had it open"
_SYNCHRONOUS: Final = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


log = logging.getLogger(__name__)


class SqliteDatabase:
    """One SQLite file, which this process alone has open."""

    def __init__(
        self,
        path: Path,
        durability: str,
        now: Callable[[], float],
        reserve: DiskReserve,
        load: ServerLoad,
    ) -> None:
        self.path = path.absolute()  # an embedding program may change the working directory
        self.log_path = log_path(self.path)
        self.now = now
        refuse_lost_database(self.path)
        self._synchronous = _SYNCHRONOUS[durability]
        self.reserve = reserve
        self._vfs: str | None = None  # SQLite's default
        _create_private(self.path)
        self.write_db = self._open_on_any_disk()
        _restrict(self.path)  # now that it is certain to be ours
        # As texts: these are looked up for each commit.
        self._names = (str(self.path), str(self.log_path))
        self._identity = _identity(self._names[0])
        self.point_db = self._connect()
        self._log_identity = _identity(self._names[1])
        self.logs = ChangeLogs(self.write_db, now)
        self.cache = RowCache(_CACHED_BYTES)
        self.group = Group(self.write_db)
        self.damaged = DamagedItems()
        self.state = PendingState(self.write_db, self.logs, self.group, self.cache, self.damaged)
        self.writer = GroupCommitWriter(
            self.write_db,
            self.group,
            self.reserve,
            load,
            begin=self._before_group,
            before_commit=self.state.store,
            committed=self.state.commit,
            refuse_acknowledgement=self._refuse_acknowledgement,
            rolled_back=self.state.roll_back,
        )
        self.readers = Readers(self._connect, self.writer, self.state.range_states)
        self.indexes = PropertyIndexes(
            self.write_db, self.writer, self.state.range_states, self.reserve
        )

    async def close(self) -> None:
        await self.writer.close()
        self.readers.close()
        self.point_db.close()
        # Last, so that SQLite moves the write-ahead log into the file.
        self.write_db.close()
        if _identity(self._names[0]) != self._identity:
            raise StoreError(
                f"{self.path} {_DISPLACED}; what was stored is where it was moved to, or gone"
            )

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """All of the block's statements or none. Raises the driver's errors as they are, because
        a full disk needs an answer of its own."""
        db = self.write_db
        db.execute("SAVEPOINT changes")
        try:
            yield
        except BaseException:
            if db.in_transaction:  # else SQLite has rolled back everything already
                db.execute("ROLLBACK TO changes; RELEASE changes")
            raise
        db.execute("RELEASE changes")

    def _open_on_any_disk(self) -> apsw.Connection:
        """The writing connection; on a full disk with the room that was kept for that."""
        try:
            db = self._open_and_migrate()
        except apsw.Error as exc:
            if not is_disk_full(exc):
                raise
            self.reserve.release()
            db = self._open_without_room()
        self.reserve.take()
        limit_log(db, self.reserve.log_pages)
        return db

    def _open_without_room(self) -> apsw.Connection:
        try:
            return self._open_and_migrate()
        except apsw.Error as exc:
            if not is_disk_full(exc) or _PRIVATE_VFS not in apsw.vfs_names():
                raise
        log.error(
            "the disk that holds %s is full, and no room was kept: until the next start with room"
            " no other process can read the file, `perseid check` included",
            self.path,
        )
        self._vfs = _PRIVATE_VFS
        return self._open_and_migrate()

    def _open_and_migrate(self) -> apsw.Connection:
        db = self._open(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        try:
            schema.check(db)
            # Takes effect before the first table only: it lets the file shrink later. Setting it
            # again would be a write, for which a full disk has no room.
            if db.pragma("auto_vacuum") != _INCREMENTAL:
                db.pragma("auto_vacuum", _INCREMENTAL)
            db.pragma("journal_mode", "WAL")
            schema.migrate(db)
            # Creates the shared memory of all connections, which needs room on the disk.
            db.execute("SELECT COUNT(*) FROM meta").get  # noqa: B018
        except BaseException:
            db.close()
            raise
        return db

    def _connect(self) -> apsw.Connection:
        """A connection to the file that was opened first, not to one that took its place."""
        db = self._open(apsw.SQLITE_OPEN_READWRITE)
        if _identity(self._names[0]) != self._identity:
            db.close()
            raise ServiceUnavailable(f"The database file {_DISPLACED}.")
        return db

    def _open(self, flags: int) -> apsw.Connection:
        db = apsw.Connection(str(self.path), flags, vfs=self._vfs, statementcachesize=256)
        try:
            self._configure(db)
        except BaseException:
            db.close()
            raise
        return db

    def _configure(self, db: apsw.Connection) -> None:
        db.set_busy_timeout(BUSY_TIMEOUT)
        # Otherwise a statement is planned again for each value bound to a limit or compared with
        # an indexed expression, which takes several times as long as running it.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("synchronous", self._synchronous)
        db.pragma("temp_store", "MEMORY")
        db.pragma("cache_size", -16_384)

    def _before_group(self) -> None:
        """503 if writes would go to a file that the next start does not find."""
        self.readers.end_snapshot()
        if _identity(self._names[0]) != self._identity:
            raise ServiceUnavailable(f"The database file {_DISPLACED}; nothing was written.")

    def _refuse_acknowledgement(self) -> ServiceUnavailable | None:
        """503 for writes that were committed to files that the next start does not find. After the
        commit, so that a file that is moved during the commit is noticed, too."""
        file, log = self._names
        if _identity(file) == self._identity and _identity(log) == self._log_identity:
            return None
        return ServiceUnavailable(
            f"The database file or its write-ahead log {_DISPLACED}; the write is in the files that"
            " were moved, if they still exist. Move them back."
        )


def _create_private(path: Path) -> None:
    """A new file is for this user alone; SQLite gives the log the mode of the database."""
    try:
        private_files.check_file(path)
        if not path.exists():
            private_files.open_file(path.resolve(), "a+b").close()
    except OSError as exc:
        raise StoreError(f"cannot open {path}: {exc.strerror}") from exc


def _restrict(path: Path) -> None:
    """Closes files that an earlier release left readable for everyone."""
    for end in ("", "-wal", "-shm"):
        private_files.restrict_file(path.with_name(f"{path.name}{end}"))


def limit_log(db: apsw.Connection, pages: int) -> None:
    """Moves the write-ahead log into the file when it has so many pages."""
    db.wal_autocheckpoint(pages)


def _identity(path: str) -> tuple[int, int] | None:
    """Which file a path leads to; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
