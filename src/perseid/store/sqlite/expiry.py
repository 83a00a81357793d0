"""Expired items in SQLite: purges and counts them, and frees the disk space they leave."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import apsw

from perseid.model import Container, Row
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.sql.purge_allowance import within_allowance
from perseid.store.sqlite import expiry_sql, schema
from perseid.store.sqlite.clearing import PartitionClearing
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.writer import BUSY_TIMEOUT, client_errors
from perseid.store.types import ExpiryCount, PurgedItem, PurgeRequest, PurgeResult, SpanPosition
from perseid.ttl import Cutoff, ExpirySpan

# SQLite starts the write-ahead log again whenever no connection reads from it. Under queries that
# never pause it would grow without limit: from this size on, writes wait for a checkpoint.
_LARGE_LOG: Final = 128 * 1024 * 1024
_DROP_SECONDS: Final = 0.03  # of a sweep; other writes wait meanwhile
_CHECKPOINT_WAIT: Final = 1000  # milliseconds, for each time that the log has this size


class SqliteExpiry:
    """See `store.protocol.ExpiryStore`."""

    def __init__(self, database: SqliteDatabase, clearing: PartitionClearing) -> None:
        self._database = database
        self._clearing = clearing
        self._log_limit = _LARGE_LOG

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        def work() -> PurgeResult:
            is_logged = request.container.number in self._database.logs.logged_containers
            limit = self._database.reserve.step(request.max_items)
            limit = min(limit, MAX_LOGGED_REMOVALS) if is_logged else limit
            candidates = expiry_sql.purge_candidates(self._database.write_db, request, limit)
            result = within_allowance(candidates, request.allowance)
            if result.items:
                self._purge_items(request, result.items)
            return result

        return await self._database.writer.submit(work, is_heavy=True)

    def _purge_items(self, request: PurgeRequest, purged_items: Sequence[PurgedItem]) -> None:
        number, range_index = request.container.number, request.range_index
        state, logs = self._database.state, self._database.logs
        range_state = state.range_state((number, range_index))
        if number in logs.logged_containers:
            logs.log_purge(number, range_index, range_state.lsn + 1, purged_items)
        numbers = [purged_item.number for purged_item in purged_items]
        has_unique = bool(request.container.unique_keys)
        schema.remove_items(self._database.write_db, number, numbers, has_unique_keys=has_unique)
        state.set_range_state(
            (number, range_index), range_state.after_purge(purged_items, request.previous_cutoff)
        )
        state.add_changed(number, numbers)

    async def purge_cleared(self, limit: int) -> bool:
        return await self._clearing.purge(limit)

    async def free_disk_space(self, pages: int) -> int:
        db = self._database.write_db

        def free_pages() -> int:
            step = self._database.reserve.step(pages)
            for _ in db.execute(f"PRAGMA incremental_vacuum({step:d})"):
                pass
            left: int = db.pragma("freelist_count")
            return left

        await self._checkpoint()
        if self._database.state.hidden:
            await self._drop_hidden()
        with client_errors():
            free: int = self._database.point_db.pragma("freelist_count")
        if free:
            free = await self._database.writer.submit(free_pages, is_heavy=True)
        reserve = self._database.reserve
        if reserve.is_tight or reserve.is_missing():
            await self._database.writer.recover_from_full_disk()
        return free

    async def _drop_hidden(self) -> None:
        """Drops tables of containers for a moment; the next sweep continues."""
        database, hidden = self._database, self._database.state.hidden

        def drop_some() -> set[int]:
            dropped = set()
            deadline = time.perf_counter() + _DROP_SECONDS
            # Descending: SQLite moves fewer pages then.
            for number in sorted(hidden, reverse=True):
                schema.drop_hidden(database.write_db, number)
                dropped.add(number)
                if time.perf_counter() > deadline:
                    break
            return dropped

        hidden -= await database.writer.submit(drop_some, is_heavy=True)

    async def _checkpoint(self) -> None:
        """Moves the write-ahead log into the file if it has become large."""
        log_path = self._database.log_path
        size = log_path.stat().st_size if log_path.exists() else 0
        if size < self._log_limit:
            return

        def checkpoint() -> bool:
            db = self._database.write_db
            db.set_busy_timeout(min(BUSY_TIMEOUT, size // _LARGE_LOG * _CHECKPOINT_WAIT))
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False  # a connection has been reading all the time
            finally:
                db.set_busy_timeout(BUSY_TIMEOUT)
            return True

        is_done = await self._database.writer.submit(checkpoint, is_outside_transaction=True)
        self._log_limit = _LARGE_LOG if is_done else size + _LARGE_LOG

    async def count(self, container: Container, range_index: int, span: ExpirySpan) -> ExpiryCount:
        return await self._database.readers.in_thread(
            lambda db: expiry_sql.count(db, container.number, range_index, span)
        )

    async def histogram(
        self, container: Container, range_index: int, span: ExpirySpan, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        return await self._database.readers.in_thread(
            lambda db: expiry_sql.histogram(db, container.number, range_index, span, origin, width)
        )

    async def sample(
        self,
        container: Container,
        range_index: int,
        span: ExpirySpan,
        limit: int,
        after: SpanPosition | None = None,
    ) -> list[Row]:
        return await self._database.readers.in_thread(
            lambda db: expiry_sql.sample(db, container.number, range_index, span, limit, after)
        )

    async def count_invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
        return await self._database.readers.in_thread(
            lambda db: expiry_sql.count_invalid_ttls(db, container.number, cutoff)
        )
