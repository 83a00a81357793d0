"""Files and directories that only their owner may read, in places that other users may write.

The database contains the secret that signs tokens, so what the server writes is for its user
alone, whatever the umask says. No link that another user planted is followed. Windows has
access lists instead of modes: there these functions create and open files without further checks.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

log = logging.getLogger(__name__)

_HAS_MODES: Final = sys.platform != "win32"
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700
_ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXO
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class ForeignFile(OSError):
    """A file that another user owns or can replace, so it must not be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, f"{reason}; remove it, or use another directory", str(path))


def make_directory(path: Path) -> None:
    """Creates a directory for this user alone, or restricts an existing one.

    An existing directory that has access for its group, but none for others, was given to the group
    on purpose: it stays as it is. The files in it are private in any case.
    """
    if _HAS_MODES:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(_DIRECTORY_MODE)
    else:
        path.mkdir(parents=True, exist_ok=True)
    mode = os.stat(path).st_mode
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    # A sticky directory, such as /tmp, is shared on purpose, and is not ours to close.
    if _HAS_MODES and mode & _OTHERS and not mode & stat.S_ISVTX:
        try:
            os.chmod(path, _DIRECTORY_MODE)
        except OSError as exc:  # it belongs to another user, such as the root of a container host
            if mode & stat.S_IWOTH:
                log.warning(
                    "any user of this machine can replace the files in %s, and its permissions"
                    " cannot be changed (%s): run `chmod 700 %s` as its owner",
                    path, exc.strerror, path,
                )  # fmt: skip


def is_own_directory(path: Path) -> bool:
    """True if this user, and no other, can change what the directory contains."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not _HAS_MODES or (
        found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def user_path() -> Path:
    """Where this user's files of Perseid are; RuntimeError if the user has no home directory."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "perseid"


def user_directory() -> Path | None:
    """The directory of this user's files; None if it cannot be created or others can change it."""
    try:
        path = user_path()
        make_directory(path)
    except (OSError, RuntimeError):  # there is no home directory, or it cannot be written
        return None
    return path if is_own_directory(path) else None


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Waits until no other process holds the directory, where the system can lock one."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_file(path: Path, mode: str) -> IO[Any]:
    """Opens a private file for writing and creates it if it does not exist; follows no link.

    `mode` is as for `open`, with a `+` or an `a`: nothing is truncated before the file is checked.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT | (os.O_APPEND if "a" in mode else 0))
    if _HAS_MODES and os.fstat(descriptor).st_mode & _GROUP_AND_OTHERS:
        _restrict(path, descriptor)
    return open(descriptor, mode)


def reopen_file(path: Path) -> IO[bytes]:
    """Opens an existing file of this user for reading and writing, as it is; follows no link."""
    return open(_open(path, os.O_RDWR), "r+b")


def _open(path: Path, flags: int) -> int:
    """Opens a file of this user by its own name, and not through a link."""
    try:
        descriptor = os.open(path, flags | _FLAGS, _FILE_MODE)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise ForeignFile(path, "it is a symbolic link") from None
        raise
    try:
        _check_owner(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def restrict_file(path: Path) -> None:
    """Takes access to an existing file from all users but its owner; logs if that fails."""
    with contextlib.suppress(FileNotFoundError):
        if _HAS_MODES and os.stat(path).st_mode & _GROUP_AND_OTHERS:
            _restrict(path)


def warn_if_open(path: Path) -> None:
    """Logs if every user can read a secret that somebody else manages."""
    if _HAS_MODES and os.stat(path).st_mode & _OTHERS:
        log.warning("every user of this machine can read %s: run `chmod 600 %s`", path, path)


def replace_file(path: Path, content: bytes, mode: int = _FILE_MODE) -> None:
    """Writes a file so that readers see the old content or the new one, never a part."""
    with create_file(path.with_name(f"{path.name}.new"), mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def create_file(path: Path, mode: int = _FILE_MODE) -> IO[bytes]:
    """Opens a new file for writing. What had the name is removed first, and never written to."""
    for _ in range(10):
        path.unlink(missing_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
        except FileExistsError:  # another process created it in between
            continue
        return _named(descriptor, path)
    raise ForeignFile(path, "another process keeps creating it")


def _named(descriptor: int, path: Path) -> IO[bytes]:
    return open(path, "wb", opener=lambda *_: descriptor)


def check_file(path: Path) -> None:
    """ForeignFile if a file that is about to be opened by its name is not this user's.

    Here links are allowed: people keep a database on another disk.
    """
    with contextlib.suppress(FileNotFoundError):
        check_link(path)
        _check_owner(path.resolve(), os.stat(path))


def check_link(path: Path) -> None:
    """ForeignFile for a link that another user has made: it could lead to any file of this one."""
    link = os.lstat(path)
    if _HAS_MODES and stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), _ROOT):
        raise ForeignFile(path, "it is a symbolic link of another user")


def _check_owner(path: Path, found: os.stat_result) -> None:
    """ForeignFile if another user may have put the file there.

    Root may serve the directory of a user, and then the files are that user's.
    """
    if not stat.S_ISREG(found.st_mode):
        raise ForeignFile(path, "it is not a regular file")
    if found.st_nlink > 1:
        raise ForeignFile(path, "it has a second name (a hard link)")
    if _HAS_MODES and found.st_uid not in (os.geteuid(), _ROOT):
        directory = os.stat(path.parent)
        if directory.st_uid != found.st_uid or directory.st_mode & stat.S_IWOTH:
            raise ForeignFile(path, "it belongs to another user")


def _restrict(path: Path, descriptor: int | None = None) -> None:
    try:
        os.chmod(path if descriptor is None else descriptor, _FILE_MODE)
    except OSError as exc:
        log.warning(
            "other users of this machine may be able to read %s, which contains secrets, and its"
            " permissions cannot be changed (%s): run `chmod 600 %s` as its owner",
            path, exc.strerror, path,
        )  # fmt: skip
