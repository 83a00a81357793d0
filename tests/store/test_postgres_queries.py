"""Queries on PostgreSQL: the same answers as SQLite gives, through indexes that are really used."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perseid.conditions import Filter, Order, Path, Place, has_only_value
from perseid.model import Container, Row, item_number
from perseid.query import compile_query
from perseid.query.pushdown import kind_of, push
from perseid.query.values import UNDEFINED, canonical
from perseid.service.catalog import build_container
from perseid.store import leads, property_indexes
from perseid.store.postgres.connecting import Pool, connect
from perseid.store.postgres.documents import queryable
from perseid.store.postgres.predicates import LONGEST
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.schema import part_of
from perseid.store.postgres.statements import COLUMNS
from perseid.store.protocol import Decision, Page, Put, PutResource, Scan, View
from perseid.store.sqlite import SqliteStore
from perseid.ttl import EVERYTHING_LIVES, Horizon
from tests.store.rows import DATABASE, container_resource
from tests.store.test_predicates import documents, parameters, predicates, without_nul
from tests.support.postgres import server

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

RANGES: Final = 3
PATHS: Final[tuple[Path, ...]] = (("a",), ("b",), ("o", "a"), ("a", 0), ("50%",))
numbers = itertools.count(100)


def _decided(decision: Decision[None], _view: View) -> Decision[None]:
    return decision


class Pair:
    """The same containers on both databases."""

    def __init__(self, run: Run[Any], pool: Pool, sqlite: SqliteStore) -> None:
        self.run = run
        self.pool = pool
        self.sqlite = sqlite
        self.postgres = PostgresQueries(pool)

    def fill(self, rows: list[Row]) -> Container:
        made = container_resource(next(numbers), ranges=RANGES)
        container = build_container(made, DATABASE)
        self.run(self.sqlite.change([PutResource(made)]))
        for part in range(RANGES):
            ours = [row for row in rows if row.range_index == part]
            if ours:
                puts = [Put(row) for row in ours]
                self.run(
                    self.sqlite.write(container, part, [], lambda _, p=puts: Decision(p, None))
                )
        self.run(self._copy(container, rows))
        return container

    async def _copy(self, container: Container, rows: list[Row]) -> None:
        async with self.pool.connection() as db, db.cursor() as cursor:
            await cursor.executemany(
                f"INSERT INTO items (part, container, {COLUMNS}, doc)"
                f" VALUES ({', '.join(['%s'] * 14)})",
                [
                    (
                        part_of(container.number, row.range_index),
                        container.number,
                        *row,
                        queryable(row.body).decode(),
                    )
                    for row in rows
                ],
            )

    def empty(self, container: Container) -> None:
        async def work() -> None:
            await self.postgres.forget(container.number)
            async with self.pool.connection() as db:
                await db.execute(f"DELETE FROM items WHERE container = {container.number}")

        self.run(work())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    dsn = server().fresh_dsn()
    with asyncio.Runner() as runner:
        pool = runner.run(connect(dsn, "off"))
        sqlite = SqliteStore(tmp_path_factory.mktemp("pair") / "store.sqlite3", durability="off")
        found = Pair(runner.run, pool, sqlite)
        yield found
        runner.run(found.postgres.close())
        runner.run(sqlite.close())
        runner.run(pool.close())
    server().drop(dsn)


def row_of(place: int, document: dict[str, Any], part: int = 0, **changes: Any) -> Row:
    body = json.dumps({"id": f"i{place}"} | document, separators=(",", ":")).encode()
    made = Row(
        number=item_number(part, place + 1, 0),
        pk=b"\x08a\xff",
        id=f"i{place}",
        epk=b"\x10",
        ts=100,
        ttl=None,
        lsn=place + 1,
        etag=f'"{place}"',
        size=len(body),
        terms=3,
        body=body,
    )
    return made._replace(**changes)


stored = st.builds(
    lambda document, part, **more: (document, part, more),
    documents.map(without_nul),
    st.integers(0, RANGES - 1),
    ts=st.integers(90, 110),
    ttl=st.none() | st.just(-1) | st.integers(1, 10),
    pk=st.sampled_from((b"\x08a\xff", b"\x08a\xff\x08b\xff", b"\x08b\xff")),
    epk=st.sampled_from((b"\x10", b"\x20", b"\x30")),
)
scopes = st.builds(
    lambda part, key, low, high, horizon: Scan(
        range_index=part,
        pk_prefix=None if key is None else key[0],
        is_prefix=key is not None and key[1],
        epk_min=low,
        epk_max=high,
        horizon=horizon,
        indexable=frozenset(PATHS),
    ),
    st.none() | st.none() | st.integers(0, RANGES - 1),
    st.none() | st.none() | st.tuples(st.sampled_from((b"\x08a\xff", b"\x08b\xff")), st.booleans()),
    st.none() | st.none() | st.just(b"\x20"),
    st.none() | st.none() | st.just(b"\x30"),
    st.just(EVERYTHING_LIVES) | st.builds(Horizon, st.integers(85, 105), st.integers(95, 115)),
)
orders = st.builds(Order, st.sampled_from(PATHS), st.booleans())
sizes = st.tuples(st.integers(1, 6), st.sampled_from((1, 60, 10**6)))


def filter_of(predicate: str, given_values: dict[str, Any]) -> Filter | None:
    compiled = compile_query(f"SELECT * FROM c WHERE {predicate}")
    kinds = {name: kind_of(given_values.get(name, UNDEFINED)) for name in compiled.parameters}
    pushed = push(compiled.bound, kinds)
    return pushed.filter({name: given_values.get(name) for name in compiled.parameters})


async def pages(store: Any, container: Container, scan: Scan) -> list[Page]:
    found = [await store.scan(container, scan)]
    while found[-1].has_more:
        scan = scan._replace(after=found[-1].rows[-1].number)
        found.append(await store.scan(container, scan))
    return found


async def walks(store: Any, container: Container, scan: Scan, order: Order) -> list[Any] | None:
    found: list[Any] = []
    start: Place | None = None
    while True:
        walk = await store.walk(container, scan, order, start)
        if walk is None:
            return None
        start = walk.onward
        if start is not None and has_only_value(start.rank):
            start = start._replace(value=None)  # which means nothing there
        found.append((walk.rows, start))
        if start is None:
            return found


async def combined(
    store: Any, container: Container, scan: Scan, paths: tuple[Path, ...]
) -> list[tuple[Any, int]]:
    found: dict[Any, int] = {}

    def take(times: int, document: dict[str, Any]) -> None:
        key = canonical(document)
        found[key] = found.get(key, 0) + times

    await store.combine(container, scan, paths, take)
    return list(found.items())


@pytest.mark.parametrize("least", [0, 10**9], ids=["indexed", "scanned"])
@settings(
    max_examples=60,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # making it smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    given_rows=st.lists(stored, max_size=14),
    predicate=st.none() | predicates,
    given_values=parameters,
    scope=scopes,
    order=orders,
    size=sizes,
)
def test_both_databases_give_the_same(
    pair: Pair,
    least: int,
    given_rows: list[Any],
    predicate: str | None,
    given_values: dict[str, Any],
    scope: Scan,
    order: Order,
    size: tuple[int, int],
) -> None:
    rows = [
        row_of(place, each, part, **more) for place, (each, part, more) in enumerate(given_rows)
    ]
    where = None if predicate is None else filter_of(predicate, given_values)
    scan = scope._replace(where=where, limit=size[0], max_bytes=size[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(property_indexes, "LEAST_ITEMS", least)
        patch.setattr(leads, "MOST_CANDIDATES", 3)
        container = pair.fill(rows)
        run, sqlite, postgres = pair.run, pair.sqlite, pair.postgres
        expected = run(pages(sqlite, container, scan))
        assert run(pages(postgres, container, scan)) == expected
        for paths in ((), (order.path,), PATHS[:3]):
            wanted = run(combined(sqlite, container, scan, paths))
            assert run(combined(postgres, container, scan, paths)) == wanted, paths
        ordered = run(walks(sqlite, container, scan, order))
        found = run(walks(postgres, container, scan, order))
        has_long = any(b"x" * LONGEST in row.body for row in rows)
        assert found == ordered or (found is None and has_long)
        if not has_long or ordered is None:
            assert (found is None) == (ordered is None)
        way = run(postgres.access(container, scan, order))
        assert way == run(sqlite.access(container, scan, order)) or has_long
        pair.empty(container)
