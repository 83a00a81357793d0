"""The official Python clients read the change feed: starts, scopes, continuations, both modes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey, aio

from perseid.clock import MovableClock
from tests.sdk.conftest import OpenDatabase, Recorder
from tests.sdk.python_helpers import ids_of
from tests.support.change_feed import operations_of
from tests.support.sdk import refused

ALL = "AllVersionsAndDeletes"
KEYS = [f"k{number}" for number in range(9)]
THROUGHPUTS = pytest.mark.parametrize("throughput", [400, 24_000], ids=["1 range", "4 ranges"])


def create_feed_container(
    database: DatabaseProxy, throughput: int = 400, **options: Any
) -> ContainerProxy:
    key = options.pop("partition_key", PartitionKey("/pk"))
    container: ContainerProxy = database.create_container(
        "feed", key, offer_throughput=throughput, **options
    )
    return container


def upsert_each_key(container: ContainerProxy, prefix: str = "x") -> None:
    for pk in KEYS:
        container.upsert_item({"id": f"{prefix}-{pk}", "pk": pk})


def read_changes(container: ContainerProxy, **options: Any) -> list[dict[str, Any]]:
    return list(container.query_items_change_feed(**options))


def continuation(container: ContainerProxy) -> str:
    token: str = container.client_connection.last_response_headers["etag"]
    return token


def sorted_ids(documents: list[dict[str, Any]]) -> list[str]:
    return sorted(ids_of(documents))


def sorted_operations(changes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted(operations_of(changes))


def moment(clock: MovableClock) -> datetime:
    return datetime.fromtimestamp(int(clock.now()), UTC)


@THROUGHPUTS
@pytest.mark.parametrize("size", [1, 4, None])
def test_from_the_beginning(database: DatabaseProxy, throughput: int, size: int | None) -> None:
    container = create_feed_container(database, throughput)
    upsert_each_key(container)
    container.upsert_item({"id": f"x-{KEYS[0]}", "pk": KEYS[0], "v": 2})
    options = {} if size is None else {"max_item_count": size}
    documents = read_changes(container, start_time="Beginning", **options)
    assert sorted_ids(documents) == [f"x-{pk}" for pk in KEYS]
    assert [each["v"] for each in documents if "v" in each] == [2]
    assert all(each["_lsn"] > 0 for each in documents)


@THROUGHPUTS
def test_now_and_on_from_a_continuation(database: DatabaseProxy, throughput: int) -> None:
    container = create_feed_container(database, throughput)
    upsert_each_key(container, "before")
    assert read_changes(container) == []
    token = continuation(container)
    upsert_each_key(container, "after")
    assert sorted_ids(read_changes(container, continuation=token)) == [f"after-{pk}" for pk in KEYS]
    token = continuation(container)
    assert read_changes(container, continuation=token) == []
    container.delete_item(f"before-{KEYS[0]}", KEYS[0])
    assert read_changes(container, continuation=token) == []


def test_page_by_page_with_the_pages_own_continuation(database: DatabaseProxy) -> None:
    """With one range: this client cannot read its own token while it has not seen every range."""
    container = create_feed_container(database)
    upsert_each_key(container)
    pages: Iterator[Any] = container.query_items_change_feed(
        start_time="Beginning", max_item_count=2
    ).by_page()
    seen = sorted_ids(list(next(pages)))
    token = pages.continuation_token  # type: ignore[attr-defined]
    rest = container.query_items_change_feed(max_item_count=2).by_page(token)
    for page in rest:
        seen += sorted_ids(list(page))
    assert sorted(seen) == [f"x-{pk}" for pk in KEYS]


@THROUGHPUTS
def test_a_point_in_time(database: DatabaseProxy, throughput: int, clock: MovableClock) -> None:
    container = create_feed_container(database, throughput)
    upsert_each_key(container, "old")
    clock.advance(60)
    since = moment(clock)
    assert read_changes(container, start_time=since) == []
    upsert_each_key(container, "new")
    assert sorted_ids(read_changes(container, start_time=since)) == [f"new-{pk}" for pk in KEYS]
    assert read_changes(container, start_time=since + timedelta(seconds=60)) == []


@THROUGHPUTS
def test_one_key(database: DatabaseProxy, throughput: int) -> None:
    container = create_feed_container(database, throughput)
    upsert_each_key(container)
    assert sorted_ids(read_changes(container, start_time="Beginning", partition_key="k3")) == [
        "x-k3"
    ]
    token = continuation(container)
    upsert_each_key(container, "y")
    assert sorted_ids(read_changes(container, continuation=token)) == ["y-k3"]
    assert read_changes(container, partition_key="unknown", start_time="Beginning") == []


@THROUGHPUTS
def test_a_hierarchical_prefix(database: DatabaseProxy, throughput: int) -> None:
    container = create_feed_container(
        database, throughput, partition_key=PartitionKey(["/a", "/b"], kind="MultiHash")
    )
    for a in "xyz":
        for b in "123":
            container.create_item({"id": a + b, "a": a, "b": b})
    found = read_changes(container, start_time="Beginning", partition_key=["y"])
    assert sorted_ids(found) == ["y1", "y2", "y3"]
    found = read_changes(container, start_time="Beginning", partition_key=["y", "2"])
    assert sorted_ids(found) == ["y2"]


@THROUGHPUTS
def test_feed_ranges(database: DatabaseProxy, throughput: int) -> None:
    container = create_feed_container(
        database, throughput, change_feed_policy={"retentionDuration": 10}
    )
    ranges = list(container.read_feed_ranges())
    assert len(ranges) == (1 if throughput == 400 else 4)
    tokens = []
    for feed_range in ranges:
        assert read_changes(container, feed_range=feed_range, mode=ALL) == []
        tokens.append(continuation(container))
    upsert_each_key(container)
    seen = [
        document["id"]
        for feed_range in ranges
        for document in read_changes(container, feed_range=feed_range, start_time="Beginning")
    ]
    assert sorted(seen) == [f"x-{pk}" for pk in KEYS]
    changes = [change for token in tokens for change in read_changes(container, continuation=token)]
    assert sorted_operations(changes) == [("create", f"x-{pk}") for pk in KEYS]
    of_key = container.feed_range_from_partition_key("k5")
    assert sorted_ids(read_changes(container, feed_range=of_key, start_time="Beginning")) == [
        "x-k5"
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_range_by_its_id_and_plain_etags(database: DatabaseProxy) -> None:
    """The way of older clients: the etag itself is the continuation."""
    container = create_feed_container(database)
    upsert_each_key(container)
    found = read_changes(container, partition_key_range_id="0", is_start_from_beginning=True)
    assert sorted_ids(found) == [f"x-{pk}" for pk in KEYS]
    token = continuation(container)
    assert token.strip('"').isdigit()
    upsert_each_key(container, "y")
    found = read_changes(container, partition_key_range_id="0", continuation=token)
    assert sorted_ids(found) == [f"y-{pk}" for pk in KEYS]
    found = read_changes(container, continuation=token.strip('"'))
    assert sorted_ids(found) == [f"y-{pk}" for pk in KEYS]


@THROUGHPUTS
def test_all_versions_and_deletes(database: DatabaseProxy, throughput: int) -> None:
    container = create_feed_container(
        database, throughput, change_feed_policy={"retentionDuration": 10}
    )
    assert read_changes(container, mode=ALL) == []
    start = continuation(container)
    for number in range(4):
        container.create_item({"id": f"doc{number}", "pk": f"pk{number}"})
    created = [("create", f"doc{number}") for number in range(4)]
    assert sorted_operations(read_changes(container, continuation=start, mode=ALL)) == created
    second = continuation(container)
    for number in range(4):
        container.replace_item(
            f"doc{number}", {"id": f"doc{number}", "pk": f"pk{number}", "version": 2}
        )
    changes = read_changes(container, continuation=second, mode=ALL)
    assert sorted_operations(changes) == [("replace", f"doc{number}") for number in range(4)]
    assert all(change["current"]["version"] == 2 for change in changes)
    third = continuation(container)
    for number in range(4):
        container.delete_item(f"doc{number}", f"pk{number}")
    changes = read_changes(container, continuation=third, mode=ALL)
    assert sorted_operations(changes) == [("delete", f"doc{number}") for number in range(4)]
    for change in changes:
        assert change["current"] == {}
        assert change["previous"]["version"] == 2
        assert change["metadata"]["timeToLiveExpired"] is False
        assert change["metadata"]["partitionKey"] == {"pk": change["previous"]["pk"]}
    assert len(read_changes(container, continuation=start)) == 12  # the token knows the mode
    assert read_changes(container, mode=ALL, partition_key="pk1") == []
    of_key = continuation(container)
    for number in range(4):
        container.create_item({"id": f"doc{number}", "pk": f"pk{number}"})
    assert sorted_operations(read_changes(container, continuation=of_key)) == [("create", "doc1")]


def test_all_versions_must_be_enabled(container: ContainerProxy) -> None:
    with refused(400, text="must be enabled"):
        read_changes(container, mode=ALL)


def test_a_continuation_that_is_too_old(database: DatabaseProxy, clock: MovableClock) -> None:
    container = create_feed_container(database, change_feed_policy={"retentionDuration": 10})
    read_changes(container, mode=ALL)
    token = continuation(container)
    container.create_item({"id": "x", "pk": "a"})
    clock.advance(601)
    with refused(400, text="from within the retention period"):
        read_changes(container, continuation=token)


def test_an_empty_poll_is_one_request(container: ContainerProxy, exchanges: Recorder) -> None:
    container.create_item({"id": "x", "pk": "a"})
    read_changes(container, start_time="Beginning")
    token = continuation(container)
    exchanges.clear()
    assert read_changes(container, continuation=token) == []
    assert [each.status for each in exchanges if each.path.endswith("/docs/")] == [304]


@THROUGHPUTS
async def test_asynchronous_client(
    open_database: OpenDatabase, throughput: int, clock: MovableClock
) -> None:
    async with open_database() as database:
        container = await database.create_container(
            "feed",
            PartitionKey("/pk"),
            offer_throughput=throughput,
            change_feed_policy={"retentionDuration": 10},
        )

        async def found(**options: Any) -> list[dict[str, Any]]:
            return [each async for each in container.query_items_change_feed(**options)]

        assert await found(mode=ALL) == []
        versions = async_continuation(container)
        assert await found() == []
        latest = async_continuation(container)
        for pk in KEYS:
            await container.create_item({"id": f"x-{pk}", "pk": pk})
        expected = [f"x-{pk}" for pk in KEYS]
        assert sorted_ids(await found(start_time="Beginning", max_item_count=2)) == expected
        assert sorted_ids(await found(continuation=latest)) == expected
        assert sorted_ids(await found(start_time="Beginning", partition_key="k4")) == ["x-k4"]
        ranges = [each async for each in container.read_feed_ranges()]
        in_ranges = [await found(feed_range=each, start_time="Beginning") for each in ranges]
        assert sorted(each["id"] for page in in_ranges for each in page) == expected
        clock.advance(30)
        assert await found(start_time=moment(clock)) == []
        await container.delete_item("x-k4", "k4")
        changes = await found(continuation=versions)
        assert sorted_operations(changes) == sorted(
            [*(("create", id_) for id_ in expected), ("delete", "x-k4")]
        )


def async_continuation(container: aio.ContainerProxy) -> str:
    token: str = container.client_connection.last_response_headers["etag"]
    return token
