"""Statements about one range find its rows by key, also in a container that is younger than the
database's statistics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from psycopg import RawCursor

from perseid.model import Container
from perseid.service.catalog import build_container
from perseid.store.postgres import expiry, statements, writer
from perseid.store.postgres.placeholders import positional
from perseid.store.postgres.store import open_stores
from perseid.store.protocol import Stores
from perseid.store.types import PutResource
from tests.support import postgres
from tests.support.rows import DATABASE, Run, container_resource, insert, key
from tests.support.stores import Place, pool_of

pytestmark = pytest.mark.only_on("postgres", reason="is about its planner")

ITEMS: Final = 4000
NEIGHBOURS: Final = ("1:0", "2:0", "3:0")
YOUNG: Final = "4:0"
KEYS: Final = [(b"\x08%d\xff" % (n % 500), f"doc-{n}") for n in range(2000, 2016)]
PKS, IDS = [pk for pk, _ in KEYS], [id_ for _, id_ in KEYS]
NUMBERS: Final = [*range(2000, 2016)]
ENTRIES: Final = [b"entry-%d" % n for n in NUMBERS]
PURGE: Final = positional(
    expiry._PURGE_CANDIDATES,
    {"part": YOUNG, "until": 9, "before": 9, "after": 9, "inherited": 9, "own": 9, "limit": 100},
)

# The statements, their values, and what an index has to look up beyond the range.
LOOK_UPS: Final[dict[str, tuple[str, Any, str]]] = {
    "read": (statements.READ, (YOUNG, *KEYS[0]), r"pk = .*\bid ="),
    "read by number": (statements.READ_NUMBER, (YOUNG, NUMBERS[0]), "number ="),
    "find one": (statements.FIND_ONE, (YOUNG, *KEYS[0]), r"pk = .*\bid ="),
    "read several": (statements.READ_SEVERAL, (YOUNG, PKS, IDS), r"pk = .*\bid ="),
    "find": (statements.FIND, (YOUNG, PKS, IDS), r"pk = .*\bid ="),
    "partition size": (writer._PARTITION_SIZE, (YOUNG, PKS[0], 1, 1), "pk ="),
    "unique keys": (statements.UNIQUE_KEY_OWNERS, (YOUNG, ENTRIES), "(entry|number) ="),
    "delete": (statements.DELETE, (YOUNG, NUMBERS), "number ="),
    "release": (statements.RELEASE, (YOUNG, NUMBERS), "number ="),
    "purge": (*PURGE, r"ts\b.* <="),
}

KEPT: Final = {
    statements.READ: r"'7:0', '\x08'::bytea, 'i1'",
    statements.READ_SEVERAL: r"'7:0', ARRAY['\x08'::bytea], ARRAY['i1']",
    statements.FIND: r"'7:0', ARRAY['\x08'::bytea], ARRAY['i1']",
}


def fill(db: psycopg.Connection[Any], part: str) -> None:
    db.execute("INSERT INTO positions VALUES (%s, 0, 0, 0, 0, 0, 0, NULL, NULL, 0)", (part,))
    db.execute(
        "INSERT INTO items SELECT %s, %s, n, convert_to(chr(8) || n %% 500, 'UTF8') || '\\xff',"
        " 'doc-' || n, '\\x10', 100, NULLIF(n %% 2, 0), n, 'etag', 200, 3,"
        " convert_to(repeat('x', 200), 'UTF8'), '{}' FROM generate_series(1, %s) AS n",
        (part, int(part.partition(":")[0]), ITEMS),
    )
    db.execute(
        "INSERT INTO entries SELECT %s, convert_to('entry-' || n, 'UTF8'), n"
        " FROM generate_series(1, %s) AS n",
        (part, ITEMS),
    )


@pytest.fixture(scope="module")
def young() -> Iterator[psycopg.Connection[Any]]:
    """A database whose statistics know some large ranges, but not the youngest."""
    dsn = postgres.fresh_dsn()

    async def create_tables() -> None:
        await (await open_stores(dsn, durability="off"))[0].close()

    asyncio.run(create_tables())
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("SET search_path TO perseid; SET jit TO off")
        for part in NEIGHBOURS:
            fill(db, part)
        db.execute("ANALYZE")
        fill(db, YOUNG)
        yield db
    postgres.server().drop(dsn)


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_young_range_is_read_by_key(young: psycopg.Connection[Any], name: str) -> None:
    sql, values, condition = LOOK_UPS[name]
    plan = [line for (line,) in RawCursor(young).execute(f"EXPLAIN {sql}", values).fetchall()]
    text = "\n".join(plan)
    assert not re.search("Seq Scan on (items|entries)", text), text
    looked_up = [line for line in plan if "Index Cond" in line]
    assert looked_up, text
    assert all(re.search(condition, line) for line in looked_up), text


async def added(store: Stores) -> Container:
    resource = container_resource(7)
    await store.metadata.change([PutResource(resource)])
    return build_container(resource, DATABASE, catalog_generation=store.metadata.generation)


def test_plans_that_were_made_for_few_items_are_not_kept(place: Place, run: Run[Any]) -> None:
    """The statements are prepared while the table is empty; it is never analyzed."""

    async def plans(store: Stores) -> list[str]:
        """Of the prepared statements that look up items by key, on all connections."""
        found = []
        pool = pool_of(store)
        for db in [await pool.getconn() for _ in range(pool.get_stats()["pool_size"])]:
            for sql, values in KEPT.items():
                cursor = await db.execute(
                    "SELECT name FROM pg_prepared_statements WHERE statement = %s", (sql,)
                )
                for (name,) in await cursor.fetchall():
                    cursor = await db.execute(f'EXPLAIN EXECUTE "{name}" ({values})')
                    found += [line for (line,) in await cursor.fetchall() if "on items" in line]
            await pool.putconn(db)
        return found

    async def work() -> None:
        dsn = place.lasting().store
        assert dsn is not None
        store = (await open_stores(dsn, durability="off"))[0]
        container = await added(store)

        async def use(first: int, rows: int) -> None:
            ids = [f"i{n}" for n in range(first, first + rows)]
            await insert(store, container, *ids)
            await asyncio.gather(*(store.items.read(container, 0, key(each)) for each in ids[:8]))

        for count in range(20):
            await use(count, 1)
        assert any("items_pkey" not in line for line in await plans(store))
        for count in range(150):
            await use(1000 + 10 * count, 10)
        lines = await plans(store)
        assert lines
        assert all("items_pkey" in line for line in lines), lines
        await store.close()

    run(work())
