"""Partition keys on the wire: every form of the header, and how it must agree with the body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY, create_container
from tests.support.raw import RawClient, Reply
from tests.support.stores import HOLDS_NUL

PK = "x-ms-documentdb-partitionkey"
MISMATCH = "PartitionKey extracted from document doesn't match the one specified in the header"
MISFIT = (
    "Partition key provided either doesn't correspond to definition in the collection or doesn't"
    " match partition key field values specified in the document."
)
HASH_1: dict[str, Any] = {"paths": ["/pk"], "kind": "Hash"}  # no version means 1
HASH_2: dict[str, Any] = PARTITION_KEY
LEVELS: dict[str, Any] = {"paths": ["/a", "/b", "/c"], "kind": "MultiHash", "version": 2}
BOTH = pytest.mark.parametrize("definition", [HASH_1, HASH_2], ids=["v1", "v2"])


def make_keyed_docs(
    raw: RawClient, database: str, definition: dict[str, Any], **headers: str
) -> str:
    """A container with this key; returns the path of its items."""
    path = create_container(raw, database, "k", headers=headers, partitionKey=definition)
    return f"{path}/docs"


def bad_request_message(reply: Reply, sub_status: int = 0) -> str:
    """A 400; returns its message."""
    assert (reply.status, reply.sub_status) == (400, sub_status), reply
    assert reply.json["code"] == "BadRequest"
    message: str = reply.json["message"]
    return message


def item_text(member: str, item_id: str = "1") -> bytes:
    """An item with one more member, or with none."""
    return f'{{"id":"{item_id}"{"," if member else ""}{member}}}'.encode()


# Forms ------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("member", "header"),
    [
        ('"pk":"WA"', '["WA"]'),
        ('"pk":"WA"', ' [ "WA" ] '),
        ('"pk":"WA"', '["\\u0057A"]'),
        ('"pk":""', '[""]'),
        ('"pk":" "', '[" "]'),
        ('"pk":"null"', '["null"]'),
        ('"pk":"é"', '["\\u00e9"]'),
        ('"pk":"\\u00e9"', '["\\u00E9"]'),
        ('"pk":"😀"', '["\\ud83d\\ude00"]'),
        pytest.param('"pk":"\\u0000"', '["\\u0000"]', marks=HOLDS_NUL),
        ('"pk":"a\\"b\\\\c,d]"', '["a\\"b\\\\c,d]"]'),
        ('"pk":1', "[1]"),
        ('"pk":-1', "[-1]"),
        ('"pk":0', "[0]"),
        ('"pk":1.5', "[1.5]"),
        ('"pk":12313.1221', "[12313.1221]"),
        ('"pk":1e300', "[1e300]"),
        ('"pk":9007199254740991', "[9007199254740991]"),
        ('"pk":true', "[true]"),
        ('"pk":false', "[false]"),
        ('"pk":null', "[null]"),
        ("", "[{}]"),
        ("", "[ { } ]"),
    ],
)
def test_key_forms(
    raw: RawClient, database: str, definition: dict[str, Any], member: str, header: str
) -> None:
    docs = make_keyed_docs(raw, database, definition)
    body = item_text(member)
    created = raw.post(docs, body, pk=header)
    assert created.status == 201, created
    assert raw.get(f"{docs}/1", pk=header).body == created.body
    assert raw.get(docs, pk=header).json["Documents"] == [created.json]
    assert raw.post(docs, body, pk=header, upsert="true").status == 200
    assert raw.put(f"{docs}/1", body, pk=header).status == 200
    assert raw.delete(f"{docs}/1", pk=header).status == 204


@BOTH
@pytest.mark.parametrize(
    ("stored", "headers"),
    [
        ("1", ["[1]", "[1.0]", "[1e0]", "[10e-1]"]),
        ("1.0", ["[1]", "[1.0]"]),
        ("100", ["[1e2]", "[100.0]"]),
        ("0", ["[-0.0]", "[0.0]", "[-0]"]),
        ("-0.0", ["[0]"]),
        ("1e20", ["[100000000000000000000]"]),
        ("9223372036854775808", ["[9.223372036854775808e18]"]),
        ("9007199254740993", ["[9007199254740992]"]),  # one double
    ],
)
def test_numbers_are_doubles(
    raw: RawClient, database: str, definition: dict[str, Any], stored: str, headers: list[str]
) -> None:
    docs = make_keyed_docs(raw, database, definition)
    body = item_text(f'"pk":{stored}')
    assert raw.post(docs, body, pk=headers[0]).status == 201
    for header in headers:
        read = raw.get(f"{docs}/1", pk=header)
        assert read.status == 200
        assert read.body.startswith(body[:-1] + b",")
        assert raw.post(docs, body, pk=header).status == 409


@BOTH
def test_types_are_distinguished(raw: RawClient, database: str, definition: dict[str, Any]) -> None:
    """The same id under keys that differ in type only: each is its own item."""
    keys = ["1", "true", "0", "false", '""', "null", '"1"', '"true"', '"null"', '"{}"', '"0"']
    docs = make_keyed_docs(raw, database, definition)
    for value in keys:
        assert raw.post(docs, item_text(f'"pk":{value}'), pk=f"[{value}]").status == 201
    assert raw.post(docs, item_text(""), pk="[{}]").status == 201
    for value in keys:
        read = raw.get(f"{docs}/1", pk=f"[{value}]")
        assert b'"pk":%b,' % value.encode() in read.body
        assert raw.get(docs, pk=f"[{value}]").json["_count"] == 1
    assert "pk" not in raw.get(f"{docs}/1", pk="[{}]").json
    assert raw.delete(f"{docs}/1", pk="[1]").status == 204
    assert raw.get(docs, count="-1").json["_count"] == len(keys)


@BOTH
@pytest.mark.parametrize(
    "text", ["A", "a ", " a", "á", "a\u0301", pytest.param("a\u0000", marks=HOLDS_NUL)]
)
def test_strings_are_compared_exactly(
    raw: RawClient, database: str, definition: dict[str, Any], text: str
) -> None:
    docs = make_keyed_docs(raw, database, definition)
    for value in ("a", text):
        assert raw.post(docs, {"id": "1", "pk": value}, pk=json.dumps([value])).status == 201
    assert raw.get(f"{docs}/1", pk=json.dumps([text])).json["pk"] == text


# Paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "member", "header"),
    [
        ("/a/b", '"a":{"b":"x"}', '["x"]'),
        ("/a/b", '"a":{"c":"x"}', "[{}]"),
        ("/a/b", '"a":{}', "[{}]"),
        ("/a/b", '"a":"x"', "[{}]"),
        ("/a/b", '"a":["b"]', "[{}]"),
        ("/a/b", '"a":null', "[{}]"),
        ("/a/b", '"a/b":"x"', "[{}]"),
        ("/a/b", '"a":{"b":null}', "[null]"),
        ("/a/b/c", '"a":{"b":{"c":5}}', "[5]"),
        ('/"a b"', '"a b":"x"', '["x"]'),
        ('/"a/b"', '"a/b":"x"', '["x"]'),
        ('/"a"/"b c"', '"a":{"b c":"x"}', '["x"]'),
        ('/"pk"', '"pk":"x"', '["x"]'),
        ("/id", "", '["1"]'),
        ("/Pk", '"pk":"y","Pk":"x"', '["x"]'),
    ],
)
def test_paths(raw: RawClient, database: str, path: str, member: str, header: str) -> None:
    docs = make_keyed_docs(raw, database, {"paths": [path], "kind": "Hash", "version": 2})
    assert raw.post(docs, item_text(member), pk=header).status == 201
    assert raw.get(f"{docs}/1", pk=header).status == 200
    wrong = '["other"]'
    assert raw.get(f"{docs}/1", pk=wrong).status == 404
    bad_request_message(raw.post(docs, item_text(member), pk=wrong), 1001)


# Header and body --------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
@pytest.mark.parametrize(
    ("member", "header"),
    [
        ('"pk":"a"', '["b"]'),
        ('"pk":"a"', '["A"]'),
        ('"pk":"1"', "[1]"),
        ('"pk":1', "[true]"),
        ('"pk":true', "[1]"),
        ('"pk":0', "[false]"),
        ('"pk":0', "[null]"),
        ('"pk":null', "[{}]"),
        ("", "[null]"),
        ("", '["a"]'),
        ('"pk":"a"', "[{}]"),
        ('"pk":"a"', "[]"),
        ('"pk":"a"', '["a","a"]'),
    ],
)
def test_header_and_body_disagree(
    raw: RawClient,
    database: str,
    definition: dict[str, Any],
    operation: str,
    member: str,
    header: str,
) -> None:
    docs = make_keyed_docs(raw, database, definition)
    body = item_text(member)
    if operation == "replace":
        reply = raw.put(f"{docs}/1", body, pk=header)
    else:
        reply = raw.post(docs, body, pk=header, upsert=str(operation == "upsert"))
    assert MISFIT in bad_request_message(reply, 1001)
    assert raw.get(docs).json["_count"] == 0


def test_disagreement_has_both_texts(raw: RawClient, database: str) -> None:
    """Clients search for one or the other."""
    message = bad_request_message(
        raw.post(make_keyed_docs(raw, database, HASH_2), item_text('"pk":"a"'), pk='["b"]'), 1001
    )
    assert MISMATCH in message
    assert MISFIT in message


@pytest.mark.parametrize("value", ["[]", '["a"]', "{}", '{"a":1}'])
@pytest.mark.parametrize("header", ["[{}]", None])
def test_arrays_and_objects_count_as_absent(
    raw: RawClient, database: str, value: str, header: str | None
) -> None:
    """Both clients take the key from a document that way."""
    docs = make_keyed_docs(raw, database, HASH_2)
    headers = {} if header is None else {PK: header}
    reply = raw.request("POST", docs, item_text(f'"pk":{value}'), headers)
    assert reply.status == 201
    assert raw.get(f"{docs}/{reply.json['id']}", pk="[{}]").json == reply.json


# Header alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    ["", " ", "a", '"a"', "1", "{}", "null", "[", '["a"', '["a",]', "['a']", '["a"]]', "[NaN]",
     "[undefined]", '["\\ud800"]', "[01]", '["a"] x'],
)  # fmt: skip
@pytest.mark.parametrize("operation", ["create", "read", "replace", "delete", "feed"])
def test_header_is_no_json_array(
    raw: RawClient, container: str, header: str, operation: str
) -> None:
    docs, body = f"{container}/docs", b'{"id":"1","pk":"a"}'
    raw.post(docs, body, pk='["a"]')
    reply = {
        "create": lambda: raw.post(docs, b'{"id":"2","pk":"a"}', pk=header),
        "read": lambda: raw.get(f"{docs}/1", pk=header),
        "replace": lambda: raw.put(f"{docs}/1", body, pk=header),
        "delete": lambda: raw.delete(f"{docs}/1", pk=header),
        "feed": lambda: raw.get(docs, pk=header),
    }[operation]()
    bad_request_message(reply)
    assert raw.get(docs).json["_count"] == 1


@pytest.mark.parametrize("header", ["[[]]", '[["a"]]', '[{"a":1}]', '[{"":""}]'])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_header_holds_no_scalar(raw: RawClient, container: str, header: str, method: str) -> None:
    bad_request_message(raw.request(method, f"{container}/docs/1", headers={PK: header}))


@pytest.mark.parametrize("header", ["[]", '["a","b"]', '["a",{}]', '["a","b","c","d"]'])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_wrong_number_of_components(
    raw: RawClient, container: str, header: str, method: str
) -> None:
    raw.post(f"{container}/docs", b'{"id":"1","pk":"a"}', pk='["a"]')
    bad_request_message(raw.request(method, f"{container}/docs/1", headers={PK: header}), 1001)
    assert raw.get(f"{container}/docs/1", pk='["a"]').status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_header_missing(raw: RawClient, container: str, method: str) -> None:
    raw.post(f"{container}/docs", b'{"id":"1","pk":"a"}', pk='["a"]')
    message = bad_request_message(raw.request(method, f"{container}/docs/1"))
    assert message.startswith("PartitionKey value must be supplied for this operation.")
    assert raw.get(f"{container}/docs/1", pk='["a"]').status == 200


@BOTH
@pytest.mark.parametrize(
    ("member", "header"),
    [('"pk":"a"', '["a"]'), ('"pk":5', "[5]"), ('"pk":null', "[null]"), ("", "[{}]")],
)
def test_writes_take_a_missing_header_from_the_body(
    raw: RawClient, database: str, definition: dict[str, Any], member: str, header: str
) -> None:
    docs = make_keyed_docs(raw, database, definition)
    body = item_text(member)
    assert raw.post(docs, body).status == 201
    assert raw.get(f"{docs}/1", pk=header).status == 200
    assert raw.put(f"{docs}/1", body).status == 200
    assert raw.post(docs, body, upsert="true").status == 200
    assert raw.post(docs, body).status == 409


# Hierarchical -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "header"),
    [
        ('"a":"WA","b":"Redmond","c":5', '["WA","Redmond",5]'),
        ('"a":"WA","b":"Redmond","c":5', '[ "WA" ,"Redmond", 5.0 ]'),
        ('"a":"WA","b":"Redmond"', '["WA","Redmond",{}]'),
        ('"a":"WA"', '["WA",{},{}]'),
        ('"a":"WA","c":"x"', '["WA",{},"x"]'),
        ("", "[{},{},{}]"),
        ('"a":null,"b":null,"c":null', "[null,null,null]"),
        ('"a":true,"b":false,"c":0', "[true,false,0]"),
        ('"a":"","b":"","c":""', '["","",""]'),
    ],
)
def test_hierarchical_forms(raw: RawClient, database: str, member: str, header: str) -> None:
    docs = make_keyed_docs(raw, database, LEVELS)
    created = raw.post(docs, item_text(member), pk=header)
    assert created.status == 201
    assert raw.get(f"{docs}/1", pk=header).body == created.body
    assert raw.get(docs, pk=header).json["Documents"] == [created.json]
    assert raw.put(f"{docs}/1", item_text(member), pk=header).status == 200
    assert raw.delete(f"{docs}/1", pk=header).status == 204


@pytest.mark.parametrize(
    "header",
    ["[]", '["WA"]', '["WA","Redmond"]', '["WA","Redmond",5,6]', '["WA","Redmond",{}]',
     '["WA","Redmond",null]', '["WA",5,"Redmond"]'],
)  # fmt: skip
@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
def test_hierarchical_header_and_body_disagree(
    raw: RawClient, database: str, header: str, operation: str
) -> None:
    docs = make_keyed_docs(raw, database, LEVELS)
    body = item_text('"a":"WA","b":"Redmond","c":5')
    if operation == "replace":
        reply = raw.put(f"{docs}/1", body, pk=header)
    else:
        reply = raw.post(docs, body, pk=header, upsert=str(operation == "upsert"))
    assert MISFIT in bad_request_message(reply, 1001)


def test_absent_level_is_not_null(raw: RawClient, database: str) -> None:
    """Python extracts an absent level as null; the service does not take that."""
    docs = make_keyed_docs(raw, database, LEVELS)
    bad_request_message(raw.post(docs, item_text('"a":"WA","b":"x"'), pk='["WA","x",null]'), 1001)


@pytest.mark.parametrize("header", ["[]", '["WA"]', '["WA","Redmond"]', '["WA","Redmond",5,6]'])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_hierarchical_point_operations_need_the_full_key(
    raw: RawClient, database: str, header: str, method: str
) -> None:
    docs = make_keyed_docs(raw, database, LEVELS)
    body = item_text('"a":"WA","b":"Redmond","c":5')
    assert raw.post(docs, body, pk='["WA","Redmond",5]').status == 201
    message = bad_request_message(raw.request(method, f"{docs}/1", headers={PK: header}), 1001)
    assert message.startswith(MISFIT[: MISFIT.index(" match")])
    assert raw.get(f"{docs}/1", pk='["WA","Redmond",5]').status == 200


@pytest.mark.parametrize("throughput", ["400", "12000"])
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('["WA"]', ["1", "2", "3", "4"]),
        ('["WA","Redmond"]', ["1", "2"]),
        ('["WA","Redmond",1]', ["1"]),
        ('["WA",{}]', ["4"]),
        ('["W"]', ["6"]),
        ('["WAX"]', []),
        ("[null]", ["7"]),
        ("[{}]", ["8"]),
        ('["WA","Redmond",3]', []),
    ],
)
def test_feed_by_hierarchical_prefix(
    raw: RawClient, database: str, throughput: str, header: str, expected: list[str]
) -> None:
    """Whole components only, whichever ranges hold them."""
    docs = make_keyed_docs(raw, database, LEVELS, throughput=throughput)
    keys: list[list[Any]] = [
        ["WA", "Redmond", 1],
        ["WA", "Redmond", 2],
        ["WA", "Seattle", 1],
        ["WA", {}, {}],
        ["OR", "Redmond", 1],
        ["W", "A", 1],
        [None, "Redmond", 1],
        [{}, "Redmond", 1],
    ]
    for number, key in enumerate(keys, 1):
        levels = {name: value for name, value in zip("abc", key, strict=True) if value != {}}
        reply = raw.post(docs, {"id": str(number), **levels}, pk=json.dumps(key))
        assert reply.status == 201
    page = raw.get(docs, pk=header, count="-1")
    assert sorted(item["id"] for item in page.json["Documents"]) == expected


@pytest.mark.parametrize("header", ['["WA","Redmond",5,6]', '["WA","Redmond",5,{}]'])
def test_feed_by_too_long_a_key(raw: RawClient, database: str, header: str) -> None:
    bad_request_message(raw.get(make_keyed_docs(raw, database, LEVELS), pk=header), 1001)


# Length -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("filler", ["x", "é"])
@pytest.mark.parametrize("length", [100, 101, 102, 2048])
def test_long_keys(
    raw: RawClient, database: str, definition: dict[str, Any], filler: str, length: int
) -> None:
    """Keys that begin alike stay apart, however long that beginning is."""
    docs = make_keyed_docs(raw, database, definition)
    width = len(filler.encode())
    stem = filler * ((length - 1) // width)
    stem += "x" * (length - 1 - len(stem.encode()))
    for end in "ab":
        key = json.dumps([stem + end])
        assert raw.post(docs, {"id": end, "pk": stem + end}, pk=key).status == 201
        assert raw.get(f"{docs}/{end}", pk=key).json["pk"] == stem + end
        assert [item["id"] for item in raw.get(docs, pk=key).json["Documents"]] == [end]


@BOTH
@pytest.mark.parametrize("value", ["x" * 2049, "é" * 1025, "😀" * 512 + "x"])
def test_key_too_long(
    raw: RawClient, database: str, definition: dict[str, Any], value: str
) -> None:
    docs = make_keyed_docs(raw, database, definition)
    bad_request_message(raw.post(docs, {"id": "1", "pk": value}, pk=json.dumps([value])))
    assert raw.get(docs).json["_count"] == 0


# Ranges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('"redmond"', "1"),       # 22E342F3…
        ('"partitionKey"', "0"),  # 013AEFCF…
        ('""', "1"),              # 32E9366E…
        ("null", "1"),            # 378867E4…
        ("true", "0"),            # 0E711127…
        ("false", "1"),           # 2FE1BE91…
        ("5", "0"),               # 19C08621…
        ("1", "1"),               # 20CD98B3…
        ("0", "0"),               # 155B95BE…
    ],
)  # fmt: skip
def test_items_lie_in_the_range_of_their_hash(
    raw: RawClient, database: str, value: str, part: str
) -> None:
    """Two ranges meet at 1FFF…F; the published hashes say on which side a key falls."""
    docs = make_keyed_docs(raw, database, HASH_2, throughput="11000")
    header = f"[{value}]"
    body = item_text(f'"pk":{value}')
    replies = [
        raw.post(docs, body, pk=header),
        raw.get(f"{docs}/1", pk=header),
        raw.put(f"{docs}/1", body, pk=header),
        raw.get(docs, pk=header),
        raw.delete(f"{docs}/1", pk=header),
    ]
    assert [reply.status for reply in replies] == [201, 200, 200, 200, 204]
    for reply in replies:
        assert reply.headers["x-ms-documentdb-partitionkeyrangeid"] == part
        assert reply.headers["x-ms-session-token"].startswith(f"{part}:-1#")
