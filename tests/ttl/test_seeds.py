"""A tour of time to live with the official Python client (T-213 … T-220).

Each test is a short story about a shop that keeps its orders for a while. Read from top to bottom
they are a tutorial; the only thing a real program would not do is to move the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey

from perseid.clock import MovableClock
from tests.support.sdk import refused
from tests.support.servers import RunningServer

MINUTE: Final = 60
DAY: Final = 60 * 60 * 24
CUSTOMER: Final = "CO18009186470"
BY_CUSTOMER: Final = PartitionKey("/customerId")


@pytest.fixture(scope="module")
def cosmos(server: RunningServer) -> Iterator[CosmosClient]:
    with CosmosClient(server.endpoint, server.key) as client:
        yield client


@pytest.fixture
def salesdb(cosmos: CosmosClient) -> Iterator[DatabaseProxy]:
    """The shop's database, new for each story."""
    made: DatabaseProxy = cosmos.create_database("salesdb")
    yield made
    cosmos.delete_database("salesdb")


@pytest.fixture
def orders(salesdb: DatabaseProxy) -> ContainerProxy:
    """Orders that stay for ninety days unless they say otherwise."""
    made: ContainerProxy = salesdb.create_container("orders", BY_CUSTOMER, default_ttl=90 * DAY)
    return made


def order(**rest: Any) -> dict[str, Any]:
    return {"id": "SO05", "customerId": CUSTOMER, "total": 5.95, **rest}


def is_there(orders: ContainerProxy, id_: str = "SO05") -> bool:
    """Whether the order can be read; a query and a count must say the same."""
    rest: dict[str, Any] = {
        "parameters": [{"name": "@id", "value": id_}],
        "partition_key": CUSTOMER,
    }
    found: list[Any] = [*orders.query_items("SELECT VALUE c.id FROM c WHERE c.id = @id", **rest)]
    count: list[Any] = [
        *orders.query_items("SELECT VALUE COUNT(1) FROM c WHERE c.id = @id", **rest)
    ]
    assert (found, count) in (([id_], [1]), ([], [0]))
    if found:
        orders.read_item(id_, partition_key=CUSTOMER)
    else:
        with refused(404, 0):
            orders.read_item(id_, partition_key=CUSTOMER)
    return bool(found)


def test_orders_that_stay_until_they_say_otherwise(
    salesdb: DatabaseProxy, clock: MovableClock
) -> None:
    """-1 switches time to live on without a default: only an order can end itself (T-213)."""
    orders = salesdb.create_container(
        "orders", BY_CUSTOMER, default_ttl=-1, offer_throughput=20_000
    )
    assert orders.read()["defaultTtl"] == -1
    assert orders.get_throughput().offer_throughput == 20_000

    orders.create_item(order(id="SO01"))
    orders.create_item(order(id="SO02", ttl=1 * DAY))
    clock.advance(1 * DAY)
    assert is_there(orders, "SO01")
    assert not is_there(orders, "SO02")
    clock.advance(3650 * DAY)
    assert is_there(orders, "SO01")


def test_orders_that_stay_for_ninety_days(salesdb: DatabaseProxy, clock: MovableClock) -> None:
    """A number of seconds is the default for every order that brings none (T-214)."""
    orders = salesdb.create_container(
        "orders", BY_CUSTOMER, default_ttl=90 * 60 * 60 * 24, offer_throughput=20_000
    )
    assert orders.read()["defaultTtl"] == 7_776_000

    orders.create_item(order())
    clock.advance(90 * DAY - 1)
    assert is_there(orders)
    clock.advance(1)
    assert not is_there(orders)


def test_an_order_that_stays_for_thirty_days(orders: ContainerProxy, clock: MovableClock) -> None:
    """An order with a `ttl` of its own does not care about the default (T-215)."""
    stored = orders.create_item(order(ttl=60 * 60 * 24 * 30))
    assert stored["ttl"] == 2_592_000
    assert orders.read_item("SO05", partition_key=CUSTOMER)["ttl"] == 2_592_000

    clock.advance(30 * DAY - 1)
    assert is_there(orders)
    clock.advance(1)
    assert not is_there(orders)
    # The id is free again.
    assert orders.create_item(order())["_rid"] != stored["_rid"]


def test_the_partition_key_has_to_be_spelled_right(orders: ContainerProxy) -> None:
    """With a misspelled key property the order has no key; no query by key finds it (T-216)."""
    misspelled = {"id": "SO05", "cid": CUSTOMER, "ttl": 30 * DAY}
    orders.create_item(misspelled)
    assert not is_there(orders)

    orders.create_item(misspelled | {"customerId": CUSTOMER})
    assert is_there(orders)


def test_extending_the_life_of_an_order(orders: ContainerProxy, clock: MovableClock) -> None:
    """Read, change `ttl`, replace what was read: the countdown starts again (T-217)."""
    first = orders.create_item(order(ttl=30 * MINUTE))
    clock.advance(29 * MINUTE)

    found = orders.read_item("SO05", partition_key=CUSTOMER)
    found["ttl"] = 60 * 30 * 30
    extended = orders.replace_item(found, found)
    assert extended["ttl"] == 54_000
    assert extended["_ts"] == first["_ts"] + 29 * MINUTE
    assert extended["total"] == 5.95

    clock.advance(54_000 - 1)
    assert is_there(orders)
    clock.advance(1)
    assert not is_there(orders)


def test_handing_an_order_back_to_the_default(orders: ContainerProxy, clock: MovableClock) -> None:
    """Leave `ttl` out to inherit again; null is not the same and is refused (T-218)."""
    orders.create_item(order(ttl=30 * MINUTE))
    found = orders.read_item("SO05", partition_key=CUSTOMER)

    with refused(400, 0, "The input ttl 'null' is invalid."):
        orders.replace_item(found, found | {"ttl": None})

    del found["ttl"]
    assert "ttl" not in orders.replace_item(found, found)
    clock.advance(30 * MINUTE)
    assert is_there(orders)
    clock.advance(90 * DAY - 30 * MINUTE)
    assert not is_there(orders)


def test_switching_time_to_live_off(
    salesdb: DatabaseProxy, orders: ContainerProxy, clock: MovableClock
) -> None:
    """A replace without a default switches off; no order ends any more, dated or not (T-219)."""
    orders.create_item(order(id="SO01"))
    orders.create_item(order(id="SO02", ttl=1 * DAY))
    changed = salesdb.replace_container(orders, BY_CUSTOMER)
    assert "defaultTtl" not in changed.read()

    clock.advance(3650 * DAY)
    assert is_there(orders, "SO01")
    assert is_there(orders, "SO02")


@pytest.mark.parametrize(
    "link", ["/dbs/salesdb/colls/orders/docs/SO05", "dbs/salesdb/colls/orders/docs/SO05"]
)
def test_an_order_has_a_link(
    cosmos: CosmosClient, orders: ContainerProxy, clock: MovableClock, link: str
) -> None:
    """Links made of names lead to an order while it lives (T-220)."""
    orders.create_item(order(ttl=30 * DAY))
    options = {"partitionKey": [CUSTOMER]}
    assert cosmos.client_connection.ReadItem(link, options)["total"] == 5.95

    clock.advance(30 * DAY)
    with refused(404, 0):
        cosmos.client_connection.ReadItem(link, options)
