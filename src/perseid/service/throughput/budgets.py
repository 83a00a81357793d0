"""Budgets of request units: what a physical partition may spend in each second.

Pure. Time is whole seconds, amounts are whole hundredths of a request unit, so that nothing is
lost in sums. Whose budget it is, and who asks, is the business of `throughput.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from perseid import charges
from perseid.charges import hundredths
from perseid.service.throughput.rules import Throughput

UNIT: Final = 100  # hundredths in a request unit
# What requests of low priority leave to the others, as long as there are others: a tenth.
_LEAST_RESERVE: Final = 10
_HOUR: Final = 3600
# No purged item costs less.
CHEAPEST_PURGE: Final = hundredths(charges.delete(0, 0))


@dataclass(slots=True)
class Budget:
    """One range's request units, second by second.

    Each second grants `rate`. Requests are admitted while something is left and take what they
    cost afterwards; what they take too much, the next seconds pay. What a second leaves over is
    lost to requests, and is what the sweeper may spend in the next.
    """

    rate: int
    second: int
    balance: int  # left of this second; an overdraft if negative
    used: int = 0  # by the requests of this second
    high_priority_used: int = 0  # of that, by those of high priority
    high_priority_used_before: int = 0  # the same of the second before
    peak: int = 0  # the most that one second of this hour has used
    exhausted_seconds: int = 0  # seconds that ended with nothing left over
    credit: int = 0  # what the sweeper may spend
    # The sweeper serves many containers. Who could not pay for the first of its dead saves for
    # it, the others wait: so nobody starves, however dear its dead.
    waiting_container: object | None = None
    needed_charge: int = 0  # what the saver saves for
    deferred_containers: set[object] = field(default_factory=set)  # since the saver last asked

    def advance_to(self, second: int) -> None:
        """Closes the seconds before `second`. Time does not go back."""
        passed = second - self.second
        if passed <= 0:
            return
        # This one and each that the overdraft takes whole.
        exhausted_seconds = 0 if self.balance > 0 else min(passed, -self.balance // self.rate + 1)
        left = last = 0
        if exhausted_seconds < passed:
            first = self.balance + exhausted_seconds * self.rate
            left = first + (passed - exhausted_seconds - 1) * self.rate
            last = self.rate if passed - exhausted_seconds > 1 else first
        if self.waiting_container is None:
            self.credit = last
        else:
            self.credit = min(self.credit + left, last + self.needed_charge)
        self.exhausted_seconds += exhausted_seconds
        self.balance = min(self.rate, self.balance + passed * self.rate)
        self.high_priority_used_before, self.high_priority_used = (
            self.high_priority_used if passed == 1 else 0,
            0,
        )
        self.used = 0
        if second // _HOUR != self.second // _HOUR:
            self.peak = 0
        self.second = second

    def wait(self, *, is_low: bool = False) -> int:
        """In how many seconds a request would be admitted; 0 is now."""
        if self.balance > (
            _reserve(self.rate, self.high_priority_used_before, self.high_priority_used)
            if is_low
            else 0
        ):
            return 0
        seconds = max(1, -self.balance // self.rate + 1)
        if is_low and seconds == 1:
            following = min(self.rate, self.balance + self.rate)
            if following <= _reserve(self.rate, self.high_priority_used, 0):
                return 2  # by then, those of high priority have been silent for a second
        return seconds

    def spend(self, amount: int, *, is_low: bool = False) -> None:
        """Books what a request has cost."""
        self.balance -= amount
        self.used += amount
        self.peak = max(self.peak, self.used)
        if not is_low:
            self.high_priority_used += amount

    def change_rate(self, rate: int) -> None:
        """Grants another amount from this second on; a lower one makes nobody pay for the past."""
        balance = self.balance + rate - self.rate
        self.balance = max(balance, min(self.balance, 0))
        self.rate = rate

    def purge_allowance(self, container_range: object) -> PurgeAllowance | None:
        """What the sweeper may spend on the dead of `claimant`; None: it is another's turn."""
        if self.waiting_container is not None and self.waiting_container != container_range:
            if container_range not in self.deferred_containers:
                self.deferred_containers.add(container_range)
                return None
            self.waiting_container = (
                None  # all others were here since it last was: it has nothing to remove
            )
        return PurgeAllowance(self.credit)

    def charge_purge(self, container_range: object, spent: int, next_charge: int | None) -> None:
        """Books what a purge cost. If it could not afford its next item and purged nothing, the
        budget saves until the charge of that item is covered."""
        self.credit -= spent
        self.waiting_container, self.needed_charge = (
            (container_range, next_charge) if next_charge and not spent else (None, 0)
        )
        self.deferred_containers.clear()


def _reserve(rate: int, before: int, now: int) -> int:
    """What is kept for requests of high priority: what they took in the second before, less what
    they have taken in this one, and not below a tenth. Without any of them, nothing is kept."""
    return max(before - now, rate // _LEAST_RESERVE) if before or now else 0


class PurgeAllowance(NamedTuple):
    """The request units that one purge step may use."""

    credit: int  # hundredths

    @property
    def limit(self) -> int:
        """The most items it can pay for, and one more, whose charge the budget saves for."""
        return self.credit // CHEAPEST_PURGE + 1


class Payer(NamedTuple):
    """Whose throughput a container uses: its own, or that of its database."""

    rid: str
    throughput: Throughput | None  # None: serverless
    rate: int  # hundredths a second for each range


@dataclass(slots=True)
class Meter:
    """What the requests about one container have cost, and how many were refused."""

    consumed: int = 0
    throttled: int = 0


@dataclass(slots=True)
class Budgets:
    """The budgets of an account, by payer and range, and the meters, by container."""

    ranges: dict[tuple[str, int], Budget] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    payers: dict[str, Payer] = field(default_factory=dict)  # by container, until something changes

    def meter(self, rid: str) -> Meter:
        return self.meters.setdefault(rid, Meter())

    def refresh(self, exists: Callable[[str], bool]) -> None:
        """After a change of metadata: looks up anew who pays; drops what is gone."""
        self.payers.clear()
        self.ranges = {key: kept for key, kept in self.ranges.items() if exists(key[0])}
        self.meters = {rid: kept for rid, kept in self.meters.items() if exists(rid)}


def split_evenly(amount: int, parts: int) -> list[int]:
    """Equal shares that add up; the first ones get what does not divide."""
    share, rest = divmod(amount, parts)
    return [share + (index < rest) for index in range(parts)]


def milliseconds_until(now: float, seconds: int) -> int:
    """Milliseconds from `now` until the second that is `seconds` later than this one begins."""
    due = int(now) + seconds
    wait = math.ceil((due - now) * 1000)
    # a float may round the sum to just before the second
    return wait if now + wait / 1000 >= due else wait + 1


def scaled(payer: Payer, used: int) -> float | None:
    """The RU/s that a busiest range with `used` in a second makes of the whole throughput."""
    throughput = payer.throughput
    if throughput is None:
        return None
    if throughput.autoscale_max is None:
        return float(throughput.throughput)
    share = min(1.0, used / payer.rate)
    return max(float(throughput.throughput), round(throughput.autoscale_max * share, 2))
