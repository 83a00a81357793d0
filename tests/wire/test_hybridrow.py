"""Batches and bulk requests in HybridRow, as the .NET client sends them and reads the results."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.support.hybridrow import (
    REQUESTS,
    SEGMENT,
    Result,
    decode,
    encode,
    mutated,
    operation_row,
    record,
    request_body,
    send,
    stream,
)
from tests.support.operations import (
    create,
    delete,
    increase,
    item,
    lsn,
    patch,
    read,
    replace,
    stored_items,
    upsert,
)
from tests.support.raw import RawClient, Reply
from tests.support.replies import assert_bad_request, charge, without_system

KEY = '["a"]'
MINIMAL = {"minimalReturnPreference": True}


def send_batch(
    raw: RawClient, container: str, *operations: Any, **headers: str
) -> tuple[Reply, list[Result]]:
    reply = send(raw, container, encode(*operations), atomic=True, pk=KEY, **headers)
    assert reply.status in (200, 207), reply.body
    return reply, decode(reply.body)


def send_bulk(raw: RawClient, container: str, *operations: Any) -> tuple[Reply, list[Result]]:
    keyed = [{"partitionKey": KEY} | operation for operation in operations]
    reply = send(raw, container, encode(*keyed), atomic=False)
    assert reply.status in (200, 207), reply.body
    return reply, decode(reply.body)


def statuses(results: list[Result]) -> list[int]:
    return [result.status for result in results]


# Batches ------------------------------------------------------------------------------------------


def test_all_six_kinds(raw: RawClient, container: str) -> None:
    operations = (
        create("1", n=1), upsert("2", n=1), upsert("1", n=2), replace("1", n=3), increase("1"),
        read("1"), delete("2"),
    )  # fmt: skip
    reply, results = send_batch(raw, container, *operations)
    assert reply.status == 200
    assert statuses(results) == [201, 201, 200, 200, 200, 200, 204]
    assert [result.json["n"] for result in results[:-1]] == [1, 1, 2, 3, 4, 4]
    for result in results[:-1]:
        assert result.etag == result.json["_etag"]
    assert (results[-1].etag, results[-1].body) == (None, None)
    assert {result.sub_status for result in results} == {0}
    assert sum(result.charge or 0 for result in results) == pytest.approx(charge(reply))
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["x-ms-session-token"] == f"0:-1#{lsn(raw, container)}"
    assert stored_items(raw, container) == {"1": results[4].json}


def test_texts_stay_as_they_were_sent(raw: RawClient, container: str) -> None:
    body = b'{"id":"1","z":1.0,"pk":"a","big":9223372036854775807,"e":1e2}'
    _, (result,) = send_batch(raw, container, create("1") | {"resourceBody": body})
    assert (result.body or b"").startswith(body[:-1] + b",")
    assert raw.get(f"{container}/docs/1", pk=KEY).body == result.body


def test_one_refusal_undoes_everything(raw: RawClient, container: str) -> None:
    reply, results = send_batch(raw, container, create("1"), create("1"), read("1"))
    assert (reply.status, statuses(results)) == (207, [424, 409, 424])
    assert results[1].json["code"] == "Conflict"
    assert "already exists" in results[1].json["message"]
    assert results[0] == results[2] == Result(424, 0, charge=0.0)
    assert stored_items(raw, container) == {}


def test_a_read_that_is_unchanged_undoes_nothing(raw: RawClient, container: str) -> None:
    _, (created,) = send_batch(raw, container, create("1"))
    for name in ("ifMatch", "ifNoneMatch"):
        unchanged = read("1") | {name: created.etag}
        reply, results = send_batch(raw, container, unchanged, upsert("2"))
        assert reply.status == 207
        assert statuses(results) in ([304, 201], [304, 200])
        assert results[0].body is None
    assert set(stored_items(raw, container)) == {"1", "2"}


def test_etags(raw: RawClient, container: str) -> None:
    _, (created,) = send_batch(raw, container, create("1"))
    _, (replaced,) = send_batch(raw, container, replace("1") | {"ifMatch": created.etag})
    assert replaced.status == 200
    for operation in (replace("1"), upsert("1"), delete("1"), increase("1")):
        reply, (refused,) = send_batch(raw, container, operation | {"ifMatch": created.etag})
        assert (reply.status, refused.status) == (207, 412)
    _, (exists,) = send_batch(raw, container, upsert("1") | {"ifNoneMatch": "*"})
    assert exists.status in (409, 412)


def test_writes_without_a_body_in_the_result(raw: RawClient, container: str) -> None:
    operations = [create("1", n=1), upsert("1", n=1), replace("1", n=1), increase("1")]
    _, results = send_batch(raw, container, *(each | MINIMAL for each in operations), read("1"))
    assert statuses(results) == [201, 200, 200, 200, 200]
    assert [result.body is None for result in results] == [True, True, True, True, False]
    assert all(result.etag for result in results)


def test_json_operations_without_a_body_in_the_result(raw: RawClient, container: str) -> None:
    reply = raw.batch(container, [create("1") | MINIMAL, create("2"), read("1") | MINIMAL], pk=KEY)
    assert ["resourceBody" in entry for entry in reply.json] == [False, True, True]
    assert all(entry["eTag"] for entry in reply.json)
    reply = raw.batch(container, [create("3") | {"minimalReturnPreference": 1}], pk=KEY)
    assert reply.json[0]["statusCode"] == 400


def test_the_indexing_directive_of_an_operation_changes_its_charge(
    raw: RawClient, container: str
) -> None:
    words = ("Default", "Include", "Exclude")
    operations = [create(word, a=1, b=2) | {"indexingDirective": word} for word in words]
    _, results = send_batch(raw, container, *operations)
    default, include, exclude = (result.charge or 0 for result in results)
    assert default == include > exclude
    _, (refused,) = send_batch(raw, container, create("x") | {"indexingDirective": "Never"})
    assert (refused.status, refused.json["code"]) == (400, "BadRequest")


def test_patches_with_a_condition(raw: RawClient, container: str) -> None:
    send_batch(raw, container, create("1", n=1))
    change = {"op": "set", "path": "/n", "value": 2.0}
    for condition, status in (("from c where c.n = 5", 412), ("from c where c.n = 1", 200)):
        _, (result,) = send_batch(raw, container, patch("1", change, condition=condition))
        assert result.status == status
    assert b'"n":2.0' in (result.body or b"")


def test_lifetimes(raw: RawClient, container: str) -> None:
    needed = raw.get(container).json
    assert raw.put(container, needed | {"defaultTtl": -1}).status == 200
    for ttl, status in ((60, 201), (-1, 201), (0, 400), ("x", 400)):
        _, (result,) = send_batch(raw, container, create(f"t{ttl}", ttl=ttl))
        assert result.status == status


@pytest.mark.parametrize(
    "operation",
    [
        {"operationType": "Upsert"},
        {"operationType": "Create", "resourceBody": b""},
        {"operationType": "Create", "resourceBody": b"[]"},
        {"operationType": "Create", "resourceBody": b"no JSON"},
        {"operationType": "Create", "resourceBody": b"\xff\xfe"},
        {"operationType": "Create", "resourceBody": b"[" * 5000},
        {"operationType": "Create", "resourceBody": b'{"id":"x","id":"y","pk":"a"}'},
        {"operationType": "Create", "resourceBody": item("x") | {"pk": "b"}},
        {"operationType": "Replace", "resourceBody": item("x")},
        {"operationType": "Replace", "id": "", "resourceBody": item("x")},
        {"operationType": "Patch", "id": "x", "resourceBody": b'{"operations":1}'},
        {"operationType": "Read"},
        {"operationType": "Delete", "id": ""},
        {"operationType": "Read", "id": "x", "partitionKey": "x"},
        {"operationType": "Read", "id": "x", "partitionKey": '["b","c"]'},
        {"operationType": "Create", "resourceBody": b"\x80\xff\xff"},
    ],
)
def test_an_invalid_operation_fails_alone_or_with_its_batch(
    raw: RawClient, container: str, operation: dict[str, Any]
) -> None:
    reply, results = send_batch(raw, container, create("1"), operation)
    assert (reply.status, statuses(results)) == (207, [424, 400])
    assert results[1].json["message"]
    assert stored_items(raw, container) == {}
    reply, results = send_bulk(raw, container, create("1"), operation)
    assert (reply.status, statuses(results)) == (207, [201, 400])


# Bulk ---------------------------------------------------------------------------------------------


def test_bulk_operations_stand_alone(raw: RawClient, container: str) -> None:
    reply, results = send_bulk(
        raw, container, create("1"), create("1"), read("no"), increase("1"), upsert("2"), read("2")
    )
    assert (reply.status, statuses(results)) == (207, [201, 409, 404, 200, 201, 200])
    assert set(stored_items(raw, container)) == {"1", "2"}


@pytest.mark.parametrize(
    ("sent_key", "pk"), [("[5.0]", 5), ('["\\u00e9"]', "é"), ("[true]", True), ("[null]", None)]
)
def test_keys_as_the_client_writes_them(
    raw: RawClient, container: str, sent_key: str, pk: Any
) -> None:
    sent = {"partitionKey": sent_key, "resourceBody": json.dumps({"id": "é€", "pk": pk}).encode()}
    body = encode({"operationType": "Create"} | sent, read("é€") | {"partitionKey": sent_key})
    reply = send(raw, container, body, atomic=False)
    first, second = decode(reply.body)
    assert (first.status, second.status) == (201, 200)
    assert without_system(second.json) == {"id": "é€", "pk": pk}


def test_items_without_a_key(raw: RawClient, container: str) -> None:
    sent = {"partitionKey": "[{}]", "resourceBody": b'{"id":"1"}'}
    reply = send(raw, container, encode({"operationType": "Create"} | sent), atomic=False)
    assert statuses(decode(reply.body)) == [201]


# Captured bodies ----------------------------------------------------------------------------------


def test_captured_requests_run(raw: RawClient, container: str) -> None:
    for name, expected in (
        ("upsert", [201]),
        ("read", [200]),
        ("replace", [412]),
        ("three operations with options", [201, 200, 204]),
        ("upsert with columns of other APIs", [201]),
        ("upsert of an empty stream", [400]),
        ("read of an id outside ASCII", [404]),
    ):
        reply = send(raw, container, request_body(name), pk='["v1"]')
        assert statuses(decode(reply.body)) == expected, name
    raw.post(f"{container}/docs", {"id": "k1", "pk": "b1"}, pk='["b1"]')
    for name, status in (("bulk upsert", 201), ("bulk patch", 200), ("bulk delete", 204)):
        reply = send(raw, container, request_body(name), atomic=False)
        assert statuses(decode(reply.body)) == [status]


# Limits and refusals of the whole request ---------------------------------------------------------


def test_a_hundred_operations_and_one_more(raw: RawClient, container: str) -> None:
    names = [f"{number:03d}" for number in range(101)]
    reply = send(raw, container, encode(*map(create, names)), pk=KEY)
    assert_bad_request(reply)
    assert "100" in reply.json["message"]
    assert stored_items(raw, container) == {}
    _, results = send_batch(raw, container, *map(create, names[:100]))
    assert statuses(results) == [201] * 100


def test_no_operations(raw: RawClient, container: str) -> None:
    reply = send(raw, container, SEGMENT, pk=KEY)
    assert_bad_request(reply)
    assert "no operations" in reply.json["message"]


def test_a_batch_that_is_too_large(raw: RawClient, container: str) -> None:
    body = encode(*(create(str(number), text="x" * 500_000) for number in range(5)))
    assert send(raw, container, body, pk=KEY).status == 413
    assert stored_items(raw, container) == {}


def test_large_operations(raw: RawClient, container: str) -> None:
    operations = [create(str(number), text="x" * 300_000) for number in range(3)]
    _, results = send_batch(raw, container, *operations, read("0"))
    assert statuses(results) == [201, 201, 201, 200]
    assert len(results[3].json["text"]) == 300_000


def test_results_that_are_too_large(raw: RawClient, container: str) -> None:
    send_batch(raw, container, create("1", text="x" * 1_000_000))
    reply, results = send_batch(raw, container, *[read("1")] * 6)
    assert (reply.status, statuses(results)) == (207, [424] * 4 + [413, 424])
    _, results = send_bulk(raw, container, *[read("1")] * 6)
    assert [(each.status, each.sub_status) for each in results[4:]] == [(413, 3402)] * 2


UNREADABLE = {
    "one byte": b"\x81",
    "no segment": record(operation_row(create("1"))),
    "cut off": encode(create("1"))[:-1],
    "a byte too many": encode(create("1")) + b"\x00",
    "wrong checksum of the second": encode(create("1"), create("2"))[:-1] + b"x",
    "empty second row": stream(operation_row(create("1")), b""),
    "nested field": stream(operation_row(create("1")), operation_row(read("1")) + b"\x22\x09"),
}


@pytest.mark.parametrize("body_name", UNREADABLE)
def test_an_unreadable_body_changes_nothing(raw: RawClient, container: str, body_name: str) -> None:
    body = UNREADABLE[body_name]
    for reply in (
        send(raw, container, body, pk=KEY),
        send(raw, container, body, atomic=False),
    ):
        assert_bad_request(reply)
        assert "HybridRow" in reply.json["message"]
    assert stored_items(raw, container) == {}


@pytest.mark.parametrize("seed", range(5))
def test_damaged_bodies_change_nothing_unless_they_can_be_read(
    raw: RawClient, container: str, seed: int
) -> None:
    """A whole request is refused, or each of its operations gets a result; no 5xx."""
    random = Random(seed)
    for name in REQUESTS:
        rows = [operation_row(operation) for operation in REQUESTS[name][1]]
        for number in range(20):
            valid = stream(*(mutated(row, random) for row in rows))
            body = valid if number % 2 else mutated(request_body(name), random)
            before = lsn(raw, container)
            is_atomic = bool(random.getrandbits(1))
            headers = {"pk": '["v1"]'} if is_atomic else {}
            reply = send(raw, container, body, atomic=is_atomic, **headers)
            assert reply.status in (200, 207, 400), body.hex()
            if reply.status == 400:
                assert reply.json["code"] == "BadRequest"
                assert lsn(raw, container) == before
            else:
                assert all(200 <= result.status < 500 for result in decode(reply.body))


def test_errors_of_the_whole_request_are_json(raw: RawClient, container: str) -> None:
    body = encode(create("1"))
    assert send(raw, f"{container}x", body, pk=KEY).json["code"] == "NotFound"
    assert send(raw, container, body, pk="no key").json["code"] == "BadRequest"
    assert send(raw, container, body).json["code"] == "BadRequest"  # a batch without a key
    reply = send(raw, container, body, pk=KEY, x_ms_session_token="0:-1#999999")
    assert reply.status == 200  # nothing is read
    reply = send(raw, container, encode(read("1")), pk=KEY, x_ms_session_token="0:-1#999999")
    assert (reply.status, reply.sub_status) == (404, 1002)
