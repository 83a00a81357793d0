"""Items by condition on PostgreSQL: chooses the access path and runs the statements.

If a client disconnects, the driver cancels its statement on the server. The statement itself limits
a page in bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from perseid.conditions import PropertyPath
from perseid.index_paths import is_indexable
from perseid.model import Container
from perseid.store.postgres import indexed_groups, indexed_searches, searches
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.indexed_searches import IndexDropped, IndexedSearch
from perseid.store.postgres.indexes import IndexIds, PropertyIndexes
from perseid.store.postgres.pool import Pool
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.storable_filters import storable_filter
from perseid.store.sql import index_limits
from perseid.store.sql.candidates import IndexCandidate, required_ids
from perseid.store.sql.choose_access import NO_INDEX, Access, choose_access
from perseid.store.types import (
    NOT_ORDERED,
    AccessPath,
    GroupCount,
    IndexBuilds,
    OnGroups,
    Search,
    SearchPage,
)

T = TypeVar("T")

# Groups that are passed on without leaving the event loop.
_ON_LOOP: Final = 100
# How often a search chooses its index again after that was dropped; then it goes without.
_ATTEMPTS: Final = 3


class PostgresQueries:
    """See `store.protocol.QueryStore`."""

    is_remote = True

    def __init__(self, pool: Pool, catalog_version: CatalogVersion) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._indexes = PropertyIndexes(pool)

    async def close(self) -> None:
        await self._indexes.close()

    def _target(self, container: Container) -> QueryTarget:
        return QueryTarget(self._pool, self._catalog_version, container, {})

    async def search(self, container: Container, search: Search) -> SearchPage:
        search, target = _storable_search(search), self._target(container)

        async def run(access: Access, indexed: IndexedSearch | None) -> SearchPage:
            if search.order is not None:
                if not access.is_ordered or indexed is None:
                    return NOT_ORDERED
                return await indexed_searches.ordered_search(indexed, search.order)
            if indexed is None or indexed.candidate is None:
                return await searches.scan_items(target, search)
            return await indexed_searches.search_by_index(indexed)

        page = await self._run(target, search, run)
        return page._replace(lsn=target.lsn)

    def try_search(self, container: Container, search: Search) -> SearchPage | None:  # noqa: ARG002
        return None

    def try_count(self, container: Container, search: Search) -> int | None:  # noqa: ARG002
        return None

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        search, target = _storable_search(search), self._target(container)

        async def run(access: Access, indexed: IndexedSearch | None) -> None:
            if not paths:
                on_groups([GroupCount(await _count(target, search, indexed), {})])
                return
            if indexed is not None and [access.path] == [*paths]:
                groups = await indexed_groups.value_groups(indexed, paths[0])
                if groups is not None:
                    await _pass_on(groups, on_groups)
                    return
            await _pass_on(_groups(target, search, indexed, paths), on_groups)

        await self._run(target, search, run, paths)

    async def access_path(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[PropertyPath] | None = None,
    ) -> AccessPath:
        search, target = _storable_search(search), self._target(container)

        async def run(access: Access, indexed: IndexedSearch | None) -> AccessPath:
            if indexed is not None and indexed.candidate is not None:
                examined = await indexed_searches.count_entries(indexed)
            else:
                scope = search if required_ids(search) else search._replace(where=None)
                examined = await searches.count(target, scope)
            path = access.describe(search, examined)
            return path._replace(building=self._building(container, path))

        return await self._run(target, search, run, group_paths or (), creates=False)

    def _building(
        self, container: Container, path: AccessPath
    ) -> tuple[tuple[PropertyPath, float], ...]:
        parts = ((each, self._indexes.progress(container, each)) for each in path.candidates)
        return tuple([(each, part) for each, part in parts if part is not None])

    @property
    def index_builds(self) -> IndexBuilds:
        return self._indexes.builds

    async def drop_disallowed_indexes(self, container: Container) -> None:
        await self._indexes.drop_disallowed(container, lambda path: is_indexable(container, path))

    async def _run(
        self,
        target: QueryTarget,
        search: Search,
        run: Callable[[Access, IndexedSearch | None], Awaitable[T]],
        group_paths: Sequence[PropertyPath] = (),
        *,
        creates: bool = True,
    ) -> T:
        """Chooses an index and runs a search with it, again if it was dropped meanwhile."""
        for _ in range(_ATTEMPTS):
            try:
                chosen = await self._choose_access(target, search, group_paths, creates=creates)
                return await run(*chosen)
            except IndexDropped:
                self._indexes.forget(target.container)
        return await run(NO_INDEX, None)

    async def _choose_access(
        self,
        target: QueryTarget,
        search: Search,
        group_paths: Sequence[PropertyPath],
        *,
        creates: bool,
    ) -> tuple[Access, IndexedSearch | None]:
        indexes: dict[str, IndexIds] = {}

        async def find(path: PropertyPath) -> str | None:
            ids = await self._index(target.container, path, creates=creates)
            if ids is None:
                return None
            name = str(path)
            indexes[name] = ids
            return name

        async def count(candidate: IndexCandidate, name: str, limit: int) -> int:
            indexed = IndexedSearch(target, search, indexes[name], candidate)
            return await indexed_searches.count_entries(indexed, limit)

        access = await choose_access(search, find, count, group_paths)
        if access.index_name is None:
            return access, None
        ids = indexes[access.index_name]
        return access, IndexedSearch(target, search, ids, access.candidate)

    async def _index(
        self, container: Container, path: PropertyPath, *, creates: bool
    ) -> IndexIds | None:
        """The index over a path; it is created if the container is large enough to need it."""
        if not creates:
            return await self._indexes.find_current(container, path)
        ids = await self._indexes.find(container, path)
        if ids is not None:
            return ids
        least = index_limits.LEAST_ITEMS
        items = await searches.count(self._target(container), Search(), most=least)
        return None if items < least else await self._indexes.make(container, path)


async def _count(target: QueryTarget, search: Search, indexed: IndexedSearch | None) -> int:
    if indexed is None:
        return await searches.count(target, search)
    return await indexed_searches.count(indexed)


async def _groups(
    target: QueryTarget,
    search: Search,
    indexed: IndexedSearch | None,
    paths: Sequence[PropertyPath],
) -> indexed_groups.Batches:
    if indexed is not None and indexed.candidate is not None:
        async with aclosing(indexed_groups.item_groups(indexed, paths)) as groups:
            async for batch in groups:
                yield batch
        return
    async with aclosing(searches.combinations(target, search, paths)) as batches:
        async for rows in batches:
            yield await asyncio.to_thread(indexed_groups.json_groups, paths, rows)


async def _pass_on(groups: indexed_groups.Batches, on_groups: OnGroups) -> None:
    async with aclosing(groups):
        async for batch in groups:
            if len(batch) > _ON_LOOP:
                await asyncio.to_thread(on_groups, batch)
            else:
                on_groups(batch)


def _storable_search(search: Search) -> Search:
    return search if search.where is None else search._replace(where=storable_filter(search.where))
