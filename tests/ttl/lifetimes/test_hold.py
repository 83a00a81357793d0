"""The purge hold: expired items stay on disk for a while."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import Shelves, assert_gone
from tests.ttl.lifetimes.admin import change, configure, crowd, status, undo

# T-306: hold


def test_hold_keeps_expired_items_on_disk(shelves: Shelves) -> None:
    shelf = shelves.make(-1)
    assert configure(shelf, purgeHoldSeconds=60)["purgeHoldSeconds"] == 60
    shelf.create("a", 10)
    start = shelves.now
    for second in (10, 11, 40, 69):
        shelf.clock.set(start + second)
        assert_gone(shelf.read("a"))  # visibility is not affected
        assert shelf.drain() == 0
        assert status(shelf)["pendingPurge"]["items"] == 1
    shelf.clock.set(start + 70)
    assert shelf.drain() == 1
    assert status(shelf)["pendingPurge"]["items"] == 0


@pytest.mark.parametrize(
    ("old", "new", "killed"), [(-1, 30, 4), (None, 30, 4), (1000, 30, 4), (1000, 60, 4)]
)
def test_hold_counts_from_the_change_that_expired_the_items(
    shelves: Shelves, old: int | None, new: int, killed: int
) -> None:
    shelf = crowd(shelves)
    change(shelf, old)
    configure(shelf, purgeHoldSeconds=60)
    change(shelf, new)
    assert status(shelf)["pendingPurge"]["items"] == killed
    shelf.clock.advance(59)
    assert shelf.drain() == 0
    assert undo(shelf)["restored"]["items"] == killed
    assert shelf.counted() == killed
    change(shelf, new)
    shelf.clock.advance(60)
    assert shelf.drain() == killed


def test_hold_keeps_through_a_second_change(shelves: Shelves) -> None:
    """Switching off within the hold does not set free what the first change killed."""
    shelf = crowd(shelves)
    configure(shelf, purgeHoldSeconds=60)
    change(shelf, 30)
    shelf.clock.advance(30)
    change(shelf, None)
    shelf.clock.advance(29)
    assert shelf.drain() == 0
    shelf.clock.advance(31)
    assert shelf.drain() == 4


def test_a_hold_counts_from_the_change_however_it_is_set(shelves: Shelves) -> None:
    """Longer, shorter or set only afterwards: those whom the change killed have it in full."""
    shelf = crowd(shelves)
    shelf.clock.advance(5000)  # who was written so long ago would have died before any hold
    change(shelf, 30)
    shelf.clock.advance(10)
    configure(shelf, purgeHoldSeconds=60)
    assert shelf.drain() == 0
    shelf.clock.advance(49)
    configure(shelf, purgeHoldSeconds=1000)
    shelf.clock.advance(900)
    assert shelf.drain() == 0
    assert undo(shelf)["restored"]["items"] == 4
    change(shelf, 30)
    configure(shelf, purgeHoldSeconds=60)
    shelf.clock.advance(59)
    assert shelf.drain() == 0
    shelf.clock.advance(1)
    assert shelf.drain() == 4


def test_an_undo_keeps_the_hold_for_items_that_stay_expired(shelves: Shelves) -> None:
    """Two changes kill, the second is undone: those of the first are held as before."""
    shelf = crowd(shelves)
    shelf.clock.advance(5000)
    shelf.create("young")
    configure(shelf, purgeHoldSeconds=60)
    change(shelf, 30)
    shelf.clock.advance(5)
    change(shelf, 2)
    assert undo(shelf)["restored"]["items"] == 1
    assert shelf.drain() == 0
    assert status(shelf)["pendingPurge"]["items"] == 4
    shelf.clock.advance(60)
    assert shelf.drain() == 4


def test_whom_an_undo_kills_is_held(shelves: Shelves) -> None:
    """Back from off to a default: whoever is too old by now has just died."""
    shelf = shelves.make(30)
    configure(shelf, purgeHoldSeconds=60)
    shelf.create("a")
    change(shelf, None)
    shelf.clock.advance(1000)
    undo(shelf)
    assert_gone(shelf.read("a"))
    shelf.clock.advance(59)
    assert shelf.drain() == 0
    shelf.clock.advance(1)
    assert shelf.drain() == 1


def test_no_restored_item_is_purged(place: Place) -> None:
    """T-122 with a hold: what could be removed before the change may be alive after it."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, revive_unpurged=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = Shelves(raw, clock, "/dbs/d").make(10)
        configure(shelf, purgeHoldSeconds=60)
        shelf.create("a")
        clock.advance(100)
        change(shelf, None)
        assert shelf.seen("a") == {"a"}
        assert shelf.drain() == 0
        assert shelf.seen("a") == {"a"}


def test_hold_ends_when_it_is_lifted(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    configure(shelf, purgeHoldSeconds=1000)
    shelf.create("a")
    shelf.clock.advance(10)
    assert shelf.drain() == 0
    configure(shelf, purgeHoldSeconds=0)
    assert shelf.drain() == 1


def test_recreating_is_possible_during_the_hold(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    configure(shelf, purgeHoldSeconds=1000)
    shelf.create("a")
    shelf.clock.advance(10)
    shelf.create("a")
    figures = status(shelf)
    assert (figures["live"]["items"], figures["pendingPurge"]["items"]) == (1, 0)


@pytest.mark.parametrize("seconds", [-1, 1.5, "60", True, None, 2**31 + 1])
def test_holds_that_are_none(shelves: Shelves, seconds: Any) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.put(shelf.admin, {"purgeHoldSeconds": seconds})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert status(shelf)["purgeHoldSeconds"] == 0


def test_unknown_settings_are_refused(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.put(shelf.admin, {"purgeHoldSeconds": 5, "hold": 5})
    assert reply.status == 400
    assert "'hold'" in reply.json["message"]
    assert status(shelf)["purgeHoldSeconds"] == 0


def test_settings_not_named_stay(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    configure(shelf, purgeHoldSeconds=5, guard="10%")
    configure(shelf, guard="20%")
    assert status(shelf)["purgeHoldSeconds"] == 5
    change(shelf, 20)  # nor does a replace of the container touch them
    figures = status(shelf)
    assert (figures["purgeHoldSeconds"], figures["guard"]) == (5, "20%")
