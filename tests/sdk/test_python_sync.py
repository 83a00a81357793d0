"""The synchronous Python client against a running server."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey
from azure.cosmos import ThroughputProperties as Throughput
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from perseid.clock import MovableClock
from tests.sdk.conftest import Recorder, Reopen, refused

GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ETAG = re.compile(rf'"{GUID.pattern}"')
ODD_NAME = "!@$%^&*()-~`'_[]{}|;:,.<> ñ"
WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleQ=="
OTHER_ETAG = '"00000000-0000-0000-0000-000000000000"'
MEGABYTE = 1024 * 1024

DEFAULT_INDEXING = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": '/"_etag"/?'}],
}
SYSTEM = {"_rid", "_self", "_etag", "_ts"}
CONTAINER_LINKS = {
    "_docs": "docs/",
    "_sprocs": "sprocs/",
    "_triggers": "triggers/",
    "_udfs": "udfs/",
    "_conflicts": "conflicts/",
}


def make(database: DatabaseProxy, key: str | list[str] = "/pk", **more: Any) -> ContainerProxy:
    """A container with a name of its own in the database."""
    name = f"c{len(list(database.list_containers()))}"
    made: ContainerProxy = database.create_container(
        id=name, partition_key=PartitionKey(path=key), **more
    )
    return made


def fill(container: ContainerProxy, count: int, keys: int = 1) -> list[str]:
    """Creates items 000, 001, … with the keys k0, k1, … in turn; returns the ids."""
    ids = [f"{number:03}" for number in range(count)]
    for number, item_id in enumerate(ids):
        container.create_item({"id": item_id, "pk": f"k{number % keys}", "n": number})
    return ids


def ids_of(items: Any) -> list[str]:
    return [item["id"] for item in items]


def query(container: ContainerProxy, text: str, **options: Any) -> list[Any]:
    """All rows; the client's own type says they are objects, whatever was selected."""
    return list(container.query_items(text, **options))


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
    container = make(database)
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


# Containers ---------------------------------------------------------------------------------------


def test_container_defaults(database: DatabaseProxy) -> None:
    container, properties = database.create_container(
        "c", PartitionKey("/pk"), return_properties=True
    )
    shown = {name: value for name, value in properties.items() if name not in SYSTEM}
    assert shown == CONTAINER_LINKS | {
        "id": "c",
        "indexingPolicy": DEFAULT_INDEXING,
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "uniqueKeyPolicy": {"uniqueKeys": []},
        "conflictResolutionPolicy": {
            "mode": "LastWriterWins",
            "conflictResolutionPath": "/_ts",
            "conflictResolutionProcedure": "",
        },
        "geospatialConfig": {"type": "Geography"},
    }
    parent = database.read()
    assert properties["_self"] == f"{parent['_self']}colls/{properties['_rid']}/"
    assert len(properties["_rid"]) == 12
    assert ETAG.fullmatch(properties["_etag"])
    headers = properties.get_response_headers()
    assert headers["etag"] == properties["_etag"]
    assert headers["x-ms-alt-content-path"] == f"dbs/{database.id}"
    assert container.read() == properties


VECTORS = [
    {"path": "/a", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 16},
    {"path": "/b", "dataType": "uint8", "distanceFunction": "euclidean", "dimensions": 4096},
    {"path": "/c", "dataType": "int8", "distanceFunction": "dotproduct", "dimensions": 16},
]
VECTOR_INDEXES = [
    {"path": "/a", "type": "flat"},
    {"path": "/b", "type": "quantizedFlat", "quantizationByteSize": 8},
    {"path": "/c", "type": "diskANN", "quantizationByteSize": 8, "indexingSearchListSize": 50},
]
FULL_TEXT = {
    "defaultLanguage": "en-US",
    "fullTextPaths": [{"path": "/title", "language": "en-US"}],
}
COMPUTED = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
COMPOSITE = [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]]
SPATIAL = [{"path": "/place/*", "types": ["Point", "LineString", "Polygon", "MultiPolygon"]}]
UNIQUE = {"uniqueKeys": [{"paths": ["/a", "/b/c"]}, {"paths": ["/d"]}]}
LAST_WRITER = {
    "mode": "LastWriterWins", "conflictResolutionPath": "/v", "conflictResolutionProcedure": "",
}  # fmt: skip
CUSTOM = {
    "mode": "Custom", "conflictResolutionPath": "", "conflictResolutionProcedure": "dbs/d/sprocs/s",
}  # fmt: skip
QUOTED = '/"level\' 1*()"/"le/vel2"'


def paths(*given: str) -> list[dict[str, str]]:
    return [{"path": path} for path in given]


def indexing(**changes: Any) -> dict[str, Any]:
    """What a container shows whose policy differs from the default in this."""
    return {"indexingPolicy": DEFAULT_INDEXING | changes}


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"indexing_policy": {}}, indexing()),
        ({"indexing_policy": {"indexingMode": "Consistent"}}, indexing()),
        ({"indexing_policy": {"includedPaths": paths("/")}}, indexing()),
        (
            {"indexing_policy": {"includedPaths": paths("/*"), "excludedPaths": paths("/a/*")}},
            indexing(excludedPaths=paths("/a/*", '/"_etag"/?')),
        ),
        (
            {
                "indexing_policy": {
                    "includedPaths": paths("/a/?", '/"b c"/[]/d/?'),
                    "excludedPaths": paths("/*"),
                }
            },
            indexing(
                includedPaths=paths("/a/?", '/"b c"/[]/d/?'),
                excludedPaths=paths("/*", '/"_etag"/?'),
            ),
        ),
        (
            {"indexing_policy": {"compositeIndexes": COMPOSITE, "spatialIndexes": SPATIAL}},
            indexing(compositeIndexes=COMPOSITE, spatialIndexes=SPATIAL),
        ),
        (
            {
                "vector_embedding_policy": {"vectorEmbeddings": VECTORS},
                "indexing_policy": {"vectorIndexes": VECTOR_INDEXES},
            },
            {"vectorEmbeddingPolicy": {"vectorEmbeddings": VECTORS}}
            | indexing(vectorIndexes=VECTOR_INDEXES),
        ),
        (
            {
                "full_text_policy": FULL_TEXT,
                "indexing_policy": {"fullTextIndexes": paths("/title")},
            },
            {"fullTextPolicy": FULL_TEXT} | indexing(fullTextIndexes=paths("/title")),
        ),
        ({"default_ttl": -1}, {"defaultTtl": -1}),
        ({"default_ttl": 2147483647}, {"defaultTtl": 2147483647}),
        ({"analytical_storage_ttl": -1}, {"analyticalStorageTtl": -1}),
        ({"analytical_storage_ttl": 100}, {"analyticalStorageTtl": 100}),
        ({"unique_key_policy": UNIQUE}, {"uniqueKeyPolicy": UNIQUE}),
        ({"conflict_resolution_policy": LAST_WRITER}, {"conflictResolutionPolicy": LAST_WRITER}),
        ({"conflict_resolution_policy": CUSTOM}, {"conflictResolutionPolicy": CUSTOM}),
        ({"computed_properties": COMPUTED}, {"computedProperties": COMPUTED}),
        (
            {"change_feed_policy": {"retentionDuration": 10}},
            {"changeFeedPolicy": {"retentionDuration": 10}},
        ),
        (
            {"partition_key": PartitionKey(["/a", "/b/c", "/d"])},
            {"partitionKey": {"paths": ["/a", "/b/c", "/d"], "kind": "MultiHash", "version": 2}},
        ),
        (
            {"partition_key": PartitionKey("/pk", version=1)},
            {"partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 1}},
        ),
        (
            {"partition_key": PartitionKey(QUOTED)},
            {"partitionKey": {"paths": [QUOTED], "kind": "Hash", "version": 2}},
        ),
    ],
)
def test_container_properties(
    database: DatabaseProxy, asked: dict[str, Any], shown: dict[str, Any]
) -> None:
    container: ContainerProxy = database.create_container(
        **{"id": "c", "partition_key": PartitionKey("/pk")} | asked
    )
    properties = container.read()
    assert {name: properties[name] for name in shown} == shown


def test_indexing_mode_none(database: DatabaseProxy) -> None:
    container = make(database, indexing_policy={"indexingMode": "none", "automatic": False})
    policy = container.read()["indexingPolicy"]
    assert (policy["indexingMode"], policy["automatic"]) == ("none", False)


def vector_container(embedding: dict[str, Any], index: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a container with one vector, the given details changed."""
    policy = {"path": "/v", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 256}
    return {
        "vector_embedding_policy": {"vectorEmbeddings": [policy | embedding]},
        "indexing_policy": {"vectorIndexes": [{"path": "/v", "type": "diskANN"} | index]},
    }


BAD_NAME = "Ensure to provide a unique non-empty string less than '255' characters."
BAD_KEY_PATH = (
    "Partition key paths must contain only valid characters and not contain a trailing slash or"
    " wildcard character"
)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"id": ""}, BAD_NAME),
        ({"id": "x" * 256}, BAD_NAME),
        ({"default_ttl": 0}, "'0'"),
        ({"default_ttl": -2}, "'-2'"),
        ({"partition_key": PartitionKey(["/a", "/b", "/c", "/d"])}, "Too many partition key paths"),
        ({"partition_key": PartitionKey("/pk/")}, BAD_KEY_PATH),
        ({"partition_key": PartitionKey("/pk/*")}, BAD_KEY_PATH),
        ({"computed_properties": [{"name": "x", "query": "SELECT"}]}, ""),
        ({"indexing_policy": {"indexingMode": "none", "automatic": True}}, ""),
        ({"indexing_policy": {"indexingMode": "sometimes"}}, ""),
        ({"indexing_policy": {"fullTextIndexes": paths("/t")}}, ""),
        (
            {"indexing_policy": {"indexingMode": "none", "automatic": False}, "default_ttl": 5},
            "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection",
        ),
        (vector_container({}, {"path": "/vector1"}), "vector1 not matching in Embedding's path"),
        (vector_container({}, {"type": "notFlat"}), "Index Type::notFlat is invalid"),
        (
            vector_container({}, {"quantizationByteSize": 0}),
            "QuantizationByteSize value :: 0 is out of range."
            " The allowed range is between 1 and 256.",
        ),
        (
            vector_container({}, {"indexingSearchListSize": 5}),
            "IndexingSearchListSize value :: 5 is out of range."
            " The allowed range is between 25 and 500.",
        ),
        (
            vector_container({}, {"vectorIndexShardKey": ["country"]}),
            "invalid Shard Path: country.",
        ),
        (
            vector_container({}, {"vectorIndexShardKey": ["/a", "/b", "/c"]}),
            "The number of shard paths defined in the Vector Indexing Policy: 3"
            " exceeds the maximum: 1.",
        ),
        (
            vector_container({"dataType": "float64"}, {}),
            "Vector Embedding Policy has an invalid DataType",
        ),
        (
            vector_container({"dimensions": 8000}, {}),
            "Dimensions:8000 which is more than the maximum",
        ),
        (vector_container({"dimensions": -1}, {}), "Dimensions:-1"),
        (
            vector_container({"distanceFunction": "handMeasured"}, {}),
            "invalid DistanceFunction:handMeasured",
        ),
    ],
)
def test_refused_containers(database: DatabaseProxy, asked: dict[str, Any], text: str) -> None:
    with refused(400, 0, text):
        database.create_container(**{"id": "c", "partition_key": PartitionKey("/pk")} | asked)
    assert list(database.list_containers()) == []


def test_container_lifecycle(database: DatabaseProxy, exchanges: Recorder) -> None:
    first = database.create_container_if_not_exists("c", PartitionKey("/pk"))
    second = database.create_container_if_not_exists("c", PartitionKey("/pk"))
    assert exchanges.outcomes()[-3:] == [("GET", 404), ("POST", 201), ("GET", 200)]
    assert first.read() == second.read()
    with pytest.raises(CosmosResourceExistsError):
        database.create_container("c", PartitionKey("/other"))
    database.delete_container(first)
    assert exchanges[-1].status == 204
    with refused(404, 0):
        first.read()
    with refused(404, 0):
        database.delete_container("c")


def test_list_and_query_containers(database: DatabaseProxy) -> None:
    names = [make(database).id for _ in range(5)]
    assert ids_of(database.list_containers()) == names
    pages = [ids_of(page) for page in database.list_containers(max_item_count=2).by_page()]
    assert pages == [names[:2], names[2:4], names[4:]]
    found = database.query_containers(
        "SELECT * FROM root r WHERE r.id = @id", [{"name": "@id", "value": "c3"}]
    )
    assert ids_of(found) == ["c3"]


def test_container_in_missing_database(cosmos: CosmosClient, name: str) -> None:
    absent = cosmos.get_database_client(name)
    with refused(404):
        absent.create_container("c", PartitionKey("/pk"))
    with refused(404):
        list(absent.list_containers())
    with refused(404):
        absent.get_container_client("c").read()


def test_quota_and_statistics(container: ContainerProxy, exchanges: Recorder) -> None:
    fill(container, 3)
    plain = container.read()
    assert "statistics" not in plain
    assert "x-ms-resource-quota" not in exchanges[-1].received
    read = container.read(populate_quota_info=True, populate_partition_key_range_statistics=True)
    headers = read.get_response_headers()
    quota, usage = (
        dict(pair.split("=") for pair in headers[f"x-ms-resource-{kind}"].strip(";").split(";"))
        for kind in ("quota", "usage")
    )
    assert quota["collectionSize"] == "10485760"
    assert usage["documentsCount"] == "3"
    assert headers["x-ms-documentdb-collection-index-transformation-progress"] == "100"
    assert "x-ms-documentdb-collection-lazy-indexing-progress" not in headers
    assert [(each["id"], each["documentCount"]) for each in read["statistics"]] == [("0", 3)]


# Replacing containers -----------------------------------------------------------------------------


def test_replace_container_changes_policies(database: DatabaseProxy, exchanges: Recorder) -> None:
    container = make(database)
    old = container.read()
    _, new = database.replace_container(
        container,
        PartitionKey("/pk"),
        indexing_policy={
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [{"path": "/big/*"}],
            "compositeIndexes": COMPOSITE,
        },
        default_ttl=60,
        computed_properties=COMPUTED,
        full_text_policy=FULL_TEXT,
        analytical_storage_ttl=100,
        return_properties=True,
    )
    assert (exchanges[-1].method, exchanges[-1].status) == ("PUT", 200)
    assert new["defaultTtl"] == 60
    assert new["computedProperties"] == COMPUTED
    assert new["fullTextPolicy"] == FULL_TEXT
    assert new["analyticalStorageTtl"] == 100
    assert new["indexingPolicy"]["compositeIndexes"] == COMPOSITE
    assert new["indexingPolicy"]["excludedPaths"] == [{"path": "/big/*"}, {"path": '/"_etag"/?'}]
    assert (new["_rid"], new["_self"]) == (old["_rid"], old["_self"])
    assert new["_etag"] != old["_etag"]
    assert container.read() == new


def test_replace_container_resets_what_it_omits(database: DatabaseProxy) -> None:
    unique = {"uniqueKeys": [{"paths": ["/a"]}]}
    container = make(
        database,
        indexing_policy={"compositeIndexes": COMPOSITE},
        default_ttl=60,
        computed_properties=COMPUTED,
        full_text_policy=FULL_TEXT,
        change_feed_policy={"retentionDuration": 10},
        unique_key_policy=unique,
    )
    database.replace_container(container, PartitionKey("/pk"))
    new = container.read()
    assert new["indexingPolicy"] == DEFAULT_INDEXING
    assert new["uniqueKeyPolicy"] == unique
    assert {"defaultTtl", "computedProperties", "fullTextPolicy", "changeFeedPolicy"}.isdisjoint(
        new
    )


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"partition_key": PartitionKey("/other")}, ""),
        ({"partition_key": PartitionKey("/pk", version=1)}, ""),
        ({"partition_key": PartitionKey(["/pk", "/more"])}, ""),
        ({"default_ttl": 0}, "'0'"),
        (
            {"indexing_policy": {"indexingMode": "none", "automatic": False}, "default_ttl": 5},
            "'defaultTtl'",
        ),
        ({"indexing_policy": {"indexingMode": "sometimes"}}, ""),
    ],
)
def test_refused_replacements(database: DatabaseProxy, asked: dict[str, Any], text: str) -> None:
    container = make(database, default_ttl=3600)
    old = container.read()
    with refused(400, 0, text):
        database.replace_container(container, **{"partition_key": PartitionKey("/pk")} | asked)
    assert container.read() == old


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            vector_container({}, {"type": "quantizedFlat"}),
            "Paths in existing vector indexing policy cannot be modified in Collection Replace",
        ),
        (
            vector_container({"dimensions": 128}, {}),
            "Paths in existing embedding policy cannot be modified in Collection Replace",
        ),
        (
            vector_container({}, {}) | {"vector_embedding_policy": None},
            "not matching in Embedding's path",
        ),
    ],
)
def test_vector_paths_are_fixed(
    database: DatabaseProxy, changed: dict[str, Any], text: str
) -> None:
    container = make(database, **vector_container({}, {}))
    old = container.read()
    with refused(400, 0, text):
        database.replace_container(container, PartitionKey("/pk"), **changed)
    database.replace_container(container, PartitionKey("/pk"), **vector_container({}, {}))
    assert container.read()["vectorEmbeddingPolicy"] == old["vectorEmbeddingPolicy"]


def test_replace_missing_container(database: DatabaseProxy) -> None:
    with refused(404, 0):
        database.replace_container("absent", PartitionKey("/pk"))


def test_container_etags(database: DatabaseProxy) -> None:
    container = make(database)
    with pytest.raises(CosmosAccessConditionFailedError):
        database.replace_container(container, PartitionKey("/pk"), if_match=OTHER_ETAG)
    with pytest.raises(CosmosAccessConditionFailedError):
        database.delete_container(container, if_match=OTHER_ETAG)
    etag = container.read()["_etag"]
    assert container.read(if_none_match=etag) == {}
    database.replace_container(container, PartitionKey("/pk"), if_match=etag)
    with pytest.raises(CosmosAccessConditionFailedError):
        database.delete_container(container, if_match=etag)
    database.delete_container(container, if_match="*")


def test_database_etags(cosmos: CosmosClient, name: str) -> None:
    etag = cosmos.create_database(name).read()["_etag"]
    with pytest.raises(CosmosAccessConditionFailedError):
        cosmos.delete_database(name, if_match=OTHER_ETAG)
    cosmos.delete_database(name, if_match=etag)


# Throughput ---------------------------------------------------------------------------------------


def test_manual_throughput(database: DatabaseProxy, exchanges: Recorder) -> None:
    assert make(database).get_throughput().offer_throughput == 400
    container = make(database, offer_throughput=700)
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
    container = make(
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
    container = make(
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
    part = make(shared).read()["_self"]
    assert part not in {offer["resource"] for offer in cosmos.client_connection.ReadOffers()}
    assert make(shared, offer_throughput=400).get_throughput().offer_throughput == 400
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
    container = make(database)
    with refused(400, 0, "Requested throughput 100 is less than required minimum throughput 400"):
        container.replace_throughput(100)
    assert container.get_throughput().offer_throughput == 400


def test_offers_go_with_their_resources(cosmos: CosmosClient, name: str) -> None:
    def links() -> set[str]:
        return {offer["resource"] for offer in cosmos.client_connection.ReadOffers()}

    database = cosmos.create_database(name, offer_throughput=400)
    first, second = (make(database, offer_throughput=400) for _ in range(2))
    own = [each.read()["_self"] for each in (database, first, second)]
    assert set(own) <= links()
    database.delete_container(first)
    assert links() & set(own) == {own[0], own[2]}
    cosmos.delete_database(database)
    assert not links() & set(own)


# Items --------------------------------------------------------------------------------------------


def test_item_lifecycle(container: ContainerProxy, exchanges: Recorder) -> None:
    body = {"id": "1", "pk": "a", "nested": {"list": [1, "two", None, True, {"x": 1.5}]}}
    created = container.create_item(body)
    assert {name: created[name] for name in body} == body
    assert set(created) == set(body) | SYSTEM | {"_attachments"}
    assert created["_attachments"] == "attachments/"
    assert created["_self"] == f"{container.read()['_self']}docs/{created['_rid']}/"
    assert ETAG.fullmatch(created["_etag"])
    assert int(created["_etag"].split("-")[-1][:8], 16) == created["_ts"]
    assert created.get_response_headers()["etag"] == created["_etag"]

    assert container.read_item("1", "a") == created
    replaced = container.replace_item("1", {"id": "1", "pk": "a", "v": 2})
    assert replaced["v"] == 2
    assert "nested" not in replaced
    assert (replaced["_rid"], replaced["_self"]) == (created["_rid"], created["_self"])
    assert replaced["_etag"] != created["_etag"]
    upserted = container.upsert_item({"id": "1", "pk": "a", "v": 3})
    assert upserted["_rid"] == created["_rid"]
    assert container.read_item("1", "a") == upserted

    container.delete_item("1", "a")
    statuses = [(each.method, each.status) for each in exchanges if "/docs/" in each.path]
    assert statuses == [
        ("POST", 201), ("GET", 200), ("PUT", 200), ("POST", 200), ("GET", 200), ("DELETE", 204),
    ]  # fmt: skip
    for call in (
        lambda: container.read_item("1", "a"),
        lambda: container.delete_item("1", "a"),
        lambda: container.replace_item("1", {"id": "1", "pk": "a"}),
    ):
        with refused(404, 0, "NotFound"):
            call()
    again = container.upsert_item({"id": "1", "pk": "a"})
    assert exchanges[-1].status == 201
    assert again["_rid"] != created["_rid"]


def test_first_item_call_of_a_stranger(
    container: ContainerProxy, reopen: Reopen, exchanges: Recorder
) -> None:
    seen = Recorder()
    other = reopen(raw_response_hook=seen.note).get_container_client("c")
    other.create_item({"id": "1", "pk": "a"})
    assert seen.outcomes() == [("GET", 200), ("POST", 201)]
    seen.clear()
    other.read_item("1", "a")
    assert [(each.path.split("/")[-2], each.status) for each in seen] == [
        ("pkranges", 200), ("pkranges", 304), ("1", 200),
    ]  # fmt: skip


def test_duplicate_items(container: ContainerProxy) -> None:
    container.create_item({"id": "1", "pk": "a"})
    with pytest.raises(CosmosResourceExistsError) as caught:
        container.create_item({"id": "1", "pk": "a"})
    assert (caught.value.status_code, caught.value.sub_status or 0) == (409, 0)
    assert "Entity with the specified id already exists in the system." in str(caught.value)
    container.create_item({"id": "1", "pk": "b"})
    assert len(list(container.read_all_items())) == 2


def test_dictionaries_address_items_by_rid(container: ContainerProxy, exchanges: Recorder) -> None:
    item = container.create_item({"id": "1", "pk": "a"})
    assert container.read_item(item, "a") == item
    assert exchanges[-1].path == f"/{item['_self']}"
    item = container.replace_item(item, item | {"v": 2})
    assert exchanges[-1].path == f"/{item['_self']}"
    assert container.read_item("1", "a")["v"] == 2
    with refused(404, 0):
        container.read_item(item, "b")
    container.delete_item(item, "a")
    assert exchanges[-1].path == f"/{item['_self']}"
    with refused(404, 0):
        container.read_item(item, "a")


def test_replace_renames(container: ContainerProxy) -> None:
    first = container.create_item({"id": "old", "pk": "a"})
    container.create_item({"id": "taken", "pk": "a"})
    renamed = container.replace_item("old", {"id": "new", "pk": "a"})
    assert renamed["_rid"] == first["_rid"]
    assert container.read_item("new", "a") == renamed
    assert container.read_item(first, "a") == renamed
    with refused(404, 0):
        container.read_item("old", "a")
    with refused(409, 0):
        container.replace_item("new", {"id": "taken", "pk": "a"})
    assert sorted(ids_of(container.read_all_items())) == ["new", "taken"]


def test_replace_keeps_the_partition_key(container: ContainerProxy) -> None:
    item = container.create_item({"id": "1", "pk": "a"})
    # The client takes the key from the new body: in that partition there is no such item.
    with refused(404, 0):
        container.replace_item("1", {"id": "1", "pk": "b"})
    with refused(404, 0):
        container.replace_item(item, {"id": "1", "pk": "b"})
    assert container.read_item("1", "a") == item


def test_bodies_survive(container: ContainerProxy) -> None:
    body = {
        "id": "1",
        "pk": "a",
        "integers": [0, 1, -1, 2**53 - 1, 1 - 2**53],
        "fractions": [0.5, -1.25, 1e-7, 1.7976931348623157e308],
        "text": 'ünï ☃ 😀 "quoted" \\ \u0000 \n',
        "empty": [{}, [], "", None, False],
        "_mine": "kept",
        "deep": {"er": {"est": [[[["x"]]]]}},
    }
    container.create_item(body)
    read = container.read_item("1", "a")
    assert {name: read[name] for name in body} == body
    assert [type(each) for each in read["integers"]] == [int] * 5
    assert list(read)[: len(body)] == list(body)


def test_compact_bodies_are_the_same(container: ContainerProxy, reopen: Reopen) -> None:
    other = reopen(enable_compact_utf8_item_writes=True).get_container_client("c")
    other.create_item({"id": "ü", "pk": "☃", "text": "😀"})
    assert container.read_item("ü", "☃")["text"] == "😀"


def test_system_properties_are_the_servers(container: ContainerProxy) -> None:
    forged = {"_rid": "x", "_self": "y", "_etag": "z", "_ts": 1, "_attachments": "w"}
    made = container.create_item({"id": "1", "pk": "a"} | forged)
    assert all(made[name] != value for name, value in forged.items())
    assert container.read_item("1", "a") == made


@pytest.mark.parametrize(
    "item_id",
    [
        " leading", "in ner", "Ünïcödé ☃ 😀", ",=.:~+-@()^$&;'", "{}[]!_|<>`\"", "%20", "a%2Fb",
        "%", "+", "docs", "A", "x" * 1023, "😀" * 255,
    ],
)  # fmt: skip
def test_ids_that_round_trip(container: ContainerProxy, item_id: str, exchanges: Recorder) -> None:
    container.create_item({"id": item_id, "pk": "a"})
    assert container.read_item(item_id, "a")["id"] == item_id
    assert container.replace_item(item_id, {"id": item_id, "pk": "a", "v": 2})["v"] == 2
    container.delete_item(item_id, "a")
    assert list(container.read_all_items()) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"pk": "a"}, ""),
        ({"id": None, "pk": "a"}, ""),
        ({"id": "", "pk": "a"}, "less than '1024' characters."),
        ({"id": "x" * 1024, "pk": "a"}, "less than '1024' characters."),
        ({"id": "😀" * 256, "pk": "a"}, "less than '1024' characters."),
        ({"id": {}, "pk": "a"}, ""),
    ],
)
def test_bad_item_ids(container: ContainerProxy, body: dict[str, Any], text: str) -> None:
    with refused(400, 0, text):
        container.create_item(body)
    with refused(400, 0, text):
        container.upsert_item(body)


def test_automatic_ids(container: ContainerProxy) -> None:
    made = container.create_item({"pk": "a"}, enable_automatic_id_generation=True)
    assert container.read_item(made["id"], "a") == made


@pytest.mark.parametrize("length", [2 * MEGABYTE, 2 * MEGABYTE + 100_000, 5 * MEGABYTE])
def test_too_large_items(container: ContainerProxy, length: int) -> None:
    with refused(413, 0, "Request size is too large"):
        container.create_item({"id": "1", "pk": "a", "text": "x" * length})
    with refused(413, 0, "Request size is too large"):
        container.upsert_item({"id": "1", "pk": "a", "text": "x" * length})
    container.create_item({"id": "1", "pk": "a"})
    with refused(413, 0, "Request size is too large"):
        container.replace_item("1", {"id": "1", "pk": "a", "text": "x" * length})
    assert "text" not in container.read_item("1", "a")


def test_largest_item(container: ContainerProxy) -> None:
    text = "x" * (2 * MEGABYTE - 1000)
    container.create_item({"id": "1", "pk": "a", "text": text})
    assert container.read_item("1", "a")["text"] == text


def test_unique_keys(database: DatabaseProxy) -> None:
    container = make(database, unique_key_policy={"uniqueKeys": [{"paths": ["/a", "/b"]}]})
    container.create_item({"id": "1", "pk": "p", "a": 1, "b": 1})
    container.create_item({"id": "2", "pk": "p", "a": 1, "b": 2})
    container.create_item({"id": "3", "pk": "q", "a": 1, "b": 1})
    container.create_item({"id": "4", "pk": "p"})
    text = "Unique index constraint violation."
    with refused(409, 0, text):
        container.create_item({"id": "5", "pk": "p", "a": 1, "b": 1})
    with refused(409, 0, text):
        container.create_item({"id": "5", "pk": "p"})
    with refused(409, 0, text):
        container.create_item({"id": "5", "pk": "p", "a": None, "b": None})
    with refused(409, 0, text):
        container.replace_item("2", {"id": "2", "pk": "p", "a": 1, "b": 1})
    with refused(409, 0, text):
        container.upsert_item({"id": "5", "pk": "p", "a": 1, "b": 2})
    container.replace_item("2", {"id": "2", "pk": "p", "a": 1, "b": 2, "same": True})
    container.delete_item("1", "p")
    container.create_item({"id": "5", "pk": "p", "a": 1, "b": 1})


@pytest.mark.parametrize("bad", [0, -2, 1.5, "10", None, 2147483648])
def test_refused_lifetimes(database: DatabaseProxy, bad: Any) -> None:
    container = make(database, default_ttl=-1)
    with refused(400, 0, "The input ttl"):
        container.create_item({"id": "1", "pk": "a", "ttl": bad})


def test_expired_items_are_gone(database: DatabaseProxy, clock: MovableClock) -> None:
    container = make(database, default_ttl=10)
    container.create_item({"id": "short", "pk": "a"})
    container.create_item({"id": "long", "pk": "a", "ttl": 1000})
    container.create_item({"id": "for ever", "pk": "a", "ttl": -1})
    clock.advance(11)
    with refused(404, 0):
        container.read_item("short", "a")
    assert ids_of(container.read_all_items()) == ["long", "for ever"]
    container.create_item({"id": "short", "pk": "a"})


# Etags and answers without a body -----------------------------------------------------------------


def test_stale_etags_fail(container: ContainerProxy) -> None:
    old = container.create_item({"id": "1", "pk": "a"})
    new = container.replace_item("1", {"id": "1", "pk": "a", "v": 2})
    stale: dict[str, Any] = {
        "etag": old["_etag"],
        "match_condition": MatchConditions.IfNotModified,
    }
    calls: list[Callable[[], Any]] = [
        lambda: container.replace_item("1", {"id": "1", "pk": "a"}, **stale),
        lambda: container.upsert_item({"id": "1", "pk": "a"}, **stale),
        lambda: container.delete_item("1", "a", **stale),
    ]
    for call in calls:
        with pytest.raises(CosmosAccessConditionFailedError) as caught:
            call()
        assert caught.value.status_code == 412
        assert "PreconditionFailed" in str(caught.value)
    assert container.read_item("1", "a") == new


def test_current_etags_pass(container: ContainerProxy, exchanges: Recorder) -> None:
    def current(etag: str) -> dict[str, Any]:
        return {"etag": etag, "match_condition": MatchConditions.IfNotModified}

    body = {"id": "1", "pk": "a"}
    item = container.create_item(body)
    item = container.replace_item("1", body, **current(item["_etag"]))
    item = container.upsert_item(body, **current(item["_etag"]))
    assert exchanges[-1].status == 200
    container.delete_item("1", "a", **current(item["_etag"]))
    # There is nothing left to be compared with.
    container.upsert_item(body, **current(item["_etag"]))
    assert exchanges[-1].status == 201


def test_other_conditions(container: ContainerProxy) -> None:
    body = {"id": "1", "pk": "a"}
    container.create_item(body)
    present: dict[str, Any] = {"match_condition": MatchConditions.IfPresent}
    container.replace_item("1", body, **present)
    container.upsert_item(body, **present)
    # Writes do not look at If-None-Match.
    other: dict[str, Any] = {"etag": OTHER_ETAG, "match_condition": MatchConditions.IfModified}
    container.replace_item("1", body, **other)
    container.delete_item("1", "a", **other)
    with refused(404, 0):
        container.replace_item("1", body, **present)


def test_unchanged_items_are_not_sent(container: ContainerProxy, exchanges: Recorder) -> None:
    item = container.create_item({"id": "1", "pk": "a"})

    def read(etag: str) -> Any:
        return container.read_item("1", "a", etag=etag, match_condition=MatchConditions.IfModified)

    same = read(item["_etag"])
    assert same == {}
    assert exchanges[-1].status == 304
    assert exchanges[-1].received["etag"] == item["_etag"]
    assert same.get_response_headers()["etag"] == item["_etag"]
    assert read(OTHER_ETAG) == item
    assert exchanges[-1].status == 200


def test_writes_without_a_response_body(container: ContainerProxy, exchanges: Recorder) -> None:
    writes: list[tuple[int, Callable[[], Any]]] = [
        (201, lambda: container.create_item({"id": "1", "pk": "a", "v": 1}, no_response=True)),
        (200, lambda: container.upsert_item({"id": "1", "pk": "a", "v": 2}, no_response=True)),
        (
            200,
            lambda: container.replace_item("1", {"id": "1", "pk": "a", "v": 3}, no_response=True),
        ),
    ]
    for version, (status, write) in enumerate(writes, 1):
        answer = write()
        assert answer == {}
        assert exchanges[-1].status == status
        headers = answer.get_response_headers()
        assert float(headers["x-ms-request-charge"]) > 0
        item = container.read_item("1", "a")
        assert (item["v"], item["_etag"]) == (version, headers["etag"])


def test_client_that_wants_no_response_bodies(container: ContainerProxy, reopen: Reopen) -> None:
    other = reopen(no_response_on_write=True).get_container_client("c")
    assert other.create_item({"id": "1", "pk": "a"}) == {}
    assert other.upsert_item({"id": "1", "pk": "a", "v": 2}, no_response=False)["v"] == 2
    assert other.read_item("1", "a")["v"] == 2


def test_response_hooks(container: ContainerProxy) -> None:
    seen: list[tuple[Any, Any]] = []

    def hook(headers: Any, body: Any) -> None:
        seen.append((headers, body))

    item = container.create_item({"id": "1", "pk": "a"}, response_hook=hook)
    container.read_item("1", "a", response_hook=hook)
    container.delete_item("1", "a", response_hook=hook)
    assert [body for _, body in seen] == [item, item, None]
    assert all(GUID.fullmatch(headers["x-ms-activity-id"]) for headers, _ in seen)


# Partition keys -----------------------------------------------------------------------------------

NESTED = '/"level\' 1*()"/"le/vel2"'


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("path", "fields", "value"),
    [
        ("/pk", {"pk": "text"}, "text"),
        ("/pk", {"pk": ""}, ""),
        ("/pk", {"pk": 'ünï ☃ 😀 "q" \\'}, 'ünï ☃ 😀 "q" \\'),
        ("/pk", {"pk": "x" * 100}, "x" * 100),
        ("/pk", {"pk": 0}, 0),
        ("/pk", {"pk": 5}, 5),
        ("/pk", {"pk": 5}, 5.0),
        ("/pk", {"pk": -1.5}, -1.5),
        ("/pk", {"pk": 2**53}, 2**53),
        ("/pk", {"pk": True}, True),
        ("/pk", {"pk": False}, False),
        ("/pk", {"pk": None}, NullPartitionKeyValue),
        ("/pk", {}, NonePartitionKeyValue),
        ("/pk", {"pk": {"an": "object"}}, NonePartitionKeyValue),
        ("/a/b", {"a": {"b": "x"}}, "x"),
        ("/a/b", {"a": {"c": 1}}, NonePartitionKeyValue),
        ("/a/b", {"a": "flat"}, NonePartitionKeyValue),
        (QUOTED, {"level' 1*()": {"le/vel2": "x"}}, "x"),
        ("/id", {}, "1"),
    ],
)
def test_partition_keys(
    database: DatabaseProxy, version: int, path: str, fields: dict[str, Any], value: Any
) -> None:
    container = database.create_container("c", PartitionKey(path, version=version))
    container.create_item({"id": "1"} | fields)
    container.upsert_item({"id": "1", "v": 1} | fields)
    container.replace_item("1", {"id": "1", "v": 2} | fields)
    assert container.read_item("1", value)["v"] == 2
    assert container.read_item(container.read_item("1", value), value)["v"] == 2
    with refused(404, 0):
        container.read_item("1", "another key")
    assert len(query(container, "SELECT * FROM c", partition_key=value)) == 1
    assert not query(container, "SELECT * FROM c", partition_key="another key")
    container.delete_item("1", value)
    assert list(container.read_all_items()) == []


def test_keys_of_other_types_are_other_partitions(container: ContainerProxy) -> None:
    keys: list[Any] = ["1", 1, True, False, None, 0, "", "true", "null"]
    for key in keys:
        container.create_item({"id": "same", "pk": key})
    container.create_item({"id": "same"})
    for key in keys:
        assert container.read_item("same", key)["pk"] == key
        with refused(409):
            container.create_item({"id": "same", "pk": key})
    assert "pk" not in container.read_item("same", NonePartitionKeyValue)
    assert len(list(container.read_all_items())) == len(keys) + 1


@pytest.mark.parametrize(
    ("fields", "levels"),
    [
        ({"tenant": "t", "user": {"id": "u"}, "session": "s"}, ["t", "u", "s"]),
        ({"tenant": "t", "user": {"id": 5}, "session": True}, ["t", 5, True]),
        ({"tenant": None, "user": {"id": None}, "session": None}, [None, None, None]),
        ({"tenant": "ü", "user": {"id": ""}, "session": 1.5}, ["ü", "", 1.5]),
    ],
)
def test_hierarchical_keys(
    database: DatabaseProxy, fields: dict[str, Any], levels: list[Any]
) -> None:
    container = make(database, ["/tenant", "/user/id", "/session"])
    container.create_item({"id": "1"} | fields)
    container.upsert_item({"id": "1", "v": 1} | fields)
    container.replace_item("1", {"id": "1", "v": 2} | fields)
    item = container.read_item("1", levels)
    assert item["v"] == 2
    assert container.read_item(item, levels) == item
    with refused(404, 0):
        container.read_item("1", ["other", *levels[1:]])
    assert ids_of(container.query_items("SELECT * FROM c", partition_key=levels)) == ["1"]
    container.delete_item("1", levels)
    assert list(container.read_all_items()) == []


@pytest.mark.parametrize("levels", [["t"], ["t", "u"], "t"])
def test_incomplete_hierarchical_keys(database: DatabaseProxy, levels: Any) -> None:
    container = make(database, ["/tenant", "/user", "/session"])
    container.create_item({"id": "1", "tenant": "t", "user": "u", "session": "s"})
    with refused(400):
        container.read_item("1", levels)
    with refused(400):
        container.delete_item("1", levels)


def test_absent_levels_do_not_match(database: DatabaseProxy) -> None:
    # The client sends null for a level that the body lacks; to the server it is undefined.
    container = make(database, ["/tenant", "/user"])
    with refused(400, 1001):
        container.create_item({"id": "1", "tenant": "t"})


def test_key_prefixes_select_subtrees(database: DatabaseProxy) -> None:
    container = make(database, ["/tenant", "/user", "/session"], offer_throughput=30_000)
    for number in range(24):
        container.create_item(
            {
                "id": str(number),
                "tenant": f"t{number % 2}",
                "user": f"u{number % 4}",
                "session": f"s{number % 8}",
            }
        )

    for prefix, count in ((["t0"], 12), (["t0", "u2"], 6), (["t0", "u1"], 0), (["x"], 0)):
        assert len(query(container, "SELECT * FROM c", partition_key=prefix)) == count
    total = query(container, "SELECT VALUE COUNT(1) FROM c", partition_key=["t1"])
    assert total == [12]


# Reading many -------------------------------------------------------------------------------------


def test_read_feed_pages(container: ContainerProxy, exchanges: Recorder) -> None:
    ids = fill(container, 25, keys=3)
    exchanges.clear()
    pages = [ids_of(page) for page in container.read_all_items(max_item_count=7).by_page()]
    assert [len(page) for page in pages] == [7, 7, 7, 4]
    assert sorted(chain(*pages)) == ids
    feed = [each for each in exchanges if each.path.endswith("/docs/")]
    assert [int(each.received["x-ms-item-count"]) for each in feed] == [7, 7, 7, 4]
    assert ["x-ms-continuation" in each.received for each in feed] == [True, True, True, False]
    assert not any("etag" in each.received for each in feed)


def test_read_feed_of_an_empty_container(container: ContainerProxy) -> None:
    assert list(container.read_all_items()) == []


def test_exact_last_page_has_no_continuation(
    container: ContainerProxy, exchanges: Recorder
) -> None:
    fill(container, 10)
    exchanges.clear()
    pages = list(map(list, container.read_all_items(max_item_count=5).by_page()))
    assert [len(page) for page in pages] == [5, 5]
    assert "x-ms-continuation" not in exchanges[-1].received


def test_read_feed_resumes(container: ContainerProxy, reopen: Reopen) -> None:
    ids = fill(container, 12, keys=4)
    pager = container.read_all_items(max_item_count=5).by_page()
    first = ids_of(next(pager))
    token = pager.continuation_token  # type: ignore[attr-defined]
    assert token
    other = reopen().get_container_client("c")
    rest = [ids_of(page) for page in other.read_all_items(max_item_count=4).by_page(token)]
    assert [len(page) for page in rest] == [4, 3]
    assert sorted(chain(first, *rest)) == ids


def test_foreign_continuations_are_refused(container: ContainerProxy) -> None:
    with refused(400):
        next(container.read_all_items().by_page("not a token"))
    with refused(400):
        next(container.query_items("SELECT * FROM c", partition_key="a").by_page("not a token"))


def test_read_items(database: DatabaseProxy) -> None:
    container = make(database, offer_throughput=30_000)
    fill(container, 40, keys=10)
    wanted: list[Any] = [(f"{number:03}", f"k{number % 10}") for number in range(0, 40, 3)]
    found = container.read_items([*wanted, ("absent", "k1"), ("001", "k2")])
    assert ids_of(found) == [item_id for item_id, _ in wanted]
    assert float(found.get_response_headers()["x-ms-request-charge"]) > 0
    assert container.read_items([]) == []
    assert ids_of(container.read_items([("007", "k7")])) == ["007"]
    assert container.read_items([("absent", "k7")]) == []
    same_key: list[Any] = [("003", "k3"), ("013", "k3"), ("absent", "k3")]
    assert ids_of(container.read_items(same_key)) == ["003", "013"]


def test_read_items_keyed_by_id(database: DatabaseProxy) -> None:
    container = make(database, "/id")
    for number in range(5):
        container.create_item({"id": str(number)})
    found = container.read_items([("1", "1"), ("3", "3"), ("9", "9")])
    assert ids_of(found) == ["1", "3"]


def test_read_items_with_all_sorts_of_keys(database: DatabaseProxy) -> None:
    container = make(database)
    keys: list[Any] = ["a", 1, 2.5, True, False]
    for number, key in enumerate(keys):
        container.create_item({"id": str(number), "pk": key})
    container.create_item({"id": "none"})
    wanted: list[Any] = [(str(number), key) for number, key in enumerate(keys)]
    found = container.read_items([*wanted, ("none", NonePartitionKeyValue)])
    assert ids_of(found) == ["0", "1", "2", "3", "4", "none"]


def test_read_items_with_hierarchical_keys(database: DatabaseProxy) -> None:
    container = make(database, ["/a", "/b"])
    for number in range(6):
        container.create_item({"id": str(number), "a": f"a{number % 2}", "b": number})
    found = container.read_items(
        [(str(number), [f"a{number % 2}", number]) for number in (1, 2, 5)]
    )
    assert ids_of(found) == ["1", "2", "5"]


def test_read_a_thousand_items(container: ContainerProxy) -> None:
    for number in range(5):
        container.create_item({"id": str(number * 100), "pk": number})
    found = container.read_items([(str(number), number // 100) for number in range(1000)])
    assert ids_of(found) == ["0", "100", "200", "300", "400"]


# Queries ------------------------------------------------------------------------------------------


def test_query_in_one_partition(container: ContainerProxy, exchanges: Recorder) -> None:
    fill(container, 12, keys=3)
    found = container.query_items(
        "SELECT c.id, c.n FROM c WHERE c.n >= @least",
        parameters=[{"name": "@least", "value": 5}],
        partition_key="k0",
    )
    assert sorted(found, key=lambda row: row["n"]) == [{"id": "006", "n": 6}, {"id": "009", "n": 9}]
    assert exchanges[-1].status == 200
    assert exchanges[-1].received["x-ms-item-count"] == "2"
    assert "etag" not in exchanges[-1].received
    assert float(found.get_response_headers()["x-ms-request-charge"]) > 0


@pytest.mark.parametrize("throughput", [400, 30_000])
def test_query_across_partitions(database: DatabaseProxy, throughput: int) -> None:
    container = make(database, offer_throughput=throughput)
    ids = fill(container, 30, keys=30)

    def ask(text: str, **parameters: Any) -> list[Any]:
        given = [{"name": f"@{name}", "value": value} for name, value in parameters.items()]
        return query(container, text, parameters=given, enable_cross_partition_query=True)

    assert sorted(ids_of(ask("SELECT * FROM c"))) == ids
    assert ask("SELECT VALUE c.id FROM c WHERE c.pk = @pk", pk="k7") == ["007"]
    assert ask("SELECT VALUE c.id FROM c WHERE c.n < 3 ORDER BY c.n DESC") == ids[2::-1]
    assert ask("SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n") == [0, 1]
    assert ask("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 4 LIMIT 2") == [4, 5]
    assert ask("SELECT VALUE COUNT(1) FROM c") == [30]
    assert ask("SELECT VALUE SUM(c.n) FROM c WHERE c.n <= @most", most=3) == [6]
    assert ask("SELECT * FROM c WHERE c.n = @none", none="x") == []


def test_query_must_mean_to_cross_partitions(container: ContainerProxy) -> None:
    container.create_item({"id": "1", "pk": "a"})
    with refused(
        400,
        0,
        "Cross partition query is required but disabled. Please set"
        " x-ms-documentdb-query-enablecrosspartition to true, specify"
        " x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
    ):
        list(container.query_items("SELECT * FROM c"))
    assert ids_of(container.query_items("SELECT * FROM c WHERE c.pk = 'a'")) == ["1"]


@pytest.mark.parametrize("order", ["", " ORDER BY c.n"])
def test_query_pages_and_resumes(container: ContainerProxy, order: str) -> None:
    fill(container, 11)
    text = f"SELECT VALUE c.n FROM c WHERE c.n != 4{order}"

    def pages(size: int, token: str | None = None) -> Any:
        found = container.query_items(text, partition_key="k0", max_item_count=size)
        return found.by_page(token)

    assert [len(list(page)) for page in pages(4)] == [4, 4, 2]
    pager = pages(4)
    first = list(next(pager))
    rest = [list(page) for page in pages(5, pager.continuation_token)]
    assert [len(page) for page in rest] == [5, 1]
    assert sorted(chain(first, *rest)) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


def test_query_errors(container: ContainerProxy) -> None:
    with refused(400, 0, "SC1001"):
        list(container.query_items("SELECT FROM WHERE", partition_key="a"))


def test_computed_properties(database: DatabaseProxy) -> None:
    container = make(database, computed_properties=COMPUTED)
    container.create_item({"id": "1", "pk": "a", "name": "ADA"})
    text = "SELECT VALUE c.lower FROM c WHERE c.lower = 'ada'"
    assert query(container, text, partition_key="a") == ["ada"]
    (item,) = query(container, "SELECT * FROM c", partition_key="a")
    assert "lower" not in item


# Sessions -----------------------------------------------------------------------------------------


def test_lsn_rises_by_one_with_each_write(container: ContainerProxy, exchanges: Recorder) -> None:
    writes: list[Callable[[], Any]] = [
        lambda: container.create_item({"id": "1", "pk": "a"}),
        lambda: container.create_item({"id": "2", "pk": "b"}),
        lambda: container.upsert_item({"id": "1", "pk": "a", "v": 2}),
        lambda: container.upsert_item({"id": "3", "pk": "a"}),
        lambda: container.replace_item("1", {"id": "1", "pk": "a", "v": 3}),
        lambda: container.replace_item("1", {"id": "1", "pk": "a", "v": 3}),
        lambda: container.delete_item("1", "a"),
    ]
    lsns = []
    for write in writes:
        write()
        lsns.append(exchanges[-1].lsn)
        assert exchanges[-1].received["x-ms-session-token"] == f"0:-1#{lsns[-1]}"
        with refused(404):
            container.read_item("absent", "a")
        container.read_item("2", "b") if len(lsns) > 1 else None
        list(container.read_all_items())
        assert exchanges[-1].lsn == lsns[-1]
    assert lsns == list(range(lsns[0], lsns[0] + len(writes)))


def test_refused_writes_leave_the_lsn(container: ContainerProxy, exchanges: Recorder) -> None:
    container.create_item({"id": "1", "pk": "a"})
    before = exchanges[-1].lsn
    with refused(409):
        container.create_item({"id": "1", "pk": "a"})
    with refused(400):
        container.create_item({"id": "", "pk": "a"})
    with refused(412):
        container.delete_item(
            "1", "a", etag=OTHER_ETAG, match_condition=MatchConditions.IfNotModified
        )
    container.read_item("1", "a")
    assert exchanges[-1].lsn == before


def test_client_keeps_and_sends_session_tokens(
    container: ContainerProxy, exchanges: Recorder
) -> None:
    rid = container.read()["_rid"]
    container.create_item({"id": "1", "pk": "a"})
    written = exchanges[-1]
    token = written.received["x-ms-session-token"]
    assert written.received["x-ms-alt-content-path"] == container.container_link
    assert written.received["x-ms-content-path"] == rid
    assert written.received["x-ms-documentdb-partitionkeyrangeid"] == "0"
    session = container.client_connection.session
    assert session
    kept = session.session_container.rid_to_session_token[rid]
    assert {part: f"{part}:{each.session_token}" for part, each in kept.items()} == {"0": token}
    container.read_item("1", "a")
    assert exchanges[-1].sent["x-ms-session-token"] == token
    list(container.read_all_items())
    assert exchanges[-1].sent["x-ms-session-token"] == token
    list(container.query_items("SELECT * FROM c", partition_key="a"))
    assert exchanges[-1].sent["x-ms-session-token"] == token


READS: dict[str, Callable[[ContainerProxy, str], Any]] = {
    "read": lambda c, token: [c.read_item("1", "a", session_token=token)],
    "feed": lambda c, token: list(c.read_all_items(session_token=token)),
    "query": lambda c, token: list(
        c.query_items("SELECT * FROM c", partition_key="a", session_token=token)
    ),
    "cross": lambda c, token: list(
        c.query_items("SELECT * FROM c", enable_cross_partition_query=True, session_token=token)
    ),
    "many": lambda c, token: c.read_items([("1", "a"), ("2", "a")], session_token=token),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_tokens_from_the_future(
    container: ContainerProxy, exchanges: Recorder, read: Callable[[ContainerProxy, str], Any]
) -> None:
    container.create_item({"id": "1", "pk": "a"})
    lsn = exchanges[-1].lsn
    exchanges.clear()
    with refused(404, 1002, "The read session is not available for the input session token."):
        read(container, f"0:-1#{lsn + 1}")
    assert {each.sub_status for each in exchanges if "/docs/" in each.path} == {1002}
    for token in (f"0:-1#{lsn}", f"0:-1#{lsn - 1}", f"0:-1#{lsn}#1=5"):
        assert ids_of(read(container, token)) == ["1"]


def test_absent_item_of_the_future(container: ContainerProxy, exchanges: Recorder) -> None:
    container.create_item({"id": "1", "pk": "a"})
    lsn = exchanges[-1].lsn
    with refused(404, 1002):
        container.read_item("absent", "a", session_token=f"0:-1#{lsn + 1}")
    with refused(404, 0):
        container.read_item("absent", "a", session_token=f"0:-1#{lsn}")


# Containers that come back ------------------------------------------------------------------------

CALLS: dict[str, Callable[[ContainerProxy], Any]] = {
    "create": lambda c: c.create_item({"id": "new", "pk": "a", "other": "a"}),
    "upsert": lambda c: c.upsert_item({"id": "new", "pk": "a", "other": "a"}),
    "replace": lambda c: c.replace_item("1", {"id": "1", "pk": "a", "other": "a"}),
    "read": lambda c: c.read_item("1", "a"),
    "delete": lambda c: c.delete_item("1", "a"),
    "feed": lambda c: list(c.read_all_items()),
    "query": lambda c: list(c.query_items("SELECT * FROM c", partition_key="a")),
    "cross": lambda c: list(c.query_items("SELECT * FROM c", enable_cross_partition_query=True)),
    "many": lambda c: c.read_items([("1", "a"), ("2", "a")]),
    "throughput": lambda c: c.get_throughput(),
    "ranges": lambda c: list(c.read_feed_ranges(force_refresh=True)),
}


@pytest.mark.parametrize("path", ["/pk", "/other"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_recreated_container(
    container: ContainerProxy,
    reopen: Reopen,
    call: Callable[[ContainerProxy], Any],
    path: str,
) -> None:
    seen = Recorder()
    stale = reopen(raw_response_hook=seen.note).get_container_client("c")
    stale.create_item({"id": "1", "pk": "a", "other": "a"})
    stale.read_item("1", "a")
    fresh = reopen()
    fresh.delete_container("c")
    made = fresh.create_container("c", PartitionKey(path))
    made.create_item({"id": "1", "pk": "a", "other": "a"})
    made.create_item({"id": "2", "pk": "a", "other": "a"})
    seen.clear()
    call(stale)
    assert seen[-1].status < 400
    seen.clear()
    assert stale.read_item("2", "a")["other"] == "a"
    assert [each.status for each in seen if "/docs/" in each.path] == [200]


def test_recreated_container_is_noticed_by_its_rid(
    container: ContainerProxy, reopen: Reopen
) -> None:
    seen = Recorder()
    stale = reopen(raw_response_hook=seen.note).get_container_client("c")
    for number in range(5):
        stale.create_item({"id": str(number), "pk": "a"})
    stale.read_item("1", "a")
    fresh = reopen()
    fresh.delete_container("c")
    fresh.create_container("c", PartitionKey("/pk"))
    seen.clear()
    # The session token is from the old container, and ahead: that it is another one matters more.
    with pytest.raises(CosmosResourceNotFoundError):
        stale.read_item("1", "a")
    assert (seen[0].status, seen[0].sub_status) == (400, 1024)
    seen.clear()
    stale.create_item({"id": "1", "pk": "a"})
    stale.read_item("1", "a")
    assert {each.status for each in seen} <= {200, 201, 304}


def test_writes_to_a_recreated_container_are_repeated(
    container: ContainerProxy, reopen: Reopen
) -> None:
    seen = Recorder()
    stale = reopen(raw_response_hook=seen.note).get_container_client("c")
    stale.create_item({"id": "1", "pk": "a"})
    fresh = reopen()
    fresh.delete_container("c")
    fresh.create_container("c", PartitionKey("/pk"))
    seen.clear()
    stale.create_item({"id": "1", "pk": "a"})
    assert [(each.method, each.status, each.sub_status) for each in seen] == [
        ("POST", 400, 1024), ("GET", 200, 0), ("POST", 201, 0),
    ]  # fmt: skip


def test_container_recreated_with_more_ranges(container: ContainerProxy, reopen: Reopen) -> None:
    stale = reopen().get_container_client("c")
    stale.create_item({"id": "000", "pk": "k0"})
    stale.read_item("000", "k0")
    fresh = reopen()
    fresh.delete_container("c")
    fresh.create_container("c", PartitionKey("/pk"), offer_throughput=30_000)
    ids = fill(stale, 30, keys=30)
    assert sorted(ids_of(stale.read_all_items())) == ids
    for number, item_id in enumerate(ids):
        assert stale.read_item(item_id, f"k{number}")["n"] == number
    wanted: list[Any] = [(item_id, f"k{number}") for number, item_id in enumerate(ids)]
    assert ids_of(stale.read_items(wanted)) == ids
    assert len(list(stale.read_feed_ranges(force_refresh=True))) == 3


def test_deleted_container(container: ContainerProxy, reopen: Reopen) -> None:
    container.create_item({"id": "1", "pk": "a"})
    reopen().delete_container("c")
    for call in (CALLS[name] for name in ("create", "upsert", "replace", "read", "delete", "feed")):
        with refused(404, 1003):
            call(container)


# Ranges -------------------------------------------------------------------------------------------


def test_one_feed_range_covers_a_small_container(container: ContainerProxy) -> None:
    (whole,) = container.read_feed_ranges()
    keys: list[Any] = ["a", 5, True, None, NonePartitionKeyValue]
    for key in keys:
        part = container.feed_range_from_partition_key(key)
        assert container.is_feed_range_subset(whole, part)
        assert not container.is_feed_range_subset(part, whole)


@pytest.mark.parametrize(
    ("throughput", "count"),
    [
        (400, 1),
        (10_000, 1),
        (11_000, 2),
        (30_000, 3),
        (Throughput(auto_scale_max_throughput=12_000), 2),
    ],
)
def test_range_for_each_ten_thousand_units(
    database: DatabaseProxy, throughput: int | Throughput, count: int
) -> None:
    container = make(database, offer_throughput=throughput)
    assert len(list(container.read_feed_ranges())) == count


@pytest.mark.parametrize("version", [1, 2])
def test_items_spread_over_ranges(
    database: DatabaseProxy, version: int, exchanges: Recorder
) -> None:
    container = database.create_container(
        "c", PartitionKey("/pk", version=version), offer_throughput=30_000
    )
    ranges = list(container.read_feed_ranges())
    exchanges.clear()
    ids = fill(container, 60, keys=60)
    created = [each for each in exchanges if each.method == "POST"]
    parts = [each.received["x-ms-documentdb-partitionkeyrangeid"] for each in created]
    assert set(parts) == {"0", "1", "2"}
    for part in set(parts):
        tokens = [each.received["x-ms-session-token"] for each in created]
        lsns = [int(token.split("#")[1]) for token in tokens if token.startswith(f"{part}:-1#")]
        assert lsns == list(range(lsns[0], lsns[0] + parts.count(part)))

    assert sorted(ids_of(container.read_all_items(max_item_count=7))) == ids
    for number, feed_range in enumerate(ranges):
        share = [item_id for item_id, part in zip(ids, parts, strict=True) if part == str(number)]
        rows = query(container, "SELECT * FROM c", feed_range=feed_range, max_item_count=4)
        assert sorted(ids_of(rows)) == share
        for item_id in share:
            own = container.feed_range_from_partition_key(f"k{int(item_id)}")
            assert container.is_feed_range_subset(feed_range, own)


def test_one_key_as_a_feed_range(database: DatabaseProxy) -> None:
    container = make(database, offer_throughput=30_000)
    fill(container, 30, keys=10)
    for number in range(10):
        part = container.feed_range_from_partition_key(f"k{number}")
        rows = query(container, "SELECT VALUE c.n FROM c", feed_range=part)
        assert sorted(rows) == [number, number + 10, number + 20]


def test_sessions_of_several_ranges(database: DatabaseProxy, exchanges: Recorder) -> None:
    container = make(database, offer_throughput=30_000)
    fill(container, 30, keys=30)
    list(container.read_all_items())
    sent = exchanges[-1].sent["x-ms-session-token"]
    assert sorted(each.split(":")[0] for each in sent.split(",")) == ["0", "1", "2"]
    for number in range(30):
        container.read_item(f"{number:03}", f"k{number}")
        part = exchanges[-1].received["x-ms-documentdb-partitionkeyrangeid"]
        assert exchanges[-1].sent["x-ms-session-token"].startswith(f"{part}:-1#")


def test_latest_session_token(container: ContainerProxy, exchanges: Recorder) -> None:
    part = container.feed_range_from_partition_key("a")
    tokens = []
    for number in range(3):
        container.create_item({"id": str(number), "pk": "a"})
        tokens.append((part, exchanges[-1].received["x-ms-session-token"]))
    assert container.get_latest_session_token(tokens, part) == tokens[-1][1]
