"""What only the embedded store has: groups of writes, a full disk, files, directories."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.conditions import NUMBER, Compared, Filter, Order
from perseid.config import Settings
from perseid.errors import Conflict, CosmosError, InsufficientStorage, ServiceUnavailable
from perseid.model import Container, Row
from perseid.service.catalog import build_container
from perseid.store import property_indexes, schema, sqlite, sqlite_queries
from perseid.store.directory import DATABASE_FILE, DataDirectory, memory_directory
from perseid.store.protocol import (
    Decision,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Scan,
    StoreError,
    View,
)
from perseid.store.sqlite import SqliteStore
from perseid.store.writer import LARGEST_GROUP
from perseid.ttl import EVERYTHING_LIVES
from tests.store.rows import (
    DATABASE,
    Run,
    container_resource,
    ids_in,
    insert,
    inserting,
    key,
    row,
    scanned,
)
from tests.support.raw import RawClient
from tests.support.running import running

T = TypeVar("T")
pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def store(path: Path, run: Run[None]) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, durability="off")
    yield opened
    run(opened.close())


@pytest.fixture
def container(store: SqliteStore, run: Run[None]) -> Container:
    """A container of two ranges."""
    made = container_resource(7)
    run(store.change([PutResource(made)]))
    return build_container(made, DATABASE)


@pytest.fixture
def unique_container(store: SqliteStore, run: Run[None]) -> Container:
    made = container_resource(8, unique=True)
    run(store.change([PutResource(made)]))
    return build_container(made, DATABASE)


@pytest.fixture
def log_limit(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """From so many bytes on the write-ahead log is a large one."""
    limit = 100_000
    monkeypatch.setattr(sqlite, "_LARGE_LOG", limit)
    monkeypatch.setattr(sqlite, "_LOG_PATIENCE", 10)
    store._log_limit = limit
    return limit


class Gate:
    """Holds the writer in a heavy job, so that what is submitted meanwhile becomes one group."""

    def __init__(self, store: SqliteStore) -> None:
        self._entered, self._opened = threading.Event(), threading.Event()
        self._store = store
        self._task: asyncio.Future[bool] | None = None

    def hold(self) -> bool:
        """Waits until the gate opens, and changes nothing; as a commit hook it lets it happen."""
        self._entered.set()
        return not self._opened.wait()

    async def entered(self) -> None:
        await asyncio.to_thread(self._entered.wait)

    def open(self) -> None:
        self._opened.set()

    async def __aenter__(self) -> Gate:
        self._task = self._store._writer.submit(self.hold, is_heavy=True)
        await self.entered()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open()
        if self._task is not None:
            await self._task


async def submit(*jobs: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Starts the jobs, in order, up to where they wait for the writer."""
    tasks = [asyncio.create_task(job) for job in jobs]
    await asyncio.sleep(0)
    return tasks


async def outcomes(tasks: Sequence[asyncio.Task[T]]) -> list[T | BaseException]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def count_commits(store: SqliteStore) -> list[None]:
    """A list that grows with each commit of the writer."""
    commits: list[None] = []

    def note() -> bool:
        commits.append(None)
        return False  # let it happen

    store._write_db.set_commit_hook(note)
    return commits


# Indexes ----------------------------------------------------------------------------------------


def test_an_index_that_goes_before_it_is_used(
    store: SqliteStore, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one took its place, or the indexing policy has changed: it is done without."""
    monkeypatch.setattr(property_indexes, "LEAST_ITEMS", 0)
    path = ("n",)
    scan = Scan(where=Filter(Compared(path, NUMBER, ">", 0), (1,)), indexable=frozenset((path,)))
    counted: list[tuple[int, dict[str, Any]]] = []

    def take(times: int, document: dict[str, Any]) -> None:
        counted.append((times, document))

    async def lose_index() -> None:
        """As it is for whoever has chosen it a moment before."""
        await store._queries._index(container, path)
        await store._writer.submit(
            lambda: store._write_db.execute("""DROP INDEX 'items_7_by_["n"]'"""), is_heavy=True
        )

    async def work() -> None:
        await insert(store, container, "1", "2")
        await lose_index()
        assert [each.id for each in (await store.scan(container, scan)).rows] == ["1", "2"]
        assert await store.walk(container, scan, Order(path, False), None) is None
        await store.combine(container, scan, [], take)
        await store.combine(container, scan, [path], take)
        assert counted == [(2, {}), (2, {"n": 1.5})]
        assert (await store.access(container, scan, None)).way == "scan"

    run(work())


def test_the_index_that_makes_way_is_forgotten_first(
    store: SqliteStore, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is sent to it between the commit and its answer."""
    monkeypatch.setattr(property_indexes, "LEAST_ITEMS", 0)
    monkeypatch.setattr(property_indexes, "MOST_INDEXES", 1)

    async def work() -> None:
        await store._queries._index(container, ("a",))
        gate = Gate(store)
        store._write_db.set_commit_hook(gate.hold)
        other = asyncio.create_task(store._queries._index(container, ("b",)))
        await gate.entered()
        assert store._queries._indexes.paths(container.number) == []
        gate.open()
        await other
        store._write_db.set_commit_hook(None)
        assert store._queries._indexes.paths(container.number) == [("b",)]

    run(work())


def test_paths_that_differ_in_case_have_an_index_each(
    store: SqliteStore, container: Container, run: Run[Any], path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(property_indexes, "LEAST_ITEMS", 0)
    paths = {("v",), ("V",), ("a", "B]"), ("a", "b]")}
    names = {run(store._queries._index(container, each)) for each in paths}
    assert len(names) == len(paths)
    assert set(store._queries._indexes.paths(7)) == paths
    run(store._queries.keep_indexes(container, lambda each: each != ("V",)))
    run(store.close())
    reopened = SqliteStore(path, durability="off")
    assert set(reopened._queries._indexes.paths(7)) == paths - {("V",)}
    run(reopened.close())


def test_queries_do_without_an_index_that_has_no_room(
    store: SqliteStore, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(property_indexes, "LEAST_ITEMS", 0)
    path = ("n",)
    scan = Scan(where=Filter(Compared(path, NUMBER, ">", 0), (1,)), indexable=frozenset((path,)))
    run(insert(store, container, "1", "2"))
    limit_pages(store, 0)
    for _ in range(2):
        assert [each.id for each in run(store.scan(container, scan)).rows] == ["1", "2"]
    assert store._queries._indexes.paths(7) == []
    limit_pages(store, 1000)
    monkeypatch.setattr(property_indexes, "PAUSE", 0)
    run(store.scan(container, scan))
    assert store._queries._indexes.paths(7) == [path]


# Groups -----------------------------------------------------------------------------------------


def test_a_group_is_one_commit(store: SqliteStore, container: Container, run: Run[Any]) -> None:
    commits = count_commits(store)

    async def work() -> None:
        async with Gate(store) as gate:
            tasks = await submit(*[insert(store, container, str(each)) for each in range(20)])
            gate.open()
            rows = await asyncio.gather(*tasks)
        assert [each.lsn for (each,) in rows] == list(range(1, 21))
        assert len(commits) == 2  # the gate's own, and one for all

    run(work())


def test_one_failure_undoes_only_itself(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """Its changes, its LSN and its error are its own."""
    commits = count_commits(store)

    def refuse(view: View) -> Decision[list[Row]]:
        raise Conflict("refused")

    def crash(view: View) -> Decision[list[Row]]:
        raise ZeroDivisionError

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks = await submit(
                insert(store, container, "1"),
                insert(store, container, "2"),
                store.write(container, 0, [], refuse),
                store.write(container, 0, [], crash),
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    first, second, refused, crashed, third = run(work())
    assert [first[0].lsn, second[0].lsn, third[0].lsn] == [1, 2, 3]
    assert isinstance(refused, Conflict)
    assert isinstance(crashed, ZeroDivisionError)
    assert run(scanned(store, container, Scan())) == [*first, *second, *third]
    assert run(store.lsns(container)) == (3, 0)
    assert len(commits) == 2


def test_later_jobs_of_a_group_see_earlier_ones(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    def look(view: View) -> Decision[Any]:
        return Decision([], (view.rows[key("1")], view.lsn))

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "1"),
                store.write(container, 0, [key("1")], look),
            )
            gate.open()
            return await outcomes(tasks)

    inserted, seen = run(work())
    assert seen == (inserted[0], 2)


def test_what_cannot_be_written_fails_alone(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """It shows when the whole group is written; the others are then written without it."""

    async def work() -> list[Any]:
        await insert(store, container, "0")
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "1"),
                insert(store, container, "2", body=b"no JSON"),
                store.put_meta("m", "kept"),
                store.write(container, 0, [], inserting("half", "0")),  # has not looked
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    first, broken, _, clashed, third = run(work())
    assert isinstance(broken, ServiceUnavailable)
    assert isinstance(clashed, ServiceUnavailable)
    assert run(ids_in(store, container)) == ["0", "1", "3"]
    assert [first[0].lsn, third[0].lsn] == [2, 3]
    assert run(store.lsns(container)) == (3, 0)
    assert run(store.get_meta("m")) == "kept"


@pytest.mark.parametrize(
    "damage", ["body = x'ff'", "etag = CAST(x'ff' AS TEXT)"], ids=["body", "text"]
)
def test_a_damaged_item_fails_alone(
    store: SqliteStore, container: Container, run: Run[Any], damage: str
) -> None:
    def look(view: View) -> Decision[Any]:
        return Decision([], view.rows[key("1")])

    async def work() -> list[Any]:
        await insert(store, container, "1")
        store._write_db.execute(f"UPDATE items_7 SET {damage}")
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "2"),
                store.write(container, 0, [key("1")], look),
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    second, seen, third = run(work())
    assert isinstance(seen, ServiceUnavailable)
    assert [second[0].lsn, third[0].lsn] == [2, 3]


Doing = tuple[str, str]  # what to do, with which item


def deciding(doing: Doing) -> Callable[[View], Decision[Any]]:
    """Creates, replaces, renames or removes, if the view allows it; tells what it saw."""
    what, item_id = doing
    other = key(item_id + "'")

    def decide(view: View) -> Decision[Any]:
        old, taken = view.rows[key(item_id)], view.rows[other]
        seen = (old, taken, view.lsn, view.size)
        new = row(view.lsn, item_id, body=b'{"id":"%b","lsn":%d}' % (item_id.encode(), view.lsn))
        if what == "create" and old is None:
            return Decision([Put(new)], seen)
        if old is None or what in ("look", "create"):
            return Decision([], seen)
        if what == "remove":
            return Decision([Remove(old)], seen)
        if what == "swap":
            return Decision([Remove(old), Put(new)], seen)
        if what == "weigh":
            return Decision([], (seen, view.weigh(old.pk, EVERYTHING_LIVES)))
        if what == "rename" and taken is None:
            return Decision([Put(new._replace(number=old.number, id=other.id), old)], seen)
        return Decision([Put(new._replace(number=old.number), old)], seen)

    return decide


@settings(max_examples=60, deadline=None)
@given(
    doings=st.lists(
        st.tuples(
            st.sampled_from(
                ["create", "create", "replace", "rename", "remove", "swap", "look", "weigh"]
            ),
            st.sampled_from(["a", "a'", "b"]),
        ),
        min_size=1,
        max_size=40,
    ),
    before=st.integers(0, 10),
)
def test_a_group_does_what_its_jobs_would_one_by_one(doings: list[Doing], before: int) -> None:
    async def work(store: SqliteStore, *, together: bool) -> Any:
        made = container_resource(7)
        await store.change([PutResource(made)])
        container = build_container(made, DATABASE)

        def start(doing: Doing) -> Coroutine[Any, Any, Any]:
            keys = [key(doing[1]), key(doing[1] + "'")]
            return store.write(container, 0, keys, deciding(doing))

        results = [await start(doing) for doing in doings[:before]]
        if together:
            async with Gate(store) as gate:
                tasks = await submit(*[start(doing) for doing in doings[before:]])
                gate.open()
                results += await asyncio.gather(*tasks)
        else:
            results += [await start(doing) for doing in doings[before:]]
        rows = await scanned(store, container, Scan())
        usage = await store.usage(container, 0, EVERYTHING_LIVES)
        assert usage.items == len(rows)
        assert usage.size == sum(each.size for each in rows)
        return results, rows, usage, await store.lsns(container)

    def outcome(*, together: bool) -> Any:
        async def opened() -> Any:
            with tempfile.TemporaryDirectory() as folder:
                store = SqliteStore(Path(folder) / "store.sqlite3", durability="off")
                try:
                    return await work(store, together=together)
                finally:
                    await store.close()

        return asyncio.run(opened())

    assert outcome(together=True) == outcome(together=False)


def test_readers_do_not_see_an_open_group(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """Neither the row nor its LSN shows before the commit; both do once it is acknowledged."""

    async def work() -> None:
        gate = Gate(store)
        store._write_db.set_commit_hook(gate.hold)
        inserting = asyncio.create_task(insert(store, container, "1"))
        await gate.entered()
        try:
            assert await store.read(container, 0, key("1")) == (None, 0)
            assert await scanned(store, container, Scan()) == []
            assert await store.lsns(container) == (0, 0)
        finally:
            gate.open()
        (inserted,) = await inserting
        store._write_db.set_commit_hook(None)
        assert await store.read(container, 0, key("1")) == (inserted, 1)
        assert await store.lsns(container) == (1, 0)

    run(work())


def test_what_ends_a_long_query_ends_nothing_else(
    path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite adds up the steps of each statement over all its runs: once in a while it is a BEGIN
    or a COMMIT that is asked whether the moment of the query before it is over."""
    monkeypatch.setattr(sqlite_queries, "_MOMENT", 20)
    made = container_resource(7)
    container = build_container(made, DATABASE)

    async def work() -> None:
        store = SqliteStore(path, durability="off")
        await store.change([PutResource(made)])
        for turn in range(1, 30):
            (inserted,) = await asyncio.wait_for(insert(store, container, f"{turn}"), 10)
            where = Filter(Compared(("n",), NUMBER, ">", 0), (1,))
            scan = Scan(where=where, pk_prefix=inserted.pk)
            assert len(await scanned(store, container, scan)) == turn
        await store.close()

    run(work())


def test_a_group_that_cannot_begin_fails_alone(
    store: SqliteStore, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(store._queries, "let_go", fail)
            with pytest.raises(ServiceUnavailable):
                await asyncio.wait_for(insert(store, container, "1"), 10)
        await asyncio.wait_for(insert(store, container, "2"), 10)
        assert [row.id for row in await scanned(store, container, Scan())] == ["2"]

    def fail() -> None:
        raise apsw.IOError("disk I/O error")

    run(work())


def test_an_item_that_is_read_by_its_new_id_before_its_renaming_is_acknowledged(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """Whoever finds it first, nobody finds it by its old id afterwards."""

    async def work() -> None:
        (old,) = await insert(store, container, "old")
        assert await store.read(container, 0, key("old")) == (old, 1)

        def rename(view: View) -> Decision[Row]:
            new = old._replace(id="new", lsn=view.lsn)
            return Decision([Put(new, old)], new)

        gate, durable = Gate(store), threading.Event()

        def tell(*_: object) -> int:
            durable.set()
            return apsw.SQLITE_OK

        store._write_db.set_commit_hook(gate.hold)
        store._write_db.set_wal_hook(tell)
        renaming = asyncio.create_task(store.write(container, 0, [key("old"), key("new")], rename))
        await gate.entered()
        gate.open()
        durable.wait()  # and the event loop, which stands still meanwhile, has yet to hear of it
        found, _ = await store.read(container, 0, key("new"))
        assert found is not None
        assert found == await renaming
        assert await store.read(container, 0, key("old")) == (None, 2)
        assert await store.read(container, 0, key("new")) == (found, 2)

    run(work())


def test_more_jobs_than_a_group_holds(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    count = 2 * LARGEST_GROUP + 10

    async def work() -> None:
        async with Gate(store) as gate:
            tasks = await submit(*[insert(store, container, str(each)) for each in range(count)])
            gate.open()
            rows = await asyncio.gather(*tasks)
        assert [each.lsn for (each,) in rows] == list(range(1, count + 1))

    run(work())
    assert run(store.lsns(container)) == (count, 0)


def test_a_write_stands_when_its_client_has_gone(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    async def work() -> None:
        async with Gate(store) as gate:
            gone, stays = await submit(insert(store, container, "1"), insert(store, container, "2"))
            gone.cancel()
            gate.open()
            assert [each.id for each in await stays] == ["2"]
        assert await ids_in(store, container) == ["1", "2"]

    run(work())


def test_close_finishes_what_was_submitted(path: Path, run: Run[Any]) -> None:
    async def work() -> None:
        store = SqliteStore(path, durability="off")
        made = container_resource(7)
        await store.change([PutResource(made)])
        container = build_container(made, DATABASE)
        tasks = await submit(*[insert(store, container, str(each)) for each in range(50)])
        await store.close()
        assert len(await asyncio.gather(*tasks)) == 50

    run(work())
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM items_7").fetchone() == (50,)
        found = db.execute("SELECT range, lsn FROM positions WHERE container = 7").fetchall()
        assert dict(found)[0] == 50


# A full disk ------------------------------------------------------------------------------------


def limit_pages(store: SqliteStore, more: int) -> None:
    """Leaves room for `more` pages; the engine then answers as on a full disk."""
    used = store._write_db.pragma("page_count")
    store._write_db.pragma("max_page_count", used + more)


BIG = b'{"v":"' + b"x" * 20_000 + b'"}'


def check_full(error: BaseException) -> None:
    assert isinstance(error, InsufficientStorage)
    assert error.status == 507
    assert error.code == "InsufficientStorage"


def test_full_disk(store: SqliteStore, container: Container, run: Run[Any], path: Path) -> None:
    """What was acknowledged is there, what was refused is not; with room it goes on."""
    run(insert(store, container, "0", body=BIG))
    limit_pages(store, 40)
    kept = ["0"]
    refused: list[BaseException] = []
    while not refused:
        try:
            run(insert(store, container, str(len(kept)), body=BIG))
            kept.append(str(len(kept)))
        except CosmosError as error:
            refused.append(error)
    check_full(refused[0])
    assert 1 < len(kept) < 20
    assert run(ids_in(store, container)) == kept
    assert run(store.lsns(container)) == (len(kept), 0)
    with pytest.raises(InsufficientStorage):
        run(insert(store, container, "x", body=BIG))
    (last,) = run(scanned(store, container, Scan(limit=1)))
    run(store.write(container, 0, [], lambda view: Decision([Remove(last)], None)))  # still works
    limit_pages(store, 1000)
    (next_one,) = run(insert(store, container, "next", body=BIG))
    assert next_one.lsn == len(kept) + 2
    run(store.close())
    reopened = SqliteStore(path, durability="off")
    assert run(ids_in(reopened, container)) == [*kept[1:], "next"]
    assert run(reopened.lsns(container)) == (len(kept) + 2, 0)
    run(reopened.close())


def test_full_disk_in_a_group(
    store: SqliteStore, container: Container, run: Run[Any], path: Path
) -> None:
    """Nobody of the group is told "done" whose write is not there."""
    limit_pages(store, 60)

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks = await submit(
                *[insert(store, container, str(each), body=BIG) for each in range(30)]
            )
            gate.open()
            return await outcomes(tasks)

    found = run(work())
    done = [each[0] for each in found if not isinstance(each, BaseException)]
    for each in found:
        if isinstance(each, BaseException):
            check_full(each)
    assert len(done) < 30
    assert run(scanned(store, container, Scan(max_bytes=2**30))) == done
    assert run(store.lsns(container)) == (len(done), 0)
    assert [each.lsn for each in done] == list(range(1, len(done) + 1))
    limit_pages(store, 1000)
    (after,) = run(insert(store, container, "after"))
    assert after.lsn == len(done) + 1


class Disk(apsw.VFS):
    """One that can be told to fail, with every file opened on it."""

    def __init__(self) -> None:
        self.is_broken = False
        super().__init__("failing", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return File(self, name, flags)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("unix", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._disk.is_broken:
            raise apsw.IOError("cannot read")
        return super().xRead(amount, offset)


@pytest.fixture
def disk() -> Iterator[Disk]:
    """Under every store that is opened after it."""
    if sys.platform == "win32":
        pytest.skip("wraps the files of Unix")
    made = Disk()
    yield made
    made.unregister()


def test_writes_go_on_after_a_disk_has_failed_for_a_moment(
    disk: Disk, store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """Even if nothing could be read when the failed write was undone."""

    async def work() -> None:
        store._write_db.pragma("shrink_memory")  # what is remembered need not be read
        disk.is_broken = True
        with pytest.raises(ServiceUnavailable):
            await asyncio.wait_for(insert(store, container, "1"), 10)
        disk.is_broken = False
        await asyncio.wait_for(insert(store, container, "2"), 10)
        assert await ids_in(store, container) == ["2"]

    run(work())


LOOKS: dict[str, Callable[[SqliteStore, Container], Coroutine[Any, Any, Any]]] = {
    "a setting": lambda store, _: store.get_meta("a"),
    "resources": lambda store, _: store.resources(),
    "the audit log": lambda store, _: store.notes(None, 0, 10),
    "free pages": lambda store, _: store.reclaim(1),
    "changes": lambda store, container: store.forget(container, 1, 10),
    "an item": lambda store, container: store.read(container, 0, key("1")),
    "items": lambda store, container: store.scan(container, Scan()),
}


@pytest.mark.parametrize("what", LOOKS)
def test_what_a_disk_does_not_give_is_not_available(
    disk: Disk, store: SqliteStore, container: Container, run: Run[Any], what: str
) -> None:
    store._point_db.pragma("shrink_memory")
    disk.is_broken = True
    with pytest.raises(ServiceUnavailable):
        run(LOOKS[what](store, container))
    disk.is_broken = False
    run(LOOKS[what](store, container))


@pytest.mark.skipif(sys.platform == "win32", reason="an open file stays where it is there")
@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_nothing_is_written_to_a_file_that_is_not_in_its_place(
    tmp_path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It would be acknowledged, and not there at the next start. Nor is another file read."""
    monkeypatch.setattr("perseid.store.sqlite._GLANCE", 0)
    path, elsewhere = tmp_path / "a" / "db", tmp_path / "b"
    path.parent.mkdir()
    store = SqliteStore(path, durability="off")
    run(store.change([PutResource(container_resource(7))]))
    container = build_container(container_resource(7), DATABASE)
    run(insert(store, container, "1"))
    path.parent.rename(elsewhere)
    if how == "replaced":
        shutil.copytree(elsewhere, path.parent)
    if how != "moved":
        shutil.rmtree(elsewhere)
    with pytest.raises(ServiceUnavailable, match="moved, removed or replaced"):
        run(insert(store, container, "2"))
    with pytest.raises(ServiceUnavailable):
        run(store.put_meta("a", "b"))
    with pytest.raises(ServiceUnavailable):  # through a connection that was not open yet
        run(ids_in(store, container))
    assert run(store.read(container, 0, key("1")))[0] is not None
    if how == "moved":
        elsewhere.rename(path.parent)
        run(insert(store, container, "3"))  # it is back
        assert run(ids_in(store, container)) == ["1", "3"]
        run(store.close())
    else:
        with pytest.raises(StoreError, match="moved, removed or replaced"):
            run(store.close())


def test_a_directory_whose_name_is_not_text_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"bad\ufffd as data directory: .* not valid UTF-8"):
        DataDirectory(tmp_path / os.fsdecode(b"bad\xff"))
    assert list(tmp_path.iterdir()) == []


def test_full_disk_for_metadata(store: SqliteStore, run: Run[Any]) -> None:
    run(store.put_meta("a", "old"))
    limit_pages(store, 0)
    with pytest.raises(InsufficientStorage):
        run(store.put_meta("a", "x" * 100_000))
    with pytest.raises(InsufficientStorage):
        run(store.change([PutResource(container_resource(9))]))
    assert run(store.get_meta("a")) == "old"
    assert run(store.resources()) == []


def test_a_removed_container_leaves_nothing_in_the_file(
    store: SqliteStore, container: Container, unique_container: Container, run: Run[Any]
) -> None:
    run(insert(store, container, "1"))
    run(insert(store, unique_container, "1"))
    run(store.change([RemoveResource(container_resource(7))]))
    tables = store._write_db.execute("SELECT name FROM sqlite_schema WHERE name LIKE '%7%'")
    assert list(tables) == []
    assert set(store._write_db.execute("SELECT container FROM positions")) == {(8,)}
    assert {number for number, _ in store._positions} == {8}


def test_a_write_and_the_end_of_its_container_in_one_group(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """Nothing of the container is left behind, whichever came first."""

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "1"),
                store.change([RemoveResource(container_resource(7))]),
                insert(store, container, "2"),
            )
            gate.open()
            return await outcomes(tasks)

    before, removed, after = run(work())
    assert [each.id for each in before] == ["1"]
    assert removed is None
    assert isinstance(after, Exception)
    assert run(store.resources()) == []
    assert list(store._write_db.execute("SELECT * FROM positions")) == []
    tables = store._write_db.execute("SELECT name FROM sqlite_schema WHERE name LIKE '%7%'")
    assert list(tables) == []


# Files ------------------------------------------------------------------------------------------


def test_a_large_log_is_folded_in(
    store: SqliteStore, container: Container, run: Run[Any], path: Path, log_limit: int
) -> None:
    log = path.with_name(f"{path.name}-wal")
    for each in range(10):
        run(insert(store, container, f"a{each}", body=b'{"x":"%b"}' % (b"x" * log_limit)))
    assert log.stat().st_size > 10 * log_limit
    assert run(store.reclaim(1)) == 0
    assert log.stat().st_size == 0
    assert len(run(ids_in(store, container))) == 10
    run(insert(store, container, "1"))
    assert run(store.reclaim(1)) == 0
    assert log.stat().st_size > 0  # a small one is left alone


def test_a_log_that_somebody_reads_is_folded_in_later(
    store: SqliteStore, container: Container, run: Run[Any], path: Path, log_limit: int
) -> None:
    log = path.with_name(f"{path.name}-wal")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT COUNT(*) FROM meta").fetchall()

    def grow(name: str) -> int:
        run(insert(store, container, name, body=b'{"x":"%b"}' % (b"x" * log_limit)))
        return log.stat().st_size

    size = grow("1")
    run(store.reclaim(1))
    assert grow("2") > size  # writes go on, behind what is being read
    reader.close()
    grow("3")
    run(store.reclaim(1))
    assert log.stat().st_size == 0
    assert run(ids_in(store, container)) == ["1", "2", "3"]


def test_closing_folds_the_log_in(path: Path, run: Run[Any]) -> None:
    store = SqliteStore(path)
    run(store.put_meta("a", "1"))
    run(store.close())
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1), ("off", 0)])
def test_durability(path: Path, run: Run[Any], durability: str, level: int) -> None:
    store = SqliteStore(path, durability=durability)
    assert store._write_db.pragma("synchronous") == level
    assert store._write_db.pragma("journal_mode") == "wal"
    run(store.close())


@pytest.mark.parametrize("start", ["nothing", "empty file", "empty database"])
def test_migration_from_version_0(path: Path, run: Run[Any], start: str) -> None:
    if start == "empty file":
        path.touch()
    elif start == "empty database":
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 0")
            db.execute("VACUUM")
    run(SqliteStore(path).close())
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert db.execute("PRAGMA application_id").fetchone() == (0x50455253,)
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    assert {"meta", "resources", "positions"} <= names


def test_a_migration_that_fails_leaves_nothing(
    path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(db: Any) -> None:
        db.execute("CREATE TABLE half (a)")
        db.execute("no such statement")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(StoreError):
        SqliteStore(path)
    monkeypatch.undo()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone() == (0,)
    run(SqliteStore(path).close())


def foreign(path: Path, *statements: str) -> bytes:
    """Somebody else's database; returns its bytes."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (["CREATE TABLE theirs (a)"], "somebody else's"),
        (["CREATE TABLE theirs (a)", f"PRAGMA user_version = {schema.VERSION}"], None),
        (["CREATE TABLE theirs (a)", "PRAGMA user_version = 99"], None),
        (["CREATE TABLE meta (a)", "PRAGMA application_id = 1"], "somebody else's"),
        (["PRAGMA application_id = 0x50455253", "PRAGMA user_version = 99"], "newer release"),
    ],
)
def test_files_of_others_are_refused_and_left_alone(
    path: Path, statements: list[str], text: str | None
) -> None:
    before = foreign(path, *statements)
    with pytest.raises(StoreError, match=text):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_files_that_are_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"store\.sqlite3"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open"):
        SqliteStore(tmp_path / "missing" / "store.sqlite3")
    with pytest.raises(StoreError, match="cannot open"):
        SqliteStore(tmp_path)


# Directories ------------------------------------------------------------------------------------


def test_a_directory_has_one_server(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    with DataDirectory(path) as held:
        assert held.database == path / "perseid.sqlite3"
        assert (path / "perseid.lock").read_text() == f"{os.getpid()}\n"
        for _ in range(2):  # a refusal does not disturb the holder
            with pytest.raises(StoreError, match=rf"in use .*process {os.getpid()}\b"):
                DataDirectory(path)
    assert path.is_dir()
    DataDirectory(path).release()


def test_a_removed_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    """Somebody takes it for stale."""
    with DataDirectory(tmp_path):
        for _ in range(2):
            (tmp_path / "perseid.lock").unlink()
            with pytest.raises(StoreError, match="in use"):
                DataDirectory(tmp_path)
    DataDirectory(tmp_path).release()


def test_a_database_that_is_linked_to_another_directory_has_one_server(tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    other.mkdir()
    (other / "perseid.sqlite3").symlink_to(real / "perseid.sqlite3")
    with DataDirectory(real) as held:
        held.database.touch()
        with pytest.raises(StoreError, match=rf"in use .*process {os.getpid()}\b"):
            DataDirectory(other)
    with DataDirectory(other), pytest.raises(StoreError, match="in use"):
        DataDirectory(real)


def test_a_database_with_two_names_is_refused(tmp_path: Path) -> None:
    """Each would have a write-ahead log of its own."""
    real, other = tmp_path / "real", tmp_path / "other"
    for each in (real, other):
        each.mkdir()
    (real / "perseid.sqlite3").touch()
    (other / "perseid.sqlite3").hardlink_to(real / "perseid.sqlite3")
    for each in (real, other):
        with pytest.raises(StoreError, match="hard link"):
            DataDirectory(each)
    (other / "perseid.sqlite3").unlink()
    DataDirectory(real).release()


def test_the_lock_holds_against_other_processes_and_ends_with_its_own(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from perseid.store.directory import DataDirectory\n"
        "held = DataDirectory(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"process {other.pid}"):
            DataDirectory(tmp_path)
        other.kill()
        other.wait()
        DataDirectory(tmp_path).release()


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot use"):
        DataDirectory(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot use"):
        DataDirectory(tmp_path / "file" / "below")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where memory directories go in this test, away from those of running servers."""
    monkeypatch.setattr("perseid.store.directory.os.access", lambda *_: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_memory_directory_goes_with_its_server(memory: Path) -> None:
    with memory_directory() as held:
        assert held.path.parent == memory
        held.database.touch()
    assert list(memory.iterdir()) == []


def test_memory_directories_prefer_memory() -> None:
    held = memory_directory()
    try:
        shared = Path("/dev/shm")
        expected = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
        assert held.path.parent == expected
    finally:
        held.release()
    assert not held.path.exists()


def test_leftovers_of_killed_servers_go(memory: Path) -> None:
    """Theirs have no holder any more; those of the living and of strangers stay."""
    living = memory_directory()
    leftover, stranger = memory / "perseid-memory-killed", memory / "perseid-data"
    for each in (leftover, stranger):
        each.mkdir()
        (each / "perseid.sqlite3").write_bytes(b"x")
        (each / "perseid.lock").write_text("1\n")
    other = memory_directory()
    assert sorted(memory.iterdir()) == sorted([living.path, other.path, stranger])
    living.release()
    other.release()
    assert list(memory.iterdir()) == [stranger]


# Damage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("UPDATE meta SET value = 'long ago' WHERE name = 'clock'", "clock's mark"),
        ("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE name = 'clock'", "could not be used"),
        ("UPDATE meta SET value = 'xyz' WHERE name = 'token_secret'", "secret behind"),
        ("UPDATE resources SET state = '{' WHERE kind = 'database'", "database 'd' is damaged"),
        ("UPDATE resources SET state = '{}' WHERE kind = 'database'", "database 'd' is damaged"),
        ("UPDATE resources SET id = CAST(x'ff' AS TEXT)", "could not be used"),
        ("ALTER TABLE positions DROP COLUMN spared", "cannot open"),
        ("DROP TABLE change_logs", "cannot open"),
        ("ALTER TABLE graves DROP COLUMN spare_own", "cannot open"),
    ],
)
def test_a_server_does_not_start_on_what_it_cannot_read(
    tmp_path: Path, damage: str, text: str
) -> None:
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        assert client.post("/dbs", {"id": "d"}).status == 201
        client.close()
    with contextlib.closing(apsw.Connection(str(tmp_path / DATABASE_FILE))) as db:
        db.execute(damage)
    for _ in range(2):  # and lets go of the directory
        with pytest.raises(StoreError, match=text), running(Settings(data=tmp_path)):
            pass


DOCS: Final = "/dbs/d/colls/c/docs"


def store_damaged_item(folder: Path, damage: str) -> None:
    """Leaves the item '1' in the container of DOCS, and changes its row behind everyone's back."""
    key = {"paths": ["/id"], "kind": "Hash", "version": 2}
    with running(Settings(data=folder)) as settings:
        client = RawClient(settings.endpoint)
        assert client.post("/dbs", {"id": "d"}).status == 201
        assert client.post("/dbs/d/colls", {"id": "c", "partitionKey": key}).status == 201
        assert client.post(DOCS, {"id": "1", "a": 1}, pk='["1"]').status == 201
        client.close()
    with contextlib.closing(apsw.Connection(str(folder / DATABASE_FILE))) as db:
        (table,) = schema._item_tables(db)
        db.execute(f"UPDATE {table} SET {damage}")


def test_a_damaged_item_can_be_replaced(tmp_path: Path) -> None:
    """The answer says what was done."""
    store_damaged_item(tmp_path, "body = x'5c27696417ff'")  # {"id": "\xff"}: no text
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        written = client.put(f"{DOCS}/1", {"id": "1", "a": 2}, pk='["1"]')
        assert written.status == 200
        assert float(written.headers["x-ms-request-charge"]) > 0
        assert client.get(f"{DOCS}/1", pk='["1"]').json["a"] == 2
        client.close()


@pytest.mark.parametrize(
    "damage",
    [
        "body = x'4c176117ff'",  # {"a": "\xff"}: no text
        "body = x'4c1761132d'",  # {"a": -}: no number
        "etag = CAST(x'ff' AS TEXT)",
    ],
)
def test_queries_over_a_damaged_item_tell_of_the_damage(tmp_path: Path, damage: str) -> None:
    store_damaged_item(tmp_path, damage)
    is_body = damage.startswith("body")
    grouped = ["SELECT DISTINCT VALUE c.a FROM c", "SELECT VALUE SUM(c.a) FROM c"]
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        for text in [
            "SELECT c.a FROM c",
            "SELECT * FROM c WHERE UPPER(c.b) = 'X'",
            "SELECT * FROM c ORDER BY c.a",
            *(grouped if is_body else []),
        ]:
            found = client.query(DOCS, text)
            assert found.status == 503, text
            assert "damaged" in found.json["message"] or "file" in found.json["message"]
        change = {"operations": [{"op": "set", "path": "/b", "value": 1}]}
        for patch in (change, change | {"condition": "FROM c WHERE c.a = 1"}):
            assert client.patch(f"{DOCS}/1", patch, pk='["1"]').status == 503
        client.close()


def test_an_item_that_is_no_object_any_more_is_not_patched(tmp_path: Path) -> None:
    store_damaged_item(tmp_path, "body = jsonb('[1]')")
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        change = {"operations": [{"op": "set", "path": "/b", "value": 1}]}
        refused = client.patch(f"{DOCS}/1", change, pk='["1"]')
        assert refused.status == 503
        assert "damaged" in refused.json["message"]
        client.close()
