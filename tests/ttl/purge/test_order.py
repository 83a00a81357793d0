"""The order of the purge: longest expired first, in small steps, containers in turn."""

from __future__ import annotations

import asyncio

import pytest

from perseid.model import Container, ItemKey, Row
from perseid.service.account import Account
from perseid.service.items import point_operations
from perseid.service.lifetimes.sweeper import LARGE_STEP, SMALL_STEP, Sweeper
from perseid.service.resources import containers
from perseid.store.types import PurgeRequest, PurgeResult
from tests.support.builders import PARTITION_KEY
from tests.support.purging import DatedItem, container_at, noted_steps, set_default_ttl, store_items
from tests.support.servers import frozen_clock
from tests.support.stores import Place

# T-135: order


def lasting(now: int) -> list[DatedItem]:
    """Expiries under a default of 100, one after the other: a to f; and two live items."""
    return [
        DatedItem("e", now - 105),  # at now - 5
        DatedItem("b", now - 160),  # at now - 60
        DatedItem("d", now - 20, 10),  # at now - 10
        DatedItem("a", now - 300, 200),  # at now - 100
        DatedItem("c", now - 150, 100),  # at now - 50
        DatedItem("f", now - 100),  # at now
        DatedItem("alive", now - 99),
        DatedItem("alive too", now - 500, -1),
    ]


# What happens to the policy after `now`: (seconds later, new default). They have expired by then.
POLICIES: list[tuple[str, list[tuple[int, int | None]]]] = [
    ("unchanged", []),
    ("off", [(0, None)]),
    ("no default", [(0, -1)]),
    ("grown", [(0, 1000)]),
    ("off and on", [(0, None), (0, 1000)]),
]


@pytest.mark.parametrize(("name", "changes"), POLICIES, ids=[name for name, _ in POLICIES])
def test_the_longest_expired_item_is_purged_first(
    place: Place, name: str, changes: list[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perseid.service.lifetimes.sweeper.SMALL_STEP", 1)

    async def scenario() -> list[str]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 100) as (account, container):
            kept = lasting(int(clock.now()))
            await store_items(account, container, kept)
            rows = [await read_row(account, container, each) for each in kept]
            names = {row.number: row.id for row in rows}
            for later, default_ttl in changes:
                clock.advance(later)
                await set_default_ttl(account, default_ttl)
            await asyncio.gather(*account.background)
            with noted_steps(account, monkeypatch) as steps:
                await Sweeper(account).tick()
            return [
                names[purged_item.number]
                for _, purged_items in steps
                for purged_item in purged_items
            ]

    assert asyncio.run(scenario()) == ["a", "b", "c", "d", "e", "f"]


async def read_row(account: Account, container: Container, kept: DatedItem) -> Row:
    place = point_operations.logical_partition_of(container, '["p"]')
    row, _ = await account.stores.items.read(container, 0, ItemKey(place.pk, kept.id))
    assert row is not None
    return row


def test_steps_are_small_while_requests_arrive(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-140: a step is bounded in number, so that a request waits for little."""

    async def scenario() -> list[int]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            long_ago = int(clock.now()) - 1000
            await store_items(
                account, container, [DatedItem(f"a{n}", long_ago) for n in range(5 * SMALL_STEP)]
            )
            purge = account.stores.expiry.purge

            async def disturbed(request: PurgeRequest) -> PurgeResult:
                account.requests += 1
                return await purge(request)

            monkeypatch.setattr(account.stores.expiry, "purge", disturbed)
            account.requests += 1
            with noted_steps(account, monkeypatch) as steps:
                await Sweeper(account, pace=1).tick()
            return [len(purged_items) for _, purged_items in steps if purged_items]

    assert asyncio.run(scenario()) == [SMALL_STEP] * 5


def test_ranges_and_containers_take_turns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large backlog does not keep the others waiting: one step each, round and round."""

    async def scenario() -> list[tuple[str, int]]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, first):
            body = {"id": "c2", "partitionKey": PARTITION_KEY, "defaultTtl": 10}
            second = await containers.create(account, "d", body, None, clock.now())
            long_ago = int(clock.now()) - 1000
            for container, size in ((first, 3 * LARGE_STEP), (second, 2 * LARGE_STEP)):
                expired = [DatedItem(f"a{number}", long_ago) for number in range(size)]
                await store_items(account, container, expired)
            with noted_steps(account, monkeypatch) as steps:
                await Sweeper(account).tick()
            return [(name, len(purged_items)) for name, purged_items in steps if purged_items]

    turns = ("c", "c2", "c", "c2", "c")
    assert asyncio.run(scenario()) == [(name, LARGE_STEP) for name in turns]
