"""Ends database sessions of a server process that stopped in the middle of a transaction.

A process that is frozen, or whose machine lost power, keeps its locks, and the database waits for
it. `idle_in_transaction_session_timeout` is not enough: it does not run while a pipeline is sent,
and the next session of the process that waits for the same lock gets it and starts the time again.
So each server process watches the sessions that others wait for. If one waits for its client too
long, all transactions of that process end. They fail when the process goes on, and it retries them
or answers 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any, Final

import psycopg

from perseid.store.postgres.pool import PROCESS_NAME, DatabaseConnection, connect_once

log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 2.0
STALE_SECONDS: Final = 7.0  # together with two intervals well below the 15 seconds that we promise
_CHECK_TIMEOUT: Final = 5.0

# The session and its state, which changes with each statement. A server process that works sends
# the next one within milliseconds.
_WAITED_FOR: Final = f"""
    SELECT application_name, pid, state_change::text FROM pg_stat_activity
    WHERE wait_event IN ('ClientRead', 'ClientWrite') AND xact_start IS NOT NULL
    AND application_name ~ '{PROCESS_NAME}' AND pid IN (
        SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock')
"""
_END_TRANSACTIONS: Final = """
    SELECT count(*) FROM (
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = %s AND xact_start IS NOT NULL
    ) AS ended
"""


class StaleSessions:
    """Watches over a connection of its own: those of the pool may all wait for the lock."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._db: DatabaseConnection | None = None
        # By application name, process id and state: since when, by the machine's monotonic clock.
        self._seen: dict[tuple[Any, ...], float] = {}

    async def watch(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await asyncio.sleep(CHECK_INTERVAL)
                try:
                    async with asyncio.timeout(_CHECK_TIMEOUT):
                        await self._check()
                except (psycopg.Error, OSError, TimeoutError) as exc:
                    log.info("sessions could not be checked: %s", type(exc).__name__)
                    await self._close()
        finally:
            await self._close()

    async def _check(self) -> None:
        if self._db is None:
            self._db = await connect_once(self._dsn)
        found = await (await self._db.execute(_WAITED_FOR)).fetchall()
        now = time.monotonic()
        self._seen = {session: self._seen.get(session, now) for session in found}
        stale = {name for (name, *_), since in self._seen.items() if now - since >= STALE_SECONDS}
        for name in stale:
            cursor = await self._db.execute(_END_TRANSACTIONS, (name,))
            (ended,) = await cursor.fetchone() or (0,)
            log.warning(
                "a server process does not continue its transactions; ended %s sessions of '%s'",
                ended,
                name,
            )

    async def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                await db.close()
