"""A server process that is killed during the purge (T-136, T-137)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.figures import container_metrics
from tests.support.purging import (
    DatedItem,
    Disk,
    backlog,
    container_at,
    examine,
    process,
    store_items,
)
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainer, assert_gone
from tests.support.waiting import until

UNIQUE = {"uniqueKeys": [{"paths": ["/mark"]}]}
# T-136, T-137: kill -9


def prepare(settings: Settings, expired: int, alive: int) -> None:
    """Fills a store with live items and with those long expired, in the order of their ids."""
    clock = frozen_clock()
    now = int(clock.now())

    async def load() -> None:
        async with container_at(settings, clock, 100, uniqueKeyPolicy=UNIQUE) as (account, place):
            # Every other one expires by the default, the rest by a ttl of their own, all in turn.
            kept = [
                DatedItem(f"d{number:06}", now - 900_000 + number, None if number % 2 else 100)
                for number in range(expired)
            ]
            await store_items(account, place, kept)
            await store_items(
                account, place, [DatedItem(f"l{n:06}", now, 1_000_000) for n in range(alive)]
            )

    asyncio.run(load())


def check_disk(disk: Disk, expired: int, alive: int) -> int:
    """Nothing half done: how many expired items are left; they must be those that expired last."""
    assert disk.verdict == "ok"  # each index has an entry for each item and no other
    assert disk.counted == (disk.items, disk.size)
    assert disk.entries == disk.numbers  # of the unique keys
    left = disk.items - alive
    assert disk.ids[:left] == [f"d{number:06}" for number in range(expired - left, expired)]
    assert disk.ids[left:] == [f"l{number:06}" for number in range(alive)]
    return left


def has_begun(raw: RawClient, expired: int) -> Callable[[], bool]:
    return lambda: backlog(raw) < expired


@pytest.mark.slow
@pytest.mark.only_on("sqlite", reason="looks into the file")
def test_kill_during_the_purge(place: Place) -> None:
    """Three times kill -9 in the middle; each run goes on where the last one ended."""
    expired, alive = 12_000, 500
    settings = place.lasting()
    prepare(settings, expired, alive)
    left = expired
    pace = ("--durability", "normal", "--sweep-pace", "1")
    for _ in range(3):
        with process(settings, *pace) as server:
            until(has_begun(server.raw, left))
        remaining = check_disk(examine(settings.data), expired, alive)
        assert remaining < left
        left = remaining
    assert left > 0, "the purge was over before the kill; give it more to do"
    with process(settings, *pace) as server:
        until(lambda: backlog(server.raw) == 0)
        # Each was removed once: the durable counter has them all, over all runs and kills.
        figures = container_metrics(server.raw)
        assert figures["purgedTotal"] == expired
        assert figures["live"]["items"] == alive
        container = TtlContainer(server.raw, MovableClock(), "/dbs/d/colls/c")
        assert container.counted() == alive
        assert_gone(container.read("d000000"))
        assert_gone(container.read(f"d{expired - 1:06}"))
        assert container.read("l000000").status == 200
        # Unique values of expired items are free, those of live items are not.
        assert container.post(container.body("new", mark="d000000")).status == 201
        assert container.post(container.body("newer", mark="l000000")).status == 409
        assert server.stop(signal.SIGTERM)[0] == 0
    assert check_disk_after(examine(settings.data)) == alive + 1


def check_disk_after(disk: Disk) -> int:
    assert disk.verdict == "ok"
    assert disk.counted == (disk.items, disk.size)
    assert disk.entries == disk.numbers
    return disk.items
