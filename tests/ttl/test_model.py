"""The model: two levels, seconds counted from `_ts`, every write a new beginning (T-001 … T-012).

T-006 (one `_ts` for a transaction) is covered where batches are tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.raw import Reply
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers, assert_gone

Act = Callable[[TtlContainer, dict[str, Any]], Reply]


def test_the_container_and_the_item_are_the_two_levels(containers: TtlContainers) -> None:
    orders = containers.make(60)  # T-001
    start = containers.now
    orders.create("inherits")
    orders.create("own", 10)
    orders.clock.set(start + 10)
    assert orders.seen("inherits", "own") == {"inherits"}
    orders.clock.set(start + 60)
    assert orders.seen("inherits", "own") == set()


def test_a_lifetime_is_counted_in_seconds_from_ts(containers: TtlContainers) -> None:
    container = containers.make(-1)  # T-002
    ts = container.create("a", 10)["_ts"]
    assert ts == containers.now
    container.clock.set(ts + 9)
    assert container.seen("a") == {"a"}
    container.clock.set(ts + 10)
    assert container.seen("a") == set()


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 0.999])
def test_ts_is_the_whole_second_of_the_write(containers: TtlContainers, fraction: float) -> None:
    second = containers.now + 1  # T-003
    container = containers.make(10)
    stored = container.create("a", at=second + fraction)
    assert stored["_ts"] == second
    assert type(stored["_ts"]) is int
    assert container.read("a").json == stored
    assert container.query("SELECT VALUE c._ts FROM c") == [second]


WRITES: dict[str, Act] = {
    "replace": lambda container, body: container.replace("a", body),
    "upsert": lambda container, body: container.post(body, upsert="true"),
}


@pytest.mark.parametrize("write", ["create", *WRITES])
def test_a_ts_sent_by_the_client_is_ignored(containers: TtlContainers, write: str) -> None:
    container = containers.make(10)  # T-003
    body = container.body("a", _ts=1)
    reply = container.post(body)
    if write != "create":
        container.clock.advance(3)
        reply = WRITES[write](container, body)
    assert reply.status == (201 if write == "create" else 200)
    assert reply.json["_ts"] == containers.now
    assert container.read("a").json["_ts"] == containers.now


@pytest.mark.parametrize("act", WRITES.values(), ids=list(WRITES))
def test_every_write_restarts_the_countdown(containers: TtlContainers, act: Act) -> None:
    container = containers.make(10)  # T-004
    start = containers.now
    first = container.create("a", note="same")
    container.clock.set(start + 8)
    reply = act(container, first)  # changes nothing
    assert (reply.status, reply.json["_ts"]) == (200, start + 8)
    assert reply.json["note"] == "same"
    container.clock.set(start + 15)
    assert container.seen("a") == {"a"}
    container.clock.set(start + 17)
    assert container.seen("a") == {"a"}
    container.clock.set(start + 18)
    assert container.seen("a") == set()


# Name -> expected status, request. None of these is a write that succeeded.
NO_WRITES: dict[str, tuple[int, Act]] = {
    "read": (200, lambda container, item: container.read("a")),
    "read, 304": (304, lambda container, item: container.read("a", if_none_match=item["_etag"])),
    "query": (
        200,
        lambda container, item: container.raw.query(f"{container.path}/docs", "SELECT * FROM c"),
    ),
    "feed": (200, lambda container, item: container.raw.get(f"{container.path}/docs")),
    "create, 409": (409, lambda container, item: container.post(item)),
    "create, 400": (400, lambda container, item: container.post(item | {"ttl": 0})),
    "replace, 400": (400, lambda container, item: container.replace("a", item | {"ttl": 0})),
    "upsert, 400": (400, lambda container, item: container.post(item | {"ttl": 0}, upsert="true")),
    "replace, 412": (412, lambda container, item: container.replace("a", item, if_match='"stale"')),
    "upsert, 412": (
        412,
        lambda container, item: container.post(item, upsert="true", if_match='"stale"'),
    ),
    "delete, 412": (412, lambda container, item: container.delete("a", if_match='"stale"')),
    "replace, 409": (409, lambda container, item: container.replace("a", item | {"code": 2})),
}


@pytest.mark.parametrize(("status", "act"), NO_WRITES.values(), ids=list(NO_WRITES))
def test_only_successful_writes_touch_ts(containers: TtlContainers, status: int, act: Act) -> None:
    unique = {"uniqueKeys": [{"paths": ["/code"]}]}  # T-005
    container = containers.make(10, uniqueKeyPolicy=unique)
    start = containers.now
    item = container.create("a", code=1)
    container.create("b", -1, code=2)
    container.clock.set(start + 9)
    assert act(container, item).status == status
    assert container.read("a").json == item
    container.clock.set(start + 10)
    assert container.seen("a", "b") == {"b"}


def test_ttl_is_off_unless_asked_for(containers: TtlContainers) -> None:
    container = containers.make()  # T-007
    container.create("plain")
    container.create("dated", 1)
    container.clock.advance(10_000)
    assert container.seen("plain", "dated") == {"plain", "dated"}


@pytest.mark.parametrize(
    "rest",
    [
        {"part": {"ttl": 1}},
        {"parts": [{"ttl": 1}]},
        {"TTL": 1},
        {"Ttl": 1},
        {"_ttl": 1},
        {"timeToLive": 1},
        {"ttl ": 1},
        {"defaultTtl": 1},
    ],
    ids=json.dumps,
)
def test_only_a_root_property_named_ttl_counts(
    containers: TtlContainers, rest: dict[str, Any]
) -> None:
    container = containers.make(-1)  # T-008, T-009
    stored = container.create("a", **rest)
    container.clock.advance(5)
    assert container.seen("a") == {"a"}
    assert container.read("a").json == stored
    assert rest.items() <= stored.items()


@pytest.mark.parametrize("default_ttl", [ABSENT, -1, 60], ids=["off", "-1", "60"])
def test_ttl_is_an_ordinary_property_too(containers: TtlContainers, default_ttl: object) -> None:
    container = containers.make(default_ttl)  # T-010
    container.create("plain")
    sent = container.body("dated", 20, note="kept")
    assert sent.items() <= container.post(sent).json.items()
    assert sent.items() <= container.read("dated").json.items()
    assert "ttl" not in container.read("plain").json
    assert container.query("SELECT c.ttl FROM c WHERE c.id = 'dated'") == [{"ttl": 20}]
    assert container.query("SELECT c.ttl FROM c WHERE c.id = 'plain'") == [{}]
    assert container.query("SELECT VALUE c.id FROM c WHERE c.ttl > 19 AND c.ttl < 21") == ["dated"]
    assert container.query("SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.ttl)") == ["plain"]


def test_a_definition_names_default_ttl_only_while_it_is_on(containers: TtlContainers) -> None:
    assert "defaultTtl" not in containers.post(name="off").json  # T-011
    assert "defaultTtl" not in containers.post(None, name="null").json
    reply = containers.post(10, name="on")
    assert reply.json["defaultTtl"] == 10
    container = TtlContainer(containers.raw, containers.clock, f"{containers.database}/colls/on")
    for wanted in (-1, 10, None, 10, ABSENT):
        answers = (
            container.set_default(wanted).json,
            container.definition(),
            listed_definition(container),
        )
        for body in answers:
            assert body.get("defaultTtl", ABSENT) == (ABSENT if wanted is None else wanted)


def listed_definition(container: TtlContainer) -> dict[str, Any]:
    parent, name = container.path.rsplit("/", 1)
    bodies: list[dict[str, Any]] = container.raw.get(parent).json["DocumentCollections"]
    return next(body for body in bodies if body["id"] == name)


def test_minus_one_leaves_lifetimes_to_the_items(containers: TtlContainers) -> None:
    container = containers.make(-1)  # T-012
    container.create("plain")
    container.create("dated", 2)
    container.clock.advance(2)
    assert container.seen("plain", "dated") == {"plain"}
    assert_gone(container.read("dated"))
