"""Feed ranges and containers with several physical ranges through the Python client."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from azure.cosmos import ThroughputProperties as Throughput
from azure.cosmos.partition_key import NonePartitionKeyValue

from tests.sdk.conftest import Recorder
from tests.sdk.python_helpers import create_container, create_items, ids_of, query


def test_one_feed_range_covers_a_small_container(container: ContainerProxy) -> None:
    (whole,) = container.read_feed_ranges()
    keys: list[Any] = ["a", 5, True, None, NonePartitionKeyValue]
    for key in keys:
        part = container.feed_range_from_partition_key(key)
        assert container.is_feed_range_subset(whole, part)
        assert not container.is_feed_range_subset(part, whole)


@pytest.mark.parametrize(
    ("throughput", "count"),
    [
        (400, 1),
        (6_000, 1),
        (11_000, 2),
        (21_000, 4),
        (30_000, 5),
        (Throughput(auto_scale_max_throughput=10_000), 1),
        (Throughput(auto_scale_max_throughput=12_000), 2),
    ],
)
def test_ranges_by_throughput(
    database: DatabaseProxy, throughput: int | Throughput, count: int
) -> None:
    container = create_container(database, offer_throughput=throughput)
    assert len(list(container.read_feed_ranges())) == count


@pytest.mark.parametrize("version", [1, 2])
def test_items_spread_over_ranges(
    database: DatabaseProxy, version: int, exchanges: Recorder
) -> None:
    container = database.create_container(
        "c", PartitionKey("/pk", version=version), offer_throughput=18_000
    )
    ranges = list(container.read_feed_ranges())
    exchanges.clear()
    ids = create_items(container, 60, keys=60)
    created = [each for each in exchanges if each.method == "POST"]
    parts = [each.received["x-ms-documentdb-partitionkeyrangeid"] for each in created]
    assert set(parts) == {"0", "1", "2"}
    for part in set(parts):
        tokens = [each.received["x-ms-session-token"] for each in created]
        lsns = [int(token.split("#")[1]) for token in tokens if token.startswith(f"{part}:-1#")]
        assert lsns == list(range(lsns[0], lsns[0] + parts.count(part)))

    assert sorted(ids_of(container.read_all_items(max_item_count=7))) == ids
    for number, feed_range in enumerate(ranges):
        share = [item_id for item_id, part in zip(ids, parts, strict=True) if part == str(number)]
        rows = query(container, "SELECT * FROM c", feed_range=feed_range, max_item_count=4)
        assert sorted(ids_of(rows)) == share
        for item_id in share:
            own = container.feed_range_from_partition_key(f"k{int(item_id)}")
            assert container.is_feed_range_subset(feed_range, own)


def test_one_key_as_a_feed_range(database: DatabaseProxy) -> None:
    container = create_container(database, offer_throughput=18_000)
    create_items(container, 30, keys=10)
    for number in range(10):
        part = container.feed_range_from_partition_key(f"k{number}")
        rows = query(container, "SELECT VALUE c.n FROM c", feed_range=part)
        assert sorted(rows) == [number, number + 10, number + 20]


def test_sessions_of_several_ranges(database: DatabaseProxy, exchanges: Recorder) -> None:
    container = create_container(database, offer_throughput=18_000)
    create_items(container, 30, keys=30)
    list(container.read_all_items())
    sent = exchanges[-1].sent["x-ms-session-token"]
    assert sorted(each.split(":")[0] for each in sent.split(",")) == ["0", "1", "2"]
    for number in range(30):
        container.read_item(f"{number:03}", f"k{number}")
        part = exchanges[-1].received["x-ms-documentdb-partitionkeyrangeid"]
        assert exchanges[-1].sent["x-ms-session-token"].startswith(f"{part}:-1#")


def test_latest_session_token(container: ContainerProxy, exchanges: Recorder) -> None:
    part = container.feed_range_from_partition_key("a")
    tokens = []
    for number in range(3):
        container.create_item({"id": str(number), "pk": "a"})
        tokens.append((part, exchanges[-1].received["x-ms-session-token"]))
    assert container.get_latest_session_token(tokens, part) == tokens[-1][1]
