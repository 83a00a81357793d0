"""The sixty most frequent queries through the Python clients, over one range and over four."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey, aio

from tests.query.filled_containers import THROUGHPUT, normalized
from tests.query.golden import FILES, is_ordered
from tests.support.sdk import refused
from tests.support.servers import RunningServer

(TOP60,) = (golden for golden in FILES if golden.name == "top60")
SIZES: Final = (None, 1)
DATABASE: Final = "top60"
GIVEN: Final = [case for case in TOP60.cases if "error" not in case]
REFUSED: Final = [case for case in TOP60.cases if "error" in case]

# Ranges and whether there are items.
Containers = dict[tuple[int, bool], ContainerProxy]


@pytest.fixture(scope="session")
def server(relaxed_server: RunningServer) -> RunningServer:
    """Some of these queries are refused by the service, or cannot be merged by the client."""
    return relaxed_server


def number_of(case: dict[str, Any]) -> str:
    return f"{case['number']}: {case['query']}"


@pytest.fixture(scope="module")
def top60_database(cosmos: CosmosClient) -> Iterator[DatabaseProxy]:
    created: DatabaseProxy = cosmos.create_database(DATABASE)
    yield created
    cosmos.delete_database(DATABASE)


@pytest.fixture(scope="module")
def containers(top60_database: DatabaseProxy) -> Containers:
    """Containers with one range and with four, filled and empty."""
    created: Containers = {}
    for ranges, filled in itertools.product(THROUGHPUT, (True, False)):
        container = top60_database.create_container(
            f"{ranges}-{filled}",
            PartitionKey("/pk"),
            offer_throughput=int(THROUGHPUT[ranges]),
        )
        assert len(list(container.read_feed_ranges())) == ranges
        for document in TOP60.documents if filled else ():
            container.create_item(document)
        created[ranges, filled] = container
    return created


def sent(case: dict[str, Any], size: int | None) -> dict[str, Any]:
    """A case as arguments of the client."""
    given = case.get("parameters", {}).items()
    return {
        "query": case["query"],
        "parameters": [{"name": name, "value": value} for name, value in given],
        "enable_cross_partition_query": True,
        "max_item_count": size,
    }


def sent_without_flag(case: dict[str, Any], size: int | None) -> dict[str, Any]:
    """The asynchronous client always crosses partitions."""
    arguments = sent(case, size)
    del arguments["enable_cross_partition_query"]
    return arguments


def check_rows(case: dict[str, Any], rows: list[Any], ranges: int, filled: bool) -> None:
    expected = TOP60.expected(case) if filled else case.get("empty", [])
    if isinstance(expected, int):
        assert len(rows) == expected, case
        return
    found, wanted = ([normalized(row, 14) for row in each] for each in (rows, expected))
    if not is_ordered(case) or (case.get("tied") and ranges > 1):
        found.sort()
        wanted.sort()
    assert found == wanted, case


@pytest.mark.parametrize("case", GIVEN, ids=number_of)
def test_given(containers: Containers, case: dict[str, Any]) -> None:
    for (ranges, filled), container in containers.items():
        for size in SIZES:
            pages = container.query_items(**sent(case, size)).by_page()
            listed = [list(page) for page in pages]
            assert size is None or all(len(page) <= size for page in listed)
            check_rows(case, [row for page in listed for row in page], ranges, filled)


@pytest.mark.parametrize("case", REFUSED, ids=number_of)
def test_refused(containers: Containers, case: dict[str, Any]) -> None:
    for container in containers.values():
        with refused(400, 0, case["text"]):
            list(container.query_items(**sent(case, None)))


def test_within_a_partition(containers: Containers) -> None:
    """The key given with the query keeps it in one logical partition."""
    for (ranges, filled), container in containers.items():
        found: Any = container.query_items("SELECT VALUE c.id FROM c", partition_key="B")
        assert sorted(found) == (["a1", "b1"] if filled else []), ranges


@asynccontextmanager
async def opened(endpoint: str, key: str) -> AsyncIterator[aio.DatabaseProxy]:
    async with aio.CosmosClient(endpoint, key) as client:
        yield client.get_database_client(DATABASE)


async def test_asynchronous(containers: Containers, endpoint: str, key: str) -> None:
    async with opened(endpoint, key) as database:

        async def drain(case: dict[str, Any], ranges: int, filled: bool, size: int | None) -> None:
            container = database.get_container_client(f"{ranges}-{filled}")
            rows = container.query_items(**sent_without_flag(case, size))
            check_rows(case, [row async for row in rows], ranges, filled)

        async def refuse(case: dict[str, Any], ranges: int, filled: bool) -> None:
            container = database.get_container_client(f"{ranges}-{filled}")
            with refused(400, 0, case["text"]):
                async for _ in container.query_items(**sent_without_flag(case, None)):
                    pass

        for place in containers:
            for size in SIZES:
                await asyncio.gather(*(drain(case, *place, size) for case in GIVEN))
            await asyncio.gather(*(refuse(case, *place) for case in REFUSED))
