"""The pace of removal where throughput is enforced: what requests leave over, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perseid.clock import MovableClock
from perseid.documents import parse
from perseid.model import Container
from perseid.server import opened
from perseid.service.account import Account
from perseid.service.items import partition_key_delete, point_operations
from perseid.service.lifetimes import metrics
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.service.operation import begin
from perseid.service.resources import containers, databases
from perseid.service.throughput import enforcement
from perseid.service.throughput.rules import Throughput, autoscale, manual
from tests.support.builders import PARTITION_KEY
from tests.support.figures import container_metrics
from tests.support.operations import create, delete, item, upsert
from tests.support.purging import DatedItem, store_items
from tests.support.raw import RawClient, Reply
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place, Stores

PRICE = 5.6  # of removing one of the items that `stock` makes: three index terms


@asynccontextmanager
async def account_with(
    place: Place, shared: Throughput | None = None, *, serverless: bool = False
) -> AsyncIterator[tuple[Account, MovableClock]]:
    clock = frozen_clock()
    settings = place.fresh(enforce_throughput=True, serverless=serverless)
    async with opened(settings, clock) as account:
        await databases.create(account, {"id": "d"}, shared, clock.now())
        yield account, clock


async def container_with(
    account: Account, expired: int, given: Throughput | None = None, name: str = "c"
) -> Container:
    """A container with so many expired items and nothing else."""
    now = account.clock.now()
    body = {"id": name, "partitionKey": PARTITION_KEY, "defaultTtl": 10}
    made = await containers.create(account, "d", body, given, now)
    await store_items(account, made, [DatedItem(f"a{n}", int(now) - 1000) for n in range(expired)])
    return made


def use(account: Account, container: Container, units: float, part: int = 0) -> bool:
    """A request that costs so much; whether it was admitted."""
    now = account.clock.now()
    if enforcement.wait_ms(account, container, [part], now, is_low=False):
        return False
    enforcement.book(account, container, [part], units, now, is_low=False)
    return True


async def backlog(account: Account, container: Container) -> int:
    usage = await account.usage(container, account.cutoff(container, account.clock.now()))
    return usage.expired_items


async def figures(account: Account, sweeper: Sweeper, name: str = "c") -> dict[str, Any]:
    found = await metrics.collect(account, sweeper, account.clock.now())
    (one,) = [each for each in found["containers"] if each["container"].endswith(f"/{name}")]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize(
    ("used", "left"),
    [(0, 400), (380, 20), (399, 1), (400, 0), (390.5, 9.5), (1000, 0)],
)
def test_removal_spends_what_a_second_left_over(place: Place, used: float, left: float) -> None:
    """T-131: of 400 RU/s users take 380, so 20 are spent on the purge."""

    async def scenario() -> None:
        async with account_with(place) as (account, clock):
            container = await container_with(account, 500)
            sweeper = Sweeper(account)
            await sweeper.tick()  # nothing is left over yet
            assert await backlog(account, container) == 500
            assert use(account, container, used)
            clock.advance(1)
            for _ in range(3):
                await sweeper.tick()
            removed = 500 - await backlog(account, container)
            assert removed == int(left / PRICE)
            assert sweeper.charges.get(container.rid, 0) == pytest.approx(removed * PRICE)

    asyncio.run(scenario())


def test_each_range_has_its_own_leftover(place: Place) -> None:
    async def scenario() -> None:
        async with account_with(place) as (account, clock):
            wide = await container_with(account, 0, autoscale(20_000))
            assert len(wide.ranges) == 2
            now = clock.now()
            op = begin(account, wide, now)
            for number in range(40):
                body = json.dumps({"id": str(number), "pk": f"k{number}"}).encode()
                checked_item = point_operations.checked_item(wide, parse(body), None)
                await point_operations.create(op, checked_item)
            clock.advance(10)
            sweeper = Sweeper(account)
            await sweeper.tick()
            assert use(account, wide, 10_000, part=0)
            clock.advance(1)
            await sweeper.tick()
            usages = [
                await account.stores.items.usage(wide, part, account.cutoff(wide, clock.now()))
                for part in (0, 1)
            ]
            assert usages[0].expired_items > 0
            assert usages[0].purged_items == 0
            assert usages[1].expired_items == 0
            assert usages[1].purged_items > 0

    asyncio.run(scenario())


def load(account: Account, container: Container, seed: int) -> int:
    """A second of requests, too many for the budget; how many were refused."""
    return sum(not use(account, container, 7.5 + (seed * number) % 13) for number in range(100))


def test_removal_causes_no_refusals(place: Place) -> None:
    """T-132: as many 429s with a large backlog as without one, in each second."""

    async def refusals(expired: int) -> list[int]:
        async with account_with(place) as (account, clock):
            container = await container_with(account, expired)
            sweeper = Sweeper(account)
            counts = []
            for second in range(20):
                clock.advance(1)
                await sweeper.tick()
                counts.append(load(account, container, second) if second % 5 else 0)
                await sweeper.tick()
            await asyncio.gather(*account.background)
            return counts

    with_backlog, without = asyncio.run(refusals(3000)), asyncio.run(refusals(0))
    assert with_backlog == without
    assert sum(without) > 100


def test_without_leftover_removal_waits(place: Place) -> None:
    """T-133: the backlog stands under full load and falls when the load stops."""

    async def scenario() -> None:
        async with account_with(place) as (account, clock):
            container = await container_with(account, 1000)
            sweeper = Sweeper(account)
            for _ in range(10):
                assert use(account, container, 400)
                clock.advance(1)
                await sweeper.tick()
                assert await backlog(account, container) == 1000
            per_second = []
            for _ in range(5):
                clock.advance(1)
                before = await backlog(account, container)
                await sweeper.tick()
                per_second.append(before - await backlog(account, container))
            assert sum(per_second) == int(5 * 400 / PRICE)
            assert set(per_second) <= {71, 72}
            assert (await figures(account, sweeper))["exhaustedSeconds"] == 10

    asyncio.run(scenario())


def test_a_dear_item_saves_up(place: Place) -> None:
    """T-134: 400 RU/s, one expired item of nearly 2 MB: purged after about four idle seconds."""

    async def scenario() -> int:
        async with account_with(place) as (account, clock):
            container = await container_with(account, 0)
            large = {"id": "large", "pk": "p", "text": "x" * (2 * 1024 * 1024 - 8192)}
            op = begin(account, container, clock.now())
            checked_item = point_operations.checked_item(
                container, parse(json.dumps(large).encode()), '["p"]'
            )
            await point_operations.create(op, checked_item)
            clock.advance(10)
            sweeper = Sweeper(account)
            await sweeper.tick()
            seconds = 0
            while await backlog(account, container):
                clock.advance(1)
                seconds += 1
                await sweeper.tick()
            return seconds

    assert asyncio.run(scenario()) == 4


def test_an_idle_container_is_empty_in_bounded_time(place: Place) -> None:
    """T-134: no container waits for ever while there is any leftover at all."""

    async def scenario() -> int:
        async with account_with(place) as (account, clock):
            container = await container_with(account, 100)
            sweeper = Sweeper(account)
            seconds = 0
            while await backlog(account, container):
                assert use(account, container, 398)  # two RU a second are left: a third of a price
                clock.advance(1)
                seconds += 1
                await sweeper.tick()
                assert seconds < 1000
            return seconds

    assert asyncio.run(scenario()) == pytest.approx(100 * PRICE / 2, abs=3)


def test_containers_of_a_shared_database_take_turns(place: Place) -> None:
    """T-135: one leftover for all of them; each has its turn, whatever the others hold."""

    async def scenario() -> list[int]:
        async with account_with(place, manual(400)) as (account, clock):
            names = ("one", "two", "three")
            made = [await container_with(account, 400, name=name) for name in names]
            sweeper = Sweeper(account)
            await sweeper.tick()
            for _ in range(6):
                clock.advance(1)
                await sweeper.tick()
            return [400 - await backlog(account, each) for each in made]

    removed = asyncio.run(scenario())
    assert sum(removed) == pytest.approx(6 * 400 / PRICE, abs=6)
    assert max(removed) - min(removed) <= 72  # one second's worth


def test_a_container_without_expired_items_delays_no_other(place: Place) -> None:
    async def scenario() -> None:
        async with account_with(place, manual(400)) as (account, clock):
            one, two = [await container_with(account, 100, name=name) for name in ("one", "two")]
            sweeper = Sweeper(account)
            await sweeper.tick()  # both wait; the first one saves
            now = clock.now()
            await containers.delete(account, "d", "one", None)
            assert account.catalog.container_by_rid(one.rid) is None
            clock.set(now + 1)
            for _ in range(2):
                await sweeper.tick()
            assert await backlog(account, two) < 100

    asyncio.run(scenario())


def test_a_drain_waits_for_no_budget(place: Place) -> None:
    async def scenario() -> None:
        async with account_with(place) as (account, _clock):
            container = await container_with(account, 1000)
            assert use(account, container, 5000)
            sweeper = Sweeper(account)
            assert await sweeper.drain() == {container.path: 1000}
            found = await figures(account, sweeper)
            assert (found["consumedTotal"], found["purgeCharge"]) == (5000, 5600)

    asyncio.run(scenario())


def test_removal_does_not_scale_anything_up(place: Place) -> None:
    """T-158: users 1000, removal 200 and more: billed for 1000."""

    async def scenario() -> None:
        async with account_with(place) as (account, clock):
            container = await container_with(account, 1000, autoscale(4000))
            sweeper = Sweeper(account)
            await sweeper.tick()
            assert use(account, container, 1000)
            clock.advance(1)
            await sweeper.tick()
            found = await figures(account, sweeper)
            assert found["purgeCharge"] > 200
            assert found["billedThroughput"] == 1000
            assert found["scaledThroughput"] == 400
            assert found["consumedTotal"] == 1000

    asyncio.run(scenario())


@pytest.mark.parametrize("is_serverless", [True, False])
def test_only_serverless_accounts_pay_for_removal(place: Place, is_serverless: bool) -> None:
    """T-159, T-157: metered at the price of deletes there, free elsewhere."""

    async def scenario() -> tuple[float, float]:
        async with account_with(place, serverless=is_serverless) as (account, clock):
            container = await container_with(account, 50)
            sweeper = Sweeper(account)
            await sweeper.tick()
            assert use(account, container, 100)
            clock.advance(1)
            await sweeper.tick()
            assert await backlog(account, container) == 0
            found = await figures(account, sweeper)
            return found["consumedTotal"], found["purgeCharge"]

    consumed, purge = asyncio.run(scenario())
    assert purge == pytest.approx(50 * PRICE)
    assert consumed == pytest.approx(100 + (purge if is_serverless else 0))


DOCS = "/dbs/d/colls/c/docs"
AGAIN: dict[str, Callable[[RawClient], Reply]] = {
    "create": lambda raw: raw.post(DOCS, item("x"), pk='["a"]'),
    "upsert": lambda raw: raw.post(DOCS, item("x"), pk='["a"]', upsert="true"),
    "rename": lambda raw: raw.put(f"{DOCS}/other", item("x", mark="other", ttl=-1), pk='["a"]'),
    "unique value": lambda raw: raw.post(DOCS, item("y", mark="x"), pk='["a"]'),
    "batch": lambda raw: raw.batch(
        "/dbs/d/colls/c", [upsert("x"), delete("x"), create("x")], pk='["a"]'
    ),
    "failing batch": lambda raw: raw.batch(
        "/dbs/d/colls/c", [create("x"), delete("none")], pk='["a"]'
    ),
    "bulk": lambda raw: raw.batch(
        "/dbs/d/colls/c", [create("x"), delete("none")], pk='["a"]', atomic=False
    ),
    "import": lambda raw: raw.request(
        "POST", "/_perseid/import/d/c", json.dumps(item("x")).encode() + b"\n"
    ),
    "partition": lambda raw: raw.clear_partition("/dbs/d/colls/c", '["a"]'),
}


@pytest.mark.parametrize("is_serverless", [True, False])
@pytest.mark.parametrize("way", AGAIN)
def test_what_requests_remove_is_metered_like_the_rest(
    place: Place, way: str, is_serverless: bool
) -> None:
    """T-159, T-184, T-156: the same purge, whatever request does it; the request pays nothing."""
    clock = frozen_clock()
    settings = place.fresh(enforce_throughput=True, serverless=is_serverless, no_sweeper=True)
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        unique = {"uniqueKeys": [{"paths": ["/mark"]}]}
        body = {
            "id": "c",
            "partitionKey": PARTITION_KEY,
            "defaultTtl": 10,
            "uniqueKeyPolicy": unique,
        }
        assert raw.post("/dbs/d/colls", body).status == 201
        assert raw.post(DOCS, item("other", mark="other", ttl=-1), pk='["a"]').status == 201
        assert raw.post(DOCS, item("x", mark="x"), pk='["a"]').status == 201
        clock.advance(10)
        before, removed = (
            container_metrics(raw)["consumedTotal"],
            container_metrics(raw)["purgedTotal"],
        )
        reply = AGAIN[way](raw)
        assert reply.status < 400, reply
        after = container_metrics(raw)
        gone = after["purgedTotal"] - removed
        assert gone == (way != "failing batch")
        price = 5.4 if is_serverless else 0  # two index terms
        charge = float(reply.headers.get("x-ms-request-charge", "0")) if way != "import" else 0
        assert after["consumedTotal"] == pytest.approx(before + charge + gone * price)


@pytest.mark.parametrize("expired", [7, 1500])
@pytest.mark.parametrize("retention", [0, 10])
def test_expired_items_of_a_cleared_partition_are_metered(
    place: Place, expired: int, retention: int
) -> None:
    """However many there are, and whether or not a log is kept."""

    async def scenario() -> float:
        async with account_with(place, serverless=True) as (account, clock):
            body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": 10}
            body["changeFeedPolicy"] = {"retentionDuration": retention}
            made = await containers.create(account, "d", body, None, clock.now())
            now = int(clock.now())
            old = [DatedItem(f"a{n}", now - 1000) for n in range(expired)]
            await store_items(account, made, [*old, DatedItem("alive", now)])
            op = begin(account, made, now)
            _, charge = await partition_key_delete.delete(
                op, point_operations.logical_partition_of(made, '["p"]')
            )
            assert charge == PRICE
            found = await figures(account, Sweeper(account))
            assert found["purgedTotal"] == expired
            consumed: float = found["consumedTotal"]
            return consumed

    assert asyncio.run(scenario()) == pytest.approx(expired * PRICE)


def test_silence_is_not_mistaken_for_lack_of_leftover(place: Place) -> None:
    """T-142: TTL off: a range is left alone when it is purged, not when its items are expensive."""

    async def scenario() -> None:
        async with account_with(place) as (account, clock):
            container = await container_with(account, 200)
            body = {"id": "c", "partitionKey": PARTITION_KEY}
            now = clock.now()
            await containers.replace(account, "d", "c", body, if_match=None, now=now)
            await asyncio.gather(*account.background)
            sweeper = Sweeper(account)
            for _ in range(5):
                await sweeper.tick()
                clock.advance(1)
            assert await backlog(account, container) == 0

    asyncio.run(scenario())


# T-313 and the rest on the wire


@pytest.fixture(scope="module")
def enforced(stores: Stores) -> Iterator[tuple[RawClient, MovableClock]]:
    clock = frozen_clock()
    with stores.place() as place, serving(place.fresh(enforce_throughput=True), clock) as raw:
        yield raw, clock


def test_exhausted_seconds_are_counted(enforced: tuple[RawClient, MovableClock]) -> None:
    raw, clock = enforced
    assert raw.post("/dbs", {"id": "d"}).status == 201
    body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": 10}
    assert raw.post("/dbs/d/colls", body).status == 201
    large = {"id": "a", "pk": "p", "text": "x" * 1024 * 1024}
    reply = raw.post("/dbs/d/colls/c/docs", large, pk='["p"]')
    assert 625 < float(reply.headers["x-ms-request-charge"]) < 800
    assert container_metrics(raw)["exhaustedSeconds"] == 0  # this one has not ended
    clock.advance(1)
    assert container_metrics(raw)["exhaustedSeconds"] == 1
    clock.advance(1)
    assert container_metrics(raw)["exhaustedSeconds"] == 1  # the overdraft took only part of it
    clock.advance(100)
    assert container_metrics(raw)["exhaustedSeconds"] == 1
    assert (
        b'perseid_exhausted_seconds_total{container="dbs/d/colls/c"} 1\n'
        in raw.get("/_perseid/metrics").body
    )
    assert raw.get("/_perseid/sweeper").json["exhaustedSeconds"] == 1


def test_a_shared_budget_is_dry_once(place: Place) -> None:
    """However many containers live on it, a second of theirs is one second."""
    clock = frozen_clock()
    with serving(place.fresh(enforce_throughput=True), clock) as raw:
        assert raw.post("/dbs", {"id": "d"}, throughput="400").status == 201
        for name in ("c", "e", "f"):
            assert (
                raw.post("/dbs/d/colls", {"id": name, "partitionKey": PARTITION_KEY}).status == 201
            )
        large = {"id": "a", "pk": "a", "text": "x" * 1024 * 1024}
        assert raw.post(DOCS, large, pk='["a"]').status == 201
        clock.advance(1)
        found = raw.get("/_perseid/metrics.json").json["containers"]
        assert [each["exhaustedSeconds"] for each in found] == [1, 1, 1]
        assert raw.get("/_perseid/sweeper").json["exhaustedSeconds"] == 1
