"""What the cloud service does and this server does not: each row says so in docs/compatibility.md.

Each test states the service's behaviour and is a strict xfail. One that passes has become wrong:
then the row and the mark go.
"""

from __future__ import annotations

import http.client

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.figures import physical_ranges
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.stores import Place


def difference(topic: str) -> pytest.MarkDecorator:
    """`topic` is the first cell of the row in docs/compatibility.md."""
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=topic)


def needed(reply: Reply) -> Reply:
    """A step on the way; if it fails, the test fails for the wrong reason, which is no xfail."""
    if reply.status >= 400:
        pytest.fail(f"{reply.status} {reply.body!r}")
    return reply


@difference("expired items")
def test_what_was_not_removed_comes_back(place: Place) -> None:
    clock = MovableClock()
    with running(place.fresh(no_sweeper=True), clock) as settings:
        raw = RawClient(settings.endpoint)
        needed(raw.post("/dbs", {"id": "d"}))
        definition = {"id": "c", "partitionKey": PARTITION_KEY}
        needed(raw.post("/dbs/d/colls", definition | {"defaultTtl": 10}))
        needed(raw.post("/dbs/d/colls/c/docs", {"id": "a", "pk": "p"}, pk='["p"]'))
        clock.advance(11)
        needed(raw.put("/dbs/d/colls/c", definition))
        status = raw.get("/dbs/d/colls/c/docs/a", pk='["p"]').status
        raw.close()
    assert status == 200


@difference("throughput")
def test_more_than_the_provisioned_throughput_is_refused(raw: RawClient, container: str) -> None:
    writes = (
        raw.post(f"{container}/docs", {"id": str(n), "pk": "p"}, pk='["p"]') for n in range(100)
    )
    assert {reply.status for reply in writes} == {
        201,
        429,
    }  # 100 writes of 5 RU and more, at 400 RU/s


@difference("throttling of metadata, number of databases, containers and scripts")
def test_metadata_requests_are_limited(raw: RawClient) -> None:
    assert {raw.get("/dbs").status for _ in range(300)} == {200, 429}  # 240 RU/s for an account


@difference("lazy indexing")
def test_lazy_indexing_is_closed(raw: RawClient, database: str) -> None:
    policy = {"indexingMode": "lazy"}
    definition = {"id": "c", "partitionKey": PARTITION_KEY, "indexingPolicy": policy}
    assert raw.post(f"{database}/colls", definition).status == 400


@difference("physical ranges")
def test_more_throughput_splits_ranges(raw: RawClient, container: str) -> None:
    link = needed(raw.get(container)).json["_self"]
    text = "SELECT * FROM c WHERE c.resource = @link"
    (offer,) = raw.query("/offers", text, [{"name": "@link", "value": link}]).json["Offers"]
    offer["content"]["offerThroughput"] = 20_000
    needed(raw.put(f"/offers/{offer['id']}", offer))
    assert len(physical_ranges(raw, container)) == 2


@difference("bulk operations with a key of another range than the request names")
def test_bulk_operations_belong_to_the_range(raw: RawClient, database: str) -> None:
    body = {"id": "r", "partitionKey": PARTITION_KEY}
    needed(raw.post(f"{database}/colls", body, throughput="20000"))
    operations = [
        {
            "operationType": "Create",
            "partitionKey": f'["{pk}"]',
            "resourceBody": {"id": pk, "pk": pk},
        }
        for pk in "abcdefghij"
    ]
    reply = raw.batch(f"{database}/colls/r", operations, atomic=False, range="0")
    assert (reply.status, reply.sub_status) == (410, 1002)


@difference("duplicate names in a JSON object")
def test_the_last_of_two_names_wins(raw: RawClient, container: str) -> None:
    reply = raw.post(f"{container}/docs", b'{"id": "a", "pk": "p", "x": 1, "x": 2}', pk='["p"]')
    assert (reply.status, reply.json.get("x")) == (201, 2)


@difference("digits of numbers")
def test_numbers_are_doubles(raw: RawClient, container: str) -> None:
    body = {"id": "a", "pk": "p", "n": 2**53 + 1}
    assert needed(raw.post(f"{container}/docs", body, pk='["p"]')).json["n"] == 2**53


@difference("order of strings")
def test_strings_are_ordered_by_code_units(raw: RawClient, container: str) -> None:
    text = r"SELECT VALUE '\uD83D\uDE00' < '\uFFFF'"
    assert needed(raw.query(f"{container}/docs", text)).json["Documents"] == [True]


@difference("account id")
def test_the_account_is_named_after_its_host(raw: RawClient) -> None:
    reply = needed(raw.request("GET", "/", headers={"host": "shop.documents.localhost"}))
    assert reply.json["id"] == "shop"


@difference("unknown `x-ms-version`")
def test_unknown_versions_are_refused(raw: RawClient) -> None:
    assert raw.request("GET", "/", headers={"x-ms-version": "1999-12-31"}).status == 400


@difference("containers without a partition key")
def test_items_without_a_key_get_one(raw: RawClient, database: str) -> None:
    body, old = {"id": "old"}, {"x-ms-version": "2017-01-19"}
    needed(raw.request("POST", f"{database}/colls", body, old))
    item = {"id": "1", "_partitionKey": "a"}
    assert raw.post(f"{database}/colls/old/docs", item, pk='["a"]').status == 201


@difference("more than a hundred headers")
def test_many_headers_are_accepted(endpoint: str) -> None:
    raw = RawClient(endpoint)
    try:
        status = raw.request("GET", "/", headers={f"x-h-{n}": "1" for n in range(120)}).status
    except (http.client.HTTPException, OSError):
        status = 0
    raw.close()
    assert status == 200


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "SELECT VALUE ST_DISTANCE(c.a, c.b) FROM c", marks=difference("spatial functions")
        ),
        pytest.param(
            "SELECT VALUE VectorDistance(c.v, [1, 2]) FROM c", marks=difference("vector search")
        ),
        pytest.param(
            "SELECT * FROM c WHERE FullTextContains(c.t, 'a')", marks=difference("full-text search")
        ),
        pytest.param(
            "SELECT * FROM c ORDER BY RANK FullTextScore(c.t, 'a')",
            marks=difference("full-text search"),
        ),
    ],
)
def test_the_rest_of_the_language(raw: RawClient, container: str, text: str) -> None:
    assert raw.query(f"{container}/docs", text).status == 200


@difference("stored procedures, triggers, functions")
def test_functions_of_the_user_run(raw: RawClient, container: str) -> None:
    body = "function twice(x) { return 2 * x; }"
    needed(raw.post(f"{container}/udfs", {"id": "twice", "body": body}))
    assert raw.query(f"{container}/docs", "SELECT VALUE udf.twice(c.n) FROM c").status == 200


@difference("stored procedures, triggers, functions")
def test_stored_procedures_run(raw: RawClient, container: str) -> None:
    body = "function hello() { getContext().getResponse().setBody('hello'); }"
    needed(raw.post(f"{container}/sprocs", {"id": "hello", "body": body}))
    assert raw.post(f"{container}/sprocs/hello", [], pk='["p"]').status == 200
