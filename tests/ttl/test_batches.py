"""Lifetimes in patches, batches and bulk requests (T-004 … T-006, T-058 … T-061, T-073, T-078 …
T-079, T-087, T-094, T-113)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.operations import codes
from tests.support.raw import Reply
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers, assert_gone

KEY: Final = '["p"]'
TOUCH: Final = [{"op": "set", "path": "/v", "value": 1}]
UNIQUE: Final = {"uniqueKeys": [{"paths": ["/email"]}]}


def patch_item(container: TtlContainer, id_: str, body: Any, **headers: str) -> Reply:
    return container.raw.patch(f"{container.path}/docs/{id_}", body, pk=KEY, **headers)


def batch(container: TtlContainer, *operations: Any) -> Reply:
    return container.raw.batch(container.path, list(operations), pk=KEY)


def bulk(container: TtlContainer, *operations: Any) -> Reply:
    return container.raw.batch(container.path, list(operations), atomic=False, pk=KEY)


def create_with_ttl(id_: str, ttl: object = ABSENT, **rest: Any) -> dict[str, Any]:
    body = {"id": id_, "pk": "p", **rest} | ({} if ttl is ABSENT else {"ttl": ttl})
    return {"operationType": "Create", "resourceBody": body}


def as_kind(kind: str, id_: str, ttl: object = ABSENT) -> dict[str, Any]:
    operation = create_with_ttl(id_, ttl) | {"operationType": kind, "id": id_}
    if kind == "Patch":
        operation["resourceBody"] = TOUCH
    if kind in ("Read", "Delete"):
        del operation["resourceBody"]
    return operation


def error_text(message: str) -> str:
    """The text in the envelope of a validator."""
    envelope = json.loads(message.partition("\r\n")[0].removeprefix("Message: "))
    (text,) = envelope["Errors"]
    assert isinstance(text, str)
    return text


# Every write is a new beginning ------------------------------------------------------------------


WRITES: Final[dict[str, Callable[[TtlContainer], Reply]]] = {
    "patch": lambda container: patch_item(container, "a", TOUCH),
    "patch of nothing new": lambda container: patch_item(
        container, "a", [{"op": "set", "path": "/pk2", "value": 1}]
    ),
    "batch replace": lambda container: batch(container, as_kind("Replace", "a")),
    "batch upsert": lambda container: batch(container, as_kind("Upsert", "a")),
    "batch patch": lambda container: batch(container, as_kind("Patch", "a")),
    "bulk replace": lambda container: bulk(container, as_kind("Replace", "a")),
    "bulk patch": lambda container: bulk(container, as_kind("Patch", "a")),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_restarts_the_countdown(containers: TtlContainers, write: str) -> None:
    container = containers.make(10)  # T-004
    ts = container.create("a", pk2=1)["_ts"]
    container.clock.set(ts + 8)
    assert WRITES[write](container).status == 200
    assert container.read("a").json["_ts"] == ts + 8
    container.clock.set(ts + 17)
    assert container.seen("a") == {"a"}
    container.clock.set(ts + 18)
    assert container.seen("a") == set()


STALE: Final = '"00000000-0000-0000-0000-000000000000"'
FAILURES: Final[dict[str, Callable[[TtlContainer], Reply]]] = {
    "patch condition": lambda container: patch_item(
        container, "a", {"operations": TOUCH, "condition": "from c where false"}
    ),
    "patch etag": lambda container: patch_item(container, "a", TOUCH, if_match=STALE),
    "patch operation": lambda container: patch_item(
        container, "a", [{"op": "remove", "path": "/no"}]
    ),
    "patched ttl": lambda container: patch_item(
        container, "a", [{"op": "set", "path": "/ttl", "value": 0}]
    ),
    "batch read": lambda container: batch(container, as_kind("Read", "a")),
    "batch rolled back": lambda container: batch(
        container, as_kind("Replace", "a", 99), as_kind("Delete", "no")
    ),
    "batch bad ttl": lambda container: batch(
        container, as_kind("Patch", "a"), create_with_ttl("b", 0)
    ),
    "bulk etag": lambda container: bulk(
        container, as_kind("Replace", "a", 99) | {"ifMatch": STALE}
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_what_fails_touches_nothing(containers: TtlContainers, failure: str) -> None:
    container = containers.make(10)  # T-005
    stored = container.create("a")
    container.clock.advance(8)
    FAILURES[failure](container)
    assert container.read("a").json == stored
    container.clock.advance(2)
    assert container.seen("a") == set()


def test_a_batch_has_one_ts_and_one_now(containers: TtlContainers) -> None:
    container = containers.make(10)  # T-006, T-036
    container.clock.set(containers.now + 1.999)
    reply = batch(
        container,
        create_with_ttl("a"),
        create_with_ttl("b", 5),
        as_kind("Patch", "a"),
        create_with_ttl("c"),
    )
    assert {entry["resourceBody"]["_ts"] for entry in reply.json} == {containers.now}
    assert {item["_ts"] for item in container.query("SELECT c._ts FROM c")} == {containers.now}


def test_a_batch_on_a_running_clock_has_one_ts(place: Place) -> None:
    """T-006: whatever second it began in, all of it is of that one."""
    clock = frozen_clock()
    clock.resume()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = TtlContainers(raw, clock, "/dbs/d").make(1000)
        for turn in range(20):
            reply = batch(
                container, *(create_with_ttl(f"{turn}-{number}") for number in range(100))
            )
            assert len({entry["resourceBody"]["_ts"] for entry in reply.json}) == 1


# Validation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -2, None, 1.5, "60", True, 2147483648, [], {}])
@pytest.mark.parametrize("kind", ["Create", "Upsert", "Replace"])
def test_a_bad_ttl_fails_its_batch(containers: TtlContainers, kind: str, value: object) -> None:
    container = containers.make(100)  # T-059, T-060, T-061
    container.create("there", 7)
    reply = batch(
        container, create_with_ttl("a"), as_kind(kind, "there", value), create_with_ttl("b")
    )
    assert (reply.status, codes(reply)) == (207, [424, 400, 424])
    assert f"The input ttl '{json.dumps(value)}' is invalid." in error_text(
        reply.json[1]["message"]
    )
    assert float(reply.headers["x-ms-request-charge"]) > 0
    assert container.seen("a", "b", "there") == {"there"}
    assert container.read("there").json["ttl"] == 7


def test_a_bad_ttl_fails_alone_in_bulk(containers: TtlContainers) -> None:
    container = containers.make(100)  # T-059
    reply = bulk(container, create_with_ttl("a"), create_with_ttl("b", 0), create_with_ttl("c", -1))
    assert codes(reply) == [201, 400, 201]
    assert container.seen("a", "b", "c") == {"a", "c"}


def test_ttl_is_checked_before_existence(containers: TtlContainers) -> None:
    container = containers.make(100)  # T-058
    container.create("a")
    assert codes(batch(container, create_with_ttl("a", 0))) == [400]
    assert codes(batch(container, as_kind("Replace", "no", 0))) == [400]


def test_with_ttl_off_a_relaxed_answer_keeps_any_value(containers: TtlContainers) -> None:
    container = containers.make()  # T-055, T-056
    never = [create_with_ttl("a", "never")]
    assert codes(container.raw.batch(container.path, never, pk=KEY, x_perseid_direct="true")) == [
        201
    ]
    other = [{"op": "set", "path": "/ttl", "value": [0]}]
    assert patch_item(container, "a", other, x_perseid_direct="true").status == 200
    assert container.set_default(5).status == 200
    assert patch_item(container, "a", TOUCH).status == 400  # what is written next must be valid
    assert patch_item(container, "a", [{"op": "set", "path": "/ttl", "value": 9}]).status == 200


# Expired items -----------------------------------------------------------------------------------


@pytest.fixture
def half_expired(containers: TtlContainers) -> TtlContainer:
    """A container with the items `expired` and `alive`, and no sweeper."""
    container = containers.make(-1)
    container.create("expired", 5, v=7)
    container.create("alive")
    container.clock.advance(5)
    return container


@pytest.mark.parametrize("condition", [None, "from c where true", "from c where c.v = 7"])
@pytest.mark.parametrize("if_match", [None, "*", STALE, "own"])
def test_expired_items_cannot_be_patched(
    containers: TtlContainers, condition: str | None, if_match: str | None
) -> None:
    container = containers.make(-1)  # T-073
    etag = container.create("expired", 5, v=7)["_etag"]
    container.clock.advance(5)
    headers = {} if if_match is None else {"if_match": etag if if_match == "own" else if_match}
    wanted = {"operations": TOUCH, "condition": condition}
    assert_gone(patch_item(container, "expired", wanted, **headers))
    # Not even one whose operations could not be done.
    assert_gone(patch_item(container, "expired", [{"op": "remove", "path": "/no"}], **headers))
    assert container.seen("expired") == set()


@pytest.mark.parametrize("kind", ["Read", "Replace", "Patch", "Delete"])
@pytest.mark.parametrize("etag", [None, "*", STALE])
def test_an_expired_item_fails_a_batch(
    half_expired: TtlContainer, kind: str, etag: str | None
) -> None:
    """T-078"""
    before = half_expired.read("alive").json
    operation = as_kind(kind, "expired") | ({} if etag is None else {"ifMatch": etag})
    reply = batch(half_expired, create_with_ttl("new"), as_kind("Replace", "alive"), operation)
    assert (reply.status, codes(reply)) == (207, [424, 424, 404])
    assert half_expired.seen("new", "expired", "alive") == {"alive"}
    assert half_expired.read("alive").json == before
    assert codes(bulk(half_expired, operation, as_kind("Read", "alive"))) == [404, 200]


@pytest.mark.parametrize("kind", ["Create", "Upsert"])
@pytest.mark.parametrize("send", [batch, bulk])
def test_expired_items_free_their_ids_in_a_batch(
    half_expired: TtlContainer, kind: str, send: Callable[..., Reply]
) -> None:
    """T-079"""
    first = as_kind(kind, "expired") | {"ifMatch": STALE}
    reply = send(
        half_expired,
        first,
        as_kind("Read", "expired"),
        as_kind("Patch", "expired"),
        create_with_ttl("expired"),
    )
    assert codes(reply) == ([424, 424, 424, 409] if send is batch else [201, 200, 200, 409])
    reply = batch(
        half_expired,
        as_kind("Upsert", "expired"),
        as_kind("Read", "expired"),
        as_kind("Patch", "expired"),
    )
    assert codes(reply) == [201 if send is batch else 200, 200, 200]
    found = half_expired.read("expired").json
    assert (found["v"], found.get("ttl")) == (1, None)
    assert half_expired.seen("expired", "alive") == {"expired", "alive"}


def test_a_rename_takes_the_id_of_an_expired_item(half_expired: TtlContainer) -> None:
    renamed = as_kind("Replace", "expired") | {"id": "alive"}
    assert codes(batch(half_expired, renamed, as_kind("Read", "expired"))) == [200, 200]
    assert half_expired.seen("expired", "alive") == {"expired"}


def test_an_id_that_a_rename_gives_up_is_free(half_expired: TtlContainer) -> None:
    renamed = as_kind("Replace", "expired") | {"id": "alive"}
    assert codes(batch(half_expired, renamed, create_with_ttl("alive"))) == [200, 201]
    assert half_expired.seen("expired", "alive") == {"expired", "alive"}


def test_rolling_back_leaves_expired_items_in_place(half_expired: TtlContainer) -> None:
    usage = half_expired.raw.get(half_expired.admin).json
    reply = batch(half_expired, create_with_ttl("expired"), create_with_ttl("alive"))
    assert codes(reply) == [424, 409]
    assert half_expired.seen("expired", "alive") == {"alive"}
    assert half_expired.raw.get(half_expired.admin).json == usage


# Unique keys -------------------------------------------------------------------------------------


def test_values_of_expired_items_are_free_in_a_batch(containers: TtlContainers) -> None:
    container = containers.make(-1, uniqueKeyPolicy=UNIQUE)  # T-087
    container.create("old", 5, email="x")
    container.create("older", 5, email="y")
    container.create("kept", email="z")
    container.clock.advance(5)
    reply = batch(
        container,
        create_with_ttl("new", email="x"),
        create_with_ttl("newer", email="y"),
        create_with_ttl("old", email="w"),
        as_kind("Delete", "new"),
        as_kind("Upsert", "kept") | {"resourceBody": {"id": "kept", "pk": "p", "email": "x"}},
    )
    assert codes(reply) == [201, 201, 201, 204, 200]
    assert container.seen("old", "older", "new", "newer", "kept") == {"old", "newer", "kept"}
    taken = batch(container, create_with_ttl("a", email="q"), create_with_ttl("b", email="x"))
    assert codes(taken) == [424, 409]
    wanted = [{"op": "set", "path": "/email", "value": "z"}]
    assert patch_item(container, "newer", wanted).status == 200  # given up by `kept`
    assert patch_item(container, "old", wanted).status == 409


def test_a_rolled_back_batch_takes_no_values(containers: TtlContainers) -> None:
    container = containers.make(-1, uniqueKeyPolicy=UNIQUE)  # T-087
    container.create("old", 5, email="x")
    container.clock.advance(5)
    assert codes(batch(container, create_with_ttl("a", email="x"), as_kind("Read", "no"))) == [
        424,
        404,
    ]
    assert container.post({"id": "b", "pk": "p", "email": "x"}).status == 201


def test_a_patch_takes_the_value_of_an_expired_item(containers: TtlContainers) -> None:
    container = containers.make(-1, uniqueKeyPolicy=UNIQUE)  # T-087
    container.create("old", 5, email="x")
    container.create("b", email="y")
    wanted = [{"op": "replace", "path": "/email", "value": "x"}]
    assert patch_item(container, "b", wanted).status == 409
    container.clock.advance(5)
    assert patch_item(container, "b", wanted).status == 200
    assert container.seen("old", "b") == {"b"}


# The size of a partition -------------------------------------------------------------------------


def test_a_batch_counts_what_it_has_written_itself(place: Place) -> None:
    """T-094: its own items take room, what it deletes gives room, expired items take none."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, partition_limit=2000), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = TtlContainers(raw, clock, "/dbs/d").make(10)

        def large(id_: str) -> dict[str, Any]:
            return create_with_ttl(id_, v="x" * 600)

        reply = batch(container, large("a"), large("b"), large("c"))
        assert codes(reply) == [424, 424, 403]
        assert reply.json[2]["subStatusCode"] == 1014
        assert codes(batch(container, large("a"), large("b"))) == [201, 201]
        assert codes(batch(container, large("c"))) == [403]
        assert codes(batch(container, as_kind("Delete", "a"), large("c"))) == [204, 201]
        assert codes(batch(container, as_kind("Replace", "b"), large("d"))) == [200, 201]
        assert codes(batch(container, large("e"), as_kind("Delete", "d"))) == [403, 424]
        clock.advance(10)
        assert codes(batch(container, large("a"), large("b"))) == [201, 201]
        assert container.seen("a", "b", "c", "d") == {"a", "b"}


# Patching a lifetime -----------------------------------------------------------------------------


PATCHES: Final = [
    # before, operation, ttl afterwards or ABSENT
    (20, {"op": "set", "path": "/ttl", "value": 40}, 40),
    (ABSENT, {"op": "set", "path": "/ttl", "value": 40}, 40),
    (20, {"op": "add", "path": "/ttl", "value": 40}, 40),
    (ABSENT, {"op": "add", "path": "/ttl", "value": -1}, -1),
    (20, {"op": "replace", "path": "/ttl", "value": -1}, -1),
    (20, {"op": "incr", "path": "/ttl", "value": 15}, 35),
    (20, {"op": "incr", "path": "/ttl", "value": -15}, 5),
    (20, {"op": "incr", "path": "/ttl", "value": -21}, -1),
    (20, {"op": "incr", "path": "/ttl", "value": 15.0}, 35),
    (ABSENT, {"op": "incr", "path": "/ttl", "value": 15}, 15),
    (20, {"op": "remove", "path": "/ttl"}, ABSENT),
    (20, {"op": "move", "from": "/ttl", "path": "/was"}, ABSENT),
    (20, {"op": "move", "from": "/w", "path": "/ttl"}, 33),
    (ABSENT, {"op": "move", "from": "/w", "path": "/ttl"}, 33),
    (20, {"op": "set", "path": "/TTL", "value": 0}, 20),
    (20, {"op": "set", "path": "/part/ttl", "value": 0}, 20),
]
PATCH_IDS: Final = range(len(PATCHES))


@pytest.mark.parametrize(("before", "operation", "after"), PATCHES, ids=PATCH_IDS)
@pytest.mark.parametrize("default", [10, -1])
def test_a_lifetime_can_be_patched(
    containers: TtlContainers, default: int, before: object, operation: dict[str, Any], after: Any
) -> None:
    container = containers.make(default)  # T-113
    container.create("a", before, w=33, part={})
    container.clock.advance(3)
    reply = patch_item(container, "a", [operation])
    assert reply.status == 200, reply
    assert reply.json.get("ttl", ABSENT) == after
    ts = reply.json["_ts"]
    assert ts == containers.now
    lifetime = default if after is ABSENT else after
    if lifetime == -1:
        container.clock.advance(1_000_000)
        assert container.seen("a") == {"a"}
    else:
        container.clock.set(ts + lifetime - 1)
        assert container.seen("a") == {"a"}
        container.clock.set(ts + lifetime)
        assert container.seen("a") == set()


BAD: Final = [
    ({"op": "incr", "path": "/ttl", "value": -20}, "0"),
    ({"op": "incr", "path": "/ttl", "value": -30}, "-10"),
    ({"op": "incr", "path": "/ttl", "value": 0.5}, "20.5"),
    ({"op": "incr", "path": "/ttl", "value": 2147483647}, "2147483667"),
    ({"op": "set", "path": "/ttl", "value": 0}, "0"),
    ({"op": "set", "path": "/ttl", "value": None}, "null"),
    ({"op": "set", "path": "/ttl", "value": "60"}, '"60"'),
    ({"op": "add", "path": "/ttl", "value": 2147483648}, "2147483648"),
    ({"op": "replace", "path": "/ttl", "value": -2}, "-2"),
    ({"op": "move", "from": "/w", "path": "/ttl"}, '"w"'),
    ({"op": "move", "from": "/part", "path": "/ttl"}, "{}"),
]


@pytest.mark.parametrize(("operation", "shown"), BAD, ids=range(len(BAD)))
def test_a_patched_lifetime_must_be_valid(
    containers: TtlContainers, operation: dict[str, Any], shown: str
) -> None:
    container = containers.make(10)  # T-113
    stored = container.create("a", 20, w="w", part={})
    container.clock.advance(3)
    reply = patch_item(container, "a", [{"op": "set", "path": "/v", "value": 1}, operation])
    assert reply.status == 400
    text = f"The input ttl '{shown}' is invalid."
    assert (
        text in json.loads(reply.json["message"].split("\r\n")[0][len("Message: ") :])["Errors"][0]
    )
    entry = batch(container, as_kind("Patch", "a") | {"resourceBody": [operation]}).json[0]
    assert entry["statusCode"] == 400
    assert text in error_text(entry["message"])
    assert container.read("a").json == stored


# Bulk and the purge ------------------------------------------------------------------------------


def test_what_a_batch_sweeps_is_counted_once(half_expired: TtlContainer) -> None:
    assert codes(batch(half_expired, create_with_ttl("expired"), as_kind("Delete", "expired"))) == [
        201,
        204,
    ]
    assert half_expired.seen("expired", "alive") == {"alive"}
    status = half_expired.raw.get(half_expired.admin).json
    assert status["purgedTotal"] == 1
    assert status["pendingPurge"]["items"] == 0
