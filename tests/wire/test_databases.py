"""Databases: their bodies, names, addresses, preconditions, and what goes with them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.replies import outcome

ETAG = re.compile(r'"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{8})[0-9a-f]{4}"')
MISSING_ID = "The input content is invalid because the required properties - 'id; ' - are missing"
NAME_LENGTH = "Ensure to provide a unique non-empty string less than '255' characters."
NOT_MET = "Operation cannot be performed because one of the specified precondition is not met."


@pytest.fixture
def names_to_delete(raw: RawClient) -> Iterator[list[str]]:
    """Names to delete after the test."""
    names: list[str] = []
    yield names
    for name in names:
        raw.delete(f"/dbs/{name}")


def test_create(raw: RawClient, names_to_delete: list[str], name: str, clock: MovableClock) -> None:
    names_to_delete.append(name)
    before = int(clock.now())
    reply = raw.post("/dbs", {"id": name})
    body = reply.json
    assert reply.status == 201
    assert list(body) == ["id", "_rid", "_self", "_etag", "_colls", "_users", "_ts"]
    rid = body["_rid"]
    assert body == {
        "id": name,
        "_rid": rid,
        "_self": f"dbs/{rid}/",
        "_etag": body["_etag"],
        "_colls": "colls/",
        "_users": "users/",
        "_ts": body["_ts"],
    }
    assert len(rid) == 8
    assert len(base64.b64decode(rid.replace("-", "/"))) == 4
    assert before <= body["_ts"] <= int(clock.now())
    stamp = ETAG.fullmatch(body["_etag"])
    assert stamp
    assert int(stamp[1], 16) == body["_ts"]
    assert reply.headers["etag"] == body["_etag"]
    assert reply.headers["content-type"] == "application/json"
    assert float(reply.headers["x-ms-request-charge"]) == 5
    assert reply.headers["x-ms-session-token"] == "0:-1#0"


def test_read(raw: RawClient, database: str) -> None:
    reply = raw.get(database)
    assert reply.status == 200
    assert reply.json["id"] == database[5:]
    assert reply.headers["etag"] == reply.json["_etag"]
    assert float(reply.headers["x-ms-request-charge"]) == 1
    assert raw.get(database).json == reply.json


def test_delete(raw: RawClient, names_to_delete: list[str], name: str) -> None:
    names_to_delete.append(name)
    raw.post("/dbs", {"id": name})
    reply = raw.delete(f"/dbs/{name}")
    assert (reply.status, reply.body) == (204, b"")
    assert float(reply.headers["x-ms-request-charge"]) == 5
    assert reply.headers["x-ms-session-token"] == "0:-1#0"
    assert outcome(raw.get(f"/dbs/{name}")) == (404, 0, "NotFound")
    assert outcome(raw.delete(f"/dbs/{name}")) == (404, 0, "NotFound")


def test_delete_takes_everything_along(
    raw: RawClient, names_to_delete: list[str], name: str
) -> None:
    names_to_delete.append(name)
    old = raw.request("POST", "/dbs", {"id": name}, {"x-ms-offer-throughput": "500"}).json
    coll = {"id": "c", "partitionKey": PARTITION_KEY}
    own = raw.request("POST", f"/dbs/{name}/colls", coll, {"x-ms-offer-throughput": "600"}).json
    raw.post(f"/dbs/{name}/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert raw.delete(f"/dbs/{name}").status == 204

    assert outcome(raw.get(f"/dbs/{name}/colls/c")) == (404, 1003, "NotFound")
    resources = {offer["resource"] for offer in raw.get("/offers").json["Offers"]}
    assert resources.isdisjoint({old["_self"], own["_self"]})

    new = raw.post("/dbs", {"id": name}).json
    assert new["_rid"] != old["_rid"]
    assert new["_etag"] != old["_etag"]
    assert raw.get(f"/dbs/{name}/colls").json["DocumentCollections"] == []
    assert outcome(raw.get(f"/{old['_self']}")) == (404, 0, "NotFound")


def test_taken_name(raw: RawClient, database: str) -> None:
    before = raw.get(database).json
    reply = raw.post("/dbs", {"id": database[5:]})
    assert outcome(reply) == (409, 0, "Conflict")
    fragment = "Entity with the specified id already exists in the system."
    assert fragment in reply.json["message"]
    assert raw.get(database).json == before


def test_names_are_case_sensitive(
    raw: RawClient, names_to_delete: list[str], database: str
) -> None:
    upper = database[5:].upper()
    names_to_delete.append(upper)
    assert raw.get(f"/dbs/{upper}").status == 404
    assert raw.post("/dbs", {"id": upper}).status == 201
    assert raw.get(f"/dbs/{upper}").json["_rid"] != raw.get(database).json["_rid"]


@pytest.mark.parametrize(
    "tail",
    [
        "!@$%^&*()-~`'_[]{}|;:,.<>",
        "a b",
        "a+b",
        "%20",
        "%2F",
        "100%",
        "a=b&c",
        '"quoted"',
        "é",
        "漢字",
        "\U0001f984",
        "e\u0301",
        "tab\tin",
        "line\nin",
        "\u00a0",
        "…",
    ],
)
@pytest.mark.parametrize("safe", ["/", "/;,?:@&=+$-_.!~*'()"], ids=["python", "javascript"])
def test_names_round_trip(
    raw: RawClient, names_to_delete: list[str], name: str, tail: str, safe: str
) -> None:
    chosen = f" {name}{tail}"
    names_to_delete.append(chosen)
    path = f"/dbs/{chosen}"
    wire = quote(path, safe=safe)
    created = raw.post("/dbs", {"id": chosen})
    assert created.status == 201
    assert created.json["id"] == chosen
    read = raw.request("GET", path, raw_path=wire)
    assert read.json == created.json
    coll = raw.request(
        "POST",
        f"{path}/colls",
        {"id": chosen, "partitionKey": PARTITION_KEY},
        raw_path=f"{wire}/colls",
    )
    assert coll.status == 201
    assert coll.headers["x-ms-alt-content-path"].isascii()
    assert raw.request("DELETE", path, raw_path=wire).status == 204


@pytest.mark.parametrize("chosen", [".", "..", "dbs", "colls", "docs", "offers", "_perseid", "-"])
def test_names_that_look_like_paths(
    raw: RawClient, names_to_delete: list[str], chosen: str
) -> None:
    names_to_delete.append(chosen)
    assert raw.post("/dbs", {"id": chosen}).status == 201
    assert raw.get(f"/dbs/{chosen}").json["id"] == chosen
    assert raw.get(f"/dbs/{chosen}/colls").json["DocumentCollections"] == []
    assert raw.delete(f"/dbs/{chosen}").status == 204


def test_longest_name(raw: RawClient, names_to_delete: list[str], name: str) -> None:
    for chosen in (name.ljust(255, "x"), name.ljust(255, "é")):
        names_to_delete.append(chosen)
        assert raw.post("/dbs", {"id": chosen}).status == 201
        assert raw.get(f"/dbs/{chosen}").json["id"] == chosen


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        ({}, MISSING_ID),
        ({"ID": "x"}, MISSING_ID),
        ({"id": None}, MISSING_ID),
        ({"id": ""}, NAME_LENGTH),
        ({"id": "x" * 256}, NAME_LENGTH),
        ({"id": 1}, NAME_LENGTH),
        ({"id": True}, NAME_LENGTH),
        ({"id": ["x"]}, NAME_LENGTH),
        ({"id": {"id": "x"}}, NAME_LENGTH),
        ({"id": "a/b"}, ""),
        ({"id": "a\\b"}, ""),
        ({"id": "a#b"}, ""),
        ({"id": "a?b"}, ""),
        ({"id": "a "}, ""),
    ],
)
def test_names_that_will_not_do(raw: RawClient, body: dict[str, Any], fragment: str) -> None:
    reply = raw.post("/dbs", body)
    assert outcome(reply) == (400, 0, "BadRequest")
    assert fragment in reply.json["message"]


def test_unknown_properties_are_ignored(
    raw: RawClient, names_to_delete: list[str], name: str
) -> None:
    names_to_delete.append(name)
    sent = {"id": name, "_rid": "x", "_self": "y", "_etag": "z", "_ts": 1, "colour": "red"}
    body = raw.post("/dbs", sent).json
    assert "colour" not in body
    assert body == raw.get(f"/dbs/{name}").json
    assert {body["_rid"], body["_self"], body["_etag"]}.isdisjoint("xyz")


def test_databases_cannot_be_replaced(raw: RawClient, database: str) -> None:
    for method in ("PUT", "PATCH", "POST"):
        reply = raw.request(method, database, {"id": database[5:]})
        assert outcome(reply) == (405, 0, "MethodNotAllowed")


# Preconditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("quotes", ['"', ""], ids=["quoted", "bare"])
def test_if_match(raw: RawClient, names_to_delete: list[str], name: str, quotes: str) -> None:
    names_to_delete.append(name)
    path = f"/dbs/{name}"
    etag = raw.post("/dbs", {"id": name}).json["_etag"]
    refused = raw.delete(path, if_match='"00000000-0000-0000-0000-000000000000"')
    assert outcome(refused) == (412, 0, "PreconditionFailed")
    assert NOT_MET in refused.json["message"]
    assert raw.get(path).status == 200
    assert raw.delete(path, if_match=etag.replace('"', quotes)).status == 204


def test_if_match_any(raw: RawClient, names_to_delete: list[str], name: str) -> None:
    names_to_delete.append(name)
    assert outcome(raw.delete(f"/dbs/{name}", if_match="*")) == (404, 0, "NotFound")
    raw.post("/dbs", {"id": name})
    assert raw.delete(f"/dbs/{name}", if_match="*").status == 204


def test_if_none_match(raw: RawClient, database: str) -> None:
    etag = raw.get(database).headers["etag"]
    for value in (etag, etag.strip('"'), "*"):
        reply = raw.get(database, if_none_match=value)
        assert (reply.status, reply.body) == (304, b"")
        assert reply.headers["etag"] == etag
    assert raw.get(database, if_none_match='"other"').status == 200
    assert raw.get(f"{database}x", if_none_match=etag).status == 404


# Rids --------------------------------------------------------------------------------------------


def test_rid_addresses(raw: RawClient, names_to_delete: list[str], name: str) -> None:
    names_to_delete.append(name)
    body = raw.post("/dbs", {"id": name}).json
    for path in (f"/dbs/{body['_rid']}", f"/{body['_self']}"):
        assert raw.get(path).json == body
        assert raw.request("GET", path, raw_path=path).json == body
    assert outcome(raw.get(f"/dbs/{body['_rid'].swapcase()}")) == (404, 0, "NotFound")
    assert raw.delete(f"/{body['_self']}").status == 204
    assert raw.get(f"/dbs/{name}").status == 404


def test_a_name_wins_over_a_rid(raw: RawClient, names_to_delete: list[str], database: str) -> None:
    first = raw.get(database).json
    names_to_delete.append(first["_rid"])
    second = raw.post("/dbs", {"id": first["_rid"]}).json
    assert raw.get(f"/dbs/{first['_rid']}").json == second
    assert raw.delete(f"/dbs/{first['_rid']}").status == 204
    assert raw.get(f"/dbs/{first['_rid']}").json == first


# Throughput --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ms-offer-throughput": "399"},
        {"x-ms-offer-throughput": "450"},
        {"x-ms-offer-throughput": "-200"},
        {"x-ms-offer-throughput": "lots"},
        {"x-ms-offer-throughput": "400.5"},
        {"x-ms-offer-throughput": ""},
        {"x-ms-cosmos-offer-autopilot-settings": "{}"},
        {"x-ms-cosmos-offer-autopilot-settings": "4000"},
        {"x-ms-cosmos-offer-autopilot-settings": "not json"},
        {"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":500}'},
        {"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":1500}'},
        {
            "x-ms-offer-throughput": "400",
            "x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":4000}',
        },
    ],
)
def test_bad_throughput_makes_no_database(
    raw: RawClient, name: str, headers: dict[str, str]
) -> None:
    reply = raw.request("POST", "/dbs", {"id": name}, headers)
    assert outcome(reply) == (400, 0, "BadRequest")
    assert raw.get(f"/dbs/{name}").status == 404


# Queries -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ms-documentdb-isquery": "true"},
        {"x-ms-documentdb-isquery": "True"},
        {"content-type": "application/query+json"},
        {"content-type": "application/query+json; charset=utf-8"},
    ],
)
def test_query(raw: RawClient, database: str, headers: dict[str, str]) -> None:
    body = {
        "query": "SELECT * FROM root r WHERE r.id=@id",
        "parameters": [{"name": "@id", "value": database[5:]}],
    }
    reply = raw.request("POST", "/dbs", body, headers)
    assert reply.status == 200
    found = raw.get(database).json
    assert reply.json == {"_rid": "", "Databases": [found], "_count": 1}
    assert reply.headers["x-ms-item-count"] == "1"
    assert "etag" not in reply.headers
    assert "x-ms-continuation" not in reply.headers


def test_query_without_parameters_or_envelope(raw: RawClient, database: str) -> None:
    text = f"SELECT VALUE r.id FROM root r WHERE r.id = '{database[5:]}'"
    for body in ({"query": text}, {"query": text, "parameters": []}, text):
        reply = raw.request("POST", "/dbs", body, {"x-ms-documentdb-isquery": "true"})
        assert reply.json == {"_rid": "", "Databases": [database[5:]], "_count": 1}


def test_query_that_finds_nothing(raw: RawClient) -> None:
    reply = raw.query("/dbs", "SELECT * FROM root r WHERE r.id = 'no database has this name'")
    assert (reply.status, reply.json) == (200, {"_rid": "", "Databases": [], "_count": 0})


def test_query_that_is_none(raw: RawClient) -> None:
    reply = raw.query("/dbs", "SELEKT * FROM r")
    assert outcome(reply) == (400, 0, "BadRequest")
    assert reply.json["message"].startswith('Message: {"errors":[{"severity":"Error","location":')
    assert "SC1001" in reply.json["message"]
