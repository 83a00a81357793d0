"""Items by key on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from perseid.errors import OwnerNotFound
from perseid.model import RANGE_SHIFT, Container, ItemKey, Row, StorageUsage
from perseid.store.postgres import metadata, statements
from perseid.store.postgres.catalog_version import VERSION_SQL, CatalogVersion
from perseid.store.postgres.clearing import PartitionClearing
from perseid.store.postgres.placeholders import positional
from perseid.store.postgres.pool import Pool, fetch_all, fetch_one
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.shared_calls import SharedCalls
from perseid.store.postgres.shared_reads import SharedReads
from perseid.store.postgres.writer import PostgresWriter, is_storable_key
from perseid.store.types import Cleared, Decision, View
from perseid.ttl import EXPIRING_ITEMS_SQL, LIVE_SQL, Cutoff

T = TypeVar("T")


class PostgresItems:
    """See `store.protocol.ItemStore`."""

    def __init__(
        self,
        pool: Pool,
        catalog_version: CatalogVersion,
        reads: SharedReads,
        writer: PostgresWriter,
        clearing: PartitionClearing,
    ) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._reads = reads
        self._writer = writer
        self._clearing = clearing
        self._lsns: SharedCalls[tuple[int, ...]] = SharedCalls()

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        part = range_key(container.number, range_index)
        if not is_storable_key(key):  # no item has such an id; the LSN of the range is needed
            key = ItemKey(key.pk, "")
        result = await self._reads.read(part, key)
        version, lsn, row = result or await self._missing(container)
        self._catalog_version.check(version, container)
        return row, lsn

    async def read_number(self, container: Container, number: int) -> Row | None:
        part = range_key(container.number, number >> RANGE_SHIFT)
        result = await fetch_one(self._pool, statements.READ_NUMBER, (part, number))
        version, _, *columns = result or await self._missing(container)
        self._catalog_version.check(version, container)
        return None if columns[0] is None else Row._make(columns)

    async def _missing(self, container: Container) -> NoReturn:
        """The range was just dropped, by this or another process."""
        version = await metadata.version(self._pool)
        self._catalog_version.check(version, container)
        raise OwnerNotFound()

    async def lsns(self, container: Container) -> tuple[int, ...]:
        key = container.number, len(container.ranges)
        return await self._lsns.call(key, lambda: self._read_lsns(container))

    async def _read_lsns(self, container: Container) -> tuple[int, ...]:
        parts = [range_key(container.number, each.index) for each in container.ranges]
        rows = await fetch_all(
            self._pool,
            "SELECT part, lsn FROM positions WHERE part = ANY($1)",
            (parts,),
        )
        lsns = dict(rows)
        return tuple(lsns.get(part, 0) for part in parts)

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

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff | None = None,
    ) -> Cleared:
        return await self._clearing.clear(
            container, range_index, pk, cutoff, previous_cutoff or cutoff
        )

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        part = range_key(container.number, range_index)
        expired = " + ".join(
            f"(SELECT {{figure}} FROM items"
            f" WHERE part = :part AND {condition} AND {base} <= :{bound})"
            for (condition, base), bound in zip(
                EXPIRING_ITEMS_SQL.values(), Cutoff._fields, strict=True
            )
        )
        columns = "items, bytes, purged_items, purged_bytes, purged_since_change"
        if cutoff.expires_nothing:
            gone_sql = "0, 0"
        else:
            gone_sql = (
                f"{expired.format(figure='COUNT(*)')},"
                f" ({expired.format(figure='COALESCE(SUM(size), 0)')})::bigint"
            )
        sql = f"SELECT {VERSION_SQL}, {columns}, {gone_sql} FROM positions WHERE part = :part"
        values = {"part": part, **cutoff._asdict()}
        rows = await fetch_all(self._pool, *positional(sql, values)) or [
            (*row, *(0,) * 7) for row in await fetch_all(self._pool, statements.VERSION)
        ]
        # Queries count through this, so it checks that the cutoff belongs to the current policy.
        version, items, size, *purged, gone, gone_size = rows[0]
        self._catalog_version.check(version, container)
        return StorageUsage(items - gone, size - gone_size, gone, gone_size, *purged)

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        values = {"part": range_key(container.number, range_index)} | cutoff._asdict()
        sql = f"SELECT COUNT(DISTINCT pk) FROM items WHERE part = :part AND {LIVE_SQL}"
        return int((await fetch_all(self._pool, *positional(sql, values)))[0][0])
