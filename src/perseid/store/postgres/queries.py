"""Reads of many items on PostgreSQL: chooses between indexes and scans.

Statements run on the server while the event loop goes on; if nobody waits for one any longer, the
driver cancels it there too. A page is bounded in bytes by the statement itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from perseid.conditions import Order, OrderPosition, PropertyPath
from perseid.index_paths import is_indexable
from perseid.model import Container
from perseid.store.postgres import searches
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.indexes import PropertyIndexes
from perseid.store.postgres.pool import Pool
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.storable_filters import storable_filter
from perseid.store.sql.candidates import (
    SORTED_UP_TO,
    IndexCandidate,
    best_candidate,
    leads,
    required_ids,
)
from perseid.store.sqlite import indexes
from perseid.store.sqlite.group_counts import put
from perseid.store.types import AccessPath, OrderedPage, Page, Search


class PostgresQueries:
    """See `store.protocol.Store`, whose methods of these names this is."""

    def __init__(self, pool: Pool, freshness: CatalogVersion) -> None:
        self._pool = pool
        self._catalog_version = freshness
        self._indexes = PropertyIndexes(pool)

    async def close(self) -> None:
        await self._indexes.close()

    def _target(self, container: Container) -> QueryTarget:
        return QueryTarget(self._pool, self._catalog_version, container)

    async def drop_container(self, number: int) -> None:
        """After a container is gone."""
        await self._indexes.drop_disallowed(number, lambda _: False)

    async def search(self, container: Container, search: Search) -> Page:
        search = _storable_search(search)
        found = await self._candidate(container, search)
        if found is None:
            return await searches.scan_items(self._target(container), search)
        return await searches.search_by_index(self._target(container), search, found)

    async def ordered_search(
        self, container: Container, search: Search, order: Order, start: OrderPosition | None
    ) -> OrderedPage | None:
        if search.pk_prefix is not None or order.path not in search.indexable:
            return None
        search = _storable_search(search)
        candidate = await self._candidate(container, search)
        if candidate is not None and candidate.path != order.path:
            found = await searches.count_candidate(
                self._target(container), search, candidate, SORTED_UP_TO + 1
            )
            if found <= SORTED_UP_TO:
                return None
        if await self._index(container, order.path) is None:
            return None
        return await searches.ordered_search(self._target(container), search, order, start)

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_group: Callable[[int, dict[str, Any]], None],
    ) -> None:
        search = _storable_search(search)
        candidate = await self._candidate(container, search)
        if not paths:
            on_group(await searches.count(self._target(container), search, candidate), {})
            return

        def give(found: list[tuple[Any, ...]]) -> None:
            for times, _, *values in found:
                document: dict[str, Any] = {}
                for path, value in zip(paths, values, strict=True):
                    if value is not None:
                        put(document, path, orjson.loads(value))
                on_group(times, document)

        batches = searches.combinations(self._target(container), search, candidate, paths)
        async with aclosing(batches):  # its cursor ends with us, whatever happens
            async for found in batches:
                await asyncio.to_thread(give, found)

    async def access_path(
        self,
        container: Container,
        search: Search,
        order: Order | None,
        grouped_paths: Sequence[PropertyPath] | None = None,  # noqa: ARG002 -- from the items themselves
    ) -> AccessPath:
        search = _storable_search(search)
        everything = search._replace(where=None)
        if search.pk_prefix is not None:
            within = search if required_ids(search) else everything
            return AccessPath("key", None, await searches.count(self._target(container), within))
        known = set(await self._indexes.paths(container.number)) & search.indexable
        for candidate in leads(search.where.condition) if search.where else ():
            if candidate.path in known:
                examined = await searches.count_candidate(
                    self._target(container), search, candidate, None
                )
                if order is None or candidate.path == order.path or examined <= SORTED_UP_TO:
                    return AccessPath("index", candidate.path, examined)
        examined = await searches.count(self._target(container), everything)
        if order is not None and order.path in known:
            return AccessPath("order", order.path, examined)
        return AccessPath("scan", None, examined)

    async def drop_disallowed_indexes(self, container: Container) -> None:
        await self._indexes.drop_disallowed(
            container.number, lambda path: is_indexable(container, path)
        )

    async def _candidate(self, container: Container, search: Search) -> IndexCandidate | None:
        """The part of the condition to follow; its index is made if it pays."""
        found = await best_candidate(
            search,
            lambda path: self._index(container, path),
            lambda candidate, _: searches.count_candidate(
                self._target(container), search, candidate, SORTED_UP_TO
            ),
        )
        return None if found is None else found[0]

    async def _index(self, container: Container, path: PropertyPath) -> str | None:
        """The index over a path, made now if the container is large enough to need one."""
        name = await self._indexes.find(container.number, path)
        if name is not None:
            return name
        least = indexes.LEAST_ITEMS
        found = await searches.count(self._target(container), Search(), most=least)
        if found < least:
            return None
        return await self._indexes.make(container.number, path)


def _storable_search(search: Search) -> Search:
    return search if search.where is None else search._replace(where=storable_filter(search.where))
