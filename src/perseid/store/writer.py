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

from perseid.errors import InsufficientStorage, ServiceUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

# Bounds how long the first job of a group waits for the last one's acknowledgement.
LARGEST_GROUP: Final = 256


class _Job:
    __slots__ = ("error", "future", "result", "run")

    def __init__(self, run: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.run = run
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class Writer:
    """Runs jobs on the writing connection in groups; `committed` and `rolled_back` frame them.

    `before_commit` may add last statements to the transaction; `after` hears whether it held.
    """

    def __init__(
        self,
        db: apsw.Connection,
        before_commit: Callable[[], None],
        after: Callable[[bool], None],
    ) -> None:
        self._db = db
        self._before_commit = before_commit
        self._after = after
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="perseid-writer", daemon=True)
        self._thread.start()

    async def submit(self, run: Callable[[], T]) -> T:
        """Runs the job in the next group; returns its result once that group is durable."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(run, future))
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
            self._run_group(group)
            group[0].future.get_loop().call_soon_threadsafe(_acknowledge, group)
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

    def _run_group(self, group: list[_Job]) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in group:
                self._run_job(job)
            self._before_commit()
            db.execute("COMMIT")
        except BaseException as exc:
            log.error("a group of %d writes was rolled back: %s", len(group), exc)
            if not db.in_transaction:
                pass  # the engine has undone it already
            else:
                db.execute("ROLLBACK")
            self._after(False)
            failure = as_client_error(exc)
            for job in group:
                job.error = job.error or failure
        else:
            self._after(True)

    def _run_job(self, job: _Job) -> None:
        db = self._db
        db.execute("SAVEPOINT job")
        try:
            job.result = job.run()
        except BaseException as exc:
            if not db.in_transaction:
                raise  # a full disk can end the whole transaction; nobody in it may be told "done"
            db.execute("ROLLBACK TO job")
            job.error = as_client_error(exc)
        db.execute("RELEASE job")


def _acknowledge(group: list[_Job]) -> None:
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
    if isinstance(exc, apsw.Error):
        failure = ServiceUnavailable(f"The database file could not be written: {exc}")
        failure.__cause__ = exc
        return failure
    return exc
