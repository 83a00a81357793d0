"""`ttl` of items while TTL is off: validated although it has no effect, unless relaxed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perseid.ttl import MAX_TTL
from tests.support.raw import RawClient, Reply
from tests.support.replies import outcome
from tests.support.servers import RunningServer, Servers
from tests.support.ttl_containers import TtlContainer, TtlContainers

BAD = [-10, 0, 1.5, "60", None, True, [], {}, MAX_TTL + 1]
TEXT = (
    "The input ttl '{}' is invalid. Ensure to provide a nonzero positive integer less than or equal"
    " to '2147483647', or '-1' which means never expire."
)
DIRECT = {"x_perseid_direct": "true"}


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers("frozen", no_sweeper=True, relaxed=False)


@pytest.fixture
def off(containers: TtlContainers) -> TtlContainer:
    return containers.make()


def item(value: object, id_: str = "a") -> dict[str, Any]:
    return {"id": id_, "pk": "p", "ttl": value}


def assert_refused(reply: Reply, value: object) -> None:
    assert outcome(reply) == (400, 0, "BadRequest")
    shown = json.dumps(value, separators=(",", ":")).replace('"', '\\"')
    assert TEXT.format(shown) in reply.json["message"]


@pytest.mark.parametrize("value", BAD)
def test_every_single_write_is_refused(off: TtlContainer, value: object) -> None:
    stored = off.create("old")
    assert_refused(off.post(item(value)), value)
    assert_refused(off.post(item(value), upsert="true"), value)
    assert_refused(off.replace("old", item(value, "old")), value)
    operations = {"operations": [{"op": "set", "path": "/ttl", "value": value}]}
    assert_refused(off.raw.patch(f"{off.path}/docs/old", operations, pk='["p"]'), value)
    assert off.read("old").json == stored
    assert off.query("SELECT VALUE c.id FROM c") == ["old"]


@pytest.mark.parametrize("value", [5, 60.0, -1, MAX_TTL])
def test_valid_values_are_stored_and_have_no_effect(off: TtlContainer, value: object) -> None:
    assert off.post(item(value)).status == 201
    off.clock.advance(1000)
    assert off.seen("a") == {"a"}


def operation(value: object, id_: str) -> dict[str, Any]:
    return {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": item(value, id_)}


@pytest.mark.parametrize(
    ("headers", "codes"),
    [
        ({}, [201, 400, 201]),
        ({"x_ms_cosmos_batch_continue_on_error": "false"}, [201, 400, 424]),
    ],
)
def test_bulk(off: TtlContainer, headers: dict[str, str], codes: list[int]) -> None:
    operations = [operation(5, "a"), operation(-10, "b"), operation(-1, "c")]
    reply = off.raw.batch(off.path, operations, atomic=False, **headers)
    assert [each["statusCode"] for each in reply.json] == codes
    assert TEXT.format(-10) in reply.json[1]["message"]


def test_batch(off: TtlContainer) -> None:
    operations = [operation(5, "a"), operation(-10, "b")]
    reply = off.raw.batch(off.path, operations, pk='["p"]')
    assert [each["statusCode"] for each in reply.json] == [424, 400]
    assert off.query("SELECT VALUE c.id FROM c") == []


def test_import_names_the_line_and_the_item(off: TtlContainer) -> None:
    path = off.admin.replace("/ttl/", "/import/")
    lines = b"\n".join(json.dumps(each).encode() for each in (item(5, "a"), item(0, "b")))
    reply = off.raw.request("POST", path, lines)
    (refused,) = reply.json["refused"]
    assert (refused["line"], refused["id"], refused["status"]) == (2, "b", 400)
    assert refused["message"] == TEXT.format(0)
    assert reply.json["created"] == 1
    reply = off.raw.request("POST", path, lines, headers={"x-perseid-direct": "true"})
    assert (reply.json["refused"], reply.json["created"]) == ([], 1)


# Relaxed


def test_a_request_may_ask_for_the_relaxed_answer(off: TtlContainer) -> None:
    assert off.post(item(-10), **DIRECT).json["ttl"] == -10
    assert off.post(item("x"), upsert="true", **DIRECT).json["ttl"] == "x"
    assert off.replace("a", item(0), **DIRECT).status == 200
    operations = {"operations": [{"op": "set", "path": "/ttl", "value": "y"}]}
    reply = off.raw.patch(f"{off.path}/docs/a", operations, pk='["p"]', **DIRECT)
    assert (reply.status, reply.json["ttl"]) == (200, "y")
    batch = [operation(0, "b"), operation("z", "c")]
    reply = off.raw.batch(off.path, batch, pk='["p"]', x_perseid_direct="true")
    assert [each["statusCode"] for each in reply.json] == [201, 201]
    off.clock.advance(1000)
    assert off.seen("a", "b", "c") == {"a", "b", "c"}
    # The next write has to correct what was stored.
    assert_refused(off.replace("b", item(0, "b")), 0)


def test_nothing_is_relaxed_while_ttl_is_on(containers: TtlContainers) -> None:
    container = containers.make(-1)
    assert_refused(container.post(item(0), **DIRECT), 0)


def test_a_relaxed_server_accepts_any_value(servers: Servers, raw: RawClient, name: str) -> None:
    server = servers("frozen", no_sweeper=True, relaxed=True)
    with server.connect() as relaxed:
        assert relaxed.post("/dbs", {"id": name}).status == 201
        container = TtlContainers(relaxed, server.clock, f"/dbs/{name}").make()
        for number, value in enumerate(BAD):
            reply = container.post(item(value, str(number)))
            assert (reply.status, reply.json["ttl"]) == (201, value)
        relaxed.delete(f"/dbs/{name}")
