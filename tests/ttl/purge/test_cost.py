"""What the purge costs, and that clients do not pay for it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import apsw
import pytest

from perseid import charges
from perseid.config import Settings
from perseid.service.lifetimes.sweeper import SMALL_STEP
from perseid.store.types import PurgeRequest
from tests.support.figures import container_metrics
from tests.support.purging import DatedItem, container_at, store_items
from tests.support.servers import frozen_clock
from tests.support.stores import Place, sqlite_database
from tests.support.ttl_containers import TtlContainers

# T-141: live items are not examined


@pytest.mark.parametrize("default_ttl", [100, -1])
def test_a_step_costs_the_same_among_many_live_items(default_ttl: int) -> None:
    """Counted in steps of SQLite's virtual machine; no statement may scan a table."""
    few, many = (asyncio.run(steps_of_a_purge(default_ttl, alive)) for alive in (20, 15_000))
    assert few.removed == many.removed == 10
    assert few.scanned == many.scanned == 0
    assert many.steps <= few.steps * 1.2


class Cost(NamedTuple):
    removed: int
    steps: int
    scanned: int  # rows that a statement went through without an index


async def steps_of_a_purge(default_ttl: int, alive: int) -> Cost:
    clock = frozen_clock()
    now = int(clock.now())
    async with container_at(Settings(memory=True), clock, default_ttl) as (account, container):
        kept = [DatedItem(f"d{number}", now - 200, 100) for number in range(10)]
        # All kinds of live items: they inherit, have a ttl, or never expire.
        kept += [DatedItem(f"l{n}", now - 50, (None, 5000, -1)[n % 3]) for n in range(alive)]
        await store_items(account, container, kept)
        connection = sqlite_database(account.stores).write_db
        noted: list[dict[str, Any]] = []
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, noted.append)
        cutoff = account.cutoff(container, clock.now())
        request = PurgeRequest(container, 0, cutoff, SMALL_STEP)
        purged_items = (await account.stores.expiry.purge(request)).items
        connection.trace_v2(0)
        table = f"items_{container.number}"
        counters = [each["stmt_status"] for each in noted if table in each["sql"]]
        assert counters
        return Cost(
            len(purged_items),
            sum(each["SQLITE_STMTSTATUS_VM_STEP"] for each in counters),
            sum(each["SQLITE_STMTSTATUS_FULLSCAN_STEP"] for each in counters),
        )


@pytest.mark.only_on("sqlite", reason="counts the steps of its virtual machine")
@pytest.mark.parametrize("default_ttl", [100, -1])
def test_a_look_that_finds_nothing_is_cheap(place: Place, default_ttl: int) -> None:
    """What an idle sweeper does each second: two looks into an index, however many live."""

    async def scenario() -> int:
        clock = frozen_clock()
        now = int(clock.now())
        async with container_at(place.fresh(), clock, default_ttl) as (account, container):
            kept = [DatedItem(f"l{n}", now, (None, 50)[n % 2]) for n in range(5000)]
            await store_items(account, container, kept)
            connection = sqlite_database(account.stores).write_db
            noted: list[dict[str, Any]] = []
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, noted.append)
            cutoff = account.cutoff(container, clock.now())
            request = PurgeRequest(container, 0, cutoff, SMALL_STEP)
            assert (await account.stores.expiry.purge(request)).items == []
            connection.trace_v2(0)
            return sum(each["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"] for each in noted)

    assert asyncio.run(scenario()) < 500


# T-161: what it would cost


def test_the_cost_of_removing_is_the_cost_of_deleting(containers: TtlContainers) -> None:
    assert charges.delete(1024, 10) == 7
    expiring, deleted = (containers.make(10, name=name) for name in ("expiring", "deleted"))
    paid = 0.0
    for number in range(3):
        body: dict[str, Any] = {"text": "x" * 1000 * number, "list": list(range(number * 5))}
        for container in (expiring, deleted):
            container.create(f"a{number}", **body)
        paid += float(deleted.delete(f"a{number}").headers["x-ms-request-charge"])
    expiring.clock.advance(10)
    assert expiring.drain() == 3
    figures = container_metrics(expiring.raw, expiring.path)
    assert figures["purgeCharge"] == pytest.approx(paid, abs=0.02)


def test_no_request_is_charged_for_it(containers: TtlContainers) -> None:
    """T-157: a drain's answer names no charge, and reads cost the same before and after."""
    container = containers.make(10)
    container.create("a", -1)
    for number in range(20):
        container.create(f"d{number}")
    container.clock.advance(10)
    before = container.read("a").headers["x-ms-request-charge"]
    reply = container.raw.post(f"{container.admin}/drain", {})
    assert "x-ms-request-charge" not in reply.headers
    assert container.read("a").headers["x-ms-request-charge"] == before
