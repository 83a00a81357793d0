"""Requests that are wrong in every way we can think of, and in some that we cannot."""

from __future__ import annotations

import http.client
import json
import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

import hypothesis
import pytest
from hypothesis import strategies as st

from perseid.config import WELL_KNOWN_KEY
from tests.support.raw import RawClient, Reply, sign, signed_for
from tests.support.running import running
from tests.support.stores import Stores

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}
LARGEST = 2 * 1024 * 1024
PK = {"x-ms-documentdb-partitionkey": '["a"]'}
QUERY = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "true",
    "x-ms-documentdb-query-enablecrosspartition": "true",
}


def assert_refused(reply: Reply, status: int, code: str, sub_status: int = 0) -> str:
    """The shape every refusal has; returns its text."""
    assert (reply.status, reply.sub_status) == (status, sub_status), reply.body[:300]
    assert reply.headers["content-type"] == "application/json"
    assert float(reply.headers["x-ms-request-charge"]) > 0
    body = reply.json
    assert list(body) == ["code", "message"]
    assert body["code"] == code
    message: str = body["message"]
    assert f"\r\nActivityId: {reply.headers['x-ms-activity-id']}" in message
    return message


def content_for(method: str) -> Any:
    """A body for the methods that have one."""
    return {} if method in ("POST", "PUT", "PATCH") else None


def bad(reply: Reply) -> str:
    return assert_refused(reply, 400, "BadRequest")


@pytest.fixture(scope="module")
def open_server(stores: Stores) -> Iterator[RawClient]:
    """A server that lets everything in, so that random requests get past the door."""
    with stores.place() as place, running(place.fresh(no_auth=True)) as settings:
        client = RawClient(settings.endpoint)
        yield client
        client.close()


# Routes and methods ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/dbss",
        "/DBS",
        "/dbs/d/collections",
        "/dbs/d/colls/c/items",
        "/dbs/d/colls/c/docs/1/attachments",
        "/dbs/d/docs",
        "/colls",
        "/colls/c",
        "/docs",
        "/offers/x/y",
        "/dbs/d/colls/c/docs/1/2/3",
        "//dbs",
        "/dbs//colls//docs//x",
        "/index.html",
        "/favicon.ico",
        "/_perseid/nowhere",
        "/_perseid/health/more",
        "/.env",
        "/x" * 500,
    ],
)
def test_unknown_routes(raw: RawClient, method: str, path: str) -> None:
    reply = raw.request(method, path, content_for(method))
    assert_refused(reply, 404, "NotFound")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/", "POST PUT PATCH DELETE OPTIONS BREW"),
        ("/dbs", "PUT PATCH DELETE OPTIONS BREW"),
        ("{database}", "POST PUT PATCH OPTIONS"),
        ("{database}/colls", "PUT PATCH DELETE OPTIONS"),
        ("{database}/colls/c", "POST PATCH OPTIONS"),
        ("{database}/colls/c/docs", "PUT PATCH DELETE OPTIONS"),
        ("{database}/colls/c/docs/1", "POST OPTIONS"),
        ("{database}/colls/c/pkranges", "POST PUT PATCH DELETE OPTIONS"),
        ("/offers", "POST PUT PATCH DELETE OPTIONS"),
        ("/offers/xxxx", "POST PATCH DELETE OPTIONS"),
        ("/_perseid/health", "POST PUT DELETE"),
        ("/_perseid/ready", "POST PUT DELETE"),
    ],
)
def test_wrong_methods(raw: RawClient, container: str, path: str, methods: str) -> None:
    path = path.format(database=container.removesuffix("/colls/c"))
    for method in methods.split():
        for ending in ("", "/"):
            if path == "/" and ending:
                continue
            reply = raw.request(method, path + ending, content_for(method))
            assert_refused(reply, 405, "MethodNotAllowed")


def test_upserts_of_databases(raw: RawClient, name: str) -> None:
    for path in ("/dbs", "/offers"):
        reply = raw.post(path, {"id": name}, upsert="true")
        assert reply.status in (400, 405)
    assert raw.get(f"/dbs/{name}").status == 404


def test_head_has_no_body(raw: RawClient) -> None:
    for path in ("/", "/dbs", "/nowhere"):
        reply = raw.request("HEAD", path)
        assert 400 <= reply.status < 500
        assert reply.body == b""


# Bodies ------------------------------------------------------------------------------------------


@pytest.fixture
def offer(raw: RawClient, container: str) -> str:
    """The path of a container's offer."""
    rid = raw.get(container).json["_rid"]
    text = f"SELECT * FROM root r WHERE r.offerResourceId = '{rid}'"
    found = raw.query("/offers", text).json["Offers"][0]["id"]
    return f"/offers/{found}"


class Bodies:
    """Everywhere a body goes: method, path, headers."""

    def __init__(self, raw: RawClient, container: str, offer: str) -> None:
        database = container.removesuffix("/colls/c")
        docs = f"{container}/docs"
        self.raw = raw
        self.objects: list[tuple[str, str, dict[str, str]]] = [
            ("POST", "/dbs", {}),
            ("POST", f"{database}/colls", {}),
            ("PUT", container, {}),
            ("POST", docs, PK),
            ("POST", docs, {**PK, "x-ms-documentdb-is-upsert": "true"}),
            ("PUT", f"{docs}/1", PK),
            ("PUT", offer, {}),
        ]
        self.queries: list[tuple[str, str, dict[str, str]]] = [
            ("POST", "/dbs", QUERY),
            ("POST", f"{database}/colls", QUERY),
            ("POST", docs, QUERY),
            ("POST", "/offers", QUERY),
        ]

    def refuse_everywhere(self, body: bytes, *fragments: str, queries: bool = True) -> None:
        places = self.objects + (self.queries if queries else [])
        for method, path, headers in places:
            message = bad(self.raw.request(method, path, body, headers))
            for fragment in fragments:
                assert fragment in message, (method, path)


@pytest.fixture
def bodies(raw: RawClient, container: str, offer: str) -> Bodies:
    return Bodies(raw, container, offer)


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
    started = time.perf_counter()
    reply = raw.request("POST", f"{container}/docs", body, PK)
    assert reply.status in (201, 400)
    assert time.perf_counter() - started < 1


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


# Too much ----------------------------------------------------------------------------------------


def padded(size: int, name: str = "1") -> bytes:
    """An object of exactly `size` bytes."""
    start = f'{{"id":"{name}","pk":"a","content":{{}},"x":"'.encode()
    return start + b"x" * (size - len(start) - 2) + b'"}'


def test_bodies_above_two_megabytes(bodies: Bodies) -> None:
    body = padded(LARGEST + 1)
    for method, path, headers in bodies.objects + bodies.queries:
        reply = bodies.raw.request(method, path, body, headers)
        message = assert_refused(reply, 413, "RequestEntityTooLarge")
        assert message.startswith("Request size is too large")


def test_the_largest_body(raw: RawClient, name: str) -> None:
    assert raw.request("POST", "/dbs", padded(LARGEST, name)).status == 201
    assert raw.delete(f"/dbs/{name}").status == 204


def test_much_too_large_bodies(raw: RawClient, name: str) -> None:
    """The client has sent it all when it looks for the answer, and must still find it."""
    for size in (LARGEST + 70_000, 3 << 20):
        reply = raw.request("POST", "/dbs", padded(size, name))
        assert_refused(reply, 413, "RequestEntityTooLarge")
        assert raw.get("/").status == 200


class Wire:
    """A plain socket, for what no HTTP library would send."""

    def __init__(self, endpoint: str) -> None:
        target = urlsplit(endpoint)
        self.host = target.netloc
        self._socket = socket.create_connection((target.hostname, target.port), timeout=5)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def has_answer(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def finish(self) -> None:
        """No more will come."""
        self._socket.shutdown(socket.SHUT_WR)

    def reply(self, method: str = "GET") -> Reply | None:
        """The next response, or None if the connection was closed instead."""
        response = http.client.HTTPResponse(self._socket, method=method)
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, response.read())
        except (http.client.BadStatusLine, ConnectionError):
            return None
        finally:
            response.close()

    def close(self) -> None:
        self._socket.close()

    def head(self, method: str, path: str, *lines: bytes) -> bytes:
        """A signed request up to the empty line."""
        kind, link = signed_for(path)
        date = formatdate(usegmt=True)
        token = sign(WELL_KNOWN_KEY, method, kind, link, date)
        start = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nx-ms-date: {date}\r\n"
        text = f"{start}authorization: {token}\r\n".encode()
        return text + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


@pytest.fixture
def wire(endpoint: str) -> Iterator[Wire]:
    made = Wire(endpoint)
    yield made
    made.close()


def answer(wire: Wire) -> Reply:
    reply = wire.reply()
    assert reply is not None
    return reply


def chunks(body: bytes, size: int) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


@pytest.mark.parametrize("size", [LARGEST + 1, LARGEST + 70_000, 3 << 20])
def test_too_large_in_chunks(wire: Wire, size: int) -> None:
    wire.send(wire.head("POST", "/dbs", b"transfer-encoding: chunked"))
    with suppress(ConnectionError):  # it has heard enough
        wire.send(chunks(padded(size), 60_000) + b"0\r\n\r\n")
    assert_refused(answer(wire), 413, "RequestEntityTooLarge")


def test_endless_chunks(wire: Wire) -> None:
    """The answer comes before the end, which never comes."""
    wire.send(wire.head("POST", "/dbs", b"transfer-encoding: chunked"))
    with suppress(ConnectionError):
        for _ in range(2048):
            wire.send(chunks(b"x" * 65_536, 65_536))
            if wire.has_answer():
                break
    assert_refused(answer(wire), 413, "RequestEntityTooLarge")


def test_too_large_is_told_before_it_is_sent(wire: Wire) -> None:
    """This client waits for a word before it sends."""
    lines = (b"content-length: 9999999999", b"expect: 100-continue")
    wire.send(wire.head("POST", "/dbs", *lines))
    assert_refused(answer(wire), 413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("framing", "content"),
    [
        (b"content-length: 100", b'{"id":"%b"}'),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}\r\n"),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}\r\nzz\r\nnonsense\r\n0\r\n\r\n"),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}\r\n5\r\nab"),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}XX0\r\n\r\n"),
    ],
    ids=["short", "no last chunk", "bad chunk", "half a chunk", "no line end"],
)
def test_half_a_body_is_no_body(
    raw: RawClient, wire: Wire, name: str, framing: bytes, content: bytes
) -> None:
    """What was cut off must not be taken for the whole, even if it is JSON so far."""
    text = b'{"id":"%b"}' % name.encode()
    content = content.replace(b"%b", name.encode())
    content = content.replace(b"{size}", b"%x" % len(text)).replace(b"{text}", text)
    wire.send(wire.head("POST", "/dbs", framing) + content)
    wire.finish()
    reply = wire.reply()
    assert reply is None or 400 <= reply.status < 500
    assert raw.get(f"/dbs/{name}").status == 404


# Headers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [64 * 1024 + 1, 100_000, 300_000])
def test_headers_above_64_kilobytes(raw: RawClient, size: int) -> None:
    reply = raw.request("GET", "/", headers={"x-big": "a" * size})
    assert_refused(reply, 431, "RequestHeaderFieldsTooLarge")
    assert raw.get("/").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {f"x-{n}": "a" * 1000 for n in range(80)},
        {f"x-{n}-{'a' * 1000}": "a" for n in range(80)},
    ],
    ids=["values", "names"],
)
def test_headers_above_64_kilobytes_together(raw: RawClient, headers: dict[str, str]) -> None:
    reply = raw.request("GET", "/", headers=headers)
    assert_refused(reply, 431, "RequestHeaderFieldsTooLarge")


def test_headers_just_below(raw: RawClient) -> None:
    assert raw.request("GET", "/", headers={"x-big": "a" * 60_000}).status == 200


def test_many_headers(raw: RawClient) -> None:
    headers = {f"x-{n}": str(n) for n in range(80)}
    assert raw.request("GET", "/", headers=headers).status == 200


@pytest.mark.parametrize("count", [200, 2000])
def test_too_many_headers(raw: RawClient, count: int) -> None:
    """More than a hundred are refused by the listener itself, which has no words for it."""
    headers = {f"x-{n}": str(n) for n in range(count)}
    assert raw.request("GET", "/", headers=headers).status == 431


ODD = ["\xe9", "\xff\xfe", "é".encode().decode("latin-1"), "漢".encode().decode("latin-1")]


@pytest.mark.parametrize("value", ODD)
def test_headers_nobody_reads_may_hold_any_bytes(raw: RawClient, value: str) -> None:
    for name in ("x-unknown", "user-agent", "x-ms-client-id", "x-ms-activity-id"):
        reply = raw.request("GET", "/", headers={name: value})
        assert reply.status == 200
        assert reply.headers["x-ms-activity-id"]


@pytest.mark.parametrize("value", ODD)
def test_bytes_beyond_ascii_are_not_overlooked(raw: RawClient, container: str, value: str) -> None:
    """A condition, position or scope that cannot be read is not the same as none."""
    for method, path, header, status in (
        ("GET", "/dbs", "x-ms-max-item-count", 400),
        ("GET", "/dbs", "x-ms-continuation", 400),
        ("GET", f"{container}/docs", "x-ms-continuation", 400),
        ("GET", f"{container}/docs", "x-ms-session-token", 400),
        ("GET", f"{container}/docs", "x-ms-consistency-level", 400),
        ("GET", f"{container}/docs", "x-ms-documentdb-partitionkey", 400),
        ("GET", f"{container}/docs", "x-ms-documentdb-partitionkeyrangeid", 410),
        ("GET", container, "x-ms-cosmos-priority-level", 400),
        ("GET", container, "x-ms-cosmos-intended-collection-rid", 400),
        ("DELETE", container, "if-match", 412),
    ):
        reply = raw.request(method, path, headers={header: value})
        assert reply.status in (status, 400), header
        assert reply.json["message"]
    assert raw.get(container).status == 200


def test_bytes_beyond_ascii_beside_a_header_that_comes_twice(
    raw: RawClient, container: str, wire: Wire
) -> None:
    wire.send(wire.head("DELETE", container, b"if-match: \xff", b"x-any: 1", b"x-any: 2"))
    assert "if-match" in assert_refused(answer(wire), 400, "BadRequest")
    assert raw.get(container).status == 200


@pytest.mark.parametrize(
    "count",
    ["x", "0", "-2", "-1.0", "1.5", "1e1", "1_0", "0x1", "", " ", "--1", "null", "9" * 5000],
)
def test_item_counts(raw: RawClient, container: str, count: str) -> None:
    database = container.removesuffix("/colls/c")
    for path in ("/dbs", f"{database}/colls", "/offers", f"{container}/docs"):
        assert "x-ms-max-item-count" in bad(raw.get(path, count=count)), path
        assert "x-ms-max-item-count" in bad(raw.query(path, "SELECT * FROM c", count=count)), path


READS = [
    ("GET", "/dbs"),
    ("GET", "{database}"),
    ("GET", "{database}/colls"),
    ("GET", "{database}/colls/c"),
    ("GET", "{database}/colls/c/pkranges"),
    ("GET", "{database}/colls/c/docs"),
    ("GET", "{database}/colls/c/docs/1"),
    ("QUERY", "{database}/colls/c/docs"),
]


def read(raw: RawClient, container: str, method: str, path: str, headers: dict[str, str]) -> Reply:
    path = path.format(database=container.removesuffix("/colls/c"))
    if method == "QUERY":
        return raw.request("POST", path, {"query": "SELECT * FROM c"}, QUERY | headers)
    return raw.request("GET", path, headers=PK | headers)


@pytest.fixture
def stocked(raw: RawClient, container: str) -> str:
    """A container with one item."""
    assert raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]').status == 201
    return container


@pytest.fixture
def position(raw: RawClient, stocked: str) -> int:
    """How far the container's only range has come."""
    token = raw.get(f"{stocked}/docs/1", pk='["a"]').headers["x-ms-session-token"]
    return int(token.partition("#")[2])


@pytest.mark.parametrize(("method", "path"), READS)
def test_consistency_levels(raw: RawClient, stocked: str, method: str, path: str) -> None:
    """The account's or a weaker one; a stronger one, or none at all, is refused."""
    name = "x-ms-consistency-level"
    for level in ("Session", "ConsistentPrefix", "Eventual", "session"):
        assert read(raw, stocked, method, path, {name: level}).status == 200
    for level in ("Strong", "BoundedStaleness", "strong", "Weak", "5", ""):
        bad(read(raw, stocked, method, path, {name: level}))


@pytest.mark.parametrize(("method", "path"), READS)
def test_priority_levels(raw: RawClient, stocked: str, method: str, path: str) -> None:
    name = "x-ms-cosmos-priority-level"
    for level in ("High", "Low"):
        assert read(raw, stocked, method, path, {name: level}).status == 200
    for level in ("Medium", "", "1", "HighLow"):
        bad(read(raw, stocked, method, path, {name: level}))


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "0",
        "0:",
        "0:1",
        "0:12",
        ":1#2",
        "0:-1#",
        "0:#1",
        "0:-1#x",
        "x:-1#1",
        "0:-1#1.5",
        "0:-1#-1",
        "0:-1#0x1",
        "0:-1#1#",
        "0:-1#1#2",
        "0:-1#1#2=x",
        "0:-1#0,",
        "0:-1#0,x",
        "0:-1#0;1:-1#0",
        "{}",
    ],
)
def test_session_tokens_that_are_none(raw: RawClient, stocked: str, token: str) -> None:
    for method, path in READS[-3:]:
        bad(read(raw, stocked, method, path, {"x-ms-session-token": token}))


@pytest.mark.parametrize(
    "token", ["0:-1#{next}", "0:-1#{now},0:-1#{next}", "0:5#{next}#1=9", "0:-1#99999999"]
)
def test_session_tokens_from_the_future(
    raw: RawClient, stocked: str, position: int, token: str
) -> None:
    headers = {"x-ms-session-token": token.format(now=position, next=position + 1)}
    for method, path in READS[-3:]:
        reply = read(raw, stocked, method, path, headers)
        message = assert_refused(reply, 404, "NotFound", 1002)
        text = "The read session is not available for the input session token."
        assert message.startswith(text)


def test_session_tokens_with_absurd_numbers(raw: RawClient, stocked: str) -> None:
    for token in (f"0:-1#{'9' * 30}", f"0:-1#{'9' * 5000}", f"{'9' * 5000}:-1#1"):
        for method, path in READS[-3:]:
            reply = read(raw, stocked, method, path, {"x-ms-session-token": token})
            assert reply.status in (400, 404)


@pytest.mark.parametrize(
    "token", ["", "0:-1#0", "0:-1#{now}", "0:-1#{now},0:-1#0", "0:-1#{now}#3=1"]
)
def test_session_tokens_of_the_past(
    raw: RawClient, stocked: str, position: int, token: str
) -> None:
    headers = {"x-ms-session-token": token.format(now=position)}
    for method, path in READS[-3:]:
        assert read(raw, stocked, method, path, headers).status == 200


def test_sessions_are_no_matter_of_metadata(raw: RawClient, stocked: str) -> None:
    for method, path in READS[:-3]:
        for token in ("x", "0:-1#999"):
            headers = {"x-ms-session-token": token}
            assert read(raw, stocked, method, path, headers).status == 200


# Paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/dbs/%", "/dbs/%2", "/dbs/%zz", "/dbs/a%", "/dbs/%ff", "/dbs/%c3%28", "/dbs/%ed%a0%80", "/%"],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_broken_percent_encoding(open_server: RawClient, path: str, method: str) -> None:
    reply = open_server.request(method, path, raw_path=path)
    assert reply.status in (400, 404)
    assert list(reply.json) == ["code", "message"]
    assert open_server.get("/").status == 200


def test_names_with_encoded_slashes(raw: RawClient, database: str) -> None:
    """A slash in a name is no way into another path."""
    name = database[5:]
    for path in (f"/dbs%2F{name}", f"/dbs/{name}%2Fcolls", f"/%2Fdbs/{name}"):
        assert raw.request("DELETE", path, raw_path=path).status in (400, 401, 404, 405)
    assert raw.get(database).status == 200


# Anything at all ---------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["d", "c", "1", "x", "", "..", "%", "%zz", "%ff", "a%2Fb", "é", " ", "AQ=="]
)
STEPS = st.sampled_from(["dbs", "colls", "docs", "pkranges", "offers", "_perseid", "nowhere"])
SAFE = "/%?=&+;,:@!$*'()~._-"
PATHS = st.one_of(
    st.tuples(STEPS, NAMES, STEPS, NAMES, STEPS, NAMES).flatmap(
        lambda parts: st.integers(0, 6).map(lambda count: "/" + "/".join(parts[:count]))
    ),
    st.sampled_from(["/dbs", "/dbs/d", "/dbs/d/colls", "/dbs/d/colls/c", "/dbs/d/colls/c/docs"]),
    st.text(st.sampled_from([*SAFE, *"dbscolldocs019zZ"]), max_size=30).map(
        lambda text: f"/{text}"
    ),
)
METHODS = st.sampled_from(["GET", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
HEADERS = st.sampled_from([
    "a-im", "authorization", "content-type", "if-match", "if-modified-since", "if-none-match",
    "prefer", "x-ms-activity-id", "x-ms-consistency-level", "x-ms-continuation",
    "x-ms-cosmos-allow-tentative-writes", "x-ms-cosmos-batch-atomic",
    "x-ms-cosmos-batch-continue-on-error", "x-ms-cosmos-intended-collection-rid",
    "x-ms-cosmos-is-batch-request", "x-ms-cosmos-is-query-plan-request",
    "x-ms-cosmos-migrate-offer-to-autopilot", "x-ms-cosmos-offer-autopilot-settings",
    "x-ms-cosmos-priority-level", "x-ms-cosmos-supported-query-features",
    "x-ms-cosmos-throughput-bucket", "x-ms-date", "x-ms-documentdb-expiry-seconds",
    "x-ms-documentdb-is-upsert", "x-ms-documentdb-isquery", "x-ms-documentdb-partitionkey",
    "x-ms-documentdb-partitionkeyrangeid", "x-ms-documentdb-populatequotainfo",
    "x-ms-documentdb-query-enablecrosspartition", "x-ms-documentdb-populatequerymetrics",
    "x-ms-documentdb-responsecontinuationtokenlimitinkb", "x-ms-end-epk",
    "x-ms-indexing-directive", "x-ms-max-item-count", "x-ms-offer-throughput",
    "x-ms-read-key-type", "x-ms-session-token", "x-ms-start-epk", "x-ms-version",
])  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["true", "True", "false", "*", '"x"', '["a"]', "[{}]", "[]", "[null]",
                     "[1e999]", "0", "1", "-1", "400", "0:-1#0", "0:-1#9", "FF", "ff0",
                     "Incremental Feed", "Full-Fidelity Feed", "EffectivePartitionKeyRange",
                     "application/query+json",
                     '{"maxThroughput":4000}', "Sun, 06 Nov 1994 08:49:37 GMT", "return=minimal"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"),
            max_size=40),
)  # fmt: skip
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["/pk", "/*", "d", "c", "Hash", "none", "SELECT * FROM c", "@p"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from([
                "id", "pk", "paths", "kind", "version", "partitionKey", "indexingPolicy", "ttl",
                "indexingMode", "includedPaths", "excludedPaths", "path", "defaultTtl", "query",
                "uniqueKeyPolicy", "uniqueKeys", "parameters", "name", "value", "content",
                "offerThroughput", "operations", "op", "condition", "operationType",
                "resourceBody", "computedProperties", "vectorEmbeddingPolicy", "_rid", "_ts",
                "compositeIndexes", "spatialIndexes", "vectorIndexes", "fullTextPolicy",
            ]),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=20,
)  # fmt: skip
CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")),
)


def assert_answered(reply: Reply) -> None:
    assert 200 <= reply.status < 500
    assert re.fullmatch(r"[!-~\x80-\xff]+", reply.headers["x-ms-activity-id"])
    if reply.status in (204, 304):
        assert reply.body == b""
    if reply.status >= 400:
        assert reply.headers["content-type"] == "application/json"
        assert isinstance(reply.json["code"], str)
        assert reply.json["code"]
        assert reply.json["message"]


def ask_once(
    server: RawClient, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> Reply:
    """On a connection of its own, so that no request suffers for another."""
    client = RawClient(server.endpoint)
    try:
        return client.request(method, "/", body, headers, raw_path=path)
    finally:
        client.close()


@hypothesis.settings(max_examples=200, deadline=None, database=None, derandomize=True)
@hypothesis.given(
    method=METHODS,
    path=PATHS,
    headers=st.dictionaries(HEADERS, VALUES, max_size=5),
    body=CONTENTS,
)
def test_random_requests(
    open_server: RawClient, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> None:
    wire = path.encode("utf-8").decode("latin-1")
    wire = "".join(c if "!" <= c <= "~" else f"%{ord(c):02X}" for c in wire)
    assert_answered(ask_once(open_server, method, wire, headers, body))


@hypothesis.settings(max_examples=200, deadline=None, database=None, derandomize=True)
@hypothesis.given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    path=st.sampled_from(
        ["/dbs", "/dbs/d", "/dbs/d/colls", "/dbs/d/colls/c", "/dbs/d/colls/c/docs",
         "/dbs/d/colls/c/docs/1", "/dbs/d/colls/c/pkranges", "/offers", "/offers/AAAB"]
    ),
    headers=st.dictionaries(HEADERS.filter(lambda h: h != "x-ms-date"), VALUES, max_size=4),
    body=CONTENTS,
)  # fmt: skip
def test_random_requests_to_what_exists(
    open_server: RawClient, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> None:
    open_server.post("/dbs", {"id": "d"})
    open_server.post("/dbs/d/colls", {"id": "c", "partitionKey": KEY})
    open_server.post("/dbs/d/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert_answered(ask_once(open_server, method, path, headers, body))


@hypothesis.settings(max_examples=100, deadline=None, database=None, derandomize=True)
@hypothesis.given(
    token=st.one_of(VALUES, VALUES.map(lambda text: f"type=master&ver=1.0&sig={text}")),
    date=VALUES,
)
def test_random_signatures(endpoint: str, token: str, date: str) -> None:
    client = RawClient(endpoint)
    headers = {"authorization": token, "x-ms-date": date}
    reply = client.request("GET", "/dbs", headers=headers, sign_with=None)
    client.close()
    assert reply.status == 401
    assert reply.json["code"] == "Unauthorized"


def test_the_account_works_after_all_this(open_server: RawClient, name: str) -> None:
    path = f"/dbs/{name}"
    assert open_server.get("/").status == 200
    assert open_server.post("/dbs", {"id": name}).status == 201
    assert open_server.post(f"{path}/colls", {"id": "c", "partitionKey": KEY}).status == 201
    made = open_server.post(f"{path}/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert made.status == 201
    assert open_server.get(f"{path}/colls/c/docs/1", pk='["a"]').json == made.json
    assert open_server.delete(path).status == 204
    assert open_server.get("/dbs").status == 200
