"""Permissions: what is a valid one, and how long the tokens they give are good."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import serving
from tests.support.stores import Place


@pytest.fixture
def permissions(raw: RawClient, database: str) -> str:
    """The path of a user's permissions."""
    assert raw.post(f"{database}/users", {"id": "u"}).status == 201
    return f"{database}/users/u/permissions"


def permission_body(
    resource: str = "dbs/d/colls/c", mode: str = "Read", **rest: Any
) -> dict[str, Any]:
    return {"id": "p", "permissionMode": mode, "resource": resource, **rest}


def read_container(raw: RawClient, container: str, token: str) -> Reply:
    return raw.request("GET", container, token=token)


@pytest.mark.parametrize(
    "resource",
    [
        "dbs/d/colls/c",
        "/dbs/d/colls/c/",
        "dbs/AQAAAA==/colls/AQAAAJ0fgTc=",
        "dbs/AQAAAA==/colls/AQAAAJ0fgTc=/docs/AQAAAJ0fgTcBAAAAAAAAAA==/",
        "dbs/d/colls/c/docs/an item",
        "dbs/d/colls/c/sprocs/s",
        "dbs/d/colls/c/triggers/t",
        "dbs/d/colls/c/udfs/f",
        "dbs/d/colls/c/conflicts/x",
    ],
)
def test_resources_that_need_not_exist(raw: RawClient, permissions: str, resource: str) -> None:
    reply = raw.post(permissions, permission_body(resource))
    assert (reply.status, reply.json["resource"]) == (201, resource)


@pytest.mark.parametrize("mode", ["Read", "All", "read", "ALL"])
def test_modes_are_kept_as_sent(raw: RawClient, permissions: str, mode: str) -> None:
    reply = raw.post(permissions, permission_body(mode=mode))
    assert (reply.status, reply.json["permissionMode"]) == (201, mode)


@pytest.mark.parametrize("sent", [["a"], [1.5], [True], [None], [{}], ["a", 1], ["a", {}, None]])
def test_keys_are_kept_as_sent(raw: RawClient, permissions: str, sent: list[Any]) -> None:
    reply = raw.post(permissions, permission_body(resourcePartitionKey=sent))
    assert (reply.status, reply.json["resourcePartitionKey"]) == (201, sent)


def test_a_key_of_null_is_none(raw: RawClient, permissions: str) -> None:
    reply = raw.post(permissions, permission_body(resourcePartitionKey=None))
    assert reply.status == 201
    assert "resourcePartitionKey" not in reply.json


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"permissionMode": None}, "permissionMode is Read or All"),
        ({"permissionMode": "Write"}, "permissionMode is Read or All; not 'Write'"),
        ({"permissionMode": 1}, "permissionMode is Read or All"),
        ({"resource": None}, "The resource of a permission"),
        ({"resource": ""}, "The resource of a permission"),
        ({"resource": 1}, "The resource of a permission"),
        ({"resource": "dbs/d"}, "The resource of a permission"),
        ({"resource": "dbs/d/colls"}, "The resource of a permission"),
        ({"resource": "dbs/d/colls/"}, "The resource of a permission"),
        ({"resource": "dbs/d/users/u"}, "The resource of a permission"),
        ({"resource": "dbs/d/colls/c/docs"}, "The resource of a permission"),
        ({"resource": "dbs/d/colls/c/docs/1/attachments/a"}, "The resource of a permission"),
        ({"resource": "dbs//colls/c"}, "The resource of a permission"),
        ({"resource": "offers/abcd"}, "The resource of a permission"),
        ({"resourcePartitionKey": []}, "The resourcePartitionKey"),
        ({"resourcePartitionKey": "a"}, "The resourcePartitionKey"),
        ({"resourcePartitionKey": [["a"]]}, "The resourcePartitionKey"),
        ({"resourcePartitionKey": [{"a": 1}]}, "The resourcePartitionKey"),
        ({"resourcePartitionKey": ["a", "b", "c", "d"]}, "The resourcePartitionKey"),
    ],
)
def test_bad_permissions(
    raw: RawClient, permissions: str, change: dict[str, Any], text: str
) -> None:
    for path, verb in ((permissions, raw.post), (f"{permissions}/p", raw.put)):
        if verb == raw.put:
            raw.post(permissions, permission_body())
        reply = verb(path, permission_body() | change)
        assert (reply.status, reply.json["code"]) == (400, "BadRequest")
        assert text in reply.json["message"]
    assert raw.get(f"{permissions}/p").json["resource"] == "dbs/d/colls/c"


def test_one_permission_for_each_resource_of_a_user(
    raw: RawClient, permissions: str, database: str, container: str
) -> None:
    """The same one by other names is the same; another key of it, or another user's, is not."""
    link = raw.get(container).json["_self"]
    assert raw.post(permissions, permission_body(container)).status == 201
    for spelling in (container, container.strip("/"), link):
        reply = raw.post(permissions, permission_body(spelling, "All") | {"id": "q"})
        assert (reply.status, reply.json["code"]) == (409, "Conflict")
        assert "'p'" in reply.json["message"]
    keyed = permission_body(container, resourcePartitionKey=["a"])
    assert raw.post(permissions, keyed | {"id": "a"}).status == 201
    assert raw.post(permissions, keyed | {"id": "a2"}).status == 409
    other = permission_body(container, resourcePartitionKey=["b"])
    assert raw.post(permissions, other | {"id": "b"}).status == 201
    assert raw.put(f"{permissions}/b", keyed | {"id": "b"}).status == 409
    assert raw.put(f"{permissions}/b", other | {"id": "b", "permissionMode": "All"}).status == 200
    raw.post(f"{database}/users", {"id": "u2"})
    assert raw.post(f"{database}/users/u2/permissions", permission_body(container)).status == 201


def test_every_answer_has_a_token_that_works(
    raw: RawClient, permissions: str, container: str
) -> None:
    made = raw.post(permissions, permission_body(container)).json
    answers = [
        made,
        raw.post(permissions, permission_body(container), upsert="true").json,
        raw.put(f"{permissions}/p", permission_body(container)).json,
        raw.get(f"{permissions}/p").json,
        raw.get(permissions).json["Permissions"][0],
        raw.query(permissions, "SELECT * FROM p").json["Permissions"][0],
    ]
    for answer in answers:
        assert answer["_token"].startswith("type=resource&ver=1&sig=")
        assert read_container(raw, container, answer["_token"]).status == 200


@pytest.mark.parametrize("seconds", [10, 3600, 86_400])
def test_lifetime_of_tokens(
    raw: RawClient, permissions: str, container: str, clock: MovableClock, seconds: int
) -> None:
    """By the server's clock, to the second."""
    clock.freeze()
    try:
        sent = {} if seconds == 3600 else {"expiry": str(seconds)}
        token = raw.post(permissions, permission_body(container), **sent).json["_token"]
        clock.advance(seconds - 1)
        assert read_container(raw, container, token).status == 200
        clock.advance(1)
        reply = read_container(raw, container, token)
        assert (reply.status, reply.json["code"]) == (401, "Unauthorized")
        assert "is not valid at the current time" in reply.json["message"]
        # The permission is still there, and gives another.
        fresh = raw.get(f"{permissions}/p", **sent).json["_token"]
        assert read_container(raw, container, fresh).status == 200
    finally:
        clock.resume()


@pytest.mark.parametrize("seconds", ["9", "0", "-1", "86401", "ten", "1.5", ""])
def test_bad_lifetimes(raw: RawClient, permissions: str, seconds: str) -> None:
    raw.post(permissions, permission_body())
    for reply in (
        raw.post(permissions, permission_body("dbs/d/colls/x") | {"id": "q"}, expiry=seconds),
        raw.put(f"{permissions}/p", permission_body(mode="All"), expiry=seconds),
        raw.get(f"{permissions}/p", expiry=seconds),
        raw.get(permissions, expiry=seconds),
    ):
        assert (reply.status, reply.json["code"]) == (400, "BadRequest")
        assert "x-ms-documentdb-expiry-seconds" in reply.json["message"]
    (left,) = raw.get(permissions).json["Permissions"]
    assert (left["id"], left["permissionMode"]) == ("p", "Read")


def test_tokens_end_with_the_permission(raw: RawClient, permissions: str, container: str) -> None:
    token = raw.post(permissions, permission_body(container)).json["_token"]
    raw.delete(f"{permissions}/p")
    assert read_container(raw, container, token).status == 401
    # One of the same name is another permission.
    raw.post(permissions, permission_body(container))
    assert read_container(raw, container, token).status == 401


def test_tokens_end_with_the_user(raw: RawClient, permissions: str, container: str) -> None:
    token = raw.post(permissions, permission_body(container)).json["_token"]
    raw.delete(permissions.removesuffix("/permissions"))
    assert read_container(raw, container, token).status == 401


def test_tokens_allow_what_the_permission_says_now(
    raw: RawClient, permissions: str, container: str
) -> None:
    token = raw.post(permissions, permission_body(container, "All")).json["_token"]
    sent = {"x-ms-documentdb-partitionkey": '["a"]'}

    def write(id_: str) -> int:
        item = {"id": id_, "pk": "a"}
        return raw.request("POST", f"{container}/docs", item, sent, token=token).status

    assert write("1") == 201
    raw.put(f"{permissions}/p", permission_body(container, "Read"))
    assert write("2") == 403
    assert read_container(raw, container, token).status == 200
    raw.put(f"{permissions}/p", permission_body("dbs/d/colls/other", "All"))
    assert read_container(raw, container, token).status == 403
    # Renaming user and permission changes nothing.
    raw.put(f"{permissions}/p", permission_body(container, "All") | {"id": "renamed"})
    raw.put(permissions.removesuffix("/permissions"), {"id": "u-renamed"})
    assert write("3") == 201


def test_tokens_survive_a_restart(place: Place) -> None:
    settings = place.lasting()
    with serving(settings) as raw:
        raw.post("/dbs", {"id": "d"})
        raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
        raw.post("/dbs/d/users", {"id": "u"})
        token = raw.post("/dbs/d/users/u/permissions", permission_body()).json["_token"]
        raw.post("/dbs/d/colls/c/sprocs", {"id": "s", "body": "function () {}"})
    with serving(settings) as raw:
        assert read_container(raw, "/dbs/d/colls/c", token).status == 200
        assert raw.get("/dbs/d/colls/c/sprocs/s").status == 200
        assert raw.delete("/dbs/d/users/u").status == 204
    with serving(settings) as raw:
        assert read_container(raw, "/dbs/d/colls/c", token).status == 401


def test_tokens_of_another_server_are_refused(place: Place, raw: RawClient, container: str) -> None:
    with (
        running(place.fresh()) as found,
        closing(RawClient(found.endpoint, found.key)) as other,
    ):
        for path, made in (
            ("/dbs", {"id": "d"}),
            ("/dbs/d/users", {"id": "u"}),
        ):
            other.post(path, made)
        token = other.post("/dbs/d/users/u/permissions", permission_body(container)).json["_token"]
    assert read_container(raw, container, token).status == 401
