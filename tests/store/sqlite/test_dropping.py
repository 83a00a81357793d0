"""Many containers dropped at once: hidden in one transaction, their tables dropped in steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.commands import integrity
from perseid.errors import OwnerNotFound
from perseid.model import Container
from perseid.store.protocol import Stores
from perseid.store.sqlite import expiry, schema
from perseid.store.sqlite.snapshot import snapshot
from perseid.store.sqlite.store import open_stores
from perseid.store.types import PutResource, RemoveResource
from tests.support.rows import Run, added_container, container_resource, insert, resource
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about tables of one file")

MANY = 12


@pytest.fixture
def containers(store: Stores, run: Run[Any]) -> list[Container]:
    """Containers with an item each."""
    run(store.metadata.change([PutResource(resource("db", name="d"))]))
    added = [added_container(store, run, container_resource(number)) for number in range(1, MANY)]
    for container in added:
        run(insert(store, container, "a"))
    return added


def drop_all(store: Stores, run: Run[Any], containers: Sequence[Container]) -> None:
    stored = {each.rid: each for each in run(store.metadata.resources())}
    run(store.metadata.change([RemoveResource(stored[each.rid]) for each in containers]))


def tables(store: Stores) -> set[str]:
    sql = "SELECT name FROM sqlite_schema WHERE name GLOB 'items_*' AND type = 'table'"
    return {name for (name,) in sqlite_database(store).point_db.execute(sql)}


@pytest.fixture
def slow_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """One table in each step."""
    monkeypatch.setattr(expiry, "_DROP_SECONDS", 0.0)


@pytest.mark.usefixtures("slow_drops")
def test_tables_are_dropped_in_steps(
    store: Stores, run: Run[Any], containers: list[Container]
) -> None:
    *gone, kept = containers
    statements: list[str] = []

    def note(_: Any, sql: str, __: Any) -> bool:
        statements.append(sql)
        return True

    sqlite_database(store).write_db.exec_trace = note
    drop_all(store, run, gone)
    assert not [sql for sql in statements if sql.startswith("DROP")]
    assert [each.id for each in run(store.metadata.resources()) if each.kind == "container"] == [
        kept.id
    ]
    left = len(tables(store))
    assert left == len(containers)
    while left > 1:
        run(store.expiry.free_disk_space(100))
        assert len(tables(store)) == left - 1
        left -= 1
        run(insert(store, kept, f"between{left}"))
    assert tables(store) == {f"items_{kept.number}"}
    assert not schema.hidden_containers(sqlite_database(store).point_db)


def test_a_write_that_comes_too_late_is_refused(
    store: Stores, run: Run[Any], containers: list[Container]
) -> None:
    drop_all(store, run, containers)
    with pytest.raises(OwnerNotFound):
        run(insert(store, containers[0], "late"))
    positions = sqlite_database(store).point_db.execute("SELECT COUNT(*) FROM positions").get
    assert positions == 0


@pytest.mark.usefixtures("slow_drops")
def test_a_restart_continues(
    store: Stores, run: Run[Any], containers: list[Container], path: Path
) -> None:
    drop_all(store, run, containers)
    run(store.expiry.free_disk_space(100))
    run(store.close())
    again = open_stores(path)
    try:
        assert len(tables(again)) == len(containers) - 1
        while sqlite_database(again).state.hidden:
            run(again.expiry.free_disk_space(100))
        assert not tables(again)
    finally:
        run(again.close())


def test_few_containers_are_dropped_at_once(
    store: Stores, run: Run[Any], containers: list[Container]
) -> None:
    drop_all(store, run, containers[:2])
    assert len(tables(store)) == len(containers) - 2


def test_a_failed_drop_changes_nothing(
    store: Stores, run: Run[Any], containers: list[Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(db: apsw.Connection, number: int) -> None:
        raise OwnerNotFound

    monkeypatch.setattr(schema, "hide_items", fail)
    with pytest.raises(OwnerNotFound):
        drop_all(store, run, containers)
    run(insert(store, containers[0], "b"))


def test_check_knows_hidden_tables(
    store: Stores, run: Run[Any], containers: list[Container], path: Path
) -> None:
    drop_all(store, run, containers)
    with snapshot(path) as database_snapshot:
        checked, _ = integrity._metadata(database_snapshot)
    assert not [problem for problem in checked.problems if "belongs to no" in problem]
