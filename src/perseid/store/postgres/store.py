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
from perseid.store.postgres.items import PostgresItems
from perseid.store.postgres.metadata import PostgresMetadata
from perseid.store.postgres.pool import (
    Pool,
    abort_connections,
    connect,
    fetch_all,
    pooled_connection,
)
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.values import PostgresValues
from perseid.store.postgres.writer import PostgresWriter
from perseid.store.protocol import Stores

log = logging.getLogger(__name__)

_CLOCK_SECONDS: Final = 5.0  # between two readings of the database's clock
_FIRST_CLOCK_READINGS: Final = 5
_CLOSE_TIMEOUT: Final = 10.0  # for the last answers of the database
# How far the database's clock may be behind what it has shown before it counts as set back: more
# than two server processes ever differ by.
_SET_BACK: Final = 1.0


async def open_stores(
    dsn: str, *, durability: str = "full", now: Callable[[], float] | None = None
) -> tuple[Stores, SharedClock]:
    """The stores and their clock; StoreError, without the password, if the database is unusable."""
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
    return _stores(pool, CatalogVersion(reading.version), clock, now or clock.now), clock


def _stores(
    pool: Pool, catalog_version: CatalogVersion, clock: SharedClock, now: Callable[[], float]
) -> Stores:
    process_name = secrets.token_hex(8)  # in leases
    writer = PostgresWriter(pool, catalog_version, now)
    queries = PostgresQueries(pool, catalog_version)
    closing = _Closing(pool, clock, writer, queries, process_name)
    return Stores(
        metadata=PostgresMetadata(pool, catalog_version, clock, process_name),
        values=PostgresValues(pool),
        items=PostgresItems(
            pool, catalog_version, writer, PartitionClearing(pool, catalog_version, now)
        ),
        queries=queries,
        changes=PostgresChanges(pool, catalog_version),
        expiry=PostgresExpiry(
            pool, catalog_version, now, clock.database_time, process_name, queries.drop_container
        ),
        closing=closing.close,
    )


class _Closing:
    """Follows the database's clock until the stores are closed."""

    def __init__(
        self,
        pool: Pool,
        clock: SharedClock,
        writer: PostgresWriter,
        queries: PostgresQueries,
        process_name: str,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._writer = writer
        self._queries = queries
        self._process_name = process_name
        self._watching = asyncio.create_task(self._watch_clock())

    async def close(self) -> None:
        if self._pool.closed:
            return
        self._watching.cancel()
        finishing = asyncio.ensure_future(self._finish())
        await asyncio.wait((finishing,), timeout=_CLOSE_TIMEOUT)
        if not finishing.done():
            log.warning("the database does not answer; closing its connections")
            abort_connections(self._pool)
        await self._pool.close()
        await asyncio.gather(finishing, return_exceptions=True)

    async def _finish(self) -> None:
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._writer.close()
        await self._queries.close()
        with contextlib.suppress(CosmosError):
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
                await _read_database_clock(self._pool, self._clock)
                await values.raise_clock(self._pool, self._clock.database_time())
            except CosmosError as exc:
                log.warning("the database's clock could not be read: %s", exc.message)


async def _read_database_clock(pool: Pool, clock: SharedClock) -> None:
    """Adds a reading of the database's clock, which must not go back behind what it has shown."""
    async with pooled_connection(pool) as db:
        sent = clock.steady()
        # Without a table: on Citus that might be read on another node, which has another clock.
        asked = await db.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        ((now,),) = await asked.fetchall()
        received = clock.steady()
    highest = await values.highest_clock(pool)
    clock.add_reading(highest if now < highest - _SET_BACK else now, sent, received)
