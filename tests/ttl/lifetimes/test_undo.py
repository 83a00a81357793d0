"""Undo of a TTL change, before and after the purge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from perseid.server import opened
from perseid.service.lifetimes.undo import undo as undo_change
from perseid.service.resources import containers
from perseid.store.types import AuditEntry
from tests.support.purging import DatedItem, container_at, set_default_ttl, store_items
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainers
from tests.ttl.lifetimes.admin import (
    CHANGES,
    EVERYBODY,
    Figures,
    change,
    crowd,
    family,
    status,
    undo,
    version,
)

# T-305: undo


@pytest.mark.parametrize(("old", "new", "expiring", "gains", "loses"), CHANGES)
def test_undo_before_the_purge_brings_all_back(
    containers: TtlContainers,
    old: int | None,
    new: int | None,
    expiring: set[str],
    gains: int,
    loses: int,
) -> None:
    if old == new:
        return
    container = family(containers, old)
    alive, before = container.seen(*EVERYBODY), status(container)
    lsn = version(container)[1]
    assert change(container, new).status == 200
    told = undo(container)
    assert container.seen(*EVERYBODY) == alive
    assert told["defaultTtl"] == old
    assert told["restored"]["items"] == len(expiring)
    assert told["alreadyPurged"] == 0
    assert container.definition().get("defaultTtl") == old
    assert version(container)[1] == lsn  # no item was written
    after = status(container)
    for name in ("live", "expiring", "nonExpiring", "pendingPurge", "nextExpiry"):
        assert after[name] == before[name]


def test_undo_counts_what_is_purged(containers: TtlContainers) -> None:
    """Three expire immediately and are purged, one expires later and is still stored."""
    container = crowd(containers, 3)
    container.create("young")
    change(container, 30)
    assert container.drain() == 3
    container.clock.advance(30)
    assert container.seen("young") == set()
    told = undo(container)
    assert told["restored"]["items"] == 1
    assert told["alreadyPurged"] == 3
    assert container.seen("a0", "a1", "a2", "young") == {"young"}


@pytest.mark.parametrize("keeping", [{}, {"changeFeedPolicy": {"retentionDuration": 60}}])
def test_undo_tells_who_was_removed_by_requests(
    containers: TtlContainers, keeping: dict[str, Any]
) -> None:
    """T-305: an id that is taken again, a partition that is cleared; but not for those whom their
    own lifetime had ended anyway."""
    container = containers.make(-1, **keeping)
    for id_ in ("again", "over", "left"):
        container.create(id_)
    container.create("ended", 5)
    for id_ in ("x", "y"):
        container.create(id_, pk="q")
    container.create("z", 5, pk="q")
    container.clock.advance(10)
    change(container, 5)
    container.create("again")
    assert container.post(container.body("over"), upsert="true").status == 201
    container.create("ended")
    assert container.clear_partition("q").status == 200
    told = undo(container)
    assert (told["restored"]["items"], told["alreadyPurged"]) == (1, 4)


def test_undo_counts_items_expired_and_purged_after_the_change(containers: TtlContainers) -> None:
    """No item expires in the second of the change; two do later because of it, and are purged."""
    container = containers.make(1000)
    for id_ in ("a", "b"):
        container.create(id_)
    change(container, 10)
    container.clock.advance(10)
    assert container.drain() == 2
    told = undo(container)
    assert told["restored"]["items"] == 0
    assert told["alreadyPurged"] == 2


def test_undo_does_not_restore_items_expired_before_the_change(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("before")
    container.clock.advance(10)
    container.create("after")
    container.clock.advance(5)
    change(container, 5)
    assert container.seen("before", "after") == set()
    assert undo(container)["restored"]["items"] == 1
    assert container.seen("before", "after") == {"after"}
    container.clock.advance(5)
    assert container.seen("before", "after") == set()


def test_undo_needs_an_index(containers: TtlContainers) -> None:
    """T-166: off together with the index; the default comes back only after the index has."""
    container = containers.make(10)
    body = container.definition()
    del body["defaultTtl"]
    bare = body | {"indexingPolicy": {"indexingMode": "none", "automatic": False}}
    assert container.raw.put(container.path, bare).status == 200
    reply = container.raw.post(f"{container.admin}/undo", {})
    assert reply.status == 400
    assert "Indexing mode value cannot be 'none'" in reply.json["message"]
    assert "defaultTtl" not in container.definition()
    assert container.raw.put(container.path, body).status == 200
    undo(container)
    assert container.definition()["defaultTtl"] == 10


def test_undo_goes_one_step(containers: TtlContainers) -> None:
    container = containers.make(10)
    change(container, 20)
    change(container, 30)
    assert undo(container)["defaultTtl"] == 20
    reply = container.raw.post(f"{container.admin}/undo", {})
    assert (reply.status, reply.json["code"]) == (409, "Conflict")
    assert container.definition()["defaultTtl"] == 20
    change(container, 40)
    assert undo(container)["defaultTtl"] == 20


def test_nothing_to_undo(containers: TtlContainers) -> None:
    container = containers.make(10)
    change(container, 10)  # the same value is no change
    reply = container.raw.post(f"{container.admin}/undo", {})
    assert (reply.status, reply.json["code"]) == (409, "Conflict")


def test_undo_gives_the_container_a_new_etag(containers: TtlContainers) -> None:
    container = containers.make(10)
    change(container, 20)
    changed = container.raw.get(container.path).json["_etag"]
    undo(container)
    assert container.raw.get(container.path).json["_etag"] != changed
    stale = container.raw.put(container.path, container.definition(), if_match=changed)
    assert stale.status == 412


def test_undo_survives_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = crowd(TtlContainers(raw, clock, "/dbs/d"), 3)
        change(container, 30)
    with serving(settings, clock) as raw:
        again = replace(container, raw=raw)
        assert undo(again)["restored"]["items"] == 3
    with serving(settings, clock) as raw:
        again = replace(container, raw=raw)
        assert again.counted() == 3
        assert raw.post(f"{again.admin}/undo", {}).status == 409


def test_undo_before_the_change_is_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count comes after the answer. Until then nothing is removed, so the answer is 0."""

    async def scenario() -> Figures:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, -1) as (account, container):
            long_ago = int(clock.now()) - 100
            await store_items(account, container, [DatedItem(f"a{n}", long_ago) for n in range(3)])
            gate = asyncio.Event()
            write = account.stores.metadata.change

            async def held_up(changes: Sequence[Any]) -> None:
                if any(isinstance(c, AuditEntry) and c.entry["event"] == "counts" for c in changes):
                    await gate.wait()
                await write(changes)

            monkeypatch.setattr(account.stores.metadata, "change", held_up)
            await set_default_ttl(account, 50)
            undone = asyncio.create_task(
                undo_change(account, container.rid, "primary", None, clock.now())
            )
            await asyncio.wait((undone,), timeout=1)  # it may choose to wait for the count
            gate.set()
            await asyncio.gather(*account.background)
            return await undone

    told = asyncio.run(scenario())
    assert (told["restored"]["items"], told["alreadyPurged"]) == (3, 0)


def test_undo_does_not_take_the_figures_of_an_earlier_change(place: Place) -> None:
    """The server stops before a change is counted: what the last one expired is not this one's."""
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = crowd(TtlContainers(raw, clock, "/dbs/d"), 3)
        change(container, 30)  # counts three
        assert container.drain() == 3
        container.create("young")

    async def change_and_expire() -> None:
        async with opened(settings, clock) as account:
            body = {**account.catalog.container("d", "c").properties, "defaultTtl": 40}
            await containers.replace(account, "d", "c", body, if_match=None, now=clock.now())
            for counting in account.background:
                counting.cancel()
            await asyncio.gather(*account.background, return_exceptions=True)

    asyncio.run(change_and_expire())
    with serving(settings, clock) as raw:
        assert undo(replace(container, raw=raw))["alreadyPurged"] in (0, None)
