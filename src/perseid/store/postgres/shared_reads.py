"""Point reads on PostgreSQL: the reads that wait for a range share its next statement.

The first read of an idle range is sent alone. Reads that arrive meanwhile wait for its result; then
one statement reads all of them, and so on. A read never joins a statement that was sent before it,
since that would not see the latest writes. Each range has one statement in progress, so a range
with many reads, or one on a node that does not answer, takes a single connection from the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import psycopg
from psycopg_pool import PoolClosed

from perseid.errors import without_frames
from perseid.model import ItemKey, Row
from perseid.store.postgres import statements
from perseid.store.postgres.arrays import BYTEA, BYTEA_ARRAY, TEXT, TEXT_ARRAY
from perseid.store.postgres.connection import KeptStatement
from perseid.store.postgres.failures import as_client_error, is_unreachable
from perseid.store.postgres.pool import Pool, fetch_kept

# The version of the metadata, the LSN of the range, and the item or None; None if the range does
# not exist.
ReadResult: TypeAlias = tuple[int, int, Row | None] | None
# A plain tuple, which takes half as long to make as a named one.
_WaitingRead: TypeAlias = tuple[ItemKey, "asyncio.Future[ReadResult]"]

LARGEST_BATCH: Final = 64
# Items may have 2 MB. If those of a batch are large, the next one has fewer.
_BATCH_BYTES: Final = 4 * 1024 * 1024
READ: Final = KeptStatement(statements.READ.encode(), (TEXT, BYTEA, TEXT))
READ_SEVERAL: Final = KeptStatement(
    statements.READ_SEVERAL.encode(), (TEXT, BYTEA_ARRAY, TEXT_ARRAY)
)


class SharedReads:
    """All point reads of this process."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # By range, for ranges that have a statement in progress.
        self._waiting: dict[str, deque[_WaitingRead]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self, part: str, key: ItemKey) -> Awaitable[ReadResult]:
        """To be awaited at once. Not a coroutine: a future that is awaited directly costs less."""
        waiting = self._waiting.get(part)
        if waiting is None:
            return self._read_alone(part, key)
        future: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        waiting.append((key, future))
        return future

    async def _read_alone(self, part: str, key: ItemKey) -> ReadResult:
        self._waiting[part] = deque()
        try:
            rows = await fetch_kept(self._pool, READ, _one_key(part, key))
            return _result(rows[0]) if rows else None
        except psycopg.Error as exc:
            self._fail_if_unreachable(part, exc)
            raise as_client_error(exc) from exc
        finally:
            self._go_on(part)

    async def close(self) -> None:
        """Gives up the statements in progress; the pool is closed already."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _go_on(self, part: str) -> None:
        """Starts a task for the reads that wait, if there are any."""
        if self._waiting[part]:
            task = asyncio.get_running_loop().create_task(self._read_range(part))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            del self._waiting[part]

    async def _read_range(self, part: str) -> None:
        """Sends one statement after the other until no read waits for the range."""
        waiting = self._waiting[part]
        limit = LARGEST_BATCH
        batch: list[_WaitingRead] = []
        try:
            while waiting:
                batch = _next_batch(waiting, limit)
                if not batch:
                    break
                try:
                    limit = await self._read_batch(part, batch)
                except Exception as exc:
                    _fail(batch, exc)
                    self._fail_if_unreachable(part, exc)
        except BaseException:
            _fail([*batch, *waiting], PoolClosed())
            raise
        finally:
            del self._waiting[part]

    async def _read_batch(self, part: str, batch: Sequence[_WaitingRead]) -> int:
        """Answers the reads; returns how many the next batch may have."""
        keys = [*dict.fromkeys([key for key, _ in batch])]
        if len(keys) == 1:
            rows = await fetch_kept(self._pool, READ, _one_key(part, *keys))
        else:
            values = (part.encode(), *statements.key_arrays(keys))
            rows = await fetch_kept(self._pool, READ_SEVERAL, values)
        missing: ReadResult = (*rows[0][:2], None) if rows else None
        items: dict[tuple[bytes, str], ReadResult] = {}
        size = 1
        for row in rows:
            if (result := _result(row))[2] is not None:
                items[result[2][1:3]] = result
                size += len(result[2].body)
        for key, future in batch:
            if not future.done():  # otherwise its client has disconnected
                future.set_result(items.get(key, missing))
        return min(LARGEST_BATCH, _BATCH_BYTES * len(rows) // size)

    def _fail_if_unreachable(self, part: str, exc: BaseException) -> None:
        """The reads that wait for the range have waited for the same connection."""
        if is_unreachable(exc):
            waiting = self._waiting[part]
            _fail(waiting, exc)
            waiting.clear()


def _one_key(part: str, key: ItemKey) -> tuple[bytes, bytes, bytes]:
    return part.encode(), key.pk, key.id.encode()


def _result(row: tuple[Any, ...]) -> tuple[int, int, Row | None]:
    # As `Row._make`, in half the time.
    return row[0], row[1], None if row[2] is None else tuple.__new__(Row, row[2:])


def _next_batch(waiting: deque[_WaitingRead], limit: int) -> list[_WaitingRead]:
    batch: list[_WaitingRead] = []
    while waiting and len(batch) < max(limit, 1):
        read = waiting.popleft()
        if not read[1].done():
            batch.append(read)
    return batch


def _fail(reads: Iterable[_WaitingRead], exc: BaseException) -> None:
    for _, future in reads:
        if not future.done():
            future.set_exception(without_frames(as_client_error(exc)))
