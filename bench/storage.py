"""Where a benchmarked server keeps its data: in a directory, or in a PostgreSQL database."""

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
from perseid.store.sqlite.files import DATABASE_FILE
from tests.support.postgres import Postgres


class ServerData(NamedTuple):
    """Data of one server."""

    server: str  # name of the server in tables
    directory: Path  # for the output of the server, and its files if it has any
    settings: Settings  # to write the data without a server
    flags: tuple[str, ...]  # to serve the data with every commit forced to disk


class DeleteTiming(NamedTuple):
    """A plain DELETE of the expired items."""

    removed: int
    seconds: float
    vacuum_seconds: float  # to free the disk space


class Storage(Protocol):
    def make(self, directory: Path) -> ServerData:
        """Empty data for a new server."""
        ...

    def copy_of(self, original: ServerData, directory: Path) -> AbstractContextManager[ServerData]:
        """A copy that is removed at the end of the block."""
        ...

    def flush(self, server_data: ServerData) -> None:
        """Returns when all data is on disk."""
        ...

    def delete(
        self, server_data: ServerData, container: int, default_ttl: int, now: int
    ) -> DeleteTiming:
        """The DELETE that a database administrator would write, with no server running."""
        ...


class SqliteStorage:
    """SQLite: one directory for each server."""

    def __init__(self, server: str = "Perseid") -> None:
        self._server = server

    def make(self, directory: Path) -> ServerData:
        data = directory / "data"
        flags = ("--data", str(data), "--durability", "full")
        return ServerData(self._server, directory, Settings(data=data, durability="off"), flags)

    @contextmanager
    def copy_of(self, original: ServerData, directory: Path) -> Iterator[ServerData]:
        shutil.copytree(original.directory, directory)
        server_data = self.make(directory)
        self.flush(server_data)
        try:
            yield server_data
        finally:
            shutil.rmtree(directory)

    def flush(self, server_data: ServerData) -> None:
        with (server_data.settings.data / DATABASE_FILE).open("rb") as file:
            os.fsync(file.fileno())

    def delete(
        self, server_data: ServerData, container: int, default_ttl: int, now: int
    ) -> DeleteTiming:
        """With the same SQLite settings as the server."""
        db = apsw.Connection(str(server_data.settings.data / DATABASE_FILE))
        try:
            db.pragma("synchronous", "FULL")
            db.pragma("cache_size", -16_384)
            if db.pragma("journal_mode") != "wal":
                raise BenchError("the database file is not in WAL mode")
            started = time.perf_counter()
            expired_condition = "ts + COALESCE(ttl, ?) <= ?"
            db.execute(
                f"DELETE FROM items_{container} WHERE {expired_condition}", (default_ttl, now)
            )
            removed_at = time.perf_counter()
            removed = db.changes()
            for _ in db.execute("PRAGMA incremental_vacuum"):
                pass
            return DeleteTiming(removed, removed_at - started, time.perf_counter() - removed_at)
        finally:
            db.close()


class PostgresStorage:
    """PostgreSQL: one database for each server, on a private PostgreSQL server."""

    SERVER: Final = "Perseid on PostgreSQL"

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def make(self, directory: Path) -> ServerData:
        return self._server_data(directory, self._postgres.fresh_dsn())

    @contextmanager
    def copy_of(self, original: ServerData, directory: Path) -> Iterator[ServerData]:
        server_data = self._server_data(directory, self._postgres.fresh_dsn(dsn_of(original)))
        self.flush(server_data)
        try:
            yield server_data
        finally:
            self._postgres.drop(dsn_of(server_data))

    def flush(self, server_data: ServerData) -> None:
        with psycopg.connect(dsn_of(server_data), autocommit=True) as db:
            # Otherwise autovacuum would do this in the middle of a run.
            db.execute("VACUUM (ANALYZE)")
            db.execute("CHECKPOINT")

    def delete(
        self, server_data: ServerData, container: int, default_ttl: int, now: int
    ) -> DeleteTiming:
        with psycopg.connect(dsn_of(server_data), autocommit=True) as db:
            started = time.perf_counter()
            removed = db.execute(
                "DELETE FROM perseid.items WHERE container = %s AND ts + COALESCE(ttl, %s) <= %s",
                (container, default_ttl, now),
            ).rowcount
            removed_at = time.perf_counter()
            db.execute("VACUUM perseid.items")
            return DeleteTiming(removed, removed_at - started, time.perf_counter() - removed_at)

    def _server_data(self, directory: Path, dsn: str) -> ServerData:
        return ServerData(self.SERVER, directory, Settings(store=dsn), ("--store", dsn))


def dsn_of(server_data: ServerData) -> str:
    if server_data.settings.store is None:
        raise BenchError("not a PostgreSQL database")
    return server_data.settings.store
