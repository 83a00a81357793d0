"""The tables on PostgreSQL, their version and the steps from one version to the next.

Everything about an item carries `part`, its container and physical range: the column by which a
Citus cluster distributes these tables, so that a range's rows lie together on one node. The rest
is small, seldom written, and on such a cluster a copy of it is on every node.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from psycopg import AsyncConnection

from perseid.store.protocol import StoreError

SCHEMA: Final = "perseid"
OLDEST_SERVER: Final = 15
_LOCK: Final = 0x7065727365696400  # "perseid": of those who create or change the tables


@lru_cache(maxsize=4096)
def part_of(number: int, range_index: int) -> str:
    """The name of a container's range, by which its rows are kept together."""
    return f"{number}:{range_index}"


_FIRST: Final = (
    """
    CREATE TABLE meta (name text COLLATE "C" PRIMARY KEY, value text NOT NULL)
    """,
    # One row. `version` counts the changes of metadata and of the clock's setting, `line` numbers
    # the resources and the lines of the audit log.
    """
    CREATE TABLE shared (
        one smallint PRIMARY KEY,
        version bigint NOT NULL,
        line bigint NOT NULL,
        clock_offset double precision NOT NULL,
        clock_frozen double precision
    )
    """,
    """
    CREATE TABLE resources (
        rid text COLLATE "C" PRIMARY KEY,
        kind text NOT NULL,
        parent text NOT NULL,
        id text COLLATE "C" NOT NULL,
        etag text NOT NULL,
        ts bigint NOT NULL,
        state text NOT NULL,
        line bigint NOT NULL,
        UNIQUE (kind, parent, id)
    )
    """,
    """
    CREATE TABLE audit (
        line bigint PRIMARY KEY,
        ts bigint NOT NULL,
        container text NOT NULL,
        entry text NOT NULL
    )
    """,
    # Ranges of containers that are gone, whose items have yet to be removed.
    """
    CREATE TABLE dropped (part text COLLATE "C" PRIMARY KEY)
    """,
    """
    CREATE TABLE items (
        part text COLLATE "C" NOT NULL,
        container integer NOT NULL,
        number bigint NOT NULL,
        pk bytea NOT NULL,
        id text COLLATE "C" NOT NULL,
        epk bytea NOT NULL,
        ts bigint NOT NULL,
        ttl bigint,
        lsn bigint NOT NULL,
        etag text NOT NULL,
        size integer NOT NULL,
        terms integer NOT NULL,
        body bytea NOT NULL,
        doc jsonb NOT NULL,
        PRIMARY KEY (part, pk, id)
    )
    """,
    "CREATE UNIQUE INDEX items_number ON items (part, number)",
    "CREATE INDEX items_changes ON items (part, lsn)",
    # The two that find the dead in the order of their deaths without a look at the living.
    "CREATE INDEX items_inheriting ON items (part, ts) INCLUDE (size, terms) WHERE ttl IS NULL",
    "CREATE INDEX items_expiring ON items (part, (ts + ttl)) INCLUDE (size, terms) WHERE ttl > 0",
    """
    CREATE TABLE entries (
        part text COLLATE "C" NOT NULL,
        entry bytea NOT NULL,
        number bigint NOT NULL,
        PRIMARY KEY (part, entry)
    )
    """,
    "CREATE INDEX entries_number ON entries (part, number)",
    # A row for each range: its counters, which every write locks; where its log begins, if it
    # keeps one; and who removes its dead, until when by the database's clock.
    """
    CREATE TABLE positions (
        part text COLLATE "C" PRIMARY KEY,
        lsn bigint NOT NULL,
        items bigint NOT NULL,
        bytes bigint NOT NULL,
        purged_items bigint NOT NULL,
        purged_bytes bigint NOT NULL,
        spared bigint NOT NULL,
        floor bigint,
        purger text,
        purged_until double precision NOT NULL
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE log (
        part text COLLATE "C" NOT NULL,
        lsn bigint NOT NULL,
        entry integer NOT NULL,
        ts bigint NOT NULL,
        kind text NOT NULL,
        previous_lsn bigint,
        pk bytea NOT NULL,
        id text COLLATE "C" NOT NULL,
        epk bytea NOT NULL,
        body bytea,
        PRIMARY KEY (part, lsn, entry)
    )
    """,
    "INSERT INTO shared VALUES (1, 1, 0, 0, NULL)",
)

# MIGRATIONS[n] brings the tables of version n to version n + 1.
MIGRATIONS: Final = (_FIRST,)
VERSION: Final = len(MIGRATIONS)

# By version: what Citus distributes by `part`, side by side, and what it copies to every node.
# `meta` stays where front ends connect to: the clock's mark in it moves every few seconds, and a
# write to a copied table needs every node.
_DISTRIBUTED: Final = (("items", "entries", "positions", "log"),)
_COPIED: Final = (("shared", "resources", "audit", "dropped"),)


async def prepare(db: AsyncConnection[Any]) -> None:
    """Creates the tables or brings them to VERSION; whoever comes second waits for the first.

    StoreError if that cannot be done; then everything is left as it is.
    """
    await _check_server(db)
    async with db.transaction():
        await db.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        # None if the connection names one that is not there: the usual case, the first time.
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
            # So that what is made one after the other here is seen by all nodes in that order.
            await db.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
        for step in range(version, VERSION):
            for statement in MIGRATIONS[step]:
                await db.execute(statement)
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
    found = await cursor.fetchone()
    if found is None or not found[0]:
        return 0
    cursor = await db.execute("SELECT value FROM meta WHERE name = 'layout'")
    found = await cursor.fetchone()
    if found is None:
        raise StoreError(
            f"the database has a schema '{await _schema(db)}' with somebody else's tables;"
            " choose another database"
        )
    return int(found[0])


async def _schema(db: AsyncConnection[Any]) -> str | None:
    found = await (await db.execute("SELECT current_schema()")).fetchone()
    return None if found is None else found[0]


async def _has_citus(db: AsyncConnection[Any]) -> bool:
    cursor = await db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
    return await cursor.fetchone() is not None


async def _distribute(db: AsyncConnection[Any], step: int) -> None:
    for table in _COPIED[step]:
        await db.execute("SELECT create_reference_table(%s)", (table,))
    for table in _DISTRIBUTED[step]:
        beside = "default" if table == "items" else "items"
        await db.execute(
            "SELECT create_distributed_table(%s, 'part', colocate_with => %s)",
            (table, beside),
        )
