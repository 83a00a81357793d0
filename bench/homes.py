"""Where the data of a benchmarked server lies: in a directory, or in a database of PostgreSQL."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import apsw
import psycopg

from bench.errors import BenchError
from perseid.config import Settings
from perseid.store.directory import DATABASE_FILE
from tests.support.postgres import Postgres


class Home(NamedTuple):
    """Data of one server."""

    server: str  # what a server on it is called
    directory: Path  # for what the server says, and for its files if it has some
    settings: Settings  # to fill it without a server
    flags: tuple[str, ...]  # to serve it, every commit forced to disk


class Delete(NamedTuple):
    """How a plain DELETE of the dead went."""

    removed: int
    seconds: float
    tidying: float  # seconds for giving the space back


class Homes(Protocol):
    def make(self, directory: Path) -> Home:
        """An empty one."""
        ...

    def copied(self, origin: Home, directory: Path) -> AbstractContextManager[Home]:
        """A copy for the length of a block."""
        ...

    def flush(self, home: Home) -> None:
        """Returns when all of it is on the disk."""
        ...

    def delete(self, home: Home, container: int, default_ttl: int, now: int) -> Delete:
        """The DELETE that a database administrator would write, with no server running."""
        ...


class Files:
    """SQLite: a directory each."""

    def __init__(self, server: str = "Perseid") -> None:
        self._server = server

    def make(self, directory: Path) -> Home:
        data = directory / "data"
        flags = ("--data", str(data), "--durability", "full")
        return Home(self._server, directory, Settings(data=data, durability="off"), flags)

    @contextmanager
    def copied(self, origin: Home, directory: Path) -> Iterator[Home]:
        shutil.copytree(origin.directory, directory)
        home = self.make(directory)
        self.flush(home)
        try:
            yield home
        finally:
            shutil.rmtree(directory)

    def flush(self, home: Home) -> None:
        with (home.settings.data / DATABASE_FILE).open("rb") as file:
            os.fsync(file.fileno())

    def delete(self, home: Home, container: int, default_ttl: int, now: int) -> Delete:
        """Set up as the server sets up its own."""
        db = apsw.Connection(str(home.settings.data / DATABASE_FILE))
        try:
            db.pragma("synchronous", "FULL")
            db.pragma("cache_size", -16_384)
            if db.pragma("journal_mode") != "wal":
                raise BenchError("the database file is not in WAL mode")
            started = time.perf_counter()
            dead = "ts + COALESCE(ttl, ?) <= ?"
            db.execute(f"DELETE FROM items_{container} WHERE {dead}", (default_ttl, now))
            removed_at = time.perf_counter()
            removed = db.changes()
            for _ in db.execute("PRAGMA incremental_vacuum"):
                pass
            return Delete(removed, removed_at - started, time.perf_counter() - removed_at)
        finally:
            db.close()


class Databases:
    """PostgreSQL: a database each, on a server of their own."""

    SERVER: Final = "Perseid on PostgreSQL"

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def make(self, directory: Path) -> Home:
        return self._home(directory, self._postgres.fresh_dsn())

    @contextmanager
    def copied(self, origin: Home, directory: Path) -> Iterator[Home]:
        home = self._home(directory, self._postgres.fresh_dsn(dsn_of(origin)))
        self.flush(home)
        try:
            yield home
        finally:
            self._postgres.drop(dsn_of(home))

    def flush(self, home: Home) -> None:
        with psycopg.connect(dsn_of(home), autocommit=True) as db:
            # What autovacuum would do some time later, in the middle of a run.
            db.execute("VACUUM (ANALYZE)")
            db.execute("CHECKPOINT")

    def delete(self, home: Home, container: int, default_ttl: int, now: int) -> Delete:
        with psycopg.connect(dsn_of(home), autocommit=True) as db:
            started = time.perf_counter()
            removed = db.execute(
                "DELETE FROM perseid.items WHERE container = %s AND ts + COALESCE(ttl, %s) <= %s",
                (container, default_ttl, now),
            ).rowcount
            removed_at = time.perf_counter()
            db.execute("VACUUM perseid.items")
            return Delete(removed, removed_at - started, time.perf_counter() - removed_at)

    def _home(self, directory: Path, dsn: str) -> Home:
        return Home(self.SERVER, directory, Settings(store=dsn), ("--store", dsn))


def dsn_of(home: Home) -> str:
    if home.settings.store is None:
        raise BenchError("not a database of PostgreSQL")
    return home.settings.store
