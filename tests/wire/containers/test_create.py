"""Create and read containers: defaults, headers, names."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.replies import outcome
from tests.wire.containers.definitions import (
    BOX,
    COMPOSITE,
    EMBEDDING,
    EMBEDDINGS,
    FULL_TEXT,
    LAST_WRITER,
    LOWER,
    POLICY,
    create,
    definition,
    paths,
    refusal,
)

SYSTEM = ("_rid", "_ts", "_self", "_etag")
LINKS = {
    "_docs": "docs/",
    "_sprocs": "sprocs/",
    "_triggers": "triggers/",
    "_udfs": "udfs/",
    "_conflicts": "conflicts/",
}
ETAG = re.compile(r'"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{8})[0-9a-f]{4}"')
NAME_LENGTH = "Ensure to provide a unique non-empty string less than '255' characters."
MISSING_ID = "The input content is invalid because the required properties - 'id; ' - are missing"

# Create and read ---------------------------------------------------------------------------------


def test_smallest_definition(raw: RawClient, database: str, clock: MovableClock) -> None:
    owner = raw.get(database).json
    before = int(clock.now())
    reply = raw.post(f"{database}/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    body = reply.json
    assert reply.status == 201
    assert body == {
        "id": "c",
        "indexingPolicy": POLICY,
        "partitionKey": PARTITION_KEY,
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
    assert re.fullmatch(r"0:-1#\d+", gone.headers["x-ms-session-token"])


def test_owner_path_is_safe_in_a_header(raw: RawClient, name: str) -> None:
    database = f"/dbs/é %/{name}".replace("%/", "%")
    assert raw.post("/dbs", {"id": database[5:]}).status == 201
    reply = raw.post(f"{database}/colls", definition())
    assert reply.headers["x-ms-alt-content-path"] == quote(database[1:])
    assert raw.delete(database).status == 204


def test_key_of_javascript_clients(raw: RawClient, database: str) -> None:
    """They send paths only, and hash with version 1 then."""
    body = create(raw, database, partitionKey={"paths": ["/pk"]})
    assert body["partitionKey"] == {"paths": ["/pk"], "kind": "Hash"}
    path = f"{database}/colls/c"
    assert raw.get(path).json["partitionKey"] == body["partitionKey"]
    reply = raw.post(f"{path}/docs", {"id": "1", "pk": "redmond"}, pk='["redmond"]')
    assert reply.status == 201
    epk = "05C1EFE313830C087366656E706F6500"  # of version 1
    interval = {
        "x_ms_read_key_type": "EffectivePartitionKeyRange",
        "x_ms_start_epk": epk,
        "x_ms_end_epk": epk + "FF",
    }
    assert raw.get(f"{path}/docs", **interval).json["_count"] == 1
    for key in (body["partitionKey"], {"paths": ["/pk"], "version": 1}):
        replaced = raw.put(path, definition(partitionKey=key))
        assert (replaced.status, replaced.json["partitionKey"]) == (200, body["partitionKey"])
    other = definition(partitionKey={"paths": ["/pk"], "version": 2})
    assert raw.put(path, other).status == 400


@pytest.mark.parametrize(("given", "version"), [("V1", 1), ("v2", 2), ("1", 1), ("2", 2)])
def test_versions_as_java_writes_them(
    raw: RawClient, database: str, given: str, version: int
) -> None:
    key = {"paths": ["/pk"], "kind": "Hash"}
    body = create(raw, database, partitionKey=key | {"version": given})
    assert body["partitionKey"] == key | {"version": version}
    again = raw.put(f"{database}/colls/c", definition(partitionKey=key | {"version": given}))
    assert (again.status, again.json["partitionKey"]) == (200, body["partitionKey"])


def test_writes_answer_with_the_session_token_of_one_range(raw: RawClient, database: str) -> None:
    """Some clients refuse the tokens of several ranges in the response to a write."""
    made = raw.post(f"{database}/colls", definition(), throughput="30000")
    path = f"{database}/colls/c"
    replies = [made, raw.put(path, definition(defaultTtl=5)), raw.delete(path)]
    for reply in replies:
        assert re.fullmatch(r"0:-1#\d+", reply.headers["x-ms-session-token"])
    assert [reply.status for reply in replies] == [201, 200, 204]


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
        ({"automatic": False}, {}),
        ({"indexingMode": "consistent", "automatic": False}, {}),
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
