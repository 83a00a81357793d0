"""The guard that refuses a TTL change that would expire too many items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perseid.service.lifetimes.preview import parse_guard
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.lifetimes.admin import audit, change, configure, crowd, preview, status


@pytest.mark.parametrize(
    ("guard", "is_refused"),
    [
        ("0", True), ("3", True), ("4", False), ("500", False),
        ("0%", True), ("50%", True), ("99.9%", True), ("100%", False), (3, True), (None, False),
    ],
)  # fmt: skip
def test_the_guard_of_a_container(shelves: Shelves, guard: Any, is_refused: bool) -> None:
    """Four of four would die."""
    shelf = crowd(shelves)
    configure(shelf, guard=guard)
    told = preview(shelf, 30)
    reply = change(shelf, 30)
    if not is_refused:
        assert reply.status == 200
        assert shelf.counted() == 0
        return
    assert (reply.status, reply.json["code"]) == (412, "PreconditionFailed")
    assert reply.json["preview"] == told
    assert "would expire 4 items immediately" in reply.json["message"]
    assert shelf.counted() == 4
    assert shelf.definition()["defaultTtl"] == -1
    assert status(shelf)["policyChanges"] == 0
    assert not [entry for entry in audit(shelf) if entry["event"] == "policy"]


def test_a_percentage_is_of_live_items(shelves: Shelves) -> None:
    """Two would die of the four living; two more are dead already and count for nothing."""
    shelf = shelves.make(-1)
    for id_ in ("d0", "d1"):
        shelf.create(id_, 5)
    for id_ in ("a0", "a1"):
        shelf.create(id_)
    shelf.clock.advance(60)
    for id_ in ("b0", "b1"):
        shelf.create(id_)
    configure(shelf, guard="49%")
    assert change(shelf, 30).status == 412
    configure(shelf, guard="50%")
    assert change(shelf, 30).status == 200


@pytest.mark.parametrize("default_ttl", [61, 1000, -1, None])
def test_the_guard_lets_harmless_changes_pass(shelves: Shelves, default_ttl: int | None) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    assert change(shelf, default_ttl).status == 200


def test_the_guard_lets_other_replaces_pass(shelves: Shelves) -> None:
    """Only a change of defaultTtl is judged, not what time kills under the present one."""
    shelf = shelves.make(10)
    shelf.create("a")
    configure(shelf, guard="0")
    shelf.clock.advance(10)
    assert change(shelf, 10).status == 200


def test_switching_on_is_guarded_too(shelves: Shelves) -> None:
    shelf = shelves.make()
    shelf.create("a", 5)
    shelf.clock.advance(5)
    configure(shelf, guard="0")
    assert change(shelf, -1).status == 412
    assert shelf.read("a").status == 200


@pytest.mark.parametrize("source", ["preview", "refusal"])
def test_the_confirmation_token_opens_the_guard(shelves: Shelves, source: str) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    told = preview(shelf, 30) if source == "preview" else change(shelf, 30).json["preview"]
    assert change(shelf, 30, x_perseid_confirm=told["confirmationToken"]).status == 200
    assert shelf.counted() == 0


def tampered(token: str) -> str:
    return ("A" if token[0] != "A" else "B") + token[1:]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda shelf: preview(shelf, 31)["confirmationToken"],
        lambda shelf: preview(shelf, None)["confirmationToken"],
        lambda shelf: tampered(preview(shelf, 30)["confirmationToken"]),
        lambda shelf: "yes",
        lambda shelf: "",
    ],
    ids=["other value", "off", "tampered", "word", "empty"],
)
def test_another_token_does_not_open_it(shelves: Shelves, wrong: Callable[[Shelf], str]) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    reply = change(shelf, 30, x_perseid_confirm=wrong(shelf))
    assert reply.status in (400, 412)
    assert shelf.counted() == 4
    assert shelf.definition()["defaultTtl"] == -1


def test_a_token_is_for_one_container_and_one_state_of_it(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    other = shelves.make(-1, name="other")
    foreign = preview(other, 30)["confirmationToken"]
    assert change(shelf, 30, x_perseid_confirm=foreign).status in (400, 412)
    stale = preview(shelf, 30)["confirmationToken"]
    assert change(shelf, 1000).status == 200
    assert change(shelf, 30, x_perseid_confirm=stale).status in (400, 412)
    assert shelf.counted() == 4


@pytest.mark.parametrize("guard", ["", "-1", "ten", "10 %", "%", "1e3", "500%%", True, [], {}])
def test_guards_that_are_none(shelves: Shelves, guard: Any) -> None:
    shelf = shelves.make(-1)
    reply = shelf.raw.put(shelf.admin, {"guard": guard})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert status(shelf)["guard"] is None


def test_the_guard_is_off_by_default(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    assert status(shelf)["guard"] is None
    assert change(shelf, 1).status == 200


def test_the_guard_of_the_server(place: Place) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, expiry_guard="2"), clock) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        shelves = Shelves(raw, clock, "/dbs/d")
        shelf = crowd(shelves)
        refusal = change(shelf, 30)
        assert refusal.status == 412
        assert refusal.json["preview"]["expiresNow"]["items"] == 4
        # A container's own guard goes before the server's.
        configure(shelf, guard="4")
        assert change(shelf, 30).status == 200


def test_the_guard_stays_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"))
        configure(shelf, guard="3", purgeHoldSeconds=60)
        token = preview(shelf, 30)["confirmationToken"]
    with serving(settings, clock) as raw:
        again = replace(shelf, raw=raw)
        assert (status(again)["guard"], status(again)["purgeHoldSeconds"]) == ("3", 60)
        assert change(again, 30).status == 412
        assert change(again, 30, x_perseid_confirm=token).status == 200


@pytest.mark.parametrize(
    ("text", "living", "limit"),
    [
        ("5", 100, 5),
        ("5%", 200, 10),
        ("0.5%", 1000, 5),
        ("100%", 7, 7),
        ("25%", 116, 29),
        ("10%", 0, 0),
    ],
)
def test_guards_in_numbers(text: str, living: int, limit: float) -> None:
    assert parse_guard(text, living) == limit
