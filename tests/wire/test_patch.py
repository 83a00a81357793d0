"""Patches over the wire: statuses, bodies, preconditions, conditions, charges, bad bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.replies import without_system

KEY = '["a"]'
STALE = '"00000000-0000-0000-0000-000000000000"'


def create_item(raw: RawClient, container: str, text: str = '{"id":"1","pk":"a","n":1}') -> Any:
    reply = raw.post(f"{container}/docs", text.encode(), pk=KEY)
    assert reply.status == 201, reply
    return reply.json


def patch_item(raw: RawClient, container: str, body: Any, **headers: str) -> Reply:
    return raw.patch(f"{container}/docs/1", body, **({"pk": KEY} | headers))


def read_item(raw: RawClient, container: str) -> Reply:
    return raw.get(f"{container}/docs/1", pk=KEY)


SET = [{"op": "set", "path": "/n", "value": 2}]


@pytest.mark.parametrize(
    "content", ["application/json-patch+json", "application/json_patch+json", "application/json"]
)
@pytest.mark.parametrize("body", [SET, {"operations": SET}, {"operations": SET, "condition": None}])
def test_a_patch_answers_with_the_new_item(
    raw: RawClient, container: str, body: Any, content: str
) -> None:
    old = create_item(raw, container)
    reply = patch_item(raw, container, body, content_type=content)
    assert reply.status == 200
    assert without_system(reply.json) == {"id": "1", "pk": "a", "n": 2}
    assert reply.json["_etag"] == reply.headers["etag"] != old["_etag"]
    assert (reply.json["_rid"], reply.json["_self"]) == (old["_rid"], old["_self"])
    assert read_item(raw, container).body == reply.body
    assert reply.headers["x-ms-item-lsn"] == reply.headers["lsn"]
    assert reply.headers["lsn"] == read_item(raw, container).headers["lsn"]


def test_all_six_operations(raw: RawClient, container: str) -> None:
    create_item(
        raw,
        container,
        '{"id":"1","pk":"a","name":"bike","price":455.95,"inventory":{"quantity":15},"used":false,'
        '"tags":["r-series"]}',
    )
    reply = patch_item(
        raw,
        container,
        [
            {"op": "add", "path": "/color", "value": "silver"},
            {"op": "remove", "path": "/used"},
            {"op": "set", "path": "/price", "value": 355.45},
            {"op": "incr", "path": "/inventory/quantity", "value": 10},
            {"op": "add", "path": "/tags/-", "value": "featured"},
            {"op": "move", "from": "/color", "path": "/inventory/color"},
            {"op": "replace", "path": "/name", "value": "road bike"},
        ],
    )
    assert without_system(reply.json) == {
        "id": "1",
        "pk": "a",
        "name": "road bike",
        "price": 355.45,
        "inventory": {"quantity": 25, "color": "silver"},
        "tags": ["r-series", "featured"],
    }


def test_the_rest_of_the_text_stays(raw: RawClient, container: str) -> None:
    text = '{"id":"1","z":1.0,"pk":"a","big":9223372036854775807,"e":1e2,"s":"é\\u0001","a":[-0.0]}'
    create_item(raw, container, text)
    reply = patch_item(raw, container, b'[{"op":"add","path":"/n","value":2.50}]')
    expected = text[:-1].encode() + b',"n":2.50,'
    assert reply.body.startswith(expected)
    assert read_item(raw, container).body == reply.body


def test_a_patch_of_nothing_new_is_a_write(raw: RawClient, container: str) -> None:
    old = create_item(raw, container)
    reply = patch_item(raw, container, [{"op": "set", "path": "/n", "value": 1}])
    assert reply.status == 200
    assert reply.json["_etag"] != old["_etag"]


def test_an_item_is_patched_by_its_rid(raw: RawClient, container: str) -> None:
    rid = create_item(raw, container)["_rid"]
    reply = raw.patch(f"{container}/docs/{rid}", SET, pk=KEY)
    assert (reply.status, reply.json["n"]) == (200, 2)


def test_return_minimal(raw: RawClient, container: str) -> None:
    create_item(raw, container)
    reply = patch_item(raw, container, SET, prefer="return=minimal")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["etag"] == read_item(raw, container).json["_etag"]
    assert read_item(raw, container).json["n"] == 2


def test_missing_things(raw: RawClient, container: str) -> None:
    assert patch_item(raw, container, SET).status == 404
    create_item(raw, container)
    assert patch_item(raw, container, SET, pk='["b"]').status == 404
    reply = raw.request("PATCH", f"{container}/docs/1", SET)
    assert reply.status == 400
    assert "PartitionKey value must be supplied" in reply.json["message"]
    assert raw.patch(f"{container}-no/docs/1", SET, pk=KEY).sub_status == 1003


def test_if_match(raw: RawClient, container: str) -> None:
    etag = create_item(raw, container)["_etag"]
    assert patch_item(raw, container, SET, if_match=STALE).status == 412
    assert read_item(raw, container).json["_etag"] == etag
    assert patch_item(raw, container, SET, if_match=etag).status == 200
    assert patch_item(raw, container, SET, if_match=etag).status == 412
    assert patch_item(raw, container, SET, if_match="*").status == 200
    assert raw.patch(f"{container}/docs/2", SET, pk=KEY, if_match=etag).status == 404


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("from c where c.n = 1", 200),
        ("from c where c.n = 2", 412),
        ("from c where c.nope = 2", 412),
        ("from c where c.id = '1' and c.pk = 'a' and IS_DEFINED(c._ts)", 200),
        ("from c where", 400),
        ("n = 1", 400),
        ("from c where c.n = @n", 400),
        (7, 400),
    ],
)
def test_conditions(raw: RawClient, container: str, condition: Any, status: int) -> None:
    old = create_item(raw, container)
    reply = patch_item(raw, container, {"operations": SET, "condition": condition})
    assert reply.status == status
    assert (read_item(raw, container).json == old) == (status != 200)
    if status == 412:
        assert reply.json["code"] == "PreconditionFailed"


def test_what_is_checked_first(raw: RawClient, container: str) -> None:
    """The body, then existence, then the etag, then the condition, then the operations."""
    bad = [{"op": "remove", "path": "/nope"}]
    unmet = {"operations": bad, "condition": "from c where false"}
    assert patch_item(raw, container, [{"op": "what"}], if_match=STALE).status == 400
    assert patch_item(raw, container, unmet, if_match=STALE).status == 404
    create_item(raw, container)
    assert patch_item(raw, container, bad, if_match=STALE).status == 412
    assert patch_item(raw, container, unmet).status == 412
    assert patch_item(raw, container, bad).status == 400


BAD: list[Any] = [
    b"",
    b"{",
    b"\xff",
    b"null",
    b"1",
    b'"set"',
    b"[]",
    b"{}",
    b"[[]]",
    b"[null]",
    b'{"operations":[]}',
    b'{"operations":{"op":"set","path":"/n","value":2}}',
    b'[{"op":"set","path":"/n","value":2,"value":3}]',
    b'[{"op":"set","op":"add","path":"/n","value":2}]',
    b'[{"op":"set","path":"/n","value":1e999}]',
    b'[{"op":"set","path":"/n","value":NaN}]',
    b'[{"op":"set","path":"/n","value":"\\ud800"}]',
    b"[" + b'{"op":"set","path":"/n","value":2},' * 10 + b'{"op":"set","path":"/n","value":2}]',
    b'[{"op":"set","path":"/x","value":' + b"[" * 200 + b"]" * 200 + b"}]",
    [{"path": "/n", "value": 2}],
    [{"op": "set", "value": 2}],
    [{"op": "set", "path": "/n"}],
    [{"op": "set", "path": "n", "value": 2}],
    [{"op": "set", "path": "", "value": {}}],
    [{"op": "set", "path": ["n"], "value": 2}],
    [{"op": "set", "path": None, "value": 2}],
    [{"op": "copy", "from": "/n", "path": "/m"}],
    [{"op": "test", "path": "/n", "value": 1}],
    [{"op": "incr", "path": "/n", "value": "1"}],
    [{"op": "incr", "path": "/pk2/n", "value": 1}],
    [{"op": "move", "path": "/m"}],
    [{"op": "move", "path": "/m", "from": 1}],
    [{"op": "remove", "path": "/nope"}],
    [{"op": "replace", "path": "/nope", "value": 1}],
    [{"op": "set", "path": "/id", "value": "2"}],
    [{"op": "set", "path": "/id", "value": "1"}],
    [{"op": "set", "path": "/pk", "value": "a"}],
    [{"op": "remove", "path": "/pk"}],
    [{"op": "move", "path": "/x", "from": "/pk"}],
    [{"op": "set", "path": "/_ts", "value": 1}],
    [{"op": "remove", "path": "/_etag"}],
    # the first would succeed alone: nothing of it may stay
    [{"op": "set", "path": "/n", "value": 9}, {"op": "remove", "path": "/nope"}],
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_a_bad_patch_says_so_and_changes_nothing(raw: RawClient, container: str, body: Any) -> None:
    create_item(raw, container)
    before = read_item(raw, container)
    reply = patch_item(raw, container, body)
    assert reply.status == 400, reply
    assert reply.json["code"] == "BadRequest"
    assert float(reply.headers["x-ms-request-charge"]) == 1.24
    after = read_item(raw, container)
    assert after.body == before.body
    assert after.headers["lsn"] == before.headers["lsn"]


def test_an_item_may_not_grow_too_deep_or_too_large(raw: RawClient, container: str) -> None:
    deep = "[" * 100 + "]" * 100
    old = create_item(raw, container, f'{{"id":"1","pk":"a","x":{deep}}}')
    place = "/x" + "/0" * 98 + "/-"
    reply = patch_item(raw, container, [{"op": "add", "path": place, "value": json.loads(deep)}])
    assert reply.status == 400
    large = "x" * (1024 * 1024 + 512 * 1024)
    assert patch_item(raw, container, [{"op": "set", "path": "/a", "value": large}]).status == 200
    reply = patch_item(raw, container, [{"op": "set", "path": "/b", "value": large}])
    assert (reply.status, reply.json["code"]) == (413, "RequestEntityTooLarge")
    assert "b" not in read_item(raw, container).json
    assert without_system(read_item(raw, container).json)["x"] == old["x"]


def test_unique_keys_hold_for_patches(raw: RawClient, unique_mail: str) -> None:
    container = unique_mail
    create_item(raw, container, '{"id":"1","pk":"a","mail":"x"}')
    create_item(raw, container, '{"id":"2","pk":"a","mail":"y"}')
    taken = [{"op": "set", "path": "/mail", "value": "y"}]
    free = [{"op": "set", "path": "/mail", "value": "z"}]
    reply = patch_item(raw, container, taken)
    assert reply.status == 409
    assert "Unique index constraint violation." in reply.json["message"]
    assert patch_item(raw, container, free).status == 200
    create_item(raw, container, '{"id":"3","pk":"a","mail":"x"}')  # given up by the patch
    assert patch_item(raw, container, [{"op": "incr", "path": "/n", "value": 1}]).status == 200


def test_ancestors_of_a_nested_key_cannot_be_patched(raw: RawClient, database: str) -> None:
    key = {"paths": ["/a/b"], "kind": "Hash", "version": 2}
    assert raw.post(f"{database}/colls", {"id": "n", "partitionKey": key}).status == 201
    container = f"{database}/colls/n"
    create_item(raw, container, '{"id":"1","a":{"b":"a","c":1}}')
    for path in ("/a", "/a/b", "/a/b/c"):
        assert patch_item(raw, container, [{"op": "set", "path": path, "value": 1}]).status == 400
    assert patch_item(raw, container, [{"op": "set", "path": "/a/c", "value": 2}]).status == 200


def test_charges(raw: RawClient, container: str) -> None:
    """As much as a replace, and something for each operation."""
    create_item(raw, container, '{"id":"1","pk":"a","a":1,"b":1,"c":1}')
    replaced = raw.put(f"{container}/docs/1", b'{"id":"1","pk":"a","a":2,"b":2,"c":1}', pk=KEY)
    patched = patch_item(
        raw,
        container,
        [{"op": "incr", "path": "/a", "value": 1}, {"op": "incr", "path": "/b", "value": 1}],
    )
    costs = [float(reply.headers["x-ms-request-charge"]) for reply in (replaced, patched)]
    assert costs == [10.8, 11.6]
    none = [{"op": "incr", "path": "/z", "value": 1}]
    reply = patch_item(raw, container, none, x_ms_indexing_directive="Exclude")
    assert reply.status == 200


def test_patches_of_one_item_do_not_lose_each_other(raw: RawClient, container: str) -> None:
    create_item(raw, container)
    before = read_item(raw, container).json["n"]
    for _ in range(20):
        assert patch_item(raw, container, [{"op": "incr", "path": "/n", "value": 1}]).status == 200
    assert read_item(raw, container).json["n"] == before + 20


def test_a_stale_container_is_refused(raw: RawClient, container: str) -> None:
    create_item(raw, container)
    reply = patch_item(raw, container, SET, x_ms_cosmos_intended_collection_rid="AAAAAAAAAAA=")
    assert (reply.status, reply.sub_status) == (400, 1024)
