"""The store on PostgreSQL: any number of front ends may share one database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from perseid.clock import ClockSetting, SharedClock
from perseid.conditions import PropertyPath
from perseid.errors import CosmosError, OwnerNotFound, StaleCatalog
from perseid.model import RANGE_SHIFT, Container, ItemKey, Row, StorageUsage
from perseid.store.postgres import change_log, metadata, statements
from perseid.store.postgres.catalog_version import VERSION_SQL, CatalogVersion
from perseid.store.postgres.expiry import LEASE, PostgresExpiry
from perseid.store.postgres.items import PostgresWriter, is_storable_key
from perseid.store.postgres.pool import (
    Pool,
    abort_connections,
    connect,
    fetch_all,
    fetch_one,
    pooled_connection,
)
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.schema import range_key
from perseid.store.types import (
    AccessPath,
    AuditEntry,
    ChangePage,
    ChangeSearch,
    Cleared,
    Decision,
    ExpiryCount,
    LatestPage,
    OnGroups,
    PurgeRequest,
    PurgeResult,
    PutResource,
    RemoveResource,
    Resource,
    Search,
    SearchPage,
    View,
)
from perseid.ttl import (
    Cutoff,
    ExpirySpan,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLOCK_SECONDS: Final = 5.0  # between two looks at the database's clock
_FIRST_CLOCK_READINGS: Final = 5
_CLOSE_TIMEOUT: Final = 10.0  # in which the database must have answered everything, at the end
# How far the database's clock may be behind what was shown before it counts as set back: more
# than two front ends ever differ by.
_SET_BACK: Final = 1.0


class PostgresStore:
    """See `store.protocol.Store`."""

    def __init__(
        self, pool: Pool, version: int, clock: SharedClock, now: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._catalog_version = CatalogVersion(version)
        self.clock = clock
        # Names this front end in leases.
        self._name = secrets.token_hex(8)
        self._writer = PostgresWriter(pool, self._catalog_version, now)
        self._expiry = PostgresExpiry(
            pool, self._catalog_version, now, clock.database_time, self._name
        )
        self._queries = PostgresQueries(pool, self._catalog_version)
        self._watching = asyncio.create_task(self._watch_clock())

    @classmethod
    async def open(
        cls, dsn: str, *, durability: str = "full", now: Callable[[], float] | None = None
    ) -> PostgresStore:
        """StoreError if the database cannot be used; the text says why and holds no password."""
        pool = await connect(dsn, durability)
        try:
            clock = SharedClock()
            for _ in range(_FIRST_CLOCK_READINGS):
                await _read_database_clock(pool, clock)
            reading = await metadata.read_all(pool)
            clock.adopt(reading.clock)
        except BaseException:
            await pool.close()
            raise
        return cls(pool, reading.version, clock, now or clock.now)

    @property
    def catalog_generation(self) -> int:
        return self._catalog_version.catalog_generation

    async def close(self) -> None:
        if self._pool.closed:
            return
        self._watching.cancel()
        finishing = asyncio.ensure_future(self._finish())
        await asyncio.wait((finishing,), timeout=_CLOSE_TIMEOUT)
        if not finishing.done():
            log.warning("the database does not answer; what it was asked last is left to it")
            abort_connections(self._pool)
        await self._pool.close()
        await asyncio.gather(finishing, return_exceptions=True)

    async def _finish(self) -> None:
        """Everything that was submitted."""
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._writer.close()
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
                await _read_database_clock(self._pool, self.clock)
                await metadata.raise_clock(self._pool, self.clock.database_time())
            except CosmosError as exc:
                log.warning("the database's clock could not be read: %s", exc.message)

    # Metadata

    async def check_catalog_version(self) -> None:
        if await metadata.version(self._pool) != self._catalog_version.version:
            raise StaleCatalog

    async def publish_clock(self, setting: ClockSetting) -> None:
        self._catalog_version.version = await metadata.publish_clock(
            self._pool, self._catalog_version.version, setting
        )

    async def get_meta(self, name: str) -> str | None:
        return await metadata.get_meta(self._pool, name)

    async def put_meta(self, name: str, value: str) -> None:
        await metadata.put_meta(self._pool, name, value)

    async def put_meta_if_absent(self, name: str, value: str) -> str:
        return await metadata.put_meta_if_absent(self._pool, name, value)

    async def next_number(self, series: str) -> int:
        return await metadata.next_number(self._pool, series)

    async def resources(self) -> list[Resource]:
        reading = await metadata.read_all(self._pool)
        # At once with what the caller makes of them: nothing is awaited in between.
        self._catalog_version.adopt(reading.version)
        self.clock.adopt(reading.clock)
        return reading.resources

    async def change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        until = self.clock.database_time() + LEASE
        made = await metadata.change(
            self._pool, self._catalog_version.version, changes, self._name, until
        )
        # At once with what the caller makes of it: nothing is awaited behind this. A later version
        # may have been read meanwhile, with this change in it.
        self._catalog_version.version = max(self._catalog_version.version, made)
        for each in changes:
            if not isinstance(each, AuditEntry) and each.resource.kind == "container":
                number, etag = each.resource.state["number"], each.resource.etag
                if isinstance(each, RemoveResource):
                    self._catalog_version.dropped.add(number)
                else:
                    self._catalog_version.changed_etags[number] = etag

    async def audit_entries(
        self, container: str | None, after: int, limit: int
    ) -> list[tuple[int, AuditEntry]]:
        return await metadata.audit_entries(self._pool, container, after, limit)

    # Items

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        part = range_key(container.number, range_index)
        # An id that cannot be stored is not there; the range's LSN is wanted all the same.
        values = (part, *key) if is_storable_key(key) else (part, key.pk, "")
        return await self._read_row(container, statements.READ, values)

    async def read_number(self, container: Container, number: int) -> Row | None:
        part = range_key(container.number, number >> RANGE_SHIFT)
        row, _ = await self._read_row(container, statements.READ_NUMBER, (part, number))
        return row

    async def _read_row(
        self, container: Container, sql: str, values: tuple[Any, ...]
    ) -> tuple[Row | None, int]:
        found = await fetch_one(self._pool, sql, values)
        if found is None:  # dropped a moment ago, here or elsewhere
            await self._check(container)
            raise OwnerNotFound
        version, lsn, *columns = found
        self._catalog_version.check(version, container)
        return (None if columns[0] is None else Row._make(columns)), lsn

    async def lsns(self, container: Container) -> tuple[int, ...]:
        parts = [range_key(container.number, each.index) for each in container.ranges]
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
        return await self._writer.write(container, range_index, keys, decide, is_heavy=is_heavy)

    # Queries

    async def search(self, container: Container, search: Search) -> SearchPage:
        return await self._queries.search(container, search)

    def try_search(self, container: Container, search: Search) -> SearchPage | None:
        return self._queries.try_search(container, search)

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        await self._queries.count_groups(container, search, paths, on_groups)

    async def access_path(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[PropertyPath] | None = None,
    ) -> AccessPath:
        return await self._queries.access_path(container, search, group_paths)

    async def drop_disallowed_indexes(self, container: Container) -> None:
        await self._queries.drop_disallowed_indexes(container)

    async def _check(self, container: Container) -> None:
        self._catalog_version.check(await metadata.version(self._pool), container)

    # The change feed

    async def latest(self, container: Container, search: ChangeSearch) -> LatestPage:
        return await change_log.read_latest(self._pool, self._catalog_version, container, search)

    async def versions(
        self, container: Container, search: ChangeSearch, trimmed_until: int
    ) -> ChangePage:
        return await change_log.read_versions(
            self._pool, self._catalog_version, container, search, trimmed_until
        )

    async def trim_change_log(self, container: Container, trimmed_until: int, limit: int) -> int:
        return await change_log.trim_change_log(self._pool, container, trimmed_until, limit)

    # Lifetimes

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        return await self._expiry.usage(container, range_index, cutoff)

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        return await self._expiry.count_partitions(container, range_index, cutoff)

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        return await self._expiry.purge(request)

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff | None = None,
    ) -> Cleared:
        return await self._expiry.clear_partition(
            container, range_index, pk, cutoff, previous_cutoff or cutoff
        )

    async def purge_cleared(self, limit: int) -> bool:
        return await self._expiry.purge_cleared(limit, self._queries.drop_container)

    async def free_disk_space(self, pages: int) -> int:  # noqa: ARG002 -- the database does that itself
        return 0

    async def expiry_count(
        self, container: Container, range_index: int, span: ExpirySpan
    ) -> ExpiryCount:
        return await self._expiry.expiry_count(container, range_index, span)

    async def histogram(
        self, container: Container, range_index: int, span: ExpirySpan, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        return await self._expiry.histogram(container, range_index, span, origin, width)

    async def sample(
        self, container: Container, range_index: int, span: ExpirySpan, limit: int
    ) -> list[Row]:
        return await self._expiry.sample(container, range_index, span, limit)

    async def invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
        return await self._expiry.invalid_ttls(container, cutoff)


async def _read_database_clock(pool: Pool, clock: SharedClock) -> None:
    """Feeds the clock with the database's, which never goes back behind what it has shown."""
    async with pooled_connection(pool) as db:
        sent = clock.steady()
        # Without a table: on Citus that might be read on another node, which has another clock.
        asked = await db.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        ((now,),) = await asked.fetchall()
        received = clock.steady()
    highest = await metadata.highest_clock(pool)
    clock.add_reading(highest if now < highest - _SET_BACK else now, sent, received)
