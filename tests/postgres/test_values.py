"""What PostgreSQL's JSON has no room for is refused with a reason, and nothing of it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.raw import RawClient, Reply

pytestmark = pytest.mark.only_on("postgres", reason="SQLite holds them")

UNSTORABLE = {
    "NUL": b'"\\u0000"',
    "NUL in the middle": b'"a\\u0000b"',
    "NUL in a name": b'{"a\\u0000":1}',
    "deep inside": b'[[{"x":["\\u0000"]}]]',
}


@pytest.fixture
def container_with_item(raw: RawClient, container: str) -> str:
    reply = raw.post(f"{container}/docs", {"id": "1", "pk": "p", "n": 1}, pk='["p"]')
    assert reply.status == 201
    return container


def check_refused(raw: RawClient, container: str, reply: Reply) -> None:
    assert (reply.status, reply.json["code"]) == (400, "BadRequest"), reply
    assert "u0000" in reply.json["message"]
    (item,) = raw.get(f"{container}/docs").json["Documents"]
    assert (item["id"], item["n"]) == ("1", 1)


@pytest.mark.parametrize("value", UNSTORABLE.values(), ids=UNSTORABLE)
@pytest.mark.parametrize("verb", ["create", "upsert", "upsert over", "replace"])
def test_writes(raw: RawClient, container_with_item: str, verb: str, value: bytes) -> None:
    item_id = b"1" if verb in ("replace", "upsert over") else b"2"
    body = b'{"id":"%b","pk":"p","n":2,"v":%b}' % (item_id, value)
    docs = f"{container_with_item}/docs"
    if verb == "replace":
        reply = raw.put(f"{docs}/1", body, pk='["p"]')
    else:
        reply = raw.post(docs, body, pk='["p"]', upsert=str(verb != "create"))
    check_refused(raw, container_with_item, reply)


@pytest.mark.parametrize("value", UNSTORABLE.values(), ids=UNSTORABLE)
def test_patches(raw: RawClient, container_with_item: str, value: bytes) -> None:
    body = (
        b'{"operations":[{"op":"incr","path":"/n","value":1},{"op":"set","path":"/v","value":%b}]}'
    )
    check_refused(
        raw,
        container_with_item,
        raw.patch(f"{container_with_item}/docs/1", body % value, pk='["p"]'),
    )


@pytest.mark.parametrize("value", UNSTORABLE.values(), ids=UNSTORABLE)
@pytest.mark.parametrize("atomic", [True, False])
def test_batches(raw: RawClient, container_with_item: str, value: bytes, atomic: bool) -> None:
    """A batch fails as a whole; of a bulk request only the one."""
    body = {"id": "2", "pk": "p", "v": json.loads(value)}
    operations: list[dict[str, Any]] = [
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": body},
        {"operationType": "Read", "partitionKey": '["p"]', "id": "1"},
    ]
    headers = {"pk": '["p"]'} if atomic else {"range": "0"}
    reply = raw.batch(container_with_item, operations, atomic=atomic, **headers)
    if not atomic:
        assert [each["statusCode"] for each in reply.json] == [400, 200]
        reply = raw.post(f"{container_with_item}/docs", body, pk='["p"]')
    check_refused(raw, container_with_item, reply)


def test_ids_and_keys(raw: RawClient, container_with_item: str) -> None:
    """Writing is refused; reading finds nothing, since nothing can be there."""
    key = '["p\\u0000"]'
    docs = f"{container_with_item}/docs"
    reply = raw.post(docs, b'{"id":"2","pk":"p\\u0000"}', pk=key)
    check_refused(raw, container_with_item, reply)
    assert raw.get(f"{docs}/1", pk=key).status == 404
    assert raw.delete(f"{docs}/1", pk=key).status == 404
    assert raw.get(docs, pk=key).json["Documents"] == []


@pytest.mark.parametrize(
    "condition",
    [
        "c.s = @p", "c.s != @p", "c.s < @p", "c.s >= @p", "c.s IN (@p, 1)", "c.id = @p",
        "c.s BETWEEN @p AND 'z'", "STARTSWITH(c.s, @p)", "CONTAINS(c.s, @p)", "c.s LIKE @p",
        "c[@p] = 1", "ARRAY_CONTAINS([c.s], @p)", "c.pk = @p",
    ],
)  # fmt: skip
def test_queries_may_ask_for_them(raw: RawClient, container_with_item: str, condition: str) -> None:
    """The answers are right: nothing equals them, and they have their place in the order."""
    reply = raw.post(f"{container_with_item}/docs", {"id": "2", "pk": "p", "s": "a"}, pk='["p"]')
    assert reply.status == 201
    asked = raw.query(
        f"{container_with_item}/docs",
        f"SELECT VALUE c.id FROM c WHERE {condition}",
        [{"name": "@p", "value": "\0"}],
    )
    assert asked.status == 200, asked
    finds = condition in ("c.s != @p", "c.s >= @p", "c.s BETWEEN @p AND 'z'")
    assert asked.json["Documents"] == (["2"] if finds else []), condition
