"""The databases that Perseid keeps its rows in, as suites see them: a place for a server's data.

A suite takes the fixture `place`, or `stores` where one place serves several tests, and says which
settings its server needs; the place adds those that say where the data is.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol
from urllib.parse import quote

import psycopg
import pytest

from perseid.config import Settings
from perseid.store import protocol
from perseid.store.postgres import store as postgres_store
from perseid.store.postgres.items import PostgresItems
from perseid.store.postgres.pool import Pool
from perseid.store.sqlite import store as sqlite_store
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.sqlite.items import SqliteItems
from tests.support import postgres

CITUS_DSN: Final = "PERSEID_TEST_CITUS_DSN"
_numbers = itertools.count(1)
# After 60 seconds a page ends, not after 5: on a busy machine those may pass before it is complete.
_DEFAULTS: Final[dict[str, Any]] = {"relaxed": True, "query_page_seconds": 60}


class Place(Protocol):
    """Somewhere for servers to keep data; what was kept is gone when the place is.

    Servers are relaxed unless `relaxed=False` is asked for: most suites compare what queries
    return, whatever the default of users is.
    """

    def fresh(self, **settings: Any) -> Settings:
        """For a server that starts empty and is not started again."""
        ...

    def lasting(self, **settings: Any) -> Settings:
        """For a server that starts empty; the next one with these settings finds what it left."""
        ...


@dataclass(frozen=True)
class Files:
    """SQLite: in memory, or in a folder."""

    folder: Path

    def fresh(self, **settings: Any) -> Settings:
        return Settings(memory=True, **_DEFAULTS | settings)

    def lasting(self, **settings: Any) -> Settings:
        data = self.folder / f"data{next(_numbers)}"
        return Settings(data=data, **_DEFAULTS | {"durability": "off"} | settings)


@dataclass(frozen=True)
class Rooms:
    """PostgreSQL: something of its own for each server, and a folder for what is no data."""

    furnish: Callable[[], str]  # gives the address of an empty one
    folder: Path

    def fresh(self, **settings: Any) -> Settings:
        data = self.folder / f"files{next(_numbers)}"
        return Settings(store=self.furnish(), data=data, **_DEFAULTS | settings)

    def lasting(self, **settings: Any) -> Settings:
        return self.fresh(**settings)


async def open_store(settings: Settings, now: Callable[[], float] = time.time) -> protocol.Stores:
    """A store without a server."""
    if settings.store is not None:
        stores, _ = await postgres_store.open_stores(settings.store, durability="off", now=now)
        return stores
    settings.data.mkdir(exist_ok=True)
    return sqlite_store.open_stores(settings.data / DATABASE_FILE, durability="off", now=now)


def sqlite_database(stores: protocol.Stores) -> SqliteDatabase:
    """The open file behind the stores."""
    assert isinstance(stores.items, SqliteItems)
    return stores.items._database


def pool_of(stores: protocol.Stores) -> Pool:
    """The connections behind the stores."""
    assert isinstance(stores.items, PostgresItems)
    return stores.items._pool


def flags(settings: Settings) -> tuple[str, ...]:
    """How a process of its own is told where the data is."""
    if settings.store is not None:
        return ("--store", settings.store)
    return ("--data", str(settings.data))


@contextmanager
def files() -> Iterator[Place]:
    with _temporary() as folder:
        yield Files(Path(folder))


def _temporary() -> AbstractContextManager[str]:
    return TemporaryDirectory(prefix="perseid-test-")


@functools.cache
def _furnished() -> str:
    """A database that has the tables and nothing in them: copying it is faster than making them."""

    async def furnish() -> None:
        stores, _ = await postgres_store.open_stores(dsn, durability="off")
        await stores.close()

    dsn = postgres.fresh_dsn()
    asyncio.run(furnish())
    return dsn


@contextmanager
def databases() -> Iterator[Place]:
    """On the PostgreSQL of this process."""
    model = _furnished()  # here: who asks for a place may do so from a running event loop
    with ExitStack() as stack:

        def furnish() -> str:
            server = postgres.server()
            dsn = server.fresh_dsn(model)
            stack.callback(server.drop, dsn)
            return dsn

        yield Rooms(furnish, Path(stack.enter_context(_temporary())))


@contextmanager
def schemas() -> Iterator[Place]:
    """In the one database of a Citus cluster, which has its extension and its workers already."""
    dsn = os.environ[CITUS_DSN]
    with ExitStack() as stack:

        def furnish() -> str:
            name = f"t{os.getpid()}_{next(_numbers)}"
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {name}")
            stack.callback(remove, name)
            path = quote(f"-c search_path={name},public")
            return f"{dsn}{'&' if '?' in dsn else '?'}options={path}"

        def remove(name: str) -> None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA {name} CASCADE")

        yield Rooms(furnish, Path(stack.enter_context(_temporary())))


@dataclass(frozen=True)
class Stores:
    """One of the databases."""

    name: str
    place: Callable[[], AbstractContextManager[Place]]


SQLITE: Final = Stores("sqlite", files)
POSTGRES: Final = Stores("postgres", databases)
CITUS: Final = Stores("citus", schemas)
# For values that PostgreSQL's JSON has no room for; that they are refused has tests of its own.
HOLDS_NUL: Final = pytest.mark.only_on("sqlite", reason="PostgreSQL cannot hold \\u0000")
STORES: Final = {each.name: each for each in (SQLITE, POSTGRES)}  # those that need nothing
