"""Files that imports and exports write, where other users can write, too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.support.cli import Cli, invoke, printed


@pytest.fixture
def run(endpoint: str) -> Cli:
    return lambda *arguments, **rest: invoke(endpoint, *arguments, **rest)


@pytest.fixture
def place(container: str) -> tuple[str, str]:
    """The names of a database and a container."""
    _, _, database, _, name = container.split("/")
    return database, name


def test_planted_files_are_not_written_to(
    run: Cli, place: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory that others can write to, they may link the names that a command uses."""
    private = tmp_path / "private"
    private.write_text("kept")
    file, items = tmp_path / "out.jsonl", tmp_path / "in.jsonl"
    items.write_text('{"id":"a","pk":"a"}\n')
    for name in ("out.jsonl.part", "out.jsonl.export-state.new", "in.jsonl.import-state.new"):
        (tmp_path / name).symlink_to(private)
    printed(run("import", *place, str(items)))
    printed(run("export", *place, str(file)))
    assert private.read_text() == "kept"
    assert file.is_file()
    assert not file.is_symlink()

    link = tmp_path / "link"
    link.symlink_to(private)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr("perseid.private_files._ROOT", owner + 2)
    result = run("export", *place, str(link))
    assert result.exit_code == 1
    assert "symbolic link of another user" in result.output
    assert private.read_text() == "kept"
    monkeypatch.undo()
    printed(run("export", *place, str(link)))  # a link of one's own is followed
    assert link.is_symlink()
    assert private.read_text() != "kept"


def test_an_export_keeps_the_mode_of_the_file_it_replaces(
    run: Cli, place: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    file.touch()
    for mode in (0o600, 0o640, 0o664):
        file.chmod(mode)
        printed(run("export", *place, str(file)))
        assert stat.S_IMODE(file.stat().st_mode) == mode
