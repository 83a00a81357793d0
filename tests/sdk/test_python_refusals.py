"""The official Python client with a strict server: it asks for a plan where it has to merge.

What it makes of the rows of several ranges differs from what a server answers directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey

from tests.sdk.conftest import OpenDatabase, Recorder
from tests.support.sdk import refused
from tests.support.servers import RunningServer


@pytest.fixture(scope="session")
def server(strict_server: RunningServer) -> RunningServer:
    return strict_server


@pytest.fixture(params=[400, 40000], ids=["one range", "several ranges"])
def container(request: pytest.FixtureRequest, database: DatabaseProxy) -> ContainerProxy:
    made: ContainerProxy = database.create_container(
        "c", PartitionKey("/pk"), offer_throughput=request.param
    )
    for n in range(12):
        made.create_item({"id": f"{n:02}", "pk": f"k{n}", "n": n, "team": f"t{n % 3}"})
    made.create_item({"id": "text", "pk": "other", "mixed": "text", "n": 12, "team": "t0"})
    made.upsert_item({"id": "00", "pk": "k0", "mixed": 5, "n": 0, "team": "t0"})
    return made


def across(container: ContainerProxy, text: str, **options: Any) -> list[Any]:
    return list(container.query_items(text, enable_cross_partition_query=True, **options))


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", [*range(12, -1, -1)]),
    ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", [0, 1, 2]),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 2", [2, 3]),
    ("SELECT DISTINCT VALUE c.team FROM c ORDER BY c.team", ["t0", "t1", "t2"]),
    ("SELECT VALUE COUNT(1) FROM c", [13]),
    ("SELECT VALUE SUM(c.n) FROM c", [78]),
    ("SELECT VALUE AVG(c.n) FROM c", [6]),
    ("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 3", [4]),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'", [1]),
    ("SELECT VALUE MAX(c.x) FROM c", [None]),  # nothing to aggregate: one row without a value
])  # fmt: skip
def test_what_the_client_merges(
    container: ContainerProxy, exchanges: Recorder, text: str, expected: list[Any]
) -> None:
    exchanges.clear()
    assert across(container, text) == expected
    first = next(exchange for exchange in exchanges if exchange.method == "POST")
    assert (first.status, first.sub_status) == (400, 1004)


@pytest.mark.parametrize("function", ["SUM", "AVG"])
def test_values_that_cannot_be_added(container: ContainerProxy, function: str) -> None:
    """The client leaves out a range whose values cannot be added; if all are like that, no value
    is left, but one row."""
    rows = across(container, f"SELECT VALUE {function}(c.mixed) FROM c")
    assert rows == ([None] if len(list(container.read_feed_ranges())) == 1 else [5])


def test_distinct_rows(container: ContainerProxy) -> None:
    teams = [{"team": f"t{n}"} for n in range(3)]
    for text in ("SELECT DISTINCT c.team FROM c", "SELECT DISTINCT c.team FROM c ORDER BY c.team"):
        assert sorted(across(container, text), key=lambda row: row["team"]) == teams


def test_sort_keys_of_several_types(container: ContainerProxy) -> None:
    if len(list(container.read_feed_ranges())) == 1:
        return  # nothing to compare
    with pytest.raises(ValueError, match=r"Expected \w+, but got \w+"):
        across(container, "SELECT * FROM c WHERE IS_DEFINED(c.mixed) ORDER BY c.mixed")


@pytest.mark.parametrize("text", [
    "SELECT COUNT(1) FROM c",
    "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team",
    "SELECT VALUE COUNT(1) + 5 FROM c",
    "SELECT COUNT(1) + SUM(c.n) FROM c",
    "SELECT * FROM c ORDER BY c.team, c.n",
])  # fmt: skip
def test_what_the_client_cannot_merge(container: ContainerProxy, text: str) -> None:
    with refused(400):
        across(container, text)


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT COUNT(1) AS n FROM c", [{"n": 1}]),
    ("SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team", [{"team": "t1", "n": 1}]),
    ("SELECT VALUE COUNT(1) + 5 FROM c", [6]),
])  # fmt: skip
def test_one_partition_is_left_to_the_server(
    container: ContainerProxy, exchanges: Recorder, text: str, expected: list[Any]
) -> None:
    exchanges.clear()
    assert list(container.query_items(text, partition_key="k1")) == expected
    assert [status for method, status in exchanges.outcomes() if method == "POST"] == [200]


def test_a_query_that_may_not_cross_partitions(
    container: ContainerProxy, exchanges: Recorder
) -> None:
    exchanges.clear()
    with refused(400, sub_status=0, text="Cross partition query is required but disabled"):
        list(container.query_items("SELECT VALUE COUNT(1) FROM c"))
    assert ("POST", 400) in exchanges.outcomes()
    assert ("POST", 200) not in exchanges.outcomes()
    with refused(400, sub_status=0, text="Cross partition query is required but disabled"):
        list(container.query_conflicts("SELECT * FROM c"))


def test_a_hook_is_called_for_each_range(container: ContainerProxy) -> None:
    count = len(list(container.read_feed_ranges()))

    def calls(text: str) -> int:
        seen: list[Mapping[str, Any]] = []
        across(container, text, response_hook=lambda headers, _: seen.append(headers))
        return len(seen)

    assert calls("SELECT * FROM c WHERE c.id = 'text'") == count, "pages without rows included"
    assert calls("SELECT VALUE COUNT(1) FROM c") == count, "without the refused call and the plan"


def test_the_asynchronous_client(open_database: OpenDatabase) -> None:
    async def queries() -> list[list[Any]]:
        async with open_database() as database:
            made = await database.create_container("c", PartitionKey("/pk"), offer_throughput=40000)
            for n in range(6):
                await made.create_item({"id": str(n), "pk": f"k{n}", "n": n})
            texts = ("SELECT VALUE c.n FROM c ORDER BY c.n", "SELECT VALUE MAX(c.x) FROM c")
            return [[row async for row in made.query_items(text)] for text in texts]

    assert asyncio.run(queries()) == [[0, 1, 2, 3, 4, 5], [None]]
