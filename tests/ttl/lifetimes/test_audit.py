"""The audit log of TTL changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainers
from tests.ttl.lifetimes.admin import (
    Figures,
    ask,
    audit,
    audit_with_counts,
    body_of,
    change,
    configure,
    crowd,
    status,
    undo,
)

# T-315: audit


def test_audit_of_a_change(containers: TtlContainers) -> None:
    container = crowd(containers)
    assert audit(container) == []
    assert change(container, 30).status == 200
    rid = container.raw.get(container.path).json["_rid"]
    policy, figures = audit_with_counts(container)
    shared = {
        "ts": containers.now,
        "containerRid": rid,
        "container": container.path.removeprefix("/"),
        "defaultTtl": {"old": -1, "new": 30},
        "caller": "primary",
    }
    line = policy["line"]
    assert policy == {"line": line, "event": "policy", **shared}
    before = status(container)["pendingPurge"]
    assert figures["event"] == "counts"
    assert {name: figures[name] for name in shared} == shared
    assert figures["expiredImmediately"] == before
    assert figures["line"] > line


def test_audit_is_there_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = crowd(TtlContainers(raw, clock, "/dbs/d"))
        change(container, 30)
        audit_with_counts(container)
        configure(container, guard="10%")
        undo(container)
        before = audit(container)
    assert [entry["event"] for entry in before] == ["policy", "counts", "settings", "undo"]
    with serving(settings, clock) as raw:
        assert audit(replace(container, raw=raw)) == before


def test_audit_of_undo_and_settings(containers: TtlContainers) -> None:
    container = crowd(containers)
    change(container, 30)
    audit_with_counts(container)
    configure(container, purgeHoldSeconds=5, guard="7")
    told = undo(container)
    settings, undone = audit(container)[-2:]
    assert settings["event"] == "settings"
    assert (settings["purgeHoldSeconds"], settings["guard"]) == (5, "7")
    assert settings["caller"] == "primary"
    assert undone["event"] == "undo"
    assert undone["defaultTtl"] == {"old": 30, "new": -1}
    assert undone["restored"] == told["restored"]
    assert undone["alreadyPurged"] == told["alreadyPurged"]


def test_audit_tells_containers_apart(containers: TtlContainers, raw: RawClient) -> None:
    one, other = containers.make(10, name="one"), containers.make(10, name="other")
    change(one, 20)
    change(other, 30)
    for container in (one, other):
        rid = raw.get(container.path).json["_rid"]
        assert {entry["containerRid"] for entry in audit_with_counts(container)} == {rid}
    rids = {entry["containerRid"] for entry in _everything(raw)}
    assert {raw.get(container.path).json["_rid"] for container in (one, other)} <= rids


def _everything(raw: RawClient) -> list[Figures]:
    entries: list[Figures] = body_of(
        raw.request("GET", "/_perseid/ttl/audit", raw_path="/_perseid/ttl/audit?limit=10000")
    )["entries"]
    return entries


def test_audit_in_pages(containers: TtlContainers) -> None:
    container = containers.make(10)
    for value in (20, 30, 40):
        change(container, value)
    audit_with_counts(container)
    whole = audit(container)
    paged: list[Figures] = []
    after = 0
    while page := body_of(ask(container, f"audit?after={after}&limit=2"))["entries"]:
        assert len(page) <= 2
        paged += page
        after = page[-1]["line"]
    assert paged == whole


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=10001", "from=1"])
def test_audits_that_are_none(containers: TtlContainers, query: str) -> None:
    reply = ask(containers.make(10), f"audit?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
