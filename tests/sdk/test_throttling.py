"""429 and the official Python SDK: it waits as long as it is told, and then gets through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from azure.cosmos import CosmosClient, PartitionKey, aio

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.sdk import refused
from tests.support.servers import RunningServer, Servers

LARGE = "x" * 900 * 1024  # costs more than a second's 400 RU to write
# The part of a second that has passed: what is left of it is what the client sleeps.
LATE = 0.75


@dataclass
class Second:
    """Lets the server's clock enter the next second when a client has been told to wait for it."""

    clock: MovableClock
    waits: list[int] = field(default_factory=list)

    def note(self, response: Any) -> None:
        if response.http_response.status_code == 429:
            self.waits.append(int(response.http_response.headers["x-ms-retry-after-ms"]))
            self.clock.advance(self.waits[-1] / 1000)


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers("frozen", enforce_throughput=True)


@pytest.fixture
def second(clock: MovableClock) -> Second:
    clock.set(int(clock.now()) + 100 + LATE)
    return Second(clock)


def test_the_client_waits_and_gets_through(settings: Settings, second: Second, name: str) -> None:
    with CosmosClient(settings.endpoint, settings.key, raw_response_hook=second.note) as client:
        database = client.create_database(name)
        container = database.create_container("c", PartitionKey("/pk"))
        container.create_item({"id": "large", "pk": "p", "text": LARGE})
        container.create_item({"id": "small", "pk": "p"})
        assert second.waits == [250]
        assert container.read_item("small", "p")["id"] == "small"
        assert second.waits == [250]
        client.delete_database(name)


async def test_the_asynchronous_client_does_the_same(
    settings: Settings, second: Second, name: str
) -> None:
    async with aio.CosmosClient(
        settings.endpoint, settings.key, raw_response_hook=second.note
    ) as client:
        database = await client.create_database(name)
        container = await database.create_container("c", PartitionKey("/pk"))
        await container.create_item({"id": "large", "pk": "p", "text": LARGE})
        await container.create_item({"id": "small", "pk": "p"})
        assert second.waits == [250]
        assert (await container.read_item("small", "p"))["id"] == "small"
        assert second.waits == [250]
        await client.delete_database(name)


def test_a_client_that_gives_up_gets_the_error(
    settings: Settings, second: Second, name: str
) -> None:
    with CosmosClient(settings.endpoint, settings.key, retry_total=1) as client:
        database = client.create_database(name)
        container = database.create_container("c", PartitionKey("/pk"))
        container.create_item({"id": "large", "pk": "p", "text": LARGE})
        with refused(429, 3200, "Request rate is large.") as caught:
            container.create_item({"id": "small", "pk": "p"})
        assert caught.value.headers["x-ms-retry-after-ms"] == "250"
        second.clock.advance(1)
        assert [item["id"] for item in container.read_all_items()] == ["large"]
        client.delete_database(name)


def test_low_priority_goes_first(settings: Settings, second: Second, name: str) -> None:
    with CosmosClient(settings.endpoint, settings.key, retry_total=1) as client:
        database = client.create_database(name)
        container = database.create_container("c", PartitionKey("/pk"))
        container.create_item({"id": "a", "pk": "p", "text": LARGE}, priority="High")
        second.clock.advance(1)
        container.create_item({"id": "b", "pk": "p"}, priority="High")
        with refused(429, 3200):
            container.read_item("b", "p", priority="Low")
        assert container.read_item("b", "p", priority="High")["id"] == "b"
        client.delete_database(name)


def test_a_query_goes_on_after_a_wait(settings: Settings, second: Second, name: str) -> None:
    """Pages get shorter, then the client waits: in the end everything is there, once."""
    with CosmosClient(settings.endpoint, settings.key, raw_response_hook=second.note) as client:
        database = client.create_database(name)
        container = database.create_container("c", PartitionKey("/pk"))
        for number in range(6):
            container.create_item({"id": str(number), "pk": "p", "text": LARGE})
            second.clock.set(int(second.clock.now()) + 10 + LATE)
        found = container.query_items("SELECT c.id FROM c", partition_key="p")
        assert [item["id"] for item in found] == list("012345")
        assert second.waits == [250]
        client.delete_database(name)
