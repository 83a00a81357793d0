"""Containers: definitions as they are completed, refused, replaced, addressed and measured."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient, Reply

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}
ROOT = {"path": "/*"}
ETAG_PATH = {"path": '/"_etag"/?'}
POLICY = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [ROOT],
    "excludedPaths": [ETAG_PATH],
}
LAST_WRITER = {
    "mode": "LastWriterWins",
    "conflictResolutionPath": "/_ts",
    "conflictResolutionProcedure": "",
}
SYSTEM = ("_rid", "_ts", "_self", "_etag")
LINKS = {
    "_docs": "docs/",
    "_sprocs": "sprocs/",
    "_triggers": "triggers/",
    "_udfs": "udfs/",
    "_conflicts": "conflicts/",
}
ETAG = re.compile(r'"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{8})[0-9a-f]{4}"')
INTENDED = "x-ms-cosmos-intended-collection-rid"
INVALID = "One of the specified inputs is invalid"
KEY_PATH = (
    "Partition key paths must contain only valid characters and not contain a trailing slash or"
    " wildcard character"
)
NAME_LENGTH = "Ensure to provide a unique non-empty string less than '255' characters."
MISSING_ID = "The input content is invalid because the required properties - 'id; ' - are missing"
BAD_TTL = (
    "The input defaultTtl '{}' is invalid. Ensure to provide a nonzero positive integer less than"
    " or equal to '2147483647', or '-1' which means never expire."
)
MODE_NONE = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"
NOT_MET = "Operation cannot be performed because one of the specified precondition is not met."


def outcome(reply: Reply) -> tuple[int, int, str]:
    return reply.status, reply.sub_status, reply.json["code"]


def definition(**properties: Any) -> dict[str, Any]:
    return {"id": "c", "partitionKey": KEY} | properties


def create(raw: RawClient, database: str, **properties: Any) -> dict[str, Any]:
    reply = raw.post(f"{database}/colls", definition(**properties))
    assert reply.status == 201, reply.body
    body: dict[str, Any] = reply.json
    return body


def refusal(reply: Reply) -> str:
    """The text of a 400 of the listed kind."""
    assert outcome(reply) == (400, 0, "BadRequest")
    message: str = reply.json["message"]
    return message


# Create and read ---------------------------------------------------------------------------------


def test_smallest_definition(raw: RawClient, database: str, clock: MovableClock) -> None:
    owner = raw.get(database).json
    before = int(clock.now())
    reply = raw.post(f"{database}/colls", {"id": "c", "partitionKey": KEY})
    body = reply.json
    assert reply.status == 201
    assert body == {
        "id": "c",
        "indexingPolicy": POLICY,
        "partitionKey": KEY,
        "uniqueKeyPolicy": {"uniqueKeys": []},
        "conflictResolutionPolicy": LAST_WRITER,
        "geospatialConfig": {"type": "Geography"},
        "_self": f"{owner['_self']}colls/{body['_rid']}/",
        **{name: body[name] for name in ("_rid", "_ts", "_etag")},
        **LINKS,
    }
    assert before <= body["_ts"] <= int(clock.now())
    stamp = ETAG.fullmatch(body["_etag"])
    assert stamp
    assert int(stamp[1], 16) == body["_ts"]
    assert raw.get(f"{database}/colls/c").json == body


def test_rid_lies_below_the_database(raw: RawClient, database: str) -> None:
    rid = create(raw, database)["_rid"]
    found = base64.b64decode(rid.replace("-", "/"))
    owner = base64.b64decode(raw.get(database).json["_rid"].replace("-", "/"))
    assert (len(rid), len(found)) == (12, 8)
    assert found[:4] == owner
    assert found[4] & 0x80


def test_headers(raw: RawClient, database: str) -> None:
    owner = raw.get(database).json
    made = raw.post(f"{database}/colls", definition())
    path = f"{database}/colls/c"
    read = raw.get(path)
    replaced = raw.put(path, definition())
    gone = raw.delete(path)
    for reply, charge in ((made, 5), (read, 1), (replaced, 5), (gone, 5)):
        assert float(reply.headers["x-ms-request-charge"]) == charge
        assert reply.headers["x-ms-alt-content-path"] == database[1:]
        assert reply.headers["x-ms-content-path"] == owner["_rid"]
        assert reply.headers["content-type"] == "application/json"
    for reply in (made, read, replaced):
        assert reply.headers["etag"] == reply.json["_etag"]
        assert re.fullmatch(r"0:-1#\d+", reply.headers["x-ms-session-token"])
    assert (gone.status, gone.body) == (204, b"")


def test_owner_path_is_safe_in_a_header(raw: RawClient, name: str) -> None:
    database = f"/dbs/é %/{name}".replace("%/", "%")
    assert raw.post("/dbs", {"id": database[5:]}).status == 201
    reply = raw.post(f"{database}/colls", definition())
    assert reply.headers["x-ms-alt-content-path"] == quote(database[1:])
    assert raw.delete(database).status == 204


def test_key_of_javascript_clients(raw: RawClient, database: str) -> None:
    """They send paths only, and hash with version 1 then."""
    body = create(raw, database, partitionKey={"paths": ["/pk"]})
    assert body["partitionKey"]["paths"] == ["/pk"]
    assert body["partitionKey"]["kind"] == "Hash"
    assert body["partitionKey"].get("version", 1) == 1


@pytest.mark.parametrize(
    "sent",
    [
        {"paths": ["/a/b"], "kind": "Hash", "version": 2},
        {"paths": ["/a"], "kind": "Hash", "version": 1},
        {"paths": ["/_partitionKey"], "kind": "Hash", "version": 2},
        {"paths": ["/id"], "kind": "Hash", "version": 2},
        {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
        {"paths": ["/a", "/b", "/c/d"], "kind": "MultiHash", "version": 2},
        {"paths": ["/a"], "kind": "MultiHash", "version": 2},
        {"paths": ['/"level\' 1*()"/"le/vel2"'], "kind": "Hash", "version": 2},
    ],
)
def test_keys_come_back_as_sent(raw: RawClient, database: str, sent: dict[str, Any]) -> None:
    assert create(raw, database, partitionKey=sent)["partitionKey"] == sent


ALL_TYPES = ["Point", "LineString", "Polygon", "MultiPolygon"]
BOX = {"xmin": 0, "ymin": -10, "xmax": 10, "ymax": 10}
COMPOSITE = [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]]
EMBEDDING = {
    "path": "/vector1",
    "dataType": "float32",
    "distanceFunction": "cosine",
    "dimensions": 256,
}
EMBEDDINGS = {"vectorEmbeddings": [EMBEDDING]}
FULL_TEXT = {
    "defaultLanguage": "en-US",
    "fullTextPaths": [{"path": "/t", "language": "en-US"}],
}
LOWER = [{"name": "lowerName", "query": "SELECT VALUE LOWER(c.name) FROM c"}]


def paths(*texts: str) -> list[dict[str, str]]:
    return [{"path": text} for text in texts]


OLD_INDEX = {"kind": "Range", "dataType": "String", "precision": -1}
SPATIAL = {"path": "/l/*", "types": ALL_TYPES}
ETAG_TEXT = '/"_etag"/?'


@pytest.mark.parametrize(
    ("sent", "changes"),
    [
        ({}, {}),
        (None, {}),
        ({"indexingMode": "Consistent"}, {}),
        ({"automatic": True}, {}),
        ({"includedPaths": paths("/")}, {}),
        ({"includedPaths": [{"path": "/*", "indexes": [OLD_INDEX]}]}, {}),
        ({"includedPaths": paths("/*"), "excludedPaths": paths(ETAG_TEXT)}, {}),
        ({"automatic": False}, {"automatic": False}),
        ({"indexingMode": "lazy"}, {"indexingMode": "lazy"}),
        (
            {"indexingMode": "none", "automatic": False},
            {"indexingMode": "none", "automatic": False, "includedPaths": [], "excludedPaths": []},
        ),
        (
            {"includedPaths": paths("/*"), "excludedPaths": paths("/x/*")},
            {"excludedPaths": paths("/x/*", ETAG_TEXT)},
        ),
        (
            {"includedPaths": paths("/x/?"), "excludedPaths": paths("/")},
            {"includedPaths": paths("/x/?"), "excludedPaths": paths("/*", ETAG_TEXT)},
        ),
        (
            {"includedPaths": paths("/a/[]/b/?", "/*")},
            {"includedPaths": paths("/a/[]/b/?", "/*")},
        ),
        ({"compositeIndexes": COMPOSITE}, {"compositeIndexes": COMPOSITE}),
        ({"spatialIndexes": [SPATIAL | {"types": ["Point"]}]}, {"spatialIndexes": [SPATIAL]}),
    ],
)
def test_indexing_policies(
    raw: RawClient, database: str, sent: dict[str, Any] | None, changes: dict[str, Any]
) -> None:
    body = create(raw, database, indexingPolicy=sent)
    assert body["indexingPolicy"] == POLICY | changes
    assert raw.get(f"{database}/colls/c").json == body


CUSTOM = {
    "mode": "Custom",
    "conflictResolutionPath": "",
    "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/s",
}


def each_kind(member: str, *kinds: str) -> dict[str, Any]:
    """An embedding for each value that a member may have."""
    embeddings = [EMBEDDING | {"path": f"/{kind}", member: kind} for kind in kinds]
    return {"vectorEmbeddingPolicy": {"vectorEmbeddings": embeddings}}


@pytest.mark.parametrize(
    "properties",
    [
        {"defaultTtl": -1},
        {"defaultTtl": 1},
        {"defaultTtl": 2147483647},
        {"analyticalStorageTtl": -1},
        {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a", "/b"]}, {"paths": ["/c/d"]}]}},
        {"conflictResolutionPolicy": LAST_WRITER | {"conflictResolutionPath": "/x/y"}},
        {"conflictResolutionPolicy": CUSTOM},
        {"computedProperties": LOWER},
        {"vectorEmbeddingPolicy": EMBEDDINGS},
        each_kind("dataType", "float32", "float16", "uint8", "int8"),
        each_kind("distanceFunction", "cosine", "euclidean", "dotproduct"),
        {"fullTextPolicy": FULL_TEXT},
        {"geospatialConfig": {"type": "Geometry"}},
        {"changeFeedPolicy": {"retentionDuration": 10}},
        {"clientEncryptionPolicy": {"includedPaths": [], "policyFormatVersion": 1}},
        {"materializedViewDefinition": {"sourceCollectionId": "x", "definition": "SELECT 1"}},
    ],
    ids=lambda properties: next(iter(properties)),
)
def test_properties_come_back_as_sent(
    raw: RawClient, database: str, properties: dict[str, Any]
) -> None:
    plain = create(raw, database, id="plain")
    body = create(raw, database, **properties)
    changing = {"id": "c", "_self": body["_self"], **{name: body[name] for name in SYSTEM}}
    assert body == plain | changing | properties
    assert raw.get(f"{database}/colls/c").json == body


def test_vector_and_text_indexes_come_back_as_sent(raw: RawClient, database: str) -> None:
    kinds = ("flat", "quantizedFlat", "diskANN")
    embeddings = [EMBEDDING | {"path": f"/{kind}"} for kind in kinds]
    vectors: list[dict[str, Any]] = [{"path": f"/{kind}", "type": kind} for kind in kinds]
    vectors[1]["quantizationByteSize"] = 64
    vectors[2] |= {"indexingSearchListSize": 25, "vectorIndexShardKey": ["/country"]}
    extra = {"vectorIndexes": vectors, "fullTextIndexes": [{"path": "/t"}]}
    body = create(
        raw,
        database,
        indexingPolicy=extra,
        vectorEmbeddingPolicy={"vectorEmbeddings": embeddings},
        fullTextPolicy=FULL_TEXT,
    )
    assert body["indexingPolicy"] == POLICY | extra


def test_planar_containers_keep_their_boxes(raw: RawClient, database: str) -> None:
    spatial = [{"path": "/l/*", "types": ALL_TYPES, "boundingBox": BOX}]
    config = {"type": "Geometry"}
    policy = {"spatialIndexes": spatial}
    body = create(raw, database, geospatialConfig=config, indexingPolicy=policy)
    assert body["geospatialConfig"] == config
    assert body["indexingPolicy"] == POLICY | policy


def test_unset_properties_are_absent(raw: RawClient, database: str) -> None:
    absent: dict[str, Any] = {
        "defaultTtl": None,
        "analyticalStorageTtl": None,
        "computedProperties": [],
        "vectorEmbeddingPolicy": None,
        "fullTextPolicy": None,
        "changeFeedPolicy": None,
    }
    assert set(create(raw, database, **absent)).isdisjoint(absent)


def test_what_was_read_can_be_sent(raw: RawClient, database: str) -> None:
    """System properties and links in a body are the server's business."""
    body = create(raw, database, defaultTtl=5)
    twin = raw.post(f"{database}/colls", body | {"id": "twin", "statistics": [], "x": 1}).json
    assert "x" not in twin
    assert "statistics" not in twin
    for name in SYSTEM:
        assert name == "_ts" or twin[name] != body[name]


# Names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "fragment"),
    [
        (None, MISSING_ID),
        ("", NAME_LENGTH),
        ("x" * 256, NAME_LENGTH),
        (1, NAME_LENGTH),
        (["c"], NAME_LENGTH),
        ("a/b", ""),
        ("a\\b", ""),
        ("a#b", ""),
        ("a?b", ""),
        ("a ", ""),
    ],
)
def test_names_that_will_not_do(raw: RawClient, database: str, chosen: Any, fragment: str) -> None:
    assert fragment in refusal(raw.post(f"{database}/colls", definition(id=chosen)))
    assert raw.get(f"{database}/colls").json["DocumentCollections"] == []


@pytest.mark.parametrize(
    "chosen",
    ["!@$%^&*()-~`'_[]{}|;:,.<>", " a b", "%20", "+", "..", "é漢\U0001f984", "colls", "x" * 255],
)
def test_names_round_trip(raw: RawClient, database: str, chosen: str) -> None:
    body = create(raw, database, id=chosen)
    path = f"{database}/colls/{chosen}"
    assert raw.get(path).json == body
    wire = quote(path, safe="/;,?:@&=+$-_.!~*'()")
    assert raw.request("GET", path, raw_path=wire).json == body
    reply = raw.post(f"{path}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert reply.status == 201
    assert reply.headers["x-ms-alt-content-path"] == quote(path[1:])
    assert raw.delete(path).status == 204


def test_taken_name(raw: RawClient, database: str) -> None:
    before = create(raw, database)
    reply = raw.post(f"{database}/colls", definition(defaultTtl=1))
    assert outcome(reply) == (409, 0, "Conflict")
    fragment = "Entity with the specified id already exists in the system."
    assert fragment in reply.json["message"]
    assert raw.get(f"{database}/colls/c").json == before
    assert create(raw, database, id="C")["id"] == "C"


def test_the_same_name_in_two_databases(raw: RawClient, database: str) -> None:
    other = f"{database}-other"
    assert raw.post("/dbs", {"id": other[5:]}).status == 201
    one, two = create(raw, database), create(raw, other)
    assert one["_rid"] != two["_rid"]
    assert raw.delete(other).status == 204
    assert raw.get(f"{database}/colls/c").json == one


# Refusals ----------------------------------------------------------------------------------------


def vector_index(**properties: Any) -> dict[str, Any]:
    index = {"path": "/vector1", "type": "quantizedFlat"} | properties
    return {"vectorEmbeddingPolicy": EMBEDDINGS, "indexingPolicy": {"vectorIndexes": [index]}}


def embedding(**properties: Any) -> dict[str, Any]:
    return {"vectorEmbeddingPolicy": {"vectorEmbeddings": [EMBEDDING | properties]}}


def hashed(*paths: Any, kind: Any = "Hash", version: Any = 2) -> dict[str, Any]:
    return {"partitionKey": {"paths": list(paths), "kind": kind, "version": version}}


def indexed(**members: Any) -> dict[str, Any]:
    return {"indexingPolicy": members}


def unique(*keys: Any) -> dict[str, Any]:
    return {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": each} for each in keys]}}


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
    inner = KEY if policy == "partitionKey" else {}
    for value in WRONG:
        reply = raw.post(f"{database}/colls", definition(**{policy: {**inner, member: value}}))
        assert outcome(reply) == (400, 0, "BadRequest"), value
    assert raw.get(f"{database}/colls").json["DocumentCollections"] == []


# Replace -----------------------------------------------------------------------------------------


def test_replace(raw: RawClient, database: str, clock: MovableClock) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database)
    clock.advance(2)
    reply = raw.put(path, old | {"defaultTtl": 60, "computedProperties": LOWER})
    new = reply.json
    assert reply.status == 200
    assert new == old | {
        "defaultTtl": 60,
        "computedProperties": LOWER,
        "_etag": new["_etag"],
        "_ts": new["_ts"],
    }
    assert new["_etag"] != old["_etag"]
    assert new["_ts"] >= old["_ts"] + 2
    assert raw.get(path).json == new


def test_omitted_properties_are_reset(raw: RawClient, database: str) -> None:
    create(
        raw,
        database,
        defaultTtl=60,
        computedProperties=LOWER,
        fullTextPolicy=FULL_TEXT,
        changeFeedPolicy={"retentionDuration": 5},
        indexingPolicy={"includedPaths": [ROOT], "excludedPaths": [{"path": "/x/*"}]},
    )
    body = raw.put(f"{database}/colls/c", definition()).json
    reset = {"defaultTtl", "computedProperties", "fullTextPolicy", "changeFeedPolicy"}
    assert reset.isdisjoint(body)
    assert body["indexingPolicy"] == POLICY


def test_what_is_fixed_is_kept_when_omitted(raw: RawClient, database: str) -> None:
    fixed = {
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a"]}]},
        "conflictResolutionPolicy": LAST_WRITER | {"conflictResolutionPath": "/n"},
        "analyticalStorageTtl": -1,
    }
    create(raw, database, **fixed)
    body = raw.put(f"{database}/colls/c", definition()).json
    assert {name: body[name] for name in fixed} == fixed


@pytest.mark.parametrize(
    "change",
    [
        {"id": "d"},
        {"id": "C"},
        {"id": None},
        {"id": 5},
        hashed("/other"),
        hashed("/pk", version=1),
        hashed("/pk", kind="MultiHash"),
        {"partitionKey": None},
        {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/b"]}]}},
        {"uniqueKeyPolicy": {"uniqueKeys": []}},
        {"conflictResolutionPolicy": LAST_WRITER | {"conflictResolutionPath": "/other"}},
        {"defaultTtl": 0},
        {"defaultTtl": "60"},
        {"indexingPolicy": {"indexingMode": "none"}},
        {"indexingPolicy": {"indexingMode": "sometimes"}},
        {"indexingPolicy": []},
        {"geospatialConfig": {"type": "Flat"}},
    ],
)
def test_replacements_that_will_not_do(
    raw: RawClient, database: str, change: dict[str, Any]
) -> None:
    unique = {"uniqueKeys": [{"paths": ["/a"]}]}
    old = create(raw, database, defaultTtl=3600, uniqueKeyPolicy=unique)
    refusal(raw.put(f"{database}/colls/c", old | change))
    assert raw.get(f"{database}/colls/c").json == old


def test_vector_paths_cannot_be_modified(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database, **vector_index())
    index = {"vectorIndexes": [{"path": "/vector1", "type": "diskANN"}]}
    text = refusal(raw.put(path, old | {"indexingPolicy": index}))
    assert (
        "Paths in existing vector indexing policy cannot be modified in Collection Replace" in text
    )
    text = refusal(raw.put(path, old | embedding(dimensions=300)))
    assert "Paths in existing embedding policy cannot be modified in Collection Replace" in text
    assert raw.get(path).json == old
    assert raw.put(path, old | {"defaultTtl": 5}).status == 200


def test_indexing_mode_and_lifetimes_change_together(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/c"
    create(raw, database, defaultTtl=60)
    none = {"indexingMode": "none", "automatic": False}
    assert MODE_NONE in refusal(raw.put(path, definition(defaultTtl=60, indexingPolicy=none)))
    assert raw.put(path, definition(indexingPolicy=none)).status == 200
    assert MODE_NONE in refusal(raw.put(path, definition(defaultTtl=-1, indexingPolicy=none)))
    assert raw.put(path, definition(defaultTtl=-1)).status == 200


def test_replace_keeps_items_throughput_and_rid(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database)
    item = raw.post(f"{path}/docs", {"id": "1", "pk": "a"}, pk='["a"]').json
    new = raw.put(path, definition(indexingPolicy={"indexingMode": "lazy"})).json
    assert (new["_rid"], new["_self"]) == (old["_rid"], old["_self"])
    assert raw.get(f"{path}/docs/1", pk='["a"]').json == item
    resources = [offer["resource"] for offer in raw.get("/offers").json["Offers"]]
    assert resources.count(old["_self"]) == 1


# Missing -----------------------------------------------------------------------------------------


def test_missing_container(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/nowhere"
    for reply in (raw.get(path), raw.put(path, definition(id="nowhere")), raw.delete(path)):
        assert outcome(reply) == (404, 0, "NotFound")


def test_missing_database(raw: RawClient, name: str) -> None:
    path = f"/dbs/{name}/colls"
    for reply in (
        raw.get(path),
        raw.post(path, definition()),
        raw.query(path, "SELECT * FROM c"),
        raw.get(f"{path}/c"),
        raw.put(f"{path}/c", definition()),
        raw.delete(f"{path}/c"),
        raw.get(f"{path}/c/pkranges"),
        raw.get(f"{path}/c/docs"),
        raw.post(f"{path}/c/docs", {"id": "1", "pk": "a"}, pk='["a"]'),
    ):
        assert outcome(reply) == (404, 1003, "NotFound")


def test_missing_owner_of_items(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/nowhere"
    for reply in (
        raw.get(f"{path}/docs"),
        raw.get(f"{path}/pkranges"),
        raw.get(f"{path}/docs/1", pk='["a"]'),
        raw.post(f"{path}/docs", {"id": "1", "pk": "a"}, pk='["a"]'),
        raw.put(f"{path}/docs/1", {"id": "1", "pk": "a"}, pk='["a"]'),
        raw.delete(f"{path}/docs/1", pk='["a"]'),
        raw.query(f"{path}/docs", "SELECT * FROM c"),
    ):
        assert outcome(reply) == (404, 1003, "NotFound")


def test_delete(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database)
    raw.post(f"{path}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert raw.delete(path).status == 204
    assert outcome(raw.get(path)) == (404, 0, "NotFound")
    assert outcome(raw.get(f"{path}/docs/1", pk='["a"]')) == (404, 1003, "NotFound")
    assert outcome(raw.get(f"/{old['_self']}")) == (404, 0, "NotFound")
    new = create(raw, database)
    assert new["_rid"] != old["_rid"]
    assert raw.get(f"{path}/docs").json["Documents"] == []


# Preconditions -----------------------------------------------------------------------------------


def test_if_match(raw: RawClient, database: str) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database)
    for reply in (
        raw.put(path, definition(defaultTtl=5), if_match='"other"'),
        raw.delete(path, if_match='"other"'),
    ):
        assert outcome(reply) == (412, 0, "PreconditionFailed")
        assert NOT_MET in reply.json["message"]
    assert raw.get(path).json == old
    new = raw.put(path, definition(defaultTtl=5), if_match=old["_etag"])
    assert new.status == 200
    assert raw.put(path, definition(), if_match=old["_etag"]).status == 412
    assert raw.put(path, definition(), if_match="*").status == 200
    assert raw.delete(path, if_match=new.json["_etag"]).status == 412
    etag = raw.get(path).headers["etag"].strip('"')
    assert raw.delete(path, if_match=etag).status == 204
    assert outcome(raw.delete(path, if_match="*")) == (404, 0, "NotFound")


def test_if_none_match(raw: RawClient, container: str) -> None:
    etag = raw.get(container).headers["etag"]
    for value in (etag, etag.strip('"'), "*"):
        reply = raw.get(container, if_none_match=value)
        assert (reply.status, reply.body) == (304, b"")
        assert reply.headers["etag"] == etag
    assert raw.get(container, if_none_match='"other"').status == 200
    raw.put(container, definition(defaultTtl=5))
    assert raw.get(container, if_none_match=etag).status == 200


# The intended container --------------------------------------------------------------------------

CALLS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", "", None, {}),
    ("PUT", "", definition(), {}),
    ("DELETE", "", None, {}),
    ("GET", "/pkranges", None, {}),
    ("GET", "/docs", None, {}),
    ("GET", "/docs/1", None, {"x-ms-documentdb-partitionkey": '["a"]'}),
    ("POST", "/docs", {"id": "2", "pk": "a"}, {"x-ms-documentdb-partitionkey": '["a"]'}),
    ("PUT", "/docs/1", {"id": "1", "pk": "a"}, {"x-ms-documentdb-partitionkey": '["a"]'}),
    ("DELETE", "/docs/1", None, {"x-ms-documentdb-partitionkey": '["a"]'}),
    (
        "POST",
        "/docs",
        {"query": "SELECT * FROM c"},
        {
            "x-ms-documentdb-isquery": "True",
            "x-ms-documentdb-query-enablecrosspartition": "True",
        },
    ),
]


@pytest.mark.parametrize(("method", "tail", "body", "headers"), CALLS)
def test_intended_container(
    raw: RawClient, database: str, method: str, tail: str, body: Any, headers: dict[str, str]
) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database)
    raw.delete(path)
    new = create(raw, database)
    raw.post(f"{path}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    stale = raw.request(method, path + tail, body, {**headers, INTENDED: old["_rid"]})
    assert outcome(stale) == (400, 1024, "BadRequest")
    assert raw.get(path).json == new
    right = raw.request(method, path + tail, body, {**headers, INTENDED: new["_rid"]})
    assert right.status < 300


def test_stale_container_wins_over_a_future_session(raw: RawClient, container: str) -> None:
    headers = {
        INTENDED: "AQAAAIAAAAI=",
        "x-ms-session-token": "0:-1#999",
        "x-ms-documentdb-partitionkey": '["a"]',
    }
    reply = raw.request("GET", f"{container}/docs/1", headers=headers)
    assert outcome(reply) == (400, 1024, "BadRequest")


# Quota and statistics ----------------------------------------------------------------------------

QUOTA = "x-ms-resource-quota"
USAGE = "x-ms-resource-usage"
PROGRESS = "x-ms-documentdb-collection-index-transformation-progress"
POPULATE = "x-ms-documentdb-populatequotainfo"
STATISTICS = "x-ms-documentdb-populatepartitionstatistics"


def pairs(header: str) -> dict[str, int]:
    return {name: int(value) for name, value in (p.split("=") for p in header.split(";") if p)}


@pytest.mark.parametrize("spelling", ["true", "True"])
def test_quota(raw: RawClient, container: str, spelling: str) -> None:
    reply = raw.request("GET", container, headers={POPULATE: spelling})
    quota, usage = pairs(reply.headers[QUOTA]), pairs(reply.headers[USAGE])
    assert quota["collectionSize"] == 10485760
    assert quota["documentsCount"] == -1
    assert {"documentSize", "documentsSize"} <= set(quota) == set(usage)
    assert usage["documentsCount"] == usage["documentsSize"] == usage["collectionSize"] == 0
    assert reply.headers[PROGRESS] == "100"
    assert "x-ms-documentdb-collection-lazy-indexing-progress" not in reply.headers


def test_usage_grows(raw: RawClient, container: str) -> None:
    for n in range(3):
        body = {"id": f"{n}", "pk": "a", "text": "x" * 2000}
        assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201
    reply = raw.request("GET", container, headers={POPULATE: "true"})
    usage = pairs(reply.headers[USAGE])
    assert usage["documentsCount"] == 3
    assert 6 <= usage["documentsSize"] <= 10
    assert usage["collectionSize"] >= usage["documentsSize"]


@pytest.mark.parametrize("headers", [{}, {POPULATE: "False", STATISTICS: "false"}])
def test_quota_only_when_asked(raw: RawClient, container: str, headers: dict[str, str]) -> None:
    reply = raw.request("GET", container, headers=headers)
    assert {QUOTA, USAGE, PROGRESS}.isdisjoint(reply.headers)
    assert "statistics" not in reply.json


def test_statistics(raw: RawClient, container: str) -> None:
    empty = raw.request("GET", container, headers={STATISTICS: "True"})
    assert empty.json["statistics"] == [
        {
            "id": "0",
            "sizeInKB": 0,
            "documentCount": 0,
            "sampledDistinctPartitionKeyCount": 0,
            "partitionKeys": [],
        }
    ]
    for n, pk in enumerate("aab"):
        raw.post(f"{container}/docs", {"id": f"{n}", "pk": pk}, pk=f'["{pk}"]')
    (found,) = raw.request("GET", container, headers={STATISTICS: "true"}).json["statistics"]
    assert found["documentCount"] == 3
    assert found["sampledDistinctPartitionKeyCount"] == 2
    assert found["sizeInKB"] == 1


def test_statistics_of_several_ranges(raw: RawClient, database: str) -> None:
    headers = {"x-ms-offer-throughput": "30000"}
    assert raw.request("POST", f"{database}/colls", definition(), headers).status == 201
    path = f"{database}/colls/c"
    for n in range(12):
        raw.post(f"{path}/docs", {"id": f"{n}", "pk": f"{n}"}, pk=f'["{n}"]')
    found = raw.request("GET", path, headers={STATISTICS: "true"}).json["statistics"]
    assert [part["id"] for part in found] == ["0", "1", "2"]
    assert sum(part["documentCount"] for part in found) == 12
    assert all(part["documentCount"] for part in found)


# Rids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "/"])
@pytest.mark.parametrize("encoded", [True, False], ids=["encoded", "plain"])
def test_every_route_by_rid(raw: RawClient, database: str, ending: str, encoded: bool) -> None:
    owner = raw.get(database).json
    body = create(raw, database)
    base = f"/dbs/{owner['_rid']}/colls"
    path = f"{base}/{body['_rid']}"

    def call(method: str, path: str, body: Any = None, **headers: str) -> Reply:
        path += ending
        wire = quote(path, safe="/" if encoded else "/=+")
        return raw.request(method, path, body, headers, raw_path=wire)

    query = {
        "x-ms-documentdb-isquery": "true",
        "x-ms-documentdb-query-enablecrosspartition": "true",
    }
    pk = {"x-ms-documentdb-partitionkey": '["a"]'}
    everything = {"query": "SELECT * FROM c"}

    assert call("GET", path).json == body
    assert call("GET", base).json["DocumentCollections"] == [body]
    assert call("POST", base, everything, **query).json["DocumentCollections"] == [body]
    assert call("GET", f"{path}/pkranges").json["_rid"] == body["_rid"]

    made = call("POST", f"{path}/docs", {"id": "1", "pk": "a"}, **pk)
    assert made.status == 201
    assert made.headers["x-ms-alt-content-path"] == f"{database[1:]}/colls/c"
    assert made.headers["x-ms-content-path"] == body["_rid"]
    item = made.json
    one = f"{path}/docs/{item['_rid']}"
    assert call("GET", one, **pk).json == item
    assert call("GET", f"{path}/docs").json["Documents"] == [item]
    assert call("POST", f"{path}/docs", everything, **query).json["Documents"] == [item]
    assert call("PUT", one, {"id": "1", "pk": "a", "x": 1}, **pk).json["x"] == 1
    assert call("DELETE", one, **pk).status == 204

    assert call("PUT", path, definition(defaultTtl=5)).json["defaultTtl"] == 5
    assert call("POST", base, definition(id="d")).status == 201
    assert call("DELETE", path).status == 204
    assert outcome(call("GET", path)) == (404, 0, "NotFound")
    names = [found["id"] for found in raw.get(f"{database}/colls").json["DocumentCollections"]]
    assert names == ["d"]


def test_names_and_rids_mix(raw: RawClient, database: str) -> None:
    owner = raw.get(database).json
    body = create(raw, database)
    assert raw.get(f"{database}/colls/{body['_rid']}").json == body
    assert raw.get(f"/dbs/{owner['_rid']}/colls/c").json == body


def test_rids_of_other_databases_lead_nowhere(raw: RawClient, database: str) -> None:
    other = f"{database}-other"
    raw.post("/dbs", {"id": other[5:]})
    body = create(raw, database)
    for path in (other, f"/dbs/{raw.get(other).json['_rid']}"):
        assert outcome(raw.get(f"{path}/colls/{body['_rid']}")) == (404, 0, "NotFound")
        missing = raw.get(f"{path}/colls/{body['_rid']}/pkranges")
        assert outcome(missing) == (404, 1003, "NotFound")
    assert raw.delete(other).status == 204


def test_a_name_wins_over_a_rid(raw: RawClient, database: str) -> None:
    first = create(raw, database)
    second = create(raw, database, id=first["_rid"])
    assert raw.get(f"{database}/colls/{first['_rid']}").json == second
    assert raw.delete(f"{database}/colls/{first['_rid']}").status == 204
    assert raw.get(f"{database}/colls/{first['_rid']}").json == first


def test_names_win_over_rids_all_the_way(raw: RawClient, database: str) -> None:
    """A database and a container that are named like the rids of others."""
    owner, first = raw.get(database).json, create(raw, database)
    twin = f"/dbs/{owner['_rid']}"
    assert raw.post("/dbs", {"id": owner["_rid"]}).status == 201
    second = create(raw, twin, id=first["_rid"])
    path = f"{twin}/colls/{first['_rid']}"
    assert raw.get(path).json == second
    assert raw.get(f"{database}/colls/c").json == first
    assert raw.delete(twin).status == 204
    assert raw.get(path).json == first


# Queries -----------------------------------------------------------------------------------------


def test_query(raw: RawClient, database: str) -> None:
    owner = raw.get(database).json
    bodies = [create(raw, database, id=name, defaultTtl=n + 1) for n, name in enumerate("abc")]
    text = "SELECT * FROM root r WHERE r.id=@id"
    reply = raw.query(f"{database}/colls", text, [{"name": "@id", "value": "b"}])
    assert reply.status == 200
    assert reply.json == {
        "_rid": owner["_rid"],
        "DocumentCollections": [bodies[1]],
        "_count": 1,
    }
    assert reply.headers["x-ms-item-count"] == "1"
    assert reply.headers["x-ms-alt-content-path"] == database[1:]
    assert "etag" not in reply.headers
    text = "SELECT VALUE r.id FROM r WHERE r.defaultTtl > 1 ORDER BY r.defaultTtl DESC"
    found = raw.query(f"{database}/colls", text).json["DocumentCollections"]
    assert found == ["c", "b"]
