"""The steps that bring older tables on PostgreSQL to the present layout.

A step never changes after its release: databases exist that it has made, and other databases still
wait for it. So each step spells out its SQL and uses nothing of the code that reads and writes the
present layout. That includes names: the words of an old layout stay in the steps that knew it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from psycopg import AsyncConnection

from perseid.store.sql.computed_ranges import with_bounds

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
    # Ranges of deleted containers whose items are pending purge.
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
    # These two find expired items in the order of their expiry without reading live ones.
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
    # keeps one; which server process purges it, and until when by the database's clock.
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

# The names of columns and keys that later releases use. The texts are JSON as the first release
# wrote it, without spaces; jsonb would change the order of their keys.
_PLAIN_NAMES: Final = (
    "ALTER TABLE positions RENAME COLUMN spared TO purged_since_change",
    "ALTER TABLE positions RENAME COLUMN purger TO purge_lease_holder",
    "ALTER TABLE positions RENAME COLUMN purged_until TO purge_lease_until",
    *(
        "UPDATE resources SET state ="
        rf""" regexp_replace(state, '"{old}":({value})', '"{new}":\1', 'g')"""
        rf""" WHERE kind = 'container' AND state ~ '"{old}":{value}'"""
        for old, new, value in (
            ("deaths", "final_cutoffs", r"\[-?[0-9]+,-?[0-9]+\]"),
            ("dead_age", "expired_age", r"-?[0-9]+"),
            ("hold_horizon", "hold_cutoff", r"\[-?[0-9]+,-?[0-9]+\]"),
            ("spared", "purged_since_change", r"-?[0-9]+"),
        )
    ),
    *(
        f"UPDATE audit SET entry = replace(entry, '{old}', '{new}') WHERE entry LIKE '%{old}%'"
        for old, new in (
            ('"diedAtOnce":{', '"expiredImmediately":{'),
            ('"revived":{', '"restored":{'),
            ('{"event":"figures",', '{"event":"counts",'),
        )
    ),
)


async def _store_bounds(db: AsyncConnection[Any]) -> None:
    """A container stores its physical ranges with their bounds, which followed from the number of
    ranges before."""
    cursor = await db.execute("SELECT rid, state FROM resources WHERE kind = 'container'")
    for rid, state in await cursor.fetchall():
        changed = with_bounds(state)
        if changed is not None:
            sql = "UPDATE resources SET state = %s WHERE rid = %s"
            await db.execute(sql, (changed.decode(), rid))


# PostgreSQL moves `doc` of rows above 2 kB to another table, and each look at it is a search there.
# A row has its item twice, so items of one kilobyte were moved. Now rows up to a page stay whole.
_WHOLE_ROWS: Final = ("ALTER TABLE items SET (toast_tuple_target = 8160)",)


async def _drop_range_statistics(db: AsyncConnection[Any]) -> None:
    """The planner knows nothing about single ranges: otherwise it takes those that are younger than
    the last ANALYZE for empty, and reads a whole range where it should look up a key.

    Old statistics stay after SET STATISTICS 0, and ANALYZE does not remove them. Giving the column
    its own type again does, and rewrites neither the table nor its indexes.
    """
    # Citus refuses both statements once it has distributed a table; `schema` sets the target before
    # that. An older cluster keeps its statistics.
    cursor = await db.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")
    if (await cursor.fetchall())[0][0]:
        cursor = await db.execute(
            "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'items'::regclass"
        )
        if await cursor.fetchone() is not None:
            return
    for table in ("items", "entries", "log"):
        await db.execute(
            f"ALTER TABLE {table} ALTER COLUMN part SET STATISTICS 0,"
            ' ALTER COLUMN part TYPE text COLLATE "C"'
        )


# The values of the properties that queries use, of each item: what an index over `doc` could find,
# but not return without reading the item. `measure` and `head` are described in `conditions_sql`.
_PROPERTY_VALUES: Final = (
    """
    CREATE TABLE property_indexes (
        part text COLLATE "C" NOT NULL,
        id integer NOT NULL,
        path text NOT NULL,
        state text NOT NULL,
        filled bigint NOT NULL,
        last bigint NOT NULL,
        PRIMARY KEY (part, id)
    )
    """,
    # Index-only scans need pages that a vacuum has marked. The key begins with the number, so that
    # the planner does not search by it for anything else.
    """
    CREATE TABLE property_values (
        part text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        property integer NOT NULL,
        rank smallint NOT NULL,
        measure numeric NOT NULL,
        head text COLLATE "C" NOT NULL,
        ts bigint NOT NULL,
        ttl bigint,
        PRIMARY KEY (number, part, property)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)
    """,
    """
    CREATE INDEX property_values_sorted ON property_values
        (part, property, rank, measure, head, number) INCLUDE (ts, ttl)
    """,
    # The planner would mix the values of all properties and ranges.
    *(
        f"ALTER TABLE property_values ALTER COLUMN {column} SET STATISTICS 0"
        for column in ("part", "number", "property", "rank", "measure", "head", "ts", "ttl")
    ),
    "ALTER TABLE property_indexes ALTER COLUMN part SET STATISTICS 0",
    # Counts the changes of the range's property indexes.
    "ALTER TABLE positions ADD COLUMN indexes bigint NOT NULL DEFAULT 0",
)


async def _drop_expression_indexes(db: AsyncConnection[Any]) -> None:
    """Queries create property indexes again when they need them."""
    cursor = await db.execute(
        "SELECT class.relname FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid"
        " WHERE indrelid = 'items'::regclass AND class.relname ~ '^items_[0-9]+_by_'"
    )
    for (name,) in await cursor.fetchall():
        await db.execute(f'DROP INDEX IF EXISTS "{name}"')


Step: TypeAlias = str | Callable[[AsyncConnection[Any]], Awaitable[None]]

# MIGRATIONS[n] brings the tables of version n to version n + 1.
MIGRATIONS: Final[tuple[tuple[Step, ...], ...]] = (
    _FIRST,
    _PLAIN_NAMES,
    (_store_bounds,),
    (_drop_range_statistics, *_WHOLE_ROWS),
    (*_PROPERTY_VALUES, _drop_expression_indexes),
)

# By version: the tables that Citus distributes by `part`, colocated, and those it copies to every
# node. `meta` stays on the node that server processes connect to: the clock limit in it changes
# every few seconds, and a write to a copied table needs every node.
DISTRIBUTED: Final[tuple[tuple[str, ...], ...]] = (
    ("items", "entries", "positions", "log"),
    (),
    (),
    (),
    ("property_indexes", "property_values"),
)
COPIED: Final[tuple[tuple[str, ...], ...]] = (
    ("shared", "resources", "audit", "dropped"),
    (),
    (),
    (),
    (),
)
