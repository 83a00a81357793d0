"""Unique keys: what collides, where, and when a value is free again."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.builders import create_container
from tests.support.raw import RawClient, Reply

KEY = '["a"]'
Make = Callable[..., str]


@pytest.fixture
def make_unique_docs(raw: RawClient, database: str) -> Make:
    """Makes a container from the paths of each of its unique keys; returns its items' path."""

    def create(*unique: list[str], **properties: Any) -> str:
        policy = {"uniqueKeys": [{"paths": paths} for paths in unique]}
        path = create_container(raw, database, "u", uniqueKeyPolicy=policy, **properties)
        return f"{path}/docs"

    return create


def put_in(raw: RawClient, docs: str, item_id: str, members: str, pk: str = "a") -> Reply:
    """Creates an item; `members` is JSON without its braces."""
    text = f'{{"id":"{item_id}","pk":"{pk}"{"," if members else ""}{members}}}'
    return raw.post(docs, text.encode(), pk=json.dumps([pk]))


def check_taken(reply: Reply) -> None:
    assert (reply.status, reply.sub_status) == (409, 0), reply
    assert reply.json["code"] == "Conflict"
    assert 'Message: {"Errors":["Unique index constraint violation."]}' in reply.json["message"]
    assert float(reply.headers["x-ms-request-charge"]) == 1.24


# Values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"e":"x"', '"e":"x"'),
        ('"e":"x"', '"e":"\\u0078"'),
        ('"e":""', '"e":""'),
        ('"e":1', '"e":1.0'),
        ('"e":100', '"e":1e2'),
        ('"e":0', '"e":-0.0'),
        ('"e":1e20', '"e":100000000000000000000'),
        ('"e":9223372036854775808', '"e":9.223372036854775808e18'),
        ('"e":9007199254740992', '"e":9007199254740993'),
        ('"e":true', '"e":true'),
        ('"e":null', '"e":null'),
        ("", ""),
        ('"e":null', ""),
        ("", '"e":null'),
        ('"e":"x","f":1', '"e":"x","f":2'),
    ],
)
def test_equal_values_collide(raw: RawClient, make_unique_docs: Make, one: str, other: str) -> None:
    docs = make_unique_docs(["/e"])
    assert put_in(raw, docs, "1", one).status == 201
    check_taken(put_in(raw, docs, "2", other))
    assert raw.get(docs).json["_count"] == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"e":"x"', '"e":"X"'),
        ('"e":"x"', '"e":"x "'),
        ('"e":"\\u00e9"', '"e":"e\\u0301"'),
        ('"e":"x"', '"E":"x"'),
        ('"e":1', '"e":"1"'),
        ('"e":1', '"e":true'),
        ('"e":0', '"e":false'),
        ('"e":0', '"e":null'),
        ('"e":""', '"e":null'),
        ('"e":"null"', '"e":null'),
        ('"e":false', '"e":null'),
        ('"e":1', '"e":1.5'),
        ('"e":"x"', ""),
    ],
)
def test_different_values_do_not(
    raw: RawClient, make_unique_docs: Make, one: str, other: str
) -> None:
    docs = make_unique_docs(["/e"])
    assert put_in(raw, docs, "1", one).status == 201
    assert put_in(raw, docs, "2", other).status == 201


@pytest.mark.parametrize(
    ("one", "other", "collides"),
    [
        ('"a":{"zip":1}', '"a":{"zip":1}', True),
        ('"a":{"zip":1}', '"a":{"zip":2}', False),
        ('"a":{"zip":null}', '"a":{}', True),
        ('"a":{}', "", True),
        ('"a":5', "", True),
        ('"a":[{"zip":1}]', "", True),
        ('"a":{"zip":1}', '"a":{"Zip":1}', False),
    ],
)
def test_nested_paths(
    raw: RawClient, make_unique_docs: Make, one: str, other: str, collides: bool
) -> None:
    docs = make_unique_docs(["/a/zip"])
    assert put_in(raw, docs, "1", one).status == 201
    reply = put_in(raw, docs, "2", other)
    if collides:
        check_taken(reply)
    else:
        assert reply.status == 201


# Several paths, several constraints -------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "collides"),
    [
        ('"f":"x","l":"y"', '"f":"x","l":"y"', True),
        ('"f":"x","l":"y"', '"l":"y","f":"x"', True),
        ('"f":"x","l":"y"', '"f":"x","l":"z"', False),
        ('"f":"x","l":"y"', '"f":"y","l":"x"', False),
        ('"f":"xy","l":"z"', '"f":"x","l":"yz"', False),
        ('"f":"x"', '"f":"x","l":null', True),
        ('"f":"x"', '"l":"x"', False),
        ('"f":"x"', '"f":"x"', True),
        ("", '"f":null,"l":null', True),
    ],
)
def test_several_paths_are_one_value(
    raw: RawClient, make_unique_docs: Make, one: str, other: str, collides: bool
) -> None:
    docs = make_unique_docs(["/f", "/l"])
    assert put_in(raw, docs, "1", one).status == 201
    reply = put_in(raw, docs, "2", other)
    if collides:
        check_taken(reply)
    else:
        assert reply.status == 201


def test_each_constraint_counts_alone(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"], ["/f", "/l"])
    assert put_in(raw, docs, "1", '"e":"x","f":"a","l":"b"').status == 201
    check_taken(put_in(raw, docs, "2", '"e":"x","f":"c","l":"d"'))
    check_taken(put_in(raw, docs, "2", '"e":"y","f":"a","l":"b"'))
    # a refused item holds nothing: what was free stays free
    assert put_in(raw, docs, "2", '"e":"y","f":"a","l":"d"').status == 201
    assert put_in(raw, docs, "3", '"e":"z","f":"c","l":"d"').status == 201


def test_equal_values_under_different_constraints(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"], ["/f"])
    assert put_in(raw, docs, "1", '"e":"x","f":"y"').status == 201
    assert put_in(raw, docs, "2", '"e":"y","f":"x"').status == 201


# Scope ------------------------------------------------------------------------------------------


def test_per_logical_partition(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    for pk in "abc":
        assert put_in(raw, docs, "1", '"e":"x"', pk).status == 201
    for pk in "abc":
        check_taken(put_in(raw, docs, "2", '"e":"x"', pk))


def test_per_container(raw: RawClient, make_unique_docs: Make, container: str) -> None:
    docs = make_unique_docs(["/e"])
    for path in (docs, f"{container}/docs", f"{container}/docs"):
        item_id = str(raw.get(path).json["_count"])
        assert put_in(raw, path, item_id, '"e":"x"').status == 201


def test_an_existing_id_is_reported_first(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    reply = put_in(raw, docs, "1", '"e":"x"')
    assert reply.status == 409
    assert "Entity with the specified id already exists" in reply.json["message"]


# Freed and kept ---------------------------------------------------------------------------------


def test_freed_by_delete(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    assert raw.delete(f"{docs}/1", pk=KEY).status == 204
    assert put_in(raw, docs, "2", '"e":"x"').status == 201
    check_taken(put_in(raw, docs, "1", '"e":"x"'))


@pytest.mark.parametrize("operation", ["replace", "upsert"])
def test_freed_and_taken_by_an_update(
    raw: RawClient, make_unique_docs: Make, operation: str
) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    body = b'{"id":"1","pk":"a","e":"y"}'
    if operation == "replace":
        reply = raw.put(f"{docs}/1", body, pk=KEY)
    else:
        reply = raw.post(docs, body, pk=KEY, upsert="true")
    assert reply.status == 200
    check_taken(put_in(raw, docs, "2", '"e":"y"'))
    assert put_in(raw, docs, "2", '"e":"x"').status == 201


@pytest.mark.parametrize("operation", ["replace", "upsert"])
def test_kept_by_an_identical_update(
    raw: RawClient, make_unique_docs: Make, operation: str
) -> None:
    docs = make_unique_docs(["/e"], ["/f"])
    put_in(raw, docs, "1", '"e":"x","f":1')
    for body in (
        b'{"id":"1","pk":"a","e":"x","f":1}',
        b'{"id":"1","pk":"a","e":"x","f":1.0,"v":2}',
    ):
        if operation == "replace":
            reply = raw.put(f"{docs}/1", body, pk=KEY)
        else:
            reply = raw.post(docs, body, pk=KEY, upsert="true")
        assert reply.status == 200
        check_taken(put_in(raw, docs, "2", '"e":"x","f":2'))
        check_taken(put_in(raw, docs, "2", '"e":"y","f":1'))


def test_kept_by_a_rename(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    assert raw.put(f"{docs}/1", b'{"id":"2","pk":"a","e":"x"}', pk=KEY).status == 200
    check_taken(put_in(raw, docs, "1", '"e":"x"'))
    assert raw.delete(f"{docs}/2", pk=KEY).status == 204
    assert put_in(raw, docs, "1", '"e":"x"').status == 201


@pytest.mark.parametrize("operation", ["replace", "upsert"])
def test_a_refused_update_changes_nothing(
    raw: RawClient, make_unique_docs: Make, operation: str
) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    before = put_in(raw, docs, "2", '"e":"y"')
    body = b'{"id":"2","pk":"a","e":"x"}'
    if operation == "replace":
        check_taken(raw.put(f"{docs}/2", body, pk=KEY))
    else:
        check_taken(raw.post(docs, body, pk=KEY, upsert="true"))
    assert raw.get(f"{docs}/2", pk=KEY).body == before.body
    check_taken(put_in(raw, docs, "3", '"e":"x"'))
    check_taken(put_in(raw, docs, "3", '"e":"y"'))


def test_upsert_that_inserts(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    check_taken(raw.post(docs, b'{"id":"2","pk":"a","e":"x"}', pk=KEY, upsert="true"))
    reply = raw.post(docs, b'{"id":"2","pk":"a","e":"y"}', pk=KEY, upsert="true")
    assert reply.status == 201
    check_taken(put_in(raw, docs, "3", '"e":"y"'))


def test_values_swap_through_a_third(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    put_in(raw, docs, "1", '"e":"x"')
    put_in(raw, docs, "2", '"e":"y"')
    for item_id, value in (("1", "t"), ("2", "x"), ("1", "y")):
        reply = raw.put(f"{docs}/{item_id}", {"id": item_id, "pk": "a", "e": value}, pk=KEY)
        assert reply.status == 200
    check_taken(put_in(raw, docs, "3", '"e":"x"'))
    assert put_in(raw, docs, "3", '"e":"t"').status == 201


@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
def test_values_of_expired_items_are_free(
    raw: RawClient, make_unique_docs: Make, frozen: MovableClock, operation: str
) -> None:
    docs = make_unique_docs(["/e"], defaultTtl=-1)
    put_in(raw, docs, "1", '"e":"x","ttl":10')
    put_in(raw, docs, "2", '"e":"y"')
    frozen.advance(9)
    check_taken(put_in(raw, docs, "3", '"e":"x"'))
    frozen.advance(1)
    body = b'{"id":"2","pk":"a","e":"x"}'
    if operation == "create":
        assert put_in(raw, docs, "3", '"e":"x"').status == 201
    elif operation == "upsert":
        assert raw.post(docs, body, pk=KEY, upsert="true").status == 200
    else:
        assert raw.put(f"{docs}/2", body, pk=KEY).status == 200
    check_taken(put_in(raw, docs, "4", '"e":"x"'))
    assert raw.get(f"{docs}/1", pk=KEY).status == 404


def test_one_of_many_creators_wins(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])

    def create(number: int) -> int:
        with closing(RawClient(raw.endpoint, raw.key)) as client:
            return put_in(client, docs, str(number), '"e":"x"').status

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(create, range(8))) == [201] + [409] * 7
    assert raw.get(docs).json["_count"] == 1


# Policy -----------------------------------------------------------------------------------------


def test_most_constraints(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(*[[f"/p{number}"] for number in range(10)])
    members = {f"p{number}": number for number in range(10)}
    assert put_in(raw, docs, "1", json.dumps(members)[1:-1]).status == 201
    for number in range(10):
        other = {name: value + 100 for name, value in members.items()}
        other[f"p{number}"] = number
        check_taken(put_in(raw, docs, "2", json.dumps(other)[1:-1]))


def test_replacing_the_container_keeps_them(raw: RawClient, make_unique_docs: Make) -> None:
    docs = make_unique_docs(["/e"])
    path = docs.removesuffix("/docs")
    put_in(raw, docs, "1", '"e":"x"')
    body = {"id": "u", "partitionKey": raw.get(path).json["partitionKey"]}
    assert raw.put(path, body).status == 200
    assert raw.get(path).json["uniqueKeyPolicy"] == {"uniqueKeys": [{"paths": ["/e"]}]}
    check_taken(put_in(raw, docs, "2", '"e":"x"'))
