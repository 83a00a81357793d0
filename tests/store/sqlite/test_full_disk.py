"""A disk that is full, fails for a moment, or loses the file."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.errors import CosmosError, InsufficientStorage, ServiceUnavailable
from perseid.model import Container
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
from perseid.store.sqlite.files import DataDirectory
from perseid.store.sqlite.store import open_stores
from perseid.store.types import Decision, PutResource, Remove, RemoveResource, Search, StoreError
from tests.store.sqlite.jobs import Gate, limit_pages, outcomes, submit
from tests.support.rows import (
    DATABASE,
    Run,
    container_resource,
    ids_in,
    insert,
    key,
    scanned,
)
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


BIG = b'{"v":"' + b"x" * 20_000 + b'"}'


def check_full(error: BaseException) -> None:
    assert isinstance(error, InsufficientStorage)
    assert error.status == 507
    assert error.code == "InsufficientStorage"


def test_full_disk(store: Stores, container: Container, run: Run[Any], path: Path) -> None:
    """What was acknowledged is there, what was refused is not; with room it goes on."""
    run(insert(store, container, "0", body=BIG))
    limit_pages(store, 40)
    ids = ["0"]
    refused: list[BaseException] = []
    while not refused:
        try:
            run(insert(store, container, str(len(ids)), body=BIG))
            ids.append(str(len(ids)))
        except CosmosError as error:
            refused.append(error)
    check_full(refused[0])
    assert 1 < len(ids) < 20
    assert run(ids_in(store, container)) == ids
    assert run(store.items.lsns(container)) == (len(ids), 0)
    with pytest.raises(InsufficientStorage):
        run(insert(store, container, "x", body=BIG))
    (last,) = run(scanned(store, container, Search(limit=1)))
    run(
        store.items.write(container, 0, [], lambda view: Decision([Remove(last)], None))
    )  # still works
    limit_pages(store, 1000)
    (next_one,) = run(insert(store, container, "next", body=BIG))
    assert next_one.lsn == len(ids) + 2
    run(store.close())
    reopened = open_stores(path, durability="off")
    assert run(ids_in(reopened, container)) == [*ids[1:], "next"]
    assert run(reopened.items.lsns(container)) == (len(ids) + 2, 0)
    run(reopened.close())


def test_full_disk_in_a_group(
    store: Stores, container: Container, run: Run[Any], path: Path
) -> None:
    """No writer of the group gets an answer while its write is not stored."""
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
    assert run(scanned(store, container, Search(max_bytes=2**30))) == done
    assert run(store.items.lsns(container)) == (len(done), 0)
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
    disk: Disk, store: Stores, container: Container, run: Run[Any]
) -> None:
    """Even if nothing could be read when the failed write was undone."""

    async def work() -> None:
        sqlite_database(store).write_db.pragma(
            "shrink_memory"
        )  # what is remembered need not be read
        disk.is_broken = True
        with pytest.raises(ServiceUnavailable):
            await asyncio.wait_for(insert(store, container, "1"), 10)
        disk.is_broken = False
        await asyncio.wait_for(insert(store, container, "2"), 10)
        assert await ids_in(store, container) == ["2"]

    run(work())


LOOKS: dict[str, Callable[[Stores, Container], Coroutine[Any, Any, Any]]] = {
    "a setting": lambda store, _: store.values.get("a"),
    "resources": lambda store, _: store.metadata.resources(),
    "the audit log": lambda store, _: store.metadata.audit_entries(None, 0, 10),
    "free pages": lambda store, _: store.expiry.free_disk_space(1),
    "changes": lambda store, container: store.changes.trim(container, 1, 10),
    "an item": lambda store, container: store.items.read(container, 0, key("1")),
    "items": lambda store, container: store.queries.search(container, Search()),
}


@pytest.mark.parametrize("what", LOOKS)
def test_what_a_disk_does_not_give_is_not_available(
    disk: Disk, store: Stores, container: Container, run: Run[Any], what: str
) -> None:
    sqlite_database(store).point_db.pragma("shrink_memory")
    disk.is_broken = True
    with pytest.raises(ServiceUnavailable):
        run(LOOKS[what](store, container))
    disk.is_broken = False
    run(LOOKS[what](store, container))


@pytest.mark.skipif(sys.platform == "win32", reason="an open file stays where it is there")
@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_nothing_is_written_to_a_file_that_is_not_in_its_place(
    tmp_path: Path, run: Run[Any], how: str
) -> None:
    """It would be acknowledged, and not there at the next start. Nor is another file read."""
    path, elsewhere = tmp_path / "a" / "db", tmp_path / "b"
    path.parent.mkdir()
    store = open_stores(path, durability="off")
    run(store.metadata.change([PutResource(container_resource(7))]))
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
        run(store.values.put("a", "b"))
    with pytest.raises(ServiceUnavailable):  # through a connection that was not open yet
        run(ids_in(store, container))
    assert run(store.items.read(container, 0, key("1")))[0] is not None
    if how == "moved":
        elsewhere.rename(path.parent)
        run(insert(store, container, "3"))  # it is back
        assert run(ids_in(store, container)) == ["1", "3"]
        run(store.close())
    else:
        with pytest.raises(StoreError, match="moved, removed or replaced"):
            run(store.close())


@pytest.mark.skipif(sys.platform == "win32", reason="an open file stays where it is there")
@pytest.mark.parametrize("name", ["db", "db-wal", "folder"])
@pytest.mark.parametrize("is_heavy", [False, True])
def test_a_write_is_not_acknowledged_if_its_file_was_moved_before_that(
    tmp_path: Path, run: Run[Any], name: str, is_heavy: bool
) -> None:
    """Not even if it was moved while the write was being committed."""
    path = tmp_path / "a" / "db"
    path.parent.mkdir()
    moved = path.parent if name == "folder" else path.with_name(name)
    elsewhere = tmp_path / "elsewhere"
    store = open_stores(path, durability="off")
    run(store.values.put("a", "0"))
    db = sqlite_database(store)

    def move() -> bool:
        moved.rename(elsewhere)
        return False

    def put(value: str) -> Any:
        def work() -> None:
            db.write_db.execute("UPDATE meta SET value = ? WHERE name = 'a'", (value,))

        async def submit_job() -> None:
            await db.writer.submit(work, is_heavy=is_heavy)

        return submit_job()

    db.write_db.set_commit_hook(move)
    with pytest.raises(ServiceUnavailable, match="moved, removed or replaced"):
        run(put("1"))
    db.write_db.set_commit_hook(None)
    with pytest.raises(ServiceUnavailable, match="moved, removed or replaced"):
        run(put("2"))
    elsewhere.rename(moved)
    run(put("3"))
    assert run(store.values.get("a")) == "3"
    run(store.close())


def test_a_directory_whose_name_is_not_text_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"bad\ufffd as data directory: .* not valid UTF-8"):
        DataDirectory(tmp_path / os.fsdecode(b"bad\xff"))
    assert list(tmp_path.iterdir()) == []


def test_full_disk_for_metadata(store: Stores, run: Run[Any]) -> None:
    run(store.values.put("a", "old"))
    limit_pages(store, 0)
    with pytest.raises(InsufficientStorage):
        run(store.values.put("a", "x" * 100_000))
    with pytest.raises(InsufficientStorage):
        run(store.metadata.change([PutResource(container_resource(9))]))
    assert run(store.values.get("a")) == "old"
    assert run(store.metadata.resources()) == []


def test_a_removed_container_leaves_nothing_in_the_file(
    store: Stores, container: Container, unique_container: Container, run: Run[Any]
) -> None:
    run(insert(store, container, "1"))
    run(insert(store, unique_container, "1"))
    run(store.metadata.change([RemoveResource(container_resource(7))]))
    tables = sqlite_database(store).write_db.execute(
        "SELECT name FROM sqlite_schema WHERE name LIKE '%7%'"
    )
    assert list(tables) == []
    assert set(sqlite_database(store).write_db.execute("SELECT container FROM positions")) == {(8,)}
    assert {number for number, _ in sqlite_database(store).state.range_states} == {8}


def test_a_write_and_the_end_of_its_container_in_one_group(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    """Nothing of the container is left behind, whichever came first."""

    async def work() -> list[Any]:
        async with Gate(store) as gate:
            tasks: list[Any] = await submit(
                insert(store, container, "1"),
                store.metadata.change([RemoveResource(container_resource(7))]),
                insert(store, container, "2"),
            )
            gate.open()
            return await outcomes(tasks)

    before, removed, after = run(work())
    assert [each.id for each in before] == ["1"]
    assert removed is None
    assert isinstance(after, Exception)
    assert run(store.metadata.resources()) == []
    assert list(sqlite_database(store).write_db.execute("SELECT * FROM positions")) == []
    tables = sqlite_database(store).write_db.execute(
        "SELECT name FROM sqlite_schema WHERE name LIKE '%7%'"
    )
    assert list(tables) == []
