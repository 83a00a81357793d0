"""Point reads that share a statement return what they would return alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid.config import Settings
from perseid.errors import (
    OwnerNotFound,
    RequestTimeout,
    ServiceUnavailable,
    StaleCatalog,
)
from perseid.model import Container, Row
from perseid.service.catalog import build_container
from perseid.store.postgres import pool as postgres_pool
from perseid.store.postgres import shared_reads, statements
from perseid.store.postgres.connection import KeptStatement
from perseid.store.postgres.items import PostgresItems
from perseid.store.postgres.pool import Pool
from perseid.store.postgres.shared_reads import SharedReads
from perseid.store.postgres.store import open_stores
from perseid.store.protocol import Stores
from perseid.store.types import Decision, Put, PutResource, Remove, RemoveResource, View
from tests.support.builders import create_container, temporary_database
from tests.support.raw import RawClient
from tests.support.rows import DATABASE, Run, container_resource, insert, key, row
from tests.support.servers import Servers
from tests.support.stores import Place, pool_of
from tests.support.ttl_containers import drain

pytestmark = pytest.mark.only_on("postgres", reason="is about its statements")

RESOURCE: Final = container_resource(7)
LOCK: Final = "LOCK TABLE perseid.items IN ACCESS EXCLUSIVE MODE"
Read = asyncio.Future[tuple[Row | None, int]]


@pytest.fixture
def home(place: Place) -> Settings:
    return place.lasting()


@pytest.fixture
def store(home: Settings, run: Run[Any]) -> Iterator[Stores]:
    assert home.store is not None
    opened = run(open_stores(home.store, durability="off"))[0]
    run(opened.metadata.change([PutResource(RESOURCE)]))
    yield opened
    run(opened.close())


@pytest.fixture
def container(store: Stores) -> Container:
    """Of two ranges."""
    return seen_by(store)


def seen_by(store: Stores) -> Container:
    return build_container(RESOURCE, DATABASE, catalog_generation=store.metadata.generation)


def reads_of(store: Stores) -> SharedReads:
    assert isinstance(store.items, PostgresItems)
    return store.items._reads


class Statements:
    """The statements of point reads, each of which is sent when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[KeptStatement, Sequence[bytes]]] = []
        self.gates: dict[str, asyncio.Semaphore] = {}  # by range
        self.returns: dict[str, asyncio.Semaphore] = {}  # the same for their results
        self._done = 0
        self._lock: tuple[psycopg.AsyncConnection[Any], KeptStatement] | None = None
        self._changed = asyncio.Condition()

    async def fetch_kept(
        self, pool: Pool, statement: KeptStatement, values: Sequence[bytes]
    ) -> Any:
        part = values[0].decode()
        async with self._changed:
            self.sent.append((statement, values))
            self._changed.notify_all()
        gate = self.gates.get(part)
        if gate is not None:
            await gate.acquire()
        if self._lock is not None and self._lock[1] == statement:
            (db, _), self._lock = self._lock, None
            await db.execute(LOCK)
        rows = await postgres_pool.fetch_kept(pool, statement, values)
        async with self._changed:
            self._done += 1
            self._changed.notify_all()
        if part in self.returns:
            await self.returns[part].acquire()
        return rows

    def lock_before(self, db: psycopg.AsyncConnection[Any], statement: KeptStatement) -> None:
        """The next one of these waits in the database for the connection."""
        self._lock = db, statement

    def key_counts(self) -> list[int]:
        """How many items each statement reads; an array has its length in its head."""
        return [
            1 if statement == shared_reads.READ else int.from_bytes(values[1][12:16])
            for statement, values in self.sent
        ]

    async def begun(self, count: int) -> None:
        """Until so many statements were begun."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: len(self.sent) >= count)

    async def done(self, count: int) -> None:
        """Until the database has answered so many."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: self._done >= count)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Statements:
    found = Statements()
    monkeypatch.setattr(shared_reads, "fetch_kept", found.fetch_kept)
    return found


async def begin(store: Stores, container: Container, *ids: str, part: int = 0) -> list[Read]:
    """Reads that have begun, in this order."""
    reads: list[Read] = [
        asyncio.ensure_future(store.items.read(container, part, key(item_id))) for item_id in ids
    ]
    await asyncio.sleep(0)
    return reads


async def ids_of(reads: Sequence[Read]) -> list[str | None]:
    return [None if found is None else found.id for found, _ in await asyncio.gather(*reads)]


async def alone(store: Stores, item_id: str, part: str = "7:0") -> tuple[Row | None, int]:
    """What a statement of its own returns."""
    rows = await postgres_pool.fetch_rows(pool_of(store), statements.READ, (part, *key(item_id)))
    _, lsn, *columns = rows[0]
    return (None if columns[0] is None else Row._make(columns)), lsn


@asynccontextmanager
async def locked(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """No statement can read items until the connection's transaction ends."""
    async with await psycopg.AsyncConnection.connect(dsn) as db:
        await db.execute(LOCK)
        yield db


async def blocked(db: psycopg.AsyncConnection[Any]) -> int:
    """The session that waits for the lock, once there is one."""
    async with asyncio.timeout(60):
        while True:
            # Not pg_stat_activity: a transaction sees the sessions of its first look at it.
            found = await db.execute(
                "SELECT pid FROM pg_locks WHERE NOT granted"
                " AND relation = 'perseid.items'::regclass"
            )
            if session := await found.fetchone():
                return int(session[0])


def test_reads_that_wait_share_a_statement(
    store: Stores, container: Container, run: Run[Any], sent: Statements
) -> None:
    async def work() -> None:
        await insert(store, container, "a", "b", "c", "d")
        sent.gates["7:0"] = asyncio.Semaphore(0)
        ids = ("a", "b", "none", "c", "b", "nul\0", "d")
        reads = await begin(store, container, *ids)
        await sent.begun(1)
        sent.gates["7:0"].release()
        await sent.begun(2)
        sent.gates["7:0"].release()
        results = await asyncio.gather(*reads)
        assert [statement for statement, _ in sent.sent] == [
            shared_reads.READ,
            shared_reads.READ_SEVERAL,
        ]
        assert results == [
            (None, 1) if item_id == "nul\0" else await alone(store, item_id) for item_id in ids
        ]
        assert reads_of(store)._waiting == {}
        # An idle range: the statement of one read, and again with one that waits alone.
        sent.gates.clear()
        assert await ids_of(await begin(store, container, "a", "b")) == ["a", "b"]
        assert [statement for statement, _ in sent.sent[2:]] == [shared_reads.READ] * 2

    run(work())


def test_a_read_sees_what_was_written_before_it(
    store: Stores, container: Container, run: Run[Any], sent: Statements
) -> None:
    """It does not join the statement that is in progress."""

    async def work() -> None:
        await insert(store, container, "a")
        sent.returns["7:0"] = asyncio.Semaphore(0)
        first = await begin(store, container, "b")
        await sent.done(1)
        await insert(store, container, "b")
        later = await begin(store, container, "b", "a")
        sent.returns.pop("7:0").release()
        assert await ids_of(first) == [None]
        assert await ids_of(later) == ["b", "a"]

    run(work())


def test_a_read_that_is_cancelled_leaves_the_others_alone(
    store: Stores, container: Container, run: Run[Any], sent: Statements
) -> None:
    async def work() -> None:
        ids = ("a", "b", "c", "d", "e")
        await insert(store, container, *ids)
        gate = sent.gates["7:0"] = asyncio.Semaphore(0)
        reads = await begin(store, container, *ids)
        reads[2].cancel()  # waits
        await sent.begun(1)
        reads[0].cancel()  # its statement is in progress
        await sent.begun(2)
        assert sent.key_counts() == [1, 3]
        reads[3].cancel()  # in a shared statement that is in progress
        gate.release()
        assert await ids_of([reads[1], reads[4]]) == ["b", "e"]
        assert all(reads[each].cancelled() for each in (0, 2, 3))
        # All that wait are cancelled: nothing is sent for them.
        reads = await begin(store, container, "a", "b", "c")
        for each in reads[1:]:
            each.cancel()
        gate.release()
        assert await ids_of(reads[:1]) == ["a"]
        await asyncio.gather(*reads, return_exceptions=True)
        await asyncio.gather(*reads_of(store)._tasks)
        assert (len(sent.sent), reads_of(store)._waiting) == (3, {})

    run(work())


def test_a_cancelled_statement_ends_in_the_database(
    home: Settings, store: Stores, container: Container, run: Run[Any]
) -> None:
    """The read that began it is cancelled; its connection can be used again."""
    assert home.store is not None
    dsn = home.store

    async def work() -> None:
        await insert(store, container, "a", "b")
        async with locked(dsn) as db:
            reads = await begin(store, container, "a", "b")
            first = await blocked(db)
            reads[0].cancel()
            while await blocked(db) == first:
                pass
            await db.rollback()
            assert await ids_of(reads[1:]) == ["b"]
        for _ in range(20):  # whichever connection it was
            assert await ids_of(await begin(store, container, "a", "b")) == ["a", "b"]

    run(work())


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_lost_connection_is_made_up_for(
    home: Settings,
    store: Stores,
    container: Container,
    run: Run[Any],
    sent: Statements,
    is_shared: bool,
) -> None:
    """The statement is in progress when its session ends."""
    assert home.store is not None
    dsn = home.store
    lost = shared_reads.READ_SEVERAL if is_shared else shared_reads.READ

    async def work() -> None:
        ids = ("a", "b", "c")
        await insert(store, container, *ids)
        async with await psycopg.AsyncConnection.connect(dsn) as db:
            sent.lock_before(db, lost)
            reads = await begin(store, container, *ids)
            first = await blocked(db)
            await db.execute("SELECT pg_terminate_backend(%s)", (first,))
            while await blocked(db) == first:
                pass
            await db.rollback()
            assert await ids_of(reads) == [*ids]
        assert len(sent.sent) == 2

    run(work())


def test_an_error_reaches_the_reads_of_its_statement_only(
    home: Settings, store: Stores, container: Container, run: Run[Any], sent: Statements
) -> None:
    assert home.store is not None
    dsn = home.store

    async def work() -> None:
        await insert(store, container, "a", "b", "c", "d", "e")
        async with await psycopg.AsyncConnection.connect(dsn) as db:
            sent.lock_before(db, shared_reads.READ_SEVERAL)
            reads = await begin(store, container, "a", "b", "c")
            stopped = await blocked(db)
            reads += await begin(store, container, "d", "e")
            await db.execute("SELECT pg_cancel_backend(%s)", (stopped,))  # as a timeout does
            results = await asyncio.gather(*reads[1:3], return_exceptions=True)
            await db.rollback()
        assert [type(each) for each in results] == [RequestTimeout] * 2
        assert results[0] is not results[1]
        assert await ids_of([reads[0], *reads[3:]]) == ["a", "d", "e"]

    run(work())


def test_a_range_with_many_reads_holds_up_no_other(
    store: Stores,
    container: Container,
    run: Run[Any],
    sent: Statements,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_reads, "LARGEST_BATCH", 3)

    async def work() -> None:
        ids = [f"i{n}" for n in range(8)]
        await insert(store, container, *ids)
        await insert(store, container, "other", part=1)
        gate = sent.gates["7:0"] = asyncio.Semaphore(0)
        busy = await begin(store, container, *ids)
        await sent.begun(1)
        # One statement in progress never returns, and the other range does not notice.
        assert await ids_of(await begin(store, container, "other", part=1)) == ["other"]
        for done in (1, 4, 7, 8):  # in order of arrival
            gate.release()
            assert await ids_of(busy[:done]) == ids[:done]
            assert not any(each.done() for each in busy[done:])
        assert [values[0] for _, values in sent.sent] == [b"7:0", b"7:1", b"7:0", b"7:0", b"7:0"]
        assert sent.key_counts() == [1, 1, 3, 3, 1]

    run(work())


def test_large_items_are_read_in_smaller_batches(
    store: Stores, container: Container, run: Run[Any], sent: Statements
) -> None:
    async def work() -> None:
        body = b'{"text":"%b"}' % (b"x" * 1_500_000)
        ids = [f"i{n}" for n in range(12)]
        for item_id in ids:
            await insert(store, container, item_id, body=body)
        gate = sent.gates["7:0"] = asyncio.Semaphore(0)
        reads = await begin(store, container, *ids[:5])
        await sent.begun(1)
        gate.release()
        await sent.begun(2)
        reads += await begin(store, container, *ids[5:])
        for _ in range(6):
            gate.release()
        assert await ids_of(reads) == ids
        assert sent.key_counts() == [1, 4, 2, 2, 2, 1]  # at most 4 MB, once their size is known

    run(work())


def test_no_read_waits_for_a_connection_twice(
    store: Stores, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reads that wait for the first one have waited for a connection, too."""

    async def work() -> None:
        await insert(store, container, "a", "b")
        pool = pool_of(store)
        taken = [await pool.getconn(60) for _ in range(pool.max_size)]
        monkeypatch.setattr(pool, "timeout", 0.05)
        reads = await begin(store, container, "a", "b", "b")
        results = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(each) for each in results] == [ServiceUnavailable] * 3
        assert reads_of(store)._waiting == {}
        monkeypatch.setattr(pool, "timeout", 60)
        for db in taken:
            await pool.putconn(db)
        assert await ids_of(await begin(store, container, "a", "b")) == ["a", "b"]

    run(work())


@pytest.mark.parametrize("is_shared", [False, True])
def test_close_gives_up_the_reads(
    home: Settings,
    run: Run[Any],
    sent: Statements,
    monkeypatch: pytest.MonkeyPatch,
    is_shared: bool,
) -> None:
    """The database does not answer: reads in progress and reads that wait return 503."""
    monkeypatch.setattr("perseid.store.postgres.store._CLOSE_TIMEOUT", 0.2)
    assert home.store is not None
    dsn = home.store

    async def work() -> None:
        store = (await open_stores(dsn, durability="off"))[0]
        await store.metadata.change([PutResource(RESOURCE)])
        container = seen_by(store)
        await insert(store, container, "a", "b", "c", "d")
        async with await psycopg.AsyncConnection.connect(dsn) as db:
            sent.lock_before(db, shared_reads.READ_SEVERAL if is_shared else shared_reads.READ)
            reads = await begin(store, container, "a", "b", "c")
            await blocked(db)
            reads += await begin(store, container, "d")
            writing = asyncio.ensure_future(insert(store, container, "e"))  # close waits for it
            await store.close()
            results = await asyncio.gather(*reads, writing, return_exceptions=True)
        given_up = results[1:] if is_shared else results
        assert [type(each) for each in given_up] == [ServiceUnavailable] * len(given_up)
        assert not reads_of(store)._tasks
        with pytest.raises(ServiceUnavailable):
            await store.items.read(container, 0, key("a"))

    run(work())


def test_each_read_is_checked_with_its_own_metadata(
    store: Stores, home: Settings, run: Run[Any], sent: Statements
) -> None:
    assert home.store is not None
    dsn = home.store

    async def work() -> None:
        old = seen_by(store)
        await insert(store, old, "a", "b")
        other = (await open_stores(dsn, durability="off"))[0]
        await other.metadata.change([PutResource(container_resource(9))])
        await store.metadata.resources()
        current = seen_by(store)
        gate = sent.gates["7:0"] = asyncio.Semaphore(0)
        reads = [
            *await begin(store, current, "a"),
            *await begin(store, old, "a"),
            *await begin(store, current, "b"),
            *await begin(store, old, "b"),
        ]
        gate.release()
        await sent.begun(2)
        # The metadata changes while a statement is in progress.
        gate.release()
        results = await asyncio.gather(*reads, return_exceptions=True)
        kinds = [type(each) for each in results]
        assert kinds == [tuple, StaleCatalog, tuple, StaleCatalog]
        reads = await begin(store, current, "a", "b")
        await sent.begun(3)
        await other.metadata.change([PutResource(container_resource(10))])
        gate.release()
        gate.release()
        results = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(each) for each in results] == [StaleCatalog] * 2
        await other.close()

    run(work())


@pytest.mark.parametrize("is_own", [True, False])
def test_reads_of_a_container_that_is_dropped_meanwhile(
    store: Stores,
    home: Settings,
    container: Container,
    run: Run[Any],
    sent: Statements,
    is_own: bool,
) -> None:
    assert home.store is not None
    dsn = home.store

    async def work() -> None:
        await insert(store, container, "a", "b", "c")
        gate = sent.gates["7:0"] = asyncio.Semaphore(0)
        reads = await begin(store, container, "a", "b", "c")
        await sent.begun(1)
        other = store if is_own else (await open_stores(dsn, durability="off"))[0]
        await other.metadata.change([RemoveResource(RESOURCE)])
        for _ in range(3):
            gate.release()
        results = await asyncio.gather(*reads, return_exceptions=True)
        expected = OwnerNotFound if is_own else StaleCatalog
        assert [type(each) for each in results] == [expected] * 3
        if not is_own:
            await other.close()

    run(work())


# Kept statements


@pytest.mark.parametrize("is_by_driver", [True, False])
def test_prepared_statements_that_were_dropped(
    store: Stores, container: Container, run: Run[Any], is_by_driver: bool
) -> None:
    """The driver drops all after a rollback, a connection pooler may do so at any time."""

    async def read_all() -> list[str | None]:
        return await ids_of(await begin(store, container, *IDS))

    async def work() -> None:
        await insert(store, container, *IDS)
        pool = pool_of(store)
        connections = [await pool.getconn() for _ in range(pool.max_size)]
        for db in connections:
            await pool.putconn(db)
        for _ in connections:
            assert await read_all() == [*IDS]
        for db in [await pool.getconn() for _ in connections]:
            if is_by_driver:
                for _ in range(7):  # it prepares what is used often
                    await db.execute("SELECT 1")
                async with db.transaction(force_rollback=True):
                    await db.execute("SELECT 1")
                assert not await _prepared(db)
                assert not db._kept_names
            else:
                await db.execute("DEALLOCATE ALL", prepare=False)
            await pool.putconn(db)
        for _ in connections:
            assert await read_all() == [*IDS]

    run(work())


async def _prepared(db: psycopg.AsyncConnection[Any]) -> list[Any]:
    return await (await db.execute("SELECT name FROM pg_prepared_statements")).fetchall()


def test_a_connection_that_names_another_encoding(home: Settings, run: Run[Any]) -> None:
    assert home.store is not None
    dsn = psycopg.conninfo.make_conninfo(home.store, client_encoding="LATIN1")

    async def work() -> None:
        store = (await open_stores(dsn, durability="off"))[0]
        await store.metadata.change([PutResource(RESOURCE)])
        container = seen_by(store)
        ids = ("é", "ж", "漢")
        await insert(store, container, *ids)
        for _ in range(3):
            assert await ids_of(await begin(store, container, *ids)) == [*ids]
        await store.close()

    run(work())


# Random mixes


IDS: Final = ("a", "b", "c", "d", "e")
mixes = st.lists(
    st.tuples(st.sampled_from(("read", "read", "read", "write", "remove")), st.sampled_from(IDS)),
    min_size=1,
    max_size=40,
)


class Checked:
    """Writes versions of items, and compares what reads return with what may be there."""

    def __init__(self, store: Stores, container: Container) -> None:
        self._store = store
        self._container = container
        self._states: dict[str, list[tuple[int, Row | None]]] = {}  # durable, with their LSNs

    async def perform(self, name: str, item_id: str) -> None:
        if name == "read":
            await self._read(item_id)
        else:
            await self._write(item_id, is_removal=name == "remove")

    async def _write(self, item_id: str, *, is_removal: bool) -> None:
        def decide(view: View) -> Decision[tuple[int, Row | None] | None]:
            old = view.rows[key(item_id)]
            if is_removal:
                return Decision([] if old is None else [Remove(old)], (view.lsn, None))
            body = b'{"id":"%b","lsn":%d}' % (item_id.encode(), view.lsn)
            new = row(view.lsn, item_id, body=body, size=len(body))
            if old is not None:
                new = new._replace(number=old.number)
            return Decision([Put(new, old)], (view.lsn, new))

        written = await self._store.items.write(self._container, 0, [key(item_id)], decide)
        if written is not None:
            self._states.setdefault(item_id, []).append(written)

    async def _read(self, item_id: str) -> None:
        known = len(self._states.get(item_id, ()))
        read, lsn = await self._store.items.read(self._container, 0, key(item_id))
        if read is not None:
            assert read.body == b'{"id":"%b","lsn":%d}' % (item_id.encode(), read.lsn)
            assert lsn >= read.lsn
        if known:  # durable before the read began, so it or something later is seen
            least, state = self._states[item_id][known - 1]
            if read is not None:
                assert read.lsn >= least
            else:
                assert lsn > least or state is None
                assert lsn >= least - 1  # a removal of nothing takes no LSN

    async def compare(self) -> None:
        """When nothing is written, shared reads return what single ones do."""
        ids = [each for each in IDS for _ in range(3)]
        reads = await begin(self._store, self._container, *ids)
        assert await asyncio.gather(*reads) == [await alone(self._store, each) for each in ids]


@given(mixes)
@settings(max_examples=40, deadline=None, suppress_health_check=[*HealthCheck])
def test_concurrent_reads_and_writes(
    store: Stores, container: Container, run: Run[Any], operations: list[tuple[str, str]]
) -> None:
    async def work() -> None:
        checked = Checked(store, container)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for name, item_id in operations:
                group.create_task(checked.perform(name, item_id))
        await checked.compare()

    run(work())


def test_concurrent_reads_of_items_that_expire(servers: Servers, name: str) -> None:
    """All at the same second: some are live, some have expired, some are purged meanwhile."""
    server = servers("frozen", no_sweeper=True)
    with ExitStack() as stack:
        raw, *clients = [stack.enter_context(server.connect()) for _ in range(17)]
        database = stack.enter_context(temporary_database(raw, name))
        path = f"{create_container(raw, database, defaultTtl=-1)}/docs"
        lifetimes = {f"i{seconds}": seconds for seconds in range(1, 9)}
        for item_id, seconds in lifetimes.items():
            body = {"id": item_id, "pk": "p", "ttl": seconds}
            assert raw.post(path, body, pk='["p"]').status == 201

        def read(client: RawClient, item_id: str) -> tuple[str, int]:
            return item_id, client.get(f"{path}/{item_id}", pk='["p"]').status

        pool = stack.enter_context(ThreadPoolExecutor(len(clients) + 1))
        for now in range(10):
            drained = pool.submit(drain, raw, f"/_perseid/ttl/{name}/c")
            results = {*pool.map(read, clients, [*lifetimes, *lifetimes])}
            assert results == {
                (item_id, 200 if now < seconds else 404) for item_id, seconds in lifetimes.items()
            }
            assert drained.result() == (1 <= now <= 8)
            server.clock.advance(1)
