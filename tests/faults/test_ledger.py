"""The ledger notices what faults must not do; a ledger that sees nothing would pass every run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.ledger import ABSENT, Entry, Findings, Ledger, content

SHOWN = 1000.0


def written(ledger: Ledger, *, ttl: int | None = None, times: int = 1) -> Entry:
    entry = ledger.entry("i", "p")
    for _ in range(times):
        entry.acknowledge(entry.begin(ttl=ttl), None if ttl is None else SHOWN - 100 + ttl)
    return entry


def listed(entry: Entry, number: int, ttl: int | None = None, **other: Any) -> dict[str, Any]:
    return {entry.id: content(entry, number, ttl) | {"_ts": int(SHOWN) - 100} | other}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(Findings())


def compared(ledger: Ledger, items: dict[str, Any]) -> dict[str, int]:
    ledger.compare(items, SHOWN, SHOWN)
    return dict(ledger.findings.counts)


def test_what_was_acknowledged_is_there(ledger: Ledger) -> None:
    entry = written(ledger, times=3)
    assert compared(ledger, listed(entry, 3)) == {}


def test_an_item_is_gone(ledger: Ledger) -> None:
    written(ledger)
    assert compared(ledger, {}) == {"lost": 1}


def test_the_last_write_is_gone(ledger: Ledger) -> None:
    entry = written(ledger, times=2)
    assert compared(ledger, listed(entry, 1)) == {"lost": 1}


def test_a_write_was_applied_twice(ledger: Ledger) -> None:
    entry = written(ledger)
    assert compared(ledger, listed(entry, 2)) == {"doubled": 1}


def test_a_deleted_item_is_back(ledger: Ledger) -> None:
    entry = written(ledger)
    entry.acknowledge(entry.begin(is_delete=True))
    assert compared(ledger, listed(entry, 1)) == {"returned": 1}


@pytest.mark.parametrize("number", [ABSENT, 1])
def test_a_write_in_doubt_may_be_there_or_not_but_stays_so(ledger: Ledger, number: int) -> None:
    entry = ledger.entry("i", "p")
    entry.begin()
    items = listed(entry, 1)
    assert compared(ledger, items if number else {}) == {}
    finding = "lost" if number else "returned"
    assert compared(ledger, {} if number else items) == {finding: 1}


def test_a_refused_write_must_not_be_there(ledger: Ledger) -> None:
    entry = written(ledger)
    entry.refuse(entry.begin())
    assert compared(ledger, listed(entry, 2)) == {"doubled": 1}


def test_an_expired_item_is_seen(ledger: Ledger) -> None:
    entry = written(ledger, ttl=100)  # at the very second
    assert compared(ledger, listed(entry, 1, 100)) == {"expired seen": 1}


def test_an_expired_item_may_be_absent_and_a_live_one_not(ledger: Ledger) -> None:
    written(ledger, ttl=100)
    assert compared(ledger, {}) == {}
    written(ledger, ttl=101)
    assert compared(ledger, {}) == {"lost": 1}


def test_another_text(ledger: Ledger) -> None:
    entry = written(ledger)
    assert compared(ledger, listed(entry, 1, text="other")) == {"wrong content": 1}


def test_an_item_that_no_client_wrote(ledger: Ledger) -> None:
    assert compared(ledger, {"x": {"id": "x"}}) == {"unknown": 1}
