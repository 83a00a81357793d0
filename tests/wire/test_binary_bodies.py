"""Items sent as binary JSON: create, replace and upsert store the text that means the same."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any, Final

import pytest

from tests.support.binary_json import REFUSED, VECTORS, BinaryWriter
from tests.support.raw import RawClient, Reply
from tests.support.replies import SYSTEM

KEY: Final = '["a"]'
PK: Final = "x-ms-documentdb-partitionkey"
FORMATS: Final = {"x-ms-cosmos-supported-serialization-formats": "CosmosBinary"}
ITEM: Final = {
    "id": "1",
    "pk": "a",
    "ttl": 100,
    "large": 9007199254740993,
    "unsigned": 18446744073709551615,
    "float": 1.5,
    "guid": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "nested": [{"type": "Point", "coordinates": [1.25, -4]}, None, True, "é世😀"],
}


def send(raw: RawClient, docs: str, operation: str, body: bytes) -> Reply:
    if operation == "replace":
        return raw.request("PUT", f"{docs}/1", body, {PK: KEY} | FORMATS)
    headers = {PK: KEY} | FORMATS
    if operation == "upsert":
        headers["x-ms-documentdb-is-upsert"] = "True"
    return raw.request("POST", docs, body, headers)


def members(reply: Reply) -> dict[str, Any]:
    return {name: value for name, value in reply.json.items() if name not in SYSTEM}


@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
def test_an_item_in_binary(raw: RawClient, container: str, operation: str) -> None:
    docs = f"{container}/docs"
    if operation == "replace":
        assert raw.post(docs, {"id": "1", "pk": "a"}, pk=KEY).status == 201
    for seed in range(20):
        if operation == "create" and seed:
            assert raw.delete(f"{docs}/1", pk=KEY).status == 204
        item = ITEM | {"seed": seed}
        reply = send(raw, docs, operation, BinaryWriter(seed).write(item))
        assert reply.status == (201 if operation != "replace" and not seed else reply.status)
        assert reply.status in (200, 201), reply
        assert reply.headers["content-type"] == "application/json"
        assert members(reply) == item
        assert members(raw.get(f"{docs}/1", pk=KEY)) == item


def test_the_key_of_the_body_chooses_the_partition(raw: RawClient, container: str) -> None:
    """A create without the header for the partition key."""
    body = BinaryWriter(1).write({"id": "1", "pk": "b"})
    assert raw.post(f"{container}/docs", body).status == 201
    assert raw.get(f"{container}/docs/1", pk='["b"]').status == 200


def test_numbers_keep_their_digits_in_queries(raw: RawClient, container: str) -> None:
    assert send(raw, f"{container}/docs", "create", BinaryWriter(3).write(ITEM)).status == 201
    reply = raw.query(f"{container}/docs", "SELECT VALUE c.large FROM c", pk=KEY)
    assert b"9007199254740993" in reply.body


@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
def test_bad_bytes_are_refused_and_change_nothing(
    raw: RawClient, container: str, operation: str
) -> None:
    docs = f"{container}/docs"
    before = raw.post(docs, {"id": "1", "pk": "a", "v": 1}, pk=KEY)
    for data, reason in REFUSED:
        reply = send(raw, docs, operation, bytes.fromhex(data))
        assert reply.status == 400, (reason, reply)
        assert re.search(r"not valid binary JSON: .+ at byte \d+\.", reply.json["message"]), reason
    assert raw.get(f"{docs}/1", pk=KEY).json == before.json
    assert raw.get(docs).json["_count"] == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "An item must be a JSON object"),
        ("text", "An item must be a JSON object"),
        ({"id": "a/b", "pk": "a"}, "id"),
        ({"id": 1, "pk": "a"}, "id"),
        ({"id": "1", "pk": "b"}, "artition"),
    ],
)
def test_what_is_refused_as_text_is_refused_in_binary(
    raw: RawClient, container: str, value: Any, message: str
) -> None:
    binary = send(raw, f"{container}/docs", "create", BinaryWriter(2).write(value))
    text = send(raw, f"{container}/docs", "create", json.dumps(value).encode())
    assert binary.status == text.status == 400
    assert message in binary.json["message"]
    assert (
        binary.json["message"].split("ActivityId")[0] == text.json["message"].split("Activity")[0]
    )


def test_a_name_that_occurs_twice_is_refused(raw: RawClient, container: str) -> None:
    body = bytes.fromhex("80ea0b2c813182706b81612c8132")
    assert "twice" in send(raw, f"{container}/docs", "create", body).json["message"]


def test_an_item_that_expands_beyond_the_limit(raw: RawClient, container: str) -> None:
    long_text = b"\xc2" + (1_000_000).to_bytes(4, "little") + b"x" * 1_000_000
    content = long_text + b"\xc3\x06" * 300_000
    body = b"\x80\xe4" + len(content).to_bytes(4, "little") + content
    assert send(raw, f"{container}/docs", "create", body).status == 413
    assert raw.get(f"{container}/docs").json["_count"] == 0


def test_the_largest_item(raw: RawClient, container: str) -> None:
    item = {"id": "1", "pk": "a", "text": "x" * (2 * 1024 * 1024 - 40)}
    assert send(raw, f"{container}/docs", "create", BinaryWriter(5).write(item)).status == 201
    item["text"] += "x" * 1000
    item["id"] = "2"
    assert send(raw, f"{container}/docs", "create", BinaryWriter(5).write(item)).status == 413


def test_mutated_bytes(raw: RawClient, container: str) -> None:
    """Each is stored, or refused with a sentence."""
    chance = Random(1)
    docs = f"{container}/docs"
    bodies = [bytes.fromhex(data) for data, _ in VECTORS]
    bodies += [BinaryWriter(seed).write(ITEM) for seed in range(5)]
    for body in bodies:
        for _ in range(30):
            mutated = bytearray(body)
            mutated[chance.randrange(1, len(mutated))] = chance.randrange(256)
            reply = send(raw, docs, "upsert", bytes(mutated))
            assert reply.status in (200, 201, 400), (mutated.hex(), reply)
            assert reply.status != 400 or reply.json["message"]


def test_text_that_begins_with_a_stray_byte_is_no_binary(raw: RawClient, container: str) -> None:
    reply = send(raw, f"{container}/docs", "create", b'\x81{"id":"1","pk":"a"}')
    assert (reply.status, "not valid JSON" in reply.json["message"]) == (400, True)


def test_binary_in_other_requests_is_refused(raw: RawClient, container: str) -> None:
    """Patches and definitions are text in every client."""
    body = BinaryWriter(1).write({"id": "1"})
    assert raw.patch(f"{container}/docs/1", body, pk=KEY).status == 400
    assert raw.post("/dbs", body).status == 400
