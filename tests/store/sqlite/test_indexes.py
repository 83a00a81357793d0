"""Indexes that the SQLite store creates and drops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from perseid.conditions import NUMBER, Comparison, Filter, Order
from perseid.model import Container
from perseid.store.protocol import Stores
from perseid.store.sql import index_limits
from perseid.store.sqlite import indexes
from perseid.store.sqlite.store import open_stores
from perseid.store.types import GroupCount, Search
from tests.store.sqlite.jobs import Gate, limit_pages
from tests.support.rows import (
    Run,
    insert,
)
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


def test_an_index_that_goes_before_it_is_used(
    store: Stores, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one took its place, or the indexing policy has changed: it is done without."""
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 0)
    path = ("n",)
    search = Search(
        where=Filter(Comparison(path, NUMBER, ">", 0), (1,)), indexable=frozenset((path,))
    )
    counted: list[tuple[int, dict[str, Any]]] = []

    def take(groups: Iterable[GroupCount]) -> None:
        counted.extend(groups)

    async def lose_index() -> None:
        """As it is for a query that has chosen it a moment before."""
        await sqlite_database(store).indexes.ensure(container, path)
        await sqlite_database(store).writer.submit(
            lambda: sqlite_database(store).write_db.execute("""DROP INDEX 'items_7_by_["n"]'"""),
            is_heavy=True,
        )

    async def work() -> None:
        await insert(store, container, "1", "2")
        await lose_index()
        assert [each.id for each in (await store.queries.search(container, search)).rows] == [
            "1",
            "2",
        ]
        ordered = search._replace(order=Order(path, False))
        assert not (await store.queries.search(container, ordered)).is_ordered
        await store.queries.count_groups(container, search, [], take)
        await store.queries.count_groups(container, search, [path], take)
        assert counted == [(2, {}), (2, {"n": 1.5})]
        assert (await store.queries.access_path(container, search)).method == "scan"

    run(work())


def test_the_index_that_makes_way_is_forgotten_first(
    store: Stores, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No query uses it between the commit and its answer."""
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 0)
    monkeypatch.setattr(index_limits, "MOST_INDEXES", 1)
    monkeypatch.setattr(index_limits, "KEPT_SECONDS", 0.0)

    async def work() -> None:
        await sqlite_database(store).indexes.ensure(container, ("a",))
        gate = Gate(store)
        sqlite_database(store).write_db.set_commit_hook(gate.hold)
        other = asyncio.create_task(sqlite_database(store).indexes.ensure(container, ("b",)))
        await gate.entered()
        assert sqlite_database(store).indexes.paths(container.number) == []
        gate.open()
        await other
        sqlite_database(store).write_db.set_commit_hook(None)
        assert sqlite_database(store).indexes.paths(container.number) == [("b",)]

    run(work())


def test_paths_that_differ_in_case_have_an_index_each(
    store: Stores, container: Container, run: Run[Any], path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 0)
    paths = {("v",), ("V",), ("a", "B]"), ("a", "b]")}
    names = {run(sqlite_database(store).indexes.ensure(container, each)) for each in paths}
    assert len(names) == len(paths)
    assert set(sqlite_database(store).indexes.paths(7)) == paths
    monkeypatch.setattr(indexes, "is_indexable", lambda _, each: each != ("V",))
    run(store.queries.drop_disallowed_indexes(container))
    run(store.close())
    reopened = open_stores(path, durability="off")
    assert set(sqlite_database(reopened).indexes.paths(7)) == paths - {("V",)}
    run(reopened.close())


def test_queries_do_without_an_index_that_has_no_room(
    store: Stores, container: Container, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 0)
    path = ("n",)
    search = Search(
        where=Filter(Comparison(path, NUMBER, ">", 0), (1,)), indexable=frozenset((path,))
    )
    run(insert(store, container, "1", "2"))
    limit_pages(store, 0)
    for _ in range(2):
        assert [each.id for each in run(store.queries.search(container, search)).rows] == ["1", "2"]
    assert sqlite_database(store).indexes.paths(7) == []
    limit_pages(store, 1000)
    monkeypatch.setattr(index_limits, "RETRY_DELAY", 0)
    run(store.queries.search(container, search))
    assert sqlite_database(store).indexes.paths(7) == [path]
