"""Plans as the Python client carries them out, and the index metrics it shows.

The client asks for a plan only when a server tells it that it does not answer a query itself, which
a relaxed server never does; the tests call the part of the client that would then take over, and
compare what it merges with what the server answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from azure.cosmos._execution_context import execution_dispatcher

from tests.sdk.conftest import Recorder
from tests.support.sdk import refused
from tests.support.servers import RunningServer

COUNT = 24
Execution: Any = execution_dispatcher._ProxyQueryExecutionContext  # without annotations


@pytest.fixture(scope="session")
def server(relaxed_server: RunningServer) -> RunningServer:
    """Answers directly what the client merges, too."""
    return relaxed_server


@pytest.fixture(params=[400, 40000], ids=["one range", "four ranges"])
def container(request: pytest.FixtureRequest, database: DatabaseProxy) -> ContainerProxy:
    made: ContainerProxy = database.create_container(
        "c", PartitionKey("/pk"), offer_throughput=request.param
    )
    for n in range(COUNT):
        made.create_item({"id": f"{n:02}", "pk": f"k{n}", "n": n, "team": f"t{n % 3}", "h": n // 2})
    return made


def merged(container: ContainerProxy, text: str, page: int | None) -> list[Any]:
    """The rows that the client makes from those of each range."""
    query = {"query": text, "parameters": [{"name": "@five", "value": 5}]}
    options = {} if page is None else {"maxItemCount": page}
    execution = Execution(
        container.client_connection, container.container_link, query, options,
        None, None, None, "docs",
    )  # fmt: skip
    execution._create_execution_context_with_query_plan()

    def rows() -> Iterator[Any]:
        while block := execution.fetch_next_block():
            yield from block

    return list(rows())


def direct(container: ContainerProxy, text: str) -> list[Any]:
    parameters: list[dict[str, object]] = [{"name": "@five", "value": 5}]
    return list(
        container.query_items(text, parameters=parameters, enable_cross_partition_query=True)
    )


SORTED = [
    "SELECT * FROM c ORDER BY c.n",
    "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
    "SELECT c.id FROM c WHERE c.n > @five ORDER BY c.team DESC, c.n",
    "SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET @five LIMIT 7",
    "SELECT DISTINCT VALUE c.team FROM c ORDER BY c.team",
    "SELECT DISTINCT c.h FROM c ORDER BY c.h DESC OFFSET 1 LIMIT 3",
    "SELECT VALUE c.n FROM c WHERE c.pk IN ('k1', 'k2', 'k9') ORDER BY c.n",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE SUM(c.n) FROM c",
    "SELECT VALUE AVG(c.n) FROM c WHERE c.n > @five",
    "SELECT VALUE MIN(c.n) FROM c",
    "SELECT VALUE MAX(c.team) FROM c",
    "SELECT VALUE COUNTIF(c.n > @five) FROM c",
    "SELECT VALUE MAX(c.n) FROM c WHERE c.pk = 'k3'",
]


@pytest.mark.parametrize("page", [None, 1])
def test_merged_rows(container: ContainerProxy, page: int | None) -> None:
    for text in SORTED:
        assert merged(container, text, page) == direct(container, text), text
    for text in ("SELECT * FROM c", "SELECT DISTINCT VALUE c.team FROM c"):
        found, known = merged(container, text, page), direct(container, text)
        assert sorted(map(str, found)) == sorted(map(str, known)), text
    assert len(merged(container, "SELECT TOP 5 * FROM c", page)) == 5
    assert len(merged(container, "SELECT * FROM c OFFSET 20 LIMIT 9", page)) == COUNT - 20


@pytest.mark.parametrize(("text", "feature"), [
    ("SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team", "GroupBy"),
    ("SELECT COUNT(1) FROM c", "NonValueAggregate"),
])  # fmt: skip
def test_what_the_client_cannot_merge(container: ContainerProxy, text: str, feature: str) -> None:
    with refused(400, text=feature):
        merged(container, text, None)
    assert direct(container, text)


def test_the_server_answers_directly(container: ContainerProxy, exchanges: Recorder) -> None:
    rows: Any = container.query_items(
        "SELECT VALUE COUNT(1) FROM c", enable_cross_partition_query=True
    )
    assert list(rows) == [COUNT]
    assert exchanges.outcomes() == [("POST", 200)]
    with refused(400, 0, "Cross partition query is required but disabled."):
        list(container.query_items("SELECT * FROM c ORDER BY c.n"))


def test_index_metrics(container: ContainerProxy) -> None:
    rows = container.query_items(
        "SELECT * FROM c WHERE c.n = 1",
        enable_cross_partition_query=True,
        populate_index_metrics=True,
    )
    assert len(list(rows)) == 1
    header: Any = container.client_connection.last_response_headers["x-ms-cosmos-index-utilization"]
    assert [each["IndexSpec"] for each in header["UtilizedSingleIndexes"]] == ["/n/?"]
