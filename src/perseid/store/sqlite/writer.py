"""The writing connection: jobs that arrive while a commit waits for the disk share the next commit.

So a durable write costs a fraction of a disk flush. Jobs run on the event loop, microseconds each,
and only the commit runs in a thread: with each statement in a thread, two threads would compete for
the interpreter lock. While the server answers a single request and the disk is fast, no other
request would gain from that: its group starts at once and is committed on the event loop. Heavy
jobs run in the thread, alone. A failed job does not affect the others of its group: items are
written after all decisions (`group.py`), and other jobs have a savepoint. While the disk is full
every job runs alone, in the room that is kept for it (`disk_reserve.py`).
"""

from __future__ import annotations

import asyncio
import logging
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any, Final, NoReturn, TypeVar

import apsw

from perseid.errors import InsufficientStorage, OwnerNotFound, ServiceUnavailable, without_frames
from perseid.store.sqlite.disk_reserve import FULL_MESSAGE, DiskReserve, is_disk_full
from perseid.store.sqlite.group import DRIVER_ERRORS, Group, NeededKeys
from perseid.store.types import ServerLoad

log = logging.getLogger(__name__)

T = TypeVar("T")

# Bounds how long the event loop is busy with one group.
LARGEST_GROUP: Final = 64
_DROPPED: Final = re.compile(r"no such table: (main\.)?(items|visible)_[0-9]")
BUSY_TIMEOUT: Final = 10_000  # milliseconds to wait for a lock
_LOG_WAIT: Final = 100  # milliseconds to wait for readers of the log on a full disk
_MOST_TRIES: Final = 2  # of a job on a full disk, after the first
_LOOP_TURNS: Final = 4  # turns of the event loop before a group starts
_SHORT_COMMIT: Final = 0.001  # seconds that the event loop may wait for the disk
_SINGLE_ITEM_ERRORS: Final = (apsw.ConstraintError, apsw.SQLError, apsw.TooBigError)


class _Job:
    __slots__ = (
        "error",
        "future",
        "is_alone",
        "is_heavy",
        "is_outside_transaction",
        "needs",
        "result",
        "run",
        "tries",
    )

    def __init__(
        self,
        run: Callable[[], Any],
        future: asyncio.Future[Any],
        needs: NeededKeys | None,
        is_heavy: bool,
        is_outside_transaction: bool,
    ) -> None:
        self.run = run
        self.future = future
        self.needs = needs
        self.is_heavy = is_heavy
        self.is_outside_transaction = is_outside_transaction
        self.is_alone = is_heavy
        self.tries = 0  # on a full disk: after the log was emptied, then in the room that is kept
        self.result: Any = None
        self.error: BaseException | None = None


class GroupCommitWriter:
    """Runs jobs on the writing connection in groups, one group at a time.

    `begin` is called on the event loop before a group runs; `before_commit` may add the last
    statements of the transaction. Once it is durable, and before the callers get their results,
    `committed` is called on the event loop, and then `refuse_acknowledgement`, which may return an
    error that they get instead. After a failure `rolled_back` is called, also after the failure of
    a heavy job, which is alone in its group.
    """

    def __init__(
        self,
        db: apsw.Connection,
        group: Group,
        reserve: DiskReserve,
        load: ServerLoad,
        *,
        begin: Callable[[], None],
        before_commit: Callable[[], None],
        committed: Callable[[], None],
        refuse_acknowledgement: Callable[[], Exception | None],
        rolled_back: Callable[[], None],
    ) -> None:
        self._db = db
        self._group = group
        self._reserve = reserve
        self._load = load
        self._commit_seconds = inf  # of the last commit
        self._begin = begin
        self._before_commit = before_commit
        self._committed = committed
        self._refuse_acknowledgement = refuse_acknowledgement
        self._rolled_back = rolled_back
        self._jobs: deque[_Job] = deque()
        self._is_busy = False
        # True while the file cannot change before the next turn of the event loop.
        self.is_file_unchanging = True
        self._idle: list[asyncio.Future[None]] = []
        self._thread_queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="perseid-writer", daemon=True)
        self._thread.start()

    def submit(
        self,
        run: Callable[[], T],
        *,
        needs: NeededKeys | None = None,
        is_heavy: bool = False,
        is_outside_transaction: bool = False,
    ) -> asyncio.Future[T]:
        """Runs the job in the next group; its result comes once that group is durable.

        `needs` are the items that a job decides about through the group; such a job has no effect
        if it fails, others get a savepoint. A heavy job takes too long for the event loop; a job
        outside of a transaction is heavy, too.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.append(
            _Job(run, future, needs, is_heavy or is_outside_transaction, is_outside_transaction)
        )
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._gather, 0 if self._load.is_single_request else _LOOP_TURNS)
        return future

    async def recover_from_full_disk(self) -> None:
        """Finds out whether the disk has room again."""
        await self.submit(
            lambda: self._reserve.recover(self._empty_log), is_outside_transaction=True
        )

    async def close(self) -> None:
        """Finishes everything that was submitted, then ends the thread."""
        if self._is_busy:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        self._thread_queue.put(None)
        self._thread.join()

    # On the event loop

    def _gather(self, turns: int) -> None:
        """Lets the event loop receive more requests first: larger groups, fewer commits."""
        if turns and len(self._jobs) < LARGEST_GROUP:
            asyncio.get_running_loop().call_soon(self._gather, turns - 1)
        else:
            self._start()

    def _start(self) -> None:
        group = self._next_group()
        try:
            self._begin()
        except BaseException as exc:  # else the writer would stop
            self._finish(group, exc)
            return
        if group[0].is_heavy:
            self._hand_over(group, lambda: self._run_and_commit(group))
            return
        before = self._db.total_changes()
        try:
            self._run(group)
            is_short = self._db.total_changes() == before  # all were rejected: nothing to flush
            is_short = is_short or self._may_commit_here()
            if is_short:
                self._commit()
        except BaseException as exc:
            if is_disk_full(exc, self._db):
                self._hand_over(group, partial(_raise, exc))
                return
            self._roll_back()
            if isinstance(exc, _SINGLE_ITEM_ERRORS) and not group[0].is_alone:
                self._retry_one_by_one(group, exc)
            else:
                self._finish(group, exc)
        else:
            if is_short:
                self._finish(group, None)
            else:
                self._hand_over(group, self._commit)

    def _may_commit_here(self) -> bool:
        """True if no other request waits for the event loop, and the disk is fast."""
        return (
            self._commit_seconds < _SHORT_COMMIT
            and self._load.is_single_request
            and not self._reserve.is_tight
        )

    def _next_group(self) -> list[_Job]:
        jobs = self._jobs
        group = [jobs.popleft()]
        if self._reserve.is_tight:
            group[0].is_alone = group[0].is_heavy = True
        while jobs and len(group) < LARGEST_GROUP:
            if group[0].is_alone or jobs[0].is_alone:
                break
            group.append(jobs.popleft())
        return group

    def _retry_one_by_one(self, group: list[_Job], failure: Exception) -> None:
        """Runs each job again, alone, so that it fails alone if it was the reason."""
        if not isinstance(failure, InsufficientStorage):  # a line for each write would need room
            log.warning("a group of %d writes is written one by one: %s", len(group), failure)
        self._rolled_back()
        for job in reversed(group):
            job.is_alone = True
            job.error = None
            self._jobs.appendleft(job)
        asyncio.get_running_loop().call_soon(self._gather, 0)

    def _hand_over(self, group: list[_Job], work: Callable[[], Any]) -> None:
        loop = asyncio.get_running_loop()
        self.is_file_unchanging = False

        def run() -> None:
            failure: BaseException | None = None
            is_released = self._reserve.is_tight and group[0].tries == _MOST_TRIES
            if is_released:
                self._reserve.release()
            try:
                work()
            except BaseException as exc:
                failure = exc
                if is_disk_full(exc, self._db):
                    failure = InsufficientStorage(FULL_MESSAGE)
                self._roll_back()
            if is_released or isinstance(failure, InsufficientStorage):
                self._reserve.recover(self._empty_log)
            loop.call_soon_threadsafe(self._finish, group, failure)

        self._thread_queue.put(run)

    def _finish(self, group: list[_Job], failure: BaseException | None) -> None:
        self.is_file_unchanging = True
        if isinstance(failure, InsufficientStorage) and group[0].tries < _MOST_TRIES:
            for job in group:
                job.tries = _MOST_TRIES if self._reserve.is_full else job.tries + 1
            self._retry_one_by_one(group, failure)
            return
        if failure is None:
            self._committed()
            client_error: BaseException | None = self._refuse_acknowledgement()
        else:
            if not self._reserve.is_full:  # which was logged once, when it became full
                log.error("a group of %d writes was rolled back: %s", len(group), failure)
            self._rolled_back()
            client_error = without_frames(as_client_error(failure))
        if client_error is not None:
            for job in group:
                job.error = job.error or client_error
        # The next group starts before the results of this one are sent, so that its commit is on
        # its way to the disk meanwhile.
        if self._jobs:
            asyncio.get_running_loop().call_soon(self._gather, _LOOP_TURNS)
        else:
            self._is_busy = False
            while self._idle:
                self._idle.pop().set_result(None)
        for job in group:
            if job.future.done():  # the client disconnected; the write stands
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)

    # On either

    def _run_and_commit(self, group: list[_Job]) -> None:
        if group[0].is_outside_transaction:
            group[0].result = group[0].run()
            return
        self._run(group)
        self._commit()

    def _commit(self) -> None:
        started = time.perf_counter()
        self._db.execute("COMMIT")
        self._commit_seconds = time.perf_counter() - started

    def _run(self, group: list[_Job]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._group.read([job.needs for job in group if job.needs is not None])
        for job in group:
            self._run_job(job)
        self._group.flush()
        self._before_commit()

    def _run_job(self, job: _Job) -> None:
        db = self._db
        has_savepoint = job.needs is None
        if has_savepoint:
            self._group.flush()
            db.execute("SAVEPOINT job")
        try:
            job.result = job.run()
        except BaseException as exc:
            # A full disk can roll back the whole transaction: every job in it failed.
            if not db.in_transaction or is_disk_full(exc, db):
                raise
            if has_savepoint:
                db.execute("ROLLBACK TO job")
            if job.is_heavy:
                self._rolled_back()
            job.error = without_frames(as_client_error(exc))
        if has_savepoint:
            db.execute("RELEASE job")

    def _roll_back(self) -> None:
        if self._db.in_transaction:  # else SQLite has rolled it back already
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error as exc:  # the next group fails to begin, and comes here again
                log.error("a transaction could not be rolled back: %s", exc)

    # In the thread

    def _empty_log(self) -> None:
        db = self._db
        db.set_busy_timeout(_LOG_WAIT)
        try:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.set_busy_timeout(BUSY_TIMEOUT)

    def _work(self) -> None:
        while (run := self._thread_queue.get()) is not None:
            run()


def _raise(exc: BaseException) -> NoReturn:
    raise exc


@contextmanager
def client_errors() -> Iterator[None]:
    """Raises the block's driver errors as errors for the client."""
    try:
        yield
    except DRIVER_ERRORS as exc:
        raise as_client_error(exc) from exc


def as_client_error(exc: BaseException) -> BaseException:
    """A driver error as an error for the client; everything else as it is."""
    if isinstance(exc, apsw.FullError):
        return InsufficientStorage(FULL_MESSAGE)
    if isinstance(exc, apsw.SQLError) and _DROPPED.search(str(exc)) is not None:
        return OwnerNotFound()  # dropped a moment ago
    if isinstance(exc, DRIVER_ERRORS):
        failure = ServiceUnavailable(f"The database file could not be used: {exc}")
        failure.__cause__ = exc
        return failure
    return exc
