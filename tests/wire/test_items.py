"""Items one at a time: status, body and address of create, read, replace, upsert, delete."""

from __future__ import annotations

import base64
import json
import re
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply, sign
from tests.support.replies import SYSTEM
from tests.support.stores import HOLDS_NUL

KEY = '["a"]'
PK = "x-ms-documentdb-partitionkey"
LARGEST = 2 * 1024 * 1024
ETAG = re.compile(r'"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{8})[0-9a-f]{4}"')


def pairs(body: bytes) -> list[tuple[str, Any]]:
    """The members of a JSON object in their order, so that a repeated name shows."""
    found: list[tuple[str, Any]] = json.loads(body, object_pairs_hook=list)
    return found


def perform(raw: RawClient, container: str, operation: str, **headers: str) -> Reply:
    """An operation on the item `1` of the partition `a`."""
    body, docs, headers = b'{"id":"1","pk":"a","v":2}', f"{container}/docs", {"pk": KEY} | headers
    match operation:
        case "create":
            return raw.post(docs, body, **headers)
        case "upsert":
            return raw.post(docs, body, upsert="True", **headers)
        case "read":
            return raw.get(f"{docs}/1", **headers)
        case "replace":
            return raw.put(f"{docs}/1", body, **headers)
        case _:
            return raw.delete(f"{docs}/1", **headers)


def check_error(reply: Reply, status: int, code: str, sub_status: int = 0) -> str:
    """The shape of every error; returns its message."""
    assert (reply.status, reply.sub_status) == (status, sub_status), reply
    assert reply.headers["content-type"] == "application/json"
    assert sorted(reply.json) == ["code", "message"]
    assert reply.json["code"] == code
    message: str = reply.json["message"]
    assert f"\r\nActivityId: {reply.headers['x-ms-activity-id']}" in message
    return message


# Status table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "when_missing", "when_there"),
    [
        ("create",  201, 409),
        ("upsert",  201, 200),
        ("read",    404, 200),
        ("replace", 404, 200),
        ("delete",  404, 204),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_there", [False, True])
def test_status(
    raw: RawClient,
    container: str,
    operation: str,
    when_missing: int,
    when_there: int,
    is_there: bool,
) -> None:
    before: dict[str, Any] = {}
    if is_there:
        before = raw.post(f"{container}/docs", b'{"id":"1","pk":"a","v":1}', pk=KEY).json

    reply = perform(raw, container, operation)

    status = when_there if is_there else when_missing
    after = raw.get(f"{container}/docs/1", pk=KEY)
    if status == 404:
        check_error(reply, 404, "NotFound")
        assert after.status == 404
    elif status == 409:
        message = check_error(reply, 409, "Conflict")
        assert "Entity with the specified id already exists in the system." in message
        assert after.json == before
    elif status == 204:
        assert (reply.status, reply.body) == (204, b"")
        assert after.status == 404
    else:
        assert reply.status == status
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["etag"] == reply.json["_etag"]
        assert after.body == reply.body
        assert after.json["v"] == (1 if operation == "read" else 2)


@pytest.mark.parametrize("operation", ["create", "upsert", "read", "replace", "delete"])
@pytest.mark.parametrize("missing", ["container", "database"])
def test_owner_missing(
    raw: RawClient, database: str, name: str, operation: str, missing: str
) -> None:
    path = f"{database}/colls/none" if missing == "container" else f"/dbs/{name}-none/colls/c"
    check_error(perform(raw, path, operation), 404, "NotFound", 1003)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_the_feed_takes_no_item_verbs(raw: RawClient, container: str, method: str) -> None:
    body = {"id": "1", "pk": "a"} if method == "PUT" else None
    reply = raw.request(method, f"{container}/docs", body, {PK: KEY})
    check_error(reply, 405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("value", "is_upsert"),
    [("True", True), ("true", True), ("TRUE", True), ("False", False), ("false", False)],
)
def test_upsert_header_spellings(
    raw: RawClient, container: str, value: str, is_upsert: bool
) -> None:
    raw.post(f"{container}/docs", b'{"id":"1","pk":"a"}', pk=KEY)
    reply = raw.post(f"{container}/docs", b'{"id":"1","pk":"a"}', pk=KEY, upsert=value)
    assert reply.status == (200 if is_upsert else 409)


# Body and system properties ---------------------------------------------------------------------


def test_created_body(raw: RawClient, container: str, frozen: MovableClock) -> None:
    owner = raw.get(container).json
    sent = b'{"id":"1","pk":"a","list":[1,{"x":null}],"_custom":true}'

    reply = raw.post(f"{container}/docs", sent, pk=KEY)

    found = pairs(reply.body)
    assert found[:-5] == pairs(sent)
    assert [each for each, _ in found[-5:]] == list(SYSTEM)
    system = dict(found[-5:])
    assert system["_ts"] == int(frozen.now())
    assert type(system["_ts"]) is int
    assert system["_attachments"] == "attachments/"
    assert system["_self"] == f"{owner['_self']}docs/{system['_rid']}/"
    etag = ETAG.fullmatch(system["_etag"])
    assert etag is not None
    assert int(etag[1], 16) == system["_ts"]
    assert reply.headers["etag"] == system["_etag"]
    assert reply.headers["content-length"] == str(len(reply.body))
    rid = base64.b64decode(system["_rid"].replace("-", "/"), validate=True)
    assert len(rid) == 16
    assert rid[:8] == base64.b64decode(owner["_rid"].replace("-", "/"))
    assert rid[15] >> 4 == 0


@pytest.mark.parametrize("operation", ["replace", "upsert"])
def test_a_write_keeps_rid_and_renews_etag(
    raw: RawClient, container: str, operation: str, frozen: MovableClock
) -> None:
    first = raw.post(f"{container}/docs", b'{"id":"1","pk":"a","old":1}', pk=KEY).json
    same_second = perform(raw, container, operation).json
    frozen.advance(7)
    later = perform(raw, container, operation)
    for each in (same_second, later.json):
        assert (each["_rid"], each["_self"]) == (first["_rid"], first["_self"])
        assert "old" not in each
    assert len({first["_etag"], same_second["_etag"], later.json["_etag"]}) == 3
    assert later.headers["etag"] == later.json["_etag"]
    assert [same_second["_ts"], later.json["_ts"]] == [first["_ts"], first["_ts"] + 7]


def test_rids_are_never_used_twice(raw: RawClient, container: str) -> None:
    seen = set()
    for _ in range(3):
        seen.add(perform(raw, container, "create").json["_rid"])
        assert perform(raw, container, "delete").status == 204
    assert len(seen) == 3


@pytest.mark.parametrize(
    "sent",
    [
        b'{"_rid":"mine","id":"1","pk":"a"}',
        b'{"id":"1","_rid":"mine","pk":"a"}',
        b'{"id":"1","pk":"a","_rid":"mine"}',
        b'{"_ts":1,"id":"1","_etag":"\\"e\\"","pk":"a","_self":"s","_attachments":"x","_rid":"r"}',
        b'{"id":"1","pk":"a","_rid":"r","_self":"s","_etag":"\\"e\\"","_attachments":"a","_ts":1}',
        b'{"_rid":null,"_ts":{"_ts":1},"_etag":[1,2],"id":"1","pk":"a"}',
        b'{ "_rid" : "mine" , "id" : "1" , "pk" : "a" , "_ts" : 5 }',
        b'{"\\u005frid":"mine","id":"1","pk":"a"}',
        b'{"id":"1","\\u005Fetag":"mine","pk":"a"}',
        b'{"id":"1","pk":"a","_r\\u0069d":"mine"}',
        b'{"id":"1","_\\u0074s":1,"pk":"a"}',
        b'{"\\u005f\\u0073\\u0065\\u006c\\u0066":"mine","id":"1","pk":"a"}',
    ],
)
@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
def test_system_properties_are_the_servers(
    raw: RawClient, container: str, sent: bytes, operation: str
) -> None:
    """Wherever they stand in the body and however their names are spelt."""
    docs = f"{container}/docs"
    if operation == "replace":
        perform(raw, container, "create")
        reply = raw.put(f"{docs}/1", sent, pk=KEY)
    elif operation == "upsert":
        reply = raw.post(docs, sent, pk=KEY, upsert="true")
    else:
        reply = raw.post(docs, sent, pk=KEY)
    for body in (reply.body, raw.get(f"{docs}/1", pk=KEY).body):
        found = pairs(body)
        assert [name for name, _ in found] == ["id", "pk", *SYSTEM]
        system = dict(found)
        assert system["_etag"] == reply.headers["etag"]
        assert system["_self"].endswith(f"/docs/{system['_rid']}/")
        assert system["_attachments"] == "attachments/"
        assert system["_ts"] > 1_000_000_000


@pytest.mark.parametrize(
    "kept",
    [
        b'"in":{"_rid":"mine","_ts":1,"_etag":"e"}',
        b'"list":[{"_self":"s"},["_rid"]]',
        b'"text":"\\"_rid\\":1"',
        b'"_Rid":1,"_rid ":2,"_lsn":3,"__ts":4,"ts":5',
    ],
)
def test_other_properties_are_kept(raw: RawClient, container: str, kept: bytes) -> None:
    sent = b'{"id":"1","pk":"a",%b}' % kept
    with_system = b'{"_rid":"mine","id":"1","pk":"a",%b,"_ts":1}' % kept
    for body in (sent, with_system):
        reply = raw.post(f"{container}/docs", body, pk=KEY, upsert="true")
        assert reply.body.startswith(sent[:-1] + b',"_rid":')
        assert raw.get(f"{container}/docs/1", pk=KEY).body == reply.body


def test_what_was_read_can_be_sent_back(raw: RawClient, container: str) -> None:
    first = perform(raw, container, "create")
    second = raw.put(f"{container}/docs/1", first.body, pk=KEY)
    assert second.status == 200
    assert pairs(second.body)[:-5] == pairs(first.body)[:-5]
    assert second.json["_rid"] == first.json["_rid"]
    assert second.json["_etag"] != first.json["_etag"]


# Text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"0", b"-0", b"-0.0", b"1", b"1.0", b"1.50", b"1e2", b"1E2", b"1e+2", b"1e-7", b"100",
        b"0.1", b"9007199254740991", b"9007199254740993", b"9223372036854775807",
        b"-9223372036854775808", b"18446744073709551615", b"18446744073709551616",
        b"123456789012345678901234567890", b"0.1000000000000000055511151231257827",
        b"1.7976931348623157e308", b"5e-324", b"true", b"false", b"null",
        b'""', b'"\\u00e9"', '"é"'.encode(), b'"\\u00E9"', '"😀"'.encode(), b'"\\ud83d\\ude00"',
        b'"\\/"', b'"/"', b'"\\u0041"', b'"\\"\\\\\\b\\f\\n\\r\\t"', b'"\x7f"',
        pytest.param(b'"\\u0000"', marks=HOLDS_NUL),
        '"\u2028\u2029"'.encode(), '"e\u0301"'.encode(), '"\ufeff"'.encode(),
        b"[]", b"{}", b"[[],{}]", b'{"":""}', b'{"b":1,"a":2,"B":3}', b'{"\\u0061":1}',
        b'{"a.b":1,"a[0]":2,"$":3,"a\\"b":4}', b'[1,1.0,1e0,"1"]',
    ],
)  # fmt: skip
def test_text_comes_back_as_sent(raw: RawClient, container: str, text: bytes) -> None:
    """Numbers, escapes and key order are the client's, byte for byte, on every way out."""
    sent = b'{"z":1,"id":"1","v":%b,"pk":"a"}' % text
    created = raw.post(f"{container}/docs", sent, pk=KEY)
    assert created.status == 201
    assert created.body.startswith(sent[:-1] + b',"_rid":')
    assert raw.get(f"{container}/docs/1", pk=KEY).body == created.body
    feed = raw.get(f"{container}/docs").body
    assert feed[feed.index(b"[") : feed.rindex(b"]") + 1] == b"[" + created.body + b"]"
    replaced = raw.put(f"{container}/docs/1", sent, pk=KEY)
    assert replaced.body.startswith(sent[:-1] + b',"_rid":')
    assert raw.get(f"{container}/docs/1", pk=KEY).body == replaced.body


def test_whitespace_between_tokens_means_nothing(raw: RawClient, container: str) -> None:
    sent = b' {\n "id" : "1",\t"pk":"a" , "v" : [ 1 , { } ] ,"text":" a  b " }\r\n'
    created = raw.post(f"{container}/docs", sent, pk=KEY)
    assert created.status == 201
    read = raw.get(f"{container}/docs/1", pk=KEY)
    assert pairs(read.body) == pairs(created.body)
    assert pairs(read.body)[:-5] == pairs(sent)


@pytest.mark.parametrize(
    "sent",
    [
        b"", b" ", b"{", b"[]", b"null", b'"1"', b'[{"id":"1","pk":"a"}]',
        b'{"id":"1","pk":"a"', b'{"id":"1","pk":"a",}', b"{'id':'1','pk':'a'}",
        b'{"id":"1","pk":"a"}x', b'{"id":"1","pk":"a","v":NaN}', b'{"id":"1","pk":"a","v":01}',
        b'{"id":"1","pk":"a","v":"\xff"}', b'{"id":"1","pk":"a","v":"\\ud800"}',
        b'{"id":"1","pk":"a","id":"2"}', b'{"id":"1","pk":"a","v":{"x":1,"x":2}}',
        b'{"id":"1","pk":"a","v":' + b"[" * 128 + b"]" * 128 + b"}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
def test_malformed_body(raw: RawClient, container: str, sent: bytes, operation: str) -> None:
    docs = f"{container}/docs"
    if operation == "replace":
        perform(raw, container, "create")
        reply = raw.put(f"{docs}/1", sent, pk=KEY)
    else:
        reply = raw.post(docs, sent, pk=KEY, upsert=str(operation == "upsert"))
    check_error(reply, 400, "BadRequest")
    assert raw.get(f"{docs}/1", pk=KEY).status == (200 if operation == "replace" else 404)


def test_deepest_body(raw: RawClient, container: str) -> None:
    sent = b'{"id":"1","pk":"a","v":' + b"[" * 127 + b"]" * 127 + b"}"
    assert raw.post(f"{container}/docs", sent, pk=KEY).status == 201
    assert raw.get(f"{container}/docs/1", pk=KEY).body.startswith(sent[:-1] + b",")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "x"])
def test_content_type_does_not_matter(raw: RawClient, container: str, content_type: str) -> None:
    headers = {PK: KEY, "content-type": content_type}
    reply = raw.request("POST", f"{container}/docs", b'{"id":"1","pk":"a"}', headers)
    assert reply.status == 201


# Size -------------------------------------------------------------------------------------------


def sized(size: int, filler: str = "x") -> bytes:
    """A body of `size` bytes of UTF-8."""
    frame = '{"id":"1","pk":"a","v":"%s"}'
    room = size - len(frame % "")
    width = len(filler.encode())
    body = (frame % (filler * (room // width) + "x" * (room % width))).encode()
    assert len(body) == size
    return body


@pytest.mark.parametrize("operation", ["create", "upsert", "replace"])
@pytest.mark.parametrize("filler", ["x", "é"])
@pytest.mark.parametrize(
    ("size", "is_refused"),
    [(LARGEST - 1, False), (LARGEST, False), (LARGEST + 1, True)],
)
def test_largest_item(
    raw: RawClient, container: str, operation: str, filler: str, size: int, is_refused: bool
) -> None:
    docs, sent = f"{container}/docs", sized(size, filler)
    if operation == "replace":
        perform(raw, container, "create")
        reply = raw.put(f"{docs}/1", sent, pk=KEY)
    else:
        reply = raw.post(docs, sent, pk=KEY, upsert=str(operation == "upsert"))
    if is_refused:
        message = check_error(reply, 413, "RequestEntityTooLarge")
        assert message.startswith(
            'Message: {"Errors":["Request size is too large"]}\r\nActivityId: '
        )
        assert raw.get(f"{docs}/1", pk=KEY).status == (200 if operation == "replace" else 404)
    else:
        assert reply.status == (200 if operation == "replace" else 201)
        assert raw.get(f"{docs}/1", pk=KEY).body.startswith(sent[:-1] + b',"_rid"')


def test_the_largest_item_can_be_sent_back_as_it_was_read(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    assert raw.post(docs, sized(LARGEST), pk=KEY).status == 201
    read = raw.get(f"{docs}/1", pk=KEY)
    assert len(read.body) > LARGEST
    assert raw.put(f"{docs}/1", read.body, pk=KEY).status == 200
    longer = read.body.replace(b'"v":"', b'"v":"x')
    check_error(raw.put(f"{docs}/1", longer, pk=KEY), 413, "RequestEntityTooLarge")


def test_an_item_far_too_large(raw: RawClient, container: str) -> None:
    """The client hears its 413 also when it sends all of the body before it listens."""
    reply = raw.post(f"{container}/docs", sized(4 * LARGEST), pk=KEY)
    check_error(reply, 413, "RequestEntityTooLarge")


# Ids --------------------------------------------------------------------------------------------

ROUND_TRIP = [
    "plain", "  leading", "in ner", "trailing ", "Ünïcödé", "日本語", "鱀", "😀", "e\u0301",
    ",", "=", ".", "..", ":", "~", "+", "-", "@", "(", ")", "^", "$", "{", "}", "[", "]", "!", "_",
    "With,=.:~+-@()^${}[]!_Chars", "a\rb", "a\tb", "a\nb", "a%20b", "end%20", "%", "%2F",
    "%E9%B1%80", "a?b", "?", "a?b?c", "a?b=c&d", "#", "a;b", "a&b", "a*b", "a|b", "<a>",
    '"a"', "'a'", "`a`",
    "null", "docs", "x" * 1023, "é" * 511,
]  # fmt: skip


def round_trip(raw: RawClient, docs: str, item_id: str, url: str) -> None:
    """Creates an item and reads, replaces and deletes it through `url`."""
    path, headers = f"{docs}/{item_id}", {PK: KEY}
    body = {"id": item_id, "pk": "a"}
    created = raw.post(docs, body, pk=KEY)
    assert (created.status, created.json["id"]) == (201, item_id)
    read = raw.request("GET", path, headers=headers, raw_path=url)
    assert (read.status, read.json) == (200, created.json)
    replaced = raw.request("PUT", path, body | {"v": 2}, headers, raw_path=url)
    assert (replaced.status, replaced.json["id"]) == (200, item_id)
    assert replaced.json["_rid"] == created.json["_rid"]
    assert raw.request("DELETE", path, headers=headers, raw_path=url).status == 204
    assert raw.request("GET", path, headers=headers, raw_path=url).status == 404


@pytest.mark.parametrize("item_id", ROUND_TRIP)
@pytest.mark.parametrize("end", ["", "/"])
def test_ids_round_trip(raw: RawClient, container: str, item_id: str, end: str) -> None:
    """Percent-encoded, with and without the slash that Python clients put at the end."""
    docs = f"{container}/docs"
    round_trip(raw, docs, item_id, quote(f"{docs}/{item_id}{end}"))


@pytest.mark.parametrize("item_id", [each for each in ROUND_TRIP if each[-1:] not in "?#"])
def test_ids_round_trip_as_javascript_sends_them(
    raw: RawClient, container: str, item_id: str
) -> None:
    """encodeURI leaves `?` and other reserved characters alone."""
    docs = f"{container}/docs"
    round_trip(raw, docs, item_id, quote(f"{docs}/{item_id}", safe=";,/?:@&=+$-_.!~*'()#"))


def test_ids_are_case_sensitive(raw: RawClient, container: str) -> None:
    for item_id in ("a", "A", "á"):
        reply = raw.post(f"{container}/docs", {"id": item_id, "pk": "a"}, pk=KEY)
        assert reply.status == 201
    assert raw.get(f"{container}/docs/A", pk=KEY).json["id"] == "A"


@pytest.mark.parametrize(
    ("item_id", "text"),
    [
        ('""', "Ensure to provide a unique non-empty string less than '1024' characters."),
        (f'"{"x" * 1024}"', "a unique non-empty string less than '1024' characters."),
        (f'"{"é" * 512}"', "a unique non-empty string less than '1024' characters."),
        ("1", ""),
        ("true", ""),
        ("null", ""),
        ("[]", ""),
        ('{"a":1}', ""),
        ('"a/b"', ""),
        ('"a\\\\b"', ""),
    ],
)
@pytest.mark.parametrize("is_upsert", ["False", "True"])
def test_bad_id(raw: RawClient, container: str, item_id: str, text: str, is_upsert: str) -> None:
    body = f'{{"id":{item_id},"pk":"a"}}'.encode()
    reply = raw.post(f"{container}/docs", body, pk=KEY, upsert=is_upsert)
    assert text in check_error(reply, 400, "BadRequest")
    assert raw.get(f"{container}/docs").json["_count"] == 0


def test_missing_id(raw: RawClient, container: str) -> None:
    """The service makes up no ids."""
    reply = raw.post(f"{container}/docs", b'{"pk":"a"}', pk=KEY)
    text = "The input content is invalid because the required properties - 'id; ' - are missing"
    assert text in check_error(reply, 400, "BadRequest")


# Rids -------------------------------------------------------------------------------------------


def by_rid(raw: RawClient, method: str, link: str, body: Any = None, key: str = KEY) -> Reply:
    """A request to a `_self` link, signed as Python clients do: the last rid in lower case."""
    date = formatdate(usegmt=True)
    rid = link.strip("/").rpartition("/")[2]
    headers = {
        PK: key,
        "x-ms-date": date,
        "authorization": sign(raw.key, method, "docs", rid.lower(), date),
    }
    return raw.request(method, f"/{link}", body, headers, raw_path=quote(f"/{link}"))


def test_rid_addresses_the_item(raw: RawClient, container: str) -> None:
    created = perform(raw, container, "create").json
    link = created["_self"]
    assert by_rid(raw, "GET", link).json == created
    replaced = by_rid(raw, "PUT", link, {"id": "1", "pk": "a", "v": 3})
    assert (replaced.status, replaced.json["_self"]) == (200, link)
    assert raw.get(f"{container}/docs/1", pk=KEY).json == replaced.json
    assert by_rid(raw, "DELETE", link).status == 204
    assert raw.get(f"{container}/docs/1", pk=KEY).status == 404
    for method, body in (("GET", None), ("PUT", {"id": "1", "pk": "a"}), ("DELETE", None)):
        check_error(by_rid(raw, method, link, body), 404, "NotFound")


@pytest.mark.parametrize("level", ["database", "container", "item", "all"])
def test_rids_and_names_mix(raw: RawClient, container: str, level: str) -> None:
    created = perform(raw, container, "create").json
    _, database_rid, _, container_rid, _, rid, _ = created["_self"].split("/")
    _, _, database, _, name = container.split("/")
    path = "/dbs/{}/colls/{}/docs/{}".format(
        database_rid if level in ("database", "all") else database,
        container_rid if level in ("container", "all") else name,
        rid if level in ("item", "all") else "1",
    )
    assert raw.get(path, pk=KEY).json == created


def test_rid_of_another_partition_key(raw: RawClient, container: str) -> None:
    link = perform(raw, container, "create").json["_self"]
    for method in ("GET", "DELETE"):
        check_error(by_rid(raw, method, link, key='["b"]'), 404, "NotFound")
    assert by_rid(raw, "PUT", link, {"id": "1", "pk": "b"}, '["b"]').status == 404
    assert raw.get(f"{container}/docs/1", pk=KEY).status == 200


def test_rid_of_another_container(raw: RawClient, database: str, container: str) -> None:
    body = {"id": "d", "partitionKey": PARTITION_KEY}
    other = raw.post(f"{database}/colls", body).json
    link = perform(raw, container, "create").json["_self"]
    rid = link.strip("/").rpartition("/")[2]
    check_error(by_rid(raw, "GET", f"{other['_self']}docs/{rid}/"), 404, "NotFound")


def test_an_id_wins_over_a_rid(raw: RawClient, container: str) -> None:
    rid = perform(raw, container, "create").json["_rid"]
    assert raw.post(f"{container}/docs", {"id": rid, "pk": "a", "v": "named"}, pk=KEY).status == 201
    assert raw.get(f"{container}/docs/{rid}", pk=KEY).json["v"] == "named"
    assert raw.delete(f"{container}/docs/{rid}", pk=KEY).status == 204
    assert raw.get(f"{container}/docs/1", pk=KEY).status == 200


# Rename and move --------------------------------------------------------------------------------


def test_replace_may_change_the_id(raw: RawClient, container: str) -> None:
    created = perform(raw, container, "create").json
    renamed = raw.put(f"{container}/docs/1", b'{"id":"2","pk":"a"}', pk=KEY)
    assert (renamed.status, renamed.json["id"]) == (200, "2")
    assert renamed.json["_rid"] == created["_rid"]
    assert raw.get(f"{container}/docs/2", pk=KEY).body == renamed.body
    check_error(raw.get(f"{container}/docs/1", pk=KEY), 404, "NotFound")
    assert raw.get(f"{container}/docs").json["_count"] == 1
    assert perform(raw, container, "create").status == 201  # the old id is free


def test_rename_by_rid(raw: RawClient, container: str) -> None:
    link = perform(raw, container, "create").json["_self"]
    assert by_rid(raw, "PUT", link, {"id": "2", "pk": "a"}).status == 200
    assert by_rid(raw, "GET", link).json["id"] == "2"


def test_rename_to_a_taken_id(raw: RawClient, container: str) -> None:
    first = perform(raw, container, "create")
    second = raw.post(f"{container}/docs", b'{"id":"2","pk":"a"}', pk=KEY)
    reply = raw.put(f"{container}/docs/1", b'{"id":"2","pk":"a","v":9}', pk=KEY)
    message = check_error(reply, 409, "Conflict")
    assert "Entity with the specified id already exists in the system." in message
    assert raw.get(f"{container}/docs/1", pk=KEY).body == first.body
    assert raw.get(f"{container}/docs/2", pk=KEY).body == second.body


def test_rename_to_an_id_of_another_partition(raw: RawClient, container: str) -> None:
    perform(raw, container, "create")
    assert raw.post(f"{container}/docs", b'{"id":"2","pk":"b"}', pk='["b"]').status == 201
    assert raw.put(f"{container}/docs/1", b'{"id":"2","pk":"a"}', pk=KEY).status == 200


def test_the_partition_key_cannot_change(raw: RawClient, container: str) -> None:
    created = perform(raw, container, "create")
    moved = b'{"id":"1","pk":"b"}'
    check_error(raw.put(f"{container}/docs/1", moved, pk=KEY), 400, "BadRequest", 1001)
    # addressed in the other partition there is nothing to replace
    check_error(raw.put(f"{container}/docs/1", moved, pk='["b"]'), 404, "NotFound")
    assert raw.get(f"{container}/docs/1", pk=KEY).body == created.body


def test_ids_are_unique_within_a_logical_partition(raw: RawClient, container: str) -> None:
    for value in ("a", "b"):
        reply = raw.post(f"{container}/docs", {"id": "1", "pk": value}, pk=f'["{value}"]')
        assert reply.status == 201
        again = raw.post(f"{container}/docs", {"id": "1", "pk": value}, pk=f'["{value}"]')
        check_error(again, 409, "Conflict")
    assert raw.delete(f"{container}/docs/1", pk='["a"]').status == 204
    assert raw.get(f"{container}/docs/1", pk='["b"]').json["pk"] == "b"


# Prefer and indexing directive ------------------------------------------------------------------


@pytest.mark.parametrize("prefer", ["return=minimal", "Return=Minimal", "return = minimal"])
@pytest.mark.parametrize(
    ("operation", "status"), [("create", 201), ("upsert", 200), ("replace", 200), ("delete", 204)]
)
def test_prefer_minimal(
    raw: RawClient, container: str, prefer: str, operation: str, status: int
) -> None:
    """The same answer without its body."""
    if operation != "create":
        perform(raw, container, "create")
    full = {"x-ms-request-charge", "x-ms-session-token", "lsn"}
    reply = perform(raw, container, operation, prefer=prefer)
    assert (reply.status, reply.body) == (status, b"")
    assert full <= reply.headers.keys()
    if operation != "delete":
        read = raw.get(f"{container}/docs/1", pk=KEY)
        assert reply.headers["etag"] == read.headers["etag"] == read.json["_etag"]
        assert float(reply.headers["x-ms-request-charge"]) > 5


def test_prefer_representation(raw: RawClient, container: str) -> None:
    reply = perform(raw, container, "create", prefer="return=representation")
    assert reply.json["id"] == "1"


@pytest.mark.parametrize(
    ("directive", "terms"),
    [
        ("0", 2), ("1", 2), ("2", 0),
        ("Default", 2), ("Include", 2), ("Exclude", 0),
        ("include", 2), ("EXCLUDE", 0),
    ],
)  # fmt: skip
def test_indexing_directive(raw: RawClient, container: str, directive: str, terms: int) -> None:
    """An excluded item has no index terms to pay for, neither now nor when it goes."""
    reply = perform(raw, container, "create", x_ms_indexing_directive=directive)
    assert (reply.status, float(reply.headers["x-ms-request-charge"])) == (201, 5 + 0.2 * terms)
    gone = perform(raw, container, "delete")
    assert float(gone.headers["x-ms-request-charge"]) == 5 + 0.2 * terms


@pytest.mark.parametrize("directive", ["3", "-1", "yes"])
def test_unknown_indexing_directive(raw: RawClient, container: str, directive: str) -> None:
    reply = perform(raw, container, "create", x_ms_indexing_directive=directive)
    check_error(reply, 400, "BadRequest")
    assert perform(raw, container, "read").status == 404
