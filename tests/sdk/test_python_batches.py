"""Patches and transactional batches through the Python clients, synchronous and asynchronous."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosBatchOperationError,
    CosmosResourceNotFoundError,
)

from tests.sdk.conftest import OpenDatabase, Recorder
from tests.support.replies import without_system
from tests.support.sdk import refused

OTHER_ETAG = '"00000000-0000-0000-0000-000000000000"'
PRODUCT = {
    "id": "p1",
    "pk": "a",
    "price": 10,
    "stock": {"count": 5, "home": "x"},
    "tags": ["one", "two"],
    "old": True,
}
CHANGES: list[dict[str, Any]] = [
    {"op": "add", "path": "/color", "value": "red"},
    {"op": "remove", "path": "/old"},
    {"op": "replace", "path": "/price", "value": 9.5},
    {"op": "set", "path": "/tags/0", "value": "first"},
    {"op": "add", "path": "/tags/-", "value": "last"},
    {"op": "incr", "path": "/stock/count", "value": -2},
    {"op": "move", "from": "/stock/home", "path": "/home"},
]
CHANGED = {
    "id": "p1",
    "pk": "a",
    "price": 9.5,
    "stock": {"count": 3},
    "tags": ["first", "two", "last"],
    "color": "red",
    "home": "x",
}
BATCH: list[Any] = [
    ("create", ({"id": "1", "pk": "a", "n": 1},)),
    ("upsert", ({"id": "2", "pk": "a", "n": 2},)),
    ("replace", ("1", {"id": "1", "pk": "a", "n": 3})),
    ("patch", ("2", [{"op": "incr", "path": "/n", "value": 5}])),
    ("read", ("1",)),
    ("delete", ("1",)),
]
STATUSES = [201, 201, 200, 200, 200, 204]


# Patch -------------------------------------------------------------------------------------------


def test_patch(container: ContainerProxy, exchanges: Recorder) -> None:
    old = container.create_item(dict(PRODUCT))
    new = container.patch_item("p1", "a", CHANGES)
    assert without_system(new) == CHANGED
    assert new["_etag"] != old["_etag"]
    assert new.get_response_headers()["etag"] == new["_etag"]
    assert container.read_item("p1", "a") == new
    sent = next(exchange for exchange in exchanges if exchange.method == "PATCH")
    assert sent.sent["Content-Type"] == "application/json-patch+json"


def test_patch_by_condition(container: ContainerProxy) -> None:
    container.create_item(dict(PRODUCT))
    operations = [{"op": "incr", "path": "/price", "value": 1}]
    met = container.patch_item("p1", "a", operations, filter_predicate="from c where c.price = 10")
    assert met["price"] == 11
    with pytest.raises(CosmosAccessConditionFailedError):
        container.patch_item("p1", "a", operations, filter_predicate="from c where c.price = 10")
    with refused(400):
        container.patch_item("p1", "a", operations, filter_predicate="c.price = 11")
    assert container.read_item("p1", "a")["price"] == 11


def test_patch_by_etag(container: ContainerProxy) -> None:
    etag = container.create_item(dict(PRODUCT))["_etag"]
    operations = [{"op": "set", "path": "/price", "value": 1}]
    unmodified = MatchConditions.IfNotModified
    with pytest.raises(CosmosAccessConditionFailedError):
        container.patch_item("p1", "a", operations, etag=OTHER_ETAG, match_condition=unmodified)
    container.patch_item("p1", "a", operations, etag=etag, match_condition=unmodified)
    assert container.read_item("p1", "a")["price"] == 1


def test_patch_refusals(container: ContainerProxy) -> None:
    with pytest.raises(CosmosResourceNotFoundError):
        container.patch_item("p1", "a", [{"op": "set", "path": "/n", "value": 1}])
    container.create_item(dict(PRODUCT))
    for operations in (
        [{"op": "set", "path": "/n", "value": 1}] * 11,
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "set", "path": "/id", "value": "p2"}],
        [{"op": "replace", "path": "/pk", "value": "b"}],
        [{"op": "incr", "path": "/tags", "value": 1}],
    ):
        with refused(400):
            container.patch_item("p1", "a", operations)
    assert without_system(container.read_item("p1", "a")) == PRODUCT


def test_patch_without_an_answer(container: ContainerProxy) -> None:
    container.create_item(dict(PRODUCT))
    operations = [{"op": "set", "path": "/price", "value": 1}]
    assert dict(container.patch_item("p1", "a", operations, no_response=True)) == {}
    assert container.read_item("p1", "a")["price"] == 1


# Batch -------------------------------------------------------------------------------------------


def test_batch(container: ContainerProxy) -> None:
    results = container.execute_item_batch(BATCH, "a")
    assert [result["statusCode"] for result in results] == STATUSES
    assert [result.get("resourceBody", {}).get("n") for result in results] == [1, 2, 3, 7, 3, None]
    assert float(results.get_response_headers()["x-ms-request-charge"]) == pytest.approx(
        sum(result["requestCharge"] for result in results)
    )
    assert [item["id"] for item in container.read_all_items()] == ["2"]


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        (("create", ({"id": "there", "pk": "a"},)), 409),
        (("read", ("missing",)), 404),
        (("replace", ("missing", {"id": "missing", "pk": "a"})), 404),
        (("delete", ("missing",)), 404),
        (("create", ({"id": "x", "pk": "b"},)), 400),
        (("create", ({"pk": "a"},)), 400),
        (("patch", ("there", [{"op": "remove", "path": "/nothing"}])), 400),
        (("replace", ("there", {"id": "there", "pk": "a"}), {"if_match_etag": OTHER_ETAG}), 412),
        (
            (
                "patch",
                ("there", [{"op": "set", "path": "/n", "value": 1}]),
                {"filter_predicate": "from c where c.n = 5"},
            ),
            412,
        ),
    ],
)
def test_batch_failures(container: ContainerProxy, operation: Any, status: int) -> None:
    there = container.create_item({"id": "there", "pk": "a"})
    operations = [("create", ({"id": "new", "pk": "a"},)), operation, ("delete", ("there",))]
    with pytest.raises(CosmosBatchOperationError) as caught:
        container.execute_item_batch(operations, "a")
    assert caught.value.error_index == 1
    assert caught.value.status_code == status
    assert [result["statusCode"] for result in caught.value.operation_responses] == [
        424,
        status,
        424,
    ]
    assert list(container.read_all_items()) == [there]


def test_batch_etags(container: ContainerProxy) -> None:
    etag = container.create_item({"id": "1", "pk": "a"})["_etag"]
    results = container.execute_item_batch(
        [
            ("replace", ("1", {"id": "1", "pk": "a", "n": 1}), {"if_match_etag": etag}),
            ("upsert", ({"id": "2", "pk": "a"},), {"if_none_match_etag": "*"}),
        ],
        "a",
    )
    assert [result["statusCode"] for result in results] == [200, 201]
    assert results[0]["eTag"] == container.read_item("1", "a")["_etag"]


def test_batch_limits(container: ContainerProxy) -> None:
    with refused(400, text="Batch request has no operations."):
        container.execute_item_batch([], "a")
    operations = [("create", ({"id": str(number), "pk": "a"},)) for number in range(101)]
    with refused(400, text="Batch request has more operations than what is supported."):
        container.execute_item_batch(operations, "a")
    assert len(container.execute_item_batch(operations[:100], "a")) == 100
    large = "x" * (1024 * 1024)
    with refused(413):
        container.execute_item_batch(
            [("upsert", ({"id": name, "pk": "a", "text": large},)) for name in ("x", "y")], "a"
        )


def test_batch_moves_the_lsn_by_one(container: ContainerProxy) -> None:
    container.upsert_item({"id": "1", "pk": "a"})
    before = int(container.client_connection.last_response_headers["lsn"])
    results = container.execute_item_batch(
        [("upsert", ({"id": str(number), "pk": "a"},)) for number in range(6)], "a"
    )
    assert int(results.get_response_headers()["lsn"]) == before + 1


def test_batch_of_a_hierarchical_key(database: DatabaseProxy) -> None:
    key = PartitionKey(["/a", "/b"], kind="MultiHash")
    container = database.create_container("h", key)
    results = container.execute_item_batch(
        [("create", ({"id": "1", "a": "x", "b": "y"},)), ("read", ("1",))], ["x", "y"]
    )
    assert [result["statusCode"] for result in results] == [201, 200]
    with refused(400, 1001, "Partition key provided either doesn't correspond"):
        container.execute_item_batch([("read", ("1",))], ["x"])


# Asynchronous ------------------------------------------------------------------------------------


async def test_patch_async(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await database.create_container("c", PartitionKey("/pk"))
        await container.create_item(dict(PRODUCT))
        assert without_system(await container.patch_item("p1", "a", CHANGES)) == CHANGED
        with pytest.raises(CosmosAccessConditionFailedError):
            await container.patch_item(
                "p1", "a", CHANGES[:1], filter_predicate="from c where c.price = 10"
            )
        with refused(400):
            await container.patch_item("p1", "a", [{"op": "remove", "path": "/nothing"}])


async def test_batch_async(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await database.create_container("c", PartitionKey("/pk"))
        results = await container.execute_item_batch(BATCH, "a")
        assert [result["statusCode"] for result in results] == STATUSES
        with pytest.raises(CosmosBatchOperationError) as caught:
            await container.execute_item_batch(
                [("delete", ("2",)), ("create", ({"id": "3", "pk": "b"},))], "a"
            )
        assert (caught.value.error_index, caught.value.status_code) == (1, 400)
        assert [item["id"] async for item in container.read_all_items()] == ["2"]
