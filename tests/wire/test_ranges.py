"""Partition key ranges: the feed clients drain before they spread requests over a container."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.replies import outcome

KEYS: dict[str, dict[str, Any]] = {
    "version 2": PARTITION_KEY,
    "version 1": {"paths": ["/pk"], "kind": "Hash", "version": 1},
    "hierarchy": {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
}
FIFTHS = ["0" + "C" * 31, "1" + "9" * 30 + "8", "2" + "6" * 30 + "4", "3" * 31 + "0"]
DRAIN = {"a-im": "Incremental Feed", "x-ms-max-item-count": "-1"}


def create_keyed_container(
    raw: RawClient, database: str, style: str = "version 2", **headers: str
) -> dict[str, Any]:
    body = {"id": "c", "partitionKey": KEYS[style]}
    reply = raw.request("POST", f"{database}/colls", body, headers)
    assert reply.status == 201
    found: dict[str, Any] = reply.json
    return found


def test_body(raw: RawClient, container: str) -> None:
    owner = raw.get(container).json
    reply = raw.get(f"{container}/pkranges")
    assert reply.status == 200
    (found,) = reply.json["PartitionKeyRanges"]
    rid = found["_rid"]
    assert reply.json == {
        "_rid": owner["_rid"],
        "PartitionKeyRanges": [
            {
                "_rid": rid,
                "id": "0",
                "_etag": found["_etag"],
                "minInclusive": "",
                "maxExclusive": "FF",
                "ridPrefix": 0,
                "_self": f"{owner['_self']}pkranges/{rid}/",
                "throughputFraction": 1,
                "status": "online",
                "parents": [],
                "ownedArchivalPKRangeIds": [],
                "_ts": owner["_ts"],
                "_lsn": found["_lsn"],
            }
        ],
        "_count": 1,
    }
    raw_rid = base64.b64decode(rid.replace("-", "/"))
    assert raw_rid[:8] == base64.b64decode(owner["_rid"].replace("-", "/"))
    assert (len(raw_rid), raw_rid[15]) == (16, 0x50)
    assert isinstance(found["_lsn"], int)
    assert found["_etag"].startswith('"')


def test_headers(raw: RawClient, container: str) -> None:
    headers = raw.get(f"{container}/pkranges").headers
    assert headers["etag"][0] == headers["etag"][-1] == '"'
    assert len(headers["etag"]) > 2
    assert headers["x-ms-item-count"] == "1"
    assert float(headers["x-ms-request-charge"]) > 0
    assert "x-ms-continuation" not in headers


def drain_ranges(raw: RawClient, container: str) -> list[dict[str, Any]]:
    """As clients do it: on from the last etag until a 304."""
    ranges: list[dict[str, Any]] = []
    headers = dict(DRAIN)
    for _ in range(3):
        reply = raw.request("GET", f"{container}/pkranges", headers=headers)
        assert reply.headers["etag"]
        if reply.status == 304:
            assert reply.body == b""
            return ranges
        assert reply.status == 200
        ranges += reply.json["PartitionKeyRanges"]
        headers["if-none-match"] = reply.headers["etag"]
    raise AssertionError("the feed never said 304")


def test_drain_ends(raw: RawClient, container: str) -> None:
    assert [found["id"] for found in drain_ranges(raw, container)] == ["0"]


def test_drained_stays_drained(raw: RawClient, container: str) -> None:
    """Neither writes nor a new definition change the ranges, so clients keep their maps."""
    etag = raw.get(f"{container}/pkranges").headers["etag"]
    raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    body = {"id": "c", "partitionKey": KEYS["version 2"], "defaultTtl": 10}
    assert raw.put(container, body).status == 200
    again = raw.request("GET", f"{container}/pkranges", headers={**DRAIN, "if-none-match": etag})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)


def test_a_new_container_of_the_name_is_not_drained(raw: RawClient, database: str) -> None:
    old = create_keyed_container(raw, database)
    etag = raw.get(f"{database}/colls/c/pkranges").headers["etag"]
    raw.delete(f"{database}/colls/c")
    new = create_keyed_container(raw, database)
    reply = raw.request(
        "GET", f"{database}/colls/c/pkranges", headers={**DRAIN, "if-none-match": etag}
    )
    assert old["_rid"] != new["_rid"] == reply.json["_rid"]
    assert reply.status == 200


def assert_tiled(ranges: list[dict[str, Any]]) -> None:
    assert [found["id"] for found in ranges] == [str(n) for n in range(len(ranges))]
    bounds = [(found["minInclusive"], found["maxExclusive"]) for found in ranges]
    assert bounds[0][0] == ""
    assert bounds[-1][1] == "FF"
    for (low, high), (following, _) in pairwise(bounds):
        assert low < high == following
        assert high == high.upper()
        bytes.fromhex(high)
    assert len({found["_rid"] for found in ranges}) == len(ranges)
    assert [found["ridPrefix"] for found in ranges] == list(range(len(ranges)))
    assert sum(found["throughputFraction"] for found in ranges) == pytest.approx(1)


@pytest.mark.parametrize("style", KEYS)
@pytest.mark.parametrize(
    ("throughput", "count"),
    [("400", 1), ("6000", 1), ("6100", 2), ("12000", 2), ("21000", 4), ("25100", 5), ("30000", 5)],
)
def test_one_range_for_each_started_six_thousand(
    raw: RawClient, database: str, style: str, throughput: str, count: int
) -> None:
    create_keyed_container(raw, database, style, **{"x-ms-offer-throughput": throughput})
    ranges = drain_ranges(raw, f"{database}/colls/c")
    assert len(ranges) == count
    assert_tiled(ranges)


def test_autoscale_counts_by_its_maximum(raw: RawClient, database: str) -> None:
    settings = {"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":20000}'}
    create_keyed_container(raw, database, **settings)
    ranges = drain_ranges(raw, f"{database}/colls/c")
    assert len(ranges) == 2
    assert_tiled(ranges)


@pytest.mark.parametrize(
    ("throughput", "style", "bounds"),
    [
        ("11000", "version 1", ["05C1DFFFFFFFFC"]),
        ("11000", "version 2", ["1" + "F" * 31]),
        (
            "30000",
            "version 1",
            ["05C1C9CD673398", "05C1D9CD673398", "05C1E399CD6732", "05C1E9CD673398"],
        ),
        ("30000", "version 2", FIFTHS),
        ("30000", "hierarchy", FIFTHS),
    ],
)
def test_bounds_of_equal_ranges(
    raw: RawClient, database: str, throughput: str, style: str, bounds: list[str]
) -> None:
    create_keyed_container(raw, database, style, **{"x-ms-offer-throughput": throughput})
    ranges = drain_ranges(raw, f"{database}/colls/c")
    assert [each["maxExclusive"] for each in ranges] == [*bounds, "FF"]
    assert [each["id"] for each in ranges] == [str(n) for n in range(len(ranges))]


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({"x-ms-offer-throughput": "10000"}, 1),
        ({"x-ms-offer-throughput": "30000"}, 3),
        ({"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":20000}'}, 2),
    ],
)
def test_shared_throughput_gives_ranges_by_the_database(
    raw: RawClient, name: str, headers: dict[str, str], count: int
) -> None:
    shared = f"/dbs/{name}-shared"
    assert raw.request("POST", "/dbs", {"id": shared[5:]}, headers).status == 201
    create_keyed_container(raw, shared)
    assert len(drain_ranges(raw, f"{shared}/colls/c")) == count
    assert raw.delete(shared).status == 204


def test_own_throughput_in_a_shared_database(raw: RawClient, name: str) -> None:
    shared = f"/dbs/{name}-shared"
    headers = {"x-ms-offer-throughput": "30000"}
    assert raw.request("POST", "/dbs", {"id": shared[5:]}, headers).status == 201
    create_keyed_container(raw, shared, **{"x-ms-offer-throughput": "6100"})
    assert len(drain_ranges(raw, f"{shared}/colls/c")) == 2
    assert raw.delete(shared).status == 204


def test_raising_the_throughput_keeps_the_ranges(raw: RawClient, database: str) -> None:
    owner = create_keyed_container(raw, database)
    text = "SELECT * FROM root r WHERE r.resource=@link"
    found = raw.query("/offers", text, [{"name": "@link", "value": owner["_self"]}]).json
    offer = found["Offers"][0]
    offer["content"]["offerThroughput"] = 30000
    assert raw.put(f"/offers/{offer['_rid']}", offer).status == 200
    assert len(drain_ranges(raw, f"{database}/colls/c")) == 1


def test_each_range_holds_its_own_items(raw: RawClient, database: str) -> None:
    create_keyed_container(raw, database, **{"x-ms-offer-throughput": "18000"})
    path = f"{database}/colls/c"
    expected: dict[str, set[str]] = {}
    for n in range(20):
        reply = raw.post(f"{path}/docs", {"id": f"{n}", "pk": f"{n}"}, pk=f'["{n}"]')
        part = reply.headers["x-ms-documentdb-partitionkeyrangeid"]
        expected.setdefault(part, set()).add(f"{n}")
    assert set(expected) == {"0", "1", "2"}
    for part, ids in expected.items():
        page = raw.get(f"{path}/docs", range=part)
        assert {item["id"] for item in page.json["Documents"]} == ids
        assert page.headers["x-ms-documentdb-partitionkeyrangeid"] == part


@pytest.mark.parametrize("part", ["1", "00", "x", "-1", ""])
def test_unknown_range(raw: RawClient, container: str, part: str) -> None:
    for reply in (
        raw.get(f"{container}/docs", range=part),
        raw.query(f"{container}/docs", "SELECT * FROM c", range=part),
    ):
        assert outcome(reply) == (410, 1002, "Gone")


def test_missing_owner(raw: RawClient, database: str) -> None:
    for path in (f"{database}/colls/nowhere/pkranges", f"{database}x/colls/c/pkranges"):
        assert outcome(raw.get(path)) == (404, 1003, "NotFound")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_get(raw: RawClient, container: str, method: str) -> None:
    reply = raw.request(method, f"{container}/pkranges", None if method == "DELETE" else {})
    assert outcome(reply) == (405, 0, "MethodNotAllowed")


def test_by_rid(raw: RawClient, container: str) -> None:
    link = raw.get(container).json["_self"]
    expected = raw.get(f"{container}/pkranges")
    for path in (f"/{link}pkranges", f"/{link}pkranges/"):
        assert raw.get(path).json == expected.json
        assert raw.request("GET", path, raw_path=path).headers["etag"] == expected.headers["etag"]


def test_intended_container(raw: RawClient, container: str) -> None:
    rid = raw.get(container).json["_rid"]
    name = "x-ms-cosmos-intended-collection-rid"
    good = raw.request("GET", f"{container}/pkranges", headers={name: rid})
    bad = raw.request("GET", f"{container}/pkranges", headers={name: "AQAAAIAAAAI="})
    assert good.status == 200
    assert outcome(bad) == (400, 1024, "BadRequest")
