"""The embedded store's side of the change feed: tables and indexes of the file, older files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.errors import InsufficientStorage
from perseid.model import Container, item_number
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
from perseid.store.sqlite import schema
from perseid.store.sqlite.store import open_stores
from perseid.store.types import PutResource, RemoveResource, Search, StaleResource, StoreError
from perseid.ttl import NOTHING_EXPIRED
from tests.store.change_logs import (
    NOW,
    latest,
    new,
    resource,
    search,
    versions,
    write,
)
from tests.store.rows import DATABASE, Run, container_resource
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="looks into the file")


@pytest.fixture
def store(path: Path, run: Run[None]) -> Iterator[Stores]:
    opened = open_stores(path, durability="off", now=lambda: NOW)
    yield opened
    run(opened.close())


def test_what_is_passed_over_is_not_looked_at(
    store: Stores, plain: Container, kept: Container
) -> None:
    """Other keys, the dead and the old are recognised in the index."""
    db = sqlite_database(store).write_db
    for index, columns in (
        (f"items_{plain.number}_changes", {"lsn", "ts", "ttl", "epk"}),
        (f"changes_{kept.number}_order", {"lsn", "entry", "epk"}),
    ):
        found = {name for _, _, name in db.execute(f"PRAGMA index_info({index})")}
        assert columns <= found


def test_only_containers_that_want_one_have_a_log(
    store: Stores, kept: Container, plain: Container
) -> None:
    tables = {
        name
        for (name,) in sqlite_database(store).write_db.execute("SELECT name FROM sqlite_schema")
        if str(name).startswith("changes_")
    }
    assert tables == {f"changes_{kept.number}", f"changes_{kept.number}_order"}


def test_a_stale_change_leaves_the_log_as_it_was(
    store: Stores, kept: Container, run: Run[Any]
) -> None:
    other = resource(9, keeps=True)
    stale = PutResource(resource(kept.number, keeps=False), replaces='"0"')
    with pytest.raises(StaleResource):
        run(store.metadata.change([PutResource(other), stale]))
    assert sqlite_database(store).logs.logged_containers == {kept.number}
    run(write(store, kept, new("a")))
    assert versions(store, run, kept) == [(1, "create", "a")]
    run(store.metadata.change([PutResource(other)]))
    assert sqlite_database(store).logs.logged_containers == {kept.number, 9}


def test_a_full_disk_leaves_the_log_as_it_was(
    store: Stores, kept: Container, run: Run[Any]
) -> None:
    run(write(store, kept, new("a")))
    pages = sqlite_database(store).write_db.pragma("page_count")
    sqlite_database(store).write_db.pragma("max_page_count", pages)
    with pytest.raises(InsufficientStorage):
        run(write(store, kept, new("big", body=b'{"id":"big","t":"%b"}' % (b"x" * 100_000))))
    with pytest.raises(InsufficientStorage):
        run(store.metadata.change([PutResource(resource(9, keeps=True))]))
    sqlite_database(store).write_db.pragma("max_page_count", 1_000_000)
    assert sqlite_database(store).logs.logged_containers == {kept.number}
    assert versions(store, run, kept) == [(1, "create", "a")]


def test_a_dropped_container_drops_its_log(store: Stores, kept: Container, run: Run[Any]) -> None:
    run(write(store, kept, new("a")))
    run(store.metadata.change([RemoveResource(resource(kept.number, keeps=True))]))
    assert sqlite_database(store).logs.logged_containers == frozenset()
    names = {
        str(name)
        for (name,) in sqlite_database(store).write_db.execute("SELECT name FROM sqlite_schema")
    }
    assert not any(name.startswith("changes_") for name in names)
    assert sqlite_database(store).write_db.execute("SELECT COUNT(*) FROM change_logs").get == 0


# The layout of version 1, as it was released.
VERSION_1 = """
    PRAGMA application_id = 0x50455253;
    PRAGMA user_version = 1;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE resources (rid TEXT PRIMARY KEY, kind TEXT NOT NULL, parent TEXT NOT NULL,
        id TEXT NOT NULL, etag TEXT NOT NULL, ts INTEGER NOT NULL, state TEXT NOT NULL,
        UNIQUE (kind, parent, id));
    CREATE TABLE positions (container INTEGER NOT NULL, range INTEGER NOT NULL,
        lsn INTEGER NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL,
        purged_items INTEGER NOT NULL, purged_bytes INTEGER NOT NULL, spared INTEGER NOT NULL,
        PRIMARY KEY (container, range)) WITHOUT ROWID;
    CREATE TABLE audit (line INTEGER PRIMARY KEY AUTOINCREMENT, ts INTEGER NOT NULL,
        container TEXT NOT NULL, entry TEXT NOT NULL);
    CREATE TABLE items_7 (number INTEGER PRIMARY KEY, pk BLOB NOT NULL, id TEXT NOT NULL,
        epk BLOB NOT NULL, ts INTEGER NOT NULL, ttl INTEGER, lsn INTEGER NOT NULL,
        etag TEXT NOT NULL, size INTEGER NOT NULL, terms INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE UNIQUE INDEX items_7_key ON items_7 (pk, id);
    CREATE INDEX items_7_partition ON items_7 (pk);
    CREATE INDEX items_7_inheriting ON items_7 (number >> 48, ts, size, terms) WHERE ttl IS NULL;
    CREATE INDEX items_7_expiring ON items_7 (number >> 48, ts + ttl, size, terms) WHERE ttl > 0;
    CREATE INDEX items_7_immortal ON items_7 (number >> 48) WHERE ttl = -1;
    CREATE TABLE unique_7 (entry BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX unique_7_number ON unique_7 (number);
    INSERT INTO positions VALUES (7, 0, 3, 2, 40, 0, 0, 0), (7, 1, 0, 0, 0, 0, 0, 0);
"""


def test_a_file_of_version_1_gets_a_change_feed(path: Path, run: Run[Any]) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute(VERSION_1)
        for number, id_, lsn in ((item_number(0, 1, 0), "a", 3), (item_number(0, 2, 0), "b", 2)):
            db.execute(
                "INSERT INTO items_7 VALUES (?, ?, ?, ?, 100, NULL, ?, '\"e\"', 20, 1, jsonb(?))",
                (number, b"\x08a\xff", id_, b"\x10", lsn, f'{{"id":"{id_}"}}'),
            )
    store = open_stores(path, durability="off")
    assert sqlite_database(store).write_db.pragma("user_version") == schema.VERSION
    assert sqlite_database(store).write_db.execute("PRAGMA integrity_check").get == "ok"
    container = build_container(container_resource(7), DATABASE)
    assert latest(store, run, container) == (["b", "a"], 3)
    run(write(store, container, new("c")))
    assert latest(store, run, container, after=3) == (["c"], 4)
    assert not run(store.changes.versions(container, search(after=4), 0)).is_complete
    assert run(store.queries.search(container, Search(cutoff=NOTHING_EXPIRED))).rows[0].id == "a"
    run(store.close())


def test_a_file_from_before_there_were_counters_of_the_removed_is_left_alone(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute(VERSION_1)
        db.execute("ALTER TABLE positions DROP COLUMN spared")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="cannot open"):
        open_stores(path)
    with contextlib.closing(apsw.Connection(str(path))) as db:
        assert db.pragma("user_version") == 1
    # WAL is a mark in the header; the tables are as they were.
    assert path.read_bytes()[100:] == before[100:]
