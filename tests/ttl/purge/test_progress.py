"""The purge shows nowhere in the API, runs by itself, and pauses when told to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perseid.errors import InsufficientStorage
from perseid.server import opened
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.sqlite.expiry import SqliteExpiry
from tests.support.builders import PARTITION_KEY
from tests.support.figures import container_metrics
from tests.support.purging import (
    DatedItem,
    backlog,
    container_at,
    noted_steps,
    on_disk,
    set_default_ttl,
    store_items,
)
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers
from tests.support.waiting import TIME_LIMIT, until

# T-130: no request can tell


def test_removal_shows_nowhere_in_the_api(containers: TtlContainers) -> None:
    """Two containers with the same history, one drained: every answer is the same."""
    one, other = (containers.make(10, name=name) for name in ("one", "other"))
    start = containers.now
    for number in range(6):
        for container in (one, other):
            container.create(f"a{number}", ABSENT if number % 2 else 20, at=start + number)
    containers.clock.set(start + 13)
    assert one.drain() == 2  # a1 and a3; a0, a2, a4 live 20 seconds, a5 to 15

    def answers(container: TtlContainer) -> list[Any]:
        quota = container.raw.get(container.path, x_ms_documentdb_populatequotainfo="true")
        return [
            container.seen(*(f"a{number}" for number in range(6))),
            container.query("SELECT c.id, c._ts FROM c ORDER BY c._ts DESC"),
            quota.headers["x-ms-resource-usage"],
            quota.json["_ts"],
            [container.delete(f"a{number}").status for number in (1, 3)],
            [
                container.replace(f"a{number}", container.body(f"a{number}")).status
                for number in (1, 3)
            ],
            container.post(container.body("a1"), upsert="true").status,
            container.post(container.body("a3")).status,
        ]

    assert answers(one) == answers(other)


def test_expiry_moves_no_lsn_and_removal_does(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("a")
    before = container.raw.get(container.path).headers["x-ms-session-token"]
    container.clock.advance(10)
    assert container.raw.get(container.path).headers["x-ms-session-token"] == before
    assert container.drain() == 1
    assert container.raw.get(container.path).headers["x-ms-session-token"] != before


# T-134: progress


def test_an_idle_server_removes_everything_by_itself(place: Place) -> None:
    """Small items, one of nearly 2 MB, and several ranges: gone in bounded time."""
    clock = frozen_clock()
    with serving(place.fresh(), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": 10}
        assert raw.post("/dbs/d/colls", body, throughput="18000").status == 201
        container = TtlContainer(raw, clock, "/dbs/d/colls/c")
        for number in range(60):
            container.create(f"a{number}", pk=f"p{number}")
        container.create("large", text="x" * 1_900_000)
        container.create("alive", -1)
        assert backlog(raw) == 0
        assert raw.post("/_perseid/clock/advance", {"seconds": 10}).status == 200
        until(lambda: backlog(raw) == 0)
        figures = container_metrics(raw)
        assert (figures["live"]["items"], figures["purgedTotal"]) == (1, 61)


def test_the_sweeper_notices_expiry_without_requests(place: Place) -> None:
    """No request wakes it: it looks by itself."""

    async def scenario() -> None:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            await store_items(account, container, [DatedItem("a", int(clock.now()))])
            sweeper = Sweeper(account)
            running = asyncio.create_task(sweeper.run())
            clock.advance(10)
            async with asyncio.timeout(TIME_LIMIT):
                while await on_disk(account, container):
                    pass
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.only_on("sqlite", reason="PostgreSQL keeps the space and uses it again")
def test_a_full_disk_is_reported_in_a_line(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each second again, so not with all the circumstances."""

    async def scenario() -> None:
        async with container_at(place.fresh(), frozen_clock(), 10) as (account, _):
            tried = asyncio.Event()

            async def free_disk_space(_: SqliteExpiry, pages: int) -> int:
                tried.set()
                raise InsufficientStorage(f"no room to give {pages} pages back")

            monkeypatch.setattr(SqliteExpiry, "free_disk_space", free_disk_space)
            sweeper = Sweeper(account)
            sweeper.wake()
            running = asyncio.create_task(sweeper.run())
            async with asyncio.timeout(TIME_LIMIT):
                await tried.wait()
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    (told,) = caplog.records
    assert (told.levelname, told.exc_info) == ("WARNING", None)
    assert "no room" in told.getMessage()


def test_a_paused_sweeper_waits_and_a_resumed_one_goes_on(place: Place) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = TtlContainers(raw, clock, "/dbs/d").make(10)
        container.create("a")
        assert raw.post("/_perseid/clock/advance", {"seconds": 10}).status == 200
        assert raw.get("/_perseid/sweeper").json["paused"] is True
        assert {backlog(raw) for _ in range(50)} == {1}
        assert raw.post("/_perseid/sweeper/resume", {}).json["paused"] is False
        until(lambda: backlog(raw) == 0)
        assert raw.post("/_perseid/sweeper/pause", {}).json["paused"] is True
        assert raw.get("/_perseid/sweeper").json["purgedItems"] == 1


@pytest.mark.parametrize("pace", [0, -1, 1.01, "1", None, True])
def test_paces_that_are_none(raw: RawClient, containers: TtlContainers, pace: Any) -> None:
    before = raw.get("/_perseid/sweeper").json
    reply = raw.post("/_perseid/sweeper/pace", {"pace": pace})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert raw.get("/_perseid/sweeper").json == before


@pytest.mark.only_on("sqlite", reason="no database has a part in it")
def test_a_new_pace_ends_the_rest_of_the_old_one(place: Place) -> None:
    async def scenario() -> None:
        async with opened(place.fresh(), frozen_clock()) as account:
            sweeper = Sweeper(account, pace=1e-300)
            account.requests += 1  # there are requests, so it pauses after each step
            resting = asyncio.create_task(sweeper._pause_between_steps(0.001))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not resting.done()
            sweeper.pace = 1
            async with asyncio.timeout(TIME_LIMIT):
                await resting

    asyncio.run(scenario())


# T-142: TTL off


def test_off_finishes_the_backlog_and_no_more(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("expired")
    container.create("sleeping", 1000)
    container.clock.advance(10)
    container.create("alive")
    container.set_default()
    wait_until_counted(container)
    assert container.drain() == 1
    container.clock.advance(1_000_000)
    before = container.raw.get(container.path).headers["x-ms-session-token"]
    assert container.drain() == 0
    assert container.raw.get(container.path).headers["x-ms-session-token"] == before
    assert container.seen("expired", "sleeping", "alive") == {"sleeping", "alive"}


def wait_until_counted(container: TtlContainer) -> None:
    """Until the last change is in the audit log with its figures."""

    def is_counted() -> bool:
        entries = container.raw.get(f"{container.admin}/audit").json["entries"]
        return bool(entries) and entries[-1]["event"] == "counts"

    until(is_counted)


@pytest.mark.parametrize(
    "history", [[], [10], [-1], [10, None]], ids=["never on", "on", "no default", "off"]
)
def test_a_silent_sweeper_does_not_look(
    place: Place, history: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TTL off there is nothing to find once the backlog is gone: it stops looking."""

    async def scenario() -> tuple[int, int]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, None) as (account, container):
            await store_items(account, container, [DatedItem("a", int(clock.now()) - 50, 20)])
            for default_ttl in history:
                await set_default_ttl(account, default_ttl)
            await asyncio.gather(*account.background)
            sweeper = Sweeper(account)
            await sweeper.tick()
            clock.advance(1000)
            await sweeper.tick()
            with noted_steps(account, monkeypatch) as steps:
                await sweeper.tick()
            return len(steps), await on_disk(account, container)

    looks, left = asyncio.run(scenario())
    is_off = not history or history[-1] is None
    assert left == (0 if history else 1)
    assert (looks == 0) == is_off
