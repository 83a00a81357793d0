"""Items by condition on PostgreSQL: chooses the access path and runs the statements.

If a client disconnects, the driver cancels its statement on the server. The statement itself limits
a page in bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import orjson

from perseid.conditions import PropertyPath
from perseid.index_paths import is_indexable
from perseid.model import Container
from perseid.store.postgres import searches
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.indexes import PropertyIndexes
from perseid.store.postgres.pool import Pool
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.storable_filters import storable_filter
from perseid.store.sql import index_limits
from perseid.store.sql.candidates import IndexCandidate, required_ids
from perseid.store.sql.choose_access import Access, choose_access
from perseid.store.sql.group_documents import put_value
from perseid.store.types import (
    NOT_ORDERED,
    AccessPath,
    GroupCount,
    OnGroups,
    Search,
    SearchPage,
)


class PostgresQueries:
    """See `store.protocol.QueryStore`."""

    def __init__(self, pool: Pool, catalog_version: CatalogVersion) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._indexes = PropertyIndexes(pool)

    async def close(self) -> None:
        await self._indexes.close()

    def _target(self, container: Container) -> QueryTarget:
        return QueryTarget(self._pool, self._catalog_version, container)

    async def drop_container(self, number: int) -> None:
        """Drops the indexes of a dropped container."""
        await self._indexes.drop_disallowed(number, lambda _: False)

    async def search(self, container: Container, search: Search) -> SearchPage:
        search = _storable_search(search)
        access = await self._choose_access(container, search)
        target = self._target(container)
        if search.order is not None:
            if not access.is_ordered:
                return NOT_ORDERED
            return await searches.ordered_search(target, search, search.order)
        if access.candidate is None:
            return await searches.scan_items(target, search)
        return await searches.search_by_index(target, search, access.candidate)

    def try_search(self, container: Container, search: Search) -> SearchPage | None:  # noqa: ARG002
        return None  # every answer of the database takes a round trip

    def try_count(self, container: Container, search: Search) -> int | None:  # noqa: ARG002
        return None

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        search = _storable_search(search)
        candidate = (await self._choose_access(container, search)).candidate
        if not paths:
            count = await searches.count(self._target(container), search, candidate)
            on_groups([GroupCount(count, {})])
            return

        def decode(rows: list[tuple[Any, ...]]) -> None:
            on_groups(_group_count(paths, *row) for row in rows)

        batches = searches.combinations(self._target(container), search, candidate, paths)
        async with aclosing(batches):  # closes the server's cursor in any case
            async for rows in batches:
                await asyncio.to_thread(decode, rows)

    async def access_path(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[PropertyPath] | None = None,  # noqa: ARG002 -- counted without an index
    ) -> AccessPath:
        search, target = _storable_search(search), self._target(container)
        access = await self._choose_access(container, search, creates=False)
        if access.candidate is not None:
            examined = await searches.count_candidate(target, search, access.candidate, None)
        else:
            scope = search if required_ids(search) else search._replace(where=None)
            examined = await searches.count(target, scope)
        return access.describe(search, examined)

    async def drop_disallowed_indexes(self, container: Container) -> None:
        await self._indexes.drop_disallowed(
            container.number, lambda path: is_indexable(container, path)
        )

    async def _choose_access(
        self, container: Container, search: Search, *, creates: bool = True
    ) -> Access:
        async def find(path: PropertyPath) -> str | None:
            if creates:
                return await self._index(container, path)
            return await self._indexes.find_current(container.number, path)

        async def count(candidate: IndexCandidate, _index: str, limit: int) -> int:
            return await searches.count_candidate(self._target(container), search, candidate, limit)

        return await choose_access(search, find, count)

    async def _index(self, container: Container, path: PropertyPath) -> str | None:
        """The index over a path; it is created if the container is large enough to need it."""
        name = await self._indexes.find(container.number, path)
        if name is not None:
            return name
        least = index_limits.LEAST_ITEMS
        items = await searches.count(self._target(container), Search(), most=least)
        if items < least:
            return None
        return await self._indexes.make(container.number, path)


def _storable_search(search: Search) -> Search:
    return search if search.where is None else search._replace(where=storable_filter(search.where))


def _group_count(
    paths: Sequence[PropertyPath], items: int, _first: int, *values: Any
) -> GroupCount:
    document: dict[str, Any] = {}
    for path, value in zip(paths, values, strict=True):
        if value is not None:
            put_value(document, path, orjson.loads(value))
    return GroupCount(items, document)
