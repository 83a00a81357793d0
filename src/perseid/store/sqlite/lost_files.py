"""Refuses a database file that was lost while the log of its last writes is still there.

SQLite would take the missing or empty file for a new database and delete the log, and with it
writes that were acknowledged. The caller decides what to do; nothing is changed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from perseid.store.types import StoreError

_SMALLEST: Final = 512  # bytes; the smallest page, so no database is smaller
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_PAGES: Final = slice(16, 20)  # of the journal's header: pages of the database before


def log_path(database: Path) -> Path:
    """The write-ahead log, which SQLite keeps next to the file that a symbolic link leads to."""
    return _companion(database, "wal")


def refuse_lost_database(database: Path) -> None:
    """StoreError if opening the file would destroy what is left of it."""
    for path in (database, *(_companion(database, end) for end in ("wal", "shm", "journal"))):
        if path.is_dir():
            raise StoreError(f"cannot open {path}: it is a folder; move it away")
    size = _size(database)
    if size is not None and size >= _SMALLEST:
        return
    state = "missing" if size is None else "empty" if size == 0 else f"cut off after {size} bytes"
    for remains in (log_path(database), _companion(database, "journal")):
        if _has_pages(remains):
            raise StoreError(
                f"{database} is {state}, but {remains} holds writes of it, which starting would"
                " destroy; restore the database file from where it was moved or from a backup, or"
                f" remove {remains} to start empty"
            )
    if size:
        raise StoreError(
            f"{database} is {state} and holds no data; restore it from a backup, or remove it to"
            " start empty"
        )


def _companion(database: Path, end: str) -> Path:
    target = database.resolve()
    return target.with_name(f"{target.name}-{end}")


def _size(path: Path) -> int | None:
    """None if the file does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"cannot open {path}: {exc.strerror}") from exc


def _has_pages(remains: Path) -> bool:
    """True for a log with content, and for a rollback journal of a database that had pages: a
    server that was killed while it created the database leaves one without."""
    if not _size(remains):
        return False
    if remains.name.endswith("-wal"):
        return True
    with remains.open("rb") as file:
        header = file.read(_JOURNAL_PAGES.stop)
    return header.startswith(_JOURNAL_MAGIC) and any(header[_JOURNAL_PAGES])
