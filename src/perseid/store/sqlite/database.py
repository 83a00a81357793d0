"""The open database file: connections, the writer, and the state that all its stores share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from perseid.errors import ServiceUnavailable
from perseid.store.sqlite import schema
from perseid.store.sqlite.change_log_writer import ChangeLogs
from perseid.store.sqlite.group import Group
from perseid.store.sqlite.indexes import PropertyIndexes
from perseid.store.sqlite.pending_state import PendingState
from perseid.store.sqlite.readers import Readers
from perseid.store.sqlite.row_cache import RowCache
from perseid.store.sqlite.writer import GroupCommitWriter
from perseid.store.types import StoreError

BUSY_TIMEOUT: Final = 10_000  # milliseconds to wait for a lock
_CACHED_BYTES: Final = 32 * 1024 * 1024
_IDENTITY_CHECK_INTERVAL: Final = 0.1  # seconds
_DISPLACED: Final = "was moved, removed or replaced while the server had it open"
_SYNCHRONOUS: Final = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


class SqliteDatabase:
    """One SQLite file, which this process alone has open."""

    def __init__(self, path: Path, durability: str, now: Callable[[], float]) -> None:
        self.path = path.absolute()  # an embedding program may change the working directory
        self.now = now
        self._synchronous = _SYNCHRONOUS[durability]
        self.write_db = self._open(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        schema.check(self.write_db)
        # Takes effect before the first table only: it lets the file shrink later.
        self.write_db.pragma("auto_vacuum", "INCREMENTAL")
        self.write_db.pragma("journal_mode", "WAL")
        schema.migrate(self.write_db)
        self._identity = _identity(self.path)
        self._identity_checked_at = time.monotonic()
        self.point_db = self._connect()
        self.logs = ChangeLogs(self.write_db, now)
        self.cache = RowCache(_CACHED_BYTES)
        self.group = Group(self.write_db)
        self.state = PendingState(self.write_db, self.logs, self.group, self.cache)
        self.writer = GroupCommitWriter(
            self.write_db,
            self.group,
            begin=self._before_group,
            before_commit=self.state.store,
            committed=self.state.commit,
            rolled_back=self.state.roll_back,
        )
        self.readers = Readers(self._connect, self.writer, self.state.range_states)
        self.indexes = PropertyIndexes(self.write_db, self.writer, self.state.range_states)

    async def close(self) -> None:
        await self.writer.close()
        self.readers.close()
        self.point_db.close()
        # Last, so that SQLite moves the write-ahead log into the file.
        self.write_db.close()
        if _identity(self.path) != self._identity:
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

    def _connect(self) -> apsw.Connection:
        """A connection to the file that was opened first, not to one that took its place."""
        db = self._open(apsw.SQLITE_OPEN_READWRITE)
        if _identity(self.path) != self._identity:
            db.close()
            raise ServiceUnavailable(f"The database file {_DISPLACED}.")
        return db

    def _open(self, flags: int) -> apsw.Connection:
        db = apsw.Connection(str(self.path), flags, statementcachesize=256)
        db.set_busy_timeout(BUSY_TIMEOUT)
        # Otherwise a statement is planned again for each value bound to a limit or compared with
        # an indexed expression, which takes several times as long as running it.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("synchronous", self._synchronous)
        db.pragma("temp_store", "MEMORY")
        db.pragma("cache_size", -16_384)
        return db

    def _before_group(self) -> None:
        self.readers.end_snapshot()
        self._check_identity()

    def _check_identity(self) -> None:
        """503 if writes would go to a file that the next start does not find."""
        now = time.monotonic()
        if now - self._identity_checked_at < _IDENTITY_CHECK_INTERVAL:
            return
        if _identity(self.path) != self._identity:
            raise ServiceUnavailable(f"The database file {_DISPLACED}; nothing was written.")
        self._identity_checked_at = now


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
