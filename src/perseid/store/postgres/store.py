"""Opens the stores on PostgreSQL, which any number of server processes may share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Final

from perseid.clock import SharedClock
from perseid.errors import CosmosError
from perseid.store.postgres import metadata, values
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.change_log import PostgresChanges
from perseid.store.postgres.clearing import PartitionClearing
from perseid.store.postgres.expiry import PostgresExpiry
from perseid.store.postgres.integrity import PostgresIntegrity
from perseid.store.postgres.items import PostgresItems
from perseid.store.postgres.metadata import PostgresMetadata
from perseid.store.postgres.pool import (
    Pool,
    abort_connections,
    connect,
    fetch_all,
)
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.shared_reads import SharedReads
from perseid.store.postgres.stale_sessions import StaleSessions
from perseid.store.postgres.values import PostgresValues
from perseid.store.postgres.writer import PostgresWriter
from perseid.store.protocol import Stores

log = logging.getLogger(__name__)

_CLOCK_SECONDS: Final = 2.0  # between two readings of the database's clock
_FIRST_CLOCK_READINGS: Final = 5
_CLOSE_TIMEOUT: Final = 10.0  # for the last answers of the database


async def open_stores(
    dsn: str, *, durability: str = "full", now: Callable[[], float] | None = None
) -> tuple[Stores, SharedClock]:
    """The stores and their clock; StoreError, without the password, if the database is unusable."""
    process_name = secrets.token_hex(8)  # in leases, and in the names of sessions
    pool = await connect(dsn, durability, process_name)
    try:
        clock = SharedClock()
        for _ in range(_FIRST_CLOCK_READINGS):
            clock.add_reading(*await values.database_clock(pool, clock.steady))
        clock.hold(await values.clock_floor(pool))
        await _persist_clock(pool, clock)
        reading = await metadata.read_all(pool)
        clock.adopt(reading.clock)
    except BaseException:
        await pool.close()
        raise
    catalog_version = CatalogVersion(reading.version)
    stores = _stores(
        pool, catalog_version, clock, now or clock.now, process_name, StaleSessions(dsn)
    )
    return stores, clock


def _stores(
    pool: Pool,
    catalog_version: CatalogVersion,
    clock: SharedClock,
    now: Callable[[], float],
    process_name: str,
    stale_sessions: StaleSessions,
) -> Stores:
    reads = SharedReads(pool)
    writer = PostgresWriter(pool, catalog_version, now)
    queries = PostgresQueries(pool, catalog_version)
    closing = _Closing(pool, clock, reads, writer, queries, process_name, stale_sessions)
    return Stores(
        metadata=PostgresMetadata(pool, catalog_version, clock, process_name),
        values=PostgresValues(pool),
        items=PostgresItems(
            pool, catalog_version, reads, writer, PartitionClearing(pool, catalog_version, now)
        ),
        queries=queries,
        changes=PostgresChanges(pool, catalog_version),
        expiry=PostgresExpiry(pool, catalog_version, now, clock.database_time, process_name),
        integrity=PostgresIntegrity(),
        closing=closing.close,
    )


class _Closing:
    """Follows the database's clock and ends stale sessions until the stores are closed."""

    def __init__(
        self,
        pool: Pool,
        clock: SharedClock,
        reads: SharedReads,
        writer: PostgresWriter,
        queries: PostgresQueries,
        process_name: str,
        stale_sessions: StaleSessions,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._reads = reads
        self._writer = writer
        self._queries = queries
        self._process_name = process_name
        self._watching = [
            asyncio.create_task(self._watch_clock()),
            asyncio.create_task(stale_sessions.watch()),
        ]

    async def close(self) -> None:
        if self._pool.closed:
            return
        for task in self._watching:
            task.cancel()
        finishing = asyncio.ensure_future(self._finish())
        await asyncio.wait((finishing,), timeout=_CLOSE_TIMEOUT)
        if not finishing.done():
            log.warning("the database does not answer; closing its connections")
            abort_connections(self._pool)
        await self._pool.close()
        await self._reads.close()
        await asyncio.gather(finishing, return_exceptions=True)

    async def _finish(self) -> None:
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self._writer.close()
        await self._queries.close()
        with contextlib.suppress(CosmosError):
            await values.lower_clock_limit(self._pool, self._clock.unmoved())
            # Other processes need not wait until the leases expire.
            await fetch_all(
                self._pool,
                "UPDATE positions SET purge_lease_holder = NULL WHERE purge_lease_holder = $1",
                (self._process_name,),
            )

    async def _watch_clock(self) -> None:
        while True:
            await asyncio.sleep(_CLOCK_SECONDS)
            try:
                await _persist_clock(self._pool, self._clock)
            except CosmosError as exc:
                log.warning("the database's clock could not be read: %s", exc.message)


async def _persist_clock(pool: Pool, clock: SharedClock) -> None:
    """Reads the database's clock, and stores what may be shown until the next call."""
    restarts = await values.clock_restarts(pool)
    clock.add_reading(*await values.database_clock(pool, clock.steady))
    # Otherwise a database's clock that was set back would be behind what other processes show.
    clock.hold(await values.highest_clock(pool))
    limit = clock.database_time() + metadata.CLOCK_LIMIT_AHEAD
    await values.raise_clock(pool, clock.unmoved(), limit, restarts)
