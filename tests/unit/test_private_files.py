"""Files for one user: modes, and what other users may have put in their place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid import private_files

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX systems")


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """The umask of most systems: everyone may read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_directories_are_private(tmp_path: Path) -> None:
    private_files.make_directory(tmp_path / "above" / "data")
    assert mode(tmp_path / "above" / "data") == 0o700


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0o755, 0o700),  # what a umask of 022 made of it
        (0o777, 0o700),
        (0o750, 0o750),  # somebody gave the group access on purpose
        (0o2770, 0o2770),
        (0o700, 0o700),
        (0o1777, 0o1777),  # shared on purpose, like /tmp
    ],
)
def test_existing_directories(tmp_path: Path, before: int, after: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(before)
    private_files.make_directory(tmp_path / "data")
    assert mode(tmp_path / "data") == after


def test_files_are_private(tmp_path: Path) -> None:
    with private_files.open_file(tmp_path / "new", "a+") as file:
        file.write("x")
    (tmp_path / "old").write_text("y")
    assert mode(tmp_path / "old") == 0o644
    with private_files.open_file(tmp_path / "old", "a+") as file:
        file.seek(0)
        assert file.read() == "y"
    (tmp_path / "other").touch()
    private_files.restrict_file(tmp_path / "other")
    private_files.restrict_file(tmp_path / "missing")
    private_files.replace_file(tmp_path / "secret", b"s")
    for name in ("new", "old", "other", "secret"):
        assert mode(tmp_path / name) == 0o600, name


def test_links_are_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    for name in ("lock", "secret.new", "part"):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        private_files.open_file(tmp_path / "lock", "a+")
    private_files.replace_file(tmp_path / "secret", b"s")
    with private_files.create_file(tmp_path / "part") as file:
        file.write(b"p")
    assert target.read_text() == "kept"
    assert (tmp_path / "secret").read_text() == "s"
    assert (tmp_path / "part").read_text() == "p"
    assert not (tmp_path / "part").is_symlink()


def test_what_is_no_file_of_its_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    with pytest.raises(OSError, match="hard link"):
        private_files.open_file(tmp_path / "two", "a+")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        private_files.open_file(tmp_path / "pipe", "a+")


def test_files_of_other_users_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the directory is theirs as well: root may serve the directory of a user."""
    path, link = tmp_path / "lock", tmp_path / "link"
    path.touch()
    link.symlink_to(path)
    private_files.check_file(link)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr(private_files, "_ROOT", owner + 2)
    private_files.open_file(path, "a+").close()
    private_files.check_file(path)
    with pytest.raises(OSError, match="symbolic link of another user"):
        private_files.check_file(link)
    tmp_path.chmod(0o777)  # anybody may have put the file there
    for use in (
        lambda: private_files.open_file(path, "a+"),
        lambda: private_files.check_file(path),
    ):
        with pytest.raises(OSError, match="belongs to another user"):
            use()


def test_own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, link, open_to_all = (tmp_path / name for name in ("own", "link", "open"))
    own.mkdir(0o700)
    link.symlink_to(own)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert private_files.is_own_directory(own)
    for path in (link, open_to_all, tmp_path / "missing", tmp_path / "own" / "below"):
        assert not private_files.is_own_directory(path)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not private_files.is_own_directory(own)


def test_a_mode_that_cannot_be_changed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "certificate-key.pem"
    path.touch()
    monkeypatch.setattr(os, "chmod", refuse)
    private_files.restrict_file(path)
    assert f"chmod 600 {path}" in caplog.text
    assert "Operation not permitted" in caplog.text
