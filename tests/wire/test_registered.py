"""Users, permissions, stored procedures, triggers, functions: what all five have in common."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.raw import RawClient

ETAG = re.compile(r'"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"')


@dataclass(frozen=True)
class Kind:
    """A kind of resource as its clients see it; `body` makes one with that id."""

    feed: str
    plural: str
    owner: str  # below the database
    body: Callable[[str], dict[str, Any]]
    changed: dict[str, Any]  # properties that a replace may change
    rid_bytes: int
    nibble: int | None = None  # the type in the rid of a container's child
    extra: tuple[str, ...] = ()  # members that the server adds


def permission(id_: str) -> dict[str, Any]:
    return {"id": id_, "permissionMode": "Read", "resource": f"dbs/d/colls/{id_}"}


def script(id_: str) -> dict[str, Any]:
    return {"id": id_, "body": "function () { return 1; }"}


def trigger(id_: str) -> dict[str, Any]:
    return {**script(id_), "triggerType": "pre", "triggerOperation": "CREATE"}


SCRIPT_CHANGE = {"body": "function () { return 2; }"}
KINDS = (
    Kind("users", "Users", "", lambda id_: {"id": id_}, {}, 8, extra=("_permissions",)),
    Kind(
        "permissions", "Permissions", "/users/u", permission, {"permissionMode": "All"}, 16,
        extra=("_token",),
    ),
    Kind("sprocs", "StoredProcedures", "/colls/c", script, SCRIPT_CHANGE, 16, 0x8),
    Kind("triggers", "Triggers", "/colls/c", trigger, {"triggerOperation": "All"}, 16, 0x7),
    Kind("udfs", "UserDefinedFunctions", "/colls/c", script, SCRIPT_CHANGE, 16, 0x6),
)  # fmt: skip


@pytest.fixture(params=KINDS, ids=lambda kind: kind.feed)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def owner(kind: Kind, raw: RawClient, database: str, container: str) -> str:
    """The path of the resource that the list belongs to."""
    assert container
    assert raw.post(f"{database}/users", {"id": "u"}).status == 201
    return f"{database}{kind.owner}"


@pytest.fixture
def feed(kind: Kind, owner: str) -> str:
    return f"{owner}/{kind.feed}"


def names(raw: RawClient, feed: str, kind: Kind) -> list[str]:
    """The ids in the list, but for the user that permissions need."""
    reply = raw.get(feed)
    assert reply.status == 200
    assert reply.json["_count"] == len(reply.json[kind.plural])
    return [each["id"] for each in reply.json[kind.plural] if each["id"] != "u"]


def test_create_answers_with_the_resource(
    raw: RawClient, kind: Kind, owner: str, feed: str
) -> None:
    above = raw.get(owner).json
    reply = raw.post(feed, kind.body("x") | {"_rid": "mine", "_etag": "mine"})
    assert reply.status == 201
    made = reply.json
    system = {"_rid", "_self", "_etag", "_ts", *kind.extra}
    assert {name: made[name] for name in made if name not in system} == kind.body("x")
    assert set(made) == {*kind.body("x"), *system}
    rid = _bytes(made["_rid"])
    assert len(rid) == kind.rid_bytes
    assert rid.startswith(_bytes(above["_rid"]))
    if kind.nibble is not None:
        assert rid[15] >> 4 == kind.nibble
    assert made["_self"] == f"{above['_self']}{kind.feed}/{made['_rid']}/"
    assert ETAG.fullmatch(made["_etag"])
    assert reply.headers["etag"] == made["_etag"]
    assert reply.headers["x-ms-request-charge"] == "5"
    assert reply.headers["x-ms-alt-content-path"] == owner.strip("/")
    assert reply.headers["x-ms-content-path"] == above["_rid"]


def test_read_by_name_and_by_link(raw: RawClient, kind: Kind, feed: str) -> None:
    made = raw.post(feed, kind.body("x")).json
    by_name, by_link = raw.get(f"{feed}/x"), raw.get(f"/{made['_self']}")
    for reply in (by_name, by_link):
        assert reply.status == 200
        assert _stable(reply.json) == _stable(made)
        assert reply.headers["x-ms-request-charge"] == "1"
    unchanged = raw.get(f"{feed}/x", if_none_match=made["_etag"])
    assert (unchanged.status, unchanged.body) == (304, b"")


def test_a_second_one_of_the_same_id_is_refused(raw: RawClient, kind: Kind, feed: str) -> None:
    assert raw.post(feed, kind.body("x")).status == 201
    reply = raw.post(feed, kind.body("x"))
    assert (reply.status, reply.json["code"]) == (409, "Conflict")
    assert names(raw, feed, kind) == ["x"]


def test_replace(raw: RawClient, kind: Kind, feed: str) -> None:
    made = raw.post(feed, kind.body("x")).json
    body = kind.body("x") | kind.changed
    reply = raw.put(f"{feed}/x", body, if_match=made["_etag"])
    assert reply.status == 200
    changed = reply.json
    assert {name: changed[name] for name in body} == body
    assert changed["_rid"] == made["_rid"]
    assert changed["_etag"] != made["_etag"]
    assert _stable(raw.get(f"{feed}/x").json) == _stable(changed)
    stale = raw.put(f"{feed}/x", body, if_match=made["_etag"])
    assert (stale.status, stale.json["code"]) == (412, "PreconditionFailed")


def test_replace_may_change_the_id_to_a_free_one(raw: RawClient, kind: Kind, feed: str) -> None:
    made = raw.post(feed, kind.body("x")).json
    raw.post(feed, kind.body("taken"))
    assert raw.put(f"{feed}/x", kind.body("taken")).status == 409
    reply = raw.put(f"{feed}/x", kind.body("x") | {"id": "new"})
    assert (reply.status, reply.json["_rid"]) == (200, made["_rid"])
    assert raw.get(f"{feed}/x").status == 404
    assert raw.get(f"{feed}/new").status == 200
    # By age, whatever the names: pages go on where they ended.
    assert names(raw, feed, kind) == ["new", "taken"]
    assert raw.post(feed, kind.body("x") | {"resource": "dbs/d/colls/y"}).status == 201


def test_upsert(raw: RawClient, kind: Kind, feed: str) -> None:
    made = raw.post(feed, kind.body("x"), upsert="True")
    assert made.status == 201
    changed = raw.post(feed, kind.body("x") | kind.changed, upsert="true")
    assert (changed.status, changed.json["_rid"]) == (200, made.json["_rid"])
    assert changed.json["_etag"] != made.json["_etag"]
    assert names(raw, feed, kind) == ["x"]
    stale = raw.post(feed, kind.body("x"), upsert="true", if_match=made.json["_etag"])
    assert stale.status == 412


def test_delete(raw: RawClient, kind: Kind, feed: str) -> None:
    made = raw.post(feed, kind.body("x")).json
    assert raw.delete(f"{feed}/x", if_match='"no"').status == 412
    reply = raw.delete(f"{feed}/x", if_match=made["_etag"])
    assert (reply.status, reply.body) == (204, b"")
    for gone in (
        raw.get(f"{feed}/x"),
        raw.delete(f"{feed}/x"),
        raw.put(f"{feed}/x", kind.body("x")),
    ):
        assert (gone.status, gone.sub_status, gone.json["code"]) == (404, 0, "NotFound")
    assert names(raw, feed, kind) == []
    again = raw.post(feed, kind.body("x"))
    assert again.status == 201
    assert again.json["_rid"] != made["_rid"]


def test_feed_in_pages(raw: RawClient, kind: Kind, owner: str, feed: str) -> None:
    made = [raw.post(feed, kind.body(f"x{number}")).json for number in range(5)]
    first = raw.get(feed, count="3")
    assert first.json["_rid"] == raw.get(owner).json["_rid"]
    assert first.headers["x-ms-item-count"] == "3"
    assert "etag" not in first.headers
    raw.delete(f"{feed}/x1")  # was on the first page
    second = raw.get(feed, count="3", continuation=first.headers["x-ms-continuation"])
    assert "x-ms-continuation" not in second.headers
    listed = [*first.json[kind.plural], *second.json[kind.plural]]
    found = [_stable(each) for each in listed if each["id"] != "u"]
    assert found == [_stable(each) for each in made]


def test_query(raw: RawClient, kind: Kind, feed: str) -> None:
    for number in range(3):
        raw.post(feed, kind.body(f"x{number}"))
    text = "SELECT * FROM root r WHERE r.id = @id"
    reply = raw.query(feed, text, [{"name": "@id", "value": "x1"}])
    assert reply.status == 200
    assert [_stable(each) for each in reply.json[kind.plural]] == [
        _stable(raw.get(f"{feed}/x1").json)
    ]
    ids = raw.query(feed, "SELECT VALUE r.id FROM r WHERE STARTSWITH(r.id, 'x') ORDER BY r.id DESC")
    assert ids.json[kind.plural] == ["x2", "x1", "x0"]


@pytest.mark.parametrize(
    ("id_", "text"),
    [
        (None, "are missing"),
        ("", "Ensure to provide a unique non-empty string less than '255' characters."),
        (7, "Ensure to provide a unique non-empty string less than '255' characters."),
        ("x" * 256, "Ensure to provide a unique non-empty string less than '255' characters."),
        ("a/b", "may not contain"),
        ("a#b", "may not contain"),
        ("a ", "may not end with a space"),
    ],
)
def test_bad_ids(raw: RawClient, kind: Kind, feed: str, id_: Any, text: str) -> None:
    body = kind.body("x") | {"id": id_}
    raw.post(feed, kind.body("x"))
    for reply in (raw.post(feed, body), raw.put(f"{feed}/x", body)):
        assert (reply.status, reply.json["code"]) == (400, "BadRequest")
        assert text in reply.json["message"]
    assert names(raw, feed, kind) == ["x"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"null"])
def test_bodies_that_are_no_objects(raw: RawClient, kind: Kind, feed: str, body: bytes) -> None:
    assert raw.post(feed, body).status == 400
    assert names(raw, feed, kind) == []


def test_missing_owners(raw: RawClient, kind: Kind, database: str) -> None:
    path = f"{database}{kind.owner}-missing" if kind.owner else "/dbs/missing"
    for reply in (
        raw.post(f"{path}/{kind.feed}", kind.body("x")),
        raw.get(f"{path}/{kind.feed}"),
        raw.get(f"{path}/{kind.feed}/x"),
        raw.query(f"{path}/{kind.feed}", "SELECT * FROM c"),
    ):
        assert (reply.status, reply.sub_status) == (404, 1003)


def test_gone_with_their_owner(raw: RawClient, kind: Kind, owner: str, feed: str) -> None:
    """And not back with one of the same name."""
    made = raw.post(feed, kind.body("x")).json
    definition = raw.get(owner).json
    assert raw.delete(owner).status == 204
    raw.post(owner.rpartition("/")[0], definition)
    assert names(raw, feed, kind) == []
    assert raw.get(f"/{made['_self']}").status == 404


def test_gone_with_their_database(raw: RawClient, kind: Kind, database: str, feed: str) -> None:
    raw.post(feed, kind.body("x"))
    assert raw.delete(database).status == 204
    assert raw.get(feed).status == 404


def test_ids_are_unique_within_kind_and_owner_only(
    raw: RawClient, kind: Kind, database: str, container: str, feed: str
) -> None:
    assert raw.post(feed, kind.body("x")).status == 201
    raw.post(f"{database}/colls", {"id": "c2", "partitionKey": {"paths": ["/pk"]}})
    raw.post(f"{database}/users", {"id": "u2"})
    for path, body in (
        (f"{database}/users/u2/permissions", permission("x")),
        (f"{database}/colls/c2/sprocs", script("x")),
        (f"{database}/colls/c2/triggers", trigger("x")),
        (f"{database}/colls/c2/udfs", script("x")),
        (f"{container}/docs", {"id": "x", "pk": "x"}),
    ):
        assert raw.post(path, body).status == 201


def _bytes(rid: str) -> bytes:
    return base64.b64decode(rid.replace("-", "/"))


def _stable(body: dict[str, Any]) -> dict[str, Any]:
    """Without the token, which is a new one in each answer."""
    return {name: value for name, value in body.items() if name != "_token"}
