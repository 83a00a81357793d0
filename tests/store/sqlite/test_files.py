"""The database file: its log, migrations, durability, and files of other programs."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.model import Container
from perseid.store.protocol import Stores
from perseid.store.sqlite import expiry, schema
from perseid.store.sqlite.store import open_stores
from perseid.store.types import StoreError
from tests.support.rows import (
    Run,
    ids_in,
    insert,
)
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


@pytest.fixture
def log_limit(store: Stores, monkeypatch: pytest.MonkeyPatch) -> int:
    """From so many bytes on the write-ahead log is a large one."""
    limit = 100_000
    monkeypatch.setattr(expiry, "_LARGE_LOG", limit)
    monkeypatch.setattr(expiry, "_CHECKPOINT_WAIT", 10)
    monkeypatch.setattr(store.expiry, "_log_limit", limit)
    return limit


# Files ------------------------------------------------------------------------------------------


def test_a_large_log_is_folded_in(
    store: Stores, container: Container, run: Run[Any], path: Path, log_limit: int
) -> None:
    log = path.with_name(f"{path.name}-wal")
    for each in range(10):
        run(insert(store, container, f"a{each}", body=b'{"x":"%b"}' % (b"x" * log_limit)))
    assert log.stat().st_size > 10 * log_limit
    assert run(store.expiry.free_disk_space(1)) == 0
    assert log.stat().st_size == 0
    assert len(run(ids_in(store, container))) == 10
    run(insert(store, container, "1"))
    assert run(store.expiry.free_disk_space(1)) == 0
    assert log.stat().st_size > 0  # a small one is left alone


def test_a_log_that_is_being_read_is_checkpointed_later(
    store: Stores, container: Container, run: Run[Any], path: Path, log_limit: int
) -> None:
    log = path.with_name(f"{path.name}-wal")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT COUNT(*) FROM meta").fetchall()

    def grow(name: str) -> int:
        run(insert(store, container, name, body=b'{"x":"%b"}' % (b"x" * log_limit)))
        return log.stat().st_size

    size = grow("1")
    run(store.expiry.free_disk_space(1))
    assert grow("2") > size  # writes go on, behind what is being read
    reader.close()
    grow("3")
    run(store.expiry.free_disk_space(1))
    assert log.stat().st_size == 0
    assert run(ids_in(store, container)) == ["1", "2", "3"]


def test_closing_folds_the_log_in(path: Path, run: Run[Any]) -> None:
    store = open_stores(path)
    run(store.values.put("a", "1"))
    run(store.close())
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1), ("off", 0)])
def test_durability(path: Path, run: Run[Any], durability: str, level: int) -> None:
    store = open_stores(path, durability=durability)
    assert sqlite_database(store).write_db.pragma("synchronous") == level
    assert sqlite_database(store).write_db.pragma("journal_mode") == "wal"
    run(store.close())


@pytest.mark.parametrize("start", ["nothing", "empty file", "empty database"])
def test_migration_from_version_0(path: Path, run: Run[Any], start: str) -> None:
    if start == "empty file":
        path.touch()
    elif start == "empty database":
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 0")
            db.execute("VACUUM")
    run(open_stores(path).close())
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
        open_stores(path)
    monkeypatch.undo()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone() == (0,)
    run(open_stores(path).close())


def foreign(path: Path, *statements: str) -> bytes:
    """A database of another program; returns its bytes."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (["CREATE TABLE theirs (a)"], "another program"),
        (["CREATE TABLE theirs (a)", f"PRAGMA user_version = {schema.VERSION}"], None),
        (["CREATE TABLE theirs (a)", "PRAGMA user_version = 99"], None),
        (["CREATE TABLE meta (a)", "PRAGMA application_id = 1"], "another program"),
        (["PRAGMA application_id = 0x50455253", "PRAGMA user_version = 99"], "newer release"),
    ],
)
def test_files_of_others_are_refused_and_left_alone(
    path: Path, statements: list[str], text: str | None
) -> None:
    before = foreign(path, *statements)
    with pytest.raises(StoreError, match=text):
        open_stores(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_files_that_are_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"store\.sqlite3"):
        open_stores(path)
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open"):
        open_stores(tmp_path / "missing" / "store.sqlite3")
    with pytest.raises(StoreError, match="cannot open"):
        open_stores(tmp_path)
