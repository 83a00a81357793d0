"""The data directory: its lock, and directories in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.store.sqlite.files import DataDirectory, memory_directory
from perseid.store.sqlite.store import open_stores
from perseid.store.types import StoreError

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


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


def test_a_removed_lock_file_lets_no_process_in(tmp_path: Path) -> None:
    """A user takes it for stale."""
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
        "import sys; from pathlib import Path\n"
        "from perseid.store.sqlite.files import DataDirectory\n"
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
    monkeypatch.setattr("perseid.store.sqlite.files.os.access", lambda *_: False)
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
    """A killed process holds no lock; directories of running ones and of strangers stay."""
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


# Other users ------------------------------------------------------------------------------------


@pytest.fixture
def _open_umask() -> Iterator[None]:
    """The umask of most systems: everyone may read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    paths = [directory, *directory.iterdir()]
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}


def open_and_close(path: Path, seen: list[dict[str, int]]) -> None:
    """Notes the modes of everything that a server has open."""

    async def use() -> None:
        stores = open_stores(held.database)
        await stores.values.put("token_secret", "1")
        seen.append(modes(path))
        await stores.close()

    with DataDirectory(path) as held:
        asyncio.run(use())
    seen.append(modes(path))


@pytest.mark.usefixtures("_open_umask")
def test_only_the_owner_can_read_the_data(tmp_path: Path) -> None:
    """The database has the secret that signs tokens."""
    path, seen = tmp_path / "data", list[dict[str, int]]()
    open_and_close(path, seen)
    assert set(seen[0]) == {
        "data", "perseid.lock", "perseid.sqlite3", "perseid.sqlite3-wal", "perseid.sqlite3-shm",
    }  # fmt: skip
    for each in seen:
        assert each.pop("data") == 0o700
        assert set(each.values()) == {0o600}


@pytest.mark.usefixtures("_open_umask")
def test_data_that_others_could_read_is_closed(tmp_path: Path) -> None:
    """A release before made it, and was killed."""
    path, seen = tmp_path / "data", list[dict[str, int]]()
    path.mkdir()
    (path / "perseid.lock").write_text("1\n")
    with contextlib.closing(sqlite3.connect(path / "perseid.sqlite3")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA user_version = 0")
        assert modes(path)["perseid.sqlite3-wal"] == 0o644
        open_and_close(path, seen)
    assert seen[0].pop("data") == 0o700
    assert set(seen[0].values()) == {0o600}


def test_a_planted_lock_file_is_not_followed(tmp_path: Path) -> None:
    """Somebody who may write to the directory links it to a file of the server's user."""
    private = tmp_path / "private"
    private.write_text("kept")
    path = tmp_path / "data"
    path.mkdir()
    (path / "perseid.lock").symlink_to(private)
    with pytest.raises(StoreError, match="symbolic link"):
        DataDirectory(path)
    assert private.read_text() == "kept"


def test_planted_memory_directories_are_left_alone(memory: Path) -> None:
    """They look like those of a killed server; only own ones are removed."""
    private = memory / "private"
    private.write_text("kept")
    elsewhere = memory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "perseid.lock").write_text("kept")
    linked = memory / "perseid-memory-link"
    linked.symlink_to(elsewhere)
    open_to_all = memory / "perseid-memory-open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "perseid.lock").symlink_to(private)
    own = memory / "perseid-memory-own"
    own.mkdir(0o700)
    (own / "perseid.lock").symlink_to(private)
    memory_directory().release()
    assert private.read_text() == "kept"
    assert (elsewhere / "perseid.lock").read_text() == "kept"
    assert linked.is_symlink()
    assert open_to_all.is_dir()


def test_another_user_cannot_read_or_plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a real second user; without root the tests above check modes and flags instead."""
    if os.geteuid() != 0:
        return
    monkeypatch.setattr("perseid.store.sqlite.files.os.access", lambda *_: False)
    # Not below the directory of the tests, which other users cannot enter.
    with tempfile.TemporaryDirectory() as shared:
        monkeypatch.setattr(tempfile, "tempdir", shared)
        plant_and_read(Path(shared))


def plant_and_read(memory: Path) -> None:
    private = memory / "private"
    private.write_text("kept")
    memory.chmod(0o1777)
    _as_another_user(
        "import os, sys; from pathlib import Path\n"
        "planted = Path(sys.argv[1], 'perseid-memory-x'); planted.mkdir()\n"
        "(planted / 'perseid.lock').symlink_to(Path(sys.argv[1], 'private'))",
        memory,
    )
    with memory_directory() as held:
        seen: list[dict[str, int]] = []
        open_and_close(memory / "data", seen)
        for path in (held.path / "perseid.lock", memory / "data" / "perseid.sqlite3"):
            with pytest.raises(subprocess.CalledProcessError) as caught:
                _as_another_user("import sys; open(sys.argv[1])", path)
            assert "PermissionError" in caught.value.stderr
    assert private.read_text() == "kept"
    assert (memory / "perseid-memory-x").exists()


def _as_another_user(code: str, path: Path) -> None:
    code = f"import os; os.setgid(65534); os.setuid(65534)\n{code}"
    subprocess.run(
        ["/usr/bin/env", "python3", "-c", code, str(path)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
