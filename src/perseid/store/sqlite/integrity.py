"""Compares stored items with their checksums, and adds the checksums that are missing."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from perseid.model import Container
from perseid.store.sqlite.checksums import TOLERANT_COLUMNS, computed_checksum, decoded, is_damaged
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.types import VerifiedItems


class SqliteIntegrity:
    """See `store.protocol.IntegrityStore`."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    @property
    def damaged_items(self) -> int:
        return len(self._database.damaged)

    @property
    def is_disk_full(self) -> bool:
        return self._database.reserve.is_full

    async def verify(self, container: Container, after: int, limit: int) -> VerifiedItems:
        number = container.number
        page = await self._database.readers.in_thread(lambda db: _read(db, number, after, limit))
        self._database.damaged.replace(number, after, page.last, page.damaged)
        if page.missing and not self._database.reserve.is_tight:
            await self._add_checksums(number, page.missing)
        next_after = page.last if page.checked == limit else None
        return VerifiedItems(page.checked, tuple(page.damaged.values()), next_after)

    async def _add_checksums(self, number: int, missing: list[tuple[int, int, int]]) -> None:
        # An item that was written meanwhile has another LSN, and a checksum.
        sql = (
            f"UPDATE items_{number} SET checksum = ?"
            " WHERE number = ? AND lsn = ? AND checksum IS NULL"
        )
        db = self._database.write_db
        await self._database.writer.submit(lambda: db.executemany(sql, missing), is_heavy=True)


class _Page(NamedTuple):
    checked: int
    last: int  # the last item number
    damaged: dict[int, str]  # ids by item number
    missing: list[tuple[int, int, int]]  # checksum, item number and LSN


def _read(db: apsw.Connection, number: int, after: int, limit: int) -> _Page:
    damaged: dict[int, str] = {}
    missing: list[tuple[int, int, int]] = []
    checked, last = 0, after
    for found in db.execute(
        f"SELECT {TOLERANT_COLUMNS} FROM items_{number} WHERE number > ? ORDER BY number LIMIT ?",
        (after, limit),
    ):
        columns = decoded(found)
        checked += 1
        last = columns[0]
        computed = computed_checksum(columns) if columns[11] is None else None
        if computed is not None:
            missing.append((computed, last, columns[6]))
        elif columns[11] is None or is_damaged(columns):
            damaged[last] = str(columns[2])
    return _Page(checked, last, damaged, missing)
