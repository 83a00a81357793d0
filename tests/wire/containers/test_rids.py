"""Containers addressed by rid, and queries over containers."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.replies import outcome
from tests.wire.containers.definitions import create, definition


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
