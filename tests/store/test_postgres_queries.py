"""Queries on PostgreSQL: the same answers as SQLite gives, through indexes that are really used."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perseid.conditions import Filter, Order, OrderPosition, PropertyPath, has_single_value
from perseid.model import Container, Row, item_number
from perseid.query import compile_query
from perseid.query.planner.bound_values import parameter_type_of
from perseid.query.planner.filters import push_filter
from perseid.query.values import UNDEFINED, canonical, sort_key
from perseid.service.catalog import build_container
from perseid.store.postgres import indexed_groups, property_indexes, searches
from perseid.store.postgres import indexes as on_postgres
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.conditions_sql import INDEXED_CHARACTERS
from perseid.store.postgres.numbers import normalized_json
from perseid.store.postgres.pool import Pool, connect
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.statements import COLUMNS
from perseid.store.protocol import Stores
from perseid.store.sql import candidates, index_limits
from perseid.store.sqlite.store import open_stores
from perseid.store.types import Decision, GroupCount, Put, PutResource, Search, SearchPage, View
from perseid.ttl import NOTHING_EXPIRED, Cutoff
from tests.store.test_predicates import documents, parameters, predicates, without_nul
from tests.support.postgres import server
from tests.support.rows import DATABASE, container_resource

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

RANGES: Final = 3
PATHS: Final[tuple[PropertyPath, ...]] = (("a",), ("b",), ("o", "a"), ("a", 0), ("50%",))
numbers = itertools.count(100)


def _decided(decision: Decision[None], _view: View) -> Decision[None]:
    return decision


class Pair:
    """The same containers on both databases."""

    def __init__(self, run: Run[Any], pool: Pool, sqlite: Stores) -> None:
        self.run = run
        self.pool = pool
        self.sqlite = sqlite.queries
        self._stores = sqlite
        self.postgres = PostgresQueries(pool, CatalogVersion(1))

    def fill(self, rows: list[Row]) -> Container:
        made = container_resource(next(numbers), ranges=RANGES)
        container = build_container(made, DATABASE)
        self.run(self._stores.metadata.change([PutResource(made)]))
        for part in range(RANGES):
            ours = [row for row in rows if row.range_index == part]
            if ours:
                puts = [Put(row) for row in ours]
                decide = partial(_decided, Decision(puts, None))
                self.run(self._stores.items.write(container, part, [], decide))
        self.run(self._copy(container, rows))
        return container

    async def _copy(self, container: Container, rows: list[Row]) -> None:
        async with self.pool.connection() as db, db.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO positions VALUES (%s, 0, 0, 0, 0, 0, 0, NULL, NULL, 0)",
                [(range_key(container.number, part),) for part in range(RANGES)],
            )
            await cursor.executemany(
                f"INSERT INTO items (part, container, {COLUMNS}, doc)"
                f" VALUES ({', '.join(['%s'] * 14)})",
                [
                    (
                        range_key(container.number, row.range_index),
                        container.number,
                        *row,
                        normalized_json(row.body).decode(),
                    )
                    for row in rows
                ],
            )

    def empty(self, container: Container) -> None:
        async def work() -> None:
            parts = [range_key(container.number, part) for part in range(RANGES)]
            async with self.pool.connection() as db:
                for table in ("items", "property_values", "property_indexes", "positions"):
                    await db.execute(f"DELETE FROM {table} WHERE part = ANY(%s)", (parts,))

        self.run(work())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    dsn = server().fresh_dsn()
    with asyncio.Runner() as runner:
        pool = runner.run(connect(dsn, "off", "0123456789abcdef"))
        sqlite = open_stores(tmp_path_factory.mktemp("pair") / "store.sqlite3", durability="off")
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
    lambda part, key, low, high, cutoff: Search(
        range_index=part,
        pk_prefix=None if key is None else key[0],
        is_prefix=key is not None and key[1],
        epk_min=low,
        epk_max=high,
        cutoff=cutoff,
        indexable=frozenset(PATHS),
    ),
    st.none() | st.none() | st.integers(0, RANGES - 1),
    st.none() | st.none() | st.tuples(st.sampled_from((b"\x08a\xff", b"\x08b\xff")), st.booleans()),
    st.none() | st.none() | st.just(b"\x20"),
    st.none() | st.none() | st.just(b"\x30"),
    st.just(NOTHING_EXPIRED) | st.builds(Cutoff, st.integers(85, 105), st.integers(95, 115)),
)
orders = st.builds(Order, st.sampled_from(PATHS), st.booleans())
sizes = st.tuples(st.integers(1, 6), st.sampled_from((1, 60, 10**6)))


def filter_of(predicate: str, given_values: dict[str, Any]) -> Filter | None:
    compiled = compile_query(f"SELECT * FROM c WHERE {predicate}")
    parameter_types = {
        name: parameter_type_of(given_values.get(name, UNDEFINED)) for name in compiled.parameters
    }
    pushed = push_filter(compiled.bound, parameter_types)
    return pushed.filter({name: given_values.get(name) for name in compiled.parameters})


async def pages(store: Any, container: Container, search: Search) -> list[SearchPage]:
    found = [await store.search(container, search)]
    while found[-1].has_more:
        search = search._replace(after=found[-1].rows[-1].number)
        found.append(await store.search(container, search))
    return found


async def ordered_pages(
    store: Any, container: Container, search: Search, order: Order
) -> list[Any] | None:
    found: list[Any] = []
    start: OrderPosition | None = None
    while True:
        page = await store.search(container, search._replace(order=order, start=start))
        if not page.is_ordered:
            return None
        start = page.next_position
        if start is not None and has_single_value(start.rank):
            start = start._replace(value=None)  # which means nothing there
        found.append((page.rows, start))
        if start is None:
            return found


def in_order(rows: list[Row], order: Order) -> list[Row]:
    def key(row: Row) -> Any:
        value = json.loads(row.body)
        for step in order.path:
            if isinstance(step, int):
                is_there = isinstance(value, list) and step < len(value)
            else:
                is_there = isinstance(value, dict) and step in value
            value = value[step] if is_there else UNDEFINED
        return sort_key(value), row.number

    return sorted(rows, key=key, reverse=order.is_descending)


async def combined(
    store: Any, container: Container, search: Search, paths: tuple[PropertyPath, ...]
) -> list[tuple[Any, int]]:
    found: dict[Any, int] = {}

    def take(groups: Iterable[GroupCount]) -> None:
        for group in groups:
            key = canonical(group.document)
            found[key] = found.get(key, 0) + group.items

    await store.count_groups(container, search, paths, take)
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
    scope: Search,
    order: Order,
    size: tuple[int, int],
) -> None:
    rows = [
        row_of(place, each, part, **more) for place, (each, part, more) in enumerate(given_rows)
    ]
    where = None if predicate is None else filter_of(predicate, given_values)
    search = scope._replace(where=where, limit=size[0], max_bytes=size[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_limits, "LEAST_ITEMS", least)
        patch.setattr(candidates, "MAX_INDEXED_ITEMS", 3)
        container = pair.fill(rows)
        run, sqlite, postgres = pair.run, pair.sqlite, pair.postgres
        expected = run(pages(sqlite, container, search))
        assert run(pages(postgres, container, search)) == expected
        for paths in ((), (order.path,), PATHS[:3]):
            wanted = run(combined(sqlite, container, search, paths))
            assert run(combined(postgres, container, search, paths)) == wanted, paths
        ordered = run(ordered_pages(sqlite, container, search, order))
        found = run(ordered_pages(postgres, container, search, order))
        has_long = any(b"x" * INDEXED_CHARACTERS in row.body for row in rows)
        if ordered is None and found is not None and scope.range_index is not None:
            # SQLite has one index for all ranges, and looks for nested values in all of them.
            listed = [row for page in expected for row in page.rows]
            assert [row for page, _ in found for row in page] == in_order(listed, order)
        else:
            assert found == ordered or (found is None and has_long)
            assert ordered is not None or found is None
        search = search._replace(order=order)
        way = run(postgres.access_path(container, search))
        assert way == run(sqlite.access_path(container, search)) or has_long
        pair.empty(container)


COUNT: Final = 5000
INDEXABLE: Final = frozenset({("n",), ("s",), ("even",), ("f",), ("kind",)})


def filtered(predicate: str, **more: Any) -> Search:
    return Search(where=filter_of(predicate, {}), indexable=INDEXABLE, limit=100, **more)


@pytest.fixture(scope="module")
def many(pair: Pair) -> Container:
    """A container of many items, next to others."""
    rows = [
        row_of(
            place,
            {
                "n": place,
                "s": f"name{place % 1000}",
                "even": place % 2 == 0,
                "f": place * 7919 % COUNT / 8,
                "kind": ("cup", "pan", None, 7, 2.5)[place % 5],
            },
            place % RANGES,
        )
        for place in range(COUNT)
    ]
    pair.fill(rows)
    return pair.fill(rows)


@asynccontextmanager
async def recorded() -> AsyncIterator[list[tuple[str, dict[str, Any], int]]]:
    """The statements that are run, with their values and how many rows they gave."""
    seen: list[tuple[str, dict[str, Any], int]] = []

    async def fetch(source: QueryTarget, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        found = await original(source, sql, values)
        seen.append((sql, values, len(found)))
        return found

    with pytest.MonkeyPatch.context() as patch:
        original = searches.fetch
        patch.setattr(searches, "fetch", fetch)
        yield seen


async def explained(pool: Pool, sql: str, values: dict[str, Any]) -> str:
    async with pool.connection() as db:
        found = await (await db.execute(f"EXPLAIN {sql}", values)).fetchall()
    return "\n".join(line for (line,) in found)


async def indexes_of(pool: Pool, container: Container) -> list[tuple[int, str]]:
    """How many ranges have an index in which state, by path."""
    parts = [range_key(container.number, part) for part in range(RANGES)]
    async with pool.connection() as db:
        found = await db.execute(
            "SELECT count(*), state FROM property_indexes WHERE part = ANY(%s)"
            " GROUP BY path, state ORDER BY path, state",
            (parts,),
        )
        return await found.fetchall()


@pytest.mark.parametrize(
    ("predicate", "count"),
    [
        ("c.n = 5", 1),
        ("c.n = 5 AND c.even = false", 1),
        ("c.s = 'name7'", 5),
        ("c.even = true", 101),
        ("IS_NULL(c.kind)", 101),
        ("NOT IS_DEFINED(c.kind)", 0),
        ("c.n > 4990", 9),
        ("c.n BETWEEN 10 AND 19", 10),
        ("c.s < 'name10'", 10),
        ("STARTSWITH(c.s, 'name99')", 55),
        ("c.s IN ('name1', 'name2', 3)", 10),
        ("c.kind = 'cup' AND c.n < 50", 10),
    ],
)
def test_filters_use_their_index(pair: Pair, many: Container, predicate: str, count: int) -> None:
    async def work() -> None:
        async with recorded() as seen:
            page = await pair.postgres.search(many, filtered(predicate))
        assert len(page.rows) == min(count, 100)
        ways = [await explained(pair.pool, sql, values) for sql, values, _ in seen]
        assert any("property_values_sorted" in way for way in ways), ways
        assert not any("Seq Scan" in way for way in ways[-1:]), ways

    pair.run(work())


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("path", [("f",), ("s",), ("kind",)])
@pytest.mark.parametrize("predicate", ["true", "c.even = true"])
def test_orders_walk_along_their_index(
    pair: Pair, many: Container, path: PropertyPath, is_descending: bool, predicate: str
) -> None:
    """Page after page, and no page sorts what is not on it."""

    async def work() -> None:
        search = filtered(predicate, order=Order(path, is_descending))
        await pair.postgres.search(many, search)
        for _ in range(3):
            async with recorded() as seen:
                page = await pair.postgres.search(many, search)
            assert page.is_ordered
            assert len(page.rows) == 100
            for sql, values, _ in seen:
                way = await explained(pair.pool, sql, values)
                assert "using property_values_sorted" in way, way
                assert "Sort " not in way, way
            search = search._replace(start=page.next_position)

    pair.run(work())


def test_a_page_of_one_range_asks_for_its_part_only(pair: Pair, many: Container) -> None:
    async def work() -> None:
        await pair.postgres.search(many, filtered("c.n = 5"))  # makes the index, unless it is there
        async with recorded() as seen:
            for search in (
                Search(range_index=1, limit=10),
                Search(range_index=1, limit=10, after=item_number(1, 3000, 0)),
                Search(range_index=1, limit=10, pk_prefix=b"\x08a\xff"),
                filtered("c.n = 5", range_index=1),
            ):
                await pair.postgres.search(many, search)
        for sql, values, _ in seen:
            assert "part = %(part)s" in sql
            assert "Seq Scan" not in await explained(pair.pool, sql, values)

    pair.run(work())


def test_large_items_are_not_fetched_beyond_the_page(pair: Pair) -> None:
    large = {"text": "y" * 1_000_000}
    container = pair.fill([row_of(place, large) for place in range(20)])

    async def work() -> list[SearchPage]:
        async with recorded() as seen:
            found = await pages(pair.postgres, container, Search(limit=100, max_bytes=2_500_000))
        assert max(count for *_, count in seen) == 3
        return found

    found = pair.run(work())
    assert [len(page.rows) for page in found] == [2] * 10
    pair.empty(container)


def test_combinations_are_taken_on_another_thread(pair: Pair, many: Container) -> None:
    threads = set()
    pair.run(
        pair.postgres.count_groups(
            many,
            Search(),
            [("n",), ("s",)],
            lambda _groups: threads.add(threading.current_thread()),
        )
    )
    assert threads
    assert threading.main_thread() not in threads


def test_indexes_are_made_once_for_all_front_ends(pair: Pair) -> None:
    container = pair.fill([row_of(place, {"n": place}) for place in range(600)])
    others = [PostgresQueries(pair.pool, CatalogVersion(1)) for _ in range(4)]

    async def work() -> None:
        search = filtered("c.n = 5")
        found = await asyncio.gather(*(each.search(container, search) for each in others))
        assert {len(page.rows) for page in found} == {1}
        for each in others:
            access_path = await each.access_path(container, search)
            assert (access_path.method, access_path.examined) == ("index", 1)
            await each.close()

    pair.run(work())
    assert pair.run(indexes_of(pair.pool, container)) == [(RANGES, "ready")]
    pair.empty(container)


@asynccontextmanager
async def locked(pool: Pool, container: Container) -> AsyncIterator[None]:
    """A write that every step of an index has to wait for."""
    async with pool.connection() as db, db.transaction():
        part = range_key(container.number, RANGES - 1)
        await db.execute("SELECT 1 FROM positions WHERE part = %s FOR UPDATE", (part,))
        yield


async def waiting_builders(pool: Pool) -> list[int]:
    """The server's processes whose step of an index waits for a write, once there is one."""
    while True:
        async with pool.connection() as db:
            found = await db.execute(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE 'SELECT indexes FROM positions%' AND datname = current_database()"
            )
            if pids := [pid for (pid,) in await found.fetchall()]:
                return pids


def test_queries_do_not_wait_for_an_index_for_long(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_postgres, "_INDEX_WAIT", 0.05)
    container = pair.fill([row_of(place, {"n": place}) for place in range(600)])
    search = filtered("c.n = 5")

    async def work() -> None:
        queries = PostgresQueries(pair.pool, CatalogVersion(1))
        async with locked(pair.pool, container):
            for _ in range(2):
                assert len((await queries.search(container, search)).rows) == 1
            assert (await queries.access_path(container, search)).method == "scan"
            await waiting_builders(pair.pool)
        monkeypatch.setattr(on_postgres, "_INDEX_WAIT", 60)
        assert len((await queries.search(container, search)).rows) == 1
        assert (await queries.access_path(container, search)).method == "index"
        await queries.close()

    pair.run(work())
    pair.empty(container)


def test_old_transactions_hold_up_no_index(pair: Pair) -> None:
    container = pair.fill([row_of(place, {"n": place}) for place in range(600)])
    search = filtered("c.n = 5")

    async def work() -> None:
        async with pair.pool.connection() as db, db.transaction():
            await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await db.execute("SELECT count(*) FROM items WHERE part = ''")
            await pair.postgres.search(container, search)
            assert (await pair.postgres.access_path(container, search)).method == "index"

    pair.run(work())
    pair.empty(container)


def test_an_index_that_fails_is_completed_later(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = pair.fill([row_of(place, {"n": place}) for place in range(600)])
    search = filtered("c.n = 5")

    async def work() -> None:
        queries = PostgresQueries(pair.pool, CatalogVersion(1))
        async with locked(pair.pool, container):
            asked = asyncio.ensure_future(queries.search(container, search))
            (builder,) = await waiting_builders(pair.pool)
            async with pair.pool.connection() as db:
                await db.execute("SELECT pg_cancel_backend(%s::int)", (builder,))
            assert len((await asked).rows) == 1
        assert await indexes_of(pair.pool, container) == [(RANGES - 1, "filling")]
        # It is not tried again at once.
        assert (await queries.search(container, search)).rows
        assert await indexes_of(pair.pool, container) == [(RANGES - 1, "filling")]
        monkeypatch.setattr(index_limits, "RETRY_DELAY", 0)
        assert (await queries.search(container, search)).rows
        assert await indexes_of(pair.pool, container) == [(RANGES, "ready")]
        await queries.close()

    pair.run(work())
    pair.empty(container)


def test_half_an_index_is_completed_by_another_process(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stops while it fills an index leaves it so."""
    monkeypatch.setattr(property_indexes, "ITEMS_IN_A_STEP", 100)
    container = pair.fill([row_of(place, {"n": place}) for place in range(600)])
    part = range_key(container.number, 0)

    async def work() -> None:
        index = await property_indexes.add(pair.pool, part, ("n",))
        assert index is not None
        assert 0 < await property_indexes.fill_step(pair.pool, part, index) < 1
        listed = await pair.postgres.access_path(container, filtered("c.n = 5"))
        ((path, filled),) = listed.building
        assert path == ("n",)
        assert 0 < filled < 0.1  # of one of three ranges
        queries = PostgresQueries(pair.pool, CatalogVersion(1))
        for number in (5, 500):
            search = filtered(f"c.n = {number}")
            assert len((await queries.search(container, search)).rows) == 1
        assert await indexes_of(pair.pool, container) == [(RANGES, "ready")]
        rows = await property_indexes.listed(pair.pool, [part])
        assert [(each.id, each.state) for each in rows] == [(index.id, "ready")]
        await queries.close()

    pair.run(work())
    pair.empty(container)


def test_a_search_notices_that_its_index_was_dropped(pair: Pair) -> None:
    """By another process; this one believes for some seconds that the index exists."""
    container = pair.fill([row_of(place, {"n": place % 10}) for place in range(600)])
    grouped: list[GroupCount] = []

    async def work() -> None:
        queries, other = (PostgresQueries(pair.pool, CatalogVersion(1)) for _ in range(2))
        search = filtered("c.n = 5")
        assert len((await queries.search(container, search)).rows) == 60
        for work in (
            lambda: queries.search(container, search),
            lambda: queries.search(container, filtered("true", order=Order(("n",), False))),
            lambda: queries.count_groups(container, search, [], grouped.extend),
        ):
            before = await queries._indexes.find(container, ("n",))
            assert before is not None
            await other._indexes.drop_disallowed(container, lambda _: False)
            assert await indexes_of(pair.pool, container) == []
            page = await work()
            assert page is None or len(page.rows) in (60, 100)
            after = await queries._indexes.find(container, ("n",))
            assert after is not None
            assert set(after.values()).isdisjoint(before.values())
        assert [group.items for group in grouped] == [60]
        await queries.close()
        await other.close()

    pair.run(work())
    pair.empty(container)


@pytest.mark.parametrize("predicate", ["true", "c.n = 5 AND c.k != 3"])
def test_groups_are_counted_once_although_their_index_is_dropped(
    pair: Pair, predicate: str
) -> None:
    """Between two ranges: the groups of the first have been passed on."""
    rows = [
        row_of(place, {"n": place % 10, "k": place % 7}, place % RANGES) for place in range(600)
    ]
    container = pair.fill(rows)
    path = ("n",) if predicate == "true" else ("k",)
    expected: list[GroupCount] = []

    async def work() -> None:
        queries, other = (PostgresQueries(pair.pool, CatalogVersion(1)) for _ in range(2))
        search = filtered(predicate, cutoff=NOTHING_EXPIRED)._replace(indexable=frozenset({("n",)}))
        await queries.count_groups(container, search, [path], expected.extend)
        target = queries._target(container)
        access, indexed = await queries._choose_access(target, search, [path], creates=True)
        assert indexed is not None
        assert access.path == ("n",)
        groups = (
            indexed_groups._streamed(indexed, path)
            if predicate == "true"
            else indexed_groups.item_groups(indexed, [path])
        )
        found = await anext(groups)
        await other._indexes.drop_disallowed(container, lambda _: False)
        async for batch in groups:
            found += batch
        assert await indexes_of(pair.pool, container) == []
        assert totals(found) == totals(expected)
        await queries.close()
        await other.close()

    pair.run(work())
    pair.empty(container)


def totals(groups: list[GroupCount]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in groups:
        key = json.dumps(group.document)
        counts[key] = counts.get(key, 0) + group.items
    return counts


@pytest.mark.parametrize("way", ["scan", "walk", "combine"])
def test_an_abandoned_query_ends_on_the_server(pair: Pair, many: Container, way: str) -> None:
    async def ask() -> Any:
        match way:
            case "walk":
                return await pair.postgres.search(
                    many, filtered("true", order=Order(("f",), False))
                )
            case "combine":
                return await pair.postgres.count_groups(
                    many, Search(), [("kind",)], lambda *_: None
                )
            case _:
                return await pair.postgres.search(many, Search(limit=10))

    async def waiting(db: Any) -> int:
        found = await db.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted"
            " AND datname = current_database()"
        )
        return int((await found.fetchone())[0])

    async def work() -> None:
        await ask()
        async with pair.pool.connection() as db, db.transaction():
            await db.execute("LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
            asked = asyncio.ensure_future(ask())
            while not await waiting(db):
                pass
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert await waiting(db) == 0
        for _ in range(20):  # whichever connection it was
            await ask()

    pair.run(work())


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        (b'{"a":1.50}', None),
        (b'{"a":"1e5"}', None),
        (b'{"a":123456789012345}', None),
        (b'{"a":1e5}', b'{"a":100000.0}'),
        (b'{"a":[-1E-400]}', b'{"a":[-0.0]}'),
        (b'{"a":0.1000000000000000055511151231257827}', b'{"a":0.1}'),
        (b'{"a":0.30000000000000004}', b'{"a":0.30000000000000004}'),
        (b'{"a":9007199254740993}', b'{"a":9007199254740993}'),
        (b'{"a":9007199254740993.0}', b'{"a":9007199254740992.0}'),
        (b'{"a":1.2345678901234568e18}', b'{"a":1234567890123456768.0}'),
        (b'{"a":9223372036854775807}', b'{"a":9223372036854775807}'),
        (b'{"a":-9223372036854775808}', b'{"a":-9223372036854775808}'),
        (b'{"a":9223372036854775808}', b'{"a":9.223372036854776e+18}'),
        (b'{"a":18446744073709551615}', b'{"a":1.8446744073709552e+19}'),
        (b'{"a":1e300}', b'{"a":1e+300}'),
    ],
)
def test_what_queries_look_at(text: bytes, copy: bytes | None) -> None:
    found = normalized_json(text)
    assert found == (text if copy is None else copy)
    assert (found is text) is (copy is None)
