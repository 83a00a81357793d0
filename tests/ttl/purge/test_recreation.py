"""Items created again while their expired version is being purged (T-138, T-139)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import orjson
import pytest

from perseid.documents import parse
from perseid.service.items import point_operations
from perseid.service.operation import begin
from perseid.store.types import PurgeRequest
from tests.support.purging import DatedItem, backlog, container_at, on_disk, store_items
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place, sqlite_database
from tests.support.ttl_containers import TtlContainer, TtlContainers, drain
from tests.support.waiting import TIME_LIMIT

# T-138, T-139: re-creation


@pytest.mark.only_on("sqlite", reason="holds up the one writer that only it has")
@pytest.mark.parametrize("order", ["purge first", "create first", "both ways"])
@pytest.mark.parametrize(
    "write", [point_operations.create, point_operations.upsert], ids=["create", "upsert"]
)
def test_a_recreated_item_survives_a_queued_purge(
    place: Place, order: str, write: Callable[..., Any]
) -> None:
    """The writer is held up while a purge and a write of the expired id line up behind it."""

    async def scenario() -> None:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            now = int(clock.now())
            await store_items(
                account, container, [DatedItem("a", now - 10), DatedItem("b", now - 11)]
            )
            gate = Event()

            cutoff = account.cutoff(container, clock.now())
            op = begin(account, container, clock.now())
            checked_item = point_operations.checked_item(
                container, parse(b'{"id":"a","pk":"p","is":"new"}'), '["p"]'
            )
            more = () if write is point_operations.create else (None,)

            def purge() -> asyncio.Task[Any]:
                return asyncio.create_task(
                    account.stores.expiry.purge(PurgeRequest(container, 0, cutoff, 10))
                )

            writer = sqlite_database(account.stores).writer
            held = writer.submit(lambda: gate.wait(TIME_LIMIT), is_heavy=True)
            await asyncio.sleep(0)
            queued = [purge()] if order != "create first" else []
            await asyncio.sleep(0)
            queued.append(asyncio.create_task(write(op, checked_item, *more)))
            await asyncio.sleep(0)
            if order != "purge first":
                queued.append(purge())
            await asyncio.sleep(0)
            gate.set()
            await asyncio.gather(held, *queued)
            where = point_operations.logical_partition_of(container, '["p"]')
            row, _ = await point_operations.read(begin(account, container, clock.now()), where, "a")
            assert row is not None
            assert orjson.loads(row.body)["is"] == "new"
            assert await on_disk(account, container) == 1

    asyncio.run(scenario())


def test_recreated_items_survive_a_purge_on_the_wire(place: Place) -> None:
    """Many clients create over expired ids while the sweeper and two drains are at work."""
    clock = frozen_clock()
    size = 400
    with serving(place.fresh(), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = TtlContainers(raw, clock, "/dbs/d").make(10)
        raw.post("/_perseid/sweeper/pause", {})
        for number in range(size):
            container.create(f"a{number}")
        raw.post("/_perseid/clock/advance", {"seconds": 10})
        raw.post("/_perseid/sweeper/resume", {})

        def recreate(first: int) -> set[int]:
            client = RawClient(raw.endpoint)
            mine = TtlContainer(client, clock, container.path)
            statuses = {
                mine.post(mine.body(f"a{number}", -1)).status for number in range(first, size, 4)
            }
            client.close()
            return statuses

        def drain_too(_: int) -> None:
            client = RawClient(raw.endpoint)
            drain(client)
            client.close()

        with ThreadPoolExecutor(6) as pool:
            created = [pool.submit(recreate, first) for first in range(4)]
            draining = [pool.submit(drain_too, number) for number in range(2)]
            assert {status for each in created for status in each.result()} == {201}
            for each in draining:
                each.result()
        assert drain(raw) >= 0
        assert backlog(raw) == 0
        assert container.counted() == size


def test_recreating_removes_the_expired_version_at_once(containers: TtlContainers) -> None:
    container = containers.make(10)
    old = container.create("a")
    container.create("b")
    container.clock.advance(10)
    assert backlog(container.raw, container.admin) == 2
    new = container.create("a")
    assert new["_rid"] != old["_rid"]
    assert new["_etag"] != old["_etag"]
    figures = container.raw.get(container.admin).json
    assert (figures["live"]["items"], figures["pendingPurge"]["items"]) == (1, 1)
    assert container.drain() == 1
    assert container.seen("a", "b") == {"a"}
    assert container.read("a").json["_rid"] == new["_rid"]
