"""Clearing a logical partition: at once when small, hidden and then removed when large."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.conditions import STRING, Comparison, Filter, Order
from perseid.errors import CosmosError, InsufficientStorage, OwnerNotFound
from perseid.model import Container, ItemKey, Row, item_number
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
from perseid.store.sql import index_limits
from perseid.store.sqlite import clearing, schema
from perseid.store.sqlite.store import open_stores
from perseid.store.types import (
    ChangeSearch,
    Cleared,
    Decision,
    PartitionAtCutoff,
    PurgeRequest,
    Put,
    PutResource,
    RemoveResource,
    Search,
    View,
)
from perseid.ttl import (
    BEFORE_ANY_TS,
    NOTHING_EXPIRED,
    Cutoff,
    ExpirySpan,
)
from tests.store.sqlite.old_layouts import (
    restore_layout_5_without_previous_cutoffs,
    write_old_tombstones,
)
from tests.support.rows import (
    DATABASE,
    Run,
    added_container,
    container_resource,
    ids_in,
    purge_cleared_partitions,
)
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="tombstones are its own way to hide a partition")

A, B = b"\x08a\xff", b"\x08b\xff"
MAX_IMMEDIATE_REMOVALS = 5
EXPIRED = Cutoff(150, 150)  # what was written at 100 and inherits its TTL is expired
RESOURCE = container_resource(7, unique=True)


@pytest.fixture
def store(path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Stores]:
    monkeypatch.setattr(clearing, "MAX_IMMEDIATE_REMOVALS", MAX_IMMEDIATE_REMOVALS)
    opened = open_stores(path, durability="off")
    yield opened
    run(opened.close())


@pytest.fixture
def container(store: Stores, run: Run[Any]) -> Container:
    return added_container(store, run, RESOURCE)


async def insert_unique(
    store: Stores,
    container: Container,
    item_id: str,
    *,
    pk: bytes = A,
    ts: int = 200,
    unique: bytes | None = None,
    size: int = 100,
) -> Row:
    def decide(view: View) -> Decision[Row]:
        assert view.rows[key] is None
        row = Row(
            item_number(0, view.lsn, 0), pk, item_id, b"\x10", ts, None,
            view.lsn, f'"{view.lsn}"', size, 2, b'{"id":"%b"}' % item_id.encode(),
        )  # fmt: skip
        entries = () if unique is None else (unique,)
        assert not any(view.unique_key_owners.values())
        return Decision([Put(row, None, entries)], row)

    key = ItemKey(pk, item_id)
    return await store.items.write(container, 0, [key], decide)


async def insert_numbered(store: Stores, container: Container, count: int, **rest: Any) -> None:
    for number in range(count):
        await insert_unique(store, container, f"{number}", unique=b"u%d" % number, **rest)


def rows_on_disk(store: Stores) -> tuple[int, int, int]:
    """Items, unique entries and tombstones that are stored."""
    db = sqlite_database(store).write_db
    tables = ("items_7", "unique_7", "tombstones")
    first, second, third = (db.execute(f"SELECT COUNT(*) FROM {table}").get for table in tables)
    return first, second, third


async def usage(store: Stores, container: Container) -> tuple[int, ...]:
    return tuple(await store.items.usage(container, 0, NOTHING_EXPIRED))


def test_a_small_partition_is_removed_at_once(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, MAX_IMMEDIATE_REMOVALS))
    run(insert_unique(store, container, "kept", pk=B))
    cleared = run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    assert cleared == (MAX_IMMEDIATE_REMOVALS + 2, [(100, 1, 2)] * MAX_IMMEDIATE_REMOVALS, [])
    assert rows_on_disk(store) == (1, 0, 0)
    assert run(ids_in(store, container)) == ["kept"]
    assert run(usage(store, container)) == (1, 100, 0, 0, 0, 0, 0)
    assert run(store.expiry.purge_cleared(10)) is False


def test_nothing_to_clear(store: Stores, container: Container, run: Run[Any]) -> None:
    run(insert_unique(store, container, "kept", pk=B))
    assert run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED)) == (1, [], [])
    assert run(store.items.lsns(container)) == (1, 0)


def test_a_large_partition_is_hidden_then_removed_in_steps(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, 20))
    run(insert_unique(store, container, "kept", pk=B))
    run(store.items.read(container, 0, ItemKey(A, "3")))  # into the cache
    cleared = run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    assert cleared == (22, [(100, 20, 40)], [])
    assert rows_on_disk(store) == (21, 20, 1)
    while True:
        assert run(ids_in(store, container)) == ["kept"]
        assert run(ids_in(store, container, pk_prefix=A)) == []
        assert run(store.items.read(container, 0, ItemKey(A, "3")))[0] is None
        assert run(store.items.read_number(container, item_number(0, 4, 0))) is None
        assert run(usage(store, container)) == (1, 100, 0, 0, 0, 0, 0)
        assert run(store.items.count_partitions(container, 0, NOTHING_EXPIRED)) == 1
        assert (
            run(
                store.expiry.count(container, 0, ExpirySpan("inheriting", BEFORE_ANY_TS, 1000))
            ).items
            == 1
        )
        assert run(store.expiry.purge(PurgeRequest(container, 0, Cutoff(100, 100), 10))).items == []
        assert run(store.items.lsns(container)) == (22, 0)
        before = rows_on_disk(store)
        if not run(store.expiry.purge_cleared(6)):
            break
        assert before[0] - rows_on_disk(store)[0] <= 6
    assert rows_on_disk(store) == (1, 0, 0)


def test_indexes_do_not_lead_to_what_is_hidden(
    store: Stores, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 1)
    path = ("id",)
    whole = Search(indexable=frozenset((path,)), limit=3)

    async def found(item_id: str) -> list[str]:
        condition = Filter(Comparison(path, STRING, "=", 0), (item_id,))
        search = whole._replace(where=condition)
        page = await store.queries.search(container, search)
        assert store.queries.try_search(container, search) == page
        assert store.queries.try_count(container, search) == len(page.rows)
        return [row.id for row in page.rows]

    async def first() -> list[str]:
        search = whole._replace(order=Order(path, False))
        ordered = await store.queries.search(container, search)
        page = store.queries.try_search(container, search)
        assert ordered.is_ordered
        assert page is not None
        assert page.rows == ordered.rows
        return [row.id for row in ordered.rows]

    run(insert_numbered(store, container, 20))
    run(insert_unique(store, container, "kept", pk=B))
    for _ in range(2):  # the second time from memory
        assert (run(found("3")), run(first())) == (["3"], ["0", "1", "10"])
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    assert rows_on_disk(store) == (21, 20, 1)
    for _ in range(2):
        assert (run(found("3")), run(first())) == ([], ["kept"])
    run(insert_unique(store, container, "3"))
    assert (run(found("3")), run(first())) == (["3"], ["3", "kept"])
    run(purge_cleared_partitions(store, 6))
    assert (run(found("3")), run(first())) == (["3"], ["3", "kept"])


def test_writes_to_a_hidden_partition(store: Stores, container: Container, run: Run[Any]) -> None:
    """Ids and unique entries are free; what is written then stays."""
    run(insert_numbered(store, container, 20))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(insert_unique(store, container, "3", unique=b"u4"))
    run(insert_unique(store, container, "new", unique=b"u5"))
    assert rows_on_disk(store)[0] == 21  # the old one with the id 3 made room
    assert run(usage(store, container))[:2] == (2, 200)
    run(purge_cleared_partitions(store, 7))
    assert run(ids_in(store, container)) == ["3", "new"]
    assert rows_on_disk(store) == (2, 2, 0)
    assert run(usage(store, container))[:2] == (2, 200)
    with pytest.raises(AssertionError):  # the entry is held again
        run(insert_unique(store, container, "late", unique=b"u4"))


def test_cleared_again_before_it_was_removed(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, 10))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(store.expiry.purge_cleared(3))
    run(insert_numbered(store, container, 8, size=50))
    cleared = run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    assert cleared.live == [(50, 8, 16)]
    run(insert_unique(store, container, "last"))
    run(purge_cleared_partitions(store, 4))
    assert run(ids_in(store, container)) == ["last"]
    assert rows_on_disk(store) == (1, 0, 0)
    assert run(usage(store, container))[:2] == (1, 100)


async def maybe_purge_twice(store: Stores, container: Container) -> None:
    """Ten live items, and ten of which all but the last were expired."""
    for number in range(10):
        await insert_unique(store, container, f"a{number}", ts=100, unique=b"u%d" % number)
    await store.items.clear_partition(container, 0, A, NOTHING_EXPIRED)
    for number in range(10):
        ts = 200 if number == 9 else 100
        await insert_unique(store, container, f"b{number}", ts=ts, unique=b"u%d" % number, size=30)
    cleared = await store.items.clear_partition(container, 0, A, EXPIRED)
    assert cleared == (22, [(30, 1, 2)], [(30, 9, 18)])


@pytest.mark.parametrize("is_reopened", [False, True])
def test_two_tombstones_of_one_partition(
    path: Path, store: Stores, container: Container, run: Run[Any], is_reopened: bool
) -> None:
    """Each item is judged by the clearing that removed it."""
    run(maybe_purge_twice(store, container))
    assert rows_on_disk(store) == (20, 10, 2)
    if is_reopened:
        run(store.close())
        store = open_stores(path, durability="off")
    assert run(ids_in(store, container)) == []
    assert run(usage(store, container)) == (0, 0, 0, 0, 9, 9 * 30, 0)
    for item_id in ("a0", "b0", "b9"):
        run(insert_unique(store, container, item_id, unique=item_id.encode()))
    assert rows_on_disk(store)[0] == 20
    assert run(usage(store, container)) == (3, 300, 0, 0, 9, 9 * 30, 0)
    run(purge_cleared_partitions(store, 4))
    assert run(ids_in(store, container)) == ["a0", "b0", "b9"]
    assert run(usage(store, container)) == (3, 300, 0, 0, 9, 9 * 30, 0)
    assert rows_on_disk(store) == (3, 3, 0)
    if is_reopened:
        run(store.close())


def test_dropping_a_container_with_two_tombstones(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(maybe_purge_twice(store, container))
    run(store.metadata.change([RemoveResource(RESOURCE)]))
    assert run(purge_cleared_partitions(store, 5)) == 0
    assert sqlite_database(store).state.tombstones == {}
    assert sqlite_database(store).write_db.execute("SELECT COUNT(*) FROM tombstones").get == 0


def test_a_partition_is_left_alone_while_anyone_weighs_it(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, 10))

    async def race() -> list[Cleared]:
        clearings = [
            asyncio.create_task(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
            for _ in range(2)
        ]
        while not all(clearing.done() for clearing in clearings):
            await store.expiry.purge_cleared(1)
            await asyncio.sleep(0)
        return [await clearing for clearing in clearings]

    assert run(race()) == [(11, [(100, 10, 20)], []), (11, [], [])]
    assert not sqlite_database(store).state.being_counted


@pytest.mark.parametrize("count", [2, 20])
def test_expired_items_are_purged_together_with_them(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    """T-092, T-184: they cost nothing, and count as purged."""
    run(insert_numbered(store, container, count, ts=100))
    run(insert_unique(store, container, "alive", ts=200))
    cleared = run(store.items.clear_partition(container, 0, A, EXPIRED))
    assert cleared.live == [(100, 1, 2)]
    run(purge_cleared_partitions(store, 3))
    assert run(usage(store, container)) == (0, 0, 0, 0, count, count * 100, 0)
    assert rows_on_disk(store) == (0, 0, 0)


def test_weighing_leaves_out_what_is_hidden(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, 20))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(insert_unique(store, container, "new", size=30))

    def partition_size(view: View) -> Decision[int]:
        partition = PartitionAtCutoff(A, NOTHING_EXPIRED)
        size = view.partition_sizes.get(partition, -1)
        return Decision([], size, needs_sizes=[partition])

    assert run(store.items.write(container, 0, [], partition_size)) == 30


def test_reopening_in_the_middle(
    store: Stores, container: Container, run: Run[Any], path: Path
) -> None:
    """Whatever has been removed by then, all of it is hidden, and the rest goes later."""
    run(insert_numbered(store, container, 20))
    run(insert_unique(store, container, "kept", pk=B))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(store.expiry.purge_cleared(8))
    run(store.close())
    again = open_stores(path, durability="off")
    assert rows_on_disk(again) == (13, 12, 1)
    assert run(ids_in(again, container)) == ["kept"]
    assert run(usage(again, container))[:2] == (1, 100)
    run(insert_unique(again, container, "3", unique=b"u9"))
    run(purge_cleared_partitions(again, 8))
    assert run(ids_in(again, container)) == ["kept", "3"]
    assert rows_on_disk(again) == (2, 1, 0)
    run(again.close())


def test_a_transaction_that_fails_clears_nothing(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, 20))
    used = sqlite_database(store).write_db.pragma("page_count")
    sqlite_database(store).write_db.pragma("max_page_count", used)
    sqlite_database(store).write_db.execute(
        "CREATE TEMP TRIGGER full AFTER INSERT ON tombstones BEGIN"
        f" INSERT INTO meta VALUES ('x', '{'x' * 100_000}'); END"
    )
    with pytest.raises(InsufficientStorage):
        run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    sqlite_database(store).write_db.execute("DROP TRIGGER full")
    sqlite_database(store).write_db.pragma("max_page_count", used + 1000)
    assert len(run(ids_in(store, container))) == 20
    assert run(store.items.lsns(container)) == (20, 0)
    assert run(store.expiry.purge_cleared(10)) is False
    run(insert_unique(store, container, "new"))
    assert len(run(ids_in(store, container))) == 21


def test_a_removal_that_fails_at_its_end_counts_nothing(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    run(insert_numbered(store, container, 20))
    run(insert_unique(store, container, "kept", pk=B))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    sqlite_database(store).write_db.execute(
        "CREATE TEMP TRIGGER full BEFORE DELETE ON tombstones BEGIN"
        " SELECT RAISE(ABORT, 'disk I/O error'); END"
    )
    with pytest.raises(CosmosError):
        run(store.expiry.purge_cleared(100))
    sqlite_database(store).write_db.execute("DROP TRIGGER full")
    assert rows_on_disk(store) == (21, 20, 1)
    assert run(usage(store, container))[:2] == (1, 100)
    run(purge_cleared_partitions(store, 100))
    assert rows_on_disk(store) == (1, 0, 0)
    assert run(usage(store, container))[:2] == (1, 100)


def test_dropping_the_container(store: Stores, container: Container, run: Run[Any]) -> None:
    run(insert_numbered(store, container, 20))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))

    async def race() -> bool:
        purging = asyncio.create_task(store.expiry.purge_cleared(5))
        await store.metadata.change([RemoveResource(RESOURCE)])
        return await purging

    run(race())
    assert run(purge_cleared_partitions(store, 5)) == 0
    assert sqlite_database(store).write_db.execute("SELECT COUNT(*) FROM tombstones").get == 0
    with pytest.raises(OwnerNotFound):
        run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    with pytest.raises(OwnerNotFound):
        run(ids_in(store, container))
    with pytest.raises(OwnerNotFound):
        run(store.items.read(container, 0, ItemKey(A, "1")))


def test_a_file_from_before_partitions_could_be_cleared(path: Path, run: Run[Any]) -> None:
    """Its containers get the view that everything reads."""
    old = apsw.Connection(str(path))
    schema.MIGRATIONS[0](old)
    state = '{"number": 7, "ranges": 1}'
    old.execute("INSERT INTO resources VALUES ('rid', 'container', 'd', 'c', 'e', 0, ?)", (state,))
    old.execute(
        "CREATE TABLE items_7 (number INTEGER PRIMARY KEY, pk BLOB, id TEXT, epk BLOB, ts INTEGER,"
        " ttl INTEGER, lsn INTEGER, etag TEXT, size INTEGER, terms INTEGER, body BLOB);"
        " INSERT INTO items_7 VALUES"
        " (256, x'0861ff', '1', x'10', 5, NULL, 1, 'e', 10, 0, jsonb('{\"id\":\"1\"}'))"
    )
    old.pragma("application_id", schema.APPLICATION_ID)
    old.pragma("user_version", 1)
    old.close()
    store = open_stores(path, durability="off")
    assert run(ids_in(store, build_container(RESOURCE, DATABASE))) == ["1"]
    run(store.close())


def test_old_tombstones_that_are_not_logged_yet(path: Path, run: Run[Any]) -> None:
    """What has yet to be removed is in no log yet."""
    resource = RESOURCE._replace(state=RESOURCE.state | {"keeps_versions": True})
    container = build_container(resource, DATABASE)
    store = open_stores(path, durability="off")
    run(store.metadata.change([PutResource(resource)]))
    run(insert_unique(store, container, "expired", ts=100))
    run(insert_numbered(store, container, 120))
    run(insert_unique(store, container, "b", pk=B))
    run(insert_unique(store, container, "new", ts=300))  # its partition was cleared before that
    run(store.close())
    write_old_tombstones(path, (A, 121, EXPIRED), (B, 122, NOTHING_EXPIRED), version=3)

    store = open_stores(path, durability="off")
    page = run(store.changes.versions(container, ChangeSearch(Search(), 0, 123), 0))
    first, *others, last = page.changes
    assert (first.lsn, first.kind, first.id, first.body) == (124, "expire", "expired", None)
    assert [(each.lsn, each.kind, each.id) for each in others] == [
        (124 + (at + 1) // 100, "delete", f"{at}") for at in range(120)
    ]
    assert (last.lsn, last.kind, last.id, last.body) == (126, "delete", "b", b'{"id":"b"}')
    assert {each.ts for each in page.changes} == {300}
    assert run(store.items.lsns(container))[0] == page.lsn == 126
    run(purge_cleared_partitions(store, 50))
    assert run(ids_in(store, container)) == ["new"]
    assert run(usage(store, container)) == (1, 100, 0, 0, 1, 100, 0)
    assert run(store.changes.versions(container, ChangeSearch(Search(), 0, 126), 0)).changes == []
    run(store.close())


def test_old_tombstones_without_a_previous_cutoff(
    path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layout 5 has been written with and without that."""
    monkeypatch.setattr(clearing, "MAX_IMMEDIATE_REMOVALS", MAX_IMMEDIATE_REMOVALS)
    container = build_container(RESOURCE, DATABASE)
    store = open_stores(path, durability="off")
    run(store.metadata.change([PutResource(RESOURCE)]))
    run(insert_unique(store, container, "expired", ts=100))
    run(insert_numbered(store, container, 20))
    run(store.items.clear_partition(container, 0, A, EXPIRED))
    run(insert_unique(store, container, "new", ts=300))
    run(store.close())
    with contextlib.closing(apsw.Connection(str(path))) as old:
        restore_layout_5_without_previous_cutoffs(old)

    store = open_stores(path, durability="off")
    assert run(ids_in(store, container)) == ["new"]
    run(purge_cleared_partitions(store, 50))
    assert run(usage(store, container)) == (1, 100, 0, 0, 1, 100, 0)
    assert run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED)).live
    run(store.close())
