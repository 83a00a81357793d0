"""What clients of older API versions send, as captured from them, and what they need to read.

DocumentClient 1.13 for .NET states 2017-01-19, pydocumentdb 2.3 2017-11-15, azure-cosmos 3.0 for
Python 2018-06-18 and azure-cosmos 3.2 2018-09-17.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, Servers, serving
from tests.support.stores import Place

NET_2017 = {"x-ms-version": "2017-01-19", "x-ms-consistency-level": "Session"}
PYTHON_2017 = {
    "x-ms-version": "2017-11-15",
    "x-ms-documentdb-query-iscontinuationexpected": "False",
    "x-ms-consistency-level": "Session",
}
PYTHON_2018 = PYTHON_2017 | {"x-ms-version": "2018-09-17"}
OLD_CLIENTS = pytest.mark.parametrize(
    "client", [NET_2017, PYTHON_2017, PYTHON_2018], ids=["net2017", "pydocumentdb", "cosmos3"]
)
QUERY = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "true"}
SYSTEM_KEY = {"paths": ["/_partitionKey"], "kind": "Hash", "systemKey": True}
KEY = "x-ms-documentdb-partitionkey"
EMPTY = {KEY: "[]"}
TOKEN = "x-ms-session-token"
CHANGES = {"a-im": "Incremental feed", "x-ms-documentdb-partitionkeyrangeid": "0"}


def create(raw: RawClient, database: str, client: dict[str, str], **properties: Any) -> Reply:
    """A new collection without a partition key, as the client requests it."""
    body = {"id": "old", "defaultTtl": -1, **properties}
    return raw.request("POST", f"{database}/colls", body, client)


@pytest.fixture
def server(strict_server: RunningServer) -> RunningServer:
    """As the service answers: no query of a container without a key needs to be merged."""
    return strict_server


@pytest.fixture
def no_key(raw: RawClient, database: str) -> str:
    """The path of a container without a partition key."""
    assert create(raw, database, NET_2017).status == 201
    return f"{database}/colls/old"


# Session tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "is_short"),
    [
        ("2015-04-08", True), ("2017-01-19", True), ("2017-11-15", True), ("2018-06-17", True),
        ("2018-06-18", False), ("2018-09-17", False), ("2020-07-15", False),
        ("2099-01-01", False), ("", False), ("1", False), ("1.0", False), ("2017", False),
        ("2017-01-19x", False), ("2017-1-19", False), ("garbage", False),
    ],
)  # fmt: skip
def test_token_of_a_version(raw: RawClient, container: str, version: str, is_short: bool) -> None:
    stated = {"x-ms-version": version, KEY: '["a"]'}
    item = {"id": "1", "pk": "a"}
    docs = f"{container}/docs"
    for reply in (
        raw.request("POST", docs, item, stated | {"x-ms-documentdb-is-upsert": "True"}),
        raw.request("GET", f"{docs}/1", headers=stated),
        raw.request("GET", f"{docs}/none", headers=stated),
        raw.request("POST", docs, item, stated),
        raw.request("GET", docs, headers=stated),
        raw.request("POST", docs, {"query": "SELECT * FROM c"}, stated | QUERY),
    ):
        lsn = reply.headers["lsn"]
        assert reply.headers[TOKEN] == (f"0:{lsn}" if is_short else f"0:-1#{lsn}")


def test_no_version_is_todays(raw: RawClient, container: str) -> None:
    reply = raw.request("GET", f"{container}/docs", headers={"x-ms-version": ""})
    assert "#" in reply.headers[TOKEN]


def test_one_token_for_several_ranges(raw: RawClient, database: str) -> None:
    """Clients of that time convert what follows the colon to a number."""
    body = {"id": "wide", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
    stated = NET_2017 | {"x-ms-offer-throughput": "40000"}
    made = raw.request("POST", f"{database}/colls", body, stated)
    read = raw.request("GET", f"{database}/colls/wide", headers=NET_2017)
    for reply in (made, read):
        range_id, _, lsn = reply.headers[TOKEN].partition(":")
        assert (range_id, int(lsn) >= 0) == ("0", True)


def test_both_forms_are_read(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    written = raw.post(docs, {"id": "1", "pk": "a"}, pk='["a"]')
    lsn = int(written.headers["lsn"])
    for form in ("0:{}", "0:-1#{}", "0:{},1:7", "0:{},0:-1#1"):
        for version in ("2017-01-19", "2020-07-15"):
            sent = {"x-ms-version": version, KEY: '["a"]'}
            now, next_one = sent | {TOKEN: form.format(lsn)}, sent | {TOKEN: form.format(lsn + 1)}
            assert raw.request("GET", f"{docs}/1", headers=now).status == 200
            reply = raw.request("GET", f"{docs}/1", headers=next_one)
            assert (reply.status, reply.sub_status) == (404, 1002)


def test_an_empty_token_is_none(raw: RawClient) -> None:
    """Python clients send one when they read the account."""
    assert raw.request("GET", "/", headers=PYTHON_2017 | {TOKEN: ""}).status == 200


# Paths with two slashes -------------------------------------------------------------------------


def test_two_slashes(raw: RawClient, container: str) -> None:
    """Sent if the endpoint ends with a slash; the signature covers the link without them."""
    docs, item = f"{container}/docs", {"id": "1", "pk": "a"}

    def send(method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = PYTHON_2017 | {name.replace("_", "-"): value for name, value in headers.items()}
        return raw.request(method, path, body, sent, raw_path=f"/{path}/")

    key = {"x_ms_documentdb_partitionkey": '["a"]'}
    database = container.rpartition("/colls")[0]
    assert send("GET", database).status == 200
    assert send("GET", container).status == 200
    assert send("POST", docs, item, **key).status == 201
    assert send("GET", f"{docs}/1", **key).json["id"] == "1"
    assert send("PUT", f"{docs}/1", item, **key).status == 200
    query = {"query": "SELECT * FROM c"}
    page = send("POST", docs, query, content_type="application/query+json", **key)
    assert page.json["_count"] == 1
    assert send("GET", docs).json["_count"] == 1
    assert send("DELETE", f"{docs}/1", **key).status == 204
    assert raw.request("GET", "/", raw_path="//").json["id"] == raw.get("/").json["id"]
    assert raw.request("GET", "/dbs", raw_path="//dbs").status == 200


@pytest.mark.parametrize("path", ["///dbs", "/" * 5000, "////", "//_perseid/clock", "//_explorer/"])
def test_other_paths_do_not_exist(raw: RawClient, path: str) -> None:
    assert raw.request("GET", "/dbs", raw_path=path).status in (401, 404)


def test_two_slashes_with_throughput(servers: Servers) -> None:
    with servers("frozen", enforce_throughput=True).connect() as raw:
        assert raw.post("/dbs", {"id": "slashes"}).status == 201
        body = {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
        assert raw.post("/dbs/slashes/colls", body).status == 201
        path = "/dbs/slashes/colls/c/docs"
        made = raw.request("POST", path, {"id": "1", "pk": "a"}, raw_path=f"/{path}/")
        assert made.status == 201
        assert raw.delete("/dbs/slashes").status == 204


# Containers without a partition key -------------------------------------------------------------


@OLD_CLIENTS
def test_definition(raw: RawClient, database: str, client: dict[str, str]) -> None:
    made = create(raw, database, client)
    assert made.status == 201
    path = f"{database}/colls/old"
    query = {"query": "SELECT * FROM c WHERE c.id = 'old'"}
    for old in (
        made.json,
        raw.request("GET", path, headers=client).json,
        raw.request("GET", f"{database}/colls", headers=client).json["DocumentCollections"][0],
        raw.request("POST", f"{database}/colls", query, client | QUERY).json["DocumentCollections"][
            0
        ],
    ):
        assert old["id"] == "old"
        assert "partitionKey" not in old
    new = raw.get(path).json
    assert new["partitionKey"] == SYSTEM_KEY
    assert {name: new[name] for name in new if name != "partitionKey"} == made.json
    ranges = raw.get(f"{path}/pkranges").json["PartitionKeyRanges"]
    assert [(each["minInclusive"], each["maxExclusive"]) for each in ranges] == [("", "FF")]


@pytest.mark.parametrize("sent", [None, {"paths": [], "kind": "Hash"}, SYSTEM_KEY])
def test_newer_versions_need_a_key(raw: RawClient, database: str, sent: Any) -> None:
    for version in ("2018-12-31", "2020-07-15", "garbage"):
        reply = create(raw, database, {"x-ms-version": version}, partitionKey=sent)
        assert reply.status == 400
        assert "partitionKey" in reply.json["message"]
    assert raw.get(f"{database}/colls").json["_count"] == 0
    assert create(raw, database, NET_2017, partitionKey=sent).status == 201


@OLD_CLIENTS
@pytest.mark.parametrize("named", [{}, EMPTY], ids=["no header", "empty key"])
def test_items(raw: RawClient, no_key: str, client: dict[str, str], named: dict[str, str]) -> None:
    """Python sent no key, .NET the empty one."""
    docs, sent = f"{no_key}/docs", client | named
    item = {"id": "1", "customerId": "ada", "total": 1, "_partitionKey": "like any other"}
    assert raw.request("POST", docs, item, sent).status == 201
    assert raw.request("POST", docs, item | {"customerId": "bob"}, sent).status == 409
    upsert = sent | {"x-ms-documentdb-is-upsert": "True"}
    assert raw.request("POST", docs, item | {"total": 5}, upsert).status == 200
    read = raw.request("GET", f"{docs}/1", headers=sent)
    assert (read.status, read.json["total"]) == (200, 5)
    assert read.json["_partitionKey"] == "like any other"
    by_rid = raw.request("GET", f"{docs}/{read.json['_rid']}", headers=sent)
    assert by_rid.json["id"] == "1"
    replaced = raw.request("PUT", f"{docs}/1", item | {"customerId": "cy"}, sent)
    assert (replaced.status, replaced.json["customerId"]) == (200, "cy")
    body = {"operations": [{"op": "set", "path": "/_partitionKey", "value": 2}]}
    patched = raw.request("PATCH", f"{docs}/1", body, sent)
    assert (patched.status, patched.json["_partitionKey"]) == (200, 2)
    stale = sent | {"if-match": read.headers["etag"]}
    assert raw.request("DELETE", f"{docs}/1", headers=stale).status == 412
    assert raw.request("DELETE", f"{docs}/1", headers=sent).status == 204
    assert raw.request("GET", f"{docs}/1", headers=sent).status == 404


@pytest.mark.parametrize("other", ['["a"]', "[{}]", "[null]", '["a","b"]'])
def test_another_key(raw: RawClient, no_key: str, other: str) -> None:
    docs = f"{no_key}/docs"
    assert raw.post(docs, {"id": "1", "_partitionKey": "a"}).status == 201
    for reply in (
        raw.post(docs, {"id": "2", "_partitionKey": "a"}, pk=other),
        raw.get(f"{docs}/1", pk=other),
        raw.query(docs, "SELECT * FROM c", pk=other),
    ):
        assert (reply.status, reply.sub_status) == (400, 1001)


def test_the_empty_key_is_for_such_containers(raw: RawClient, container: str) -> None:
    for headers in ({}, {"pk": "[]"}):
        assert raw.get(f"{container}/docs/1", **headers).status == 400


def fill(raw: RawClient, container: str, **properties: Any) -> None:
    for number in range(6):
        item = {"id": str(number), "n": number, "group": number % 2, **properties}
        assert raw.post(f"{container}/docs", item).status == 201


@pytest.mark.parametrize("named", [{}, EMPTY], ids=["no header", "empty key"])
def test_queries(raw: RawClient, no_key: str, named: dict[str, str]) -> None:
    """No query of such a container concerns several partitions."""
    fill(raw, no_key)

    def rows(text: str, **headers: str) -> list[Any]:
        rows: list[Any] = []
        sent = PYTHON_2017 | QUERY | named | headers
        while True:
            page = raw.request("POST", f"{no_key}/docs", {"query": text}, sent)
            assert page.status == 200, page.body
            rows += page.json["Documents"]
            if "x-ms-continuation" not in page.headers:
                return rows
            sent |= {"x-ms-continuation": page.headers["x-ms-continuation"]}

    assert len(rows("SELECT * FROM c")) == 6
    assert rows("SELECT VALUE c.n FROM c WHERE c.n > 3 ORDER BY c.n DESC") == [5, 4]
    assert rows("SELECT VALUE SUM(c.n) FROM c") == [15]
    assert rows("SELECT VALUE c.n FROM c WHERE c.id = '2'") == [2]
    assert rows("SELECT VALUE c.id FROM c WHERE STARTSWITH(c.id, '3')") == ["3"]
    grouped = rows("SELECT c.group AS g, COUNT(1) AS n FROM c GROUP BY c.group")
    assert sorted(grouped, key=lambda row: str(row["g"])) == [{"g": 0, "n": 3}, {"g": 1, "n": 3}]
    assert rows("SELECT DISTINCT VALUE c.group FROM c ORDER BY c.group") == [0, 1]
    paged = rows("SELECT VALUE c.n FROM c", **{"x-ms-max-item-count": "1"})
    assert sorted(paged) == list(range(6))


def test_plan_names_one_range(raw: RawClient, no_key: str) -> None:
    reply = raw.query(
        f"{no_key}/docs", "SELECT * FROM c ORDER BY c.n", x_ms_cosmos_is_query_plan_request="True"
    )
    assert [(each["min"], each["max"]) for each in reply.json["queryRanges"]] == [("", "FF")]


def test_lists_and_change_feed(raw: RawClient, no_key: str) -> None:
    fill(raw, no_key)
    docs, rid = f"{no_key}/docs", raw.get(no_key).json["_rid"]
    in_range = NET_2017 | {
        "x-ms-max-item-count": "10",
        "x-ms-documentdb-query-enablecrosspartition": "False",
        "x-ms-documentdb-partitionkeyrangeid": f"{rid},0",
    }
    for sent in (NET_2017, NET_2017 | EMPTY, in_range):
        assert raw.request("GET", docs, headers=sent).json["_count"] == 6
    for sent in (CHANGES, CHANGES | EMPTY):
        first = raw.request("GET", docs, headers=NET_2017 | sent | {"x-ms-max-item-count": "4"})
        assert first.json["_count"] == 4
        rest = NET_2017 | sent | {"if-none-match": first.headers["etag"]}
        assert raw.request("GET", docs, headers=rest).json["_count"] == 2


def test_batches(raw: RawClient, no_key: str) -> None:
    operations = [
        {"operationType": "Create", "resourceBody": {"id": "1"}},
        {"operationType": "Upsert", "resourceBody": {"id": "2"}},
        {"operationType": "Read", "id": "1"},
    ]
    done = raw.batch(no_key, operations, pk="[]")
    assert [each["statusCode"] for each in done.json] == [201, 201, 200]
    bulk = [
        {"operationType": "Delete", "id": "1", "partitionKey": "[]"},
        {"operationType": "Delete", "id": "2"},
    ]
    done = raw.batch(no_key, bulk, atomic=False, range="0")
    assert [each["statusCode"] for each in done.json] == [204, 204]


def test_delete_by_key_empties_it(raw: RawClient, no_key: str) -> None:
    fill(raw, no_key)
    assert raw.clear_partition(no_key, "[]").status == 200
    assert raw.get(f"{no_key}/docs").json["_count"] == 0


def test_expiry(raw: RawClient, no_key: str, clock: MovableClock) -> None:
    docs = f"{no_key}/docs"
    fill(raw, no_key, ttl=10)
    assert raw.post(docs, {"id": "kept"}).status == 201
    clock.advance(11)
    assert raw.get(f"{docs}/1").status == 404
    kept = [each["id"] for each in raw.query(docs, "SELECT * FROM c").json["Documents"]]
    assert kept == ["kept"]
    name = no_key.removeprefix("/dbs/").replace("/colls", "")
    explained = raw.post(f"/_perseid/ttl/{name}/explain", {"id": "kept", "partitionKey": []})
    assert (explained.status, explained.json["partitionKey"]) == (200, [])
    assert raw.post(f"/_perseid/ttl/{name}/drain", {}).status == 200


def test_unique_keys(raw: RawClient, database: str) -> None:
    policy = {"uniqueKeys": [{"paths": ["/mail"]}]}
    assert create(raw, database, NET_2017, uniqueKeyPolicy=policy).status == 201
    docs = f"{database}/colls/old/docs"
    assert raw.post(docs, {"id": "1", "mail": "a"}).status == 201
    assert raw.post(docs, {"id": "2", "mail": "a"}).status == 409


@pytest.mark.parametrize("client", [NET_2017, {}], ids=["old", "new"])
def test_replace(raw: RawClient, no_key: str, client: dict[str, str]) -> None:
    body = raw.request("GET", no_key, headers=client).json | {"defaultTtl": 100}
    replaced = raw.request("PUT", no_key, body, client)
    assert (replaced.status, replaced.json["defaultTtl"]) == (200, 100)
    assert replaced.json.get("partitionKey") == body.get("partitionKey")
    other = body | {"partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
    assert raw.request("PUT", no_key, other, client).status == 400
    assert raw.get(no_key).json["partitionKey"] == SYSTEM_KEY


def test_replace_keeps_a_key(raw: RawClient, container: str) -> None:
    body = {"id": "c"}
    assert raw.request("PUT", container, body, NET_2017).status == 400
    assert raw.request("PUT", container, body | {"partitionKey": SYSTEM_KEY}).status == 400


def test_throughput(raw: RawClient, database: str) -> None:
    """At most what one range provides, and one range for it."""
    most = NET_2017 | {"x-ms-offer-throughput": "10000"}
    more = NET_2017 | {"x-ms-offer-throughput": "10100"}
    reply = create(raw, database, more)
    assert (reply.status, "10000" in reply.json["message"]) == (400, True)
    autoscale = {"x-ms-cosmos-offer-autopilot-settings": json.dumps({"maxThroughput": 11000})}
    assert create(raw, database, NET_2017 | autoscale).status == 400
    made = create(raw, database, most)
    assert made.status == 201
    link = made.json["_self"]
    offers = raw.query("/offers", f"SELECT * FROM c WHERE c.resource = '{link}'").json["Offers"]
    path = f"/offers/{offers[0]['_rid']}"
    raised = offers[0] | {"content": {"offerThroughput": 20000}}
    assert raw.put(path, raised).status == 400
    lowered = offers[0] | {"content": {"offerThroughput": 5000}}
    assert raw.put(path, lowered).status == 200
    ranges = raw.get(f"{database}/colls/old/pkranges").json["PartitionKeyRanges"]
    assert len(ranges) == 1


def test_token_for_an_item(raw: RawClient, no_key: str) -> None:
    """A permission on an item by its rid allows reading it by its id without a key."""
    database = no_key.rpartition("/colls")[0]
    rid = raw.post(f"{no_key}/docs", {"id": "1"}).json["_self"]
    assert raw.post(f"{database}/users", {"id": "u"}).status == 201
    body = {"id": "p", "permissionMode": "Read", "resource": rid}
    token = raw.post(f"{database}/users/u/permissions", body).json["_token"]
    assert raw.request("GET", f"{no_key}/docs/1", token=token).status == 200


def test_import_and_export(raw: RawClient, no_key: str) -> None:
    name = no_key.removeprefix("/dbs/").replace("/colls", "")
    lines = b'{"id":"1"}\n{"id":"2","_partitionKey":"x"}\n'
    done = raw.request("POST", f"/_perseid/import/{name}", lines)
    assert (done.status, done.json["created"]) == (200, 2)
    assert {each["id"] for each in raw.get(f"{no_key}/docs").json["Documents"]} == {"1", "2"}


def test_restart(place: Place) -> None:
    kept = place.lasting()
    with serving(kept) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        assert create(raw, "/dbs/d", NET_2017).status == 201
        fill(raw, "/dbs/d/colls/old")
        before = raw.get("/dbs/d/colls/old").json
    with serving(kept) as raw:
        assert raw.get("/dbs/d/colls/old").json == before
        assert raw.get("/dbs/d/colls/old/docs/3").json["n"] == 3
        assert raw.get("/dbs/d/colls/old/docs/3", pk="[]").json["n"] == 3
        docs = raw.query("/dbs/d/colls/old/docs", "SELECT * FROM c WHERE c.n > 3", pk="[]")
        assert docs.json["_count"] == 2
