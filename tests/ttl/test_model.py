"""The model: two levels, seconds counted from `_ts`, every write a new beginning (T-001 … T-012).

T-006 (one `_ts` for a transaction) is covered where batches are tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.raw import Reply
from tests.support.ttl_containers import ABSENT, Shelf, Shelves, assert_gone

Act = Callable[[Shelf, dict[str, Any]], Reply]


def test_the_container_and_the_item_are_the_two_levels(shelves: Shelves) -> None:
    orders = shelves.make(60)  # T-001
    start = shelves.now
    orders.create("inherits")
    orders.create("own", 10)
    orders.clock.set(start + 10)
    assert orders.seen("inherits", "own") == {"inherits"}
    orders.clock.set(start + 60)
    assert orders.seen("inherits", "own") == set()


def test_a_lifetime_is_counted_in_seconds_from_ts(shelves: Shelves) -> None:
    shelf = shelves.make(-1)  # T-002
    ts = shelf.create("a", 10)["_ts"]
    assert ts == shelves.now
    shelf.clock.set(ts + 9)
    assert shelf.seen("a") == {"a"}
    shelf.clock.set(ts + 10)
    assert shelf.seen("a") == set()


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 0.999])
def test_ts_is_the_whole_second_of_the_write(shelves: Shelves, fraction: float) -> None:
    second = shelves.now + 1  # T-003
    shelf = shelves.make(10)
    stored = shelf.create("a", at=second + fraction)
    assert stored["_ts"] == second
    assert type(stored["_ts"]) is int
    assert shelf.read("a").json == stored
    assert shelf.query("SELECT VALUE c._ts FROM c") == [second]


WRITES: dict[str, Act] = {
    "replace": lambda shelf, body: shelf.replace("a", body),
    "upsert": lambda shelf, body: shelf.post(body, upsert="true"),
}


@pytest.mark.parametrize("write", ["create", *WRITES])
def test_a_ts_sent_by_the_client_is_ignored(shelves: Shelves, write: str) -> None:
    shelf = shelves.make(10)  # T-003
    body = shelf.body("a", _ts=1)
    reply = shelf.post(body)
    if write != "create":
        shelf.clock.advance(3)
        reply = WRITES[write](shelf, body)
    assert reply.status == (201 if write == "create" else 200)
    assert reply.json["_ts"] == shelves.now
    assert shelf.read("a").json["_ts"] == shelves.now


@pytest.mark.parametrize("act", WRITES.values(), ids=list(WRITES))
def test_every_write_restarts_the_countdown(shelves: Shelves, act: Act) -> None:
    shelf = shelves.make(10)  # T-004
    start = shelves.now
    first = shelf.create("a", note="same")
    shelf.clock.set(start + 8)
    reply = act(shelf, first)  # changes nothing
    assert (reply.status, reply.json["_ts"]) == (200, start + 8)
    assert reply.json["note"] == "same"
    shelf.clock.set(start + 15)
    assert shelf.seen("a") == {"a"}
    shelf.clock.set(start + 17)
    assert shelf.seen("a") == {"a"}
    shelf.clock.set(start + 18)
    assert shelf.seen("a") == set()


# Name -> expected status, request. None of these is a write that succeeded.
NO_WRITES: dict[str, tuple[int, Act]] = {
    "read": (200, lambda shelf, item: shelf.read("a")),
    "read, 304": (304, lambda shelf, item: shelf.read("a", if_none_match=item["_etag"])),
    "query": (200, lambda shelf, item: shelf.raw.query(f"{shelf.path}/docs", "SELECT * FROM c")),
    "feed": (200, lambda shelf, item: shelf.raw.get(f"{shelf.path}/docs")),
    "create, 409": (409, lambda shelf, item: shelf.post(item)),
    "create, 400": (400, lambda shelf, item: shelf.post(item | {"ttl": 0})),
    "replace, 400": (400, lambda shelf, item: shelf.replace("a", item | {"ttl": 0})),
    "upsert, 400": (400, lambda shelf, item: shelf.post(item | {"ttl": 0}, upsert="true")),
    "replace, 412": (412, lambda shelf, item: shelf.replace("a", item, if_match='"stale"')),
    "upsert, 412": (412, lambda shelf, item: shelf.post(item, upsert="true", if_match='"stale"')),
    "delete, 412": (412, lambda shelf, item: shelf.delete("a", if_match='"stale"')),
    "replace, 409": (409, lambda shelf, item: shelf.replace("a", item | {"code": 2})),
}


@pytest.mark.parametrize(("status", "act"), NO_WRITES.values(), ids=list(NO_WRITES))
def test_only_successful_writes_touch_ts(shelves: Shelves, status: int, act: Act) -> None:
    unique = {"uniqueKeys": [{"paths": ["/code"]}]}  # T-005
    shelf = shelves.make(10, uniqueKeyPolicy=unique)
    start = shelves.now
    item = shelf.create("a", code=1)
    shelf.create("b", -1, code=2)
    shelf.clock.set(start + 9)
    assert act(shelf, item).status == status
    assert shelf.read("a").json == item
    shelf.clock.set(start + 10)
    assert shelf.seen("a", "b") == {"b"}


def test_ttl_is_off_unless_asked_for(shelves: Shelves) -> None:
    shelf = shelves.make()  # T-007
    shelf.create("plain")
    shelf.create("dated", 1)
    shelf.clock.advance(10_000)
    assert shelf.seen("plain", "dated") == {"plain", "dated"}


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
def test_only_a_root_property_named_ttl_counts(shelves: Shelves, rest: dict[str, Any]) -> None:
    shelf = shelves.make(-1)  # T-008, T-009
    stored = shelf.create("a", **rest)
    shelf.clock.advance(5)
    assert shelf.seen("a") == {"a"}
    assert shelf.read("a").json == stored
    assert rest.items() <= stored.items()


@pytest.mark.parametrize("default_ttl", [ABSENT, -1, 60], ids=["off", "-1", "60"])
def test_ttl_is_an_ordinary_property_too(shelves: Shelves, default_ttl: object) -> None:
    shelf = shelves.make(default_ttl)  # T-010
    shelf.create("plain")
    sent = shelf.body("dated", 20, note="kept")
    assert sent.items() <= shelf.post(sent).json.items()
    assert sent.items() <= shelf.read("dated").json.items()
    assert "ttl" not in shelf.read("plain").json
    assert shelf.query("SELECT c.ttl FROM c WHERE c.id = 'dated'") == [{"ttl": 20}]
    assert shelf.query("SELECT c.ttl FROM c WHERE c.id = 'plain'") == [{}]
    assert shelf.query("SELECT VALUE c.id FROM c WHERE c.ttl > 19 AND c.ttl < 21") == ["dated"]
    assert shelf.query("SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.ttl)") == ["plain"]


def test_a_definition_names_default_ttl_only_while_it_is_on(shelves: Shelves) -> None:
    assert "defaultTtl" not in shelves.post(name="off").json  # T-011
    assert "defaultTtl" not in shelves.post(None, name="null").json
    reply = shelves.post(10, name="on")
    assert reply.json["defaultTtl"] == 10
    shelf = Shelf(shelves.raw, shelves.clock, f"{shelves.database}/colls/on")
    for wanted in (-1, 10, None, 10, ABSENT):
        answers = shelf.set_default(wanted).json, shelf.definition(), listed_definition(shelf)
        for body in answers:
            assert body.get("defaultTtl", ABSENT) == (ABSENT if wanted is None else wanted)


def listed_definition(shelf: Shelf) -> dict[str, Any]:
    parent, name = shelf.path.rsplit("/", 1)
    bodies: list[dict[str, Any]] = shelf.raw.get(parent).json["DocumentCollections"]
    return next(body for body in bodies if body["id"] == name)


def test_minus_one_leaves_lifetimes_to_the_items(shelves: Shelves) -> None:
    shelf = shelves.make(-1)  # T-012
    shelf.create("plain")
    shelf.create("dated", 2)
    shelf.clock.advance(2)
    assert shelf.seen("plain", "dated") == {"plain"}
    assert_gone(shelf.read("dated"))
