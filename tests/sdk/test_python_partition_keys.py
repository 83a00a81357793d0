"""Partition keys of every type, also hierarchical ones, through the Python client."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from tests.sdk.python_helpers import QUOTED, create_container, ids_of, query
from tests.support.sdk import refused


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("path", "fields", "value"),
    [
        ("/pk", {"pk": "text"}, "text"),
        ("/pk", {"pk": ""}, ""),
        ("/pk", {"pk": 'ünï ☃ 😀 "q" \\'}, 'ünï ☃ 😀 "q" \\'),
        ("/pk", {"pk": "x" * 100}, "x" * 100),
        ("/pk", {"pk": 0}, 0),
        ("/pk", {"pk": 5}, 5),
        ("/pk", {"pk": 5}, 5.0),
        ("/pk", {"pk": -1.5}, -1.5),
        ("/pk", {"pk": 2**53}, 2**53),
        ("/pk", {"pk": True}, True),
        ("/pk", {"pk": False}, False),
        ("/pk", {"pk": None}, NullPartitionKeyValue),
        ("/pk", {}, NonePartitionKeyValue),
        ("/pk", {"pk": {"an": "object"}}, NonePartitionKeyValue),
        ("/a/b", {"a": {"b": "x"}}, "x"),
        ("/a/b", {"a": {"c": 1}}, NonePartitionKeyValue),
        ("/a/b", {"a": "flat"}, NonePartitionKeyValue),
        (QUOTED, {"level' 1*()": {"le/vel2": "x"}}, "x"),
        ("/id", {}, "1"),
    ],
)
def test_partition_keys(
    database: DatabaseProxy, version: int, path: str, fields: dict[str, Any], value: Any
) -> None:
    container = database.create_container("c", PartitionKey(path, version=version))
    container.create_item({"id": "1"} | fields)
    container.upsert_item({"id": "1", "v": 1} | fields)
    container.replace_item("1", {"id": "1", "v": 2} | fields)
    assert container.read_item("1", value)["v"] == 2
    assert container.read_item(container.read_item("1", value), value)["v"] == 2
    with refused(404, 0):
        container.read_item("1", "another key")
    assert len(query(container, "SELECT * FROM c", partition_key=value)) == 1
    assert not query(container, "SELECT * FROM c", partition_key="another key")
    container.delete_item("1", value)
    assert list(container.read_all_items()) == []


def test_keys_of_other_types_are_other_partitions(container: ContainerProxy) -> None:
    keys: list[Any] = ["1", 1, True, False, None, 0, "", "true", "null"]
    for key in keys:
        container.create_item({"id": "same", "pk": key})
    container.create_item({"id": "same"})
    for key in keys:
        assert container.read_item("same", key)["pk"] == key
        with refused(409):
            container.create_item({"id": "same", "pk": key})
    assert "pk" not in container.read_item("same", NonePartitionKeyValue)
    assert len(list(container.read_all_items())) == len(keys) + 1


@pytest.mark.parametrize(
    ("fields", "levels"),
    [
        ({"tenant": "t", "user": {"id": "u"}, "session": "s"}, ["t", "u", "s"]),
        ({"tenant": "t", "user": {"id": 5}, "session": True}, ["t", 5, True]),
        ({"tenant": None, "user": {"id": None}, "session": None}, [None, None, None]),
        ({"tenant": "ü", "user": {"id": ""}, "session": 1.5}, ["ü", "", 1.5]),
    ],
)
def test_hierarchical_keys(
    database: DatabaseProxy, fields: dict[str, Any], levels: list[Any]
) -> None:
    container = create_container(database, ["/tenant", "/user/id", "/session"])
    container.create_item({"id": "1"} | fields)
    container.upsert_item({"id": "1", "v": 1} | fields)
    container.replace_item("1", {"id": "1", "v": 2} | fields)
    item = container.read_item("1", levels)
    assert item["v"] == 2
    assert container.read_item(item, levels) == item
    with refused(404, 0):
        container.read_item("1", ["other", *levels[1:]])
    assert ids_of(container.query_items("SELECT * FROM c", partition_key=levels)) == ["1"]
    container.delete_item("1", levels)
    assert list(container.read_all_items()) == []


@pytest.mark.parametrize("levels", [["t"], ["t", "u"], "t"])
def test_incomplete_hierarchical_keys(database: DatabaseProxy, levels: Any) -> None:
    container = create_container(database, ["/tenant", "/user", "/session"])
    container.create_item({"id": "1", "tenant": "t", "user": "u", "session": "s"})
    with refused(400):
        container.read_item("1", levels)
    with refused(400):
        container.delete_item("1", levels)


def test_absent_levels_do_not_match(database: DatabaseProxy) -> None:
    # The client sends null for a level that the body lacks; to the server it is undefined.
    container = create_container(database, ["/tenant", "/user"])
    with refused(400, 1001):
        container.create_item({"id": "1", "tenant": "t"})


def test_key_prefixes_select_subtrees(database: DatabaseProxy) -> None:
    container = create_container(
        database, ["/tenant", "/user", "/session"], offer_throughput=18_000
    )
    for number in range(24):
        container.create_item(
            {
                "id": str(number),
                "tenant": f"t{number % 2}",
                "user": f"u{number % 4}",
                "session": f"s{number % 8}",
            }
        )

    for prefix, count in ((["t0"], 12), (["t0", "u2"], 6), (["t0", "u1"], 0), (["x"], 0)):
        assert len(query(container, "SELECT * FROM c", partition_key=prefix)) == count
    total = query(container, "SELECT VALUE COUNT(1) FROM c", partition_key=["t1"])
    assert total == [12]
