"""The guard that refuses a TTL change that would expire too many items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perseid.service.lifetimes.preview import parse_guard
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainer, TtlContainers
from tests.ttl.lifetimes.admin import audit, change, configure, crowd, preview, status


@pytest.mark.parametrize(
    ("guard", "is_refused"),
    [
        ("0", True), ("3", True), ("4", False), ("500", False),
        ("0%", True), ("50%", True), ("99.9%", True), ("100%", False), (3, True), (None, False),
    ],
)  # fmt: skip
def test_the_guard_of_a_container(containers: TtlContainers, guard: Any, is_refused: bool) -> None:
    """Four of four would expire."""
    container = crowd(containers)
    configure(container, guard=guard)
    told = preview(container, 30)
    reply = change(container, 30)
    if not is_refused:
        assert reply.status == 200
        assert container.counted() == 0
        return
    assert (reply.status, reply.json["code"]) == (412, "PreconditionFailed")
    assert reply.json["preview"] == told
    assert "would expire 4 items immediately" in reply.json["message"]
    assert container.counted() == 4
    assert container.definition()["defaultTtl"] == -1
    assert status(container)["policyChanges"] == 0
    assert not [entry for entry in audit(container) if entry["event"] == "policy"]


def test_a_percentage_is_of_live_items(containers: TtlContainers) -> None:
    """Two of the four live items would expire; two more are expired already and do not count."""
    container = containers.make(-1)
    for id_ in ("d0", "d1"):
        container.create(id_, 5)
    for id_ in ("a0", "a1"):
        container.create(id_)
    container.clock.advance(60)
    for id_ in ("b0", "b1"):
        container.create(id_)
    configure(container, guard="49%")
    assert change(container, 30).status == 412
    configure(container, guard="50%")
    assert change(container, 30).status == 200


@pytest.mark.parametrize("default_ttl", [61, 1000, -1, None])
def test_the_guard_lets_harmless_changes_pass(
    containers: TtlContainers, default_ttl: int | None
) -> None:
    container = crowd(containers)
    configure(container, guard="0")
    assert change(container, default_ttl).status == 200


def test_the_guard_lets_other_replaces_pass(containers: TtlContainers) -> None:
    """Only a change of defaultTtl is judged, not what time kills under the present one."""
    container = containers.make(10)
    container.create("a")
    configure(container, guard="0")
    container.clock.advance(10)
    assert change(container, 10).status == 200


def test_switching_on_is_guarded_too(containers: TtlContainers) -> None:
    container = containers.make()
    container.create("a", 5)
    container.clock.advance(5)
    configure(container, guard="0")
    assert change(container, -1).status == 412
    assert container.read("a").status == 200


@pytest.mark.parametrize("source", ["preview", "refusal"])
def test_the_confirmation_token_opens_the_guard(containers: TtlContainers, source: str) -> None:
    container = crowd(containers)
    configure(container, guard="0")
    told = preview(container, 30) if source == "preview" else change(container, 30).json["preview"]
    assert change(container, 30, x_perseid_confirm=told["confirmationToken"]).status == 200
    assert container.counted() == 0


def tampered(token: str) -> str:
    return ("A" if token[0] != "A" else "B") + token[1:]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda container: preview(container, 31)["confirmationToken"],
        lambda container: preview(container, None)["confirmationToken"],
        lambda container: tampered(preview(container, 30)["confirmationToken"]),
        lambda container: "yes",
        lambda container: "",
    ],
    ids=["other value", "off", "tampered", "word", "empty"],
)
def test_another_token_does_not_open_it(
    containers: TtlContainers, wrong: Callable[[TtlContainer], str]
) -> None:
    container = crowd(containers)
    configure(container, guard="0")
    reply = change(container, 30, x_perseid_confirm=wrong(container))
    assert reply.status in (400, 412)
    assert container.counted() == 4
    assert container.definition()["defaultTtl"] == -1


def test_a_token_is_for_one_container_and_one_state_of_it(containers: TtlContainers) -> None:
    container = crowd(containers)
    configure(container, guard="0")
    other = containers.make(-1, name="other")
    foreign = preview(other, 30)["confirmationToken"]
    assert change(container, 30, x_perseid_confirm=foreign).status in (400, 412)
    stale = preview(container, 30)["confirmationToken"]
    assert change(container, 1000).status == 200
    assert change(container, 30, x_perseid_confirm=stale).status in (400, 412)
    assert container.counted() == 4


@pytest.mark.parametrize("guard", ["", "-1", "ten", "10 %", "%", "1e3", "500%%", True, [], {}])
def test_guards_that_are_none(containers: TtlContainers, guard: Any) -> None:
    container = containers.make(-1)
    reply = container.raw.put(container.admin, {"guard": guard})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert status(container)["guard"] is None


def test_the_guard_is_off_by_default(containers: TtlContainers) -> None:
    container = crowd(containers)
    assert status(container)["guard"] is None
    assert change(container, 1).status == 200


def test_the_guard_of_the_server(place: Place) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, expiry_guard="2"), clock) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        containers = TtlContainers(raw, clock, "/dbs/d")
        container = crowd(containers)
        refusal = change(container, 30)
        assert refusal.status == 412
        assert refusal.json["preview"]["expiresNow"]["items"] == 4
        # A container's own guard goes before the server's.
        configure(container, guard="4")
        assert change(container, 30).status == 200


def test_the_guard_stays_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = crowd(TtlContainers(raw, clock, "/dbs/d"))
        configure(container, guard="3", purgeHoldSeconds=60)
        token = preview(container, 30)["confirmationToken"]
    with serving(settings, clock) as raw:
        again = replace(container, raw=raw)
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
