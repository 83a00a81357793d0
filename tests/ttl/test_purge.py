"""Physical removal: order, atomicity, restarts, races, cost. Nobody may notice it from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import apsw
import orjson
import pytest

import perseid
from perseid import charges, ids, partition
from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.documents import parse, seal
from perseid.errors import InsufficientStorage
from perseid.http import metrics
from perseid.model import Container, ItemKey, Row, item_number
from perseid.server import opened
from perseid.service import containers, databases, items, unique_keys
from perseid.service.account import Account
from perseid.service.operation import begin
from perseid.service.sweeper import LARGE_STEP, STEP, Sweeper
from perseid.store.directory import DATABASE_FILE
from perseid.store.protocol import Corpse, Decision, Put, View
from perseid.store.sqlite import SqliteStore
from tests.support.raw import RawClient
from tests.support.running import free_port
from tests.support.stores import Place, flags
from tests.ttl.conftest import ABSENT, KEY, Shelf, Shelves, assert_gone, frozen_clock, serving

PATIENCE = 60.0  # seconds until a test gives up waiting: a machine may be busy
BATCH = 250
UNIQUE = {"uniqueKeys": [{"paths": ["/mark"]}]}


# Setting the stage


class Kept(NamedTuple):
    """An item to be put on disk as if it had been written at `ts`."""

    id: str
    ts: int
    ttl: int | None = None


@asynccontextmanager
async def container_at(
    settings: Settings, clock: MovableClock, default_ttl: int | None, **rest: Any
) -> AsyncIterator[tuple[Account, Container]]:
    """An open account with one new container, `d/c`; nothing serves it and nothing sweeps it."""
    async with opened(settings, clock) as account:
        await databases.create(account, {"id": "d"}, None, clock.now())
        body = {"id": "c", "partitionKey": KEY, "defaultTtl": default_ttl, **rest}
        yield account, await containers.create(account, "d", body, None, clock.now())


async def stock(account: Account, container: Container, kept: Sequence[Kept]) -> None:
    """Stores items in the logical partition `p`, many in a transaction, each with its own time."""
    pk = partition.canonical(("p",))
    epk = bytes.fromhex(partition.effective_of(pk, container.key))

    def put(item: Kept, lsn: int, place: int) -> Put:
        value: dict[str, Any] = {"id": item.id, "pk": "p", "mark": item.id}
        if item.ttl is not None:
            value["ttl"] = item.ttl
        number = item_number(0, lsn, place)
        etag = ids.make_etag(item.ts, container.number << 60 | number)
        rid = ids.child_rid(container.rid, "document", number)
        body = seal(orjson.dumps(value), rid, container.docs_link, etag, item.ts)
        row = Row(
            number, pk, item.id, epk, item.ts, item.ttl, lsn, etag, len(body), len(value), body
        )
        unique = unique_keys.entries(container, pk, value) if container.unique_keys else ()
        return Put(row, None, unique)

    async def write(first: int) -> None:
        def decide(view: View) -> Decision[None]:
            batch = kept[first : first + BATCH]
            return Decision([put(item, view.lsn, place) for place, item in enumerate(batch)], None)

        await account.store.write(container, 0, (), decide)

    await asyncio.gather(*map(write, range(0, len(kept), BATCH)))


class Process:
    """`perseid serve` in a process of its own, with a clock that can be moved."""

    def __init__(self, settings: Settings, *options: str) -> None:
        port = free_port()
        source = str(Path(perseid.__file__).parents[1])
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "perseid", "serve", *flags(settings)),
                *("--port", str(port), "--test-clock", *options),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert self._process.stdout is not None
        if not any("is ready" in line for line in self._process.stdout):
            raise AssertionError(f"the server ended with {self._process.wait()}")
        self.raw = RawClient(f"http://127.0.0.1:{port}/")

    def end(self, how: signal.Signals) -> int:
        """Sends a signal and waits; the exit code."""
        self.raw.close()
        self._process.send_signal(how)
        code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


@contextmanager
def process(settings: Settings, *options: str) -> Iterator[Process]:
    """A server that is killed with the block, if it has not been before."""
    found = Process(settings, *options)
    try:
        yield found
    finally:
        found.end(signal.SIGKILL)


def until(is_done: Callable[[], bool]) -> float:
    """Asks until the answer is yes; how long that took."""
    started = time.monotonic()
    while not is_done():
        assert time.monotonic() - started < PATIENCE, "waited too long"
    return time.monotonic() - started


def backlog(raw: RawClient, admin: str = "/_perseid/ttl/d/c") -> int:
    reply = raw.get(admin)
    assert reply.status == 200, reply
    count: int = reply.json["backlog"]["items"]
    return count


def drained(raw: RawClient, admin: str = "/_perseid/ttl/d/c") -> int:
    reply = raw.post(f"{admin}/drain", {})
    assert reply.status == 200, reply
    count: int = reply.json["purged"]
    return count


# T-130: nobody can tell


def test_removal_shows_nowhere_in_the_api(shelves: Shelves) -> None:
    """Two containers with the same history, one drained: every answer is the same."""
    one, other = (shelves.make(10, name=name) for name in ("one", "other"))
    start = shelves.now
    for number in range(6):
        for shelf in (one, other):
            shelf.create(f"a{number}", ABSENT if number % 2 else 20, at=start + number)
    shelves.clock.set(start + 13)
    assert drained(one.raw, one.admin) == 2  # a1 and a3; a0, a2, a4 live 20 seconds, a5 to 15

    def answers(shelf: Shelf) -> list[Any]:
        quota = shelf.raw.get(shelf.path, x_ms_documentdb_populatequotainfo="true")
        return [
            shelf.seen(*(f"a{number}" for number in range(6))),
            shelf.query("SELECT c.id, c._ts FROM c ORDER BY c._ts DESC"),
            quota.headers["x-ms-resource-usage"],
            quota.json["_ts"],
            [shelf.delete(f"a{number}").status for number in (1, 3)],
            [shelf.replace(f"a{number}", shelf.body(f"a{number}")).status for number in (1, 3)],
            shelf.post(shelf.body("a1"), upsert="true").status,
            shelf.post(shelf.body("a3")).status,
        ]

    assert answers(one) == answers(other)


def test_death_moves_no_lsn_and_removal_does(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    before = shelf.raw.get(shelf.path).headers["x-ms-session-token"]
    shelf.clock.advance(10)
    assert shelf.raw.get(shelf.path).headers["x-ms-session-token"] == before
    assert drained(shelf.raw, shelf.admin) == 1
    assert shelf.raw.get(shelf.path).headers["x-ms-session-token"] != before


# T-134: progress


def test_an_idle_server_removes_everything_by_itself(place: Place) -> None:
    """Small items, one of nearly 2 MB, and several ranges: gone in bounded time."""
    clock = frozen_clock()
    with serving(place.fresh(), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        body = {"id": "c", "partitionKey": KEY, "defaultTtl": 10}
        assert raw.post("/dbs/d/colls", body, throughput="25000").status == 201
        shelf = Shelf(raw, clock, "/dbs/d/colls/c")
        for number in range(60):
            shelf.create(f"a{number}", pk=f"p{number}")
        shelf.create("large", text="x" * 1_900_000)
        shelf.create("alive", -1)
        assert backlog(raw) == 0
        assert raw.post("/_perseid/clock/advance", {"seconds": 10}).status == 200
        assert until(lambda: backlog(raw) == 0) < 10
        figures = raw.get("/_perseid/metrics.json").json["containers"][0]
        assert (figures["live"]["items"], figures["purgedTotal"]) == (1, 61)


def test_the_sweeper_notices_what_dies_while_nobody_asks(place: Place) -> None:
    """No request wakes it: it looks by itself."""

    async def scenario() -> None:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            await stock(account, container, [Kept("a", int(clock.now()))])
            sweeper = Sweeper(account)
            running = asyncio.create_task(sweeper.run())
            clock.advance(10)
            async with asyncio.timeout(PATIENCE):
                while await on_disk(account, container):
                    pass
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.only_on("sqlite", reason="PostgreSQL keeps the space and uses it again")
def test_a_full_disk_is_told_in_a_line(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each second anew, so not with all the circumstances."""

    async def scenario() -> None:
        async with container_at(place.fresh(), frozen_clock(), 10) as (account, _):
            tried = asyncio.Event()

            async def reclaim(_: SqliteStore, pages: int) -> int:
                tried.set()
                raise InsufficientStorage(f"no room to give {pages} pages back")

            monkeypatch.setattr(SqliteStore, "reclaim", reclaim)
            sweeper = Sweeper(account)
            sweeper.wake()
            running = asyncio.create_task(sweeper.run())
            async with asyncio.timeout(PATIENCE):
                await tried.wait()
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    (told,) = caplog.records
    assert (told.levelname, told.exc_info) == ("WARNING", None)
    assert "no room" in told.getMessage()


async def on_disk(account: Account, container: Container) -> int:
    """Items, dead or alive."""
    horizon = account.horizon(container, account.clock.now())
    usage = await account.store.usage(container, 0, horizon)
    return usage.items + usage.dead_items


def test_a_paused_sweeper_waits_and_a_resumed_one_goes_on(place: Place) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = Shelves(raw, clock, "/dbs/d").make(10)
        shelf.create("a")
        assert raw.post("/_perseid/clock/advance", {"seconds": 10}).status == 200
        assert raw.get("/_perseid/sweeper").json["paused"] is True
        assert {backlog(raw) for _ in range(50)} == {1}
        assert raw.post("/_perseid/sweeper/resume", {}).json["paused"] is False
        until(lambda: backlog(raw) == 0)
        assert raw.post("/_perseid/sweeper/pause", {}).json["paused"] is True
        assert raw.get("/_perseid/sweeper").json["purgedItems"] == 1


@pytest.mark.parametrize("pace", [0, -1, 1.01, "1", None, True])
def test_paces_that_are_none(raw: RawClient, shelves: Shelves, pace: Any) -> None:
    before = raw.get("/_perseid/sweeper").json
    reply = raw.post("/_perseid/sweeper/pace", {"pace": pace})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert raw.get("/_perseid/sweeper").json == before


@pytest.mark.only_on("sqlite", reason="no database has a part in it")
def test_a_new_pace_ends_the_rest_of_the_old_one(place: Place) -> None:
    async def scenario() -> None:
        async with opened(place.fresh(), frozen_clock()) as account:
            sweeper = Sweeper(account, pace=1e-300)
            account.requests += 1  # somebody is there, so it rests after each step
            resting = asyncio.create_task(sweeper._rest(0.001))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not resting.done()
            sweeper.pace = 1
            async with asyncio.timeout(PATIENCE):
                await resting

    asyncio.run(scenario())


# T-135: order


def lasting(now: int) -> list[Kept]:
    """Deaths under a default of 100, one after the other: a to f; and two that live."""
    return [
        Kept("e", now - 105),  # at now - 5
        Kept("b", now - 160),  # at now - 60
        Kept("d", now - 20, 10),  # at now - 10
        Kept("a", now - 300, 200),  # at now - 100
        Kept("c", now - 150, 100),  # at now - 50
        Kept("f", now - 100),  # at now
        Kept("alive", now - 99),
        Kept("alive too", now - 500, -1),
    ]


# What happens to the policy after `now`: (seconds later, new default). The dead are dead by then.
POLICIES: list[tuple[str, list[tuple[int, int | None]]]] = [
    ("unchanged", []),
    ("off", [(0, None)]),
    ("no default", [(0, -1)]),
    ("grown", [(0, 1000)]),
    ("off and on", [(0, None), (0, 1000)]),
]


@pytest.mark.parametrize(("name", "changes"), POLICIES, ids=[name for name, _ in POLICIES])
def test_the_longest_dead_goes_first(
    place: Place, name: str, changes: list[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perseid.service.sweeper.STEP", 1)

    async def scenario() -> list[str]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 100) as (account, container):
            kept = lasting(int(clock.now()))
            await stock(account, container, kept)
            rows = [await stored(account, container, each) for each in kept]
            names = {row.number: row.id for row in rows}
            for later, default_ttl in changes:
                clock.advance(later)
                await set_default(account, default_ttl)
            await asyncio.gather(*account.background)
            with noted_steps(account, monkeypatch) as steps:
                await Sweeper(account).tick()
            return [names[corpse.number] for _, corpses in steps for corpse in corpses]

    assert asyncio.run(scenario()) == ["a", "b", "c", "d", "e", "f"]


@contextmanager
def noted_steps(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[str, list[Corpse]]]]:
    """The looks for dead items while the block runs: in which container, and who was removed."""
    steps: list[tuple[str, list[Corpse]]] = []
    purge = account.store.purge

    async def noted(container: Container, *rest: Any, **more: Any) -> list[Corpse]:
        corpses = await purge(container, *rest, **more)
        steps.append((container.id, corpses))
        return corpses

    with monkeypatch.context() as patched:
        patched.setattr(account.store, "purge", noted)
        yield steps


async def stored(account: Account, container: Container, kept: Kept) -> Row:
    place = items.place_of(container, '["p"]')
    row, _ = await account.store.read(container, 0, ItemKey(place.pk, kept.id))
    assert row is not None
    return row


async def set_default(account: Account, default_ttl: int | None) -> Container:
    body = {**account.catalog.container("d", "c").properties, "defaultTtl": default_ttl}
    now = account.clock.now()
    return await containers.replace(account, "d", "c", body, if_match=None, now=now)


def test_steps_are_small_while_requests_arrive(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-140: a step is bounded in number, so that whoever asks waits for little."""

    async def scenario() -> list[int]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            long_ago = int(clock.now()) - 1000
            await stock(account, container, [Kept(f"a{n}", long_ago) for n in range(5 * STEP)])
            purge = account.store.purge

            async def disturbed(*place: Any, **how: Any) -> list[Corpse]:
                account.requests += 1
                return await purge(*place, **how)

            monkeypatch.setattr(account.store, "purge", disturbed)
            account.requests += 1
            with noted_steps(account, monkeypatch) as steps:
                await Sweeper(account, pace=1).tick()
            return [len(corpses) for _, corpses in steps if corpses]

    assert asyncio.run(scenario()) == [STEP] * 5


def test_ranges_and_containers_take_turns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large backlog does not keep the others waiting: one step each, round and round."""

    async def scenario() -> list[tuple[str, int]]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, first):
            body = {"id": "c2", "partitionKey": KEY, "defaultTtl": 10}
            second = await containers.create(account, "d", body, None, clock.now())
            long_ago = int(clock.now()) - 1000
            for container, size in ((first, 3 * LARGE_STEP), (second, 2 * LARGE_STEP)):
                dead = [Kept(f"a{number}", long_ago) for number in range(size)]
                await stock(account, container, dead)
            with noted_steps(account, monkeypatch) as steps:
                await Sweeper(account).tick()
            return [(name, len(corpses)) for name, corpses in steps if corpses]

    turns = ("c", "c2", "c", "c2", "c")
    assert asyncio.run(scenario()) == [(name, LARGE_STEP) for name in turns]


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


class Disk(NamedTuple):
    """What the file holds while no server runs."""

    ids: list[str]
    items: int
    size: int
    counted: tuple[int, int]
    entries: set[int]
    numbers: set[int]
    verdict: str


def examine(data: Path) -> Disk:
    db = apsw.Connection(str(data / DATABASE_FILE))
    try:
        (name,) = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if name.startswith("items_")
        ]
        number = name.removeprefix("items_")
        rows = list(db.execute(f"SELECT id, number, size FROM {name} ORDER BY id"))
        return Disk(
            [id_ for id_, _, _ in rows],
            len(rows),
            sum(size for _, _, size in rows),
            db.execute("SELECT items, bytes FROM positions WHERE container = ?", (number,)).get,
            {entry for (entry,) in db.execute(f"SELECT number FROM unique_{number}")},
            {number for _, number, _ in rows},
            db.execute("PRAGMA integrity_check").get,
        )
    finally:
        db.close()


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
        assert server.end(signal.SIGTERM) == 0
    assert check_disk_after(examine(settings.data)) == alive + 1


def check_disk_after(disk: Disk) -> int:
    assert disk.verdict == "ok"
    assert disk.counted == (disk.items, disk.size)
    assert disk.entries == disk.numbers
    return disk.items


# T-138, T-139: re-creation


@pytest.mark.only_on("sqlite", reason="holds up the one writer that only it has")
@pytest.mark.parametrize("order", ["purge first", "create first", "both ways"])
@pytest.mark.parametrize("write", [items.create, items.upsert], ids=["create", "upsert"])
def test_a_recreated_item_survives_a_queued_purge(
    place: Place, order: str, write: Callable[..., Any]
) -> None:
    """The writer is held up while a purge and a write of the dead id line up behind it."""

    async def scenario() -> None:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            now = int(clock.now())
            await stock(account, container, [Kept("a", now - 10), Kept("b", now - 11)])
            gate = Event()

            horizon = account.horizon(container, clock.now())
            op = begin(account, container, clock.now())
            draft = items.draft(container, parse(b'{"id":"a","pk":"p","is":"new"}'), '["p"]')
            more = () if write is items.create else (None,)

            def purge() -> asyncio.Task[Any]:
                return asyncio.create_task(account.store.purge(container, 0, horizon, limit=10))

            writer = account.store._writer  # type: ignore[attr-defined]
            held = writer.submit(lambda: gate.wait(PATIENCE), is_heavy=True)
            await asyncio.sleep(0)
            queued = [purge()] if order != "create first" else []
            await asyncio.sleep(0)
            queued.append(asyncio.create_task(write(op, draft, *more)))
            await asyncio.sleep(0)
            if order != "purge first":
                queued.append(purge())
            await asyncio.sleep(0)
            gate.set()
            await asyncio.gather(held, *queued)
            where = items.place_of(container, '["p"]')
            row, _ = await items.read(begin(account, container, clock.now()), where, "a")
            assert row is not None
            assert orjson.loads(row.body)["is"] == "new"
            assert await on_disk(account, container) == 1

    asyncio.run(scenario())


def test_recreated_items_survive_a_purge_on_the_wire(place: Place) -> None:
    """Many clients create over dead ids while the sweeper and two drains are at work."""
    clock = frozen_clock()
    size = 400
    with serving(place.fresh(), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = Shelves(raw, clock, "/dbs/d").make(10)
        raw.post("/_perseid/sweeper/pause", {})
        for number in range(size):
            shelf.create(f"a{number}")
        raw.post("/_perseid/clock/advance", {"seconds": 10})
        raw.post("/_perseid/sweeper/resume", {})

        def recreate(first: int) -> set[int]:
            client = RawClient(raw.endpoint)
            mine = Shelf(client, clock, shelf.path)
            statuses = {
                mine.post(mine.body(f"a{number}", -1)).status for number in range(first, size, 4)
            }
            client.close()
            return statuses

        def drain_too(_: int) -> None:
            client = RawClient(raw.endpoint)
            drained(client)
            client.close()

        with ThreadPoolExecutor(6) as pool:
            created = [pool.submit(recreate, first) for first in range(4)]
            draining = [pool.submit(drain_too, number) for number in range(2)]
            assert {status for each in created for status in each.result()} == {201}
            for each in draining:
                each.result()
        assert drained(raw) >= 0
        assert backlog(raw) == 0
        assert shelf.counted() == size


def test_recreating_removes_the_dead_version_at_once(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    old = shelf.create("a")
    shelf.create("b")
    shelf.clock.advance(10)
    assert backlog(shelf.raw, shelf.admin) == 2
    new = shelf.create("a")
    assert new["_rid"] != old["_rid"]
    assert new["_etag"] != old["_etag"]
    figures = shelf.raw.get(shelf.admin).json
    assert (figures["live"]["items"], figures["backlog"]["items"]) == (1, 1)
    assert drained(shelf.raw, shelf.admin) == 1
    assert shelf.seen("a", "b") == {"a"}
    assert shelf.read("a").json["_rid"] == new["_rid"]


# T-141: the living are not looked at


@pytest.mark.parametrize("default_ttl", [100, -1])
def test_a_step_costs_the_same_among_many_living(default_ttl: int) -> None:
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
        kept = [Kept(f"d{number}", now - 200, 100) for number in range(10)]
        # All kinds of the living: they inherit, end later by themselves, or never end.
        kept += [Kept(f"l{n}", now - 50, (None, 5000, -1)[n % 3]) for n in range(alive)]
        await stock(account, container, kept)
        assert isinstance(account.store, SqliteStore)
        connection = account.store._write_db
        noted: list[dict[str, Any]] = []
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, noted.append)
        horizon = account.horizon(container, clock.now())
        corpses = await account.store.purge(container, 0, horizon, limit=STEP)
        connection.trace_v2(0)
        table = f"items_{container.number}"
        counters = [each["stmt_status"] for each in noted if table in each["sql"]]
        assert counters
        return Cost(
            len(corpses),
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
            kept = [Kept(f"l{n}", now, (None, 50)[n % 2]) for n in range(5000)]
            await stock(account, container, kept)
            assert isinstance(account.store, SqliteStore)
            connection = account.store._write_db
            noted: list[dict[str, Any]] = []
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, noted.append)
            horizon = account.horizon(container, clock.now())
            assert await account.store.purge(container, 0, horizon, limit=STEP) == []
            connection.trace_v2(0)
            return sum(each["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"] for each in noted)

    assert asyncio.run(scenario()) < 500


# T-142: TTL off


def test_off_finishes_the_backlog_and_no_more(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("dead")
    shelf.create("sleeping", 1000)
    shelf.clock.advance(10)
    shelf.create("alive")
    shelf.set_default()
    wait_until_counted(shelf)
    assert drained(shelf.raw, shelf.admin) == 1
    shelf.clock.advance(1_000_000)
    before = shelf.raw.get(shelf.path).headers["x-ms-session-token"]
    assert drained(shelf.raw, shelf.admin) == 0
    assert shelf.raw.get(shelf.path).headers["x-ms-session-token"] == before
    assert shelf.seen("dead", "sleeping", "alive") == {"sleeping", "alive"}


def wait_until_counted(shelf: Shelf) -> None:
    """Until the last change is in the audit log with its figures."""

    def is_counted() -> bool:
        entries = shelf.raw.get(f"{shelf.admin}/audit").json["entries"]
        return bool(entries) and entries[-1]["event"] == "figures"

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
            await stock(account, container, [Kept("a", int(clock.now()) - 50, 20)])
            for default_ttl in history:
                await set_default(account, default_ttl)
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


# T-161: what it would cost


def test_the_cost_of_removing_is_the_cost_of_deleting(shelves: Shelves) -> None:
    assert charges.delete(1024, 10) == 7
    dying, deleted = (shelves.make(10, name=name) for name in ("dying", "deleted"))
    paid = 0.0
    for number in range(3):
        body: dict[str, Any] = {"text": "x" * 1000 * number, "list": list(range(number * 5))}
        for shelf in (dying, deleted):
            shelf.create(f"a{number}", **body)
        paid += float(deleted.delete(f"a{number}").headers["x-ms-request-charge"])
    dying.clock.advance(10)
    assert drained(dying.raw, dying.admin) == 3
    everything = dying.raw.get("/_perseid/metrics.json").json["containers"]
    (figures,) = [each for each in everything if f"/{each['container']}" == dying.path]
    assert figures["purgeCharge"] == pytest.approx(paid, abs=0.02)


def test_nobody_pays_for_it(shelves: Shelves) -> None:
    """T-157: a drain's answer names no charge, and reads cost the same before and after."""
    shelf = shelves.make(10)
    shelf.create("a", -1)
    for number in range(20):
        shelf.create(f"d{number}")
    shelf.clock.advance(10)
    before = shelf.read("a").headers["x-ms-request-charge"]
    reply = shelf.raw.post(f"{shelf.admin}/drain", {})
    assert "x-ms-request-charge" not in reply.headers
    assert shelf.read("a").headers["x-ms-request-charge"] == before


# T-313: figures of the purge


def test_figures_of_the_purge(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    for number in range(5):
        shelf.create(f"a{number}")
    shelf.create("alive", -1)
    shelf.clock.advance(10)

    def figures() -> dict[str, Any]:
        everything = shelf.raw.get("/_perseid/metrics.json").json["containers"]
        (found,) = [each for each in everything if f"/{each['container']}" == shelf.path]
        assert isinstance(found, dict)
        return found

    before = figures()
    assert (before["expiredTotal"], before["purgedTotal"], before["purgedBytes"]) == (5, 0, 0)
    assert before["purgeCharge"] == 0
    drained(shelf.raw, shelf.admin)
    after = figures()
    assert (after["expiredTotal"], after["purgedTotal"]) == (5, 5)
    assert after["purgedBytes"] == before["backlog"]["bytes"]
    assert after["live"] == before["live"]
    assert after["backlog"] == {"items": 0, "bytes": 0}
    shelf.raw.delete(shelf.path)
    everything = shelf.raw.get("/_perseid/metrics.json").json["containers"]
    assert shelf.path not in {f"/{each['container']}" for each in everything}


# T-314: drain


def test_drain_of_one_container_leaves_the_others(shelves: Shelves, raw: RawClient) -> None:
    one, other = (shelves.make(10, name=name) for name in ("one", "other"))
    for shelf in (one, other):
        for number in range(3):
            shelf.create(f"a{number}")
    shelves.clock.advance(10)
    reply = raw.post(f"{one.admin}/drain", {})
    assert reply.json == {"purged": 3, "containers": {one.path.removeprefix("/"): 3}}
    assert (backlog(raw, one.admin), backlog(raw, other.admin)) == (0, 3)
    assert raw.post(f"{one.admin}/drain", {}).json == {"purged": 0, "containers": {}}
    everything = raw.post("/_perseid/ttl/drain", {}).json
    assert everything["containers"][other.path.removeprefix("/")] == 3
    assert everything["purged"] == sum(everything["containers"].values())
    assert backlog(raw, other.admin) == 0


def test_drain_takes_many_steps_and_ranges(shelves: Shelves, raw: RawClient) -> None:
    body = {"id": "wide", "partitionKey": KEY, "defaultTtl": 10}
    assert raw.post(f"{shelves.database}/colls", body, throughput="30000").status == 201
    shelf = Shelf(raw, shelves.clock, f"{shelves.database}/colls/wide")
    for number in range(90):
        shelf.create(f"a{number}", pk=f"p{number}")
    shelves.clock.advance(10)
    assert drained(raw, shelf.admin) == 90
    assert backlog(raw, shelf.admin) == 0


def test_drain_right_after_a_change_removes_what_it_killed(place: Place) -> None:
    """Everything dead now, and that includes those whom the change of a moment ago killed."""

    async def scenario() -> dict[str, int]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, -1) as (account, container):
            long_ago = int(clock.now()) - 100
            await stock(account, container, [Kept(f"a{n}", long_ago) for n in range(300)])
            await set_default(account, 50)
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
            await stock(account, container, [Kept(f"a{n}", long_ago) for n in range(2000)])
            sweeper = Sweeper(account)
            running = asyncio.create_task(sweeper.run())
            await asyncio.sleep(0)
            for default_ttl in (90, 80, 70):  # the second and third kill nobody
                await set_default(account, default_ttl)
                sweeper.wake()
            await asyncio.gather(*account.background)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            notes = [note.entry for _, note in await account.store.notes(container.rid, 0, 100)]
            counted = [note["diedAtOnce"]["items"] for note in notes if note["event"] == "figures"]
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
            await stock(account, container, [Kept(f"d{n}", now - 100) for n in range(8000)])
            await stock(account, container, [Kept(f"l{n}", now, -1) for n in range(100)])

    asyncio.run(load())
    full = (settings.data / DATABASE_FILE).stat().st_size
    with serving(settings, clock) as raw:
        assert drained(raw) == 8000
    assert (settings.data / DATABASE_FILE).stat().st_size < full / 10
    disk = examine(settings.data)
    assert (disk.verdict, disk.items) == ("ok", 100)


def test_metrics_of_a_sweeper_that_is_paused(shelves: Shelves, raw: RawClient) -> None:
    assert raw.get("/_perseid/metrics.json").json["sweeperPaused"] is True
    assert b"\nperseid_sweeper_paused 1\n" in raw.get("/_perseid/metrics").body
    assert metrics.exposition(raw.get("/_perseid/metrics.json").json).startswith(b"# HELP perseid_")
