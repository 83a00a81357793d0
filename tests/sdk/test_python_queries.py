"""Read feeds, read_items and queries through the synchronous Python client."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy
from azure.cosmos.partition_key import NonePartitionKeyValue

from tests.sdk.conftest import Recorder, Reopen
from tests.sdk.python_helpers import COMPUTED, create_container, create_items, ids_of, query
from tests.support.sdk import refused


def test_read_feed_pages(container: ContainerProxy, exchanges: Recorder) -> None:
    ids = create_items(container, 25, keys=3)
    exchanges.clear()
    pages = [ids_of(page) for page in container.read_all_items(max_item_count=7).by_page()]
    assert [len(page) for page in pages] == [7, 7, 7, 4]
    assert sorted(chain(*pages)) == ids
    feed = [each for each in exchanges if each.path.endswith("/docs/")]
    assert [int(each.received["x-ms-item-count"]) for each in feed] == [7, 7, 7, 4]
    assert ["x-ms-continuation" in each.received for each in feed] == [True, True, True, False]
    assert not any("etag" in each.received for each in feed)


def test_read_feed_of_an_empty_container(container: ContainerProxy) -> None:
    assert list(container.read_all_items()) == []


def test_exact_last_page_has_no_continuation(
    container: ContainerProxy, exchanges: Recorder
) -> None:
    create_items(container, 10)
    exchanges.clear()
    pages = list(map(list, container.read_all_items(max_item_count=5).by_page()))
    assert [len(page) for page in pages] == [5, 5]
    assert "x-ms-continuation" not in exchanges[-1].received


def test_read_feed_resumes(container: ContainerProxy, reopen: Reopen) -> None:
    ids = create_items(container, 12, keys=4)
    pager = container.read_all_items(max_item_count=5).by_page()
    first = ids_of(next(pager))
    token = pager.continuation_token  # type: ignore[attr-defined]
    assert token
    other = reopen().get_container_client("c")
    rest = [ids_of(page) for page in other.read_all_items(max_item_count=4).by_page(token)]
    assert [len(page) for page in rest] == [4, 3]
    assert sorted(chain(first, *rest)) == ids


def test_foreign_continuations_are_refused(container: ContainerProxy) -> None:
    with refused(400):
        next(container.read_all_items().by_page("not a token"))
    with refused(400):
        next(container.query_items("SELECT * FROM c", partition_key="a").by_page("not a token"))


def test_read_items(database: DatabaseProxy) -> None:
    container = create_container(database, offer_throughput=18_000)
    create_items(container, 40, keys=10)
    wanted: list[Any] = [(f"{number:03}", f"k{number % 10}") for number in range(0, 40, 3)]
    found = container.read_items([*wanted, ("absent", "k1"), ("001", "k2")])
    assert ids_of(found) == [item_id for item_id, _ in wanted]
    assert float(found.get_response_headers()["x-ms-request-charge"]) > 0
    assert container.read_items([]) == []
    assert ids_of(container.read_items([("007", "k7")])) == ["007"]
    assert container.read_items([("absent", "k7")]) == []
    same_key: list[Any] = [("003", "k3"), ("013", "k3"), ("absent", "k3")]
    assert ids_of(container.read_items(same_key)) == ["003", "013"]


def test_read_items_keyed_by_id(database: DatabaseProxy) -> None:
    container = create_container(database, "/id")
    for number in range(5):
        container.create_item({"id": str(number)})
    found = container.read_items([("1", "1"), ("3", "3"), ("9", "9")])
    assert ids_of(found) == ["1", "3"]


def test_read_items_with_all_sorts_of_keys(database: DatabaseProxy) -> None:
    container = create_container(database)
    keys: list[Any] = ["a", 1, 2.5, True, False]
    for number, key in enumerate(keys):
        container.create_item({"id": str(number), "pk": key})
    container.create_item({"id": "none"})
    wanted: list[Any] = [(str(number), key) for number, key in enumerate(keys)]
    found = container.read_items([*wanted, ("none", NonePartitionKeyValue)])
    assert ids_of(found) == ["0", "1", "2", "3", "4", "none"]


def test_read_items_with_hierarchical_keys(database: DatabaseProxy) -> None:
    container = create_container(database, ["/a", "/b"])
    for number in range(6):
        container.create_item({"id": str(number), "a": f"a{number % 2}", "b": number})
    found = container.read_items(
        [(str(number), [f"a{number % 2}", number]) for number in (1, 2, 5)]
    )
    assert ids_of(found) == ["1", "2", "5"]


def test_read_a_thousand_items(container: ContainerProxy) -> None:
    for number in range(5):
        container.create_item({"id": str(number * 100), "pk": number})
    found = container.read_items([(str(number), number // 100) for number in range(1000)])
    assert ids_of(found) == ["0", "100", "200", "300", "400"]


# Queries ------------------------------------------------------------------------------------------


def test_query_in_one_partition(container: ContainerProxy, exchanges: Recorder) -> None:
    create_items(container, 12, keys=3)
    found = container.query_items(
        "SELECT c.id, c.n FROM c WHERE c.n >= @least",
        parameters=[{"name": "@least", "value": 5}],
        partition_key="k0",
    )
    assert sorted(found, key=lambda row: row["n"]) == [{"id": "006", "n": 6}, {"id": "009", "n": 9}]
    assert exchanges[-1].status == 200
    assert exchanges[-1].received["x-ms-item-count"] == "2"
    assert "etag" not in exchanges[-1].received
    assert float(found.get_response_headers()["x-ms-request-charge"]) > 0


@pytest.mark.parametrize("throughput", [400, 18_000])
def test_query_across_partitions(database: DatabaseProxy, throughput: int) -> None:
    container = create_container(database, offer_throughput=throughput)
    ids = create_items(container, 30, keys=30)

    def ask(text: str, **parameters: Any) -> list[Any]:
        given = [{"name": f"@{name}", "value": value} for name, value in parameters.items()]
        return query(container, text, parameters=given, enable_cross_partition_query=True)

    assert sorted(ids_of(ask("SELECT * FROM c"))) == ids
    assert ask("SELECT VALUE c.id FROM c WHERE c.pk = @pk", pk="k7") == ["007"]
    assert ask("SELECT VALUE c.id FROM c WHERE c.n < 3 ORDER BY c.n DESC") == ids[2::-1]
    assert ask("SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n") == [0, 1]
    assert ask("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 4 LIMIT 2") == [4, 5]
    assert ask("SELECT VALUE COUNT(1) FROM c") == [30]
    assert ask("SELECT VALUE SUM(c.n) FROM c WHERE c.n <= @most", most=3) == [6]
    assert ask("SELECT * FROM c WHERE c.n = @none", none="x") == []


def test_query_must_mean_to_cross_partitions(container: ContainerProxy) -> None:
    container.create_item({"id": "1", "pk": "a"})
    with refused(
        400,
        0,
        "Cross partition query is required but disabled. Please set"
        " x-ms-documentdb-query-enablecrosspartition to true, specify"
        " x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
    ):
        list(container.query_items("SELECT * FROM c"))
    assert ids_of(container.query_items("SELECT * FROM c WHERE c.pk = 'a'")) == ["1"]


@pytest.mark.parametrize("order", ["", " ORDER BY c.n"])
def test_query_pages_and_resumes(container: ContainerProxy, order: str) -> None:
    create_items(container, 11)
    text = f"SELECT VALUE c.n FROM c WHERE c.n != 4{order}"

    def pages(size: int, token: str | None = None) -> Any:
        found = container.query_items(text, partition_key="k0", max_item_count=size)
        return found.by_page(token)

    assert [len(list(page)) for page in pages(4)] == [4, 4, 2]
    pager = pages(4)
    first = list(next(pager))
    rest = [list(page) for page in pages(5, pager.continuation_token)]
    assert [len(page) for page in rest] == [5, 1]
    assert sorted(chain(first, *rest)) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


def test_query_errors(container: ContainerProxy) -> None:
    with refused(400, 0, "SC1001"):
        list(container.query_items("SELECT FROM WHERE", partition_key="a"))


def test_computed_properties(database: DatabaseProxy) -> None:
    container = create_container(database, computed_properties=COMPUTED)
    container.create_item({"id": "1", "pk": "a", "name": "ADA"})
    text = "SELECT VALUE c.lower FROM c WHERE c.lower = 'ada'"
    assert query(container, text, partition_key="a") == ["ada"]
    (item,) = query(container, "SELECT * FROM c", partition_key="a")
    assert "lower" not in item
