"""Preview of a TTL change, for a container and for one item."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.raw import RawClient
from tests.support.ttl_containers import ABSENT, Shelves, assert_gone
from tests.ttl.lifetimes.admin import (
    CHANGES,
    EVERYBODY,
    Figures,
    audit,
    change,
    counted,
    explain,
    family,
    preview,
    status,
    version,
)

# T-302: preview


@pytest.mark.parametrize(("old", "new", "dying", "mortal", "immortal"), CHANGES)
def test_preview_tells_what_the_change_then_does(
    shelves: Shelves,
    old: int | None,
    new: int | None,
    dying: set[str],
    mortal: int,
    immortal: int,
) -> None:
    shelf = family(shelves, old)
    alive, before = shelf.seen(*EVERYBODY), status(shelf)
    told = preview(shelf, new)
    assert told["asOf"] == shelves.now
    assert (told["defaultTtl"], told["proposedDefaultTtl"]) == (old, new)
    assert told["expiresNow"]["items"] == len(dying)
    assert told["gainsExpiry"] == mortal
    assert told["losesExpiry"] == immortal
    assert told["pendingPurge"] == before["pendingPurge"]
    assert told["invalidTtl"] == 1
    assert {each["id"] for each in told["sample"]} == dying
    stamps = [explain(shelf, id_)["_ts"] for id_ in dying]
    assert told["expiresNow"]["oldestTs"] == min(stamps, default=None)
    assert told["expiresNow"]["newestTs"] == max(stamps, default=None)

    assert shelf.set_default(ABSENT if new is None else new).status == 200
    after = status(shelf)
    assert shelf.seen(*EVERYBODY) == alive - dying
    assert told["expiresNow"]["bytes"] == before["live"]["bytes"] - after["live"]["bytes"]
    assert sum(bar["items"] for bar in told["histogram"]) == after["expiring"]["items"]
    assert sum(bar["bytes"] for bar in told["histogram"]) == after["expiring"]["bytes"]


@pytest.mark.parametrize("new", [5, -1, None])
def test_preview_changes_nothing(shelves: Shelves, new: int | None) -> None:
    shelf = family(shelves, 100)
    counted(shelf)
    before = (status(shelf), version(shelf), audit(shelf), shelf.seen(*EVERYBODY))
    preview(shelf, new)
    assert (status(shelf), version(shelf), audit(shelf), shelf.seen(*EVERYBODY)) == before


def test_preview_of_a_histogram_matches_the_expiries(shelves: Shelves) -> None:
    """Bars are (from, to]: move the clock to each end and count."""
    shelf = family(shelves, None)
    bars = preview(shelf, 200)["histogram"]
    shelf.set_default(200)
    left = shelf.counted()
    for bar in bars:
        assert bar["from"] < bar["to"]
        shelves.clock.set(bar["to"])
        left -= bar["items"]
        assert shelf.counted() == left
    assert status(shelf)["expiring"]["items"] == 0


def test_preview_ignores_items_expired_by_an_earlier_policy(shelves: Shelves) -> None:
    """Growing the default does not bring them back, so they are in no bar and die only once."""
    shelf = shelves.make(10)
    shelf.create("dead")
    shelf.clock.advance(10)
    shelf.create("alive")
    told = preview(shelf, 1000)
    assert (told["expiresNow"]["items"], told["pendingPurge"]["items"]) == (0, 1)
    assert sum(bar["items"] for bar in told["histogram"]) == 1
    shelf.set_default(1000)
    assert preview(shelf, 5)["expiresNow"]["items"] == 0
    assert preview(shelf, 5)["pendingPurge"]["items"] == 1


def test_preview_samples_a_few_of_many(shelves: Shelves) -> None:
    shelf = shelves.make(-1)
    for number in range(25):
        shelf.create(f"a{number:02}")
    shelf.clock.advance(60)
    told = preview(shelf, 60)
    assert told["expiresNow"]["items"] == 25
    assert len(told["sample"]) == 10
    assert told["sample"][0].keys() == {"id", "partitionKey", "_ts", "ttl"}
    assert told["sample"][0]["partitionKey"] == ["p"]


@pytest.mark.parametrize("body", [{}, {"defaultttl": 5}])
def test_preview_needs_a_proposal(shelves: Shelves, body: Figures) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.post(f"{shelf.admin}/preview", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


@pytest.mark.parametrize("value", [0, -2, 1.5, "5", 2**31])
def test_preview_refuses_what_a_change_would_refuse(shelves: Shelves, value: Any) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.post(f"{shelf.admin}/preview", {"defaultTtl": value})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "The input defaultTtl" in reply.json["message"]


@pytest.mark.parametrize(
    ("method", "tail"),
    [
        ("GET", ""), ("PUT", ""), ("POST", "/preview"), ("GET", "/forecast"), ("POST", "/explain"),
        ("POST", "/undo"), ("POST", "/drain"), ("GET", "/audit"),
    ],
)  # fmt: skip
def test_routes_of_a_container_that_is_not_there(
    shelves: Shelves, raw: RawClient, method: str, tail: str
) -> None:
    database = shelves.database.removeprefix("/dbs/")
    body = {"defaultTtl": 5, "id": "a", "partitionKey": ["p"]} if method == "POST" else {}
    reply = raw.request(method, f"/_perseid/ttl/{database}/nobody{tail}", body)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")
    unsigned = raw.request(method, f"/_perseid/ttl/{database}/nobody{tail}", body, sign_with=None)
    assert unsigned.status == 401


# T-303: preview of one item


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl"),
    [(100, 30), (100, 300), (-1, 30), (100, -1), (-1, -1), (ABSENT, 30)],
)
def test_the_proposed_expiry_is_the_observed_one(
    shelves: Shelves, default_ttl: Any, item_ttl: int
) -> None:
    shelf = shelves.make(default_ttl)
    shelf.create("a")
    shelf.clock.advance(7)
    told = explain(shelf, "a", ttl=item_ttl)["proposed"]
    assert told["ttl"] == item_ttl
    assert shelf.replace("a", shelf.body("a", item_ttl)).status == 200
    if told["expiresAt"] is None:
        shelf.clock.advance(10_000)
        assert shelf.read("a").status == 200
        return
    shelf.clock.set(told["expiresAt"] - 1)
    assert shelf.read("a").status == 200
    shelf.clock.advance(1)
    assert_gone(shelf.read("a"))


@pytest.mark.parametrize("value", [0, -2, 1.5, "5", None, True, 2**31])
def test_a_proposal_must_be_a_ttl(shelves: Shelves, value: Any) -> None:
    shelf = shelves.make(100)
    shelf.create("a")
    body = {"id": "a", "partitionKey": ["p"], "ttl": value}
    reply = shelf.raw.post(f"{shelf.admin}/explain", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "The input ttl" in reply.json["message"]


# T-309: a change is O(1); its time is measured in test_scale.py


@pytest.mark.parametrize("new", [5, 1000, -1, None])
def test_a_change_rewrites_no_item(shelves: Shelves, new: int | None) -> None:
    shelf = family(shelves, 500)
    etag, lsn, etags = version(shelf)
    change(shelf, new)
    changed_etag, changed_lsn, changed_etags = version(shelf)
    assert changed_lsn == lsn
    assert set(changed_etags) <= set(etags)
    assert changed_etag != etag


def test_preview_skips_expired_items_with_an_invalid_ttl(shelves: Shelves) -> None:
    shelf = shelves.make(ABSENT)
    shelf.create("a", "q")
    change(shelf, 5)
    assert preview(shelf, 60)["invalidTtl"] == 1
    shelf.clock.advance(5)
    assert preview(shelf, 60)["invalidTtl"] == 0
