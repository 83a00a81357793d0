"""The data directory: one server at a time, and temporary directories for --memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from perseid import private_files
from perseid.store.types import StoreError

DATABASE_FILE: Final = "perseid.sqlite3"
_LOCK_FILE: Final = "perseid.lock"
_MEMORY_PREFIX: Final = "perseid-memory-"
_LOCKED_BYTE: Final = 1 << 30  # on Windows: behind the process id, which others read


class DataDirectory:
    """A directory held exclusively by this process until it is released."""

    def __init__(self, path: Path, *, is_temporary: bool = False) -> None:
        self.path = path
        self.is_temporary = is_temporary
        _refuse_no_text(path)  # SQLite would refuse it, too, after the directory was created
        try:
            private_files.make_directory(path)
            # Opened for appending, so a second server does not wipe the first one's process id.
            self._lock: IO[str] = private_files.open_file(path / _LOCK_FILE, "a+")
        except private_files.ForeignFile as exc:
            raise StoreError(f"cannot use {exc.filename}: {exc.strerror}") from exc
        except OSError as exc:
            raise StoreError(f"cannot use {path} as data directory: {exc.strerror}") from exc
        self._folder: int | None = None
        try:
            if not _try_lock(self._lock):
                self._lock.seek(0)
                raise _in_use(path, self._lock.read().strip())
            self._folder = _hold_folder(self.database)
            _refuse_second_name(self.database)
        except StoreError:
            self._close_files()
            raise
        with contextlib.suppress(OSError):  # on a full disk the process id is missing
            self._lock.truncate(0)
            self._lock.write(f"{os.getpid()}\n")
            self._lock.flush()

    @property
    def database(self) -> Path:
        return self.path / DATABASE_FILE

    def release(self) -> None:
        if sys.platform == "win32":  # which keeps a file that is open
            self._close_files()
        if self.is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        self._close_files()

    def _close_files(self) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None
        self._lock.close()

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def memory_directory() -> DataDirectory:
    """A directory in memory where the system has such a place, else in the temporary folder.

    The next start removes the directories of killed servers: their locks are free.
    """
    shared = Path("/dev/shm")  # noqa: S108
    parent = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{_MEMORY_PREFIX}*"):
        if private_files.is_own_directory(leftover):  # any user may have created such a name
            with contextlib.suppress(StoreError, OSError):
                DataDirectory(leftover, is_temporary=True).release()
    if sys.platform == "win32":  # which does not rename a directory with an open file
        made = Path(tempfile.mkdtemp(prefix=_MEMORY_PREFIX, dir=parent))
        return DataDirectory(made, is_temporary=True)
    # Under another name until it is locked, so that another start does not remove it.
    made = Path(tempfile.mkdtemp(prefix="perseid-new-", dir=parent))
    directory = DataDirectory(made, is_temporary=True)
    try:
        directory.path = made.rename(parent / made.name.replace("perseid-new-", _MEMORY_PREFIX))
    except OSError as exc:  # another user has taken the name
        directory.release()
        raise StoreError(f"cannot keep data in {parent}: {exc.strerror}") from exc
    return directory


def _refuse_no_text(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError as exc:
        shown = os.fsencode(path).decode(errors="replace")
        raise StoreError(
            f"cannot use {shown} as data directory: the name is not valid UTF-8"
        ) from exc


def _in_use(path: Path, owner_pid: str) -> StoreError:
    return StoreError(
        f"{path} is in use by another perseid server (process {owner_pid or 'unknown'});"
        " stop it, or give this one another --data directory"
    )


def _hold_folder(database: Path) -> int | None:
    """Locks the folder that contains the database file, where the system can: the lock file of a
    running server may have been removed, or its database linked to another directory."""
    if sys.platform == "win32":
        return None
    import fcntl

    folder = database.resolve().parent
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as exc:
        raise StoreError(f"cannot use {folder} as data directory: {exc.strerror}") from exc
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        try:
            owner_pid = (folder / _LOCK_FILE).read_text().strip()
        except OSError:
            owner_pid = ""
        raise _in_use(folder, owner_pid) from None
    except OSError:
        pass  # a file system that cannot lock folders has the lock file alone
    return held


def _refuse_second_name(database: Path) -> None:
    """Each name of a file gets its own write-ahead log, so two names would damage the data."""
    with contextlib.suppress(OSError):  # there is no file yet
        if database.stat().st_nlink > 1:
            raise StoreError(
                f"{database} has a second name (a hard link), and changes would damage what that"
                " one stands for; replace one of them by a copy"
            )


def _try_lock(file: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            # Windows locks from the current position on, and others cannot read what is locked.
            os.lseek(file.fileno(), _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
