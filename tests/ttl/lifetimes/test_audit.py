"""The audit log of TTL changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import Shelves
from tests.ttl.lifetimes.admin import (
    Figures,
    answer,
    ask,
    audit,
    change,
    configure,
    counted,
    crowd,
    status,
    undo,
)

# T-315: audit


def test_audit_of_a_change(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    assert audit(shelf) == []
    assert change(shelf, 30).status == 200
    rid = shelf.raw.get(shelf.path).json["_rid"]
    policy, figures = counted(shelf)
    shared = {
        "ts": shelves.now,
        "containerRid": rid,
        "container": shelf.path.removeprefix("/"),
        "defaultTtl": {"old": -1, "new": 30},
        "caller": "primary",
    }
    line = policy["line"]
    assert policy == {"line": line, "event": "policy", **shared}
    before = status(shelf)["pendingPurge"]
    assert figures["event"] == "counts"
    assert {name: figures[name] for name in shared} == shared
    assert figures["expiredImmediately"] == before
    assert figures["line"] > line


def test_audit_is_there_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"))
        change(shelf, 30)
        counted(shelf)
        configure(shelf, guard="10%")
        undo(shelf)
        before = audit(shelf)
    assert [entry["event"] for entry in before] == ["policy", "counts", "settings", "undo"]
    with serving(settings, clock) as raw:
        assert audit(replace(shelf, raw=raw)) == before


def test_audit_of_undo_and_settings(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    change(shelf, 30)
    counted(shelf)
    configure(shelf, purgeHoldSeconds=5, guard="7")
    told = undo(shelf)
    settings, undone = audit(shelf)[-2:]
    assert settings["event"] == "settings"
    assert (settings["purgeHoldSeconds"], settings["guard"]) == (5, "7")
    assert settings["caller"] == "primary"
    assert undone["event"] == "undo"
    assert undone["defaultTtl"] == {"old": 30, "new": -1}
    assert undone["restored"] == told["restored"]
    assert undone["alreadyPurged"] == told["alreadyPurged"]


def test_audit_tells_containers_apart(shelves: Shelves, raw: RawClient) -> None:
    one, other = shelves.make(10, name="one"), shelves.make(10, name="other")
    change(one, 20)
    change(other, 30)
    for shelf in (one, other):
        rid = raw.get(shelf.path).json["_rid"]
        assert {entry["containerRid"] for entry in counted(shelf)} == {rid}
    rids = {entry["containerRid"] for entry in _everything(raw)}
    assert {raw.get(shelf.path).json["_rid"] for shelf in (one, other)} <= rids


def _everything(raw: RawClient) -> list[Figures]:
    entries: list[Figures] = answer(
        raw.request("GET", "/_perseid/ttl/audit", raw_path="/_perseid/ttl/audit?limit=10000")
    )["entries"]
    return entries


def test_audit_in_pages(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    for value in (20, 30, 40):
        change(shelf, value)
    counted(shelf)
    whole = audit(shelf)
    paged: list[Figures] = []
    after = 0
    while page := answer(ask(shelf, f"audit?after={after}&limit=2"))["entries"]:
        assert len(page) <= 2
        paged += page
        after = page[-1]["line"]
    assert paged == whole


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=10001", "from=1"])
def test_audits_that_are_none(shelves: Shelves, query: str) -> None:
    reply = ask(shelves.make(10), f"audit?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
