"""Manual and autoscale throughput through the synchronous Python client."""

from __future__ import annotations

import pytest
from azure.cosmos import CosmosClient, DatabaseProxy, PartitionKey
from azure.cosmos import ThroughputProperties as Throughput

from tests.sdk.conftest import Recorder
from tests.sdk.python_helpers import create_container
from tests.support.sdk import refused


def test_manual_throughput(database: DatabaseProxy, exchanges: Recorder) -> None:
    assert create_container(database).get_throughput().offer_throughput == 400
    container = create_container(database, offer_throughput=700)
    found = container.get_throughput()
    assert found.offer_throughput == 700
    assert found.auto_scale_max_throughput is None
    assert found.properties
    properties = container.read()
    assert found.properties["resource"] == properties["_self"]
    assert found.properties["offerResourceId"] == properties["_rid"]
    assert found.properties["offerVersion"] == "V2"
    assert found.properties["_self"] == f"offers/{found.properties['_rid']}/"
    assert len(found.properties["_rid"]) == 4
    assert container.replace_throughput(1200).offer_throughput == 1200
    put = exchanges[-1]
    assert (put.method, put.path, put.status) == ("PUT", f"/{found.properties['_self']}", 200)
    assert container.get_throughput().offer_throughput == 1200
    assert container.replace_throughput(Throughput(offer_throughput=500)).offer_throughput == 500


@pytest.mark.parametrize("percent", [None, 0, 5])
def test_autoscale_throughput(database: DatabaseProxy, percent: int | None) -> None:
    container = create_container(
        database,
        offer_throughput=Throughput(
            auto_scale_max_throughput=4000, auto_scale_increment_percent=percent
        ),
    )
    found = container.get_throughput()
    assert found.auto_scale_max_throughput == 4000
    assert found.auto_scale_increment_percent == percent
    assert found.properties
    assert found.properties["content"]["offerThroughput"] == 400


def test_replace_autoscale_throughput(database: DatabaseProxy) -> None:
    container = create_container(
        database,
        offer_throughput=Throughput(auto_scale_max_throughput=4000, auto_scale_increment_percent=5),
    )
    changed = Throughput(auto_scale_max_throughput=7000, auto_scale_increment_percent=20)
    replaced = container.replace_throughput(changed)
    assert replaced.properties
    settings = replaced.properties["content"]["offerAutopilotSettings"]
    assert settings["maxThroughput"] == 7000
    assert settings["autoUpgradePolicy"] == {"throughputPolicy": {"incrementPercent": 20}}
    found = container.get_throughput()
    assert (found.auto_scale_max_throughput, found.auto_scale_increment_percent) == (7000, 20)
    with refused(400, 0, "maxThroughput, which is 7000"):
        container.replace_throughput(800)


def test_database_throughput(cosmos: CosmosClient, database: DatabaseProxy, name: str) -> None:
    links = {offer["resource"] for offer in cosmos.client_connection.ReadOffers()}
    assert database.read()["_self"] not in links
    shared = cosmos.create_database(f"{name}-shared", offer_throughput=500)
    assert shared.get_throughput().offer_throughput == 500
    assert shared.replace_throughput(600).offer_throughput == 600
    assert shared.get_throughput().offer_throughput == 600
    part = create_container(shared).read()["_self"]
    assert part not in {offer["resource"] for offer in cosmos.client_connection.ReadOffers()}
    assert create_container(shared, offer_throughput=400).get_throughput().offer_throughput == 400
    cosmos.delete_database(shared)
    scaled = cosmos.create_database(
        f"{name}-scaled", offer_throughput=Throughput(auto_scale_max_throughput=3000)
    )
    assert scaled.get_throughput().auto_scale_max_throughput == 3000
    cosmos.delete_database(scaled)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (-200, "Requested throughput -200 is less than required minimum throughput 400"),
        (300, "Requested throughput 300 is less than required minimum throughput 400"),
        (450, ""),
        (2_000_000, ""),
        (
            Throughput(auto_scale_max_throughput=-200, auto_scale_increment_percent=0),
            "Requested throughput -200 is less than required minimum throughput 1000",
        ),
        (Throughput(auto_scale_max_throughput=1500), ""),
        (Throughput(offer_throughput=400, auto_scale_max_throughput=1000), ""),
    ],
)
def test_refused_throughput(database: DatabaseProxy, asked: int | Throughput, text: str) -> None:
    with refused(400, 0, text):
        database.create_container("c", PartitionKey("/pk"), offer_throughput=asked)
    assert list(database.list_containers()) == []


def test_refused_throughput_replacements(database: DatabaseProxy) -> None:
    container = create_container(database)
    with refused(400, 0, "Requested throughput 100 is less than required minimum throughput 400"):
        container.replace_throughput(100)
    assert container.get_throughput().offer_throughput == 400


def test_offers_go_with_their_resources(cosmos: CosmosClient, name: str) -> None:
    def links() -> set[str]:
        return {offer["resource"] for offer in cosmos.client_connection.ReadOffers()}

    database = cosmos.create_database(name, offer_throughput=400)
    first, second = (create_container(database, offer_throughput=400) for _ in range(2))
    own = [each.read()["_self"] for each in (database, first, second)]
    assert set(own) <= links()
    database.delete_container(first)
    assert links() & set(own) == {own[0], own[2]}
    cosmos.delete_database(database)
    assert not links() & set(own)
