"""Throughput enforcement: which budget a container uses, admission, and purge allowances.

Only with --enforce-throughput: without it the account has no budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from perseid.charges import hundredths
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.resources import offers
from perseid.service.throughput.budgets import (
    UNIT,
    Budget,
    Budgets,
    Payer,
    PurgeAllowance,
    milliseconds_until,
    scaled,
    split_evenly,
)
from perseid.service.throughput.rules import DEFAULT_THROUGHPUT, SERVERLESS_RATE

# The metrics without enforcement. No second is exhausted then.
UNMETERED: Final[dict[str, Any]] = {
    "consumedTotal": None,
    "throttledTotal": None,
    "provisionedThroughput": None,
    "scaledThroughput": None,
    "billedThroughput": None,
    "exhaustedSeconds": 0,
}


def wait_ms(
    account: Account,
    container: Container,
    range_indexes: Sequence[int],
    now: float,
    *,
    is_low: bool,
) -> int:
    """0 if a request over these ranges is admitted, else in how many milliseconds it would be.

    A request is admitted if something is left in each of the ranges.
    """
    budgets = _budgets(account)
    seconds = max(
        _budget(account, container, range_index, now).wait(is_low=is_low)
        for range_index in range_indexes
    )
    if not seconds:
        return 0
    budgets.meter(container.rid).throttled += 1
    return milliseconds_until(now, seconds)


def allowance(
    account: Account, container: Container, range_indexes: Sequence[int], now: float
) -> float:
    """The request units that every one of the ranges has left in this second."""
    return (
        min(_budget(account, container, range_index, now).balance for range_index in range_indexes)
        / UNIT
    )


def book(
    account: Account,
    container: Container,
    range_indexes: Sequence[int],
    charge: float,
    now: float,
    *,
    is_low: bool,
) -> None:
    """Charges a request to the ranges it has touched, in equal shares."""
    amount = hundredths(charge)
    for range_index, share in zip(
        range_indexes, split_evenly(amount, len(range_indexes)), strict=True
    ):
        _budget(account, container, range_index, now).spend(share, is_low=is_low)
    _budgets(account).meter(container.rid).consumed += amount


def open_purge_allowance(
    account: Account, container: Container, range_index: int, now: float
) -> PurgeAllowance | None:
    """What the sweeper may use for a range now; None while another container is waiting."""
    return _budget(account, container, range_index, now).purge_allowance(
        (container.rid, range_index)
    )


def charge_purge(
    account: Account,
    container: Container,
    range_index: int,
    now: float,
    *,
    spent: int,
    next_charge: int | None,
) -> None:
    """Books what a purge step cost, in hundredths. Requests never pay for it."""
    budget = _budget(account, container, range_index, now)
    budget.charge_purge((container.rid, range_index), spent, next_charge)


def is_purge_metered(account: Account) -> bool:
    """In a serverless account a purge is metered like a delete; elsewhere it is free."""
    return account.budgets is not None and account.settings.serverless


def record_purge_charge(account: Account, container: Container, charge: float) -> None:
    """Adds a metered purge, by the sweeper or by a request, to the consumption."""
    _budgets(account).meter(container.rid).consumed += hundredths(charge)


def throughput_metrics(account: Account, container: Container, now: float) -> dict[str, Any]:
    """What the requests of a container have consumed, and its throughput."""
    if account.budgets is None:
        return UNMETERED
    payer = _payer(account, container)
    # Those of a shared database have one budget, which counts once.
    paying = container.ranges if payer.rid == container.rid else container.ranges[:1]
    ranges = [_budget(account, container, key_range.index, now) for key_range in paying]
    meter = account.budgets.meter(container.rid)
    return {
        "consumedTotal": meter.consumed / UNIT,
        "throttledTotal": meter.throttled,
        "provisionedThroughput": None if payer.throughput is None else payer.throughput.ceiling,
        "scaledThroughput": scaled(payer, max(budget.used for budget in ranges)),
        "billedThroughput": scaled(payer, max(budget.peak for budget in ranges)),
        "exhaustedSeconds": sum(budget.exhausted_seconds for budget in ranges),
    }


def exhausted_seconds_total(account: Account, now: float) -> int:
    """The exhausted seconds of all budgets; a shared budget counts once."""
    if account.budgets is None:
        return 0
    for container in account.catalog.containers():
        for key_range in container.ranges:
            _budget(account, container, key_range.index, now)
    return sum(budget.exhausted_seconds for budget in account.budgets.ranges.values())


def _budgets(account: Account) -> Budgets:
    assert account.budgets is not None  # noqa: S101  (checked by the callers)
    return account.budgets


def _budget(account: Account, container: Container, range_index: int, now: float) -> Budget:
    """The budget of a range, or the one of its database, in the second of `now`."""
    payer = _payer(account, container)
    if payer.rid != container.rid:
        range_index = 0
    ranges = _budgets(account).ranges
    budget = ranges.get((payer.rid, range_index))
    if budget is None:
        budget = ranges[payer.rid, range_index] = Budget(payer.rate, int(now), payer.rate)
    budget.advance_to(int(now))
    if budget.rate != payer.rate:
        budget.change_rate(payer.rate)
    return budget


def _payer(account: Account, container: Container) -> Payer:
    payers = _budgets(account).payers
    payer = payers.get(container.rid)
    if payer is None:
        payer = payers[container.rid] = _find_payer(account, container)
    return payer


def _find_payer(account: Account, container: Container) -> Payer:
    if account.settings.serverless:
        return Payer(container.rid, None, SERVERLESS_RATE * UNIT)
    own = offers.throughput_of(account, container.rid)
    shared = offers.throughput_of(account, container.database.rid) if own is None else None
    if shared is not None:  # such containers share one budget, however many ranges each has
        return Payer(container.database.rid, shared, shared.ceiling * UNIT)
    used = own or DEFAULT_THROUGHPUT
    return Payer(container.rid, used, used.ceiling * UNIT // len(container.ranges))
