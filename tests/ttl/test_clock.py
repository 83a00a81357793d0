"""The clock that tests and administrators can move, and the guard against leaps of the real one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from perseid.clock import MovableClock, Readings, SystemClock
from perseid.config import Settings
from perseid.documents import parse
from perseid.errors import InsufficientStorage
from perseid.http.metrics import exposition
from perseid.model import Container
from perseid.server import opened
from perseid.service.account import Account
from perseid.service.items import point_operations
from perseid.service.lifetimes import metrics
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.service.operation import begin
from perseid.service.resources import containers, databases
from perseid.store.types import PurgeRequest, PurgeResult
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import Servers, frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import Shelves, assert_gone

DAY = 86_400


def move(raw: RawClient, verb: str, body: dict[str, Any] | None = None) -> Reply:
    return raw.post(f"/_perseid/clock/{verb}", {} if body is None else body)


def shown(reply: Reply) -> dict[str, Any]:
    assert reply.status == 200, reply
    body: dict[str, Any] = reply.json
    return body


# T-300: the routes


def test_freeze_advance_and_expiry(raw: RawClient, shelves: Shelves) -> None:
    """A day passes in no time; the item lives to its last second."""
    shelf = shelves.make(-1)
    shown(move(raw, "freeze"))
    shelf.create("a", DAY)
    shown(move(raw, "advance", {"seconds": DAY - 1}))
    assert shelf.read("a").status == 200
    shown(move(raw, "advance", {"seconds": 1}))
    assert_gone(shelf.read("a"))


@pytest.mark.parametrize(("step", "times"), [(0.1, 10), (0.001, 1000), (0.7, 10), (1e-06, 7)])
def test_small_steps_of_a_frozen_clock_add_up(step: float, times: int) -> None:
    clock = frozen_clock()  # T-031: exact to the second, however it is reached
    start = clock.now()
    for _ in range(times):
        clock.advance(step)
    assert clock.now() == start + round(step * times, 6)


def test_a_step_is_as_long_as_it_says_wherever_the_clock_was_frozen() -> None:
    clock = MovableClock(lambda: 1_794_883_435.6514947)
    shown = clock.now()
    start = clock.freeze()
    assert shown <= start < shown + 2e-6
    assert clock.advance(3600) == start + 3600


def test_a_step_too_small_to_count_is_none_back() -> None:
    clock = MovableClock(lambda: 1_800_000_000.1234567)
    shown = clock.freeze()
    for step in (0, 1e-9, 1e-7):
        assert clock.advance(step) >= shown


def test_the_answer_tells_the_new_time(raw: RawClient, shelves: Shelves) -> None:
    now = shelves.clock.now()
    answer = {"now": now, "movable": True, "frozen": True, "heldUntil": None}
    assert shown(raw.get("/_perseid/clock")) == answer
    assert shown(move(raw, "advance", {"seconds": 5})) == answer | {"now": now + 5}
    assert shown(move(raw, "set", {"to": now + 60}))["now"] == now + 60
    assert shown(raw.get("/_perseid/clock"))["now"] == now + 60


def test_a_frozen_clock_stands_still(raw: RawClient, shelves: Shelves) -> None:
    first = shown(move(raw, "freeze"))["now"]
    assert shown(move(raw, "freeze"))["now"] == first
    assert {shown(raw.get("/_perseid/clock"))["now"] for _ in range(20)} == {first}


def test_a_resumed_clock_runs_on_from_where_it_stood(place: Place) -> None:
    with serving(place.fresh(no_sweeper=True), frozen_clock()) as raw:
        stood = shown(move(raw, "advance", {"seconds": 1000}))["now"]
        resumed = shown(move(raw, "resume"))
        assert resumed["frozen"] is False
        assert stood <= resumed["now"] < stood + 60
        seen = [shown(raw.get("/_perseid/clock"))["now"] for _ in range(50)]
        assert seen == sorted(seen)
        assert seen[-1] > resumed["now"]
        assert shown(move(raw, "freeze"))["now"] >= seen[-1]


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_running_clock_moves_too(place: Place, is_frozen: bool) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        if not is_frozen:
            shown(move(raw, "resume"))
        before = clock.now()
        assert (
            before + DAY <= shown(move(raw, "advance", {"seconds": DAY}))["now"] < before + DAY + 60
        )
        to = before + 3 * DAY
        assert to <= shown(move(raw, "set", {"to": to}))["now"] < to + 60


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("advance", {"seconds": -1}),
        ("advance", {"seconds": -0.001}),
        ("set", {"to": 0}),
        ("set", {"to": -1}),
        ("set", {"to": 1_000_000_000}),
    ],
)
def test_backwards_is_refused(
    raw: RawClient, shelves: Shelves, verb: str, body: dict[str, float]
) -> None:
    before = shelves.clock.now()
    reply = move(raw, verb, body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "the clock only moves forward" in reply.json["message"]
    assert shelves.clock.now() == before


def test_one_second_back_is_refused(raw: RawClient, shelves: Shelves) -> None:
    before = shelves.clock.now()
    assert move(raw, "set", {"to": before - 1}).status == 400
    assert shown(move(raw, "set", {"to": before}))["now"] == before
    assert shown(move(raw, "advance", {"seconds": 0}))["now"] == before


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("advance", {}),
        ("advance", {"seconds": "5"}),
        ("advance", {"seconds": True}),
        ("advance", {"seconds": None}),
        ("advance", {"to": 5}),
        ("set", {}),
        ("set", {"to": "2030-01-01"}),
        ("set", {"to": [1]}),
        ("set", {"seconds": 5}),
    ],
)
def test_malformed_moves(raw: RawClient, shelves: Shelves, verb: str, body: dict[str, Any]) -> None:
    before = shelves.clock.now()
    reply = move(raw, verb, body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert shelves.clock.now() == before


@pytest.mark.parametrize(("verb", "body"), [("advance", {"seconds": 1e300}), ("set", {"to": 1e18})])
def test_a_move_out_of_the_calendar_leaves_a_working_server(
    place: Place, verb: str, body: dict[str, float]
) -> None:
    """Refused or not: items can still be written, and read back, afterwards."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        shelf = stocked(raw, clock, -1)
        move(raw, verb, body)
        assert shelf.post(shelf.body("after")).status == 201
        assert shelf.read("after").status == 200


@pytest.mark.parametrize("verb", ["freeze", "resume", "advance", "set"])
def test_moves_are_absent_without_a_test_clock(plain: RawClient, verb: str) -> None:
    reply = move(plain, verb, {"seconds": 1, "to": 4_000_000_000})
    assert (reply.status, reply.json["code"]) == (404, "NotFound")


def test_a_plain_clock_can_be_looked_at(plain: RawClient) -> None:
    body = shown(plain.get("/_perseid/clock"))
    assert body["movable"] is False
    assert body["heldUntil"] is None
    assert "frozen" not in body


@pytest.fixture(scope="module")
def plain(servers: Servers) -> Iterator[RawClient]:
    """A server as users start it, without --test-clock."""
    with servers("system").connect() as client:
        yield client


def test_a_server_started_with_a_test_clock_has_the_moves(place: Place) -> None:
    with running(place.fresh(no_sweeper=True, test_clock=True)) as found:
        raw = RawClient(found.endpoint, found.key)
        before = shown(raw.get("/_perseid/clock"))
        assert before["movable"] is True
        assert before["frozen"] is False
        assert shown(move(raw, "advance", {"seconds": DAY}))["now"] >= before["now"] + DAY
        raw.close()


@pytest.mark.parametrize("verb", ["freeze", "resume", "advance", "set"])
def test_moving_needs_a_master_key(raw: RawClient, shelves: Shelves, verb: str) -> None:
    before = shelves.clock.now()
    body = {"seconds": 1, "to": before + 1}
    unsigned = raw.request("POST", f"/_perseid/clock/{verb}", body, sign_with=None)
    assert unsigned.status == 401
    assert shelves.clock.now() == before
    assert shelves.clock.is_frozen


def test_the_clock_drives_ts(raw: RawClient, shelves: Shelves) -> None:
    """Of items and of containers, whatever the client's own date says."""
    now = int(shown(move(raw, "advance", {"seconds": 10 * DAY}))["now"])
    shelf = shelves.make(-1)
    assert raw.get(shelf.path).json["_ts"] == now
    assert shelf.create("a")["_ts"] == now
    shown(move(raw, "advance", {"seconds": 7}))
    replaced = shelf.replace("a", shelf.body("a"))
    assert (replaced.status, replaced.json["_ts"]) == (200, now + 7)
    assert shelf.query("SELECT VALUE c._ts FROM c") == [now + 7]


# T-300 and T-038: what a restart leaves


def test_the_moved_clock_survives_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        shelf = stocked(raw, clock, -1)
        shelf.create("short", DAY)
        shelf.create("long", 3 * DAY)
        then = shown(move(raw, "advance", {"seconds": 2 * DAY}))["now"]
    # A fresh clock, as a new process has: it shows the system's time, two days behind.
    with serving(settings, MovableClock()) as raw:
        assert shown(raw.get("/_perseid/clock"))["now"] >= then
        again = replace(shelf, raw=raw)
        assert_gone(again.read("short"))
        assert again.read("long").status == 200
        assert again.create("new")["_ts"] >= int(then)


@pytest.mark.parametrize("lag", [1, 600, 10 * DAY])
def test_a_system_clock_set_back_restores_no_item(place: Place, lag: int) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        shelf = stocked(raw, clock, -1)
        shelf.create("a", 10)
        clock.advance(10)
        assert_gone(shelf.read("a"))
        seen = clock.now()
    behind = MovableClock(lambda: seen - lag)
    with serving(settings, behind) as raw:
        assert shown(raw.get("/_perseid/clock"))["now"] >= seen
        assert_gone(replace(shelf, raw=raw).read("a"))


@pytest.mark.only_on("sqlite", reason="PostgreSQL has a clock that does not crash with us")
def test_a_crash_does_not_move_the_clock(place: Place) -> None:
    """What may be shown before the next note of it is no time that was shown."""
    settings, machine = place.lasting(no_sweeper=True), Machine()

    async def work() -> None:
        async with opened(settings, MovableClock(lambda: machine.wall)) as account:
            account.requests += 1
            await Sweeper(account).persist_clock_early()
            assert account.durable_clock_limit > machine.wall + 2
        machine.wall += 0.5
        async with opened(settings, MovableClock(lambda: machine.wall)) as account:
            assert account.clock.now() == machine.wall

    asyncio.run(work())


@pytest.mark.only_on("sqlite", reason="PostgreSQL has the clock")
def test_a_disk_that_takes_nothing_can_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_name: str, _value: str) -> None:
        raise InsufficientStorage("full")

    async def work() -> None:
        async with opened(place.fresh()) as account:
            monkeypatch.setattr(account.stores.values, "put", full)
            now = account.durable_clock_limit + 10
            await account.persist_clock(now)
            assert account.durable_clock_limit > now
            with pytest.raises(InsufficientStorage):  # a moved clock must last
                await account.persist_clock(now, ahead=0)

    asyncio.run(work())


@pytest.mark.parametrize(("lag", "is_told"), [(0, False), (4, False), (6, True), (DAY, True)])
def test_a_clock_that_waits_says_until_when(place: Place, lag: int, is_told: bool) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock):
        seen = clock.now()
    system = seen - lag
    with serving(settings, SystemClock(lambda: system)) as raw:
        answer = shown(raw.get("/_perseid/clock"))
        assert answer["movable"] is False
        assert answer["now"] == seen
        assert answer["heldUntil"] == (seen if is_told else None)
        system = seen + 1
        assert shown(raw.get("/_perseid/clock")) == {
            "now": system, "movable": False, "heldUntil": None,
        }  # fmt: skip


def stocked(raw: RawClient, clock: MovableClock, default_ttl: int) -> Any:
    """A container in a server that is this test's own."""
    assert raw.post("/dbs", {"id": "d"}).status == 201
    return Shelves(raw, clock, "/dbs/d").make(default_ttl)


# T-307: leaps of the system's clock


@dataclass
class Machine:
    """The two clocks of a machine, moved by hand."""

    wall: float = 1_700_000_000.0
    monotonic: float = 5_000.0

    def readings(self) -> Readings:
        return Readings(self.wall, self.monotonic)

    def pass_time(self, seconds: float, *, leap: float = 0) -> None:
        self.wall += seconds + leap
        self.monotonic += seconds


@dataclass
class Ward:
    """A sweeper whose machine can be tampered with, and a container with one item, ttl 60."""

    machine: Machine
    account: Account
    sweeper: Sweeper
    container: Container

    async def stored(self) -> int:
        """Items on disk, dead or alive."""
        cutoff = self.account.cutoff(self.container, self.machine.wall)
        usage = await self.account.stores.items.usage(self.container, 0, cutoff)
        return usage.items + usage.expired_items

    async def shown_alarm(self) -> tuple[bool, int]:
        """The alarm in the figures, and in their text form."""
        figures = await metrics.collect(self.account, self.sweeper, self.machine.wall)
        (value,) = re.findall(rb"^perseid_clock_alarm (\d)$", exposition(figures), re.M)
        return figures["clockAlarm"], int(value)

    async def add(self, id_: str) -> None:
        op = begin(self.account, self.container, self.account.clock.now())
        document = parse(b'{"id":"%s","pk":"p","ttl":60}' % id_.encode())
        await point_operations.create(
            op, point_operations.checked_item(self.container, document, '["p"]')
        )


@asynccontextmanager
async def ward(place: Place, **settings: Any) -> AsyncIterator[Ward]:
    machine = Machine()
    async with ward_at(place.fresh(**settings), machine) as found:
        yield found


@asynccontextmanager
async def ward_at(settings: Settings, machine: Machine) -> AsyncIterator[Ward]:
    clock = MovableClock(lambda: machine.wall)
    async with opened(settings, clock) as account:
        await databases.create(account, {"id": "d"}, None, clock.now())
        body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": -1}
        container = await containers.create(account, "d", body, None, clock.now())
        sweeper = Sweeper(account, readings=machine.readings)
        found = Ward(machine, account, sweeper, container)
        await found.add("a")
        await sweeper.tick()
        assert await found.stored() == 1
        yield found


@pytest.mark.parametrize(
    ("limit", "passes", "leap", "is_alarmed"),
    [
        (3600, 1, 7200, True),
        (3600, 1, 3601, True),
        (3600, 1, 3600, False),
        (3600, 1, 120, False),
        (3600, 7200, 0, False),  # a long tick is no leap: the steady clock agrees
        (3600, 7200, 3601, True),
        (3600, 100, -50, False),  # set back a little
        (60, 1, 61, True),
        (60, 1, 60, False),
    ],
)
def test_leaps_pause_the_purge(
    place: Place, limit: int, passes: float, leap: float, is_alarmed: bool
) -> None:
    """The item of 60 seconds is dead after each of these but the smallest; who removes it?"""

    async def scenario() -> None:
        async with ward(place, clock_jump=limit) as found:
            found.machine.pass_time(passes, leap=leap)
            await found.sweeper.tick()
            is_dead = passes + leap >= 60
            assert (found.sweeper.alarm is not None) == is_alarmed
            assert await found.stored() == (0 if is_dead and not is_alarmed else 1)

    asyncio.run(scenario())


def test_a_clock_jump_in_the_middle_of_a_sweep_stops_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is much to remove when the clock leaps; whom the leap alone has ended stays on disk."""

    async def scenario() -> None:
        async with ward(place) as found:
            found.machine.pass_time(30)
            await found.add("b")
            found.machine.pass_time(30)  # the first is dead, and will be removed
            purge = found.account.stores.expiry.purge

            async def leaping(request: PurgeRequest) -> PurgeResult:
                removed = await purge(request)
                if removed.items:
                    found.machine.pass_time(1, leap=7200)
                return removed

            monkeypatch.setattr(found.account.stores.expiry, "purge", leaping)
            await found.sweeper.tick()
            assert found.sweeper.alarm is not None
            assert await found.stored() == 1
            await found.sweeper.confirm_clock()
            await found.sweeper.tick()
            assert await found.stored() == 0

    asyncio.run(scenario())


def test_the_alarm_lasts_until_confirmed(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            found.machine.pass_time(1, leap=7200)
            for _ in range(3):
                await found.sweeper.tick()
                found.machine.pass_time(10)
            assert found.sweeper.alarm is not None
            assert "7200 seconds" in found.sweeper.alarm
            assert await found.stored() == 1
            assert await found.shown_alarm() == (True, 1)
            await found.sweeper.confirm_clock()
            await found.sweeper.tick()
            assert found.sweeper.alarm is None
            assert await found.stored() == 0
            assert await found.shown_alarm() == (False, 0)
            # The next leap is another matter.
            await found.add("b")
            found.machine.pass_time(1, leap=7200)
            await found.sweeper.tick()
            assert found.sweeper.alarm is not None
            assert await found.stored() == 1

    asyncio.run(scenario())


def test_a_restart_is_no_confirmation(place: Place) -> None:
    """Or whoever starts the server again, to look what is wrong, would lose the data by that."""
    machine = Machine()
    settings = place.lasting()

    async def leap() -> None:
        async with ward_at(settings, machine) as found:
            machine.pass_time(1, leap=7200)
            await found.sweeper.tick()
            assert found.sweeper.alarm is not None

    asyncio.run(leap())
    clock = MovableClock(lambda: machine.wall)
    with serving(settings, clock) as raw:
        assert "7200 seconds" in shown(raw.get("/_perseid/sweeper"))["alarm"]
        figures = shown(raw.get("/_perseid/ttl/d/c"))
        assert (figures["live"]["items"], figures["pendingPurge"]["items"]) == (0, 1)
        assert shown(raw.post("/_perseid/sweeper/confirm-clock", {}))["alarm"] is None
    with serving(settings, clock) as raw:
        assert shown(raw.get("/_perseid/sweeper"))["alarm"] is None


def test_resuming_the_sweeper_is_no_confirmation(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            found.machine.pass_time(1, leap=7200)
            await found.sweeper.tick()
            found.sweeper.pause()
            found.sweeper.resume()
            await found.sweeper.tick()
            assert found.sweeper.alarm is not None
            assert await found.stored() == 1

    asyncio.run(scenario())


def test_visibility_follows_the_clock_in_spite_of_the_alarm(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            found.machine.pass_time(1, leap=7200)
            await found.sweeper.tick()
            op = begin(found.account, found.container, found.account.clock.now())
            where = point_operations.logical_partition_of(found.container, '["p"]')
            assert (await point_operations.read(op, where, "a"))[0] is None
            assert await found.stored() == 1

    asyncio.run(scenario())


def test_moving_the_test_clock_is_no_leap(shelves: Shelves, raw: RawClient) -> None:
    """An administrator's move is meant; only the machine's own clock is distrusted."""
    move(raw, "advance", {"seconds": 30 * DAY})
    assert shown(raw.get("/_perseid/sweeper"))["alarm"] is None
    assert shown(raw.get("/_perseid/metrics.json"))["clockAlarm"] is False
    assert b"\nperseid_clock_alarm 0\n" in raw.get("/_perseid/metrics").body


def test_confirming_without_an_alarm_changes_nothing(raw: RawClient, shelves: Shelves) -> None:
    before = shown(raw.get("/_perseid/sweeper"))
    assert shown(raw.post("/_perseid/sweeper/confirm-clock", {})) == before
