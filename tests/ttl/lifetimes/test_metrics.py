"""TTL metrics as JSON and as Prometheus text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.raw import RawClient
from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.lifetimes.admin import (
    HISTORIES,
    Figures,
    answer,
    change,
    grown_history,
    stored,
)

# T-313: metrics


def measured(shelf: Shelf) -> Figures:
    """The figures of one container among those of all."""
    everything = answer(shelf.raw.get("/_perseid/metrics.json"))
    path = shelf.path.removeprefix("/")
    (found,) = [each for each in everything["containers"] if each["container"] == path]
    assert isinstance(found, dict)
    return found


def exposed(shelf: Shelf) -> dict[str, float]:
    """The same from the text, by name of the series."""
    text = shelf.raw.get("/_perseid/metrics").body.decode()
    path = re.escape(shelf.path.removeprefix("/"))
    found = re.findall(rf'^perseid_(\w+)\{{container="{path}"\}} (\S+)$', text, re.M)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("history", HISTORIES)
def test_the_sums_of_the_metrics(shelves: Shelves, history: Callable[[Shelf], None]) -> None:
    shelf = shelves.make(100)
    history(shelf)
    for _ in range(2):
        found = measured(shelf)
        for name in ("items", "bytes"):
            assert found["expiring"][name] + found["nonExpiring"][name] == found["live"][name]
        assert found["live"]["items"] == shelf.counted()
        assert found["expiredTotal"] - found["purgedTotal"] == found["pendingPurge"]["items"]
        in_text = exposed(shelf)
        assert in_text["live_items"] + in_text["pending_purge_items"] == stored(found)[0]
        assert in_text["live_bytes"] + in_text["pending_purge_bytes"] == stored(found)[1]
        assert in_text["expiring_items"] + in_text["non_expiring_items"] == in_text["live_items"]
        assert in_text["expired_total"] - in_text["purged_total"] == in_text["pending_purge_items"]
        shelf.drain()
    assert found["pendingPurge"] == {"items": 0, "bytes": 0}
    assert found["purgedTotal"] == found["expiredTotal"]


def test_text_and_json_say_the_same(shelves: Shelves) -> None:
    shelf = shelves.make(100)
    grown_history(shelf)
    found, in_text = measured(shelf), exposed(shelf)
    assert in_text == {
        "live_items": found["live"]["items"],
        "live_bytes": found["live"]["bytes"],
        "expiring_items": found["expiring"]["items"],
        "expiring_bytes": found["expiring"]["bytes"],
        "non_expiring_items": found["nonExpiring"]["items"],
        "non_expiring_bytes": found["nonExpiring"]["bytes"],
        "pending_purge_items": found["pendingPurge"]["items"],
        "pending_purge_bytes": found["pendingPurge"]["bytes"],
        "expired_total": found["expiredTotal"],
        "purged_total": found["purgedTotal"],
        "purged_bytes_total": found["purgedBytes"],
        "purge_charge_total": found["purgeCharge"],
        "purge_lag_seconds": found["purgeLagSeconds"],
        "next_expiry_timestamp": found["nextExpiry"],
        "policy_changes_total": found["policyChanges"],
        "exhausted_seconds_total": 0,
    }


def test_the_text_is_what_prometheus_reads(raw: RawClient, shelves: Shelves) -> None:
    shelves.make(10)
    reply = raw.get("/_perseid/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    declared: dict[str, str] = {}
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in declared
            declared[name] = kind
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r'(\w+)(?:\{container="[^"]+"\})? (-?\d+(?:\.\d+)?)', line)
            assert match is not None, line
            assert match[1] in declared
            assert (declared[match[1]] == "counter") == match[1].endswith("_total")


def test_lag_is_the_age_of_the_longest_expired_item(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    assert measured(shelf)["purgeLagSeconds"] == 0
    shelf.create("a")
    shelf.create("b", 5)
    shelf.clock.advance(5)
    assert measured(shelf)["purgeLagSeconds"] == 0  # b died this very second
    shelf.clock.advance(15)
    assert measured(shelf)["purgeLagSeconds"] == 15
    shelf.drain()
    assert measured(shelf)["purgeLagSeconds"] == 0


@pytest.mark.parametrize("then", [1000, -1, None])
def test_lag_of_items_expired_by_an_earlier_policy(shelves: Shelves, then: int | None) -> None:
    """Dead for twenty seconds, of which ten under the new policy."""
    shelf = shelves.make(10)
    shelf.create("a")
    shelf.clock.advance(20)
    change(shelf, then)
    shelf.clock.advance(10)
    assert measured(shelf)["pendingPurge"]["items"] == 1
    assert 10 <= measured(shelf)["purgeLagSeconds"] <= 20


def test_counters_never_fall(shelves: Shelves) -> None:
    """T-139: a dead item whose place is taken has expired and is removed, as any other."""
    shelf = shelves.make(10)
    shelf.create("a")
    shelf.clock.advance(10)
    assert measured(shelf)["expiredTotal"] == 1
    shelf.create("a")
    found = measured(shelf)
    assert found["pendingPurge"]["items"] == 0
    assert (found["expiredTotal"], found["purgedTotal"]) == (1, 1)


def test_policy_changes_are_counted(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    for value in (20, 20, 30, None, -1):
        change(shelf, value)
    assert measured(shelf)["policyChanges"] == 4


def test_requests_are_counted(raw: RawClient, shelves: Shelves) -> None:
    before = answer(raw.get("/_perseid/metrics.json"))["requests"]
    shelves.make(10)
    assert answer(raw.get("/_perseid/metrics.json"))["requests"] == before + 2
