"""Clients that hold on to a container that was deleted and created again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey
from azure.cosmos.exceptions import (
    CosmosResourceNotFoundError,
)

from tests.sdk.conftest import Recorder, Reopen
from tests.sdk.python_helpers import create_items, ids_of
from tests.support.sdk import refused

CALLS: dict[str, Callable[[ContainerProxy], Any]] = {
    "create": lambda c: c.create_item({"id": "new", "pk": "a", "other": "a"}),
    "upsert": lambda c: c.upsert_item({"id": "new", "pk": "a", "other": "a"}),
    "replace": lambda c: c.replace_item("1", {"id": "1", "pk": "a", "other": "a"}),
    "read": lambda c: c.read_item("1", "a"),
    "delete": lambda c: c.delete_item("1", "a"),
    "feed": lambda c: list(c.read_all_items()),
    "query": lambda c: list(c.query_items("SELECT * FROM c", partition_key="a")),
    "cross": lambda c: list(c.query_items("SELECT * FROM c", enable_cross_partition_query=True)),
    "many": lambda c: c.read_items([("1", "a"), ("2", "a")]),
    "throughput": lambda c: c.get_throughput(),
    "ranges": lambda c: list(c.read_feed_ranges(force_refresh=True)),
}


@pytest.mark.parametrize("path", ["/pk", "/other"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_recreated_container(
    container: ContainerProxy,
    reopen: Reopen,
    call: Callable[[ContainerProxy], Any],
    path: str,
) -> None:
    seen = Recorder()
    stale = reopen(raw_response_hook=seen.note).get_container_client("c")
    stale.create_item({"id": "1", "pk": "a", "other": "a"})
    stale.read_item("1", "a")
    fresh = reopen()
    fresh.delete_container("c")
    made = fresh.create_container("c", PartitionKey(path))
    made.create_item({"id": "1", "pk": "a", "other": "a"})
    made.create_item({"id": "2", "pk": "a", "other": "a"})
    seen.clear()
    call(stale)
    assert seen[-1].status < 400
    seen.clear()
    assert stale.read_item("2", "a")["other"] == "a"
    assert [each.status for each in seen if "/docs/" in each.path] == [200]


def test_recreated_container_is_noticed_by_its_rid(
    container: ContainerProxy, reopen: Reopen
) -> None:
    seen = Recorder()
    stale = reopen(raw_response_hook=seen.note).get_container_client("c")
    for number in range(5):
        stale.create_item({"id": str(number), "pk": "a"})
    stale.read_item("1", "a")
    fresh = reopen()
    fresh.delete_container("c")
    fresh.create_container("c", PartitionKey("/pk"))
    seen.clear()
    # The session token is from the old container, and ahead: that it is another one matters more.
    with pytest.raises(CosmosResourceNotFoundError):
        stale.read_item("1", "a")
    assert (seen[0].status, seen[0].sub_status) == (400, 1024)
    seen.clear()
    stale.create_item({"id": "1", "pk": "a"})
    stale.read_item("1", "a")
    assert {each.status for each in seen} <= {200, 201, 304}


def test_writes_to_a_recreated_container_are_repeated(
    container: ContainerProxy, reopen: Reopen
) -> None:
    seen = Recorder()
    stale = reopen(raw_response_hook=seen.note).get_container_client("c")
    stale.create_item({"id": "1", "pk": "a"})
    fresh = reopen()
    fresh.delete_container("c")
    fresh.create_container("c", PartitionKey("/pk"))
    seen.clear()
    stale.create_item({"id": "1", "pk": "a"})
    assert [(each.method, each.status, each.sub_status) for each in seen] == [
        ("POST", 400, 1024), ("GET", 200, 0), ("POST", 201, 0),
    ]  # fmt: skip


def test_container_recreated_with_more_ranges(container: ContainerProxy, reopen: Reopen) -> None:
    stale = reopen().get_container_client("c")
    stale.create_item({"id": "000", "pk": "k0"})
    stale.read_item("000", "k0")
    fresh = reopen()
    fresh.delete_container("c")
    fresh.create_container("c", PartitionKey("/pk"), offer_throughput=18_000)
    ids = create_items(stale, 30, keys=30)
    assert sorted(ids_of(stale.read_all_items())) == ids
    for number, item_id in enumerate(ids):
        assert stale.read_item(item_id, f"k{number}")["n"] == number
    wanted: list[Any] = [(item_id, f"k{number}") for number, item_id in enumerate(ids)]
    assert ids_of(stale.read_items(wanted)) == ids
    assert len(list(stale.read_feed_ranges(force_refresh=True))) == 3


def test_deleted_container(container: ContainerProxy, reopen: Reopen) -> None:
    container.create_item({"id": "1", "pk": "a"})
    reopen().delete_container("c")
    for call in (CALLS[name] for name in ("create", "upsert", "replace", "read", "delete", "feed")):
        with refused(404, 1003):
            call(container)
