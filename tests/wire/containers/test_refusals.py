"""Container definitions that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.replies import outcome
from tests.wire.containers.definitions import (
    BOX,
    COMPOSITE,
    FULL_TEXT,
    LOWER,
    MODE_NONE,
    ROOT,
    definition,
    embedding,
    hashed,
    paths,
    refusal,
    unique,
    vector_index,
)

INVALID = "One of the specified inputs is invalid"
KEY_PATH = (
    "Partition key paths must contain only valid characters and not contain a trailing slash or"
    " wildcard character"
)
BAD_TTL = (
    "The input defaultTtl '{}' is invalid. Ensure to provide a nonzero positive integer less than"
    " or equal to '2147483647', or '-1' which means never expire."
)


def indexed(**members: Any) -> dict[str, Any]:
    return {"indexingPolicy": members}


def computed(query: str, name: str = "x") -> dict[str, Any]:
    return {"computedProperties": [{"name": name, "query": query}]}


OUT_OF_RANGE = "{} value :: {} is out of range. The allowed range is between {} and {}."
SHARDS = (
    "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the maximum: 1."
)
PLANAR = {"geospatialConfig": {"type": "Geometry"}}
FLAT = {"path": "/vector1", "type": "flat"}
NINE = paths(*(f"/p{n}" for n in range(9)))
TOO_MANY = paths(*(f"/p{n}/?" for n in range(1501)))
UPWARDS = [{"path": "/a", "order": "up"}, {"path": "/b"}]
KLINGON = {"fullTextPaths": [{"path": "/t", "language": "tlh"}]}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (hashed("/a", "/b"), "Too many partition key paths"),
    (hashed("/a", "/b", "/c", "/d", kind="MultiHash"), "Too many partition key paths"),
    (hashed(), ""),
    (hashed("/a/"), KEY_PATH),
    (hashed("/*"), KEY_PATH),
    (hashed("/a/*"), KEY_PATH),
    (hashed("/a/?"), KEY_PATH),
    (hashed("/a/[]/b"), KEY_PATH),
    (hashed("a"), ""),
    (hashed(""), ""),
    (hashed(1), ""),
    (hashed("/a", kind="Range"), ""),
    (hashed("/a", version=3), ""),
    (hashed("/a", "/b", kind="MultiHash", version=1), ""),
    ({"defaultTtl": 0}, BAD_TTL.format(0)),
    ({"defaultTtl": -2}, BAD_TTL.format(-2)),
    ({"defaultTtl": 2147483648}, BAD_TTL.format(2147483648)),
    ({"defaultTtl": 1.5}, BAD_TTL.format(1.5)),
    ({"defaultTtl": True}, BAD_TTL.format("true")),
    ({"analyticalStorageTtl": -10}, ""),
    ({"ttlPropertyPath": "/t"}, ""),
    ({"defaultTtl": -1} | indexed(indexingMode="none"), MODE_NONE),
    ({"defaultTtl": 60} | indexed(indexingMode="none", automatic=False), MODE_NONE),
    (indexed(indexingMode="sometimes"), INVALID),
    (indexed(automatic="yes"), INVALID),
    (indexed(includedPaths=paths("/a/?")), "mandatory indexing path"),
    (indexed(includedPaths=paths("no slash")), "could not be accepted"),
    (indexed(includedPaths=paths("/a/*/b")), "could not be accepted"),
    (indexed(includedPaths=[ROOT], excludedPaths=[ROOT]), "both"),
    (indexed(includedPaths=TOO_MANY), "1500"),
    (indexed(excludedPaths=TOO_MANY), "1500"),
    (indexed(compositeIndexes=[COMPOSITE[0][:1]]), "at least 2"),
    (indexed(compositeIndexes=[NINE]), "at most 8"),
    (indexed(compositeIndexes=COMPOSITE * 101), "100"),
    (indexed(compositeIndexes=[UPWARDS]), "'up'"),
    (indexed(spatialIndexes=[{"path": "/l/*", "types": ["Circle"]}]), INVALID),
    (indexed(spatialIndexes=[{"path": "/l/*", "boundingBox": BOX}]), "boundingBox"),
    (PLANAR | indexed(spatialIndexes=paths("/l/*")), "boundingBox"),
    ({"geospatialConfig": {"type": "Flat"}}, INVALID),
    (unique([]), "at least one path"),
    (unique(["/a/*"]), "/a/*"),
    (unique(*([f"/p{n}"] for n in range(11))), "10"),
    (unique([f"/p{n}" for n in range(17)]), "16"),
    ({"conflictResolutionPolicy": {"mode": "FirstWriterWins"}}, INVALID),
    (computed("SELECT * FROM c"), INVALID),
    (computed("SELECT VALUE"), INVALID),
    (computed("SELECT VALUE c.a FROM c WHERE c.b"), INVALID),
    (computed("SELECT VALUE LOWER(c.name) FROM c", "id"), INVALID),
    (computed("SELECT VALUE LOWER(c.name) FROM c", ""), INVALID),
    ({"computedProperties": LOWER * 2}, INVALID),
    ({"computedProperties": [{"name": "x"}]}, INVALID),
    ({"computedProperties": [LOWER[0] | {"name": f"n{n}"} for n in range(21)]}, "20"),
    (indexed(vectorIndexes=[FLAT]), "vector1 not matching in Embedding's path"),
    (vector_index(path="/vector2"), "vector2 not matching in Embedding's path"),
    (vector_index(type="notFlat"), "Index Type::notFlat is invalid"),
    (
        vector_index(quantizationByteSize=0),
        OUT_OF_RANGE.format("QuantizationByteSize", 0, 1, 256),
    ),
    (
        vector_index(quantizationByteSize=257),
        OUT_OF_RANGE.format("QuantizationByteSize", 257, 1, 256),
    ),
    (
        vector_index(type="diskANN", indexingSearchListSize=5),
        OUT_OF_RANGE.format("IndexingSearchListSize", 5, 25, 500),
    ),
    (
        vector_index(type="diskANN", indexingSearchListSize=501),
        OUT_OF_RANGE.format("IndexingSearchListSize", 501, 25, 500),
    ),
    (vector_index(type="diskANN", vectorIndexShardKey=["country"]), "invalid Shard Path: country."),
    (vector_index(type="diskANN", vectorIndexShardKey=["/a", "/b", "/c"]), SHARDS),
    (embedding(dataType="float64"), "Vector Embedding Policy has an invalid DataType"),
    (embedding(dimensions=8000), "Dimensions:8000 which is more than the maximum"),
    (embedding(dimensions=-1), "Dimensions:-1"),
    (embedding(distanceFunction="handMeasured"), "invalid DistanceFunction:handMeasured"),
    (embedding(path="vector1"), "invalid Path"),
    (embedding(dimensions=506) | indexed(vectorIndexes=[FLAT]), "Dimensions:506"),
    (indexed(fullTextIndexes=paths("/t")), "/t"),
    ({"fullTextPolicy": FULL_TEXT} | indexed(fullTextIndexes=paths("/u")), "/u"),
    ({"fullTextPolicy": KLINGON}, "tlh"),
    ({"changeFeedPolicy": {"retentionDuration": -1}}, INVALID),
]


@pytest.mark.parametrize(("properties", "fragment"), REFUSED)
def test_definitions_that_will_not_do(
    raw: RawClient, database: str, properties: dict[str, Any], fragment: str
) -> None:
    message = refusal(raw.post(f"{database}/colls", definition(**properties)))
    assert fragment in message.replace('\\"', '"')
    assert raw.get(f"{database}/colls").json["DocumentCollections"] == []


WRONG: tuple[Any, ...] = ("text", 5, -0.5, True, [1], {"x": 1}, [[]], [{}], "")

# property -> the types it may have; everything else in WRONG is refused
SHAPES: dict[str, tuple[Any, ...]] = {
    "partitionKey": (),
    "defaultTtl": (5,),
    "analyticalStorageTtl": (5,),
    "indexingPolicy": ({"x": 1},),
    "uniqueKeyPolicy": ({"x": 1},),
    "conflictResolutionPolicy": ({"x": 1},),
    "geospatialConfig": ({"x": 1},),
    "computedProperties": (),
    "vectorEmbeddingPolicy": ({"x": 1},),
    "fullTextPolicy": ({"x": 1},),
    "changeFeedPolicy": ({"x": 1},),
    "clientEncryptionPolicy": ({"x": 1},),
}


@pytest.mark.parametrize("member", SHAPES)
def test_wrong_types(raw: RawClient, database: str, member: str) -> None:
    for value in WRONG:
        if not any(value is allowed or value == allowed for allowed in SHAPES[member]):
            reply = raw.post(f"{database}/colls", definition(**{member: value}))
            assert outcome(reply) == (400, 0, "BadRequest"), value
    assert raw.get(f"{database}/colls").json["DocumentCollections"] == []


@pytest.mark.parametrize(
    ("policy", "member"),
    [
        ("indexingPolicy", "indexingMode"),
        ("indexingPolicy", "includedPaths"),
        ("indexingPolicy", "excludedPaths"),
        ("indexingPolicy", "compositeIndexes"),
        ("indexingPolicy", "spatialIndexes"),
        ("indexingPolicy", "vectorIndexes"),
        ("indexingPolicy", "fullTextIndexes"),
        ("uniqueKeyPolicy", "uniqueKeys"),
        ("conflictResolutionPolicy", "mode"),
        ("geospatialConfig", "type"),
        ("vectorEmbeddingPolicy", "vectorEmbeddings"),
        ("fullTextPolicy", "fullTextPaths"),
        ("fullTextPolicy", "defaultLanguage"),
        ("partitionKey", "paths"),
        ("partitionKey", "kind"),
        ("partitionKey", "version"),
    ],
)
def test_wrong_types_inside(raw: RawClient, database: str, policy: str, member: str) -> None:
    inner = PARTITION_KEY if policy == "partitionKey" else {}
    for value in WRONG:
        reply = raw.post(f"{database}/colls", definition(**{policy: {**inner, member: value}}))
        assert outcome(reply) == (400, 0, "BadRequest"), value
    assert raw.get(f"{database}/colls").json["DocumentCollections"] == []
