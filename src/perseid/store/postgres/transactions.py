"""Transactions on PostgreSQL: few round trips, retried only if surely nothing was committed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncRawCursor
from psycopg.pq import TransactionStatus

from perseid.store.postgres.failures import (
    as_client_error,
    is_retryable,
    may_have_committed,
    unknown_outcome,
)
from perseid.store.postgres.pool import Cursor, DatabaseConnection, Pool, has_rows

log = logging.getLogger(__name__)

T = TypeVar("T")
Statement: TypeAlias = tuple[str, Sequence[Any]]
ResultRows: TypeAlias = list[tuple[Any, ...]]

_ATTEMPTS: Final = 5


class _OutcomeUnknown(Exception):
    """COMMIT was sent, but its result did not arrive."""


async def transact(pool: Pool, work: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
    """Runs work that begins a transaction and calls `commit`; otherwise it is rolled back.

    It is retried after conflicts and lost connections, as long as COMMIT was not sent. Raises the
    driver's errors as they are; 503 if it is unknown whether the transaction was committed.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _in_transaction(pool, work)
        except _OutcomeUnknown as exc:
            raise unknown_outcome() from exc
        except psycopg.Error as exc:
            if attempt == _ATTEMPTS or not is_retryable(exc):
                raise
            log.info("retrying a transaction: %s", exc.sqlstate or "connection lost")
            await pool.check()  # other connections may have been cut with this one
    raise AssertionError("unreachable")


async def transact_for_client(pool: Pool, work: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
    """The same; raises the driver's errors as errors for the client."""
    try:
        return await transact(pool, work)
    except psycopg.Error as exc:
        raise as_client_error(exc) from exc


async def _in_transaction(pool: Pool, work: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
    db = await pool.getconn()
    try:
        await db.plan_again_sometimes()
        return await work(db)
    finally:
        if not db.closed and db.info.transaction_status != TransactionStatus.IDLE:
            try:
                await db.rollback()
            except psycopg.Error:
                await db.close()
        await pool.putconn(db)


async def execute(db: DatabaseConnection, sql: str, values: Sequence[Any] = ()) -> ResultRows:
    """The rows of one statement, whose values are written $1, $2, …"""
    cursor: Cursor = AsyncRawCursor(db)
    await cursor.execute(sql, values, binary=True)
    return await cursor.fetchall() if has_rows(cursor) else []


async def pipelined(db: DatabaseConnection, *sent: Statement) -> list[ResultRows]:
    """Runs statements in one round trip; the rows of each that returns rows."""
    cursors: list[Cursor] = []
    async with db.pipeline():
        for sql, values in sent:
            cursor: Cursor = AsyncRawCursor(db)
            await cursor.execute(sql, values, binary=True)
            cursors.append(cursor)
    return [await cursor.fetchall() for cursor in cursors if has_rows(cursor)]


async def commit(
    db: DatabaseConnection, *sent: Statement, is_writing: bool = True
) -> list[ResultRows]:
    """Runs the last statements and COMMIT in one round trip."""
    try:
        return await pipelined(db, *sent, ("COMMIT", ()))
    except psycopg.OperationalError as exc:
        if is_writing and may_have_committed(exc):
            raise _OutcomeUnknown from exc
        raise
