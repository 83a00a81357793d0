"""Fixtures for the effects of expiry; most tests run before and after the purge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY, temporary_database
from tests.support.servers import RunningServer
from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.effects.stock import EVERYONE, LIVING, Bury, Stock, stock_item


@pytest.fixture(params=["unpurged", "purged"])
def bury(request: pytest.FixtureRequest) -> Bury:
    """Called when items have died: leaves them where they are, or removes them."""

    def leave(_shelf: Shelf) -> None:
        return

    def remove(shelf: Shelf) -> None:
        shelf.drain()

    return remove if request.param == "purged" else leave


@pytest.fixture
def shelf(shelves: Shelves) -> Shelf:
    """Lifetimes are the items' own."""
    return shelves.make(-1)


@pytest.fixture
def dead(shelf: Shelf, bury: Bury) -> dict[str, Any]:
    """The item `dead` as it was while it lived; `alive` lies beside it."""
    stored = shelf.create("dead", 5)
    shelf.create("alive")
    shelf.clock.advance(5)
    bury(shelf)
    return stored


@pytest.fixture(scope="module", params=["unpurged", "purged"])
def stock(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[Stock]:
    name = f"stock-{request.param}"
    with server.connect() as raw, temporary_database(raw, name) as database:
        shelves = Shelves(raw, server.clock, database)
        found = Stock(shelves.make(-1, "mixed"), shelves.make(-1, "clean"))
        for number in EVERYONE:
            item = stock_item(number)
            targets = [found.mixed, found.clean] if number in LIVING else [found.mixed]
            for shelf in targets:
                assert shelf.post(item, pk=item["pk"]).status == 201
        server.clock.advance(5)
        if request.param == "purged":
            assert found.mixed.drain() == len(EVERYONE) - len(LIVING)
        yield found


# Several ranges, hierarchical keys --------------------------------------------------------------


@pytest.fixture
def wide(shelves: Shelves) -> Shelf:
    """A container of several ranges."""
    body = {"id": "wide", "partitionKey": PARTITION_KEY}
    reply = shelves.raw.post(
        f"{shelves.database}/colls", body | {"defaultTtl": -1}, throughput="30000"
    )
    assert reply.status == 201, reply
    return Shelf(shelves.raw, shelves.clock, f"{shelves.database}/colls/wide")
