"""The property indexes of containers on PostgreSQL, created when a query first needs one.

They are filled in the background, by one task at a time, while reads and writes go on. What this
process knows of them may be outdated: each search checks in its own statement that its index is
still complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
import psycopg

from perseid.conditions import PropertyPath
from perseid.model import Container
from perseid.store.postgres import property_indexes
from perseid.store.postgres.failures import as_client_error
from perseid.store.postgres.pool import Pool
from perseid.store.postgres.property_indexes import ListedIndex
from perseid.store.postgres.schema import range_key
from perseid.store.sql import index_limits
from perseid.store.types import IndexBuilds

log = logging.getLogger(__name__)

# Seconds that a query waits for its index.
_INDEX_WAIT: Final = 5.0
# After so many seconds the list of indexes is read again: other processes change it, too.
_REREAD_INTERVAL: Final = 5.0
# Marks the pages of new entries as visible to all, so that scans need not look at them. It does not
# wait, neither for locks nor for old transactions.
_VACUUM: Final = "VACUUM (SKIP_LOCKED, INDEX_CLEANUP off, TRUNCATE off) property_values"

# The ids of an index by the range that it covers.
IndexIds: TypeAlias = Mapping[str, int]


class _KnownIndexes(NamedTuple):
    read_at: float
    ids: Mapping[PropertyPath, IndexIds]  # of those that are complete in all ranges
    filling: Mapping[PropertyPath, float]  # the part of the items that has entries


class _Build(NamedTuple):
    ready: asyncio.Future[None]  # for the queries that wait
    since: float


class PropertyIndexes:
    """The existing indexes by container and path, and when each was last used."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[int, _KnownIndexes] = {}
        self._uses: dict[str, float] = {}
        self._building: dict[str, _Build] = {}
        self._failed: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # One build at a time: requests need the other connections.
        self._queue = asyncio.Lock()
        self._progress = 1.0  # of the current build

    async def close(self) -> None:
        """Cancels the builds, with their statements on the server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def builds(self) -> IndexBuilds:
        return IndexBuilds(len(self._building), self._progress)

    async def find(self, container: Container, path: PropertyPath) -> IndexIds | None:
        """The ids of the index over a path; counts as a use of it."""
        known = self._known.get(container.number)
        if known is None or _now() - known.read_at > _REREAD_INTERVAL:
            known = await self._read(container)
        ids = known.ids.get(path)
        if ids is not None:
            self._uses[_name(container.number, path)] = _now()
        return ids

    async def find_current(self, container: Container, path: PropertyPath) -> IndexIds | None:
        """The same, also for an index that another server process created a moment ago."""
        await self._read(container)
        return await self.find(container, path)

    def progress(self, container: Container, path: PropertyPath) -> float | None:
        """The part of the items that an index covers which is being created."""
        known = self._known.get(container.number)
        return None if known is None else known.filling.get(path)

    def forget(self, container: Container) -> None:
        """The list of indexes has changed."""
        self._known.pop(container.number, None)

    async def make(self, container: Container, path: PropertyPath) -> IndexIds | None:
        """Creates the index; None if that fails, or takes longer than the query waits."""
        name = _name(container.number, path)
        failed = self._failed.get(name)
        if failed is not None and _now() - failed < index_limits.RETRY_DELAY:
            return None
        known = self._known.get(container.number)
        if known is not None and not self._has_room(container, known.ids):
            return None
        build = self._building.get(name)
        if build is None:
            build = _Build(asyncio.get_running_loop().create_future(), _now())
            self._building[name] = build
            self._start(self._build(container, path, name))
        # It goes on if this client disconnects: other queries may wait for it.
        remaining = build.since + _INDEX_WAIT - _now()
        await asyncio.wait((build.ready,), timeout=max(0.0, remaining))
        return await self.find(container, path) if build.ready.done() else None

    async def drop_disallowed(
        self, container: Container, is_allowed: Callable[[PropertyPath], bool]
    ) -> None:
        """Drops the indexes over disallowed paths. That goes on in the background if it takes long:
        an index too many does no harm."""
        task = self._start(self._drop_disallowed(container, is_allowed))
        await asyncio.wait((task,), timeout=_INDEX_WAIT)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _has_room(self, container: Container, paths: Iterable[PropertyPath]) -> bool:
        """True if another index may be created, perhaps instead of one that is not used."""
        names = [_name(container.number, each) for each in paths]
        if len(names) < index_limits.MOST_INDEXES:
            return True
        return index_limits.replaceable(names, self._uses, _now()) is not None

    async def _read(self, container: Container) -> _KnownIndexes:
        parts = _parts(container)
        try:
            rows = await property_indexes.listed(self._pool, parts)
        except psycopg.Error as exc:
            raise as_client_error(exc) from exc
        known = _known(rows, parts)
        self._known[container.number] = known
        return known

    async def _drop_disallowed(
        self, container: Container, is_allowed: Callable[[PropertyPath], bool]
    ) -> None:
        try:
            rows = await property_indexes.listed(self._pool, _parts(container))
            dropped = [each for each in rows if each.is_dropping or not is_allowed(each.path)]
            if dropped:
                async with self._queue:
                    await self._drop(dropped)
                await self._read(container)
        except psycopg.Error as exc:
            log.warning("indexes could not be dropped: %s", exc.sqlstate or type(exc).__name__)

    async def _drop(self, dropped: Sequence[ListedIndex]) -> None:
        for each in dropped:
            if not each.is_dropping:
                await property_indexes.mark_dropping(self._pool, each.part, each.id)
        for each in dropped:
            while await property_indexes.remove_step(self._pool, each.part, each.id):
                pass

    async def _build(self, container: Container, path: PropertyPath, name: str) -> None:
        try:
            async with self._queue:
                await self._create(container, path, name)
                await self._read(container)
        except psycopg.Error as exc:
            self._failed[name] = _now()
            log.warning("an index could not be created: %s", exc.sqlstate or type(exc).__name__)
        finally:
            self._progress = 1.0
            self._building.pop(name).ready.set_result(None)

    async def _create(self, container: Container, path: PropertyPath, name: str) -> None:
        parts = _parts(container)
        if not await self._make_room(container, path):
            return  # others were created meanwhile
        indexes = [(part, await property_indexes.add(self._pool, part, path)) for part in parts]
        for done, (part, index) in enumerate(indexes):
            if index is None:
                return  # the container was dropped
            filled = 0.0
            while filled < 1.0:
                filled = await property_indexes.fill_step(self._pool, part, index)
                self._progress = (done + filled) / len(parts)
        self._uses[name] = _now()
        with contextlib.suppress(psycopg.Error):  # the database does it later by itself
            async with self._pool.connection() as db:
                await db.execute(_VACUUM)

    async def _make_room(self, container: Container, path: PropertyPath) -> bool:
        """Drops an index for another one if there are many; False if all of them are in use."""
        rows = await property_indexes.listed(self._pool, _parts(container))
        dropped = [each for each in rows if each.is_dropping]
        paths = {_name(container.number, each.path): each.path for each in rows}
        others = [name for name, other in paths.items() if other != path]
        has_room = True
        if len(others) >= index_limits.MOST_INDEXES:
            unused = index_limits.replaceable(others, self._uses, _now())
            has_room = unused is not None
            if unused is not None:
                dropped += [each for each in rows if each.path == paths[unused]]
        await self._drop(dropped)
        return has_room


def _known(rows: Iterable[ListedIndex], parts: Sequence[str]) -> _KnownIndexes:
    by_path: dict[PropertyPath, list[ListedIndex]] = {}
    for each in rows:
        if not each.is_dropping:
            by_path.setdefault(each.path, []).append(each)
    ids: dict[PropertyPath, IndexIds] = {}
    filling: dict[PropertyPath, float] = {}
    for path, listed in by_path.items():
        if len(listed) == len(parts) and all(each.is_ready for each in listed):
            ids[path] = {each.part: each.id for each in listed}
        else:
            filling[path] = sum(each.filled_part for each in listed) / len(parts)
    return _KnownIndexes(_now(), ids, filling)


def _parts(container: Container) -> list[str]:
    return [range_key(container.number, each.index) for each in container.ranges]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _name(number: int, path: PropertyPath) -> str:
    return f"{number} {orjson.dumps(path).decode()}"
