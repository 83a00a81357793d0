"""The sixty most frequent queries through the Python clients, over one range and over four."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey, aio

from tests.query.golden import FILES, is_ordered
from tests.query.shelves import THROUGHPUT, plain
from tests.sdk.conftest import refused

(TOP60,) = (golden for golden in FILES if golden.name == "top60")
SIZES: Final = (None, 1)
DATABASE: Final = "top60"
GIVEN: Final = [case for case in TOP60.cases if "error" not in case]
REFUSED: Final = [case for case in TOP60.cases if "error" in case]

# Ranges and whether there are items.
Shelves = dict[tuple[int, bool], ContainerProxy]


def number_of(case: dict[str, Any]) -> str:
    return f"{case['number']}: {case['query']}"


@pytest.fixture(scope="module")
def home(cosmos: CosmosClient) -> Iterator[DatabaseProxy]:
    made: DatabaseProxy = cosmos.create_database(DATABASE)
    yield made
    cosmos.delete_database(DATABASE)


@pytest.fixture(scope="module")
def shelves(home: DatabaseProxy) -> Shelves:
    """Containers with one range and with four, filled and empty."""
    made: Shelves = {}
    for ranges, filled in itertools.product(THROUGHPUT, (True, False)):
        container = home.create_container(
            f"{ranges}-{filled}",
            PartitionKey("/pk"),
            offer_throughput=int(THROUGHPUT[ranges]),
        )
        assert len(list(container.read_feed_ranges())) == ranges
        for document in TOP60.documents if filled else ():
            container.create_item(document)
        made[ranges, filled] = container
    return made


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


def check(case: dict[str, Any], rows: list[Any], ranges: int, filled: bool) -> None:
    expected = TOP60.expected(case) if filled else case.get("empty", [])
    if isinstance(expected, int):
        assert len(rows) == expected, case
        return
    found, wanted = ([plain(row, 14) for row in each] for each in (rows, expected))
    if not is_ordered(case) or (case.get("tied") and ranges > 1):
        found.sort()
        wanted.sort()
    assert found == wanted, case


@pytest.mark.parametrize("case", GIVEN, ids=number_of)
def test_given(shelves: Shelves, case: dict[str, Any]) -> None:
    for (ranges, filled), container in shelves.items():
        for size in SIZES:
            pages = container.query_items(**sent(case, size)).by_page()
            listed = [list(page) for page in pages]
            assert size is None or all(len(page) <= size for page in listed)
            check(case, [row for page in listed for row in page], ranges, filled)


@pytest.mark.parametrize("case", REFUSED, ids=number_of)
def test_refused(shelves: Shelves, case: dict[str, Any]) -> None:
    for container in shelves.values():
        with refused(400, 0, case["text"]):
            list(container.query_items(**sent(case, None)))


def test_within_a_partition(shelves: Shelves) -> None:
    """The key given beside the query keeps it in one logical partition."""
    for (ranges, filled), container in shelves.items():
        found: Any = container.query_items("SELECT VALUE c.id FROM c", partition_key="B")
        assert sorted(found) == (["a1", "b1"] if filled else []), ranges


@asynccontextmanager
async def opened(endpoint: str, key: str) -> AsyncIterator[aio.DatabaseProxy]:
    async with aio.CosmosClient(endpoint, key) as client:
        yield client.get_database_client(DATABASE)


async def test_asynchronous(shelves: Shelves, endpoint: str, key: str) -> None:
    async with opened(endpoint, key) as database:

        async def drain(case: dict[str, Any], ranges: int, filled: bool, size: int | None) -> None:
            container = database.get_container_client(f"{ranges}-{filled}")
            rows = container.query_items(**sent_without_flag(case, size))
            check(case, [row async for row in rows], ranges, filled)

        async def refuse(case: dict[str, Any], ranges: int, filled: bool) -> None:
            container = database.get_container_client(f"{ranges}-{filled}")
            with refused(400, 0, case["text"]):
                async for _ in container.query_items(**sent_without_flag(case, None)):
                    pass

        for place in shelves:
            for size in SIZES:
                await asyncio.gather(*(drain(case, *place, size) for case in GIVEN))
            await asyncio.gather(*(refuse(case, *place) for case in REFUSED))
