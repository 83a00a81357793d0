"""The embedded store through its protocol: decisions, groups, a full disk, scans, files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perseid.errors import Conflict, CosmosError, InsufficientStorage, ServiceUnavailable
from perseid.model import Container, Database, ItemKey, Row, Usage, item_number
from perseid.service.catalog import build_container
from perseid.store import schema
from perseid.store.directory import DataDirectory, memory_directory
from perseid.store.protocol import (
    Decision,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Resource,
    Scan,
    StaleResource,
    StoreError,
    View,
)
from perseid.store.sqlite import SqliteStore
from perseid.store.writer import LARGEST_GROUP
from perseid.ttl import EVERYTHING_LIVES, Horizon

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

DATABASE = Database(1, "d", "AQAAAA==", '"1"', 0)


async def scanned(store: SqliteStore, container: Container, scan: Scan) -> list[Row]:
    return (await store.scan(container, scan)).rows


def container_resource(number: int, *, unique: bool = False, ranges: int = 2) -> Resource:
    properties: dict[str, Any] = {
        "id": f"c{number}",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "indexingPolicy": {"indexingMode": "none"},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/e"]}] if unique else []},
    }
    state = {"number": number, "properties": properties, "ranges": ranges, "deaths": [0, 0]}
    return Resource(f"rid{number}", "container", DATABASE.rid, f"c{number}", '"1"', 0, state)


def resource(rid: str, *, kind: str = "database", etag: str = '"1"', name: str = "") -> Resource:
    return Resource(rid, kind, "", name or rid, etag, 5, {"a": [1, {"b": "é"}]})


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


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


def row(lsn: int, item_id: str, **changes: Any) -> Row:
    """A row as the service would make it for a new item."""
    part, position = changes.pop("part", 0), changes.pop("position", 0)
    body = changes.pop("body", b'{"id":"%b","n":1.50}' % item_id.encode())
    made = Row(
        number=item_number(part, lsn, position),
        pk=b"\x08a\xff",
        id=item_id,
        epk=b"\x10",
        ts=100,
        ttl=None,
        lsn=lsn,
        etag=f'"{lsn}-{position}"',
        size=len(body),
        terms=3,
        body=body,
    )
    return made._replace(**changes)


def key(item_id: str, pk: bytes = b"\x08a\xff") -> ItemKey:
    return ItemKey(pk, item_id)


def inserting(*ids: str, **changes: Any) -> Callable[[View], Decision[list[Row]]]:
    """A decision that puts new items, whatever is there."""

    def decide(view: View) -> Decision[list[Row]]:
        rows = [row(view.lsn, each, position=at, **changes) for at, each in enumerate(ids)]
        return Decision([Put(each) for each in rows], rows)

    return decide


async def insert(
    store: SqliteStore, container: Container, *ids: str, part: int = 0, **changes: Any
) -> list[Row]:
    decide = inserting(*ids, part=part, **changes)
    return await store.write(container, part, [key(each) for each in ids], decide)


async def ids_in(store: SqliteStore, container: Container, **options: Any) -> list[str]:
    return [each.id for each in await scanned(store, container, Scan(**options))]


class Gate:
    """Holds the writer in a heavy job, so that what is submitted meanwhile becomes one group."""

    def __init__(self, store: SqliteStore) -> None:
        self._entered, self._opened = threading.Event(), threading.Event()
        self._store = store
        self._task: asyncio.Task[bool] | None = None

    def hold(self) -> bool:
        """Waits until the gate opens, and changes nothing; as a commit hook it lets it happen."""
        self._entered.set()
        return not self._opened.wait()

    async def entered(self) -> None:
        await asyncio.to_thread(self._entered.wait)

    def open(self) -> None:
        self._opened.set()

    async def __aenter__(self) -> Gate:
        self._task = asyncio.create_task(self._store._writer.submit(self.hold, is_heavy=True))
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


# Decisions --------------------------------------------------------------------------------------


def test_a_put_row_is_read_as_it_was(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    wanted = row(
        1, "é\x00", pk=b"\x00\xff\x08", epk=b"", ts=2**40, ttl=-1, terms=0, size=12345,
        body='{"é":"\\u00e9😀","z":1.0,"a":[1e2,-0.0,18446744073709551615,{}]}'.encode(),
    )  # fmt: skip
    run(store.write(container, 0, [wanted.key], lambda view: Decision([Put(wanted)], None)))
    assert run(store.read(container, 0, wanted.key)) == (wanted, 1)
    assert run(store.read_number(container, wanted.number)) == wanted
    assert run(scanned(store, container, Scan())) == [wanted]
    assert run(store.read(container, 0, key("other"))) == (None, 1)
    assert run(store.read_number(container, wanted.number + 1)) is None


def test_a_decision_sees_the_rows_it_asked_for(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    (there,) = run(insert(store, container, "1"))
    seen: list[View] = []

    def decide(view: View) -> Decision[str]:
        seen.append(view)
        return Decision([], "told")

    keys = [key("1"), key("2"), key("1", b"\x08b\xff")]
    assert run(store.write(container, 0, keys, decide)) == "told"
    (view,) = seen
    assert view.rows == {keys[0]: there, keys[1]: None, keys[2]: None}
    assert view.holders == {}
    assert view.lsn == 2


def test_the_lsn_moves_with_changes_only(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    def refuse(view: View) -> Decision[None]:
        raise Conflict("no")

    (first,) = run(insert(store, container, "1"))
    run(store.write(container, 0, [], lambda view: Decision([], None)))
    with pytest.raises(Conflict, match="no"):
        run(store.write(container, 0, [], refuse))
    second = run(insert(store, container, "2", "3"))
    gone = run(store.write(container, 0, [], lambda view: Decision([Remove(first)], view.lsn)))
    assert [first.lsn, second[0].lsn, second[1].lsn, gone] == [1, 2, 2, 3]
    assert run(store.lsns(container)) == (3, 0)


def test_ranges_and_containers_count_alone(
    store: SqliteStore, container: Container, unique_container: Container, run: Run[Any]
) -> None:
    for part, item_id in ((0, "1"), (1, "2"), (1, "3"), (1, "4")):
        run(insert(store, container, item_id, part=part))
    run(insert(store, unique_container, "1"))
    assert run(store.lsns(container)) == (1, 3)
    assert run(store.lsns(unique_container)) == (1, 0)
    assert run(store.read(container, 1, key("2"))) == (row(1, "2", part=1), 3)


def test_replace_and_remove(store: SqliteStore, container: Container, run: Run[Any]) -> None:
    (old,) = run(insert(store, container, "1"))
    new = old._replace(id="2", ts=200, ttl=5, lsn=2, etag='"x"', size=9, terms=0, body=b'{"a":1}')
    run(store.write(container, 0, [old.key], lambda view: Decision([Put(new, old)], None)))
    assert run(scanned(store, container, Scan())) == [new]
    assert run(store.read(container, 0, old.key)) == (None, 2)
    run(store.write(container, 0, [new.key], lambda view: Decision([Remove(new)], None)))
    assert run(scanned(store, container, Scan())) == []
    assert run(store.read(container, 0, new.key)) == (None, 3)


def test_all_changes_of_a_decision_or_none(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    (old,) = run(insert(store, container, "1"))

    def decide(view: View) -> Decision[None]:
        clash = row(view.lsn, "1", position=1)  # the key of an item that is there
        return Decision([Put(row(view.lsn, "2")), Put(clash)], None)

    with pytest.raises(ServiceUnavailable):
        run(store.write(container, 0, [], decide))
    assert run(scanned(store, container, Scan())) == [old]
    assert run(store.lsns(container)) == (1, 0)


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

    def clash(view: View) -> Decision[list[Row]]:
        return inserting("half", "1")(view)

    def refuse(view: View) -> Decision[list[Row]]:
        raise Conflict("refused")

    def crash(view: View) -> Decision[list[Row]]:
        raise ZeroDivisionError

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks = await submit(
                insert(store, container, "1"),
                store.write(container, 0, [], clash),
                insert(store, container, "2"),
                store.write(container, 0, [], refuse),
                store.write(container, 0, [], crash),
                insert(store, container, "3"),
            )
            gate.open()
            return await outcomes(tasks)

    first, clashed, second, refused, crashed, third = run(work())
    assert [first[0].lsn, second[0].lsn, third[0].lsn] == [1, 2, 3]
    assert isinstance(clashed, ServiceUnavailable)
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


def test_full_disk_for_metadata(store: SqliteStore, run: Run[Any]) -> None:
    run(store.put_meta("a", "old"))
    limit_pages(store, 0)
    with pytest.raises(InsufficientStorage):
        run(store.put_meta("a", "x" * 100_000))
    with pytest.raises(InsufficientStorage):
        run(store.change([PutResource(container_resource(9))]))
    assert run(store.get_meta("a")) == "old"
    assert run(store.resources()) == []


# Unique entries ---------------------------------------------------------------------------------


def claiming(
    item_id: str, *entries: bytes, seen: list[dict[bytes, Row | None]] | None = None
) -> Callable[[View], Decision[Row]]:
    """Claims entries for a new item if nobody holds them, as the service does."""

    def decide(view: View) -> Decision[Row]:
        if seen is not None:
            seen.append(dict(view.holders))
        if any(view.holders.get(entry) is not None for entry in entries):
            raise Conflict("taken")
        made = row(view.lsn, item_id)
        return Decision([Put(made, None, entries)], made)

    return decide


def test_a_claim_is_asked_for_twice(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    """First without holders, then with the holder of each entry claimed."""
    seen: list[dict[bytes, Row | None]] = []
    first = run(store.write(unique_container, 0, [], claiming("1", b"x", b"y", seen=seen)))
    assert seen == [{}, {b"x": None, b"y": None}]
    seen.clear()
    with pytest.raises(Conflict):
        run(store.write(unique_container, 0, [], claiming("2", b"z", b"y", seen=seen)))
    assert seen == [{}, {b"z": None, b"y": first}]


def test_a_decision_without_claims_is_asked_once(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    seen: list[dict[bytes, Row | None]] = []
    run(store.write(unique_container, 0, [], claiming("1", seen=seen)))
    assert seen == [{}]


def test_a_second_thought_may_claim_more(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    seen: list[dict[bytes, Row | None]] = []

    def decide(view: View) -> Decision[None]:
        seen.append(dict(view.holders))
        entries = (b"x", b"y") if b"x" in view.holders else (b"x",)
        return Decision([Put(row(view.lsn, "1"), None, entries)], None)

    run(store.write(unique_container, 0, [], decide))
    assert seen == [{}, {b"x": None}, {b"x": None, b"y": None}]


@pytest.mark.parametrize("is_heavy", [False, True])
def test_a_refusal_learns_who_holds_what_it_relies_on(
    store: SqliteStore, unique_container: Container, run: Run[Any], is_heavy: bool
) -> None:
    """It writes nothing, and is asked again all the same; in the thread it is as on the loop."""
    holder = run(store.write(unique_container, 0, [], claiming("1", b"x")))
    seen: list[dict[bytes, Row | None]] = []

    def decide(view: View) -> Decision[str]:
        seen.append(dict(view.holders))
        return Decision((), "refused", (b"x", b"y"))

    told = run(store.write(unique_container, 0, [], decide, is_heavy=is_heavy))
    assert told == "refused"
    assert seen == [{}, {b"x": holder, b"y": None}]
    assert run(store.lsns(unique_container))[0] == holder.lsn


def test_changes_of_one_item_are_applied_in_order(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    def decide(view: View) -> Decision[Row]:
        made = row(view.lsn, "1")
        renamed = made._replace(id="2")
        again = row(view.lsn, "1", position=1)
        changes: list[Put | Remove] = [
            Put(made, None, (b"x",)),
            Put(renamed, made, (b"y",)),
            Put(again, None, (b"x",)),
            Remove(renamed),
        ]
        return Decision(changes, again)

    left = run(store.write(unique_container, 0, [], decide, is_heavy=True))
    assert run(scanned(store, unique_container, Scan())) == [left]
    assert run(store.lsns(unique_container))[0] == left.lsn
    with pytest.raises(Conflict):
        run(store.write(unique_container, 0, [], claiming("3", b"x")))
    run(store.write(unique_container, 0, [], claiming("3", b"y")))


def test_entries_are_freed_by_replace_and_remove(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    def claim(item_id: str, *entries: bytes) -> Row:
        made: Row = run(store.write(unique_container, 0, [], claiming(item_id, *entries)))
        return made

    first = claim("1", b"x", b"y")
    changed = first._replace(lsn=2)
    put = Put(changed, first, (b"y", b"z"))
    run(store.write(unique_container, 0, [], lambda view: Decision([put], None)))
    second = claim("2", b"x")
    for entry in (b"x", b"y", b"z"):
        with pytest.raises(Conflict):
            claim("3", entry)
    both = Decision([Remove(changed), Remove(second)], None)
    run(store.write(unique_container, 0, [], lambda view: both))
    claim("3", b"x", b"y", b"z")


def test_a_dead_holder_leaves_in_the_same_transaction(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    dead: Row = run(store.write(unique_container, 0, [], claiming("1", b"x")))

    def decide(view: View) -> Decision[Row]:
        made = row(view.lsn, "2", position=1)
        holder = view.holders.get(b"x")
        swept = [] if holder is None else [Remove(holder, expired=True)]
        return Decision([*swept, Put(made, None, (b"x",))], made)

    heir = run(store.write(unique_container, 0, [], decide))
    assert run(scanned(store, unique_container, Scan())) == [heir]
    assert run(store.read_number(unique_container, dead.number)) is None


def test_two_holders_cannot_be(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    """Even a decision that does not look is stopped, and undone as a whole."""
    run(store.write(unique_container, 0, [], claiming("1", b"x")))
    with pytest.raises(ServiceUnavailable):
        run(
            store.write(
                unique_container,
                0,
                [],
                lambda view: Decision([Put(row(view.lsn, "2"), None, (b"x",))], None),
            )
        )
    assert run(ids_in(store, unique_container)) == ["1"]


def test_claims_of_a_failed_job_are_free(
    store: SqliteStore, unique_container: Container, run: Run[Any]
) -> None:
    def clash(view: View) -> Decision[None]:
        puts = [Put(row(view.lsn, "2"), None, (b"y",)), Put(row(view.lsn, "1", position=1))]
        return Decision(puts, None)

    run(store.write(unique_container, 0, [], claiming("1", b"x")))
    with pytest.raises(ServiceUnavailable):
        run(store.write(unique_container, 0, [], clash))
    run(store.write(unique_container, 0, [], claiming("3", b"y")))


# Scans ------------------------------------------------------------------------------------------


@pytest.fixture
def filled(store: SqliteStore, container: Container, run: Run[Any]) -> Container:
    """Ten items: a0 to a5 in range 0, b0 to b3 in range 1, with hashes 00, 10, 20 …"""
    for number in range(6):
        pk = b"\x08a\xff" if number < 4 else b"\x08ab\xff"
        run(insert(store, container, f"a{number}", pk=pk, epk=bytes([number << 4]), ts=number * 10))
    for number in range(4):
        ttl = [None, -1, 5, 50][number]
        epk = bytes([0x60 + (number << 4)])
        pk = b"\x08b\xff\x08%d\xff" % number
        run(insert(store, container, f"b{number}", part=1, pk=pk, epk=epk, ts=100, ttl=ttl))
    return container


A, B = [f"a{number}" for number in range(6)], [f"b{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, A + B),
        ({"limit": 3}, A[:3]),
        ({"limit": 8}, A + B[:2]),
        ({"range_index": 0}, A),
        ({"range_index": 1}, B),
        ({"range_index": 1, "limit": 1}, B[:1]),
        ({"after": item_number(0, 3, 0)}, A[3:] + B),
        ({"after": item_number(0, 3, 0) - 1}, A[2:] + B),
        ({"after": item_number(0, 6, 0)}, B),
        ({"after": item_number(0, 3, 0), "range_index": 1}, B),
        ({"after": item_number(1, 4, 0)}, []),
        ({"pk_prefix": b"\x08a\xff"}, A[:4]),
        ({"pk_prefix": b"\x08ab\xff"}, A[4:]),
        ({"pk_prefix": b"\x08a"}, []),
        ({"pk_prefix": b"\x08a\xff", "after": item_number(0, 2, 0)}, A[2:4]),
        ({"pk_prefix": b"\x08a\xff", "range_index": 1}, []),
        ({"pk_prefix": b"\x08b\xff", "is_prefix": True}, B),
        ({"pk_prefix": b"\x08b\xff\x082\xff", "is_prefix": True}, B[2:3]),
        ({"pk_prefix": b"", "is_prefix": True}, A + B),
        ({"pk_prefix": b"\x08b\xff"}, []),
        ({"epk_min": b"\x20"}, A[2:] + B),
        ({"epk_max": b"\x20"}, A[:2]),
        ({"epk_min": b"\x20", "epk_max": b"\x70"}, A[2:] + B[:1]),
        ({"epk_min": b"\x20", "epk_max": b"\x20"}, []),
        ({"epk_min": b"\x1f\xff", "epk_max": b"\x20\x00"}, A[2:3]),
        ({"epk_min": b"\x20", "epk_max": b"\x70", "range_index": 1}, B[:1]),
        ({"horizon": EVERYTHING_LIVES}, A + B),
        ({"horizon": Horizon(inherited=20, own=0)}, A[3:] + B),
        ({"horizon": Horizon(inherited=-(2**62), own=104)}, A + B),
        ({"horizon": Horizon(inherited=-(2**62), own=105)}, [*A, B[0], B[1], B[3]]),
        ({"horizon": Horizon(inherited=100, own=200)}, [B[1]]),
        ({"horizon": Horizon(inherited=20, own=0), "limit": 2}, A[3:5]),
        ({"horizon": Horizon(inherited=100, own=200), "range_index": 0}, []),
    ],
)
def test_scan(
    store: SqliteStore,
    filled: Container,
    run: Run[Any],
    options: dict[str, Any],
    expected: list[str],
) -> None:
    assert run(ids_in(store, filled, **options)) == expected


@pytest.mark.parametrize(
    ("max_bytes", "count"),
    [(0, 1), (1, 1), (99, 1), (100, 1), (199, 1), (200, 2), (299, 2), (300, 3), (1000, 5)],
)
def test_scan_stops_before_too_many_bytes(
    store: SqliteStore, container: Container, run: Run[Any], max_bytes: int, count: int
) -> None:
    """But never with nothing, or nobody would get past a large item."""
    body = b'{"v":"' + b"x" * 92 + b'"}'
    for number in range(5):
        run(insert(store, container, str(number), body=body))
    assert len(body) == 100
    assert len(run(scanned(store, container, Scan(max_bytes=max_bytes)))) == count


def test_scans_run_side_by_side(store: SqliteStore, filled: Container, run: Run[Any]) -> None:
    async def work() -> list[list[str]]:
        return await asyncio.gather(*[ids_in(store, filled) for _ in range(20)])

    assert run(work()) == [A + B] * 20


@pytest.mark.parametrize(
    ("part", "horizon", "living", "dead"),
    [
        (0, EVERYTHING_LIVES, 6, 0),
        (1, EVERYTHING_LIVES, 4, 0),
        (0, Horizon(inherited=20, own=0), 3, 3),
        (1, Horizon(inherited=20, own=105), 3, 1),
        (1, Horizon(inherited=100, own=200), 1, 3),
        (0, Horizon(inherited=2**40, own=2**40), 0, 6),
    ],
)
def test_usage(
    store: SqliteStore,
    filled: Container,
    run: Run[Any],
    part: int,
    horizon: Horizon,
    living: int,
    dead: int,
) -> None:
    size = len(row(1, "a0").body)
    expected = Usage(living, living * size, dead, dead * size)
    assert run(store.usage(filled, part, horizon)) == expected


def test_usage_follows_every_change(
    store: SqliteStore, container: Container, run: Run[Any], path: Path
) -> None:
    """Kept as a counter: inserts, updates, removals, failures, and over a restart."""

    def used() -> tuple[int, ...]:
        found: Usage = run(store.usage(container, 0, EVERYTHING_LIVES))
        return found[:4]

    first, second = run(insert(store, container, "1", "2", body=b'{"v":1}'))
    assert used() == (2, 14, 0, 0)
    larger = Put(first._replace(lsn=2, body=b'{"v":123}', size=9), first)
    run(store.write(container, 0, [], lambda view: Decision([larger], None)))
    assert used() == (2, 16, 0, 0)
    with pytest.raises(ServiceUnavailable):
        run(insert(store, container, "3", "2", body=b'{"v":1}'))
    assert used() == (2, 16, 0, 0)
    run(store.write(container, 0, [], lambda view: Decision([Remove(second)], None)))
    assert used() == (1, 9, 0, 0)
    run(store.close())
    reopened = SqliteStore(path, durability="off")
    assert run(reopened.usage(container, 0, EVERYTHING_LIVES))[:4] == (1, 9, 0, 0)
    run(reopened.close())


# Metadata ---------------------------------------------------------------------------------------


def test_meta(store: SqliteStore, run: Run[Any]) -> None:
    assert run(store.get_meta("a")) is None
    for value in ("1", "", "é\x00"):
        run(store.put_meta("a", value))
        assert run(store.get_meta("a")) == value
    assert run(store.get_meta("b")) is None


def test_numbers_are_given_once(store: SqliteStore, run: Run[Any]) -> None:
    async def take(series: str, count: int) -> list[int]:
        return await asyncio.gather(*[store.next_number(series) for _ in range(count)])

    assert sorted(run(take("x", 50))) == list(range(1, 51))
    assert run(take("y", 1)) == [1]
    assert run(take("x", 1)) == [51]


def test_resources_in_order_of_creation(store: SqliteStore, run: Run[Any]) -> None:
    b, a, c = resource("b"), resource("a"), resource("c")
    run(store.change([PutResource(b), PutResource(a)]))
    run(store.change([PutResource(c)]))
    changed = a._replace(etag='"2"', id="new", ts=9, state={})
    run(store.change([PutResource(changed, replaces='"1"')]))
    assert run(store.resources()) == [b, changed, c]
    run(store.change([RemoveResource(b)]))
    assert run(store.resources()) == [changed, c]


@pytest.mark.parametrize(
    "wrong",
    [
        PutResource(resource("a")),  # the rid is taken
        PutResource(resource("z", name="a")),  # the id is taken
        PutResource(resource("a", etag='"2"'), replaces='"0"'),
        PutResource(resource("none", etag='"2"'), replaces='"1"'),
        RemoveResource(resource("none")),
    ],
)
def test_a_stale_change_undoes_the_whole(
    store: SqliteStore, run: Run[Any], wrong: PutResource | RemoveResource
) -> None:
    run(store.change([PutResource(resource("a"))]))
    with pytest.raises(StaleResource):
        run(
            store.change(
                [
                    PutResource(resource("b")),
                    PutResource(container_resource(9)),
                    wrong,
                    PutResource(resource("c")),
                ]
            )
        )
    assert run(store.resources()) == [resource("a")]
    run(store.change([PutResource(container_resource(9))]))  # its tables are not there yet


def test_same_id_under_another_parent_or_kind(store: SqliteStore, run: Run[Any]) -> None:
    made = [
        resource("1", name="x"),
        resource("2", name="x", kind="user"),
        resource("3", name="x")._replace(parent="1"),
    ]
    run(store.change([PutResource(each) for each in made]))
    assert run(store.resources()) == made


def test_removing_a_container_removes_its_items(
    store: SqliteStore, container: Container, unique_container: Container, run: Run[Any]
) -> None:
    run(insert(store, container, "1"))
    run(insert(store, unique_container, "1"))
    run(store.change([RemoveResource(container_resource(7))]))
    assert run(store.lsns(unique_container)) == (1, 0)
    assert run(ids_in(store, unique_container)) == ["1"]
    tables = store._write_db.execute("SELECT name FROM sqlite_schema WHERE name LIKE '%7%'")
    assert list(tables) == []
    assert set(store._write_db.execute("SELECT container FROM positions")) == {(8,)}


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


def test_lsns_go_on_from_dropped_containers(
    store: SqliteStore, container: Container, run: Run[Any]
) -> None:
    """So that no session token of an old container lies ahead of a new one."""
    for item_id in "123":
        run(insert(store, container, item_id, part=1))
    run(store.change([RemoveResource(container_resource(7))]))
    made = container_resource(9)
    run(store.change([PutResource(made)]))
    heir = build_container(made, DATABASE)
    assert run(scanned(store, heir, Scan())) == []
    assert min(run(store.lsns(heir))) >= 3
    (first,) = run(insert(store, heir, "1"))
    assert first.lsn > 3


# Files ------------------------------------------------------------------------------------------


def test_everything_survives_reopening(path: Path, run: Run[Any]) -> None:
    store = SqliteStore(path)
    made = container_resource(8, unique=True)
    container = build_container(made, DATABASE)
    run(store.change([PutResource(made), PutResource(resource("a"))]))
    run(store.put_meta("a", "1"))
    run(store.next_number("x"))
    rows = [run(store.write(container, 0, [], claiming(each, each.encode()))) for each in "123"]
    before = run(store.resources())
    run(store.close())
    assert [each.name for each in path.parent.iterdir()] == [path.name]  # the log is folded in

    store = SqliteStore(path)
    assert run(store.resources()) == before
    assert run(store.get_meta("a")) == "1"
    assert run(store.next_number("x")) == 2
    assert run(store.lsns(container)) == (3, 0)
    assert run(scanned(store, container, Scan())) == rows
    with pytest.raises(Conflict):
        run(store.write(container, 0, [], claiming("4", b"1")))
    (fourth,) = run(insert(store, container, "4"))
    assert fourth.lsn == 4
    run(store.close())


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
