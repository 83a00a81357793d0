"""A disk of a limited size, under every SQLite file in one folder and its reserve."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import apsw


class SmallDisk(apsw.VFS):
    """Writes that would need more than `size` bytes in the folder fail as on a full disk."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        super().__init__("small", "unix", makedefault=True)

    @property
    def used(self) -> int:
        return sum(each.stat().st_size for each in self.folder.iterdir())

    def has_room(self, growth: int) -> bool:
        return growth <= 0 or self.used + growth <= self.size

    def fill(self) -> None:
        """As if others had taken the rest."""
        self.size = self.used

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        """In place of os.posix_fallocate."""
        if not self.has_room(offset + length - os.fstat(descriptor).st_size):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.truncate(descriptor, offset + length)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: SmallDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("unix", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        if not self._disk.has_room(offset + len(data) - self.xFileSize()):
            raise apsw.FullError("no room")
        super().xWrite(data, offset)


def limit_log(db: apsw.Connection, pages: int) -> None:
    """In place of SQLite's own: there an error of a file in Python would be raised by the commit,
    although it has succeeded."""

    def checkpoint(db: apsw.Connection, _name: str, size: int) -> int:
        if size >= pages:
            with contextlib.suppress(apsw.Error):
                db.wal_checkpoint()
        return apsw.SQLITE_OK

    db.set_wal_hook(checkpoint)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Under every database that is opened inside the block."""
    folder.mkdir(exist_ok=True)
    disk = SmallDisk(folder, size)
    try:
        with (
            mock.patch("os.posix_fallocate", disk.allocate),
            mock.patch("perseid.store.sqlite.database.limit_log", limit_log),
            mock.patch("shutil.disk_usage", return_value=mock.Mock(total=size)),
        ):
            yield disk
    finally:
        disk.unregister()
