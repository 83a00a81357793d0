"""Fixtures for the effects of expiry; most tests run before and after the purge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient
from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.effects.stock import EVERYONE, LIVING, Bury, Stock, drain, stock_item


@pytest.fixture(params=["unpurged", "purged"])
def bury(request: pytest.FixtureRequest) -> Bury:
    """Called when items have died: leaves them where they are, or removes them."""

    def leave(_shelf: Shelf) -> None:
        return

    def remove(shelf: Shelf) -> None:
        drain(shelf)

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
def stock(
    request: pytest.FixtureRequest, endpoint: str, key: str, clock: MovableClock
) -> Iterator[Stock]:
    with closing(RawClient(endpoint, key)) as raw:
        name = f"stock-{request.param}"
        assert raw.post("/dbs", {"id": name}).status == 201
        shelves = Shelves(raw, clock, f"/dbs/{name}")
        found = Stock(shelves.make(-1, "mixed"), shelves.make(-1, "clean"))
        for number in EVERYONE:
            item = stock_item(number)
            targets = [found.mixed, found.clean] if number in LIVING else [found.mixed]
            for shelf in targets:
                assert shelf.post(item, pk=item["pk"]).status == 201
        clock.advance(5)
        if request.param == "purged":
            assert drain(found.mixed) == len(EVERYONE) - len(LIVING)
        yield found
        assert raw.delete(f"/dbs/{name}").status == 204


# Several ranges, hierarchical keys --------------------------------------------------------------


@pytest.fixture
def wide(shelves: Shelves) -> Shelf:
    """A container of several ranges."""
    body = {"id": "wide", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
    reply = shelves.raw.post(
        f"{shelves.database}/colls", body | {"defaultTtl": -1}, throughput="30000"
    )
    assert reply.status == 201, reply
    return Shelf(shelves.raw, shelves.clock, f"{shelves.database}/colls/wide")
