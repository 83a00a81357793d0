"""Budgets: the arithmetic of seconds, overdrafts, priorities and what is left for the sweeper."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.charges import hundredths
from perseid.service.throughput.budgets import (
    CHEAPEST_PURGE,
    Budget,
    Budgets,
    Payer,
    PurgeAllowance,
    milliseconds_until,
    scaled,
    split_evenly,
)
from perseid.service.throughput.rules import autoscale, manual
from perseid.store.sql.purge_allowance import affordable

RATE = 40_000  # 400 RU/s


def budget(balance: int = RATE, *, second: int = 100, rate: int = RATE) -> Budget:
    return Budget(rate, second, balance)


# Admission


@pytest.mark.parametrize(
    ("balance", "seconds"),
    [
        (RATE, 0),
        (1, 0),
        (0, 1),  # the next second grants a full rate
        (-1, 1),
        (-RATE + 1, 1),  # one hundredth is left after it
        (-RATE, 2),
        (-2 * RATE + 1, 2),
        (-2 * RATE, 3),
        (-10 * RATE, 11),
    ],
)
def test_the_wait_ends_when_something_is_left(balance: int, seconds: int) -> None:
    one = budget(balance)
    assert one.wait() == seconds
    one.advance_to(one.second + seconds)
    assert one.wait() == 0
    if seconds > 1:
        early = budget(balance)
        early.advance_to(early.second + seconds - 1)
        assert early.wait() == 1


@pytest.mark.parametrize(
    ("before", "passed", "after"),
    [
        (RATE, 1, RATE),  # nothing is saved up
        (1, 1, RATE),
        (0, 1, RATE),
        (-100, 1, RATE - 100),
        (-RATE, 1, 0),
        (-RATE - 100, 2, RATE - 100),
        (-RATE - 100, 3, RATE),
        (500, 0, 500),
        (500, -5, 500),  # time does not go back
    ],
)
def test_a_second_grants_the_rate(before: int, passed: int, after: int) -> None:
    one = budget(before)
    one.advance_to(one.second + passed)
    assert one.balance == after


@pytest.mark.parametrize(
    ("old", "balance", "new", "after"),
    [
        (40_000, 10_000, 100_000, 70_000),  # 300 were used; of 1000 RU, 700 are left
        (40_000, -5_000, 100_000, 55_000),
        (100_000, 70_000, 40_000, 10_000),
        (100_000, 50_000, 40_000, 0),  # more was used than there is now: no debt from that
        (100_000, -5_000, 40_000, -5_000),
    ],
)
def test_another_rate_counts_from_this_second(old: int, balance: int, new: int, after: int) -> None:
    one = budget(balance, rate=old)
    one.change_rate(new)
    assert (one.rate, one.balance) == (new, after)


@pytest.mark.parametrize(
    ("now", "seconds", "wait"),
    [
        (1000.0, 1, 1000),
        (1000.25, 1, 750),
        (1000.9995, 1, 1),
        (1000.5, 3, 2500),
    ],
)
def test_milliseconds_until_a_second(now: float, seconds: int, wait: int) -> None:
    assert milliseconds_until(now, seconds) == wait


@given(st.floats(1.7e9, 2.5e11), st.integers(1, 50))
def test_who_waits_as_told_is_in_the_right_second(now: float, seconds: int) -> None:
    wait = milliseconds_until(now, seconds)
    assert int(now + wait / 1000) >= int(now) + seconds
    assert wait <= seconds * 1000 + 1


@given(st.integers(0, 10_000_000), st.integers(1, 20))
def test_shares_add_up(amount: int, parts: int) -> None:
    shares = split_evenly(amount, parts)
    assert sum(shares) == amount
    assert max(shares) - min(shares) <= 1


# Any history

STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5 * RATE)), max_size=60
)  # seconds to wait, charge


@dataclass(frozen=True)
class Paid:
    second: int
    charge: int


def spent(steps: list[tuple[int, int]], one: Budget) -> list[Paid]:
    """What was admitted of a sequence of requests."""
    paid = []
    second = one.second
    for wait, charge in steps:
        second += wait
        one.advance_to(second)
        if one.wait() == 0:
            one.spend(charge)
            paid.append(Paid(second, charge))
    return paid


@given(STEPS)
def test_never_more_than_allowed_in_any_window(steps: list[tuple[int, int]]) -> None:
    """But for the last request of a window, whose charge was not known before."""
    paid = spent(steps, budget())
    for first in range(len(paid)):
        total = 0
        for last in range(first, len(paid)):
            seconds = paid[last].second - paid[first].second + 1
            assert total < seconds * RATE
            total += paid[last].charge


@given(STEPS)
def test_an_overdraft_is_paid_back_exactly(steps: list[tuple[int, int]]) -> None:
    """The balance is what was granted less what was spent and what lapsed: nothing else."""
    one, model, second = budget(), RATE, 100
    for wait, charge in steps:
        for _ in range(wait):
            model = min(RATE, model + RATE)  # second by second
        second += wait
        one.advance_to(second)
        assert one.balance == model
        assert (one.wait() == 0) == (model > 0)
        if model > 0:
            one.spend(charge)
            model -= charge


@given(st.lists(st.integers(1, 30_000), min_size=20, max_size=60))
def test_who_always_asks_gets_the_rate_in_the_long_run(charges: list[int]) -> None:
    one, total, second = budget(), 0, 100
    for charge in charges:
        second += one.wait()
        one.advance_to(second)
        one.spend(charge)
        total += charge
    assert total - one.balance * (one.balance < 0) >= 0
    assert total <= (second - 99) * RATE + max(charges)


# Priorities


def test_low_alone_may_use_everything() -> None:
    one = budget()
    one.spend(RATE - 1, is_low=True)
    assert one.wait(is_low=True) == 0


def test_low_leaves_a_tenth_while_others_are_about() -> None:
    one = budget()
    one.spend(RATE - RATE // 10 - 1)
    assert one.wait(is_low=True) == 0
    one.spend(1)
    assert (one.wait(is_low=True), one.wait()) == (1, 0)


def test_low_leaves_what_the_others_took_before() -> None:
    one = budget()
    one.spend(30_000)
    one.advance_to(101)
    assert one.wait(is_low=True) == 0
    one.spend(10_000, is_low=True)
    assert one.wait(is_low=True) == 1  # 300 RU are kept
    one.spend(30_000 - RATE // 10)  # taken by those they are kept for
    assert one.balance == RATE // 10
    assert (one.wait(is_low=True), one.wait()) == (1, 0)
    one.advance_to(103)  # a second of silence
    one.spend(RATE - 1, is_low=True)
    assert one.wait(is_low=True) == 0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2 * RATE), st.booleans()), max_size=40),
)
def test_the_wait_of_low_priority_is_true(steps: list[tuple[int, int, bool]]) -> None:
    """Low is never admitted where high is not; after the wait, it is if no other request comes."""
    one, second = budget(), 100
    for wait, charge, is_low in steps:
        second += wait
        one.advance_to(second)
        if one.wait(is_low=is_low) == 0:
            one.spend(charge, is_low=is_low)
        assert one.wait() <= one.wait(is_low=True)
        later = budget(one.balance, second=one.second)
        later.high_priority_used, later.high_priority_used_before = (
            one.high_priority_used,
            one.high_priority_used_before,
        )
        later.advance_to(one.second + one.wait(is_low=True))
        assert later.wait(is_low=True) == 0


# Leftovers


@pytest.mark.parametrize(
    ("balance", "passed", "credit", "exhausted_seconds"),
    [
        (RATE, 1, RATE, 0),
        (2_000, 1, 2_000, 0),  # T-131: 380 of 400 are used, 20 are left
        (2_000, 2, RATE, 0),  # the last second before this one, no other
        (0, 1, 0, 1),
        (-1, 1, 0, 1),
        (-RATE + 500, 2, 500, 1),
        (-RATE, 2, 0, 2),
        (-RATE, 3, RATE, 2),
        (-10 * RATE, 5, 0, 5),
    ],
)
def test_a_second_leaves_over_what_requests_did_not_take(
    balance: int, passed: int, credit: int, exhausted_seconds: int
) -> None:
    one = budget(balance)
    one.advance_to(one.second + passed)
    assert (one.credit, one.exhausted_seconds) == (credit, exhausted_seconds)


@pytest.mark.parametrize(
    ("credit", "item_charges", "count", "spent", "needed_charge"),
    [
        (2_000, [700, 700, 700], 2, 1_400, 700),
        (2_100, [700, 700, 700], 3, 2_100, 0),
        (0, [500], 0, 0, 500),
        (500, [], 0, 0, 0),
        (5_000, [125_000, 500], 0, 0, 125_000),  # in order: no item overtakes
    ],
)
def test_a_purge_allowance_pays_from_the_front(
    credit: int, item_charges: list[int], count: int, spent: int, needed_charge: int
) -> None:
    paid, next_charge = affordable(item_charges, credit)
    assert paid == count
    assert (sum(item_charges[:paid]), next_charge or 0) == (spent, needed_charge)
    assert count < PurgeAllowance(credit).limit


def sweep(one: Budget, claimant: str, item_charges: list[int]) -> int:
    """One visit of the sweeper; purges what it can pay from the front of `item_charges`."""
    purge_allowance = one.purge_allowance(claimant)
    if purge_allowance is None:
        return 0
    candidates = item_charges[: purge_allowance.limit]
    count, next_charge = affordable(candidates, purge_allowance.credit)
    one.charge_purge(claimant, sum(candidates[:count]), next_charge)
    del item_charges[:count]
    return count


def test_who_cannot_pay_saves() -> None:
    """T-134: 400 RU/s, one item of 1250: after four idle seconds."""
    one, expired = budget(), [125_000]
    for second in range(100, 104):
        one.advance_to(second)
        assert sweep(one, "a", expired) == 0
    one.advance_to(104)
    assert sweep(one, "a", expired) == 1
    assert one.credit == 4 * RATE - 125_000


def test_without_anyone_who_saves_nothing_is_kept() -> None:
    one = budget()
    one.advance_to(110)
    assert one.credit == RATE
    one.advance_to(1000)
    assert one.credit == RATE


def test_what_is_left_of_a_second_is_not_lost_while_someone_waits() -> None:
    one, expired = budget(-RATE + 2_000), [700] * 10
    one.advance_to(102)  # 20 RU left over by the second before
    assert [sweep(one, "a", expired), sweep(one, "a", expired)] == [2, 0]
    one.spend(RATE - 2_000)
    one.advance_to(103)  # 20 more, and 6 were left
    assert sweep(one, "a", expired) == 3


def test_claimants_take_turns() -> None:
    """One second's leftover each, round and round, however long the queue of the first."""
    one = budget()
    expired = {name: [RATE] * 100 for name in "abc"}
    served = ""
    for second in range(101, 110):
        one.advance_to(second)
        for _ in range(3):  # more rounds than there is anything to share
            for name in "abc":
                served += name * sweep(one, name, expired[name])
    assert served == "abcabcabc"


def test_a_dear_item_does_not_starve_among_cheap_ones() -> None:
    one = budget()
    cheap, dear = [500] * 100_000, [125_000]
    for second in range(101, 110):
        one.advance_to(second)
        for name, expired in 3 * (("cheap", cheap), ("dear", dear)):
            sweep(one, name, expired)
    assert not dear
    assert len(cheap) < 100_000 - 2 * 80  # they had their turns as well


def test_a_saver_that_stays_away_loses_its_turn() -> None:
    one = budget(0)
    assert sweep(one, "gone", [500]) == 0
    one.advance_to(101)
    one.advance_to(102)
    expired = [500]
    assert sweep(one, "a", expired) == 0  # it may still come in this round
    assert sweep(one, "a", expired) == 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(0, RATE + 5_000), st.integers(CHEAPEST_PURGE, 60_000)
        ),
        max_size=40,
    )
)
def test_the_sweeper_spends_no_more_than_was_left_over(steps: list[tuple[int, int, int]]) -> None:
    """T-131, T-132: its spending fits into the leftovers, and admission is as if it were not."""
    one, alone = budget(), budget()
    granted = swept = 0
    second = 100
    for wait, charge, needed_charge in steps:
        for _ in range(wait):
            granted += max(0, alone.balance)
            second += 1
            alone.advance_to(second)
            one.advance_to(second)
        while True:
            purge_allowance = one.purge_allowance("a")
            assert purge_allowance is not None
            paid, next_charge = affordable([needed_charge], purge_allowance.credit)
            spent = needed_charge if paid else 0
            one.charge_purge("a", spent, next_charge)
            swept += spent
            if not paid:
                break
        assert swept <= granted
        for each in (one, alone):
            if each.wait() == 0:
                each.spend(charge)
        assert (one.balance, one.wait()) == (alone.balance, alone.wait())
        assert one.exhausted_seconds == alone.exhausted_seconds


# Autoscale and the rest


@pytest.mark.parametrize(
    ("used", "ranges", "level"),
    [
        (0, 1, 400.0),
        (39_999, 1, 400.0),
        (100_000, 1, 1000.0),  # T-158
        (400_000, 1, 4000.0),
        (900_000, 1, 4000.0),
        (100_000, 2, 2000.0),  # the busiest range decides
    ],
)
def test_autoscale_follows_the_busiest_range(used: int, ranges: int, level: float) -> None:
    throughput = autoscale(4000)
    assert scaled(Payer("r", throughput, 400_000 // ranges), used) == level


def test_manual_throughput_does_not_scale() -> None:
    assert scaled(Payer("r", manual(700), 70_000), 70_000) == 700.0
    assert scaled(Payer("r", None, 500_000), 70_000) is None


def test_the_peak_is_of_the_hour() -> None:
    one = budget(second=3600)
    one.spend(300)
    one.advance_to(3601)
    one.spend(100)
    assert (one.used, one.peak) == (100, 300)
    one.advance_to(7199)
    assert one.peak == 300
    one.advance_to(7200)
    assert one.peak == 0


def test_removed_resources_are_forgotten() -> None:
    budgets = Budgets()
    for rid in ("a", "b"):
        budgets.ranges[rid, 0] = budget()
        budgets.meter(rid).consumed = 5
        budgets.payers[rid] = Payer(rid, None, RATE)
    budgets.refresh({"b", "c"}.__contains__)
    assert (set(budgets.ranges), set(budgets.meters), budgets.payers) == ({("b", 0)}, {"b"}, {})


def test_charges_are_counted_in_hundredths() -> None:
    assert [hundredths(charge) for charge in (1.0, 10.29, 0.38, 1001.79)] == [100, 1029, 38, 100179]
    assert math.isclose(hundredths(5.0), CHEAPEST_PURGE)
