"""The data directory: its lock, and directories in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from perseid.store.sqlite.files import DataDirectory, memory_directory
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
