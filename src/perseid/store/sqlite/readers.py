"""Connections for reading: one on the event loop for work of microseconds, others in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Final, Generic, TypeAlias, TypeVar

import apsw

from perseid.model import Container
from perseid.store.sql.range_state import RangeState, container_state
from perseid.store.sqlite.group import DRIVER_ERRORS
from perseid.store.sqlite.indexes import IndexDropped
from perseid.store.sqlite.writer import GroupCommitWriter, as_client_error, client_errors

T = TypeVar("T")
Work: TypeAlias = Callable[[apsw.Connection], T]

_THREADS: Final = 4
# Steps of SQLite's virtual machine that a query may take on the event loop: a fraction of a
# millisecond.
_LOOP_STEPS: Final = 5_000
# Decoding large items takes longer than those steps tell.
_SMALL_ITEM: Final = 8 * 1024
_SKIPPED_TRIES: Final = 50  # queries of a shape that took too long, before it is tried again
_MOST_SHAPES: Final = 4096


class Readers:
    """Runs work on connections of its own.

    Work that uses an index raises IndexDropped if the index was dropped after it was chosen.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        writer: GroupCommitWriter,
        range_states: Mapping[tuple[int, int], RangeState],
    ) -> None:
        self._connect = connect
        self._writer = writer
        self._range_states = range_states
        self._loop_db = connect()
        self._step_limit = _StepLimit()
        self._loop_db.set_progress_handler(self._step_limit, _LOOP_STEPS, id=_StepLimit)
        self._local = threading.local()
        self._connections = [self._loop_db]
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="perseid-scan")
        # Results wait in memory for the event loop; threads must not run far ahead of it.
        self._turns = asyncio.Semaphore(2 * _THREADS)
        self._tries_to_skip: dict[Hashable, int] = {}

    def close(self) -> None:
        self._threads.shutdown()
        for db in self._connections:
            db.close()

    def end_snapshot(self) -> None:
        """Ends the snapshot that queries on the event loop share while nothing is written.

        Called before each write: a snapshot in use keeps its pages in the write-ahead log.
        """
        if self._loop_db.in_transaction:
            self._loop_db.execute("COMMIT")

    def sees_committed_state(self, db: apsw.Connection) -> bool:
        """True if the connection sees exactly what memory says is committed: cached rows, range
        states and tombstones."""
        return db is self._loop_db and self._writer.is_file_unchanging

    async def in_thread(self, work: Work[T]) -> T:
        """Runs the work in a thread; cancelling the caller interrupts it."""
        job = _Job(work)

        def run() -> T:
            db: apsw.Connection | None = getattr(self._local, "db", None)
            if db is None:
                with client_errors():
                    db = self._local.db = self._connect()
                self._connections.append(db)
            return job.run(db)

        async with self._turns:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, run)
            except asyncio.CancelledError:
                job.interrupt()
                raise

    async def run(self, container: Container, shape: Hashable, work: Work[T]) -> T:
        """Runs work of microseconds on the event loop, as a point read, and else in a thread.

        How long it takes is unknown beforehand, so it is tried; a shape of query that took too long
        is not tried again for a while.
        """
        if self._tries_to_skip and (waits := self._tries_to_skip.get(shape, 0)):
            self._tries_to_skip[shape] = waits - 1
            return await self.in_thread(work)
        result = self.try_on_loop(container, shape, work)
        return await self.in_thread(work) if result is None else result

    def try_on_loop(self, container: Container, shape: Hashable, work: Work[T]) -> T | None:
        """The result of the work; None if it takes too long on the event loop, or would."""
        if self._tries_to_skip and self._tries_to_skip.get(shape, 0):
            return None
        state = container_state(self._range_states, container)
        if state.size > state.items * _SMALL_ITEM:
            return None
        db = self._loop_db
        if self._writer.is_file_unchanging and not db.in_transaction:
            db.execute("BEGIN")
        self._step_limit.left = 2
        try:
            return work(db)
        except apsw.InterruptError:
            if len(self._tries_to_skip) >= _MOST_SHAPES:
                self._tries_to_skip.clear()
            self._tries_to_skip[shape] = _SKIPPED_TRIES
            return None
        except DRIVER_ERRORS as exc:
            raise _as_query_error(exc) from exc
        finally:
            self._step_limit.left = inf


def _as_query_error(exc: Exception) -> BaseException:
    if isinstance(exc, apsw.SQLError) and str(exc).startswith("no such index"):
        return IndexDropped(str(exc))
    return as_client_error(exc)


class _Job(Generic[T]):
    """Work on a connection that another thread may interrupt while it runs, and only then."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._is_cancelled = False

    def run(self, db: apsw.Connection) -> T:
        with self._lock:
            if self._is_cancelled:
                raise apsw.InterruptError
            self._db = db
        try:
            return self._work(db)
        except DRIVER_ERRORS as exc:
            raise _as_query_error(exc) from exc
        finally:
            with self._lock:
                self._db = None

    def interrupt(self) -> None:
        with self._lock:
            self._is_cancelled = True
            if self._db is not None:
                self._db.interrupt()


class _StepLimit:
    """Interrupts a statement at its second call since the work began.

    SQLite counts the steps of a statement over all its runs, so the first call may come at once.
    Statements outside of such work, such as the COMMIT of a snapshot, are never interrupted.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = inf

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0
