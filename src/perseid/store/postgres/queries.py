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

from perseid.conditions import Order, Path, Place
from perseid.model import Container
from perseid.store import property_indexes
from perseid.store.combining import put
from perseid.store.leads import FEW, Lead, best_lead, leads, wanted_ids
from perseid.store.postgres import searching
from perseid.store.postgres.connecting import Pool
from perseid.store.postgres.filters import held
from perseid.store.postgres.freshness import Freshness
from perseid.store.postgres.property_indexes import PropertyIndexes
from perseid.store.postgres.source import Source
from perseid.store.protocol import Access, Page, Scan, Walk


class PostgresQueries:
    """See `store.protocol.Store`, whose methods of these names this is."""

    def __init__(self, pool: Pool, freshness: Freshness) -> None:
        self._pool = pool
        self._freshness = freshness
        self._indexes = PropertyIndexes(pool)

    async def close(self) -> None:
        await self._indexes.close()

    def _source(self, container: Container) -> Source:
        return Source(self._pool, self._freshness, container)

    async def forget(self, number: int) -> None:
        """After a container is gone."""
        await self._indexes.keep(number, lambda _: False)

    async def scan(self, container: Container, scan: Scan) -> Page:
        scan = _held(scan)
        found = await self._lead(container, scan)
        if found is None:
            return await searching.run_scan(self._source(container), scan)
        return await searching.follow(self._source(container), scan, found)

    async def walk(
        self, container: Container, scan: Scan, order: Order, start: Place | None
    ) -> Walk | None:
        if scan.pk_prefix is not None or order.path not in scan.indexable:
            return None
        scan = _held(scan)
        lead = await self._lead(container, scan)
        if lead is not None and lead.path != order.path:
            found = await searching.count_lead(self._source(container), scan, lead, FEW + 1)
            if found <= FEW:
                return None
        if await self._index(container, order.path) is None:
            return None
        return await searching.walk(self._source(container), scan, order, start)

    async def combine(
        self,
        container: Container,
        scan: Scan,
        paths: Sequence[Path],
        take: Callable[[int, dict[str, Any]], None],
    ) -> None:
        scan = _held(scan)
        lead = await self._lead(container, scan)
        if not paths:
            take(await searching.count(self._source(container), scan, lead), {})
            return

        def give(found: list[tuple[Any, ...]]) -> None:
            for times, _, *values in found:
                document: dict[str, Any] = {}
                for path, value in zip(paths, values, strict=True):
                    if value is not None:
                        put(document, path, orjson.loads(value))
                take(times, document)

        batches = searching.combinations(self._source(container), scan, lead, paths)
        async with aclosing(batches):  # its cursor ends with us, whatever happens
            async for found in batches:
                await asyncio.to_thread(give, found)

    async def access(
        self,
        container: Container,
        scan: Scan,
        order: Order | None,
        combined: Sequence[Path] | None = None,  # noqa: ARG002 -- from the items themselves
    ) -> Access:
        scan = _held(scan)
        everything = scan._replace(where=None)
        if scan.pk_prefix is not None:
            within = scan if wanted_ids(scan) else everything
            return Access("key", None, await searching.count(self._source(container), within))
        known = set(await self._indexes.paths(container.number)) & scan.indexable
        for lead in leads(scan.where.condition) if scan.where else ():
            if lead.path in known:
                looked = await searching.count_lead(self._source(container), scan, lead, None)
                if order is None or lead.path == order.path or looked <= FEW:
                    return Access("index", lead.path, looked)
        looked = await searching.count(self._source(container), everything)
        if order is not None and order.path in known:
            return Access("order", order.path, looked)
        return Access("scan", None, looked)

    async def keep_indexes(self, container: Container, keep: Callable[[Path], bool]) -> None:
        await self._indexes.keep(container.number, keep)

    async def _lead(self, container: Container, scan: Scan) -> Lead | None:
        """The part of the condition to follow; its index is made if it pays."""
        found = await best_lead(
            scan,
            lambda path: self._index(container, path),
            lambda lead, _: searching.count_lead(self._source(container), scan, lead, FEW),
        )
        return None if found is None else found[0]

    async def _index(self, container: Container, path: Path) -> str | None:
        """The index over a path, made now if the container is large enough to need one."""
        name = await self._indexes.find(container.number, path)
        if name is not None:
            return name
        least = property_indexes.LEAST_ITEMS
        found = await searching.count(self._source(container), Scan(), most=least)
        if found < least:
            return None
        return await self._indexes.make(container.number, path)


def _held(scan: Scan) -> Scan:
    return scan if scan.where is None else scan._replace(where=held(scan.where))
