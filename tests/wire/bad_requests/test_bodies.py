"""Bodies that are not JSON, not an object, or nested too deeply; queries of the wrong shape."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.support.effort import ratio
from tests.support.raw import RawClient
from tests.wire.bad_requests.refusals import PK, Bodies, bad


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        (b"{", 1, 2),
        (b'{"id":}', 1, 7),
        (b"{'id': 'x'}", 1, 2),
        (b'{"id": "x"', 1, 11),
        (b'{"id": "x"}}', 1, 12),
        (b'{"id": tru}', 1, 8),
        (b'{\n "id": "x"\n "a": 1}', 3, 2),
        (b'{\n\n  "id": .5}', 3, 9),
        (b'{"id" "x"}', 1, 7),
        (b"nonsense", 1, 1),
    ],
)
def test_malformed_json_says_where(bodies: Bodies, body: bytes, line: int, column: int) -> None:
    bodies.refuse_everywhere(body, f"line {line}, column {column}")


@pytest.mark.parametrize(
    "body",
    [
        b" ",
        b"\x00",
        b"{}{}",
        b'{"id":"a"} x',
        b'{"id":NaN}',
        b'{"id":Infinity}',
        b'{"id":-Infinity}',
        b'{"n":01}',
        b'{"n":1.}',
        b'{"n":+1}',
        b'{"n":0x10}',
        b'{"n":1e}',
        b'{"id":"\n"}',
        b'{"id":"\x00"}',
        b'{"id":"\\x"}',
        b'{"id":"\\u12"}',
        b'{"id":"\\ud800"}',
        b'{"id":"\\udc00\\ud800"}',
        b'{id:"a"}',
        b'{"id":"a" /* why */}',
        b"<xml/>",
        b"id=a",
        b'\xef\xbb\xbf{"id":"a"}',
        '{"id":"a"}'.encode("utf-16"),
        b"[" * 50_000,
        b'{"a":' * 50_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_not_json(bodies: Bodies, body: bytes) -> None:
    bodies.refuse_everywhere(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"\xff"}',
        b'{"id":"\xc3\x28"}',
        b'{"id":"\xc0\xaf"}',
        b'{"id":"\xed\xa0\x80"}',
        b'{"id":"\xf5\x80\x80\x80"}',
        b'{"id":"caf\xe9"}',
        b'{"\xff":1}',
    ],
)
def test_invalid_utf8(bodies: Bodies, body: bytes) -> None:
    bodies.refuse_everywhere(body)


def test_empty_body(bodies: Bodies) -> None:
    bodies.refuse_everywhere(b"")


@pytest.mark.parametrize("body", [b"null", b"true", b"5", b"-0.5", b'"id"', b"[]", b'[{"id":"a"}]'])
def test_json_that_is_not_an_object(bodies: Bodies, body: bytes) -> None:
    bodies.refuse_everywhere(body, queries=False)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"a","id":"b"}',
        b'{"id":"a","id":"a"}',
        b'{"id":"a","\\u0069d":"b"}',
        b'{"id":"a","x":{"y":1,"y":2}}',
        b'{"id":"a","x":[{"y":1},{"y":1,"z":2,"y":3}]}',
        b'{"id":"a","":1,"":2}',
        b'{"id":"a","a\\"b":1,"a\\u0022b":2}',
        b'{"id":"a","x":"\\":","y":1,"y":2}',
        '{"id":"a","é":1,"\\u00e9":2}'.encode(),
        b'{"id" : "a" , "id"\n:\t"b"}',
    ],
)
def test_duplicate_names(bodies: Bodies, body: bytes) -> None:
    bodies.refuse_everywhere(body, queries=False)


@pytest.mark.parametrize(
    "body",
    [
        b'{"query":"SELECT 1","query":"SELECT * FROM c"}',
        b'{"query":"SELECT * FROM c","parameters":[],"parameters":[]}',
        b'{"query":"SELECT @p","parameters":[{"name":"@p","value":1,"value":2}]}',
        b'{"query":"SELECT @p","parameters":[{"name":"@p","value":{"a":1,"a":2}}]}',
    ],
)
def test_duplicate_names_in_queries(bodies: Bodies, body: bytes) -> None:
    for method, path, headers in bodies.queries:
        bad(bodies.raw.request(method, path, body, headers))


@pytest.mark.parametrize(
    "tail",
    [
        '"a:b":1,"a":{"b":1}',
        '"text":"\\"a\\":1,\\"a\\":2"',
        '"text":"\\u0022a\\u0022:1"',
        '"x":{"id":1},"y":{"id":1}',
        '"a":1,"A":2,"a ":3," a":4',
        '"é":1,"e\u0301":2',
    ],
)
def test_names_that_only_look_alike(raw: RawClient, container: str, tail: str) -> None:
    body = f'{{"id":"1","pk":"a",{tail}}}'.encode()
    assert raw.request("POST", f"{container}/docs", body, PK).status == 201


def nested(depth: int, opening: str, closing: str) -> bytes:
    """A body of `depth` levels, the object around it included."""
    inner = opening * (depth - 1) + "1" + closing * (depth - 1)
    return f'{{"id":"1","pk":"a","content":{{}},"x":{inner}}}'.encode()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_nesting(bodies: Bodies, opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{")
    deepest = nested(1 + 127 // levels, opening, closing)
    method, path, headers = bodies.objects[4]
    assert bodies.raw.request(method, path, deepest, headers).status in (200, 201)
    for depth in (129, 130, 1000, 5000):
        bodies.refuse_everywhere(nested(depth, opening, closing))


@pytest.mark.parametrize(("depth", "is_accepted"), [(127, True), (128, False)])
def test_what_is_around_an_item_does_not_count_as_its_nesting(
    raw: RawClient, container: str, depth: int, is_accepted: bool
) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    patch = {"operations": [{"op": "set", "path": "/x", "value": value}]}
    operations = [
        {"operationType": "Upsert", "resourceBody": {"id": "2", "pk": "a", "x": value}},
        {"operationType": "Patch", "id": "1", "resourceBody": patch},
    ]
    docs = f"{container}/docs"
    assert raw.post(docs, {"id": "1", "pk": "a"}, pk='["a"]').status == 201
    assert raw.patch(f"{docs}/1", patch, pk='["a"]').status == (200 if is_accepted else 400)
    for atomic in (True, False):
        for operation in operations:
            (entry,) = raw.batch(container, [operation], atomic=atomic, pk='["a"]').json
            assert (entry["statusCode"] < 300) == is_accepted, entry
            assert is_accepted or entry["statusCode"] == 400, entry


def test_a_whole_item_may_be_a_parameter(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    created = raw.request("POST", docs, nested(128, "[", "]"), PK)
    parameters = [{"name": "@item", "value": created.json}]
    reply = raw.query(docs, "SELECT VALUE c.id FROM c WHERE c = @item", parameters)
    assert reply.json["Documents"] == ["1"], reply


def test_brackets_in_strings_are_not_nesting(raw: RawClient, container: str) -> None:
    body = {"id": "1", "pk": "a", "x": "[{" * 500, 'y"[[': '\\"[' * 300, "z": [[]] * 300}
    assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"[]," * 200 + b'"' + b'\\"' * 20_000,
        b'{"a":[' + b"[]," * 200 + b'"' * 40_001,
        b'{"id":"1","pk":"a",' + b" " * 40_000 + b'"_rid":"x"}',
        b'{"id":"1","pk":"a",' + b'"_rid":"x",' + b"\n" * 40_000 + b'"_ts":5}',
        b'{"id":"1","pk":"a","x":"' + b'\\"' * 40_000 + b'","_rid":"x"}',
        b'{"id":"1","pk":"a","x":"' + b"\\u0022:" * 10_000 + b'"}',
    ],
    ids=["open string", "quotes", "spaces", "lines", "escapes", "hidden names"],
)
def test_bodies_made_to_be_slow(raw: RawClient, container: str, body: bytes) -> None:
    """Nothing may take time that grows with the square of a body: others wait meanwhile."""
    plain = b'{"id":"2","pk":"a","x":"' + b"x" * len(body) + b'"}'

    def send(content: bytes) -> None:
        headers = PK | {"x-ms-documentdb-is-upsert": "true"}
        reply = raw.request("POST", f"{container}/docs", content, headers)
        assert reply.status in (200, 201, 400)

    # The server is in this process. Usually they take as long; a square takes 100 times as long.
    assert ratio(lambda: send(body), lambda: send(plain), time.process_time) < 20


# Queries -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        5,
        None,
        True,
        "",
        {"query": None},
        {"query": 5},
        {"query": ["SELECT 1"]},
        {"Query": "SELECT 1"},
        {"query": ""},
        {"query": "SELECT * FROM c", "parameters": {}},
        {"query": "SELECT * FROM c", "parameters": "x"},
        {"query": "SELECT * FROM c", "parameters": 5},
        {"query": "SELECT * FROM c", "parameters": [5]},
        {"query": "SELECT * FROM c", "parameters": [None]},
        {"query": "SELECT * FROM c", "parameters": [{}]},
        {"query": "SELECT * FROM c", "parameters": [{"value": 1}]},
        {"query": "SELECT * FROM c", "parameters": [{"name": 5, "value": 1}]},
        {"query": "SELECT * FROM c", "parameters": [{"name": "p", "value": 1}]},
    ],
    ids=json.dumps,
)
def test_queries_of_the_wrong_shape(bodies: Bodies, body: Any) -> None:
    for method, path, headers in bodies.queries:
        bad(bodies.raw.request(method, path, json.dumps(body).encode(), headers))
