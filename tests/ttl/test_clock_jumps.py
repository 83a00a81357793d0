"""What becomes of a jump of the system's clock: confirmed, or rejected as if it had not been."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from perseid.clock import MovableClock, SystemClock, wall
from perseid.errors import Conflict, InsufficientStorage, Unauthorized
from perseid.server import opened
from perseid.service import grants
from perseid.service.items import point_operations
from perseid.service.lifetimes import policies, undo
from perseid.service.lifetimes.audit import audit_entries
from perseid.service.lifetimes.clock_guard import LONGEST_STOP
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.service.operation import begin
from perseid.service.throughput.budgets import Budget
from perseid.store.postgres import store as postgres_store
from perseid.store.postgres import values as postgres_values
from tests.support.cli import invoke, printed
from tests.support.purging import set_default_ttl
from tests.support.running import running
from tests.support.servers import serving
from tests.support.stores import Place, pool_of
from tests.ttl.wards import Machine, Ward, ward, ward_again, ward_at

DAY = 86_400
YEAR = 365 * DAY
CLOCKS = pytest.mark.parametrize("kind", [SystemClock, MovableClock])


async def leap(found: Ward, seconds: float = YEAR) -> None:
    found.machine.pass_time(1, leap=seconds)
    await found.sweeper.tick()
    assert found.sweeper.alarm is not None


async def correct_and_reject(found: Ward, seconds: float = YEAR) -> None:
    found.machine.pass_time(1, leap=-seconds)
    await found.sweeper.tick()
    assert found.account.clock.now() > found.machine.wall + seconds - 10
    await found.sweeper.reject_clock("primary")
    assert found.sweeper.alarm is None
    assert found.account.clock.now() == pytest.approx(found.machine.wall)
    found.container = found.account.catalog.container("d", "c")


# Rejecting


@CLOCKS
def test_a_rejected_jump_expires_nothing(
    place: Place, kind: type[SystemClock | MovableClock]
) -> None:
    settings, machine = place.lasting(), Machine()

    async def scenario() -> None:
        async with ward_at(settings, machine, kind) as found:
            clock = found.account.clock
            await found.account.persist_clock(clock.now())
            await leap(found)
            await found.account.persist_clock(clock.now())
            assert not await found.is_live("a", clock.now())
            await correct_and_reject(found)
            assert await found.is_live("a", clock.now())
            machine.pass_time(50)
            await found.sweeper.tick()
            assert await found.is_live("a", clock.now())
        # Killed; the time that was rejected does not come back.
        async with ward_again(settings, machine, kind) as found:
            clock = found.account.clock
            assert found.sweeper.alarm is None
            assert clock.now() <= machine.wall + 3
            assert await found.is_live("a", clock.now())
            machine.pass_time(60)
            assert not await found.is_live("a", clock.now())
            await found.sweeper.tick()
            assert await found.stored() == 0

    asyncio.run(scenario())


@CLOCKS
def test_a_jump_is_rejected_after_a_restart_with_the_right_time(
    place: Place, kind: type[SystemClock | MovableClock]
) -> None:
    """The clock stands still a year ahead, whatever the system's clock shows by now."""
    settings, machine = place.lasting(), Machine()

    async def scenario() -> None:
        async with ward_at(settings, machine, kind) as found:
            await leap(found)
            await found.account.persist_clock(found.account.clock.now())
        machine.pass_time(20, leap=-YEAR)
        async with ward_again(settings, machine, kind) as found:
            assert found.sweeper.alarm is not None
            assert not await found.is_live("a", found.account.clock.now())
            await found.sweeper.reject_clock("primary")
            found.container = found.account.catalog.container("d", "c")
            assert found.account.clock.now() == pytest.approx(machine.wall)
            assert await found.is_live("a", found.account.clock.now())

    asyncio.run(scenario())


def test_a_clock_corrected_too_far_back_waits_for_what_was_shown(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            found.machine.pass_time(61)  # the item has expired, and a client may know
            await found.sweeper.watch_clock()
            before = found.account.clock.now()
            await leap(found)
            found.machine.pass_time(1, leap=-YEAR - 30)
            await found.sweeper.reject_clock("primary")
            found.container = found.account.catalog.container("d", "c")
            assert found.account.clock.now() >= before
            assert not await found.is_live("a", found.account.clock.now())

    asyncio.run(scenario())


def test_the_audit_log_tells_of_a_rejection(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            await leap(found)
            await correct_and_reject(found)
            entry = (await audit_entries(found.account, None, 0, 100))[-1]
            assert entry["event"] == "clock jump rejected"
            assert entry["caller"] == "primary"
            assert entry["clock"]["old"] - entry["clock"]["new"] == pytest.approx(YEAR, abs=5)
            assert entry["container"] is None

    asyncio.run(scenario())


@pytest.mark.parametrize("corrected_by", [0, YEAR / 2, -100])
def test_a_clock_that_is_still_wrong_is_not_rejected(place: Place, corrected_by: float) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            await leap(found)
            found.machine.pass_time(1, leap=-corrected_by)
            before = found.account.clock.now()
            with pytest.raises(Conflict, match="still shows"):
                await found.sweeper.reject_clock("primary")
            assert found.sweeper.alarm is not None
            assert found.account.clock.now() == before
            assert await audit_entries(found.account, None, 0, 100) == []

    asyncio.run(scenario())


def test_without_a_jump_there_is_nothing_to_reject(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            with pytest.raises(Conflict, match="no clock jump"):
                await found.sweeper.reject_clock("primary")
            await leap(found)
            await found.sweeper.confirm_clock()
            with pytest.raises(Conflict, match="no clock jump"):
                await found.sweeper.reject_clock("primary")

    asyncio.run(scenario())


def test_items_written_after_the_jump_keep_their_ts(place: Place) -> None:
    """A client knows it; they live as long as it says, and the next write brings them back."""

    async def scenario() -> None:
        async with ward(place) as found:
            await leap(found)
            written = int(found.account.clock.now())
            await found.add("b", ttl=10)
            await correct_and_reject(found)
            now = found.account.clock.now()
            where = point_operations.logical_partition_of(found.container, '["p"]')
            row, _ = await point_operations.read(
                begin(found.account, found.container, now), where, "b"
            )
            assert row is not None
            assert row.ts == written
            assert not await found.is_live("b", written + 10)
            assert await found.is_live("b", written + 9)
            await found.add("c", ttl=10)
            assert not await found.is_live("c", now + 10)

    asyncio.run(scenario())


async def change_policies(found: Ward) -> None:
    """Each change makes some expiry final, and each minute something expires."""
    for default_ttl in (50, None, 20, 100, -1):
        await set_default_ttl(found.account, default_ttl)
        found.machine.pass_time(60)
        await found.sweeper.watch_clock()


def times(found: Ward) -> dict[str, Any]:
    state = found.account.catalog.resource(found.container.rid).state
    assert "if_rejected" not in state
    return {key: state.get(key) for key in policies.TIME_KEYS}


@pytest.mark.parametrize("is_undone", [False, True])
def test_policies_changed_after_the_jump_are_as_without_it(place: Place, is_undone: bool) -> None:
    """Expiry is final, but not what only the jump had expired."""

    async def history(jump: float) -> dict[str, Any]:
        async with ward(place) as found:
            await set_default_ttl(found.account, 70)
            found.machine.pass_time(30)
            await found.sweeper.watch_clock()
            found.machine.pass_time(0, leap=jump)
            await found.sweeper.watch_clock()
            await change_policies(found)
            if is_undone:
                await undo.undo(
                    found.account, found.container.rid, "primary", None, found.account.clock.now()
                )
            if jump:
                found.machine.pass_time(0, leap=-jump)
                await found.sweeper.reject_clock("primary")
            return times(found)

    assert asyncio.run(history(YEAR)) == asyncio.run(history(0))


def test_policies_changed_after_a_confirmed_jump_count(place: Place) -> None:
    """Also if another jump is rejected later."""

    async def scenario() -> None:
        async with ward(place) as found:
            await leap(found)
            await set_default_ttl(found.account, None)  # what has expired by now stays so
            await found.sweeper.confirm_clock()
            await leap(found)
            await correct_and_reject(found)
            state = found.account.catalog.resource(found.container.rid).state
            assert state["final_cutoffs"][1] >= found.machine.wall - 10
            assert not await found.is_live("a", found.account.clock.now())

    asyncio.run(scenario())


def test_budgets_go_on_after_a_rejection() -> None:
    budget = Budget(rate=400, second=YEAR + 1000, balance=-50_000)
    budget.advance_to(1000)
    assert (budget.second, budget.balance) == (1000, 400)
    budget.spend(500)
    budget.advance_to(999)  # a request that took a little longer
    assert (budget.second, budget.balance) == (1000, -100)


def test_tokens_issued_after_the_jump_are_not_valid_for_a_year(place: Place) -> None:
    async def scenario() -> None:
        async with ward(place) as found:
            account, now = found.account, found.account.clock.now()
            for lifetime, issued, problem in (
                (grants.MAX_LIFETIME, now, "does not exist any more"),  # but is valid otherwise
                (grants.MIN_LIFETIME, now + YEAR, "not valid at the current time"),
                (grants.MIN_LIFETIME, now - DAY, "not valid at the current time"),
            ):
                token = grants.issue(account, "missing", lifetime, issued)
                with pytest.raises(Unauthorized, match=problem):
                    grants.open_token(account, token, now)

    asyncio.run(scenario())


# Across a restart


def test_a_jump_while_the_server_is_stopped_holds_the_purge(place: Place) -> None:
    settings, machine = place.lasting(), Machine()

    async def scenario() -> None:
        async with ward_at(settings, machine) as found:
            await found.account.persist_clock(machine.wall)
        machine.pass_time(30, leap=YEAR)
        async with ward_again(settings, machine) as found:
            assert found.sweeper.alarm is not None
            await found.sweeper.tick()
            assert await found.stored() == 1
            assert not await found.is_live("a", found.account.clock.now())
            await found.account.persist_clock(found.account.clock.now())
        async with ward_again(settings, machine) as found:
            await correct_and_reject(found)
            assert await found.is_live("a", found.account.clock.now())
            machine.pass_time(1, leap=YEAR)
        async with ward_again(settings, machine) as found:
            assert found.sweeper.alarm is not None
            await found.sweeper.confirm_clock()
            await found.sweeper.tick()
            assert await found.stored() == 0
        async with ward_again(settings, machine) as found:
            assert found.sweeper.alarm is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("is_rebooted", "seconds", "is_alarmed"),
    [
        (False, 10 * YEAR, False),  # the steady clock agrees
        (True, LONGEST_STOP - 60, False),
        (True, LONGEST_STOP + 60, True),  # unknown
    ],
)
def test_a_server_that_was_stopped_for_long(
    place: Place, is_rebooted: bool, seconds: float, is_alarmed: bool
) -> None:
    settings, machine = place.lasting(), Machine()

    async def scenario() -> None:
        async with ward_at(settings, machine):
            pass
        (machine.reboot if is_rebooted else machine.pass_time)(seconds)
        async with ward_again(settings, machine) as found:
            assert (found.sweeper.alarm is not None) == is_alarmed
            await found.sweeper.tick()
            assert await found.stored() == int(is_alarmed)

    asyncio.run(scenario())


def test_a_disk_that_takes_no_readings_stops_no_purge(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge may be what frees it."""

    async def full(_name: str, _value: str) -> None:
        raise InsufficientStorage("full")

    async def scenario() -> None:
        async with ward(place) as found:
            monkeypatch.setattr(found.account.stores.values, "put", full)
            found.machine.pass_time(2 * 3600)  # the next readings are due
            await found.sweeper.tick()
            assert await found.stored() == 0

    asyncio.run(scenario())


def test_a_jump_across_a_reboot_is_rejected(place: Place) -> None:
    settings, machine = place.lasting(), Machine()

    async def scenario() -> None:
        async with ward_at(settings, machine):
            pass
        machine.reboot(20, leap=YEAR)
        async with ward_again(settings, machine) as found:
            assert not await found.is_live("a", found.account.clock.now())
            with pytest.raises(Conflict, match="still shows"):
                await found.sweeper.reject_clock("primary")
            await correct_and_reject(found)
            assert await found.is_live("a", found.account.clock.now())

    asyncio.run(scenario())


# Over HTTP


def test_drain_waits_for_the_decision(place: Place) -> None:
    """And says so; a rejection is asked for like a confirmation."""
    machine, settings = Machine(), place.lasting(no_sweeper=True)

    async def jump() -> None:
        async with ward_at(settings, machine) as found:
            await leap(found)
            with pytest.raises(Conflict):
                await found.sweeper.drain()
            assert await found.stored() == 1

    asyncio.run(jump())
    with serving(settings, MovableClock(lambda: machine.wall)) as raw:
        for path in ("ttl/drain", "ttl/d/c/drain"):
            reply = raw.post(f"/_perseid/{path}", {})
            assert reply.status == 409
            assert "Confirm the jump" in reply.json["message"]
        reply = raw.post("/_perseid/sweeper/reject-clock", {})  # the machine has another clock
        assert reply.status == 409
        assert "still shows" in reply.json["message"]
        assert raw.post("/_perseid/sweeper/confirm-clock", {}).json["alarm"] is None
        assert raw.post("/_perseid/sweeper/reject-clock", {}).status == 409
        assert raw.post("/_perseid/ttl/d/c/drain", {}).json["purged"] == 1


@pytest.mark.only_on("sqlite", reason="PostgreSQL has the clock, which shows no other time")
@pytest.mark.parametrize("decision", ["confirm", "reject"])
def test_the_command_line_decides(place: Place, decision: str) -> None:
    """About a jump of the clock of this machine, which is over by now."""
    machine, settings = Machine(wall()), place.lasting(no_sweeper=True)

    async def jump() -> None:
        async with ward_at(settings, machine, SystemClock) as found:
            await leap(found)
            await found.account.persist_clock(found.account.clock.now())

    asyncio.run(jump())
    with running(settings) as found:
        text = printed(invoke(found.endpoint, "clock", "show"))
        assert "stopped until" in text
        assert "the system clock jumped ahead by 31536000 seconds" in text
        text = printed(invoke(found.endpoint, "clock", decision))
        assert ("running" if decision == "reject" else "stopped until") in text
        assert "jumped" not in text
        text = printed(invoke(found.endpoint, "ttl", "audit"))
        assert ("clock jump rejected" in text) == (decision == "reject")
        again = invoke(found.endpoint, "clock", "reject")
        assert again.exit_code == 1
        assert "There is no clock jump to reject." in again.stderr


# Several server processes


@pytest.mark.only_on("postgres", reason="several servers on one database")
@pytest.mark.parametrize("decision", ["confirm", "reject"])
def test_all_front_ends_follow_the_decision(
    place: Place, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    settings = place.lasting()
    ahead = 0.0
    read = postgres_values.database_clock

    async def jumping(*arguments: Any) -> tuple[float, float, float]:
        now, sent, received = await read(*arguments)
        return now + ahead, sent, received

    monkeypatch.setattr(postgres_values, "database_clock", jumping)

    async def scenario() -> None:
        nonlocal ahead
        async with opened(settings) as one, opened(settings) as other:
            sweepers = [Sweeper(each, each.clock.readings) for each in (one, other)]  # type: ignore[attr-defined]

            async def tick() -> None:
                for each in (one, other):
                    shared = each.clock._followed  # type: ignore[attr-defined]
                    await postgres_store._persist_clock(pool_of(each.stores), shared)
                for sweeper in sweepers:
                    await sweeper.tick()

            await tick()
            before = one.clock.now()
            ahead = float(YEAR)
            await tick()
            assert all(sweeper.alarm is not None for sweeper in sweepers)
            assert min(one.clock.now(), other.clock.now()) > before + YEAR - 10
            if decision == "confirm":
                await sweepers[0].confirm_clock()
                await tick()
                assert other.clock.now() > before + YEAR - 10
            else:
                jumped = one.clock.now()
                await postgres_values.raise_clock(pool_of(one.stores), jumped, jumped, 0)
                ahead = 0.0
                await sweepers[0].reject_clock("primary")
                assert before <= one.clock.now() < before + 60
                # One that has read the clock before the rejection does not bring it back.
                await postgres_values.raise_clock(pool_of(one.stores), jumped, jumped, 0)
                # With the next statement, whatever it is.
                await other.retry_if_stale(other.check_catalog_version)
                assert before <= other.clock.now() < before + 60
                await tick()
            assert [sweeper.alarm for sweeper in sweepers] == [None, None]

    asyncio.run(scenario())


@pytest.mark.only_on("postgres", reason="SQLite has the clock of the server")
@pytest.mark.parametrize("back", [0.5, 1.5, 3.0, 3600.0])
@pytest.mark.parametrize("is_other_running", [False, True])
def test_a_killed_front_end_and_a_database_clock_set_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, back: float, is_other_running: bool
) -> None:
    """The next one shows no time before what was shown, and starts with those that run."""
    settings = place.lasting()
    lag = 0.0
    read = postgres_values.database_clock

    async def lagging(*arguments: Any) -> tuple[float, float, float]:
        now, sent, received = await read(*arguments)
        return now - lag, sent, received

    monkeypatch.setattr(postgres_values, "database_clock", lagging)

    async def be_killed(_: Any) -> None:
        """Nothing is stored at the end."""

    async def scenario() -> None:
        nonlocal lag
        async with AsyncExitStack() as stack:
            async with opened(settings) as killed:
                if is_other_running:
                    other = await stack.enter_async_context(opened(settings))
                with monkeypatch.context() as patched:
                    patched.setattr(postgres_store._Closing, "_finish", be_killed)
                    shown = killed.clock.now()
                    await killed.stores.close()
            lag = back
            if is_other_running:
                shown = other.clock.now()
                shared = other.clock._followed  # type: ignore[attr-defined]
                await postgres_store._persist_clock(pool_of(other.stores), shared)
            async with opened(settings) as after:
                assert after.clock.now() >= shown
                if is_other_running:
                    assert after.clock.now() == pytest.approx(other.clock.now(), abs=0.5)
                else:
                    assert after.clock.now() <= shown + 10

    asyncio.run(scenario())
