"""A server process that is killed during the purge (T-136, T-137)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.purging import (
    Disk,
    Kept,
    backlog,
    container_at,
    examine,
    process,
    stock,
    until,
)
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock
from tests.support.stores import Place
from tests.support.ttl_containers import Shelf, assert_gone

UNIQUE = {"uniqueKeys": [{"paths": ["/mark"]}]}
# T-136, T-137: kill -9


def prepare(settings: Settings, dead: int, alive: int) -> None:
    """Fills a store with the living and with those long dead, in the order of their ids."""
    clock = frozen_clock()
    now = int(clock.now())

    async def load() -> None:
        async with container_at(settings, clock, 100, uniqueKeyPolicy=UNIQUE) as (account, place):
            # Every other one dies of the default, the rest of a ttl of their own, all in turn.
            kept = [
                Kept(f"d{number:06}", now - 900_000 + number, None if number % 2 else 100)
                for number in range(dead)
            ]
            await stock(account, place, kept)
            await stock(account, place, [Kept(f"l{n:06}", now, 1_000_000) for n in range(alive)])

    asyncio.run(load())


def check_disk(disk: Disk, dead: int, alive: int) -> int:
    """Nothing half done: how many of the dead are left, which must be those who died last."""
    assert disk.verdict == "ok"  # each index has an entry for each item and no other
    assert disk.counted == (disk.items, disk.size)
    assert disk.entries == disk.numbers  # of the unique keys
    left = disk.items - alive
    assert disk.ids[:left] == [f"d{number:06}" for number in range(dead - left, dead)]
    assert disk.ids[left:] == [f"l{number:06}" for number in range(alive)]
    return left


def has_begun(raw: RawClient, dead: int) -> Callable[[], bool]:
    return lambda: backlog(raw) < dead


@pytest.mark.slow
@pytest.mark.only_on("sqlite", reason="looks into the file")
def test_kill_during_the_purge(place: Place) -> None:
    """Three times kill -9 in the middle; each run goes on where the last one ended."""
    dead, alive = 12_000, 500
    settings = place.lasting()
    prepare(settings, dead, alive)
    left = dead
    pace = ("--durability", "normal", "--sweep-pace", "1")
    for _ in range(3):
        with process(settings, *pace) as server:
            until(has_begun(server.raw, left))
        remaining = check_disk(examine(settings.data), dead, alive)
        assert remaining < left
        left = remaining
    assert left > 0, "the purge was over before the kill; give it more to do"
    with process(settings, *pace) as server:
        until(lambda: backlog(server.raw) == 0)
        # Each was removed once: the durable counter has them all, over all runs and kills.
        figures = server.raw.get("/_perseid/metrics.json").json["containers"][0]
        assert figures["purgedTotal"] == dead
        assert figures["live"]["items"] == alive
        shelf = Shelf(server.raw, MovableClock(), "/dbs/d/colls/c")
        assert shelf.counted() == alive
        assert_gone(shelf.read("d000000"))
        assert_gone(shelf.read(f"d{dead - 1:06}"))
        assert shelf.read("l000000").status == 200
        # What the dead held is free, what the living hold is not.
        assert shelf.post(shelf.body("new", mark="d000000")).status == 201
        assert shelf.post(shelf.body("newer", mark="l000000")).status == 409
        assert server.stop(signal.SIGTERM)[0] == 0
    assert check_disk_after(examine(settings.data)) == alive + 1


def check_disk_after(disk: Disk) -> int:
    assert disk.verdict == "ok"
    assert disk.counted == (disk.items, disk.size)
    assert disk.entries == disk.numbers
    return disk.items
