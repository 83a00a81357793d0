"""The store on PostgreSQL: any number of front ends may share one database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from perseid.clock import ClockSetting, SharedClock
from perseid.conditions import Order, Path, Place
from perseid.errors import CosmosError, OwnerNotFound
from perseid.model import RANGE_SHIFT, Container, ItemKey, Row, Usage
from perseid.store.postgres import changes, metadata, statements
from perseid.store.postgres.connecting import Pool, borrowed, connect, cut, fetch_all, fetch_one
from perseid.store.postgres.freshness import VERSION_SQL, Freshness
from perseid.store.postgres.lifetimes import LEASE, Lifetimes
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.schema import part_of
from perseid.store.postgres.writing import Writing, can_be
from perseid.store.protocol import (
    NO_AGES,
    Access,
    Ages,
    ChangePage,
    ChangeScan,
    Cleared,
    Corpse,
    Decision,
    LatestPage,
    Note,
    Page,
    PutResource,
    RemoveResource,
    Resource,
    Scan,
    Span,
    StaleCatalog,
    Tally,
    View,
    Walk,
)
from perseid.ttl import Horizon

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLOCK_SECONDS: Final = 5.0  # between two looks at the database's clock
_FIRST_LOOKS: Final = 5
_LAST_SECONDS: Final = 10.0  # in which the database must have answered everything, at the end
# How far the database's clock may be behind what was shown before it counts as set back: more
# than two front ends ever differ by.
_SET_BACK: Final = 1.0


class PostgresStore:
    """See `store.protocol.Store`."""

    def __init__(
        self, pool: Pool, version: int, clock: SharedClock, now: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._freshness = Freshness(version)
        self.clock = clock
        # Names this front end in leases.
        self._name = secrets.token_hex(8)
        self._writing = Writing(pool, self._freshness, now)
        self._lifetimes = Lifetimes(pool, self._freshness, now, clock.unmoved, self._name)
        self._queries = PostgresQueries(pool, self._freshness)
        self._watching = asyncio.create_task(self._watch_clock())

    @classmethod
    async def open(
        cls, dsn: str, *, durability: str = "full", now: Callable[[], float] | None = None
    ) -> PostgresStore:
        """StoreError if the database cannot be used; the text says why and holds no password."""
        pool = await connect(dsn, durability)
        try:
            clock = SharedClock()
            for _ in range(_FIRST_LOOKS):
                await _look(pool, clock)
            reading = await metadata.read_all(pool)
            clock.adopt(reading.clock)
        except BaseException:
            await pool.close()
            raise
        return cls(pool, reading.version, clock, now or clock.now)

    @property
    def epoch(self) -> int:
        return self._freshness.epoch

    async def close(self) -> None:
        if self._pool.closed:
            return
        self._watching.cancel()
        finishing = asyncio.ensure_future(self._finish())
        await asyncio.wait((finishing,), timeout=_LAST_SECONDS)
        if not finishing.done():
            log.warning("the database does not answer; what it was asked last is left to it")
            cut(self._pool)
        await self._pool.close()
        await asyncio.gather(finishing, return_exceptions=True)

    async def _finish(self) -> None:
        """Everything that was submitted."""
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._writing.close()
        await self._queries.close()
        with contextlib.suppress(CosmosError):
            # Whoever is left need not wait for the leases to end.
            await fetch_all(
                self._pool, "UPDATE positions SET purger = NULL WHERE purger = $1", (self._name,)
            )

    async def _watch_clock(self) -> None:
        while True:
            await asyncio.sleep(_CLOCK_SECONDS)
            try:
                await _look(self._pool, self.clock)
                await metadata.raise_clock(self._pool, self.clock.unmoved())
            except CosmosError as exc:
                log.warning("the database's clock could not be read: %s", exc.message)

    # Metadata

    async def confirm(self) -> None:
        if await metadata.version(self._pool) != self._freshness.version:
            raise StaleCatalog

    async def share_clock(self, setting: ClockSetting) -> None:
        self._freshness.version = await metadata.share_clock(
            self._pool, self._freshness.version, setting
        )

    async def get_meta(self, name: str) -> str | None:
        return await metadata.get_meta(self._pool, name)

    async def put_meta(self, name: str, value: str) -> None:
        await metadata.put_meta(self._pool, name, value)

    async def keep_meta(self, name: str, value: str) -> str:
        return await metadata.keep_meta(self._pool, name, value)

    async def next_number(self, series: str) -> int:
        return await metadata.next_number(self._pool, series)

    async def resources(self) -> list[Resource]:
        reading = await metadata.read_all(self._pool)
        # At once with what the caller makes of them: nothing is awaited in between.
        self._freshness.adopt(reading.version)
        self.clock.adopt(reading.clock)
        return reading.resources

    async def change(self, changes: Sequence[PutResource | RemoveResource | Note]) -> None:
        until = self.clock.unmoved() + LEASE
        made = await metadata.change(
            self._pool, self._freshness.version, changes, self._name, until
        )
        # At once with what the caller makes of it: nothing is awaited behind this. A later version
        # may have been read meanwhile, with this change in it.
        self._freshness.version = max(self._freshness.version, made)
        for each in changes:
            if not isinstance(each, Note) and each.resource.kind == "container":
                number, etag = each.resource.state["number"], each.resource.etag
                if isinstance(each, RemoveResource):
                    self._freshness.gone.add(number)
                else:
                    self._freshness.renewed[number] = etag

    async def notes(self, container: str | None, after: int, limit: int) -> list[tuple[int, Note]]:
        return await metadata.notes(self._pool, container, after, limit)

    # Items

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        part = part_of(container.number, range_index)
        # An id that cannot be stored is not there; the range's LSN is wanted all the same.
        values = (part, *key) if can_be(key) else (part, key.pk, "")
        return await self._one(container, statements.READ, values)

    async def read_number(self, container: Container, number: int) -> Row | None:
        part = part_of(container.number, number >> RANGE_SHIFT)
        row, _ = await self._one(container, statements.READ_NUMBER, (part, number))
        return row

    async def _one(
        self, container: Container, sql: str, values: tuple[Any, ...]
    ) -> tuple[Row | None, int]:
        found = await fetch_one(self._pool, sql, values)
        if found is None:  # dropped a moment ago, here or elsewhere
            await self._check(container)
            raise OwnerNotFound("Owner resource does not exist")
        version, lsn, *columns = found
        self._freshness.check(version, container)
        return (None if columns[0] is None else Row._make(columns)), lsn

    async def lsns(self, container: Container) -> tuple[int, ...]:
        parts = [part_of(container.number, each.index) for each in container.ranges]
        rows = await fetch_all(
            self._pool,
            f"SELECT part, lsn, {VERSION_SQL} FROM positions WHERE part = ANY($1)",
            (parts,),
        )
        found = {part: lsn for part, lsn, _ in rows}
        return tuple(found.get(part, 0) for part in parts)

    async def write(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
        *,
        is_heavy: bool = False,
    ) -> T:
        return await self._writing.write(container, range_index, keys, decide, is_heavy=is_heavy)

    # Queries

    async def scan(self, container: Container, scan: Scan) -> Page:
        return await self._queries.scan(container, scan)

    async def walk(
        self,
        container: Container,
        scan: Scan,
        order: Order,
        start: Place | None,
    ) -> Walk | None:
        return await self._queries.walk(container, scan, order, start)

    def at_once(self, container: Container, scan: Scan, order: Order | None) -> Page | None:  # noqa: ARG002
        return None  # the database is a way off

    async def combine(
        self,
        container: Container,
        scan: Scan,
        paths: Sequence[Path],
        take: Callable[[int, dict[str, Any]], None],
    ) -> None:
        await self._queries.combine(container, scan, paths, take)

    async def access(
        self,
        container: Container,
        scan: Scan,
        order: Order | None,
        combined: Sequence[Path] | None = None,
    ) -> Access:
        return await self._queries.access(container, scan, order, combined)

    async def keep_indexes(self, container: Container, keep: Callable[[Path], bool]) -> None:
        await self._queries.keep_indexes(container, keep)

    async def _check(self, container: Container) -> None:
        self._freshness.check(await metadata.version(self._pool), container)

    # The change feed

    async def latest(self, container: Container, scan: ChangeScan) -> LatestPage:
        return await changes.read_latest(self._pool, self._freshness, container, scan)

    async def versions(self, container: Container, scan: ChangeScan, lost: int) -> ChangePage:
        return await changes.read_versions(self._pool, self._freshness, container, scan, lost)

    async def forget(self, container: Container, lost: int, limit: int) -> int:
        return await changes.forget(self._pool, container, lost, limit)

    # Lifetimes

    async def usage(self, container: Container, range_index: int, horizon: Horizon) -> Usage:
        return await self._lifetimes.usage(container, range_index, horizon)

    async def count_keys(self, container: Container, range_index: int, horizon: Horizon) -> int:
        return await self._lifetimes.count_keys(container, range_index, horizon)

    async def purge(
        self,
        container: Container,
        range_index: int,
        horizon: Horizon,
        *,
        limit: int,
        ages: Ages = NO_AGES,
        spare: Horizon | None = None,
        afford: Callable[[Sequence[Corpse]], int] | None = None,
        takes_over: bool = False,
    ) -> list[Corpse]:
        return await self._lifetimes.purge(
            container,
            range_index,
            horizon,
            limit=limit,
            ages=ages,
            spare=spare,
            afford=afford,
            takes_over=takes_over,
        )

    async def clear(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        horizon: Horizon,
        spare: Horizon | None = None,
    ) -> Cleared:
        return await self._lifetimes.clear(container, range_index, pk, horizon, spare or horizon)

    async def reap(self, limit: int) -> bool:
        return await self._lifetimes.reap(limit, self._queries.forget)

    async def reclaim(self, pages: int) -> int:  # noqa: ARG002 -- the database does that itself
        return 0

    async def tally(self, container: Container, range_index: int, span: Span) -> Tally:
        return await self._lifetimes.tally(container, range_index, span)

    async def histogram(
        self, container: Container, range_index: int, span: Span, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        return await self._lifetimes.histogram(container, range_index, span, origin, width)

    async def sample(
        self, container: Container, range_index: int, span: Span, limit: int
    ) -> list[Row]:
        return await self._lifetimes.sample(container, range_index, span, limit)

    async def invalid_ttls(self, container: Container, horizon: Horizon) -> int:
        return await self._lifetimes.invalid_ttls(container, horizon)


async def _look(pool: Pool, clock: SharedClock) -> None:
    """Feeds the clock with the database's, which never goes back behind what it has shown."""
    async with borrowed(pool) as db:
        sent = clock.steady()
        # Without a table: on Citus that might be read on another node, which has another clock.
        asked = await db.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        ((now,),) = await asked.fetchall()
        received = clock.steady()
    highest = await metadata.highest_clock(pool)
    clock.feed(highest if now < highest - _SET_BACK else now, sent, received)
