"""Random requests over all routes: methods, paths, headers and bodies, signed and unsigned."""

from __future__ import annotations

import functools
import json
import time
from random import Random
from typing import Any, Final

from perseid.http import headers as known_headers
from perseid.http.admin import routes as admin
from perseid.http.routes import ROUTES
from tests.hostile.attack import PK, QUERY, READ_ONLY_KEY, Attack, Attacker, Scenario
from tests.query.malformed import mutations
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient

ECHO: Final = 8000  # characters of a header; what clients send must not come back at any length
METHODS: Final[tuple[str, ...]] = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "QUERY",
)
# Names that requests are about; the database of the probe is not among them.
NAMES: Final = (
    *("fuzz", "c", "1", "2", "s", "u", "p"),
    *("*", "**", "..", ".", "%", "%2f", "%00", "%ff", "a%2Fb", "é", "\u2028", "'", '"', "\\", " "),
    *("x" * 256, "x" * 5000, "0", "-1", "AAAAAA==", "1e400", "null", "undefined", "docs", "dbs"),
)
HEADER_VALUES: Final = (
    *("", " ", "true", "false", "True", "1", "0", "-1", "1e9", "99999999999999999999", "nan"),
    *('["a"]', "[]", "[[]]", '[{"a":1}]', '["a","b","c","d"]', "[null]", "[" * 5000, '["\\ud800"]'),
    *('"etag"', "*", "W/", "0:1#2", "0:-1#-1", "Incremental Feed", "Full-Fidelity Feed", "\xff"),
    *("application/query+json", "text/html", "gzip", "é".encode().decode("latin-1"), "x" * 20_000),
)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 2**31, 2**63, 1e308, "", "x" * 3000, "\x00", "\ud7ff", [], {}, [[]]),
    *({"$": 1}, [None] * 100, "/a/b", "//", "function () {}", "SELECT * FROM c", -0.5),
)
RAW_BODIES: Final = (
    *(b"", b" ", b"{", b"}", b"[", b"null", b"[]", b"{}", b'"', b"\xff\xfe", b"\x00" * 100),
    *(b"[" * 10_000, b'{"a":' * 10_000, b'{"id":"\\ud800"}', b"1" * 5000, b'{"n":1e999}'),
    *(b'{"id":1,"id":2}', b"\n" * 5000, b"-" * 5000, b'{"n":' + b"9" * 5000 + b"}"),
)
QUERIES: Final = (
    "SELECT VALUE " + "9" * 4301,
    "SELECT VALUE 1e" + "9" * 400,
    "SELECT * FROM c WHERE " + "NOT " * 3000 + "true",
    "SELECT VALUE " + "(" * 3000 + "1" + ")" * 3000,
    "SELECT " + ", ".join(f"c.a AS x{number}" for number in range(2000)) + " FROM c",
    "SELECT * FROM c WHERE c.id IN (" + ",".join(map(str, range(5000))) + ")",
    "SELECT * FROM c WHERE REGEXMATCH(c.id, '(a+)+$')",
    "SELECT VALUE REPLICATE('a', 10001)",
    "SELECT * FROM c ORDER BY c.a, c.b DESC OFFSET 99999999999 LIMIT 99999999999",
)
CONDITIONS: Final = ("from c where c.id = '1'", "from c where " + "9" * 4301, "from", "where 1")


def _templates() -> list[Any]:
    item = {"id": "1", "pk": "a", "n": 1, "ttl": 60}
    operations = [
        {"op": name, "path": path, "value": 1, "from": "/n"}
        for name in ("set", "add", "remove", "incr", "replace", "move", "x")
        for path in ("/n", "/x/y", "/", "", "/pk", "/a/0")
    ]
    return [
        item,
        {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": 60},
        {"id": "c", "partitionKey": PARTITION_KEY, "indexingPolicy": {"indexingMode": "none"}},
        {"id": "c", "partitionKey": PARTITION_KEY, "computedProperties": [
            {"name": "x", "query": "SELECT VALUE " + "9" * 4301},
        ]},
        {"operations": operations[:10], "condition": "from c where c.n > 0"},
        [{"operationType": "Upsert", "resourceBody": item}, {"operationType": "Read", "id": "1"}],
        {"id": "p", "permissionMode": "All", "resource": "dbs/fuzz/colls/c"},
        {"id": "s", "body": "function () {}", "triggerType": "Pre", "triggerOperation": "All"},
        {"seconds": 1, "to": 1, "pace": 0.5},
        {"defaultTtl": 1, "purgeHoldSeconds": 1, "guard": "10%"},
        {"database": "fuzz", "container": "c", "query": "SELECT * FROM c", "analyze": True},
        {"id": "1", "partitionKey": ["a"], "ttl": 1},
        {"content": {"offerThroughput": 400}, "offerVersion": "V2"},
    ]  # fmt: skip


TEMPLATES: Final = _templates()
# Those of the framing are left out: tests/wire/bad_requests is about them.
HEADERS: Final = tuple(
    sorted(
        value
        for name, value in vars(known_headers).items()
        if name.isupper()
        and isinstance(value, str)
        and value.isascii()
        and " " not in value
        and value not in ("content-length", "transfer-encoding", "connection", "host")
    )
)


@functools.cache
def _malformed() -> list[str]:
    return mutations(2000)


def _target(chance: Random) -> tuple[str, str]:
    """Method and path; most methods are those of the route."""
    kind = chance.random()
    methods = METHODS
    if kind < 0.65:
        names, has_id = shape = chance.choice(list(ROUTES))
        parts = [part for name in names for part in (name, _name(chance, name))]
        path = "/" + "/".join(parts if has_id else parts[:-1])
        methods = tuple(verb if verb.isupper() else "POST" for verb in ROUTES[shape])
    elif kind < 0.85:
        name = chance.choice(list(admin.ROUTES))
        methods = tuple(admin.ROUTES[name])
        path = admin.PREFIX + _filled(chance, name)
    elif kind < 0.92:
        names_of_files = ("", "app.js", "../app.js", "..%2f", "%00", "views")
        path = "/_explorer/" + chance.choice(names_of_files)
    else:
        path = "/" + "/".join(chance.choice(NAMES) for _ in range(chance.randrange(7)))
    return chance.choice(methods if chance.random() < 0.85 else METHODS), path


def _filled(chance: Random, name: str) -> str:
    """The path of an administration route with names of a database and a container."""
    names = iter(
        chance.choice((("fuzz", "c"), ("fuzz", "c"), ("*", "*"), ("x", "c"), ("fuzz", "")))
    )
    return "/".join(next(names) if part == "*" else part for part in name.split("/"))


def _name(chance: Random, kind: str) -> str:
    usual = {"dbs": "fuzz", "colls": "c", "docs": "1", "users": "u", "permissions": "p"}
    return usual.get(kind, "s") if chance.random() < 0.8 else chance.choice(NAMES)


def _mutated(chance: Random, value: Any, depth: int = 0) -> Any:
    """The value with some of its parts replaced, repeated or left out."""
    if chance.random() < 0.12 or depth > 6:
        return chance.choice(VALUES)
    if isinstance(value, dict):
        kept = {name: part for name, part in value.items() if chance.random() > 0.08}
        return {name: _mutated(chance, part, depth + 1) for name, part in kept.items()}
    if isinstance(value, list):
        repeated = value * chance.choice((1, 1, 1, 0, 2, 60))
        return [_mutated(chance, part, depth + 1) for part in repeated[:120]]
    return value


def _body(chance: Random, headers: dict[str, str]) -> Any:
    kind = chance.random()
    if kind < 0.1:
        return None
    if kind < 0.2:
        return chance.choice(RAW_BODIES)
    if kind < 0.5:
        if chance.random() < 0.9:
            headers |= QUERY
        if chance.random() < 0.2:
            headers["x-ms-cosmos-is-query-plan-request"] = "true"
        text = chance.choice(QUERIES) if chance.random() < 0.1 else chance.choice(_malformed())
        return {"query": text, "parameters": _mutated(chance, [{"name": "@p", "value": 1}])}
    body = _mutated(chance, chance.choice(TEMPLATES))
    if isinstance(body, dict) and "operations" in body:
        body["condition"] = chance.choice(CONDITIONS)
    content = json.dumps(body).encode()
    if chance.random() < 0.1:
        content = content[: chance.randrange(len(content) + 1)]
    return content


def _headers(chance: Random) -> dict[str, str]:
    headers = dict(PK) if chance.random() < 0.7 else {}
    for _ in range(chance.choice((0, 0, 1, 1, 2, 4))):
        headers[chance.choice(HEADERS)] = chance.choice(HEADER_VALUES)
    return headers


def _signature(chance: Random) -> dict[str, Any]:
    kind = chance.random()
    if kind < 0.8:
        return {}
    if kind < 0.87:
        return {"sign_with": None}
    if kind < 0.94:
        return {"sign_with": READ_ONLY_KEY}
    return {"token": chance.choice(("", "type=resource&ver=1&sig=x", "x" * 5000, "type=aad"))}


def _prepare(raw: RawClient, container: str) -> None:
    raw.post("/dbs", {"id": "fuzz"})  # 409 if another attacker was first
    raw.post("/dbs/fuzz/colls", {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": -1})
    raw.post("/dbs/fuzz/colls/c/docs", {"id": "1", "pk": "a", "a": [1, 2]}, pk='["a"]')
    raw.post("/dbs/fuzz/users", {"id": "u"})


def _fuzz(attack: Attack) -> None:
    def work(attacker: Attacker, number: int) -> None:
        chance = attack.chance(number * 1_000_000 + time.monotonic_ns() % 1_000_000)
        for _ in range(200):
            if attack.is_over:
                return
            headers = _headers(chance)
            body = _body(chance, headers)
            method, path = _target(chance)
            try:
                reply = attacker.send(method, path, body, headers, **_signature(chance))
            except (ValueError, UnicodeError):  # the client's library does not send it
                continue
            if reply is not None and any(len(each) > ECHO for each in reply.headers.values()):
                attack.tally.fail("long header in an answer", f"{method} {path} {headers}"[:500])
        _prepare(attacker.raw, attack.container)  # what the requests have deleted

    attack.swarm(2, work)


FUZZ: Final = (
    Scenario(
        "fuzz",
        "random methods, paths, headers and bodies over all routes, signed and unsigned",
        _fuzz,
        _prepare,
        share=3.0,
    ),
)
