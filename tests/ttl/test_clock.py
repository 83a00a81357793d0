"""The clock that tests and administrators can move, and the guard against leaps of the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from perseid.clock import MovableClock, SystemClock
from perseid.errors import InsufficientStorage
from perseid.server import opened
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.types import PurgeRequest, PurgeResult
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import Servers, frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainers, assert_gone
from tests.ttl.wards import Machine, ward, ward_at

DAY = 86_400


def move(raw: RawClient, verb: str, body: dict[str, Any] | None = None) -> Reply:
    return raw.post(f"/_perseid/clock/{verb}", {} if body is None else body)


def body_of(reply: Reply) -> dict[str, Any]:
    assert reply.status == 200, reply
    body: dict[str, Any] = reply.json
    return body


# T-300: the routes


def test_freeze_advance_and_expiry(raw: RawClient, containers: TtlContainers) -> None:
    """A day passes in no time; the item lives to its last second."""
    container = containers.make(-1)
    body_of(move(raw, "freeze"))
    container.create("a", DAY)
    body_of(move(raw, "advance", {"seconds": DAY - 1}))
    assert container.read("a").status == 200
    body_of(move(raw, "advance", {"seconds": 1}))
    assert_gone(container.read("a"))


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


def test_the_answer_tells_the_new_time(raw: RawClient, containers: TtlContainers) -> None:
    now = containers.clock.now()
    answer = {"now": now, "movable": True, "frozen": True, "heldUntil": None, "alarm": None}
    assert body_of(raw.get("/_perseid/clock")) == answer
    assert body_of(move(raw, "advance", {"seconds": 5})) == answer | {"now": now + 5}
    assert body_of(move(raw, "set", {"to": now + 60}))["now"] == now + 60
    assert body_of(raw.get("/_perseid/clock"))["now"] == now + 60


def test_a_frozen_clock_stands_still(raw: RawClient, containers: TtlContainers) -> None:
    first = body_of(move(raw, "freeze"))["now"]
    assert body_of(move(raw, "freeze"))["now"] == first
    assert {body_of(raw.get("/_perseid/clock"))["now"] for _ in range(20)} == {first}


def test_a_resumed_clock_runs_on_from_where_it_stood(place: Place) -> None:
    with serving(place.fresh(no_sweeper=True), frozen_clock()) as raw:
        stood = body_of(move(raw, "advance", {"seconds": 1000}))["now"]
        resumed = body_of(move(raw, "resume"))
        assert resumed["frozen"] is False
        assert stood <= resumed["now"] < stood + 60
        seen = [body_of(raw.get("/_perseid/clock"))["now"] for _ in range(50)]
        assert seen == sorted(seen)
        assert seen[-1] > resumed["now"]
        assert body_of(move(raw, "freeze"))["now"] >= seen[-1]


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_running_clock_moves_too(place: Place, is_frozen: bool) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        if not is_frozen:
            body_of(move(raw, "resume"))
        before = clock.now()
        assert (
            before + DAY
            <= body_of(move(raw, "advance", {"seconds": DAY}))["now"]
            < before + DAY + 60
        )
        to = before + 3 * DAY
        assert to <= body_of(move(raw, "set", {"to": to}))["now"] < to + 60


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
    raw: RawClient, containers: TtlContainers, verb: str, body: dict[str, float]
) -> None:
    before = containers.clock.now()
    reply = move(raw, verb, body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "the clock only moves forward" in reply.json["message"]
    assert containers.clock.now() == before


def test_one_second_back_is_refused(raw: RawClient, containers: TtlContainers) -> None:
    before = containers.clock.now()
    assert move(raw, "set", {"to": before - 1}).status == 400
    assert body_of(move(raw, "set", {"to": before}))["now"] == before
    assert body_of(move(raw, "advance", {"seconds": 0}))["now"] == before


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
def test_malformed_moves(
    raw: RawClient, containers: TtlContainers, verb: str, body: dict[str, Any]
) -> None:
    before = containers.clock.now()
    reply = move(raw, verb, body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert containers.clock.now() == before


@pytest.mark.parametrize(("verb", "body"), [("advance", {"seconds": 1e300}), ("set", {"to": 1e18})])
def test_a_move_out_of_the_calendar_leaves_a_working_server(
    place: Place, verb: str, body: dict[str, float]
) -> None:
    """Refused or not: items can still be written, and read back, afterwards."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        container = new_container(raw, clock, -1)
        move(raw, verb, body)
        assert container.post(container.body("after")).status == 201
        assert container.read("after").status == 200


@pytest.mark.parametrize("verb", ["freeze", "resume", "advance", "set"])
def test_moves_are_absent_without_a_test_clock(system_clock_client: RawClient, verb: str) -> None:
    reply = move(system_clock_client, verb, {"seconds": 1, "to": 4_000_000_000})
    assert (reply.status, reply.json["code"]) == (404, "NotFound")


def test_a_plain_clock_can_be_looked_at(system_clock_client: RawClient) -> None:
    body = body_of(system_clock_client.get("/_perseid/clock"))
    assert body["movable"] is False
    assert body["heldUntil"] is None
    assert "frozen" not in body


@pytest.fixture(scope="module")
def system_clock_client(servers: Servers) -> Iterator[RawClient]:
    """A server as users start it, without --test-clock."""
    with servers("system").connect() as client:
        yield client


def test_a_server_started_with_a_test_clock_has_the_moves(place: Place) -> None:
    with running(place.fresh(no_sweeper=True, test_clock=True)) as found:
        raw = RawClient(found.endpoint, found.key)
        before = body_of(raw.get("/_perseid/clock"))
        assert before["movable"] is True
        assert before["frozen"] is False
        assert body_of(move(raw, "advance", {"seconds": DAY}))["now"] >= before["now"] + DAY
        raw.close()


@pytest.mark.parametrize("verb", ["freeze", "resume", "advance", "set"])
def test_moving_needs_a_master_key(raw: RawClient, containers: TtlContainers, verb: str) -> None:
    before = containers.clock.now()
    body = {"seconds": 1, "to": before + 1}
    unsigned = raw.request("POST", f"/_perseid/clock/{verb}", body, sign_with=None)
    assert unsigned.status == 401
    assert containers.clock.now() == before
    assert containers.clock.is_frozen


def test_the_clock_drives_ts(raw: RawClient, containers: TtlContainers) -> None:
    """Of items and of containers, whatever the client's own date says."""
    now = int(body_of(move(raw, "advance", {"seconds": 10 * DAY}))["now"])
    container = containers.make(-1)
    assert raw.get(container.path).json["_ts"] == now
    assert container.create("a")["_ts"] == now
    body_of(move(raw, "advance", {"seconds": 7}))
    replaced = container.replace("a", container.body("a"))
    assert (replaced.status, replaced.json["_ts"]) == (200, now + 7)
    assert container.query("SELECT VALUE c._ts FROM c") == [now + 7]


# T-300 and T-038: what a restart leaves


def test_the_moved_clock_survives_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        container = new_container(raw, clock, -1)
        container.create("short", DAY)
        container.create("long", 3 * DAY)
        then = body_of(move(raw, "advance", {"seconds": 2 * DAY}))["now"]
    # A fresh clock, as a new process has: it shows the system's time, two days behind.
    with serving(settings, MovableClock()) as raw:
        assert body_of(raw.get("/_perseid/clock"))["now"] >= then
        again = replace(container, raw=raw)
        assert_gone(again.read("short"))
        assert again.read("long").status == 200
        assert again.create("new")["_ts"] >= int(then)


@pytest.mark.parametrize("lag", [1, 600, 10 * DAY])
def test_a_system_clock_set_back_restores_no_item(place: Place, lag: int) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        container = new_container(raw, clock, -1)
        container.create("a", 10)
        clock.advance(10)
        assert_gone(container.read("a"))
        seen = clock.now()
    behind = MovableClock(lambda: seen - lag)
    with serving(settings, behind) as raw:
        assert body_of(raw.get("/_perseid/clock"))["now"] >= seen
        assert_gone(replace(container, raw=raw).read("a"))


KILLED = pytest.mark.only_on("sqlite", reason="PostgreSQL has a clock that does not crash with us")


@KILLED
@pytest.mark.parametrize("back", [0.3, 1.0, 1.9, 2.5, 60])
@pytest.mark.parametrize("is_swept", [False, True])
def test_a_killed_server_and_a_clock_set_back_restore_no_item(
    place: Place, back: float, is_swept: bool
) -> None:
    """Whatever time an answer has used is past after the restart; the server has stored none of it
    since, and is not asked whether it wants to stop."""
    settings, machine = place.lasting(no_sweeper=True), Machine()

    async def work() -> None:
        async with ward_at(settings, machine) as found:
            await found.account.persist_clock(machine.wall)
            if is_swept:
                found.account.requests += 1
                await found.sweeper.persist_clock_early()
            machine.wall += 58.5
            await found.account.persist_clock(machine.wall)
            machine.wall += 1.9
            assert machine.wall < found.account.durable_clock_limit
            assert not await found.is_live("a", machine.wall)
        # It was killed: nothing is stored at the end. The item has expired 0.4 seconds ago.
        machine.wall += 0.1 - back
        async with opened(settings, SystemClock(lambda: machine.wall)) as account:
            again = replace(found, account=account)
            again.container = account.catalog.container("d", "c")
            assert not await again.is_live("a", account.clock.now())

    asyncio.run(work())


@KILLED
def test_crashes_in_a_row_do_not_move_the_clock_further_ahead(place: Place) -> None:
    """It stands still at the limit that was stored last, and what it stores then is not later."""
    settings, machine = place.lasting(no_sweeper=True), Machine()

    async def work() -> None:
        for _ in range(20):
            async with opened(settings, SystemClock(lambda: machine.wall)) as account:
                account.requests += 1
                await Sweeper(account).persist_clock_early()
                assert account.clock.now() <= machine.wall + 3
            machine.wall += 0.1
        machine.wall += 3
        async with opened(settings, SystemClock(lambda: machine.wall)) as account:
            assert account.clock.now() == machine.wall

    asyncio.run(work())


@KILLED
def test_a_write_of_the_limit_that_takes_long_moves_no_request_behind_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, machine = place.lasting(no_sweeper=True), Machine()

    async def work() -> None:
        async with opened(settings, SystemClock(lambda: machine.wall)) as account:
            put = account.stores.values.put

            async def slow(name: str, value: str) -> None:
                await put(name, value)
                machine.wall += 30

            monkeypatch.setattr(account.stores.values, "put", slow)
            await account.persist_clock(account.clock.now())
            stored = (await account.stores.values.get("clock") or "").split()
            assert account.durable_now() <= float(stored[1])

    asyncio.run(work())


@KILLED
def test_a_limit_that_is_lowered_is_not_raised_by_an_earlier_write(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request raises it while an administrator's move of the clock stores the exact time."""
    settings, machine = place.lasting(no_sweeper=True), Machine()

    async def work() -> None:
        async with opened(settings, SystemClock(lambda: machine.wall)) as account:
            await account.persist_clock(machine.wall)
            machine.wall += 2.5
            raising = account.persist_clock(machine.wall)
            machine.wall += 0.1
            exact = account.persist_clock(machine.wall, ahead=0)
            await asyncio.gather(raising, exact)
            assert account.durable_clock_limit == machine.wall
            stored = await account.stores.values.get("clock")
            assert stored == f"{machine.wall!r} {machine.wall!r}"

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
            assert account.durable_clock_limit >= now
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
        answer = body_of(raw.get("/_perseid/clock"))
        assert answer["movable"] is False
        assert answer["now"] == seen
        assert answer["heldUntil"] == (seen if is_told else None)
        system = seen + 1
        assert body_of(raw.get("/_perseid/clock")) == {
            "now": system, "movable": False, "heldUntil": None, "alarm": None,
        }  # fmt: skip


def new_container(raw: RawClient, clock: MovableClock, default_ttl: int) -> Any:
    """A container in a server that is this test's own."""
    assert raw.post("/dbs", {"id": "d"}).status == 201
    return TtlContainers(raw, clock, "/dbs/d").make(default_ttl)


# T-307: leaps of the system's clock


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
    """The item of 60 seconds is expired after each of these but the smallest; what purges it?"""

    async def scenario() -> None:
        async with ward(place, clock_jump=limit) as found:
            found.machine.pass_time(passes, leap=leap)
            await found.sweeper.tick()
            is_expired = passes + leap >= 60
            assert (found.sweeper.alarm is not None) == is_alarmed
            assert await found.stored() == (0 if is_expired and not is_alarmed else 1)

    asyncio.run(scenario())


def test_a_clock_jump_in_the_middle_of_a_sweep_stops_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is much to remove when the clock leaps; whom the leap alone has ended stays on disk."""

    async def scenario() -> None:
        async with ward(place) as found:
            found.machine.pass_time(30)
            await found.add("b")
            found.machine.pass_time(30)  # the first is expired, and will be purged
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
    """Or a restart, made to see what is wrong, would lose the data."""
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
        assert "7200 seconds" in body_of(raw.get("/_perseid/sweeper"))["alarm"]
        figures = body_of(raw.get("/_perseid/ttl/d/c"))
        assert (figures["live"]["items"], figures["pendingPurge"]["items"]) == (0, 1)
        assert body_of(raw.post("/_perseid/sweeper/confirm-clock", {}))["alarm"] is None
    with serving(settings, clock) as raw:
        assert body_of(raw.get("/_perseid/sweeper"))["alarm"] is None


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
            assert not await found.is_live("a", found.account.clock.now())
            assert await found.stored() == 1

    asyncio.run(scenario())


def test_moving_the_test_clock_is_no_leap(containers: TtlContainers, raw: RawClient) -> None:
    """An administrator's move is meant; only the machine's own clock is distrusted."""
    move(raw, "advance", {"seconds": 30 * DAY})
    assert body_of(raw.get("/_perseid/sweeper"))["alarm"] is None
    assert body_of(raw.get("/_perseid/metrics.json"))["clockAlarm"] is False
    assert b"\nperseid_clock_alarm 0\n" in raw.get("/_perseid/metrics").body


def test_confirming_without_an_alarm_changes_nothing(
    raw: RawClient, containers: TtlContainers
) -> None:
    before = body_of(raw.get("/_perseid/sweeper"))
    assert body_of(raw.post("/_perseid/sweeper/confirm-clock", {})) == before
