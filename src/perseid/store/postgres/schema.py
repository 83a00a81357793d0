"""The layout of the tables on PostgreSQL; migrations brings older tables to it.

Everything about an item carries `part`, its container and physical range: the column by which a
Citus cluster distributes these tables, so that the rows of a range are on one node. The other
tables are small and seldom written; such a cluster keeps a copy of them on every node.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from psycopg import AsyncConnection

from perseid.store.postgres.migrations import COPIED, DISTRIBUTED, MIGRATIONS
from perseid.store.types import StoreError

SCHEMA: Final = "perseid"
OLDEST_SERVER: Final = 15
_LOCK: Final = 0x7065727365696400  # "perseid": held while the tables are created or changed


@lru_cache(maxsize=4096)
def range_key(number: int, range_index: int) -> str:
    """The name of a container's range, by which its rows are kept together."""
    return f"{number}:{range_index}"


VERSION: Final = len(MIGRATIONS)


async def prepare(db: AsyncConnection[Any]) -> None:
    """Creates the tables or brings them to VERSION; a second server process waits for the first.

    StoreError if that cannot be done; then nothing is changed.
    """
    await _check_server(db)
    async with db.transaction():
        await db.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        # None if the connection names a schema that does not exist, as on the first start.
        if await _schema(db) is None:
            await db.execute(f"CREATE SCHEMA {SCHEMA}")
        version = await _version(db)
        if version > VERSION:
            raise StoreError(
                f"the database has layout {version}, this perseid knows up to {VERSION};"
                " it was written by a newer release"
            )
        if version == VERSION:
            return
        is_citus = await _has_citus(db)
        if is_citus:
            # All nodes must see these statements in the same order.
            await db.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
        for step in range(version, VERSION):
            for statement in MIGRATIONS[step]:
                await (db.execute(statement) if isinstance(statement, str) else statement(db))
            if is_citus:
                await _distribute(db, step)
        await db.execute(
            "INSERT INTO meta VALUES ('layout', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(VERSION),),
        )


async def _check_server(db: AsyncConnection[Any]) -> None:
    if db.info.server_version < OLDEST_SERVER * 10_000:
        raise StoreError(
            f"the server is PostgreSQL {db.info.server_version // 10_000};"
            f" perseid needs {OLDEST_SERVER} or newer"
        )
    encoding = db.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database is encoded as {encoding}; perseid needs one with ENCODING 'UTF8'"
        )


async def _version(db: AsyncConnection[Any]) -> int:
    cursor = await db.execute("SELECT to_regclass(current_schema() || '.meta') IS NOT NULL")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return 0
    cursor = await db.execute("SELECT value FROM meta WHERE name = 'layout'")
    row = await cursor.fetchone()
    if row is None:
        raise StoreError(
            f"the database has a schema '{await _schema(db)}' with tables of another program;"
            " choose another database"
        )
    return int(row[0])


async def _schema(db: AsyncConnection[Any]) -> str | None:
    row = await (await db.execute("SELECT current_schema()")).fetchone()
    return None if row is None else row[0]


async def _has_citus(db: AsyncConnection[Any]) -> bool:
    cursor = await db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
    return await cursor.fetchone() is not None


async def _distribute(db: AsyncConnection[Any], step: int) -> None:
    for table in COPIED[step]:
        await db.execute("SELECT create_reference_table(%s)", (table,))
    for table in DISTRIBUTED[step]:
        colocate_with = "default" if table == "items" else "items"
        # Citus copies this to the shards, and refuses to change it later. `migrations` says why.
        await db.execute(f"ALTER TABLE {table} ALTER COLUMN part SET STATISTICS 0")
        await db.execute(
            "SELECT create_distributed_table(%s, 'part', colocate_with => %s)",
            (table, colocate_with),
        )
