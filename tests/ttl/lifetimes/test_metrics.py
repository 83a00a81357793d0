"""TTL metrics as JSON and as Prometheus text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.figures import container_metrics
from tests.support.raw import RawClient
from tests.support.ttl_containers import TtlContainer, TtlContainers
from tests.ttl.lifetimes.admin import (
    HISTORIES,
    body_of,
    change,
    grown_history,
    on_disk,
)

# T-313: metrics


def exposed(container: TtlContainer) -> dict[str, float]:
    """The same from the text, by name of the series."""
    text = container.raw.get("/_perseid/metrics").body.decode()
    path = re.escape(container.path.removeprefix("/"))
    found = re.findall(rf'^perseid_(\w+)\{{container="{path}"\}} (\S+)$', text, re.M)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("history", HISTORIES)
def test_the_sums_of_the_metrics(
    containers: TtlContainers, history: Callable[[TtlContainer], None]
) -> None:
    container = containers.make(100)
    history(container)
    for _ in range(2):
        found = container_metrics(container.raw, container.path)
        for name in ("items", "bytes"):
            assert found["expiring"][name] + found["nonExpiring"][name] == found["live"][name]
        assert found["live"]["items"] == container.counted()
        assert found["expiredTotal"] - found["purgedTotal"] == found["pendingPurge"]["items"]
        in_text = exposed(container)
        assert in_text["live_items"] + in_text["pending_purge_items"] == on_disk(found)[0]
        assert in_text["live_bytes"] + in_text["pending_purge_bytes"] == on_disk(found)[1]
        assert in_text["expiring_items"] + in_text["non_expiring_items"] == in_text["live_items"]
        assert in_text["expired_total"] - in_text["purged_total"] == in_text["pending_purge_items"]
        container.drain()
    assert found["pendingPurge"] == {"items": 0, "bytes": 0}
    assert found["purgedTotal"] == found["expiredTotal"]


def test_text_and_json_say_the_same(containers: TtlContainers) -> None:
    container = containers.make(100)
    grown_history(container)
    found, in_text = container_metrics(container.raw, container.path), exposed(container)
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


def test_the_text_is_what_prometheus_reads(raw: RawClient, containers: TtlContainers) -> None:
    containers.make(10)
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


def test_lag_is_the_age_of_the_longest_expired_item(containers: TtlContainers) -> None:
    container = containers.make(10)
    assert container_metrics(container.raw, container.path)["purgeLagSeconds"] == 0
    container.create("a")
    container.create("b", 5)
    container.clock.advance(5)
    assert (
        container_metrics(container.raw, container.path)["purgeLagSeconds"] == 0
    )  # b expired this very second
    container.clock.advance(15)
    assert container_metrics(container.raw, container.path)["purgeLagSeconds"] == 15
    container.drain()
    assert container_metrics(container.raw, container.path)["purgeLagSeconds"] == 0


@pytest.mark.parametrize("then", [1000, -1, None])
def test_lag_of_items_expired_by_an_earlier_policy(
    containers: TtlContainers, then: int | None
) -> None:
    """Expired for twenty seconds, of which ten under the new policy."""
    container = containers.make(10)
    container.create("a")
    container.clock.advance(20)
    change(container, then)
    container.clock.advance(10)
    assert container_metrics(container.raw, container.path)["pendingPurge"]["items"] == 1
    assert 10 <= container_metrics(container.raw, container.path)["purgeLagSeconds"] <= 20


def test_counters_never_fall(containers: TtlContainers) -> None:
    """T-139: an expired item whose id is taken counts as expired and purged, as any other."""
    container = containers.make(10)
    container.create("a")
    container.clock.advance(10)
    assert container_metrics(container.raw, container.path)["expiredTotal"] == 1
    container.create("a")
    found = container_metrics(container.raw, container.path)
    assert found["pendingPurge"]["items"] == 0
    assert (found["expiredTotal"], found["purgedTotal"]) == (1, 1)


def test_policy_changes_are_counted(containers: TtlContainers) -> None:
    container = containers.make(10)
    for value in (20, 20, 30, None, -1):
        change(container, value)
    assert container_metrics(container.raw, container.path)["policyChanges"] == 4


def test_requests_are_counted(raw: RawClient, containers: TtlContainers) -> None:
    before = body_of(raw.get("/_perseid/metrics.json"))["requests"]
    containers.make(10)
    assert body_of(raw.get("/_perseid/metrics.json"))["requests"] == before + 2
