"""What a resource token opens: every route with every kind of token, then the finer points."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from perseid.clock import MovableClock
from perseid.http.admin import routes as admin
from perseid.http.routes import ROUTES
from perseid.partition import effective, parse_definition, point_interval, prefix_interval
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply

PK = "x-ms-documentdb-partitionkey"
SOURCE = {"body": "function () {}", "triggerType": "Pre", "triggerOperation": "All"}
INSUFFICIENT = "Insufficient permissions provided in the authorization header"

Shape = tuple[tuple[str, ...], bool]


class Sample(NamedTuple):
    """A request for a route, and the status it gets from one who may do everything."""

    method: str
    status: int
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012  (never changed)


QUERY = {
    "x-ms-documentdb-isquery": "true",
    "x-ms-documentdb-query-enablecrosspartition": "true",
    "content-type": "application/query+json",
}
PLAN = {"x-ms-cosmos-is-query-plan-request": "true"}
BATCH = {"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true"}
UPSERT = {"x-ms-documentdb-is-upsert": "true"}
SELECT = {"query": "SELECT * FROM c"}
ITEM = {"id": "i", "pk": "a", "n": 2}
NEW = {"id": "new", "pk": "a"}
CREATES = [{"operationType": "Create", "resourceBody": NEW}]
PATCHES = {"operations": [{"op": "set", "path": "/n", "value": 3}]}
PERMISSION = {"id": "new", "permissionMode": "All", "resource": "dbs/x/colls/new"}


def lists(body: dict[str, Any], *, can_upsert: bool = True) -> dict[str, Sample]:
    """A list of resources of which `body` is a new one."""
    samples = {
        "GET": Sample("GET", 200),
        "query": Sample("POST", 200, SELECT, QUERY),
        "create": Sample("POST", 201, body),
    }
    return samples | ({"upsert": Sample("POST", 201, body, UPSERT)} if can_upsert else {})


def one(body: dict[str, Any] | None = None) -> dict[str, Sample]:
    """A resource that may be replaced with `body`."""
    samples = {"GET": Sample("GET", 200), "DELETE": Sample("DELETE", 204)}
    return samples | ({} if body is None else {"PUT": Sample("PUT", 200, body)})


SCRIPT = {"id": "s", **SOURCE}
NEW_SCRIPT = {"id": "new", **SOURCE}
SAMPLES: dict[Shape, dict[str, Sample]] = {
    (("dbs",), False): lists({"id": "never"}, can_upsert=False),
    (("dbs",), True): one(),
    (("dbs", "colls"), False): lists(
        {"id": "new", "partitionKey": PARTITION_KEY}, can_upsert=False
    ),
    (("dbs", "colls"), True): one({"id": "c", "partitionKey": PARTITION_KEY}),
    (("dbs", "colls", "docs"), False): {
        **lists(NEW),
        "plan": Sample("POST", 200, SELECT, PLAN),
        "batch": Sample("POST", 200, CREATES, BATCH),
    },
    (("dbs", "colls", "docs"), True): {**one(ITEM), "PATCH": Sample("PATCH", 200, PATCHES)},
    (("dbs", "colls", "pkranges"), False): {"GET": Sample("GET", 200)},
    (("dbs", "colls", "operations"), True): {"POST": Sample("POST", 200)},
    (("dbs", "colls", "sprocs"), False): lists(NEW_SCRIPT),
    (("dbs", "colls", "sprocs"), True): {**one(SCRIPT), "POST": Sample("POST", 400, [])},
    (("dbs", "colls", "triggers"), False): lists(NEW_SCRIPT),
    (("dbs", "colls", "triggers"), True): one(SCRIPT),
    (("dbs", "colls", "udfs"), False): lists(NEW_SCRIPT),
    (("dbs", "colls", "udfs"), True): one(SCRIPT),
    (("dbs", "colls", "conflicts"), False): {
        "GET": Sample("GET", 200),
        "query": Sample("POST", 200, SELECT, QUERY),
    },
    (("dbs", "colls", "conflicts"), True): {
        "GET": Sample("GET", 404),
        "DELETE": Sample("DELETE", 404),
    },
    (("dbs", "users"), False): lists({"id": "new"}),
    (("dbs", "users"), True): one({"id": "u"}),
    (("dbs", "users", "permissions"), False): lists(PERMISSION),
    (("dbs", "users", "permissions"), True): one(PERMISSION),
    (("dbs", "clientencryptionkeys"), False): lists({"id": "new"}, can_upsert=False),
    (("dbs", "clientencryptionkeys"), True): one({"id": "k"}),
    (("offers",), False): {"GET": Sample("GET", 200), "query": Sample("POST", 200, SELECT, QUERY)},
    (("offers",), True): {"GET": Sample("GET", 200), "PUT": Sample("PUT", 200)},
}
IDS = {
    "colls": "c", "docs": "i", "operations": "partitionkeydelete", "sprocs": "s", "triggers": "s",
    "udfs": "s", "conflicts": "x", "pkranges": "0", "users": "u", "permissions": "p",
    "clientencryptionkeys": "k",
}  # fmt: skip
ITEM_SHAPE: Shape = (("dbs", "colls", "docs"), True)
CONTAINER_SHAPE: Shape = (("dbs", "colls"), True)
# Needed to reach anything in a container, so every token for something in it opens them.
DEFINITIONS = ((CONTAINER_SHAPE, "GET"), ((("dbs", "colls", "pkranges"), False), "GET"))


@dataclass(frozen=True)
class World:
    """A database with one of everything."""

    raw: RawClient
    database: str

    @property
    def container(self) -> str:
        return f"{self.database}/colls/c"

    def make(self) -> None:
        raw = self.raw
        for path, body in (
            ("/dbs", {"id": self.database.removeprefix("/dbs/")}),
            (f"{self.database}/colls", {"id": "other", "partitionKey": PARTITION_KEY}),
            (f"{self.database}/colls", {"id": "c", "partitionKey": PARTITION_KEY}),
            (f"{self.database}/users", {"id": "u"}),
            (f"{self.database}/users/u/permissions", PERMISSION | {"id": "p"}),
            (f"{self.container}/sprocs", SCRIPT),
            (f"{self.container}/triggers", SCRIPT),
            (f"{self.container}/udfs", SCRIPT),
        ):
            assert raw.post(path, body).status == 201
        self.put({"id": "i", "pk": "a"})

    def put(self, item: dict[str, Any]) -> dict[str, Any]:
        """Stores an item in the container."""
        reply = self.raw.post(f"{self.container}/docs", item, upsert="true")
        assert reply.status in (200, 201), reply
        stored: dict[str, Any] = reply.json
        return stored

    def grant(self, resource: str, mode: str, key: list[Any] | None = None, **sent: str) -> str:
        """A token for a permission of a user of its own."""
        users = f"{self.database}/users"
        user = f"u{self.raw.get(users).json['_count']}"
        assert self.raw.post(users, {"id": user}).status == 201
        body = {"id": "p", "permissionMode": mode, "resource": resource}
        if key is not None:
            body["resourcePartitionKey"] = key  # type: ignore[assignment]
        reply = self.raw.post(f"{users}/{user}/permissions", body, **sent)
        assert reply.status == 201, reply
        token: str = reply.json["_token"]
        return token

    def token(self, kind: str, clock: MovableClock) -> str | None:
        """A token of one of KINDS."""
        match kind:
            case "none":
                return None
            case "read" | "all":
                return self.grant(self.container, kind)
            case "other container":
                return self.grant(f"{self.database}/colls/other", "All")
            case "own key" | "other key":
                return self.grant(self.container, "All", ["a" if kind == "own key" else "b"])
            case "item":
                return self.grant(f"{self.container}/docs/i", "All")
            case "tampered":
                token = self.grant(self.container, "All")
                middle = len(token) - 20
                return token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]
            case "expired":
                token = self.grant(self.container, "All", expiry="10")
                clock.advance(10)
                return token
            case _:  # revoked
                token = self.grant(self.container, "All")
                user = self.raw.get(f"{self.database}/users").json["Users"][-1]["id"]
                assert self.raw.delete(f"{self.database}/users/{user}").status == 204
                return token

    def path(self, shape: Shape) -> str:
        feeds, is_one = shape
        if feeds == ("offers",):
            offers = self.raw.get("/offers").json["Offers"]
            return f"/offers/{offers[-1]['_rid']}" if is_one else "/offers"
        ids = {**IDS, "dbs": self.database.removeprefix("/dbs/")}
        parts = [part for feed in feeds for part in (feed, ids[feed])]
        return "/" + "/".join(parts if is_one else parts[:-1])

    def send(self, shape: Shape, sample: Sample, token: str | None) -> Reply:
        path, body, headers = self.path(shape), sample.body, sample.headers
        if shape == (("offers",), True) and sample.method == "PUT":
            body = self.raw.get(path).json
        if shape[0][:2] == ("dbs", "colls"):
            headers = {PK: '["a"]'} | headers
        return self.raw.request(sample.method, path, body, headers, token=token, sign_with=None)

    def state(self) -> list[Any]:
        """All that a refused request might have changed."""
        feeds = ("colls", "colls/c/docs", "colls/c/sprocs", "colls/c/triggers", "colls/c/udfs")
        paths = ["/dbs", *(f"{self.database}/{feed}" for feed in feeds)]
        bodies = [self.raw.get(path).json for path in paths]
        return [*bodies, self.raw.get(f"{self.database}/users/u").json]


@pytest.fixture
def world(raw: RawClient, name: str) -> Iterator[World]:
    made = World(raw, f"/dbs/{name}")
    made.make()
    yield made
    raw.delete(made.database)


KINDS = (
    "none", "read", "all", "other container", "own key", "other key", "item", "tampered",
    "expired", "revoked",
)  # fmt: skip
VERBS = [(shape, verb) for shape, routes in ROUTES.items() for verb in routes]


def expected(kind: str, shape: Shape, verb: str) -> int | None:
    """The status a token must get; None if the request is let through."""
    feeds, _ = shape
    is_read = verb in ("GET", "query", "plan")
    is_inside = feeds[:2] == ("dbs", "colls") and shape != (("dbs", "colls"), False)
    is_definition = (shape, verb) in DEFINITIONS
    # About items, so that it can be confined to a key; a plan looks at none.
    is_keyed = feeds[2:] in (("docs",), ("conflicts",), ("operations",)) or verb == "POST"
    allowed = {
        "read": is_inside and is_read,
        "all": is_inside,
        "own key": is_inside and (is_keyed or is_definition),
        "other key": is_inside and (is_definition or verb == "plan"),
        "item": is_definition or shape == ITEM_SHAPE,
        "other container": False,
    }
    if kind not in allowed:
        return 401
    return None if allowed[kind] else 403


@pytest.mark.parametrize(
    ("shape", "verb"), VERBS, ids=[f"{'/'.join(s[0])}{'/x' * s[1]}-{v}" for s, v in VERBS]
)
def test_every_route_with_every_kind_of_token(
    world: World, clock: MovableClock, shape: Shape, verb: str
) -> None:
    sample = SAMPLES[shape][verb]  # a new route needs a row in the table
    before = world.state()
    statuses = {}
    for kind in KINDS:
        status = expected(kind, shape, verb)
        if status is not None:
            token = world.token(kind, clock)
            reply = world.send(shape, sample, token)
            statuses[kind] = reply.status
            assert reply.status == status, (kind, reply)
            code = {401: "Unauthorized", 403: "Forbidden"}[status]
            assert reply.json["code"] == code
            if status == 403:
                assert INSUFFICIENT in reply.json["message"]
    assert world.state() == before
    assert {"none", "tampered", "expired", "revoked"} <= set(statuses)
    for kind in KINDS:
        if expected(kind, shape, verb) is None:
            again = World(world.raw, f"{world.database}-{kind.replace(' ', '-')}")
            again.make()
            reply = again.send(shape, sample, again.token(kind, clock))
            assert reply.status == sample.status, (kind, reply)
            world.raw.delete(again.database)


def test_the_account_takes_any_good_token(world: World, clock: MovableClock) -> None:
    """Clients read it first, with the first token they hold."""
    for kind in KINDS:
        token = world.token(kind, clock)
        reply = world.raw.request("GET", "/", token=token, sign_with=None)
        assert reply.status == (401 if kind in ("none", "tampered", "expired", "revoked") else 200)


def test_administration_takes_no_token(world: World, clock: MovableClock) -> None:
    token = world.token("all", clock)
    for name, methods in admin.ROUTES.items():
        if name not in admin.UNSIGNED_ROUTES:
            path = admin.PREFIX + name.replace("*/*", world.container[5:].replace("/colls", ""))
            for method in methods:
                reply = world.raw.request(method, path, {}, token=token)
                assert (reply.status, reply.json["code"]) == (403, "Forbidden"), path


@pytest.mark.parametrize(
    "header",
    [
        "type=resource&ver=1&sig=",
        "type=resource&ver=1",
        "type=resource",
        "type=resource&ver=1&sig=%%%",
        "type=resource&ver=1&sig=AAAA",
        "type=resource&ver=1&sig=" + "A" * 400,
        "type%3Dresource%26ver%3D1%26sig%3D",
        "type=resource&ver=1&sig=é",
    ],
)
def test_malformed_tokens(world: World, header: str) -> None:
    sent = {"authorization": header.encode().decode("latin-1")}
    reply = world.raw.request("GET", world.container, headers=sent, sign_with=None)
    assert (reply.status, reply.json["code"]) == (401, "Unauthorized")


def test_every_part_of_a_token_is_signed(world: World) -> None:
    token = world.grant(world.container, "Read")
    start = token.index("sig=") + 4
    for position in range(start, len(token), 7):
        other = "x" if token[position] != "x" else "y"
        forged = token[:position] + other + token[position + 1 :]
        assert world.raw.request("GET", world.container, token=forged).status == 401, position
    continued = world.raw.get(f"{world.database}/colls", count="1").headers["x-ms-continuation"]
    fake = f"type=resource&ver=1&sig={continued}"
    assert world.raw.request("GET", world.container, token=fake).status == 401


def test_tokens_may_be_sent_without_encoding_and_without_a_date(world: World) -> None:
    token = world.grant(world.container, "Read")
    for header in (token, token.replace("=", "%3d").replace("&", "%26")):
        sent = {"authorization": header, "x-ms-date": ""}
        reply = world.raw.request("GET", world.container, headers=sent, sign_with=None)
        assert reply.status == 200


def test_names_and_rids_mean_the_same(world: World) -> None:
    """Whichever of the two the permission and the request use."""
    raw = world.raw
    link = raw.get(world.container).json["_self"]
    item = world.put({"id": "i", "pk": "a"})
    sent = {PK: '["a"]'}
    for resource in (world.container, link):
        token = world.grant(resource, "Read")
        for path in (world.container, f"/{link}"):
            assert raw.request("GET", path, token=token).status == 200
            assert raw.request("GET", f"{path.rstrip('/')}/docs", token=token).status == 200
    for resource in (f"{world.container}/docs/i", item["_self"]):
        token = world.grant(resource, "Read")
        for path in (f"{world.container}/docs/i", f"/{item['_self']}", f"/{link}docs/i"):
            reply = raw.request("GET", path, headers=sent, token=token)
            assert (reply.status, reply.json["id"]) == (200, "i")


def test_an_item_token_opens_one_item(world: World) -> None:
    """An id in any partition, if the permission names it by id; the very item, if by rid."""
    raw = world.raw
    item = world.put({"id": "i", "pk": "a"})
    twin = world.put({"id": "i", "pk": "b"})
    other = world.put({"id": "j", "pk": "a"})
    by_rid = world.grant(item["_self"], "All")
    by_id = world.grant(f"{world.container}/docs/i", "All")
    by_key = world.grant(f"{world.container}/docs/i", "All", ["b"])

    def status(token: str, path: str, key: str) -> int:
        return raw.request("GET", path, headers={PK: json.dumps([key])}, token=token).status

    docs = f"{world.container}/docs"
    assert status(by_rid, f"{docs}/i", "a") == 200
    assert status(by_rid, f"{docs}/i", "b") == 403
    assert status(by_rid, f"/{twin['_self']}", "b") == 403
    assert status(by_rid, f"{docs}/j", "a") == 403
    assert status(by_id, f"{docs}/i", "a") == 200
    assert status(by_id, f"{docs}/i", "b") == 200
    assert status(by_id, f"/{other['_self']}", "a") == 403
    assert status(by_key, f"{docs}/i", "a") == 403
    assert status(by_key, f"{docs}/i", "b") == 200
    assert status(by_id, f"{docs}/missing", "a") == 403
    # An item whose id is the rid of another one opens nothing.
    decoy = world.put({"id": item["_rid"], "pk": "a"})
    reply = raw.request("GET", f"{docs}/{item['_rid']}", headers={PK: '["a"]'}, token=by_id)
    assert reply.json["_rid"] in (item["_rid"], None)
    assert reply.json["_rid"] != decoy["_rid"]


def test_an_item_token_does_not_rename_its_item(world: World) -> None:
    """Another id would be another item, which the permission does not name."""
    raw, docs = world.raw, f"{world.container}/docs"
    item = world.put({"id": "i", "pk": "a"})
    world.put({"id": "taken", "pk": "a"})
    sent = {PK: '["a"]'}
    for resource in (f"{docs}/i", item["_self"]):
        token = world.grant(resource, "All")
        for path in (f"{docs}/i", f"/{item['_self']}"):
            for new_id in ("j", "taken", item["_rid"]):
                body = {"id": new_id, "pk": "a"}
                reply = raw.request("PUT", path, body, sent, token=token)
                assert (reply.status, reply.json["code"]) == (403, "Forbidden")
            reply = raw.request("PUT", path, {"id": "i", "pk": "a", "n": 1}, sent, token=token)
            assert reply.status == 200
        patch = {"operations": [{"op": "set", "path": "/id", "value": "j"}]}
        assert raw.request("PATCH", f"{docs}/i", patch, sent, token=token).status == 400
    assert raw.get(f"{docs}/j", pk='["a"]').status == 404
    # A token of the container may.
    token = world.grant(world.container, "All")
    assert raw.request("PUT", f"{docs}/i", {"id": "j", "pk": "a"}, sent, token=token).status == 200


@pytest.mark.parametrize("kind", ["sprocs", "triggers", "udfs"])
def test_a_script_token_does_not_rename_its_script(world: World, kind: str) -> None:
    script = world.raw.get(f"{world.container}/{kind}/s").json
    for resource in (f"{world.container}/{kind}/s", script["_self"]):
        token = world.grant(resource, "All")
        path = f"{world.container}/{kind}/s"
        reply = world.raw.request("PUT", path, SCRIPT | {"id": "t"}, token=token)
        assert (reply.status, reply.json["code"]) == (403, "Forbidden")
        assert world.raw.request("PUT", path, SCRIPT | {"id": "s"}, token=token).status == 200


def test_an_item_token_opens_no_id_that_goes_on(world: World) -> None:
    """An unescaped `?` is part of the id, whether item and permission are named by id or rid."""
    raw = world.raw
    item, longer = world.put({"id": "1", "pk": "a"}), world.put({"id": "1?x", "pk": "a"})
    docs = f"{world.container}/docs"

    def ask(token: str, name: str) -> Reply:
        path = f"{docs}/{name}"
        sent = {PK: '["a"]'}
        return raw.request(
            "GET", path.split("?", maxsplit=1)[0], headers=sent, raw_path=path, token=token
        )

    for resource, name in ((item["_self"], "1?x"), (f"{docs}/1", f"{item['_rid']}?x")):
        assert ask(world.grant(resource, "All"), name).status == 403
    found = ask(world.grant(longer["_self"], "All"), "1?x")
    assert (found.status, found.json["id"]) == (200, "1?x")


@pytest.mark.parametrize("tail", ["?x/y", "?x/y/z", "?", "?i", "/"])
def test_ids_that_were_not_escaped(world: World, tail: str) -> None:
    """As a JavaScript client sends them."""
    world.put({"id": "i?i", "pk": "a"})
    tokens = [
        world.grant(world.container, "Read"),
        world.grant(f"{world.container}/docs/i", "Read"),
    ]
    path = f"{world.container}/docs/i"
    replies = [
        world.raw.request("GET", path, headers={PK: '["a"]'}, raw_path=path + tail, token=token)
        for token in tokens
    ]
    assert replies[0].status == (200 if tail in ("?", "?i", "/") else 404)
    assert replies[1].status == (200 if tail in ("?", "/") else 403)


def test_missing_resources_are_reported_only_with_permission(world: World) -> None:
    raw = world.raw
    missing = f"{world.database}/colls/missing"
    token = world.grant(missing, "All")
    assert raw.request("GET", missing, token=token).status == 404
    reply = raw.request("GET", f"{missing}/docs", token=token)
    assert (reply.status, reply.sub_status) == (404, 1003)
    assert raw.request("GET", f"{world.database}/colls/missing2", token=token).status == 403
    # A permission by name is for whatever has the name.
    raw.post(f"{world.database}/colls", {"id": "missing", "partitionKey": PARTITION_KEY})
    assert raw.request("GET", missing, token=token).status == 200


def test_a_permission_by_rid_ends_with_its_container(world: World) -> None:
    raw = world.raw
    token = world.grant(raw.get(world.container).json["_self"], "All")
    assert raw.request("GET", world.container, token=token).status == 200
    raw.delete(world.container)
    raw.post(f"{world.database}/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    assert raw.request("GET", world.container, token=token).status == 403


def test_script_tokens(world: World) -> None:
    raw = world.raw
    token = world.grant(f"{world.container}/sprocs/s", "All")
    link = raw.get(f"{world.container}/sprocs/s").json["_self"]
    for path in (f"{world.container}/sprocs/s", f"/{link}"):
        assert raw.request("GET", path, token=token).status == 200
        assert raw.request("POST", path, [], {PK: '["a"]'}, token=token).status == 400
    assert raw.request("GET", f"{world.container}/udfs/s", token=token).status == 403
    assert raw.request("GET", f"{world.container}/sprocs", token=token).status == 403
    reader = world.grant(f"{world.container}/sprocs/s", "Read")
    assert raw.request("GET", f"/{link}", token=reader).status == 200
    assert raw.request("POST", f"/{link}", [], {PK: '["a"]'}, token=reader).status == 403


class Keyed(NamedTuple):
    """A permission's key, a request's key, and whether the one covers the other."""

    granted: list[Any]
    asked: str | None
    is_covered: bool


SINGLE = [
    Keyed(["a"], '["a"]', True),
    Keyed(["a"], '[ "a" ]', True),
    Keyed(["a"], r'["\u0061"]', True),
    Keyed(["a"], '["b"]', False),
    Keyed(["a"], "[]", False),
    Keyed(["a"], None, False),
    Keyed([1], "[1.0]", True),
    Keyed([1], "[true]", False),
    Keyed([True], "[1]", False),
    Keyed([None], "[null]", True),
    Keyed([None], "[{}]", False),
    Keyed([{}], "[{}]", True),
    Keyed(["a", "b"], '["a"]', False),  # no key of this container at all
]


@pytest.mark.parametrize(("granted", "asked", "is_covered"), SINGLE)
def test_keys(world: World, granted: list[Any], asked: str | None, is_covered: bool) -> None:
    token = world.grant(world.container, "Read", granted)
    sent = {} if asked is None else {PK: asked}
    docs = f"{world.container}/docs"
    for method, body, headers in (("GET", None, {}), ("POST", SELECT, QUERY)):
        reply = world.raw.request(method, docs, body, sent | headers, token=token)
        assert reply.status == (200 if is_covered else 403), reply


def test_writes_stay_within_the_key(world: World) -> None:
    raw = world.raw
    token = world.grant(world.container, "All", ["a"])
    world.put({"id": "b", "pk": "b"})
    docs = f"{world.container}/docs"

    def write(method: str, path: str, body: Any, **sent: str) -> int:
        headers = {PK: sent["pk"]} if "pk" in sent else {}
        if sent.get("upsert"):
            headers |= UPSERT
        return raw.request(method, path, body, headers, token=token).status

    assert write("POST", docs, {"id": "1", "pk": "a"}, pk='["a"]') == 201
    assert write("POST", docs, {"id": "2", "pk": "b"}, pk='["b"]') == 403
    assert write("POST", docs, {"id": "2", "pk": "b"}, pk='["a"]') == 400
    assert write("POST", docs, {"id": "2", "pk": "b"}) == 403
    assert write("POST", docs, {"id": "b", "pk": "b"}, pk='["b"]', upsert="true") == 403
    assert write("PUT", f"{docs}/b", {"id": "b", "pk": "b"}, pk='["b"]') == 403
    assert write("PUT", f"{docs}/1", {"id": "1", "pk": "b"}, pk='["a"]') == 400
    assert write("DELETE", f"{docs}/b", None, pk='["b"]') == 403
    assert write("DELETE", f"{docs}/1", None, pk='["a"]') == 204
    clear = f"{world.container}/operations/partitionkeydelete"
    assert write("POST", clear, None, pk='["b"]') == 403
    assert write("POST", clear, None, pk='["a"]') == 200
    left = [(each["id"], each["pk"]) for each in raw.get(docs).json["Documents"]]
    assert left == [("b", "b")]


def test_hashes_do_not_open_writes(world: World) -> None:
    """Lists may name the hash of the key instead; what is written, and each part of a bulk
    request, has a key of its own."""
    raw = world.raw
    definition = parse_definition(PARTITION_KEY)
    start, end = point_interval(effective(("a",), definition))
    hashes = {
        "x-ms-read-key-type": "EffectivePartitionKeyRange",
        "x-ms-start-epk": start,
        "x-ms-end-epk": end,
    }
    token = world.grant(world.container, "All", ["a"])
    secret = world.put({"id": "b", "pk": "b"})
    docs, other = f"{world.container}/docs", {"id": "b", "pk": "b", "n": 1}
    bulk = {"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "false"}
    parts = [{"operationType": "Read", "id": "b", "partitionKey": '["b"]'}]
    for method, path, body, sent in (
        ("POST", docs, {"id": "new", "pk": "b"}, {}),
        ("POST", docs, other, UPSERT),
        ("PUT", f"{docs}/b", other, {}),
        ("POST", docs, parts, bulk),
    ):
        assert raw.request(method, path, body, hashes | sent, token=token).status == 403
    named = raw.request("POST", docs, parts, bulk | {PK: '["a"]'}, token=token)
    assert [part["statusCode"] for part in named.json] == [400]
    assert [each for each in raw.get(docs).json["Documents"] if each["pk"] == "b"] == [secret]
    feed = raw.request("GET", docs, None, hashes, token=token)
    found = raw.request("POST", docs, SELECT, hashes | QUERY, token=token)
    assert [each["id"] for each in feed.json["Documents"]] == [ITEM["id"]]
    assert found.json["Documents"] == feed.json["Documents"]


def test_the_wish_for_direct_answers_opens_nothing(world: World) -> None:
    world.put({"id": "b", "pk": "b"})
    token = world.grant(world.container, "Read", ["a"])
    direct = QUERY | {"x-perseid-direct": "true"}
    for text in ("SELECT * FROM c", "SELECT VALUE COUNT(1) FROM c"):
        for headers in (direct, direct | {PK: '["b"]'}, direct | {PK: "[]"}):
            reply = world.raw.request(
                "POST", f"{world.container}/docs", {"query": text}, headers, token=token
            )
            assert reply.status == 403, headers


def test_reads_show_the_key_only(world: World) -> None:
    raw = world.raw
    for number in range(4):
        world.put({"id": f"a{number}", "pk": "a"})
        world.put({"id": f"b{number}", "pk": "b"})
    token = world.grant(world.container, "Read", ["a"])
    docs, sent = f"{world.container}/docs", {PK: '["a"]', "x-ms-max-item-count": "2"}
    found: list[str] = []
    for body, headers in ((None, {}), (SELECT, QUERY)):
        continuation: dict[str, str] = {}
        while True:
            reply = raw.request(
                "POST" if body else "GET", docs, body, sent | headers | continuation, token=token
            )
            assert reply.status == 200
            found += [each["pk"] for each in reply.json["Documents"]]
            if "x-ms-continuation" not in reply.headers:
                break
            continuation = {"x-ms-continuation": reply.headers["x-ms-continuation"]}
    assert found == ["a"] * 10
    counted = raw.request(
        "POST", docs, {"query": "SELECT VALUE COUNT(1) FROM c"}, sent | QUERY, token=token
    )
    assert counted.json["Documents"] == [5]
    by_range = {"x-ms-documentdb-partitionkeyrangeid": "0"}
    assert raw.request("GET", docs, headers=by_range, token=token).status == 403
    assert raw.request("POST", docs, SELECT, QUERY | by_range, token=token).status == 403


@pytest.fixture
def tree(world: World) -> str:
    """A container with a key of three levels, and an item under each of eight keys."""
    path = f"{world.database}/colls/tree"
    definition = {"paths": ["/a", "/b", "/c"], "kind": "MultiHash", "version": 2}
    world.raw.post(f"{world.database}/colls", {"id": "tree", "partitionKey": definition})
    for number in range(8):
        a, b, c = number >> 2, number >> 1 & 1, number & 1
        body = {"id": f"{a}{b}{c}", "a": f"a{a}", "b": f"b{b}", "c": f"c{c}"}
        assert world.raw.post(f"{path}/docs", body).status == 201
    return path


@pytest.mark.parametrize(
    ("granted", "asked", "count"),
    [
        (["a0"], ["a0"], 4),
        (["a0"], ["a0", "b1"], 2),
        (["a0"], ["a0", "b1", "c1"], 1),
        (["a0"], ["a1"], None),
        (["a0", "b0"], ["a0"], None),
        (["a0", "b0"], ["a0", "b0"], 2),
        (["a0", "b0"], ["a0", "b1"], None),
        (["a0", "b0", "c0"], ["a0", "b0", "c0"], 1),
        (["a0", "b0", "c0"], ["a0", "b0"], None),
        (["a0", "b0", "c0"], ["a0", "b0", "c1"], None),
    ],
)
def test_hierarchical_keys(
    world: World, tree: str, granted: list[str], asked: list[str], count: int | None
) -> None:
    token = world.grant(tree, "All", granted)
    sent = {PK: json.dumps(asked)}
    for method, body, headers in (("GET", None, {}), ("POST", SELECT, QUERY)):
        reply = world.raw.request(method, f"{tree}/docs", body, sent | headers, token=token)
        assert reply.status == (403 if count is None else 200)
        assert count is None or reply.json["_count"] == count
    if len(asked) == 3:
        item = {"id": "new", "a": asked[0], "b": asked[1], "c": asked[2]}
        reply = world.raw.request("POST", f"{tree}/docs", item, sent, token=token)
        assert reply.status == (403 if count is None else 201)


def test_hash_intervals_of_a_prefix(world: World, tree: str) -> None:
    """How the Python client asks for a prefix: by the hashes below it."""
    definition = parse_definition(world.raw.get(tree).json["partitionKey"])
    token = world.grant(tree, "Read", ["a0", "b0"])

    def ask(*prefix: str, wider: bool = False) -> Reply:
        start, end = prefix_interval(prefix, definition)
        headers = QUERY | {
            "x-ms-documentdb-partitionkeyrangeid": "0",
            "x-ms-read-key-type": "EffectivePartitionKeyRange",
            "x-ms-start-epk": start,
            "x-ms-end-epk": "FF" if wider else end,
        }
        return world.raw.request("POST", f"{tree}/docs", SELECT, headers, token=token)

    inside = ask("a0", "b0")
    assert (inside.status, inside.json["_count"]) == (200, 2)
    deeper = ask("a0", "b0", "c1")
    assert (deeper.status, deeper.json["_count"]) == (200, 1)
    for outside in (ask("a0"), ask("a0", "b1"), ask("a0", "b0", wider=True), ask()):
        assert outside.status == 403


def test_read_only_keys_and_tokens_do_not_mix(world: World) -> None:
    """A token is no signature: its text after `type=master` is refused."""
    token = world.grant(world.container, "All").replace(
        "type=resource&ver=1", "type=master&ver=1.0"
    )
    assert world.raw.request("GET", world.container, token=token).status == 401
