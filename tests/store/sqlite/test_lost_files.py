"""A database file that is missing, empty or cut off next to the log of its last writes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from perseid.store.sqlite.snapshot import snapshot
from perseid.store.sqlite.store import open_stores
from perseid.store.types import StoreError
from tests.support.rows import Run

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


@pytest.fixture
def killed(path: Path, tmp_path: Path, run: Run[Any]) -> Path:
    """A database whose server was killed: the last write is in its write-ahead log only."""
    source = tmp_path / "source"
    source.mkdir()
    store = open_stores(source / path.name, durability="off")
    run(store.values.put("a", "1"))
    for each in source.iterdir():
        shutil.copy(each, path.parent / each.name)
    run(store.close())
    shutil.rmtree(source)
    assert log_of(path).stat().st_size > 0
    return path


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def contents(path: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes()
        for each in path.parent.iterdir()
        if each.is_file() and not each.name.endswith("-shm")
    }


@pytest.mark.parametrize("size", [None, 0, 1, 50, 511], ids=str)
@pytest.mark.parametrize("has_index", [True, False], ids=["shm", "no shm"])
def test_a_log_without_its_database_is_refused_and_kept(
    killed: Path, run: Run[Any], size: int | None, has_index: bool
) -> None:
    whole = killed.read_bytes()
    if not has_index:
        killed.with_name(f"{killed.name}-shm").unlink()
    if size is None:
        killed.unlink()
    else:
        os.truncate(killed, size)
    before = contents(killed)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"-wal") as refused:
            open_stores(killed)
    assert "restore" in str(refused.value)
    assert str(killed) in str(refused.value)
    with pytest.raises(StoreError, match=r"restore"), snapshot(killed):
        pass
    assert contents(killed) == before
    killed.write_bytes(whole)
    store = open_stores(killed)
    assert run(store.values.get("a")) == "1"
    run(store.close())


def test_without_the_log_it_starts_empty(killed: Path, run: Run[Any]) -> None:
    """That is the other way out that the message names."""
    killed.unlink()
    log_of(killed).unlink()
    store = open_stores(killed)
    assert run(store.values.get("a")) is None
    run(store.close())


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_an_empty_file_next_to_it_loses_nothing(path: Path, run: Run[Any], end: str) -> None:
    path.with_name(f"{path.name}{end}").touch()
    run(open_stores(path).close())


def test_a_log_behind_a_link_is_kept_as_well(killed: Path, tmp_path: Path) -> None:
    """SQLite keeps it next to the file itself."""
    link = tmp_path / "other" / "db"
    link.parent.mkdir()
    link.symlink_to(killed)
    killed.unlink()
    before = contents(killed)
    with pytest.raises(StoreError, match="restore"):
        open_stores(link)
    assert contents(killed) == before


def journal(pages: int) -> bytes:
    """A rollback journal of a database that had so many pages; this SQLite deletes a hot one."""
    magic = bytes.fromhex("d9d505f920a163d7")
    return (
        magic
        + b"".join(each.to_bytes(4, "big") for each in (1, 7, pages, 512, 4096)).ljust(504, b"\0")
        + b"x" * 4104
    )


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_journal_without_its_database(path: Path, run: Run[Any], is_empty: bool) -> None:
    """One of a database that was being created holds nothing; one of another holds pages."""
    other = path.with_name(f"{path.name}-journal")
    if is_empty:
        path.touch()
    other.write_bytes(journal(3))
    with pytest.raises(StoreError, match=r"-journal.* restore"):
        open_stores(path)
    assert other.read_bytes() == journal(3)
    other.write_bytes(journal(0))
    run(open_stores(path).close())


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_folder_in_place_of_a_file(path: Path, run: Run[Any], end: str) -> None:
    folder = path.with_name(f"{path.name}{end}")
    folder.mkdir()
    with pytest.raises(StoreError, match=rf"cannot open {folder}: it is a folder"):
        open_stores(path)


@pytest.mark.parametrize("size", [1, 50, 511])
def test_a_file_that_is_cut_off(path: Path, size: int) -> None:
    path.write_bytes(b"SQLite format 3\0".ljust(600, b"\0")[:size])
    before = path.read_bytes()
    with pytest.raises(StoreError, match="cut off"):
        open_stores(path)
    assert path.read_bytes() == before
