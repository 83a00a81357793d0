"""What the store on PostgreSQL does beyond the protocol: versions, groups, leases, bad values."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncRawCursor

from perseid.clock import ClockSetting, SharedClock
from perseid.errors import BadRequest, Conflict, ServiceUnavailable, StaleCatalog
from perseid.model import Container
from perseid.service.catalog import build_container
from perseid.store.postgres import indexes as property_indexes
from perseid.store.postgres import pool as postgres_pool
from perseid.store.postgres.metadata import PostgresMetadata
from perseid.store.postgres.queries import PostgresQueries
from perseid.store.postgres.store import open_stores
from perseid.store.protocol import Stores
from perseid.store.types import (
    AuditEntry,
    Decision,
    PurgeLeaseTaken,
    PurgeRequest,
    Put,
    PutResource,
    RemoveResource,
    Search,
    StoreError,
    View,
)
from perseid.ttl import NOTHING_EXPIRED, Cutoff
from tests.support.rows import DATABASE, Run, container_resource, insert, inserting, key, row
from tests.support.stores import Place, pool_of

pytestmark = pytest.mark.only_on("postgres", reason="is about several front ends")

RESOURCE = container_resource(7)


@pytest.fixture
def two_stores(place: Place, run: Run[Any]) -> Iterator[tuple[Stores, Stores]]:
    """Two front ends of one database, and a container that both know."""
    dsn = place.lasting().store
    assert dsn is not None
    first = run(open_stores(dsn))[0]
    run(first.metadata.change([PutResource(RESOURCE)]))
    second = run(open_stores(dsn))[0]
    yield first, second
    run(second.close())
    run(first.close())


def clock_of(store: Stores) -> SharedClock:
    assert isinstance(store.metadata, PostgresMetadata)
    return store.metadata._clock


def indexes_of(store: Stores) -> property_indexes.PropertyIndexes:
    assert isinstance(store.queries, PostgresQueries)
    return store.queries._indexes


def seen_by(store: Stores) -> Container:
    return build_container(RESOURCE, DATABASE, catalog_generation=store.metadata.generation)


def test_a_change_elsewhere_is_noticed_by_everything(
    two_stores: tuple[Stores, Stores], run: Run[Any]
) -> None:
    first, second = two_stores
    container = seen_by(second)
    run(second.metadata.check_catalog_version())
    run(first.metadata.change([PutResource(container_resource(9))]))
    looks: list[Callable[[], Awaitable[Any]]] = [
        second.metadata.check_catalog_version,
        lambda: second.items.read(container, 0, key("1")),
        lambda: second.queries.search(container, Search()),
        lambda: second.queries.search(container, Search(range_index=0)),
        lambda: insert(second, container, "1"),
        lambda: second.items.clear_partition(container, 0, b"\x08a\xff", NOTHING_EXPIRED),
        lambda: second.metadata.change([PutResource(container_resource(10))]),
        lambda: second.metadata.publish_clock(ClockSetting()),
    ]

    async def take(look: Callable[[], Awaitable[Any]]) -> None:
        await look()

    for look in looks:
        with pytest.raises(StaleCatalog):
            run(take(look))
    run(second.metadata.resources())
    with pytest.raises(StaleCatalog):  # taken from the catalog before it was read again
        run(second.items.read(container, 0, key("1")))
    current = seen_by(second)
    assert run(second.items.read(current, 0, key("1"))) == (None, 0)
    run(insert(second, current, "1"))
    assert run(first.items.read(seen_by(first), 0, key("1")))[1] == 1


def test_notes_disturb_no_other_store(two_stores: tuple[Stores, Stores], run: Run[Any]) -> None:
    first, second = two_stores
    run(first.metadata.change([AuditEntry(1, "c", {"a": 1})]))
    run(second.metadata.change([AuditEntry(2, "c", {"b": 2})]))
    run(second.metadata.check_catalog_version())
    assert [line for line, _ in run(first.metadata.audit_entries(None, 0, 10))] == [2, 3]


def test_the_clock_is_shared(two_stores: tuple[Stores, Stores], run: Run[Any]) -> None:
    first, second = two_stores
    trial = clock_of(first).trial()
    frozen = trial.freeze()
    run(first.metadata.publish_clock(trial.setting))
    clock_of(first).adopt(trial.setting)
    with pytest.raises(StaleCatalog):
        run(second.metadata.check_catalog_version())
    run(second.metadata.resources())
    assert clock_of(first).now() == clock_of(second).now() == frozen
    trial = clock_of(second).trial()
    trial.advance(1000)
    trial.resume()
    run(second.metadata.publish_clock(trial.setting))
    clock_of(second).adopt(trial.setting)
    run(first.metadata.resources())
    assert abs(clock_of(first).now() - clock_of(second).now()) < 0.5
    assert clock_of(first).now() >= frozen
    assert abs(clock_of(first).now() - clock_of(first).database_time() - 1000) < 60


@pytest.mark.parametrize("statement", ["UPDATE shared", "COMMIT"])
def test_a_move_of_the_clock_whose_answer_is_lost_is_not_made_twice(
    two_stores: tuple[Stores, Stores],
    run: Run[Any],
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
) -> None:
    """StaleCatalog would say that nothing was done, and the request would begin again."""
    store, other = two_stores
    execute = AsyncRawCursor.execute
    lost: list[str] = []

    async def lose(self: Any, query: Any, *rest: Any, **more: Any) -> Any:
        done = await execute(self, query, *rest, **more)
        if query.startswith(statement) and not lost:
            lost.append(query)
            raise psycopg.OperationalError("the connection is lost")
        return done

    monkeypatch.setattr(AsyncRawCursor, "execute", lose)
    with contextlib.suppress(ServiceUnavailable):
        run(store.metadata.publish_clock(ClockSetting(offset=10.0)))
    assert lost
    run(other.metadata.resources())
    assert clock_of(other).setting.offset == 10


def test_a_lease_keeps_others_away_until_it_is_given_up(
    two_stores: tuple[Stores, Stores], run: Run[Any]
) -> None:
    first, second = two_stores
    one, other = seen_by(first), seen_by(second)
    for item in range(6):
        run(insert(first, one, f"{item}", ttl=1))
    expired = Cutoff(0, 1000)
    assert len(run(first.expiry.purge(PurgeRequest(one, 0, expired, 2))).items) == 2
    with pytest.raises(PurgeLeaseTaken):
        run(second.expiry.purge(PurgeRequest(other, 0, expired, 2)))
    assert (
        len(
            run(second.expiry.purge(PurgeRequest(other, 0, expired, 1, take_over_lease=True))).items
        )
        == 1
    )
    with pytest.raises(PurgeLeaseTaken):
        run(first.expiry.purge(PurgeRequest(one, 0, expired, 1)))
    run(second.close())
    assert len(run(first.expiry.purge(PurgeRequest(one, 0, expired, 10))).items) == 3
    assert run(first.items.usage(one, 0, NOTHING_EXPIRED)).purged_items == 6


def test_two_front_ends_leave_nothing_of_a_dropped_container(
    two_stores: tuple[Stores, Stores], run: Run[Any]
) -> None:
    """One is stopped between a step and its commit: what the other finds gone is not all."""
    first, second = two_stores
    run(insert(first, seen_by(first), *"abcdef"))
    run(first.metadata.change([RemoveResource(RESOURCE)]))

    async def purge_both() -> None:
        async with pool_of(first).connection() as db:
            await db.execute(
                "CREATE FUNCTION perseid.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$"
            )
            await db.execute(
                "CREATE TRIGGER stopping AFTER DELETE ON perseid.items"
                " FOR EACH STATEMENT EXECUTE FUNCTION perseid.stop()"
            )
            await db.execute("SELECT pg_advisory_lock(1)")
            one = asyncio.create_task(first.expiry.purge_cleared(2))
            await _waiting(db, 1)
            other = asyncio.create_task(second.expiry.purge_cleared(2))
            await _waiting(db, 2, other)
            await db.execute("SELECT pg_advisory_unlock(1)")
            await asyncio.gather(one, other)
            while await first.expiry.purge_cleared(2):
                pass
            left = await db.execute("SELECT part FROM items UNION ALL SELECT part FROM dropped")
            assert await left.fetchall() == []

    run(purge_both())


async def _waiting(db: Any, count: int, unless: asyncio.Future[Any] | None = None) -> None:
    """Until so many sessions wait for a lock, or the task is done without."""
    sql = (
        "SELECT COUNT(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(60):
        while not (unless and unless.done()):
            (found,) = await (await db.execute(sql)).fetchone()
            if found == count:
                return


@pytest.mark.parametrize(
    "text",
    ['"\\u0000"', '"a\\u0000"', '"\\\\\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud800x"'],
)
def test_what_json_there_cannot_hold_harms_no_other_write(
    two_stores: tuple[Stores, Stores], run: Run[Any], text: str
) -> None:
    store, container = two_stores[0], seen_by(two_stores[0])

    async def write() -> Any:
        bad = b'{"id":"bad","v":%b}' % text.encode()
        return await asyncio.gather(
            store.items.write(container, 0, [], inserting("a")),
            store.items.write(container, 0, [], inserting("bad", body=bad)),
            store.items.write(container, 0, [], inserting("b")),
            return_exceptions=True,
        )

    first, refused, last = run(write())
    assert isinstance(refused, BadRequest)
    assert [first[0].id, last[0].id] == ["a", "b"]
    assert run(store.items.lsns(container)) == (2, 0)


@pytest.mark.parametrize("text", ['"\\\\u0000"', '"\\ud83d\\ude00"', '"\\u00e9\\\\"'])
def test_what_only_looks_like_it(
    two_stores: tuple[Stores, Stores], run: Run[Any], text: str
) -> None:
    body = b'{"id":"1","v":%b}' % text.encode()
    store, container = two_stores[0], seen_by(two_stores[0])
    run(store.items.write(container, 0, [], inserting("1", body=body)))
    assert run(store.items.read(container, 0, key("1")))[0].body == body


def test_a_value_that_the_database_finds_out_about_harms_no_other_write(
    two_stores: tuple[Stores, Stores], run: Run[Any]
) -> None:
    store, container = two_stores[0], seen_by(two_stores[0])
    deep = b'{"id":"deep","v":' + b"[" * 20_000 + b"]" * 20_000 + b"}"

    async def write() -> Any:
        return await asyncio.gather(
            store.items.write(container, 0, [], inserting("a")),
            store.items.write(container, 0, [], inserting("deep", body=deep)),
            store.items.write(container, 0, [], inserting("b")),
            return_exceptions=True,
        )

    first, refused, last = run(write())
    assert isinstance(refused, BadRequest)
    assert [first[0].id, last[0].id] == ["a", "b"]


def test_writes_of_a_group_see_each_other(two_stores: tuple[Stores, Stores], run: Run[Any]) -> None:
    store, container = two_stores[0], seen_by(two_stores[0])

    def create(view: View) -> Decision[None]:
        if view.rows[key("1")] is not None:
            raise Conflict("there")
        return Decision([Put(row(view.lsn, "1"))], None)

    async def write() -> list[Any]:
        return await asyncio.gather(
            *(store.items.write(container, 0, [key("1")], create) for _ in range(20)),
            return_exceptions=True,
        )

    results = run(write())
    assert [result for result in results if result is None] == [None]
    assert sum(isinstance(result, Conflict) for result in results) == 19
    assert run(store.items.lsns(container)) == (1, 0)


def test_tables_of_a_newer_release_are_left_alone(place: Place, run: Run[Any]) -> None:
    dsn = place.lasting().store
    assert dsn is not None
    store = run(open_stores(dsn))[0]
    run(store.values.put("layout", "99"))
    run(store.close())
    with pytest.raises(StoreError, match="layout 99"):
        run(open_stores(dsn))[0]


@pytest.mark.parametrize("dsn", ["postgresql://u:hush@[", "postgresql://u:hush@127.0.0.1:1/d"])
def test_a_wrong_address_is_told_without_its_password(run: Run[Any], dsn: str) -> None:
    with pytest.raises(StoreError) as caught:
        run(open_stores(dsn))[0]
    assert "hush" not in str(caught.value)


def test_who_has_waited_for_a_connection_in_vain_does_not_wait_again(
    place: Place, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement is run again if its connection was lost, not if there was none to be had."""
    monkeypatch.setattr(postgres_pool, "_CONNECTIONS", 2)
    dsn = place.lasting().store
    assert dsn is not None
    waits = 0

    async def work() -> None:
        store, _ = await open_stores(dsn)
        pool = pool_of(store)
        async with pool.connection(timeout=60), pool.connection(timeout=60):
            monkeypatch.setattr(pool, "timeout", 0.2)
            getconn = pool.getconn

            async def counted(*limit: float) -> postgres_pool.DatabaseConnection:
                nonlocal waits
                waits += 1
                return await getconn(*limit)

            monkeypatch.setattr(pool, "getconn", counted)
            with pytest.raises(ServiceUnavailable, match="cannot be reached"):
                await store.values.get("a")
            assert waits == 1
        await store.close()

    run(work())


@pytest.mark.parametrize("given", ["", "tcp_user_timeout=70000"])
def test_a_database_that_falls_silent_is_noticed(place: Place, run: Run[Any], given: str) -> None:
    """Within seconds, and not when the system gives up; unless the address says so."""
    dsn = place.lasting().store
    assert dsn is not None

    async def work() -> dict[str, str]:
        store, _ = await open_stores(dsn + ("&" if "?" in dsn else "?") + given)
        try:
            async with pool_of(store).connection() as db:
                return db.info.get_parameters()
        finally:
            await store.close()

    found = run(work())
    assert found["tcp_user_timeout"] == ("70000" if given else "10000")
    assert [found[f"keepalives_{each}"] for each in ("idle", "interval", "count")] == [
        *("10", "5", "2")
    ]


def test_indexes_that_wait_for_their_turn_leave_others_their_connections(
    two_stores: tuple[Stores, Stores], run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write to the container takes long, and many indexes are asked for."""
    monkeypatch.setattr(property_indexes, "_INDEX_WAIT", 0.5)
    first, second = two_stores
    indexes, container = indexes_of(first), seen_by(first)

    async def work() -> None:
        async with locked_range(second):
            count = 2 * pool_of(first).max_size
            asked = [indexes.make(container, (f"p{each}",)) for each in range(count)]
            assert not any(await asyncio.gather(*asked))
            await indexes.drop_disallowed(container, lambda _: False)
            assert await first.items.read(container, 0, key("1")) == (None, 0)

    run(work())


def test_a_container_that_goes_before_its_index_is_made_leaves_none(
    two_stores: tuple[Stores, Stores], run: Run[Any]
) -> None:
    first, second = two_stores
    indexes, container = indexes_of(first), seen_by(first)

    async def work() -> None:
        async with locked_range(second):
            asked = asyncio.create_task(indexes.make(container, ("p",)))
            removed = asyncio.create_task(first.metadata.change([RemoveResource(RESOURCE)]))
            await asyncio.sleep(0)
        await asyncio.gather(asked, removed, *indexes._tasks)
        while await second.expiry.purge_cleared(10):
            pass
        async with pool_of(second).connection() as db:
            for table in ("property_indexes", "property_values"):
                assert await (await db.execute(f"SELECT * FROM {table}")).fetchall() == []

    run(work())


@contextlib.asynccontextmanager
async def locked_range(store: Stores) -> AsyncIterator[None]:
    """As a write locks it."""
    async with pool_of(store).connection() as db, db.transaction():
        await db.execute("SELECT 1 FROM positions WHERE part = '7:0' FOR UPDATE")
        yield
