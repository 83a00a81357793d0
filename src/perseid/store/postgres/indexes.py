"""Indexes over properties on PostgreSQL, created when a query first needs one.

They are created and dropped CONCURRENTLY, so that reads and writes do not wait, by one server
process at a time. That is no part of a transaction: an index that failed is invalid, and is
dropped. The comment of an index is its path, written when it is ready, so the database lists the
indexes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
import psycopg

from perseid.conditions import PropertyPath
from perseid.store.postgres.conditions_sql import index_columns
from perseid.store.postgres.pool import DatabaseConnection, Pool, pooled_connection
from perseid.store.postgres.schema import range_key
from perseid.store.sql import index_limits

log = logging.getLogger(__name__)

# Seconds that a query waits for its index, which may have to wait for other transactions.
_INDEX_WAIT: Final = 5.0
# After so many seconds the list of indexes is read again: other processes change it, too.
_REREAD_INTERVAL: Final = 5.0
_LOCK_POLL_INTERVAL: Final = 0.02  # seconds between two attempts to get the lock
_IDLE_WITH_LOCK: Final = "10s"
_LOCK: Final = 0x7065727365696401  # of the process that creates or drops indexes

_LIST: Final = (
    "SELECT class.relname, indisvalid AND indisready, obj_description(class.oid, 'pg_class')"
    " FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid"
    " WHERE indrelid = 'items'::regclass AND class.relname ~ '^items_[0-9]+_by_'"
)


class PropertyIndexes:
    """The existing indexes by container and path, and when each was last used."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[int, dict[PropertyPath, str]] = {}
        self._read_at: float | None = None
        self._uses: dict[str, float] = {}
        # By name: a future for the queries that wait, and when the build began.
        self._building: dict[str, tuple[asyncio.Future[None], float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: dict[str, float] = {}
        # One connection for all builds: requests need the others.
        self._queue = asyncio.Lock()

    async def close(self) -> None:
        """Cancels the builds, with their statements on the server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def find(self, number: int, path: PropertyPath) -> str | None:
        """The name of the index over a path; counts as a use of it."""
        if self._read_at is None or _now() - self._read_at > _REREAD_INTERVAL:
            await self.read()
        name = self._known.get(number, {}).get(path)
        if name is not None:
            self._uses[name] = _now()
        return name

    async def find_current(self, number: int, path: PropertyPath) -> str | None:
        """The same, also for an index that another server process created a moment ago."""
        await self.read()
        return await self.find(number, path)

    async def read(self) -> None:
        async with pooled_connection(self._pool) as db:
            self._remember(await _listed(db))

    async def make(self, number: int, path: PropertyPath) -> str | None:
        """Creates the index; None if that fails, or takes longer than the query waits."""
        name = _name(number, path)
        failed = self._failed.get(name)
        if failed is not None and _now() - failed < index_limits.RETRY_DELAY:
            return None
        known = self._known.get(number, {}).values()
        if (
            len(known) >= index_limits.MOST_INDEXES
            and index_limits.replaceable(known, self._uses, _now()) is None
        ):
            return None
        ready, since = self._building.get(name, (None, _now()))
        if ready is None:
            ready = asyncio.get_running_loop().create_future()
            self._building[name] = ready, since
            task = asyncio.ensure_future(self._build(number, path, name, ready))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # It goes on if this client disconnects: other queries may wait for it.
        await asyncio.wait((ready,), timeout=max(0.0, since + _INDEX_WAIT - _now()))
        return await self.find(number, path) if ready.done() else None

    async def drop_disallowed(
        self, number: int, is_allowed: Callable[[PropertyPath], bool]
    ) -> None:
        """Drops the indexes over disallowed paths, and invalid ones.

        If another process holds the lock for long, that happens later: an index too many does no
        harm.
        """
        task = asyncio.ensure_future(self._drop(number, is_allowed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait((task,), timeout=_INDEX_WAIT)

    async def _drop(self, number: int, is_allowed: Callable[[PropertyPath], bool]) -> None:
        def is_disallowed(name: str, is_valid: bool, path: str | None) -> bool:
            is_kept = is_valid and path is not None and is_allowed(_path_of(path))
            return _container_of(name) == number and not is_kept

        try:
            async with self._pool.connection() as db:
                if not any(is_disallowed(*each) for each in await _listed(db)):
                    return
            async with self._queue, self._pool.connection() as db, _index_lock(db):
                for each in await _listed(db):
                    if is_disallowed(*each):
                        await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{each[0]}"')
                self._remember(await _listed(db))
        except psycopg.Error as exc:
            log.warning("indexes could not be dropped: %s", exc.sqlstate or type(exc).__name__)

    async def _build(
        self, number: int, path: PropertyPath, name: str, ready: asyncio.Future[None]
    ) -> None:
        try:
            async with self._queue, self._pool.connection() as db, _index_lock(db):
                await self._create(db, number, path, name)
                self._remember(await _listed(db))
        except psycopg.Error as exc:
            self._failed[name] = _now()
            log.warning("an index could not be created: %s", exc.sqlstate or type(exc).__name__)
        finally:
            self._end(name, ready)

    def _end(self, name: str, ready: asyncio.Future[None]) -> None:
        """Wakes the queries that wait for the index."""
        if not ready.done():
            self._building.pop(name, None)
            ready.set_result(None)

    async def _create(
        self, db: DatabaseConnection, number: int, path: PropertyPath, name: str
    ) -> None:
        existing = {each: (is_valid, text) for each, is_valid, text in await _listed(db)}
        is_valid, text = existing.get(name, (False, None))
        if not is_valid:
            if name in existing:
                await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
            ours = [each for each in existing if _container_of(each) == number and each != name]
            if len(ours) >= index_limits.MOST_INDEXES:
                unused = index_limits.replaceable(ours, self._uses, _now())
                if unused is None:  # others were created meanwhile
                    return
                await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{unused}"')
            try:
                await db.execute(
                    f'CREATE INDEX CONCURRENTLY "{name}" ON items ({index_columns(path)})'
                    f" WHERE container = {number:d}"
                )
            except BaseException:
                await asyncio.shield(db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"'))
                raise
            if not await _is_there(
                db, number
            ):  # its items may have been purged before the index existed
                await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
                return
            # Without statistics about the container, the database might sort all its items rather
            # than take the first few from the index.
            await db.execute("ANALYZE items (container, part, number)")
            self._uses[name] = _now()
        if text is None:
            comment = orjson.dumps(path).decode().replace("'", "''")
            await db.execute(f"COMMENT ON INDEX \"{name}\" IS '{comment}'")

    def _remember(self, listed: list[tuple[Any, ...]]) -> None:
        known: dict[int, dict[PropertyPath, str]] = {}
        for name, is_valid, path in listed:
            if is_valid and path is not None:
                known.setdefault(_container_of(name), {})[_path_of(path)] = name
        self._known, self._read_at = known, _now()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _name(number: int, path: PropertyPath) -> str:
    """A digest: names are limited to 63 bytes, paths are not."""
    digest = hashlib.blake2b(orjson.dumps(path), digest_size=12).hexdigest()
    return f"items_{number}_by_{digest}"


def _container_of(name: str) -> int:
    return int(name.split("_")[1])


def _path_of(comment: str) -> PropertyPath:
    return tuple(orjson.loads(comment))


async def _is_there(db: DatabaseConnection, number: int) -> bool:
    """True unless the container was dropped: then its ranges have no counters."""
    return await _is_true(db, f"SELECT true FROM positions WHERE part = '{range_key(number, 0)}'")


async def _listed(db: DatabaseConnection) -> list[tuple[Any, ...]]:
    return await (await db.execute(_LIST)).fetchall()


@asynccontextmanager
async def _index_lock(db: DatabaseConnection) -> AsyncIterator[None]:
    """Keeps other processes from creating or dropping indexes, and lifts the time limit.

    The lock is polled: a statement that waits for it would block the index that is being built. If
    this process stops between two statements, the database ends the session, and with it the lock.
    """
    await db.execute(f"SET idle_session_timeout TO '{_IDLE_WITH_LOCK}'")
    try:
        while not await _is_true(db, f"SELECT pg_try_advisory_lock({_LOCK})"):  # noqa: ASYNC110
            await asyncio.sleep(_LOCK_POLL_INTERVAL)
        cursor = await db.execute("SELECT current_setting('statement_timeout')")
        (limit,) = await cursor.fetchone() or ("0",)
        try:
            await db.execute("SET statement_timeout TO 0")
            yield
        finally:
            await asyncio.shield(_release_index_lock(db, limit))
    finally:
        if not db.closed:
            await asyncio.shield(db.execute("RESET idle_session_timeout"))


async def _release_index_lock(db: DatabaseConnection, limit: str) -> None:
    if not db.closed:
        await db.execute("SELECT set_config('statement_timeout', %s, false)", (limit,))
        await db.execute(f"SELECT pg_advisory_unlock({_LOCK})")


async def _is_true(db: DatabaseConnection, sql: str) -> bool:
    row = await (await db.execute(sql)).fetchone()
    return row is not None and bool(row[0])
