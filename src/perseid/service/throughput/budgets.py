"""Budgets of request units: what a physical partition may use in each second.

Pure. Time is whole seconds, amounts are whole hundredths of a request unit, so that sums are exact.
`enforcement.py` decides which budget a request uses.
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
# While there are requests of high priority, those of low priority leave them at least a tenth.
_LEAST_RESERVE: Final = 10
_HOUR: Final = 3600
_LARGEST_DELAY: Final = 600  # seconds; requests that took longer do not come back to a budget
# No purged item costs less.
CHEAPEST_PURGE: Final = hundredths(charges.delete(0, 0))


@dataclass(slots=True)
class Budget:
    """The request units of one range, second by second.

    Each second grants `rate`. Requests are admitted while something is left, and are charged
    afterwards; the next seconds pay an overdraft. What requests leave over in a second is lost
    to them; the sweeper may use it in the next second.
    """

    rate: int
    second: int
    balance: int  # left in this second; an overdraft if negative
    used: int = 0  # by the requests of this second
    high_priority_used: int = 0  # part of `used`, by requests of high priority
    high_priority_used_before: int = 0  # the same in the second before
    peak: int = 0  # the most that one second of this hour has used
    exhausted_seconds: int = 0  # seconds that ended with nothing left over
    credit: int = 0  # what the sweeper may use
    # Containers may share a budget. If the credit does not cover the first item of one, that
    # container waits and the budget saves for it; the others are deferred. So each gets its turn,
    # however large its items are.
    waiting_container: object | None = None
    needed_charge: int = 0  # that the budget saves for
    deferred_containers: set[object] = field(
        default_factory=set
    )  # since the waiting container last asked

    def advance_to(self, second: int) -> None:
        """Closes the seconds before `second`; does nothing if that is in the past."""
        passed = second - self.second
        if passed <= 0:
            if passed < -_LARGEST_DELAY:  # a clock jump was rejected
                self.second, self.balance, self.peak = second, self.rate, 0
            return
        # The current second, and each following one that the overdraft uses up entirely.
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
        """In how many seconds a request would be admitted; 0 means now."""
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
                return 2  # by then a second has passed without requests of high priority
        return seconds

    def spend(self, amount: int, *, is_low: bool = False) -> None:
        """Charges a request."""
        self.balance -= amount
        self.used += amount
        self.peak = max(self.peak, self.used)
        if not is_low:
            self.high_priority_used += amount

    def change_rate(self, rate: int) -> None:
        """Grants another amount from this second on; a lower one creates no overdraft."""
        balance = self.balance + rate - self.rate
        self.balance = max(balance, min(self.balance, 0))
        self.rate = rate

    def purge_allowance(self, container_range: object) -> PurgeAllowance | None:
        """What the sweeper may use for the range; None while another container is waiting."""
        if self.waiting_container is not None and self.waiting_container != container_range:
            if container_range not in self.deferred_containers:
                self.deferred_containers.add(container_range)
                return None
            # Since it last asked, all others have: it has nothing left to purge.
            self.waiting_container = None
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
    """What is reserved for requests of high priority: what they used in the second before, less
    what they have used in this one, and at least a tenth. Without any of them it is nothing."""
    return max(before - now, rate // _LEAST_RESERVE) if before or now else 0


class PurgeAllowance(NamedTuple):
    """The request units that one purge step may use."""

    credit: int  # hundredths

    @property
    def limit(self) -> int:
        """The most items it can pay for, and one more, whose charge the budget saves for."""
        return self.credit // CHEAPEST_PURGE + 1


class Payer(NamedTuple):
    """The resource whose throughput a container uses: itself, or its database."""

    rid: str
    throughput: Throughput | None  # None: serverless
    rate: int  # hundredths per second for each range


@dataclass(slots=True)
class Meter:
    """What the requests of one container have cost, and how many were refused."""

    consumed: int = 0
    throttled: int = 0


@dataclass(slots=True)
class Budgets:
    """The budgets of an account by payer and range, and the meters by container."""

    ranges: dict[tuple[str, int], Budget] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    payers: dict[str, Payer] = field(
        default_factory=dict
    )  # by container, until the metadata changes

    def meter(self, rid: str) -> Meter:
        return self.meters.setdefault(rid, Meter())

    def refresh(self, exists: Callable[[str], bool]) -> None:
        """After a change of metadata: forgets the payers and drops what no longer exists."""
        self.payers.clear()
        self.ranges = {key: kept for key, kept in self.ranges.items() if exists(key[0])}
        self.meters = {rid: kept for rid, kept in self.meters.items() if exists(rid)}


def split_evenly(amount: int, parts: int) -> list[int]:
    """Equal shares that add up to `amount`; the first ones get the remainder."""
    share, rest = divmod(amount, parts)
    return [share + (index < rest) for index in range(parts)]


def milliseconds_until(now: float, seconds: int) -> int:
    """Milliseconds from `now` until the second that is `seconds` later than this one begins."""
    due = int(now) + seconds
    wait = math.ceil((due - now) * 1000)
    # The sum of floats may be rounded to just before the second.
    return wait if now + wait / 1000 >= due else wait + 1


def scaled(payer: Payer, used: int) -> float | None:
    """The RU/s that autoscale reaches if the busiest range used so much in a second."""
    throughput = payer.throughput
    if throughput is None:
        return None
    if throughput.autoscale_max is None:
        return float(throughput.throughput)
    share = min(1.0, used / payer.rate)
    return max(float(throughput.throughput), round(throughput.autoscale_max * share, 2))
