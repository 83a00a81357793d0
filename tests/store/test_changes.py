"""The store's side of the change feed: order, whole transactions, logs, older files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from perseid.errors import InsufficientStorage
from perseid.model import Container, ItemKey, Row, item_number
from perseid.service.catalog import build_container
from perseid.store import schema
from perseid.store.changes import LARGEST_BURIAL
from perseid.store.protocol import (
    Change,
    ChangeScan,
    Decision,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Resource,
    Scan,
    StaleResource,
    View,
)
from perseid.store.sqlite import SqliteStore
from perseid.ttl import EVERYTHING_LIVES, Horizon
from tests.store.test_sqlite_store import DATABASE, container_resource, row

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
NOW = 5000


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def store(path: Path, run: Run[None]) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, durability="off", now=lambda: NOW)
    yield opened
    run(opened.close())


def resource(number: int, *, keeps: bool, unique: bool = False, etag: str = '"1"') -> Resource:
    made = container_resource(number, unique=unique)
    return made._replace(etag=etag, state=made.state | {"keeps_versions": keeps})


def add(store: SqliteStore, run: Run[Any], number: int = 7, **options: Any) -> Container:
    made = resource(number, **options)
    run(store.change([PutResource(made)]))
    return build_container(made, DATABASE)


def switch(store: SqliteStore, run: Run[Any], number: int, *, keeps: bool) -> None:
    made = resource(number, keeps=keeps)
    run(store.change([PutResource(made, replaces='"1"')]))


@pytest.fixture
def kept(store: SqliteStore, run: Run[Any]) -> Container:
    """Two ranges, all versions."""
    return add(store, run, keeps=True)


@pytest.fixture
def plain(store: SqliteStore, run: Run[Any]) -> Container:
    """Two ranges, latest versions."""
    return add(store, run, 8, keeps=False)


async def write(
    store: SqliteStore,
    container: Container,
    *changes: Callable[[int, int], Put | Remove],
    part: int = 0,
) -> None:
    """One transaction; each change is made from the LSN and its place."""

    def decide(view: View) -> Decision[None]:
        return Decision([make(view.lsn, at) for at, make in enumerate(changes)], None)

    await store.write(container, part, (), decide)


def new(item_id: str, *, part: int = 0, **rest: Any) -> Callable[[int, int], Put]:
    return lambda lsn, at: Put(row(lsn, item_id, part=part, position=at, **rest))


async def stored(store: SqliteStore, container: Container, item_id: str) -> Row:
    found, _ = await store.read(container, 0, ItemKey(b"\x08a\xff", item_id))
    assert found is not None
    return found


def again(old: Row, **changes: Any) -> Callable[[int, int], Put]:
    return lambda lsn, _: Put(old._replace(lsn=lsn, **changes), old)


def gone(old: Row, *, expired: bool = False) -> Callable[[int, int], Remove]:
    return lambda _, __: Remove(old, expired)


def scan(after: int = 0, part: int = 0, **scope: Any) -> ChangeScan:
    since = scope.pop("since", None)
    wanted = ChangeScan(Scan(**scope), part, after)
    return wanted if since is None else wanted._replace(since=since)


def latest(
    store: SqliteStore, run: Run[Any], container: Container, **wanted: Any
) -> tuple[list[str], int]:
    page = run(store.latest(container, scan(**wanted)))
    return [each.id for each in page.rows], page.lsn


def versions(
    store: SqliteStore, run: Run[Any], container: Container, lost: int = 0, **wanted: Any
) -> list[tuple[int, str, str]]:
    page = run(store.versions(container, scan(**wanted), lost))
    assert page.is_complete
    return [(change.lsn, change.kind, change.id) for change in page.changes]


# Latest


def test_order_of_last_writes(store: SqliteStore, plain: Container, run: Run[Any]) -> None:
    for id_ in "abc":
        run(write(store, plain, new(id_)))
    run(write(store, plain, again(run(stored(store, plain, "a")))))
    run(write(store, plain, gone(run(stored(store, plain, "b")))))
    run(write(store, plain, new("other", part=1), part=1))
    assert latest(store, run, plain) == (["c", "a"], 5)
    assert latest(store, run, plain, after=3) == (["a"], 5)
    assert latest(store, run, plain, limit=1) == (["c"], 3)
    assert latest(store, run, plain, after=5) == ([], 5)
    assert latest(store, run, plain, after=9) == ([], 5)
    assert latest(store, run, plain, part=1) == (["other"], 1)


def test_a_page_never_splits_a_transaction(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    for numbers in ((0,), (1, 2, 3), (4,), (5, 6)):
        run(write(store, kept, *[new(f"i{number}") for number in numbers]))
    pages = {1: [1, 3, 1, 2], 2: [4, 3], 3: [4, 3], 5: [5, 2], 6: [7], 100: [7]}
    for limit, expected in pages.items():
        for listed in (store.latest, lambda c, s: store.versions(c, s, 0)):
            sizes, after = [], 0
            while True:
                page: Any = run(listed(kept, scan(after=after, limit=limit)))
                if not page[0]:
                    break
                sizes.append(len(page[0]))
                after = page.lsn
            assert sizes == expected, limit
            assert after == 4


def test_a_page_has_a_size_in_bytes(store: SqliteStore, plain: Container, run: Run[Any]) -> None:
    for id_ in "abcd":
        run(write(store, plain, new(id_)))
    size = len(run(stored(store, plain, "a")).body)
    assert latest(store, run, plain, max_bytes=size * 2) == (["a", "b"], 2)
    assert latest(store, run, plain, max_bytes=1) == (["a"], 1)


def test_the_dead_and_the_old_are_passed_over(
    store: SqliteStore, plain: Container, run: Run[Any]
) -> None:
    for id_, ts, ttl in (("a", 100, None), ("b", 101, 5), ("c", 102, -1), ("d", 103, None)):
        run(write(store, plain, new(id_, ts=ts, ttl=ttl)))
    horizon = Horizon(100, 106)
    assert latest(store, run, plain, horizon=horizon) == (["c", "d"], 4)
    assert latest(store, run, plain, since=102) == (["c", "d"], 4)
    assert latest(store, run, plain, limit=1, horizon=horizon) == (["c"], 3)


def test_what_is_passed_over_is_not_looked_at(
    store: SqliteStore, plain: Container, kept: Container
) -> None:
    """Other keys, the dead and the old are recognised in the index."""
    db = store._write_db
    for index, columns in (
        (f"items_{plain.number}_changes", {"lsn", "ts", "ttl", "epk"}),
        (f"changes_{kept.number}_order", {"lsn", "entry", "epk"}),
    ):
        found = {name for _, _, name in db.execute(f"PRAGMA index_info({index})")}
        assert columns <= found


# The log


def test_only_containers_that_want_one_have_a_log(
    store: SqliteStore, kept: Container, plain: Container
) -> None:
    tables = {
        name
        for (name,) in store._write_db.execute("SELECT name FROM sqlite_schema")
        if str(name).startswith("changes_")
    }
    assert tables == {f"changes_{kept.number}", f"changes_{kept.number}_order"}


def test_what_is_logged(store: SqliteStore, kept: Container, run: Run[Any]) -> None:
    run(write(store, kept, new("a", ts=100)))
    first = run(stored(store, kept, "a"))
    run(write(store, kept, again(first, ts=101, body=b'{"id":"a","n":2}')))
    second = run(stored(store, kept, "a"))
    # The body of what is removed need not have been read by whoever removes it.
    run(write(store, kept, gone(second._replace(body=b""))))
    run(write(store, kept, new("b", ts=102, ttl=1)))
    dead = run(stored(store, kept, "b"))
    run(write(store, kept, gone(dead, expired=True), new("b", ts=110)))
    page = run(store.versions(kept, scan(), 0))
    pk = first.pk
    assert page.changes == [
        Change(1, 100, "create", None, pk, "a", first.body),
        Change(2, 101, "replace", 1, pk, "a", second.body),
        Change(3, NOW, "delete", 2, pk, "a", second.body),
        Change(4, 102, "create", None, pk, "b", dead.body),
        Change(5, 110, "expire", 4, pk, "b", None),
        Change(5, 110, "create", None, pk, "b", run(stored(store, kept, "b")).body),
    ]
    assert page.lsn == 5


def test_one_transaction_may_touch_an_item_twice(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    made: list[Row] = []

    def create(lsn: int, at: int) -> Put:
        made.append(row(lsn, "a", position=at))
        return Put(made[0])

    run(
        write(
            store,
            kept,
            create,
            lambda lsn, _: Put(made[0]._replace(etag='"2"'), made[0]),
            lambda _, __: Remove(made[0]),
        )
    )
    assert versions(store, run, kept) == [
        (1, "create", "a"),
        (1, "replace", "a"),
        (1, "delete", "a"),
    ]


def test_a_purge_logs_in_the_order_of_death(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    for id_, ts in (("late", 30), ("early", 10), ("middle", 20), ("alive", 90)):
        run(write(store, kept, new(id_, ts=ts)))
    corpses = run(store.purge(kept, 0, Horizon(50, 50), limit=1000))
    assert len(corpses) == 3
    assert versions(store, run, kept, after=4) == [
        (5, "expire", "early"),
        (5, "expire", "middle"),
        (5, "expire", "late"),
    ]
    page = run(store.versions(kept, scan(after=4), 0))
    assert {change.ts for change in page.changes} == {NOW}
    assert [change.previous_lsn for change in page.changes] == [2, 3, 1]


def test_a_purge_of_a_logged_container_fits_on_a_page(
    store: SqliteStore, kept: Container, plain: Container, run: Run[Any]
) -> None:
    for container, expected in ((kept, LARGEST_BURIAL), (plain, 150)):
        run(write(store, container, *[new(f"i{number}") for number in range(150)]))
        assert len(run(store.purge(container, 0, Horizon(200, 200), limit=1000))) == expected


def test_a_failed_transaction_logs_nothing(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    run(write(store, kept, new("a")))
    with pytest.raises(Exception, match="UNIQUE"):
        run(write(store, kept, new("b"), new("a")))
    with pytest.raises(Exception, match="UNIQUE"):
        run(write(store, kept, new("a")))
    assert versions(store, run, kept) == [(1, "create", "a")]
    run(write(store, kept, new("c")))
    assert versions(store, run, kept) == [(1, "create", "a"), (2, "create", "c")]


def test_switching_on_and_off(store: SqliteStore, plain: Container, run: Run[Any]) -> None:
    run(write(store, plain, new("a")))
    assert not run(store.versions(plain, scan(after=1), 0)).is_complete
    switch(store, run, plain.number, keeps=True)
    run(write(store, plain, new("b")))
    # The state of the container rules, not the description that a running request holds.
    assert versions(store, run, plain, after=1) == [(2, "create", "b")]
    assert not run(store.versions(plain, scan(after=0), 0)).is_complete
    switch(store, run, plain.number, keeps=False)
    run(write(store, plain, new("c")))
    switch(store, run, plain.number, keeps=True)
    assert not run(store.versions(plain, scan(after=2), 0)).is_complete
    assert versions(store, run, plain, after=3) == []


def test_a_stale_change_leaves_the_log_as_it_was(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    other = resource(9, keeps=True)
    stale = PutResource(resource(kept.number, keeps=False), replaces='"0"')
    with pytest.raises(StaleResource):
        run(store.change([PutResource(other), stale]))
    assert store._logs.kept == {kept.number}
    run(write(store, kept, new("a")))
    assert versions(store, run, kept) == [(1, "create", "a")]
    run(store.change([PutResource(other)]))
    assert store._logs.kept == {kept.number, 9}


def test_a_full_disk_leaves_the_log_as_it_was(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    run(write(store, kept, new("a")))
    pages = store._write_db.pragma("page_count")
    store._write_db.pragma("max_page_count", pages)
    with pytest.raises(InsufficientStorage):
        run(write(store, kept, new("big", body=b'{"id":"big","t":"%b"}' % (b"x" * 100_000))))
    with pytest.raises(InsufficientStorage):
        run(store.change([PutResource(resource(9, keeps=True))]))
    store._write_db.pragma("max_page_count", 1_000_000)
    assert store._logs.kept == {kept.number}
    assert versions(store, run, kept) == [(1, "create", "a")]


def test_a_dropped_container_drops_its_log(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    run(write(store, kept, new("a")))
    run(store.change([RemoveResource(resource(kept.number, keeps=True))]))
    assert store._logs.kept == frozenset()
    names = {str(name) for (name,) in store._write_db.execute("SELECT name FROM sqlite_schema")}
    assert not any(name.startswith("changes_") for name in names)
    assert store._write_db.execute("SELECT COUNT(*) FROM change_logs").get == 0


def test_forgetting(store: SqliteStore, kept: Container, run: Run[Any]) -> None:
    for id_, ts in (("a", 10), ("b", 11), ("c", 12), ("d", 13)):
        run(write(store, kept, new(id_, ts=ts)))
    run(write(store, kept, new("other", part=1, ts=11), part=1))
    # Too old is out of reach before it is removed.
    assert not run(store.versions(kept, scan(), 10)).is_complete
    assert versions(store, run, kept, lost=10, after=1) == [
        (2, "create", "b"),
        (3, "create", "c"),
        (4, "create", "d"),
    ]
    assert run(store.forget(kept, 11, 1)) == 1
    assert run(store.forget(kept, 11, 100)) == 1
    assert run(store.forget(kept, 11, 100)) == 0
    assert not run(store.versions(kept, scan(after=1), 0)).is_complete
    assert versions(store, run, kept, after=2) == [(3, "create", "c"), (4, "create", "d")]
    assert run(store.forget(kept, 99, 100)) == 3
    assert run(store.forget(kept, 99, 100)) == 0
    assert versions(store, run, kept, after=4) == []
    assert not run(store.versions(kept, scan(after=0, part=1), 0)).is_complete
    assert latest(store, run, kept) == (["a", "b", "c", "d"], 4)


def test_forgetting_half_a_transaction_hides_all_of_it(
    store: SqliteStore, kept: Container, run: Run[Any]
) -> None:
    run(write(store, kept, new("a", ts=10), new("b", ts=10)))
    run(write(store, kept, new("c", ts=10)))
    assert run(store.forget(kept, 10, 1)) == 1
    assert not run(store.versions(kept, scan(), 0)).is_complete
    assert versions(store, run, kept, after=1) == [(2, "create", "c")]


def test_logs_survive_reopening(path: Path, run: Run[Any]) -> None:
    store = SqliteStore(path, durability="off")
    container = add(store, run, keeps=True)
    run(write(store, container, new("a")))
    run(store.close())
    store = SqliteStore(path, durability="off")
    run(write(store, container, new("b")))
    assert versions(store, run, container) == [(1, "create", "a"), (2, "create", "b")]
    run(store.close())


# Older files

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
    store = SqliteStore(path, durability="off")
    assert store._write_db.pragma("user_version") == schema.VERSION
    assert store._write_db.execute("PRAGMA integrity_check").get == "ok"
    container = build_container(container_resource(7), DATABASE)
    assert latest(store, run, container) == (["b", "a"], 3)
    run(write(store, container, new("c")))
    assert latest(store, run, container, after=3) == (["c"], 4)
    assert not run(store.versions(container, scan(after=4), 0)).is_complete
    assert run(store.scan(container, Scan(horizon=EVERYTHING_LIVES))).rows[0].id == "a"
    run(store.close())
