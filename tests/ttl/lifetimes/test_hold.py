"""The purge hold: expired items stay on disk for a while."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainers, assert_gone
from tests.ttl.lifetimes.admin import change, configure, crowd, status, undo

# T-306: hold


def test_hold_keeps_expired_items_on_disk(containers: TtlContainers) -> None:
    container = containers.make(-1)
    assert configure(container, purgeHoldSeconds=60)["purgeHoldSeconds"] == 60
    container.create("a", 10)
    start = containers.now
    for second in (10, 11, 40, 69):
        container.clock.set(start + second)
        assert_gone(container.read("a"))  # visibility is not affected
        assert container.drain() == 0
        assert status(container)["pendingPurge"]["items"] == 1
    container.clock.set(start + 70)
    assert container.drain() == 1
    assert status(container)["pendingPurge"]["items"] == 0


@pytest.mark.parametrize(
    ("old", "new", "killed"), [(-1, 30, 4), (None, 30, 4), (1000, 30, 4), (1000, 60, 4)]
)
def test_hold_counts_from_the_change_that_expired_the_items(
    containers: TtlContainers, old: int | None, new: int, killed: int
) -> None:
    container = crowd(containers)
    change(container, old)
    configure(container, purgeHoldSeconds=60)
    change(container, new)
    assert status(container)["pendingPurge"]["items"] == killed
    container.clock.advance(59)
    assert container.drain() == 0
    assert undo(container)["restored"]["items"] == killed
    assert container.counted() == killed
    change(container, new)
    container.clock.advance(60)
    assert container.drain() == killed


def test_hold_keeps_through_a_second_change(containers: TtlContainers) -> None:
    """Switching off within the hold does not set free what the first change killed."""
    container = crowd(containers)
    configure(container, purgeHoldSeconds=60)
    change(container, 30)
    container.clock.advance(30)
    change(container, None)
    container.clock.advance(29)
    assert container.drain() == 0
    container.clock.advance(31)
    assert container.drain() == 4


def test_a_hold_counts_from_the_change_however_it_is_set(containers: TtlContainers) -> None:
    """Longer, shorter or set only afterwards: those whom the change killed have it in full."""
    container = crowd(containers)
    container.clock.advance(5000)  # what was written so long ago would have expired before any hold
    change(container, 30)
    container.clock.advance(10)
    configure(container, purgeHoldSeconds=60)
    assert container.drain() == 0
    container.clock.advance(49)
    configure(container, purgeHoldSeconds=1000)
    container.clock.advance(900)
    assert container.drain() == 0
    assert undo(container)["restored"]["items"] == 4
    change(container, 30)
    configure(container, purgeHoldSeconds=60)
    container.clock.advance(59)
    assert container.drain() == 0
    container.clock.advance(1)
    assert container.drain() == 4


def test_an_undo_keeps_the_hold_for_items_that_stay_expired(containers: TtlContainers) -> None:
    """Two changes kill, the second is undone: those of the first are held as before."""
    container = crowd(containers)
    container.clock.advance(5000)
    container.create("young")
    configure(container, purgeHoldSeconds=60)
    change(container, 30)
    container.clock.advance(5)
    change(container, 2)
    assert undo(container)["restored"]["items"] == 1
    assert container.drain() == 0
    assert status(container)["pendingPurge"]["items"] == 4
    container.clock.advance(60)
    assert container.drain() == 4


def test_whom_an_undo_kills_is_held(containers: TtlContainers) -> None:
    """Back from off to a default: what is too old by now has just expired."""
    container = containers.make(30)
    configure(container, purgeHoldSeconds=60)
    container.create("a")
    change(container, None)
    container.clock.advance(1000)
    undo(container)
    assert_gone(container.read("a"))
    container.clock.advance(59)
    assert container.drain() == 0
    container.clock.advance(1)
    assert container.drain() == 1


def test_no_restored_item_is_purged(place: Place) -> None:
    """T-122 with a hold: what could be removed before the change may be alive after it."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, revive_unpurged=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = TtlContainers(raw, clock, "/dbs/d").make(10)
        configure(container, purgeHoldSeconds=60)
        container.create("a")
        clock.advance(100)
        change(container, None)
        assert container.seen("a") == {"a"}
        assert container.drain() == 0
        assert container.seen("a") == {"a"}


def test_hold_ends_when_it_is_lifted(containers: TtlContainers) -> None:
    container = containers.make(10)
    configure(container, purgeHoldSeconds=1000)
    container.create("a")
    container.clock.advance(10)
    assert container.drain() == 0
    configure(container, purgeHoldSeconds=0)
    assert container.drain() == 1


def test_recreating_is_possible_during_the_hold(containers: TtlContainers) -> None:
    container = containers.make(10)
    configure(container, purgeHoldSeconds=1000)
    container.create("a")
    container.clock.advance(10)
    container.create("a")
    figures = status(container)
    assert (figures["live"]["items"], figures["pendingPurge"]["items"]) == (1, 0)


@pytest.mark.parametrize("seconds", [-1, 1.5, "60", True, None, 2**31 + 1])
def test_holds_that_are_none(containers: TtlContainers, seconds: Any) -> None:
    container = containers.make(10)
    reply = container.raw.put(container.admin, {"purgeHoldSeconds": seconds})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert status(container)["purgeHoldSeconds"] == 0


def test_unknown_settings_are_refused(containers: TtlContainers) -> None:
    container = containers.make(10)
    reply = container.raw.put(container.admin, {"purgeHoldSeconds": 5, "hold": 5})
    assert reply.status == 400
    assert "'hold'" in reply.json["message"]
    assert status(container)["purgeHoldSeconds"] == 0


def test_settings_not_named_stay(containers: TtlContainers) -> None:
    container = containers.make(10)
    configure(container, purgeHoldSeconds=5, guard="10%")
    configure(container, guard="20%")
    assert status(container)["purgeHoldSeconds"] == 5
    change(container, 20)  # nor does a replace of the container touch them
    figures = status(container)
    assert (figures["purgeHoldSeconds"], figures["guard"]) == (5, "20%")
