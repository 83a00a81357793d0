"""The data directory: one server at a time, and throw-away directories for --memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from perseid.store.protocol import StoreError

DATABASE_FILE: Final = "perseid.sqlite3"
_LOCK_FILE: Final = "perseid.lock"
_MEMORY_PREFIX: Final = "perseid-memory-"


class DataDirectory:
    """A directory held exclusively by this process until it is released."""

    def __init__(self, path: Path, *, is_temporary: bool = False) -> None:
        self.path = path
        self.is_temporary = is_temporary
        try:
            path.mkdir(parents=True, exist_ok=True)
            # Opened for appending, so a second server does not wipe the first one's process id.
            self._lock = open(path / _LOCK_FILE, "a+")  # noqa: SIM115
        except OSError as exc:
            raise StoreError(f"cannot use {path} as data directory: {exc.strerror}") from exc
        if not _try_lock(self._lock):
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise StoreError(
                f"{path} is in use by another perseid server (process {holder});"
                " stop it, or give this one another --data directory"
            )
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()

    @property
    def database(self) -> Path:
        return self.path / DATABASE_FILE

    def release(self) -> None:
        if self.is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
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

    What a killed server left behind is removed by the next one: its lock is free.
    """
    shared = Path("/dev/shm")  # noqa: S108
    parent = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{_MEMORY_PREFIX}*"):
        with contextlib.suppress(StoreError, OSError):
            DataDirectory(leftover, is_temporary=True).release()
    # Under another name until it is locked, or someone else's cleaning would take it for left over.
    made = Path(tempfile.mkdtemp(prefix="perseid-new-", dir=parent))
    directory = DataDirectory(made, is_temporary=True)
    directory.path = made.rename(parent / made.name.replace("perseid-new-", _MEMORY_PREFIX))
    return directory


def _try_lock(file: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
