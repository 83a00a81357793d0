"""Bulk requests over the wire: each operation on its own, in order, to its range."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.operations import (
    BROKEN,
    codes,
    create,
    delete,
    increase,
    item,
    lsn,
    read,
    replace,
    stored_items,
    upsert,
)
from tests.support.raw import RawClient, Reply

KEY = '["a"]'
KEYS = "abcdefghij"
LARGE = "x" * (1024 * 1024 + 900 * 1024)


def send_bulk(raw: RawClient, container: str, *operations: Any, **headers: str) -> Reply:
    """As the JavaScript client sends it: no common key, one in each operation."""
    keyed = [
        {"partitionKey": KEY} | operation if isinstance(operation, dict) else operation
        for operation in operations
    ]
    headers.setdefault("range", "0")
    return raw.batch(container, keyed, atomic=False, **headers)


def test_each_operation_has_its_own_result(raw: RawClient, container: str) -> None:
    before = lsn(raw, container)
    reply = send_bulk(
        raw,
        container,
        create("1", n=1),
        create("1", n=2),
        read("1"),
        increase("1"),
        delete("no"),
        upsert("1", n=5),
        replace("1", "2", n=6),
        read("1"),
        delete("2"),
        create("3"),
    )
    assert reply.status == 207
    assert codes(reply) == [201, 409, 200, 200, 404, 200, 200, 404, 204, 201]
    shown = [entry["resourceBody"].get("n") for entry in reply.json if "resourceBody" in entry]
    assert shown == [1, 1, 2, 5, 6, None]
    assert "already exists" in reply.json[1]["message"]
    assert set(stored_items(raw, container)) == {"3"}
    # six writes, six transactions
    assert lsn(raw, container) == int(reply.headers["lsn"]) == before + 6
    charge = sum(entry["requestCharge"] for entry in reply.json)
    assert float(reply.headers["x-ms-request-charge"]) == round(charge, 2)


@pytest.mark.parametrize("is_atomic", [False, True])
def test_an_operation_may_ask_for_no_body(raw: RawClient, container: str, is_atomic: bool) -> None:
    silent = {"minimalReturnPreference": True}
    operations = [
        create("1") | silent,
        upsert("1", n=1) | silent,
        upsert("2") | {"minimalReturnPreference": False},
        increase("1") | silent,
        replace("1", n=5) | silent,
        read("1") | silent,
        upsert("3"),
    ]
    if is_atomic:
        reply = raw.batch(container, operations, pk=KEY)
    else:
        reply = send_bulk(raw, container, *operations)
    assert codes(reply) == [201, 200, 201, 200, 200, 200, 201]
    assert ["resourceBody" in entry for entry in reply.json] == [
        False, False, True, False, False, True, True,
    ]  # fmt: skip
    assert all(entry["eTag"] and entry["requestCharge"] > 0 for entry in reply.json)


@pytest.mark.parametrize("wrong", ["true", 1, {}])
def test_a_return_preference_is_true_or_false(raw: RawClient, container: str, wrong: Any) -> None:
    reply = send_bulk(raw, container, create("1") | {"minimalReturnPreference": wrong})
    assert codes(reply) == [400]
    assert "minimalReturnPreference" in reply.json[0]["message"]
    assert stored_items(raw, container) == {}


def test_all_well_is_200(raw: RawClient, container: str) -> None:
    reply = send_bulk(raw, container, *(create(str(number)) for number in range(100)))
    assert (reply.status, set(codes(reply))) == (200, {201})
    assert list(stored_items(raw, container)) == [str(number) for number in range(100)]
    without = send_bulk(raw, container, upsert("1"), read("1"), prefer="return=minimal")
    assert ["resourceBody" in entry for entry in without.json] == [False, True]


def test_stopping_at_the_first_failure(raw: RawClient, container: str) -> None:
    operations = [create("1"), create("1"), create("2"), read("1")]
    reply = send_bulk(raw, container, *operations, x_ms_cosmos_batch_continue_on_error="false")
    assert (reply.status, codes(reply)) == (207, [201, 409, 424, 424])
    assert set(stored_items(raw, container)) == {"1"}


@pytest.mark.parametrize(("broken", "status", "sub_status"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_operation_fails_alone(
    raw: RawClient, container: str, broken: Any, status: int, sub_status: int
) -> None:
    send_bulk(raw, container, create("there", n=1), create("other", n=1))
    before = stored_items(raw, container)
    reply = send_bulk(raw, container, create("1"), broken, create("2"), pk=KEY)
    assert (reply.status, codes(reply)) == (207, [201, status, 201])
    assert reply.json[1]["subStatusCode"] == sub_status
    after = stored_items(raw, container)
    assert {id_: after[id_] for id_ in before} == before
    assert set(after) - set(before) == {"1", "2"}


def test_keys_of_operations(raw: RawClient, container: str) -> None:
    """From the operation, the request, or the body, in this order; a read has no body."""
    bare = [create("1"), read("1"), {"operationType": "Create", "resourceBody": {"id": "x"}}]
    reply = raw.batch(container, bare, atomic=False, range="0")
    assert codes(reply) == [201, 400, 201]
    assert "PartitionKey value must be supplied" in reply.json[1]["message"]
    assert codes(raw.batch(container, [read("1")], atomic=False, pk=KEY)) == [200]
    undefined = read("x") | {"partitionKey": "[{}]"}
    assert codes(raw.batch(container, [undefined], atomic=False, range="0")) == [200]
    other = create("1") | {"partitionKey": '["b"]'}
    reply = raw.batch(container, [other], atomic=False, range="0")
    assert (codes(reply), reply.json[0]["subStatusCode"]) == ([400], 1001)


def test_ranges(raw: RawClient, database: str) -> None:
    key = PARTITION_KEY
    body = {"id": "r", "partitionKey": key}
    assert raw.post(f"{database}/colls", body, throughput="18000").status == 201
    container = f"{database}/colls/r"
    operations = [
        {
            "operationType": "Create",
            "partitionKey": json.dumps([pk]),
            "resourceBody": {"id": pk, "pk": pk},
        }
        for pk in KEYS
    ]
    reply = raw.batch(container, operations, atomic=False)
    assert set(codes(reply)) == {201}
    homes: dict[str, list[Any]] = {}
    for pk in KEYS:
        key_text = json.dumps([pk])
        found = raw.get(f"{container}/docs/{pk}", pk=key_text)
        home = found.headers["x-ms-documentdb-partitionkeyrangeid"]
        homes.setdefault(home, []).append(delete(pk) | {"partitionKey": key_text})
    assert len(homes) > 1
    mixed = [deletes[0] for deletes in homes.values()]
    reply = raw.batch(container, mixed, atomic=False, range="77")
    assert (reply.status, reply.sub_status) == (410, 1002)
    assert len(stored_items(raw, container)) == 10
    for home, deletes in homes.items():
        reply = raw.batch(container, deletes, atomic=False, range=home)
        assert (reply.status, set(codes(reply))) == (200, {204})
        assert reply.headers["x-ms-session-token"].startswith(f"{home}:-1#")
    assert stored_items(raw, container) == {}


def test_keys_of_other_ranges_are_served(raw: RawClient, database: str) -> None:
    """What a client sends that knows the ranges of a container made again under the same name."""
    key = PARTITION_KEY
    body = {"id": "r", "partitionKey": key}
    assert raw.post(f"{database}/colls", body, throughput="18000").status == 201
    container = f"{database}/colls/r"
    operations = [create("1", pk=pk) | {"partitionKey": json.dumps([pk])} for pk in KEYS]
    reply = raw.batch(container, operations, atomic=False, range="1")
    assert (reply.status, set(codes(reply))) == (200, {201})
    assert reply.headers["x-ms-session-token"].startswith("1:-1#")
    homes = {
        raw.get(f"{container}/docs/1", pk=json.dumps([pk])).headers[
            "x-ms-documentdb-partitionkeyrangeid"
        ]
        for pk in KEYS
    }
    assert len(homes) > 1


def test_what_would_not_fit_into_the_answer_is_not_done(raw: RawClient, container: str) -> None:
    assert send_bulk(raw, container, create("1", x=LARGE, n=1)).status == 200
    reply = send_bulk(raw, container, read("1"), increase("1"), increase("1"), create("2"))
    assert (reply.status, codes(reply)) == (207, [200, 200, 413, 201])
    assert reply.json[2]["subStatusCode"] == 3402
    found = raw.get(f"{container}/docs/1", pk=KEY).json
    assert found["n"] == 2
    silent = send_bulk(raw, container, *[increase("1")] * 5, prefer="return=minimal")
    assert (silent.status, set(codes(silent))) == (200, {200})


def test_unique_keys(raw: RawClient, unique_mail: str) -> None:
    container = unique_mail
    mails = ["x", "x", "y", "x"]
    reply = send_bulk(
        raw, container, *(create(str(number), mail=mail) for number, mail in enumerate(mails))
    )
    assert codes(reply) == [201, 409, 201, 409]
    reply = send_bulk(raw, container, delete("0"), create("9", mail="x"), upsert("2", mail="x"))
    assert codes(reply) == [204, 201, 409]
    assert item("9", mail="x").items() <= stored_items(raw, container)["9"].items()
