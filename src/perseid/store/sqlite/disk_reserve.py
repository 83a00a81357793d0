"""Room that is kept for a full disk: deletes and the purge need some before they free more.

Even a delete is written to the log first, and the log can only be emptied into a file that may
have to grow. So a file next to the database occupies a few megabytes. When the disk is full, it is
removed for a write that does not grow the data, then the log is moved into the database, and the
file takes its place again. Writes that grow the data are refused until there is more room than the
file needs.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from perseid import private_files
from perseid.errors import InsufficientStorage

log = logging.getLogger(__name__)

FULL_MESSAGE: Final = (
    "The disk that holds the data is full; nothing was written. Delete items or free disk space."
)
LARGEST_RESERVE: Final = 8 * 1024 * 1024
# A database in memory keeps the room only if it is large: many are small, and memory is scarce.
FROM_SIZE_IN_MEMORY: Final = 4 * LARGEST_RESERVE
_SHARE_OF_DISK: Final = 8
_PAGE: Final = 4096  # bytes, SQLite's default
_DEFAULT_LOG_PAGES: Final = 1000  # SQLite moves the log into the file from this size on
# Free bytes, in addition to the reserve, with which writes that grow the data are tried again.
_MARGIN: Final = 64 * 1024
_SMALL_STEP: Final = 64  # items or pages in one transaction while the disk is full
_FULL_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PIECE: Final = bytes(1024 * 1024)


def is_disk_full(exc: BaseException | None, db: apsw.Connection | None = None) -> bool:
    """True for the error of a full disk, or of a limit that has the same effect."""
    if isinstance(exc, apsw.FullError):
        return True
    if not isinstance(exc, apsw.IOError):
        return False
    # SQLite reports an exceeded quota and a lack of room for its shared memory as other errors.
    is_shared_memory = getattr(exc, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
    return is_shared_memory or (db is not None and db.system_errno in _FULL_ERRNOS)


class DiskReserve:
    """The file that occupies the room, and whether the disk is full."""

    def __init__(self, database: Path, size: int, from_size: int = 0) -> None:
        """`from_size`: a smaller database keeps no room."""
        self._database = database
        self._from_size = from_size
        self._path = database.with_name(f"{database.name}-reserve")
        self._size = min(size, _disk_size(database.parent) // _SHARE_OF_DISK)
        self.is_full = False
        self._is_released = False
        self.is_tight = False  # it was full, and has not much more room than the reserve yet

    @property
    def log_pages(self) -> int:
        """From how many pages on the log is moved into the database: half the reserve, so that
        there is room for that when the disk is full."""
        if not self._size:
            return _DEFAULT_LOG_PAGES
        return min(_DEFAULT_LOG_PAGES, self._size // _PAGE // 2)

    def step(self, limit: int) -> int:
        """How many items or pages one transaction may remove."""
        return min(limit, _SMALL_STEP) if self.is_tight else limit

    @property
    def refuses_growth(self) -> bool:
        """True while the disk is full, and for a write that may use the room that is kept."""
        return self.is_full or self._is_released

    def refuse_growth(self) -> None:
        """507 for a write that grows the data if there is no room for it."""
        if self.refuses_growth:
            raise InsufficientStorage(FULL_MESSAGE)

    def is_missing(self) -> bool:
        """True if the room should be occupied, and is not or in part only."""
        return _size(self._path) < self._size and _size(self._database) >= self._from_size

    def take(self) -> None:
        """Occupies the room; the disk is full if there is too little."""
        if not self.is_missing():
            return
        is_tight, self.is_tight = self.is_tight, True
        # More than is kept, so that what follows finds some room.
        if is_tight and self._occupy(self._size * 3):
            self.is_tight = False
        elif self._occupy(self._size + _MARGIN):
            self.is_tight = is_tight
        else:
            self._set_full(True)
            any(self._occupy(self._size * eighths // 8) for eighths in range(8, 0, -1))
            return
        os.truncate(self._path, self._size)
        self._set_full(False)

    def release(self) -> None:
        """Makes the room free for what follows."""
        self._is_released = True
        with contextlib.suppress(OSError):
            self._path.unlink()

    def recover(self, checkpoint: Callable[[], object]) -> None:
        """After a write on a full disk: empties the log, and takes the room again."""
        self.release()
        # A connection may be reading from the log; then it is emptied after a later write.
        with contextlib.suppress(apsw.Error):
            checkpoint()
        self.is_tight = self.is_missing()
        if self.is_tight:
            self.take()
        else:
            self._set_full(False)
        self._is_released = False

    def _occupy(self, size: int) -> bool:
        try:
            with private_files.create_file(self._path) as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    for start in range(0, size, len(_PIECE)):
                        file.write(_PIECE[: size - start])
        except OSError:
            self.release()
            return False
        return True

    def _set_full(self, is_full: bool) -> None:
        if is_full and not self.is_full:
            log.error(
                "the disk that holds %s is full: writes that need room are refused with 507;"
                " reads, deletes and the purge go on, and the rest does once there is room",
                self._path.parent,
            )
        elif self.is_full and not is_full:
            log.warning("the disk that holds %s has room again", self._path.parent)
        self.is_full = is_full


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _disk_size(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).total
    except OSError:  # the folder does not exist: opening the database reports it
        return 0
