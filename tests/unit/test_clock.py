"""The clock that front ends share: the database's, estimated between two looks."""

from __future__ import annotations

import pytest

from perseid.clock import ClockSetting, FollowingClock, SharedClock


class Steady:
    """A machine's steady clock in the hands of a test."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady() -> Steady:
    return Steady()


@pytest.fixture
def clock(steady: Steady) -> SharedClock:
    made = SharedClock(steady)
    made.add_reading(1000.0, 49.8, 50.0)  # so it was 1000 at 49.9, give or take 0.1
    return made


def test_it_runs_with_the_steady_clock(clock: SharedClock, steady: Steady) -> None:
    assert clock.now() == pytest.approx(1000.1)
    steady.now += 7
    assert clock.now() == pytest.approx(1007.1)
    assert clock.database_time() == pytest.approx(1007.1)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (1010.0, 1010.1),  # possible: stays
        (1010.3, 1010.3),  # it is ahead by more than the question took
        (1009.0, 1010.1),  # behind: time does not go back, it waits
    ],
)
def test_a_look_that_contradicts(
    clock: SharedClock, steady: Steady, shown: float, expected: float
) -> None:
    steady.now = 60.0
    before = clock.now()
    clock.add_reading(shown, 59.8, 60.0)
    assert clock.now() == pytest.approx(max(before, expected))


def test_a_clock_that_was_ahead_waits(clock: SharedClock, steady: Steady) -> None:
    before = clock.now()
    clock.add_reading(995.0, 49.8, 50.0)
    assert clock.now() == before
    steady.now += 5
    assert clock.now() == pytest.approx(before, abs=0.3)
    steady.now += 5
    assert clock.now() == pytest.approx(1005.1, abs=0.3)


def test_it_is_frozen_where_no_process_has_been(clock: SharedClock, steady: Steady) -> None:
    before = clock.now()
    trial = clock.trial()
    frozen = trial.freeze()
    assert frozen > before
    assert clock.now() == before  # a trial only
    clock.adopt(trial.setting)
    steady.now += 100
    assert clock.now() == frozen


def test_resumed_by_a_process_with_another_base(clock: SharedClock, steady: Steady) -> None:
    trial = clock.trial()
    frozen = trial.freeze()
    clock.adopt(trial.setting)
    steady.now += 100
    clock.adopt(ClockSetting(frozen - clock.database_time() - 0.02))
    assert clock.now() == frozen
    steady.now += 1
    assert clock.now() == pytest.approx(frozen + 0.98)


def test_following(clock: SharedClock, steady: Steady) -> None:
    follower = FollowingClock(clock)
    clock.adopt(ClockSetting(500.0))
    assert follower.now() == clock.now() == pytest.approx(1500.1)
    follower.advance_to_at_least(10_000)
    assert follower.now() == pytest.approx(1500.1)
    assert follower.readings()[:2] == (clock.database_time(), steady.now)
