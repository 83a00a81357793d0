"""Indexes over properties on PostgreSQL, made when a query first asks for one.

They are made and dropped without a lock that reads or writes would wait for, by one front end at a
time. Such an index is not part of any transaction: if making it fails, what is left is no index
that the database would use, and it is dropped. Its comment is its path, written when it is ready,
so the database itself says which ones there are.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
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
from perseid.store.sqlite import indexes

log = logging.getLogger(__name__)

# A query waits so many seconds for its index, which may have to wait for transactions of others.
_INDEX_WAIT: Final = 5.0
# What other front ends made or dropped is noticed after so many seconds.
_REREAD_INTERVAL: Final = 5.0
_LOCK_POLL_INTERVAL: Final = 0.02  # seconds between two looks whether it is our turn
_LOCK: Final = 0x7065727365696401  # of the front end that makes or drops indexes

_LIST: Final = (
    "SELECT class.relname, indisvalid AND indisready, obj_description(class.oid, 'pg_class')"
    " FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid"
    " WHERE indrelid = 'items'::regclass AND class.relname ~ '^items_[0-9]+_by_'"
)


class PropertyIndexes:
    """The indexes there are, by container and path, and when each was last asked for."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[int, dict[PropertyPath, str]] = {}
        self._read_at: float | None = None
        self._uses: dict[str, int] = {}
        self._turn = itertools.count(1)
        # By name: what waits for the index, and since when it is being made.
        self._building: dict[str, tuple[asyncio.Future[None], float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: dict[str, float] = {}
        # One connection for all that wait for their turn: requests need the others.
        self._queue = asyncio.Lock()

    async def close(self) -> None:
        """Ends what is being built; the statement on the server as well."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def find(self, number: int, path: PropertyPath) -> str | None:
        """The name of the index over a path, which counts as a use of it."""
        if self._read_at is None or _now() - self._read_at > _REREAD_INTERVAL:
            await self.read()
        name = self._known.get(number, {}).get(path)
        if name is not None:
            self._uses[name] = next(self._turn)
        return name

    async def find_current(self, number: int, path: PropertyPath) -> str | None:
        """The same, also for an index that another server process created a moment ago."""
        await self.read()
        return await self.find(number, path)

    async def read(self) -> None:
        async with pooled_connection(self._pool) as db:
            self._remember(await _listed(db))

    async def make(self, number: int, path: PropertyPath) -> str | None:
        """Makes the index; None if that fails or takes too long, when it may come later."""
        name = _name(number, path)
        failed = self._failed.get(name)
        if failed is not None and _now() - failed < indexes.RETRY_DELAY:
            return None
        ready, since = self._building.get(name, (None, _now()))
        if ready is None:
            ready = asyncio.get_running_loop().create_future()
            self._building[name] = ready, since
            task = asyncio.ensure_future(self._build(number, path, name, ready))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # Others may wait for it when this client has gone, so it goes on.
        await asyncio.wait((ready,), timeout=max(0.0, since + _INDEX_WAIT - _now()))
        return await self.find(number, path) if ready.done() else None

    async def drop_disallowed(
        self, number: int, is_allowed: Callable[[PropertyPath], bool]
    ) -> None:
        """Drops the indexes over paths that are not wanted, and what is left of failed ones.

        If others are at it for long it is done later: nothing wrong comes of an index too many.
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
            log.warning("an index could not be made: %s", exc.sqlstate or type(exc).__name__)
        finally:
            self._end(name, ready)

    def _end(self, name: str, ready: asyncio.Future[None]) -> None:
        """Lets those who wait for the index go on."""
        if not ready.done():
            self._building.pop(name, None)
            ready.set_result(None)

    async def _create(
        self, db: DatabaseConnection, number: int, path: PropertyPath, name: str
    ) -> None:
        found = {each: (is_valid, text) for each, is_valid, text in await _listed(db)}
        is_valid, text = found.get(name, (False, None))
        if not is_valid:
            if name in found:
                await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
            ours = [each for each in found if _container_of(each) == number and each != name]
            if len(ours) >= indexes.MOST_INDEXES:
                least = min(ours, key=lambda each: self._uses.get(each, 0))
                await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{least}"')
            try:
                await db.execute(
                    f'CREATE INDEX CONCURRENTLY "{name}" ON items ({index_columns(path)})'
                    f" WHERE container = {number:d}"
                )
            except BaseException:
                await asyncio.shield(db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"'))
                raise
            if not await _is_there(db, number):  # who removes its items may have been here before
                await db.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
                return
            # Without knowing how many items the container has, the database might sort them all
            # rather than take the first few from the index.
            await db.execute("ANALYZE items (container, part, number)")
        if text is None:
            comment = orjson.dumps(path).decode().replace("'", "''")
            await db.execute(f"COMMENT ON INDEX \"{name}\" IS '{comment}'")

    def _remember(self, found: list[tuple[Any, ...]]) -> None:
        known: dict[int, dict[PropertyPath, str]] = {}
        for name, is_valid, path in found:
            if is_valid and path is not None:
                known.setdefault(_container_of(name), {})[_path_of(path)] = name
        self._known, self._read_at = known, _now()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _name(number: int, path: PropertyPath) -> str:
    """Names have room for 63 bytes, paths are of any length."""
    digest = hashlib.blake2b(orjson.dumps(path), digest_size=12).hexdigest()
    return f"items_{number}_by_{digest}"


def _container_of(name: str) -> int:
    return int(name.split("_")[1])


def _path_of(comment: str) -> PropertyPath:
    return tuple(orjson.loads(comment))


async def _is_there(db: DatabaseConnection, number: int) -> bool:
    """Whether the container has not been dropped: its ranges have their counters."""
    return await _is_true(db, f"SELECT true FROM positions WHERE part = '{range_key(number, 0)}'")


async def _listed(db: DatabaseConnection) -> list[tuple[Any, ...]]:
    return await (await db.execute(_LIST)).fetchall()


@asynccontextmanager
async def _index_lock(db: DatabaseConnection) -> AsyncIterator[None]:
    """No other front end makes or drops indexes meanwhile, and the time limit is off.

    Whoever waited for the lock within a statement would be waited for by the one who builds.
    """
    while not await _is_true(db, f"SELECT pg_try_advisory_lock({_LOCK})"):  # noqa: ASYNC110
        await asyncio.sleep(_LOCK_POLL_INTERVAL)
    cursor = await db.execute("SELECT current_setting('statement_timeout')")
    (limit,) = await cursor.fetchone() or ("0",)
    try:
        await db.execute("SET statement_timeout TO 0")
        yield
    finally:
        await asyncio.shield(_release_index_lock(db, limit))


async def _release_index_lock(db: DatabaseConnection, limit: str) -> None:
    if not db.closed:
        await db.execute("SELECT set_config('statement_timeout', %s, false)", (limit,))
        await db.execute(f"SELECT pg_advisory_unlock({_LOCK})")


async def _is_true(db: DatabaseConnection, sql: str) -> bool:
    found = await (await db.execute(sql)).fetchone()
    return found is not None and bool(found[0])
