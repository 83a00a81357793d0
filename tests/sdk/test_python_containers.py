"""Create, read and replace containers through the synchronous Python client."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosResourceExistsError,
)

from tests.sdk.conftest import Recorder
from tests.sdk.python_helpers import (
    BAD_NAME,
    COMPUTED,
    ETAG,
    OTHER_ETAG,
    QUOTED,
    SYSTEM,
    create_container,
    create_items,
    ids_of,
    paths,
)
from tests.support.builders import PARTITION_KEY
from tests.support.sdk import refused

DEFAULT_INDEXING = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": '/"_etag"/?'}],
}
CONTAINER_LINKS = {
    "_docs": "docs/",
    "_sprocs": "sprocs/",
    "_triggers": "triggers/",
    "_udfs": "udfs/",
    "_conflicts": "conflicts/",
}

# Containers ---------------------------------------------------------------------------------------


def test_container_defaults(database: DatabaseProxy) -> None:
    container, properties = database.create_container(
        "c", PartitionKey("/pk"), return_properties=True
    )
    shown = {name: value for name, value in properties.items() if name not in SYSTEM}
    assert shown == CONTAINER_LINKS | {
        "id": "c",
        "indexingPolicy": DEFAULT_INDEXING,
        "partitionKey": PARTITION_KEY,
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
COMPOSITE = [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]]
SPATIAL = [{"path": "/place/*", "types": ["Point", "LineString", "Polygon", "MultiPolygon"]}]
UNIQUE = {"uniqueKeys": [{"paths": ["/a", "/b/c"]}, {"paths": ["/d"]}]}
LAST_WRITER = {
    "mode": "LastWriterWins", "conflictResolutionPath": "/v", "conflictResolutionProcedure": "",
}  # fmt: skip
CUSTOM = {
    "mode": "Custom", "conflictResolutionPath": "", "conflictResolutionProcedure": "dbs/d/sprocs/s",
}  # fmt: skip


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
    container = create_container(
        database, indexing_policy={"indexingMode": "none", "automatic": False}
    )
    policy = container.read()["indexingPolicy"]
    assert (policy["indexingMode"], policy["automatic"]) == ("none", False)


def vector_container(embedding: dict[str, Any], index: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a container with one vector, the given details changed."""
    policy = {"path": "/v", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 256}
    return {
        "vector_embedding_policy": {"vectorEmbeddings": [policy | embedding]},
        "indexing_policy": {"vectorIndexes": [{"path": "/v", "type": "diskANN"} | index]},
    }


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
    names = [create_container(database).id for _ in range(5)]
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
    create_items(container, 3)
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
    container = create_container(database)
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
    container = create_container(
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
    container = create_container(database, default_ttl=3600)
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
    container = create_container(database, **vector_container({}, {}))
    old = container.read()
    with refused(400, 0, text):
        database.replace_container(container, PartitionKey("/pk"), **changed)
    database.replace_container(container, PartitionKey("/pk"), **vector_container({}, {}))
    assert container.read()["vectorEmbeddingPolicy"] == old["vectorEmbeddingPolicy"]


def test_replace_missing_container(database: DatabaseProxy) -> None:
    with refused(404, 0):
        database.replace_container("absent", PartitionKey("/pk"))


def test_container_etags(database: DatabaseProxy) -> None:
    container = create_container(database)
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
