"""Group commit: several writes in one transaction, each with its own outcome."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.conditions import NUMBER, Comparison, Filter
from perseid.errors import Conflict, ServiceUnavailable
from perseid.model import Container, Row
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
from perseid.store.sqlite import readers
from perseid.store.sqlite.store import open_stores
from perseid.store.sqlite.writer import LARGEST_GROUP
from perseid.store.types import Decision, PartitionAtCutoff, Put, PutResource, Remove, Search, View
from perseid.ttl import NOTHING_EXPIRED
from tests.store.sqlite.jobs import Gate, outcomes, submit
from tests.support.rows import (
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
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


def count_commits(store: Stores) -> list[None]:
    """A list that grows with each commit of the writer."""
    commits: list[None] = []

    def note() -> bool:
        commits.append(None)
        return False  # let it happen

    sqlite_database(store).write_db.set_commit_hook(note)
    return commits


# Groups -----------------------------------------------------------------------------------------


def test_a_group_is_one_commit(store: Stores, container: Container, run: Run[Any]) -> None:
    commits = count_commits(store)

    async def work() -> None:
        async with Gate(store) as gate:
            tasks = await submit(*[insert(store, container, str(each)) for each in range(20)])
            gate.open()
            rows = await asyncio.gather(*tasks)
        assert [each.lsn for (each,) in rows] == list(range(1, 21))
        assert len(commits) == 2  # the gate's own, and one for all

    run(work())


def test_one_failure_undoes_only_itself(store: Stores, container: Container, run: Run[Any]) -> None:
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
                store.items.write(container, 0, [], refuse),
                store.items.write(container, 0, [], crash),
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    first, second, refused, crashed, third = run(work())
    assert [first[0].lsn, second[0].lsn, third[0].lsn] == [1, 2, 3]
    assert isinstance(refused, Conflict)
    assert isinstance(crashed, ZeroDivisionError)
    assert run(scanned(store, container, Search())) == [*first, *second, *third]
    assert run(store.items.lsns(container)) == (3, 0)
    assert len(commits) == 2


def test_later_jobs_of_a_group_see_earlier_ones(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    def look(view: View) -> Decision[Any]:
        return Decision([], (view.rows[key("1")], view.lsn))

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "1"),
                store.items.write(container, 0, [key("1")], look),
            )
            gate.open()
            return await outcomes(tasks)

    inserted, seen = run(work())
    assert seen == (inserted[0], 2)


def test_what_cannot_be_written_fails_alone(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    """It shows when the whole group is written; the others are then written without it."""

    async def work() -> list[Any]:
        await insert(store, container, "0")
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "1"),
                insert(store, container, "2", body=b"no JSON"),
                store.values.put("m", "kept"),
                store.items.write(container, 0, [], inserting("half", "0")),  # has not looked
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    first, broken, _, clashed, third = run(work())
    assert isinstance(broken, ServiceUnavailable)
    assert isinstance(clashed, ServiceUnavailable)
    assert run(ids_in(store, container)) == ["0", "1", "3"]
    assert [first[0].lsn, third[0].lsn] == [2, 3]
    assert run(store.items.lsns(container)) == (3, 0)
    assert run(store.values.get("m")) == "kept"


@pytest.mark.parametrize(
    "damage", ["body = x'ff'", "etag = CAST(x'ff' AS TEXT)"], ids=["body", "text"]
)
def test_a_damaged_item_has_no_body_for_a_decision(
    store: Stores, container: Container, run: Run[Any], damage: str
) -> None:
    def look(view: View) -> Decision[Any]:
        return Decision([], view.rows[key("1")])

    async def work() -> list[Any]:
        await insert(store, container, "1")
        sqlite_database(store).write_db.execute(f"UPDATE items_7 SET {damage}")
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "2"),
                store.items.write(container, 0, [key("1")], look),
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    second, seen, third = run(work())
    assert (seen.id, seen.body) == ("1", b"")  # so it can be replaced or deleted
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
            partition = PartitionAtCutoff(old.pk, NOTHING_EXPIRED)
            size = view.partition_sizes.get(partition)
            return Decision([], (seen, size), needs_sizes=[partition])
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
    async def work(store: Stores, *, together: bool) -> Any:
        made = container_resource(7)
        await store.metadata.change([PutResource(made)])
        container = build_container(made, DATABASE)

        def start(doing: Doing) -> Coroutine[Any, Any, Any]:
            keys = [key(doing[1]), key(doing[1] + "'")]
            return store.items.write(container, 0, keys, deciding(doing))

        results = [await start(doing) for doing in doings[:before]]
        if together:
            async with Gate(store) as gate:
                tasks = await submit(*[start(doing) for doing in doings[before:]])
                gate.open()
                results += await asyncio.gather(*tasks)
        else:
            results += [await start(doing) for doing in doings[before:]]
        rows = await scanned(store, container, Search())
        usage = await store.items.usage(container, 0, NOTHING_EXPIRED)
        assert usage.items == len(rows)
        assert usage.size == sum(each.size for each in rows)
        return results, rows, usage, await store.items.lsns(container)

    def outcome(*, together: bool) -> Any:
        async def opened() -> Any:
            with tempfile.TemporaryDirectory() as folder:
                store = open_stores(Path(folder) / "store.sqlite3", durability="off")
                try:
                    return await work(store, together=together)
                finally:
                    await store.close()

        return asyncio.run(opened())

    assert outcome(together=True) == outcome(together=False)


def test_readers_do_not_see_an_open_group(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    """Neither the row nor its LSN shows before the commit; both do once it is acknowledged."""

    async def work() -> None:
        gate = Gate(store)
        sqlite_database(store).write_db.set_commit_hook(gate.hold)
        inserting = asyncio.create_task(insert(store, container, "1"))
        await gate.entered()
        try:
            assert await store.items.read(container, 0, key("1")) == (None, 0)
            assert await scanned(store, container, Search()) == []
            assert await store.items.lsns(container) == (0, 0)
        finally:
            gate.open()
        (inserted,) = await inserting
        sqlite_database(store).write_db.set_commit_hook(None)
        assert await store.items.read(container, 0, key("1")) == (inserted, 1)
        assert await store.items.lsns(container) == (1, 0)

    run(work())


def test_what_ends_a_long_query_ends_nothing_else(
    path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite adds up the steps of each statement over all its runs: once in a while it is a BEGIN
    or a COMMIT that is asked whether the moment of the query before it is over."""
    monkeypatch.setattr(readers, "_LOOP_STEPS", 20)
    made = container_resource(7)
    container = build_container(made, DATABASE)

    async def work() -> None:
        store = open_stores(path, durability="off")
        await store.metadata.change([PutResource(made)])
        for turn in range(1, 30):
            (inserted,) = await asyncio.wait_for(insert(store, container, f"{turn}"), 10)
            where = Filter(Comparison(("n",), NUMBER, ">", 0), (1,))
            search = Search(where=where, pk_prefix=inserted.pk)
            assert len(await scanned(store, container, search)) == turn
        await store.close()

    run(work())


def test_a_group_that_cannot_begin_fails_alone(
    store: Stores, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_database(store).readers, "end_snapshot", fail)
            with pytest.raises(ServiceUnavailable):
                await asyncio.wait_for(insert(store, container, "1"), 10)
        await asyncio.wait_for(insert(store, container, "2"), 10)
        assert [row.id for row in await scanned(store, container, Search())] == ["2"]

    def fail() -> None:
        raise apsw.IOError("disk I/O error")

    run(work())


def test_an_item_that_is_read_by_its_new_id_before_its_renaming_is_acknowledged(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    """Whichever request reads it first, none reads it by its old id afterwards."""

    async def work() -> None:
        (old,) = await insert(store, container, "old")
        assert await store.items.read(container, 0, key("old")) == (old, 1)

        def rename(view: View) -> Decision[Row]:
            new = old._replace(id="new", lsn=view.lsn)
            return Decision([Put(new, old)], new)

        gate, durable = Gate(store), threading.Event()

        def tell(*_: object) -> int:
            durable.set()
            return apsw.SQLITE_OK

        sqlite_database(store).write_db.set_commit_hook(gate.hold)
        sqlite_database(store).write_db.set_wal_hook(tell)
        renaming = asyncio.create_task(
            store.items.write(container, 0, [key("old"), key("new")], rename)
        )
        await gate.entered()
        gate.open()
        durable.wait()  # and the event loop, which stands still meanwhile, has yet to hear of it
        found, _ = await store.items.read(container, 0, key("new"))
        assert found is not None
        assert found == await renaming
        assert await store.items.read(container, 0, key("old")) == (None, 2)
        assert await store.items.read(container, 0, key("new")) == (found, 2)

    run(work())


def test_more_jobs_than_a_group_holds(store: Stores, container: Container, run: Run[Any]) -> None:
    count = 2 * LARGEST_GROUP + 10

    async def work() -> None:
        async with Gate(store) as gate:
            tasks = await submit(*[insert(store, container, str(each)) for each in range(count)])
            gate.open()
            rows = await asyncio.gather(*tasks)
        assert [each.lsn for (each,) in rows] == list(range(1, count + 1))

    run(work())
    assert run(store.items.lsns(container)) == (count, 0)


def test_a_write_stands_when_its_client_has_gone(
    store: Stores, container: Container, run: Run[Any]
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
        store = open_stores(path, durability="off")
        made = container_resource(7)
        await store.metadata.change([PutResource(made)])
        container = build_container(made, DATABASE)
        tasks = await submit(*[insert(store, container, str(each)) for each in range(50)])
        await store.close()
        assert len(await asyncio.gather(*tasks)) == 50

    run(work())
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM items_7").fetchone() == (50,)
        found = db.execute("SELECT range, lsn FROM positions WHERE container = 7").fetchall()
        assert dict(found)[0] == 50
