"""Account and databases through the synchronous Python client."""

from __future__ import annotations

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey
from azure.cosmos.exceptions import (
    CosmosResourceExistsError,
)

from tests.sdk.conftest import Recorder, Reopen
from tests.sdk.python_helpers import BAD_NAME, ETAG, create_container, ids_of
from tests.support.sdk import refused

ODD_NAME = "!@$%^&*()-~`'_[]{}|;:,.<> ñ"
WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleQ=="

# Account ------------------------------------------------------------------------------------------


def test_account_names_the_endpoint_the_client_used(cosmos: CosmosClient, endpoint: str) -> None:
    account = cosmos.get_database_account()
    assert account.ConsistencyPolicy == {"defaultConsistencyLevel": "Session"}
    for locations in (account.WritableLocations, account.ReadableLocations):
        assert [each["databaseAccountEndpoint"] for each in locations] == [endpoint]


def test_connection_string(endpoint: str, key: str) -> None:
    text = f"AccountEndpoint={endpoint};AccountKey={key};"
    with CosmosClient.from_connection_string(text) as client:
        assert client.get_database_account().ConsistencyPolicy


@pytest.mark.parametrize("level", ["Session", "ConsistentPrefix", "Eventual"])
def test_weaker_consistency_levels_are_served(
    container: ContainerProxy, reopen: Reopen, level: str
) -> None:
    container.create_item({"id": "1", "pk": "a"})
    other = reopen(consistency_level=level).get_container_client("c")
    assert other.read_item("1", "a")["id"] == "1"
    assert ids_of(other.read_all_items()) == ["1"]


@pytest.mark.parametrize("level", ["Strong", "BoundedStaleness"])
def test_stronger_consistency_is_refused(
    container: ContainerProxy, reopen: Reopen, level: str
) -> None:
    container.create_item({"id": "1", "pk": "a"})
    other = reopen(consistency_level=level).get_container_client("c")
    with refused(400, 0, level):
        other.read_item("1", "a")


def test_wrong_key_is_unauthorized(endpoint: str) -> None:
    with refused(401, 0, "Unauthorized"):
        CosmosClient(endpoint, WRONG_KEY)


def test_headers_every_answer_has(database: DatabaseProxy, exchanges: Recorder) -> None:
    container = create_container(database)
    container.create_item({"id": "1", "pk": "a"})
    container.read_item("1", "a")
    list(container.read_all_items())
    container.delete_item("1", "a")
    with refused(404, 0):
        container.read_item("1", "a")
    with refused(409, 0):
        database.create_container(container.id, PartitionKey("/pk"))
    assert {exchange.status for exchange in exchanges} >= {200, 201, 204, 404, 409}
    for exchange in exchanges:
        assert exchange.received["x-ms-activity-id"] == exchange.sent["x-ms-activity-id"]
        assert float(exchange.received["x-ms-request-charge"]) > 0
        if exchange.status not in (204, 304):
            assert exchange.received["content-type"].startswith("application/json")


# Databases ----------------------------------------------------------------------------------------


def test_create_database(cosmos: CosmosClient, name: str, exchanges: Recorder) -> None:
    created, properties = cosmos.create_database(name, return_properties=True)
    assert exchanges.outcomes() == [("POST", 201)]
    assert created.id == properties["id"] == name
    assert properties["_self"] == f"dbs/{properties['_rid']}/"
    assert len(properties["_rid"]) == 8
    assert properties["_colls"] == "colls/"
    assert properties["_users"] == "users/"
    assert ETAG.fullmatch(properties["_etag"])
    assert properties.get_response_headers()["etag"] == properties["_etag"]
    assert created.read() == properties
    cosmos.delete_database(created)
    assert exchanges[-1].status == 204
    with refused(404, 0):
        created.read()
    with refused(404, 0):
        cosmos.delete_database(name)


def test_create_database_twice(cosmos: CosmosClient, database: DatabaseProxy) -> None:
    with pytest.raises(CosmosResourceExistsError) as caught:
        cosmos.create_database(database.id)
    assert caught.value.status_code == 409
    assert "Entity with the specified id already exists in the system." in str(caught.value)


def test_create_database_if_not_exists(
    cosmos: CosmosClient, name: str, exchanges: Recorder
) -> None:
    _, first = cosmos.create_database_if_not_exists(name, return_properties=True)
    _, second = cosmos.create_database_if_not_exists(name, return_properties=True)
    assert first == second
    assert exchanges.outcomes() == [("GET", 404), ("POST", 201), ("GET", 200)]
    cosmos.delete_database(name)


def test_list_and_query_databases(cosmos: CosmosClient, name: str) -> None:
    names = [f"{name}-{number}" for number in range(5)]
    for each in names:
        cosmos.create_database(each)
    assert set(names) <= set(ids_of(cosmos.list_databases()))
    pages = [ids_of(page) for page in cosmos.list_databases(max_item_count=2).by_page()]
    assert all(len(page) == 2 for page in pages[:-1])
    assert set(names) <= {each for page in pages for each in page}
    found = cosmos.query_databases(
        "SELECT * FROM root r WHERE r.id = @id", [{"name": "@id", "value": names[3]}]
    )
    assert ids_of(found) == [names[3]]
    for each in names:
        cosmos.delete_database(each)


def test_names_with_punctuation(cosmos: CosmosClient, name: str, exchanges: Recorder) -> None:
    odd = f"{name} {ODD_NAME}"
    created = cosmos.create_database(odd)
    container = created.create_container(odd, PartitionKey("/pk"))
    container.create_item({"id": "1", "pk": "a"})
    token = exchanges[-1].received["x-ms-session-token"]
    assert container.read_item("1", "a")["id"] == "1"
    assert exchanges[-1].sent["x-ms-session-token"] == token
    assert ids_of(created.list_containers()) == [odd]
    cosmos.delete_database(odd)


@pytest.mark.parametrize("bad", ["", "x" * 256])
def test_bad_database_names(cosmos: CosmosClient, bad: str) -> None:
    with refused(400, 0, BAD_NAME):
        cosmos.create_database(bad)


def test_longest_names(cosmos: CosmosClient, name: str) -> None:
    long = name.ljust(255, "x")
    created = cosmos.create_database(long)
    assert created.create_container(long, PartitionKey("/pk")).read()["id"] == long
    cosmos.delete_database(long)
