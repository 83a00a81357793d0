"""The one thread that writes: it drains its queue into one transaction and then acknowledges.

Whatever arrives while a commit waits for the disk shares the next commit, so durable writes cost
a fraction of a disk flush each. A savepoint around each job lets one fail alone.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import apsw

from perseid.errors import InsufficientStorage, OwnerNotFound, ServiceUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

# Bounds how long the first job of a group waits for the last one's acknowledgement.
LARGEST_GROUP: Final = 256


class _Job:
    __slots__ = ("error", "future", "is_atomic", "result", "run")

    def __init__(
        self, run: Callable[[], Any], future: asyncio.Future[Any], is_atomic: bool
    ) -> None:
        self.run = run
        self.future = future
        self.is_atomic = is_atomic
        self.result: Any = None
        self.error: BaseException | None = None


class Writer:
    """Runs jobs on the writing connection in groups.

    `before_commit` may add last statements to the transaction; `committed` returns what is to
    happen on the event loop before anyone is answered; `undone` hears of a failure instead.
    """

    def __init__(
        self,
        db: apsw.Connection,
        *,
        before_commit: Callable[[], None],
        committed: Callable[[], Callable[[], None]],
        undone: Callable[[], None],
    ) -> None:
        self._db = db
        self._before_commit = before_commit
        self._committed = committed
        self._undone = undone
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="perseid-writer", daemon=True)
        self._thread.start()

    async def submit(self, run: Callable[[], T], *, is_atomic: bool = False) -> T:
        """Runs the job in the next group; returns its result once that group is durable.

        `is_atomic` says that the job leaves nothing behind when it fails; others get a savepoint.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(run, future, is_atomic))
        return await future

    def close(self) -> None:
        """Finishes everything that was submitted, then ends the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            if job is None:
                return
            group, is_last = self._gather(job)
            settle = self._run_group(group)
            group[0].future.get_loop().call_soon_threadsafe(_acknowledge, group, settle)
            if is_last:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        group = [first]
        while len(group) < LARGEST_GROUP:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _run_group(self, group: list[_Job]) -> Callable[[], None] | None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in group:
                self._run_job(job)
            self._before_commit()
            db.execute("COMMIT")
        except BaseException as exc:
            log.error("a group of %d writes was rolled back: %s", len(group), exc)
            if db.in_transaction:  # else the engine has undone it already
                db.execute("ROLLBACK")
            self._undone()
            failure = as_client_error(exc)
            for job in group:
                job.error = job.error or failure
            return None
        return self._committed()

    def _run_job(self, job: _Job) -> None:
        db = self._db
        if not job.is_atomic:
            db.execute("SAVEPOINT job")
        try:
            job.result = job.run()
        except BaseException as exc:
            if not db.in_transaction:
                raise  # a full disk can end the whole transaction; nobody in it may be told "done"
            if not job.is_atomic:
                db.execute("ROLLBACK TO job")
            job.error = as_client_error(exc)
        if not job.is_atomic:
            db.execute("RELEASE job")


def _acknowledge(group: list[_Job], settle: Callable[[], None] | None) -> None:
    if settle is not None:
        settle()
    for job in group:
        if job.future.done():  # the client has gone; the write stands
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def as_client_error(exc: BaseException) -> BaseException:
    """Driver errors in the client's terms; everything else as it is."""
    if isinstance(exc, apsw.FullError):
        return InsufficientStorage("The disk that holds the data is full; nothing was written.")
    if isinstance(exc, apsw.SQLError) and "no such table: items_" in str(exc):
        return OwnerNotFound("Owner resource does not exist")  # dropped a moment ago
    if isinstance(exc, apsw.Error):
        failure = ServiceUnavailable(f"The database file could not be used: {exc}")
        failure.__cause__ = exc
        return failure
    return exc
