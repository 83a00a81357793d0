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
from tests.store.sqlite.old_layouts import VERSION_1, WITHOUT_PURGE_COUNTERS
from tests.support.rows import DATABASE, Run, container_resource
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="looks into the file")


@pytest.fixture
def store(path: Path, run: Run[None]) -> Iterator[Stores]:
    opened = open_stores(path, durability="off", now=lambda: NOW)
    yield opened
    run(opened.close())


def test_what_is_passed_over_is_not_looked_at(
    store: Stores, latest_versions: Container, all_versions: Container
) -> None:
    """Other keys, expired items and old versions are recognised in the index."""
    db = sqlite_database(store).write_db
    for index, columns in (
        (f"items_{latest_versions.number}_changes", {"lsn", "ts", "ttl", "epk"}),
        (f"changes_{all_versions.number}_order", {"lsn", "entry", "epk"}),
    ):
        found = {name for _, _, name in db.execute(f"PRAGMA index_info({index})")}
        assert columns <= found


def test_only_containers_that_want_one_have_a_log(
    store: Stores, all_versions: Container, latest_versions: Container
) -> None:
    tables = {
        name
        for (name,) in sqlite_database(store).write_db.execute("SELECT name FROM sqlite_schema")
        if str(name).startswith("changes_")
    }
    assert tables == {f"changes_{all_versions.number}", f"changes_{all_versions.number}_order"}


def test_a_stale_change_leaves_the_log_as_it_was(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    other = resource(9, keeps=True)
    stale = PutResource(resource(all_versions.number, keeps=False), replaces='"0"')
    with pytest.raises(StaleResource):
        run(store.metadata.change([PutResource(other), stale]))
    assert sqlite_database(store).logs.logged_containers == {all_versions.number}
    run(write(store, all_versions, new("a")))
    assert versions(store, run, all_versions) == [(1, "create", "a")]
    run(store.metadata.change([PutResource(other)]))
    assert sqlite_database(store).logs.logged_containers == {all_versions.number, 9}


def test_a_full_disk_leaves_the_log_as_it_was(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    run(write(store, all_versions, new("a")))
    pages = sqlite_database(store).write_db.pragma("page_count")
    sqlite_database(store).write_db.pragma("max_page_count", pages)
    with pytest.raises(InsufficientStorage):
        run(
            write(store, all_versions, new("big", body=b'{"id":"big","t":"%b"}' % (b"x" * 100_000)))
        )
    with pytest.raises(InsufficientStorage):
        run(store.metadata.change([PutResource(resource(9, keeps=True))]))
    sqlite_database(store).write_db.pragma("max_page_count", 1_000_000)
    assert sqlite_database(store).logs.logged_containers == {all_versions.number}
    assert versions(store, run, all_versions) == [(1, "create", "a")]


def test_a_dropped_container_drops_its_log(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    run(write(store, all_versions, new("a")))
    run(store.metadata.change([RemoveResource(resource(all_versions.number, keeps=True))]))
    assert sqlite_database(store).logs.logged_containers == frozenset()
    names = {
        str(name)
        for (name,) in sqlite_database(store).write_db.execute("SELECT name FROM sqlite_schema")
    }
    assert not any(name.startswith("changes_") for name in names)
    assert sqlite_database(store).write_db.execute("SELECT COUNT(*) FROM change_logs").get == 0


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


def test_a_file_without_purge_counters_is_left_alone(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute(VERSION_1)
        db.execute(WITHOUT_PURGE_COUNTERS)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="cannot open"):
        open_stores(path)
    with contextlib.closing(apsw.Connection(str(path))) as db:
        assert db.pragma("user_version") == 1
    # WAL is a mark in the header; the tables are as they were.
    assert path.read_bytes()[100:] == before[100:]
