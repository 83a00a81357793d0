"""What the store on PostgreSQL does beyond the protocol: versions, groups, leases, bad values."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncRawCursor

from perseid.clock import ClockSetting
from perseid.errors import BadRequest, Conflict, ServiceUnavailable, StaleCatalog
from perseid.model import Container
from perseid.service.catalog import build_container
from perseid.store.postgres import indexes as property_indexes
from perseid.store.postgres import pool as postgres_pool
from perseid.store.postgres.store import PostgresStore
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
from tests.store.rows import DATABASE, Run, container_resource, insert, inserting, key, row
from tests.support.stores import Place

pytestmark = pytest.mark.only_on("postgres", reason="is about several front ends")

RESOURCE = container_resource(7)


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def pair(place: Place, run: Run[Any]) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two front ends of one database, and a container that both know."""
    dsn = place.lasting().store
    assert dsn is not None
    first = run(PostgresStore.open(dsn))
    run(first.change([PutResource(RESOURCE)]))
    second = run(PostgresStore.open(dsn))
    yield first, second
    run(second.close())
    run(first.close())


def seen_by(store: PostgresStore) -> Container:
    return build_container(RESOURCE, DATABASE, catalog_generation=store.catalog_generation)


def test_a_change_elsewhere_is_noticed_by_everything(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any]
) -> None:
    first, second = pair
    container = seen_by(second)
    run(second.check_catalog_version())
    run(first.change([PutResource(container_resource(9))]))
    looks: list[Callable[[], Awaitable[Any]]] = [
        second.check_catalog_version,
        lambda: second.read(container, 0, key("1")),
        lambda: second.search(container, Search()),
        lambda: second.search(container, Search(range_index=0)),
        lambda: insert(second, container, "1"),
        lambda: second.clear_partition(container, 0, b"\x08a\xff", NOTHING_EXPIRED),
        lambda: second.change([PutResource(container_resource(10))]),
        lambda: second.publish_clock(ClockSetting()),
    ]

    async def take(look: Callable[[], Awaitable[Any]]) -> None:
        await look()

    for look in looks:
        with pytest.raises(StaleCatalog):
            run(take(look))
    run(second.resources())
    with pytest.raises(StaleCatalog):  # taken from the catalog before it was read again
        run(second.read(container, 0, key("1")))
    current = seen_by(second)
    assert run(second.read(current, 0, key("1"))) == (None, 0)
    run(insert(second, current, "1"))
    assert run(first.read(seen_by(first), 0, key("1")))[1] == 1


def test_notes_disturb_nobody(pair: tuple[PostgresStore, PostgresStore], run: Run[Any]) -> None:
    first, second = pair
    run(first.change([AuditEntry(1, "c", {"a": 1})]))
    run(second.change([AuditEntry(2, "c", {"b": 2})]))
    run(second.check_catalog_version())
    assert [line for line, _ in run(first.audit_entries(None, 0, 10))] == [2, 3]


def test_the_clock_is_shared(pair: tuple[PostgresStore, PostgresStore], run: Run[Any]) -> None:
    first, second = pair
    trial = first.clock.trial()
    frozen = trial.freeze()
    run(first.publish_clock(trial.setting))
    first.clock.adopt(trial.setting)
    with pytest.raises(StaleCatalog):
        run(second.check_catalog_version())
    run(second.resources())
    assert first.clock.now() == second.clock.now() == frozen
    trial = second.clock.trial()
    trial.advance(1000)
    trial.resume()
    run(second.publish_clock(trial.setting))
    second.clock.adopt(trial.setting)
    run(first.resources())
    assert abs(first.clock.now() - second.clock.now()) < 0.5
    assert first.clock.now() >= frozen
    assert abs(first.clock.now() - first.clock.database_time() - 1000) < 60


@pytest.mark.parametrize("statement", ["UPDATE shared", "COMMIT"])
def test_a_move_of_the_clock_whose_answer_is_lost_is_not_made_twice(
    pair: tuple[PostgresStore, PostgresStore],
    run: Run[Any],
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
) -> None:
    """StaleCatalog would say that nothing was done, and the request would begin anew."""
    store, other = pair
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
        run(store.publish_clock(ClockSetting(offset=10.0)))
    assert lost
    run(other.resources())
    assert other.clock.setting.offset == 10


def test_a_lease_keeps_others_away_until_it_is_given_up(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any]
) -> None:
    first, second = pair
    one, other = seen_by(first), seen_by(second)
    for item in range(6):
        run(insert(first, one, f"{item}", ttl=1))
    dead = Cutoff(0, 1000)
    assert len(run(first.purge(PurgeRequest(one, 0, dead, 2))).items) == 2
    with pytest.raises(PurgeLeaseTaken):
        run(second.purge(PurgeRequest(other, 0, dead, 2)))
    assert len(run(second.purge(PurgeRequest(other, 0, dead, 1, take_over_lease=True))).items) == 1
    with pytest.raises(PurgeLeaseTaken):
        run(first.purge(PurgeRequest(one, 0, dead, 1)))
    run(second.close())
    assert len(run(first.purge(PurgeRequest(one, 0, dead, 10))).items) == 3
    assert run(first.usage(one, 0, NOTHING_EXPIRED)).purged_items == 6


def test_two_front_ends_leave_nothing_of_a_dropped_container(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any]
) -> None:
    """One is stopped between a step and its commit: what the other finds gone is not all."""
    first, second = pair
    run(insert(first, seen_by(first), *"abcdef"))
    run(first.change([RemoveResource(RESOURCE)]))

    async def reap_both() -> None:
        async with first._pool.connection() as db:
            await db.execute(
                "CREATE FUNCTION perseid.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$"
            )
            await db.execute(
                "CREATE TRIGGER stopping AFTER DELETE ON perseid.items"
                " FOR EACH STATEMENT EXECUTE FUNCTION perseid.stop()"
            )
            await db.execute("SELECT pg_advisory_lock(1)")
            one = asyncio.create_task(first.purge_cleared(2))
            await _waiting(db, 1)
            other = asyncio.create_task(second.purge_cleared(2))
            await _waiting(db, 2, other)
            await db.execute("SELECT pg_advisory_unlock(1)")
            await asyncio.gather(one, other)
            while await first.purge_cleared(2):
                pass
            left = await db.execute("SELECT part FROM items UNION ALL SELECT part FROM dropped")
            assert await left.fetchall() == []

    run(reap_both())


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
def test_what_json_there_cannot_hold_harms_nobody_else(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any], text: str
) -> None:
    store, container = pair[0], seen_by(pair[0])

    async def write() -> Any:
        bad = b'{"id":"bad","v":%b}' % text.encode()
        return await asyncio.gather(
            store.write(container, 0, [], inserting("a")),
            store.write(container, 0, [], inserting("bad", body=bad)),
            store.write(container, 0, [], inserting("b")),
            return_exceptions=True,
        )

    first, refused, last = run(write())
    assert isinstance(refused, BadRequest)
    assert [first[0].id, last[0].id] == ["a", "b"]
    assert run(store.lsns(container)) == (2, 0)


@pytest.mark.parametrize("text", ['"\\\\u0000"', '"\\ud83d\\ude00"', '"\\u00e9\\\\"'])
def test_what_only_looks_like_it(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any], text: str
) -> None:
    body = b'{"id":"1","v":%b}' % text.encode()
    store, container = pair[0], seen_by(pair[0])
    run(store.write(container, 0, [], inserting("1", body=body)))
    assert run(store.read(container, 0, key("1")))[0].body == body


def test_a_value_that_the_database_finds_out_about_harms_nobody_else(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any]
) -> None:
    store, container = pair[0], seen_by(pair[0])
    deep = b'{"id":"deep","v":' + b"[" * 20_000 + b"]" * 20_000 + b"}"

    async def write() -> Any:
        return await asyncio.gather(
            store.write(container, 0, [], inserting("a")),
            store.write(container, 0, [], inserting("deep", body=deep)),
            store.write(container, 0, [], inserting("b")),
            return_exceptions=True,
        )

    first, refused, last = run(write())
    assert isinstance(refused, BadRequest)
    assert [first[0].id, last[0].id] == ["a", "b"]


def test_writes_of_a_group_see_each_other(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any]
) -> None:
    store, container = pair[0], seen_by(pair[0])

    def create(view: View) -> Decision[None]:
        if view.rows[key("1")] is not None:
            raise Conflict("there")
        return Decision([Put(row(view.lsn, "1"))], None)

    async def write() -> list[Any]:
        return await asyncio.gather(
            *(store.write(container, 0, [key("1")], create) for _ in range(20)),
            return_exceptions=True,
        )

    results = run(write())
    assert [result for result in results if result is None] == [None]
    assert sum(isinstance(result, Conflict) for result in results) == 19
    assert run(store.lsns(container)) == (1, 0)


def test_tables_of_a_newer_release_are_left_alone(place: Place, run: Run[Any]) -> None:
    dsn = place.lasting().store
    assert dsn is not None
    store = run(PostgresStore.open(dsn))
    run(store.put_meta("layout", "99"))
    run(store.close())
    with pytest.raises(StoreError, match="layout 99"):
        run(PostgresStore.open(dsn))


@pytest.mark.parametrize("dsn", ["postgresql://u:hush@[", "postgresql://u:hush@127.0.0.1:1/d"])
def test_a_wrong_address_is_told_without_its_password(run: Run[Any], dsn: str) -> None:
    with pytest.raises(StoreError) as caught:
        run(PostgresStore.open(dsn))
    assert "hush" not in str(caught.value)


def test_who_has_waited_for_a_connection_in_vain_does_not_wait_again(
    place: Place, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement is run again if its connection was lost, not if there was none to be had."""
    monkeypatch.setattr(postgres_pool, "_CONNECTIONS", 2)
    monkeypatch.setattr(postgres_pool, "_CONNECT_TIMEOUT", 0.2)
    dsn = place.lasting().store
    assert dsn is not None
    waits = 0

    async def work() -> None:
        store = await PostgresStore.open(dsn)
        pool = store._pool
        async with pool.connection(timeout=10), pool.connection(timeout=10):
            getconn = pool.getconn

            async def counted(*limit: float) -> postgres_pool.DatabaseConnection:
                nonlocal waits
                waits += 1
                return await getconn(*limit)

            monkeypatch.setattr(pool, "getconn", counted)
            with pytest.raises(ServiceUnavailable, match="cannot be reached"):
                await store.get_meta("a")
            assert waits == 1
        await store.close()

    run(work())


@pytest.mark.parametrize("given", ["", "tcp_user_timeout=70000"])
def test_a_database_that_falls_silent_is_noticed(place: Place, run: Run[Any], given: str) -> None:
    """Within seconds, and not when the system gives up; unless the address says so."""
    dsn = place.lasting().store
    assert dsn is not None

    async def work() -> dict[str, str]:
        store = await PostgresStore.open(dsn + ("&" if "?" in dsn else "?") + given)
        try:
            async with store._pool.connection() as db:
                return db.info.get_parameters()
        finally:
            await store.close()

    found = run(work())
    assert found["tcp_user_timeout"] == ("70000" if given else "10000")
    assert [found[f"keepalives_{each}"] for each in ("idle", "interval", "count")] == [
        *("10", "5", "2")
    ]


def test_indexes_that_wait_for_their_turn_leave_others_their_connections(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another front end makes an index, which takes long, and many more are asked for here."""
    monkeypatch.setattr(property_indexes, "_INDEX_WAIT", 0.5)
    first, second = pair
    indexes = first._queries._indexes

    async def work() -> None:
        async with second._pool.connection() as db, property_indexes._index_lock(db):
            asked = [indexes.make(7, (f"p{each}",)) for each in range(2 * first._pool.max_size)]
            assert not any(await asyncio.gather(*asked))
            await indexes.drop_disallowed(7, lambda _: False)
            assert await first.read(seen_by(first), 0, key("1")) == (None, 0)

    run(work())


def test_a_container_that_goes_before_its_index_is_made_leaves_none(
    pair: tuple[PostgresStore, PostgresStore], run: Run[Any]
) -> None:
    """Whoever removed what it had left found no index to drop."""
    first, second = pair
    indexes = first._queries._indexes

    async def work() -> None:
        async with second._pool.connection() as db, property_indexes._index_lock(db):
            asked = asyncio.create_task(indexes.make(7, ("p",)))
            await first.change([RemoveResource(RESOURCE)])
            while await second.purge_cleared(10):
                pass
        await asyncio.gather(asked, *indexes._tasks)
        assert await indexes.find(7, ("p",)) is None
        async with second._pool.connection() as db:
            assert await property_indexes._listed(db) == []

    run(work())


def test_a_large_partition_takes_as_long_as_it_takes_to_clear(place: Place, run: Run[Any]) -> None:
    dsn = place.lasting().store
    assert dsn is not None
    store = run(PostgresStore.open(dsn))
    run(store.change([PutResource(RESOURCE)]))
    container = seen_by(store)
    run(insert(store, container, "1", "2"))
    # Nobody waits: whoever deletes with a time limit is refused, however quick it would have been.
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(
            "CREATE FUNCTION perseid.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF current_setting('statement_timeout') <> '0' THEN RAISE 'limited'; END IF;"
            " RETURN NULL; END $$"
        )
        db.execute(
            "CREATE TRIGGER watching AFTER DELETE ON perseid.items"
            " FOR EACH STATEMENT EXECUTE FUNCTION perseid.watch()"
        )
    cleared = run(store.clear_partition(container, 0, b"\x08a\xff", NOTHING_EXPIRED))
    assert cleared.live == [(19, 2, 6)]
    assert run(store.usage(container, 0, NOTHING_EXPIRED)).items == 0
    run(store.close())
