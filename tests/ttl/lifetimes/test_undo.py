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
from tests.support.purging import Kept, container_at, set_default, stock
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import Shelves
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


@pytest.mark.parametrize(("old", "new", "dying", "mortal", "immortal"), CHANGES)
def test_undo_before_the_purge_brings_all_back(
    shelves: Shelves,
    old: int | None,
    new: int | None,
    dying: set[str],
    mortal: int,
    immortal: int,
) -> None:
    if old == new:
        return
    shelf = family(shelves, old)
    alive, before = shelf.seen(*EVERYBODY), status(shelf)
    lsn = version(shelf)[1]
    assert change(shelf, new).status == 200
    told = undo(shelf)
    assert shelf.seen(*EVERYBODY) == alive
    assert told["defaultTtl"] == old
    assert told["restored"]["items"] == len(dying)
    assert told["alreadyPurged"] == 0
    assert shelf.definition().get("defaultTtl") == old
    assert version(shelf)[1] == lsn  # no item was written
    after = status(shelf)
    for name in ("live", "expiring", "nonExpiring", "pendingPurge", "nextExpiry"):
        assert after[name] == before[name]


def test_undo_tells_who_is_gone_for_good(shelves: Shelves) -> None:
    """Three die at once and are removed, one dies later and is still there."""
    shelf = crowd(shelves, 3)
    shelf.create("young")
    change(shelf, 30)
    assert shelf.drain() == 3
    shelf.clock.advance(30)
    assert shelf.seen("young") == set()
    told = undo(shelf)
    assert told["restored"]["items"] == 1
    assert told["alreadyPurged"] == 3
    assert shelf.seen("a0", "a1", "a2", "young") == {"young"}


@pytest.mark.parametrize("keeping", [{}, {"changeFeedPolicy": {"retentionDuration": 60}}])
def test_undo_tells_who_was_removed_by_requests(shelves: Shelves, keeping: dict[str, Any]) -> None:
    """T-305: an id that is taken anew, a partition that is cleared; but not for those whom their
    own lifetime had ended anyway."""
    shelf = shelves.make(-1, **keeping)
    for id_ in ("again", "over", "left"):
        shelf.create(id_)
    shelf.create("ended", 5)
    for id_ in ("x", "y"):
        shelf.create(id_, pk="q")
    shelf.create("z", 5, pk="q")
    shelf.clock.advance(10)
    change(shelf, 5)
    shelf.create("again")
    assert shelf.post(shelf.body("over"), upsert="true").status == 201
    shelf.create("ended")
    path = f"{shelf.path}/operations/partitionkeydelete"
    key = {"x-ms-documentdb-partitionkey": '["q"]'}
    assert shelf.raw.request("POST", path, headers=key).status == 200
    told = undo(shelf)
    assert (told["restored"]["items"], told["alreadyPurged"]) == (1, 4)


def test_undo_counts_items_expired_and_purged_after_the_change(shelves: Shelves) -> None:
    """Nobody dies in the second of the change; two do later because of it, and are removed."""
    shelf = shelves.make(1000)
    for id_ in ("a", "b"):
        shelf.create(id_)
    change(shelf, 10)
    shelf.clock.advance(10)
    assert shelf.drain() == 2
    told = undo(shelf)
    assert told["restored"]["items"] == 0
    assert told["alreadyPurged"] == 2


def test_undo_does_not_restore_items_expired_before_the_change(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("before")
    shelf.clock.advance(10)
    shelf.create("after")
    shelf.clock.advance(5)
    change(shelf, 5)
    assert shelf.seen("before", "after") == set()
    assert undo(shelf)["restored"]["items"] == 1
    assert shelf.seen("before", "after") == {"after"}
    shelf.clock.advance(5)
    assert shelf.seen("before", "after") == set()


def test_undo_needs_an_index(shelves: Shelves) -> None:
    """T-166: off together with the index; the default comes back only after the index has."""
    shelf = shelves.make(10)
    body = shelf.definition()
    del body["defaultTtl"]
    bare = body | {"indexingPolicy": {"indexingMode": "none", "automatic": False}}
    assert shelf.raw.put(shelf.path, bare).status == 200
    reply = shelf.raw.post(f"{shelf.admin}/undo", {})
    assert reply.status == 400
    assert "Indexing mode value cannot be 'none'" in reply.json["message"]
    assert "defaultTtl" not in shelf.definition()
    assert shelf.raw.put(shelf.path, body).status == 200
    undo(shelf)
    assert shelf.definition()["defaultTtl"] == 10


def test_undo_goes_one_step(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    change(shelf, 20)
    change(shelf, 30)
    assert undo(shelf)["defaultTtl"] == 20
    reply = shelf.raw.post(f"{shelf.admin}/undo", {})
    assert (reply.status, reply.json["code"]) == (409, "Conflict")
    assert shelf.definition()["defaultTtl"] == 20
    change(shelf, 40)
    assert undo(shelf)["defaultTtl"] == 20


def test_nothing_to_undo(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    change(shelf, 10)  # the same value is no change
    reply = shelf.raw.post(f"{shelf.admin}/undo", {})
    assert (reply.status, reply.json["code"]) == (409, "Conflict")


def test_undo_gives_the_container_a_new_etag(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    change(shelf, 20)
    changed = shelf.raw.get(shelf.path).json["_etag"]
    undo(shelf)
    assert shelf.raw.get(shelf.path).json["_etag"] != changed
    stale = shelf.raw.put(shelf.path, shelf.definition(), if_match=changed)
    assert stale.status == 412


def test_undo_survives_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"), 3)
        change(shelf, 30)
    with serving(settings, clock) as raw:
        again = replace(shelf, raw=raw)
        assert undo(again)["restored"]["items"] == 3
    with serving(settings, clock) as raw:
        again = replace(shelf, raw=raw)
        assert again.counted() == 3
        assert raw.post(f"{again.admin}/undo", {}).status == 409


def test_undo_before_the_change_is_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count comes after the answer. Until then nothing is removed, so the answer is 0."""

    async def scenario() -> Figures:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, -1) as (account, container):
            long_ago = int(clock.now()) - 100
            await stock(account, container, [Kept(f"a{n}", long_ago) for n in range(3)])
            gate = asyncio.Event()
            write = account.stores.metadata.change

            async def held_up(changes: Sequence[Any]) -> None:
                if any(isinstance(c, AuditEntry) and c.entry["event"] == "counts" for c in changes):
                    await gate.wait()
                await write(changes)

            monkeypatch.setattr(account.stores.metadata, "change", held_up)
            await set_default(account, 50)
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
    """The server dies before a change is counted: what the last one killed is not this one's."""
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"), 3)
        change(shelf, 30)  # counts three
        assert shelf.drain() == 3
        shelf.create("young")

    async def change_and_die() -> None:
        async with opened(settings, clock) as account:
            body = {**account.catalog.container("d", "c").properties, "defaultTtl": 40}
            await containers.replace(account, "d", "c", body, if_match=None, now=clock.now())
            for counting in account.background:
                counting.cancel()
            await asyncio.gather(*account.background, return_exceptions=True)

    asyncio.run(change_and_die())
    with serving(settings, clock) as raw:
        assert undo(replace(shelf, raw=raw))["alreadyPurged"] in (0, None)
