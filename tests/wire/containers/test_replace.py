"""Replace and delete containers, also with preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient
from tests.support.replies import outcome
from tests.wire.containers.definitions import (
    FULL_TEXT,
    LAST_WRITER,
    LOWER,
    MODE_NONE,
    POLICY,
    ROOT,
    create,
    definition,
    embedding,
    hashed,
    refusal,
    vector_index,
)

NOT_MET = "Operation cannot be performed because one of the specified precondition is not met."

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
