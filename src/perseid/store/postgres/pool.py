"""Connections to PostgreSQL: their address, their settings, and the errors when they fail."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg import AsyncRawCursor
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from perseid.store.postgres import arrays, schema
from perseid.store.postgres.connection import KeptStatement, WaitingConnection
from perseid.store.postgres.failures import as_client_error, may_have_committed
from perseid.store.types import StoreError

DatabaseConnection: TypeAlias = WaitingConnection
Pool: TypeAlias = AsyncConnectionPool[DatabaseConnection]
Cursor: TypeAlias = AsyncRawCursor[Any]
S = TypeVar("S")

_made: Final[WeakKeyDictionary[Pool, WeakSet[DatabaseConnection]]] = WeakKeyDictionary()
_CONNECTIONS: Final = 16
_CONNECT_TIMEOUT: Final = 5.0  # seconds for opening a connection
_STATEMENT_SECONDS: Final = 30
# A machine or network that stops answering looks like a long statement. Keepalive packets detect
# it; the DSN may set other values.
_KEEPALIVE_OPTIONS: Final[dict[str, Any]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,  # milliseconds
}
# The same for the database, which otherwise keeps the sessions of a lost machine for two hours.
_SESSION_KEEPALIVES: Final = (
    "SET tcp_keepalives_idle TO 10; SET tcp_keepalives_interval TO 5;"
    " SET tcp_keepalives_count TO 2; SET tcp_user_timeout TO 10000;"
)
_IDLE_IN_TRANSACTION: Final = "10s"  # `stale_sessions` says why this does not suffice
PROCESS_NAME: Final = " [0-9a-f]{16}$"  # at the end of the application name of each session
_LONGEST_NAME: Final = 46  # with the name of the process the database keeps 63 bytes
_SYNCHRONOUS: Final = {"full": "on", "normal": "off", "off": "off"}


def dsn_without_secrets(dsn: str) -> str:
    """The address in a DSN, without its password or other secrets."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "postgresql"
    host = str(parts.get("host") or "localhost")
    port = parts.get("port")
    user = parts.get("user")
    address = f"{user}@{host}" if user else host
    if port:
        address += f":{port}"
    return f"postgresql://{address}/{parts.get('dbname') or user or ''}"


async def connect(dsn: str, durability: str, process_name: str) -> Pool:
    """A pool of connections to a database, whose tables it creates; StoreError if that fails."""
    check(dsn)
    kwargs = _connection_options(dsn, process_name)
    # The DSN may name a schema of its own.
    path = "" if "search_path" in dsn else f"SET search_path TO {schema.SCHEMA};"

    made: WeakSet[DatabaseConnection] = WeakSet()

    async def configure(db: DatabaseConnection) -> None:
        made.add(db)
        db.adapters.register_dumper(int, Int8BinaryDumper)  # one type, one prepared statement
        arrays.register(db)
        await db.execute(
            f"{path} SET client_encoding TO 'UTF8';"  # kept statements and arrays are in UTF-8
            f" SET statement_timeout TO '{_STATEMENT_SECONDS}s';"
            f" SET idle_in_transaction_session_timeout TO '{_IDLE_IN_TRANSACTION}';"
            f" {_SESSION_KEEPALIVES}"
            f" SET synchronous_commit TO {_SYNCHRONOUS[durability]};"
            " SET TimeZone TO 'UTC'; SET jit TO off"
        )

    await _prepare(dsn, kwargs, configure)
    pool: Pool = AsyncConnectionPool(
        dsn,
        connection_class=WaitingConnection,
        kwargs={"autocommit": True, **kwargs},
        configure=configure,
        min_size=2,
        max_size=_CONNECTIONS,
        timeout=_CONNECT_TIMEOUT,
        reconnect_timeout=_CONNECT_TIMEOUT,  # then the next request tries again
        name="perseid",
        open=False,
    )
    _made[pool] = made
    try:
        await pool.open(wait=True, timeout=2 * _CONNECT_TIMEOUT)
    except PoolTimeout:
        await pool.close()
        raise StoreError(
            f"{dsn_without_secrets(dsn)} gives only one connection; perseid needs some"
        ) from None
    return pool


async def _prepare(
    dsn: str,
    kwargs: dict[str, Any],
    configure: Callable[[DatabaseConnection], Awaitable[None]],
) -> None:
    """Creates or migrates the tables over a first connection."""
    try:
        first = await _connect_with(dsn, kwargs)
    except psycopg.Error as exc:
        raise StoreError(
            f"cannot connect to {dsn_without_secrets(dsn)}: {_reason(exc, dsn)}"
        ) from None
    try:
        await configure(first)
        await schema.prepare(first)
    except psycopg.Error as exc:
        raise StoreError(f"cannot use {dsn_without_secrets(dsn)}: {_reason(exc, dsn)}") from None
    finally:
        await first.close()


async def connect_once(dsn: str) -> DatabaseConnection:
    """A connection outside of the pool, without its settings."""
    return await _connect_with(dsn, _keepalive_options(dsn))


async def _connect_with(dsn: str, kwargs: dict[str, Any]) -> DatabaseConnection:
    return await WaitingConnection.connect(
        dsn, autocommit=True, connect_timeout=int(_CONNECT_TIMEOUT), **kwargs
    )


def _connection_options(dsn: str, process_name: str) -> dict[str, Any]:
    """With the name of the server process, by which others tell its sessions."""
    given = str(conninfo_to_dict(dsn).get("application_name") or "perseid")
    name = given.encode()[:_LONGEST_NAME].decode(errors="ignore")
    return {**_keepalive_options(dsn), "application_name": f"{name} {process_name}"}


def _keepalive_options(dsn: str) -> dict[str, Any]:
    given = conninfo_to_dict(dsn)
    return {name: each for name, each in _KEEPALIVE_OPTIONS.items() if name not in given}


def abort_connections(pool: Pool) -> None:
    """Shuts down the sockets of all connections, so that statements in progress fail. Cancelling
    them would not help: a cancelled statement waits for the database to stop it."""
    for db in [*_made.get(pool, ())]:
        if not db.closed:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(db.fileno())) as link:
                link.shutdown(socket.SHUT_RDWR)


def check(dsn: str) -> None:
    """StoreError unless the text is a valid DSN."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.Error:
        raise StoreError(
            "--store is not a PostgreSQL address; it looks like"
            " postgresql://user:password@host:5432/database"
        ) from None


def _reason(exc: psycopg.Error, dsn: str) -> str:
    """The driver's message in one line, without the password."""
    text = " ".join(str(exc).split()) or type(exc).__name__
    password = conninfo_to_dict(dsn).get("password")
    return text.replace(str(password), "***") if password else text


@asynccontextmanager
async def pooled_connection(pool: Pool) -> AsyncIterator[DatabaseConnection]:
    """A connection from the pool, which ends a transaction that is left open.

    Raises the driver's errors as errors for the client.
    """
    try:
        async with pool.connection() as db:
            yield db
    except (psycopg.Error, OSError) as exc:
        raise as_client_error(exc) from exc


async def fetch_all(pool: Pool, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of one statement, whose values are written $1, $2, …

    It is run once more if the connection was lost, so it must be one that may run twice.
    """
    try:
        return await fetch_rows(pool, sql, values)
    except psycopg.Error as exc:
        raise as_client_error(exc) from exc


async def fetch_rows(pool: Pool, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The same; raises the driver's errors as they are."""
    return await _repeat_if_lost(pool, _fetch_all, sql, values)


async def fetch_kept(
    pool: Pool, statement: KeptStatement, values: Sequence[bytes]
) -> list[tuple[Any, ...]]:
    """The same for a kept statement, with values in binary form."""
    return await _repeat_if_lost(pool, _fetch_kept, statement, values)


async def _repeat_if_lost(
    pool: Pool,
    fetch: Callable[[Pool, S, Sequence[Any]], Awaitable[list[tuple[Any, ...]]]],
    statement: S,
    values: Sequence[Any],
) -> list[tuple[Any, ...]]:
    try:
        return await fetch(pool, statement, values)
    except psycopg.OperationalError as exc:
        if not may_have_committed(exc):
            raise
    await pool.check()  # other connections may have been cut with this one
    return await fetch(pool, statement, values)


async def _fetch_kept(
    pool: Pool, statement: KeptStatement, values: Sequence[bytes]
) -> list[tuple[Any, ...]]:
    db = await pool.getconn()
    try:
        await db.plan_again_sometimes()
        return await db.fetch_kept(statement, values)
    finally:
        await pool.putconn(db)


async def _fetch_all(pool: Pool, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    db = await pool.getconn()
    try:
        await db.plan_again_sometimes()
        cursor, db.kept_cursor = db.kept_cursor or AsyncRawCursor(db), None
        await cursor.execute(sql, values, binary=True)
        rows = await cursor.fetchall() if has_rows(cursor) else []
        if len(rows) <= 1:  # a cursor keeps its result in memory until it is used again
            db.kept_cursor = cursor
        return rows
    finally:
        await pool.putconn(db)


def has_rows(cursor: Cursor) -> bool:
    """True for a statement that returns rows. `description` would be made of all columns first."""
    result = cursor.pgresult
    return result is not None and result.nfields > 0


async def fetch_one(pool: Pool, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    rows = await fetch_all(pool, sql, values)
    return rows[0] if rows else None
