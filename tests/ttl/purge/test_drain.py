"""Drain and the figures of the purge (T-313, T-314)."""

from __future__ import annotations

import asyncio

import pytest

from perseid.http import metrics
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.sqlite.files import DATABASE_FILE
from tests.support.builders import PARTITION_KEY
from tests.support.figures import container_metrics
from tests.support.purging import (
    DatedItem,
    backlog,
    container_at,
    examine,
    set_default_ttl,
    store_items,
)
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainer, TtlContainers, drain

# T-313: figures of the purge


def test_figures_of_the_purge(containers: TtlContainers) -> None:
    container = containers.make(10)
    for number in range(5):
        container.create(f"a{number}")
    container.create("alive", -1)
    container.clock.advance(10)

    before = container_metrics(container.raw, container.path)
    assert (before["expiredTotal"], before["purgedTotal"], before["purgedBytes"]) == (5, 0, 0)
    assert before["purgeCharge"] == 0
    container.drain()
    after = container_metrics(container.raw, container.path)
    assert (after["expiredTotal"], after["purgedTotal"]) == (5, 5)
    assert after["purgedBytes"] == before["pendingPurge"]["bytes"]
    assert after["live"] == before["live"]
    assert after["pendingPurge"] == {"items": 0, "bytes": 0}
    container.raw.delete(container.path)
    everything = container.raw.get("/_perseid/metrics.json").json["containers"]
    assert container.path not in {f"/{each['container']}" for each in everything}


# T-314: drain


def test_drain_of_one_container_leaves_the_others(
    containers: TtlContainers, raw: RawClient
) -> None:
    one, other = (containers.make(10, name=name) for name in ("one", "other"))
    for container in (one, other):
        for number in range(3):
            container.create(f"a{number}")
    containers.clock.advance(10)
    reply = raw.post(f"{one.admin}/drain", {})
    assert reply.json == {"purged": 3, "containers": {one.path.removeprefix("/"): 3}}
    assert (backlog(raw, one.admin), backlog(raw, other.admin)) == (0, 3)
    assert raw.post(f"{one.admin}/drain", {}).json == {"purged": 0, "containers": {}}
    everything = raw.post("/_perseid/ttl/drain", {}).json
    assert everything["containers"][other.path.removeprefix("/")] == 3
    assert everything["purged"] == sum(everything["containers"].values())
    assert backlog(raw, other.admin) == 0


def test_drain_takes_many_steps_and_ranges(containers: TtlContainers, raw: RawClient) -> None:
    body = {"id": "wide", "partitionKey": PARTITION_KEY, "defaultTtl": 10}
    assert raw.post(f"{containers.database}/colls", body, throughput="18000").status == 201
    container = TtlContainer(raw, containers.clock, f"{containers.database}/colls/wide")
    for number in range(90):
        container.create(f"a{number}", pk=f"p{number}")
    containers.clock.advance(10)
    assert container.drain() == 90
    assert backlog(raw, container.admin) == 0


def test_drain_right_after_a_change_removes_what_it_expired(place: Place) -> None:
    """Everything expired now, which includes what expired by the change of a moment ago."""

    async def scenario() -> dict[str, int]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, -1) as (account, container):
            long_ago = int(clock.now()) - 100
            await store_items(
                account, container, [DatedItem(f"a{n}", long_ago) for n in range(300)]
            )
            await set_default_ttl(account, 50)
            try:
                return await Sweeper(account).drain()
            finally:
                await asyncio.gather(*account.background)

    assert asyncio.run(scenario()) == {"dbs/d/colls/c": 300}


def test_the_count_of_a_change_is_complete_although_the_sweeper_is_at_work(place: Place) -> None:
    """The audit log's figures: nothing is removed before it has been counted."""

    async def scenario() -> int:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, -1) as (account, container):
            long_ago = int(clock.now()) - 100
            await store_items(
                account, container, [DatedItem(f"a{n}", long_ago) for n in range(2000)]
            )
            sweeper = Sweeper(account)
            running = asyncio.create_task(sweeper.run())
            await asyncio.sleep(0)
            for default_ttl in (90, 80, 70):  # by the second and third nothing expires
                await set_default_ttl(account, default_ttl)
                sweeper.wake()
            await asyncio.gather(*account.background)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            audit_entries = [
                note.entry
                for _, note in await account.stores.metadata.audit_entries(container.rid, 0, 100)
            ]
            counted = [
                note["expiredImmediately"]["items"]
                for note in audit_entries
                if note["event"] == "counts"
            ]
            assert len(counted) == 3
            return sum(counted)

    assert asyncio.run(scenario()) == 2000


@pytest.mark.only_on("sqlite", reason="PostgreSQL keeps the space and uses it again")
def test_drain_gives_the_space_back(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()

    async def load() -> None:
        async with container_at(settings, clock, 10) as (account, container):
            now = int(clock.now())
            await store_items(
                account, container, [DatedItem(f"d{n}", now - 100) for n in range(8000)]
            )
            await store_items(account, container, [DatedItem(f"l{n}", now, -1) for n in range(100)])

    asyncio.run(load())
    full = (settings.data / DATABASE_FILE).stat().st_size
    with serving(settings, clock) as raw:
        assert drain(raw) == 8000
    assert (settings.data / DATABASE_FILE).stat().st_size < full / 10
    disk = examine(settings.data)
    assert (disk.verdict, disk.items) == ("ok", 100)


def test_metrics_of_a_sweeper_that_is_paused(containers: TtlContainers, raw: RawClient) -> None:
    assert raw.get("/_perseid/metrics.json").json["sweeperPaused"] is True
    assert b"\nperseid_sweeper_paused 1\n" in raw.get("/_perseid/metrics").body
    assert metrics.exposition(raw.get("/_perseid/metrics.json").json).startswith(b"# HELP perseid_")
