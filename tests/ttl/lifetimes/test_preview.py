"""Preview of a TTL change, for a container and for one item."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.raw import RawClient
from tests.support.ttl_containers import ABSENT, TtlContainers, assert_gone
from tests.ttl.lifetimes.admin import (
    CHANGES,
    EVERYBODY,
    Figures,
    audit,
    audit_with_counts,
    change,
    explain,
    family,
    preview,
    status,
    version,
)

# T-302: preview


@pytest.mark.parametrize(("old", "new", "expiring", "gains", "loses"), CHANGES)
def test_preview_shows_what_the_change_then_does(
    containers: TtlContainers,
    old: int | None,
    new: int | None,
    expiring: set[str],
    gains: int,
    loses: int,
) -> None:
    container = family(containers, old)
    alive, before = container.seen(*EVERYBODY), status(container)
    told = preview(container, new)
    assert told["asOf"] == containers.now
    assert (told["defaultTtl"], told["proposedDefaultTtl"]) == (old, new)
    assert told["expiresNow"]["items"] == len(expiring)
    assert told["gainsExpiry"] == gains
    assert told["losesExpiry"] == loses
    assert told["pendingPurge"] == before["pendingPurge"]
    assert told["invalidTtl"] == 1
    assert {each["id"] for each in told["sample"]} == expiring
    stamps = [explain(container, id_)["_ts"] for id_ in expiring]
    assert told["expiresNow"]["oldestTs"] == min(stamps, default=None)
    assert told["expiresNow"]["newestTs"] == max(stamps, default=None)

    assert container.set_default(ABSENT if new is None else new).status == 200
    after = status(container)
    assert container.seen(*EVERYBODY) == alive - expiring
    assert told["expiresNow"]["bytes"] == before["live"]["bytes"] - after["live"]["bytes"]
    assert sum(bar["items"] for bar in told["histogram"]) == after["expiring"]["items"]
    assert sum(bar["bytes"] for bar in told["histogram"]) == after["expiring"]["bytes"]


@pytest.mark.parametrize("new", [5, -1, None])
def test_preview_changes_nothing(containers: TtlContainers, new: int | None) -> None:
    container = family(containers, 100)
    audit_with_counts(container)
    before = (status(container), version(container), audit(container), container.seen(*EVERYBODY))
    preview(container, new)
    assert (
        status(container),
        version(container),
        audit(container),
        container.seen(*EVERYBODY),
    ) == before


def test_preview_of_a_histogram_matches_the_expiries(containers: TtlContainers) -> None:
    """Bars are (from, to]: move the clock to each end and count."""
    container = family(containers, None)
    bars = preview(container, 200)["histogram"]
    container.set_default(200)
    left = container.counted()
    for bar in bars:
        assert bar["from"] < bar["to"]
        containers.clock.set(bar["to"])
        left -= bar["items"]
        assert container.counted() == left
    assert status(container)["expiring"]["items"] == 0


def test_preview_ignores_items_expired_by_an_earlier_policy(containers: TtlContainers) -> None:
    """Growing the default does not restore them, so they are in no bar and expire only once."""
    container = containers.make(10)
    container.create("expired")
    container.clock.advance(10)
    container.create("alive")
    told = preview(container, 1000)
    assert (told["expiresNow"]["items"], told["pendingPurge"]["items"]) == (0, 1)
    assert sum(bar["items"] for bar in told["histogram"]) == 1
    container.set_default(1000)
    assert preview(container, 5)["expiresNow"]["items"] == 0
    assert preview(container, 5)["pendingPurge"]["items"] == 1


def test_preview_samples_a_few_of_many(containers: TtlContainers) -> None:
    container = containers.make(-1)
    for number in range(25):
        container.create(f"a{number:02}")
    container.clock.advance(60)
    told = preview(container, 60)
    assert told["expiresNow"]["items"] == 25
    assert len(told["sample"]) == 10
    assert told["sample"][0].keys() == {"id", "partitionKey", "_ts", "ttl"}
    assert told["sample"][0]["partitionKey"] == ["p"]


@pytest.mark.parametrize("body", [{}, {"defaultttl": 5}])
def test_preview_needs_a_proposal(containers: TtlContainers, body: Figures) -> None:
    container = containers.make(10)
    reply = container.raw.post(f"{container.admin}/preview", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


@pytest.mark.parametrize("value", [0, -2, 1.5, "5", 2**31])
def test_preview_refuses_what_a_change_would_refuse(containers: TtlContainers, value: Any) -> None:
    container = containers.make(10)
    reply = container.raw.post(f"{container.admin}/preview", {"defaultTtl": value})
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
    containers: TtlContainers, raw: RawClient, method: str, tail: str
) -> None:
    database = containers.database.removeprefix("/dbs/")
    body = {"defaultTtl": 5, "id": "a", "partitionKey": ["p"]} if method == "POST" else {}
    reply = raw.request(method, f"/_perseid/ttl/{database}/unknown{tail}", body)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")
    unsigned = raw.request(method, f"/_perseid/ttl/{database}/unknown{tail}", body, sign_with=None)
    assert unsigned.status == 401


# T-303: preview of one item


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl"),
    [(100, 30), (100, 300), (-1, 30), (100, -1), (-1, -1), (ABSENT, 30)],
)
def test_the_proposed_expiry_is_the_observed_one(
    containers: TtlContainers, default_ttl: Any, item_ttl: int
) -> None:
    container = containers.make(default_ttl)
    container.create("a")
    container.clock.advance(7)
    told = explain(container, "a", ttl=item_ttl)["proposed"]
    assert told["ttl"] == item_ttl
    assert container.replace("a", container.body("a", item_ttl)).status == 200
    if told["expiresAt"] is None:
        container.clock.advance(10_000)
        assert container.read("a").status == 200
        return
    container.clock.set(told["expiresAt"] - 1)
    assert container.read("a").status == 200
    container.clock.advance(1)
    assert_gone(container.read("a"))


@pytest.mark.parametrize("value", [0, -2, 1.5, "5", None, True, 2**31])
def test_a_proposal_must_be_a_ttl(containers: TtlContainers, value: Any) -> None:
    container = containers.make(100)
    container.create("a")
    body = {"id": "a", "partitionKey": ["p"], "ttl": value}
    reply = container.raw.post(f"{container.admin}/explain", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "The input ttl" in reply.json["message"]


# T-309: a change is O(1); its time is measured in test_scale.py


@pytest.mark.parametrize("new", [5, 1000, -1, None])
def test_a_change_rewrites_no_item(containers: TtlContainers, new: int | None) -> None:
    container = family(containers, 500)
    etag, lsn, etags = version(container)
    change(container, new)
    changed_etag, changed_lsn, changed_etags = version(container)
    assert changed_lsn == lsn
    assert set(changed_etags) <= set(etags)
    assert changed_etag != etag


def test_preview_skips_expired_items_with_an_invalid_ttl(containers: TtlContainers) -> None:
    container = containers.make(ABSENT)
    assert container.post(container.body("a", "q"), x_perseid_direct="true").status == 201
    change(container, 5)
    assert preview(container, 60)["invalidTtl"] == 1
    container.clock.advance(5)
    assert preview(container, 60)["invalidTtl"] == 0
