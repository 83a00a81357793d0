"""T-086, T-139, T-181 to T-187: what the change feed says of the dead, and when."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import apsw
import pytest

from perseid.store.sqlite.files import DATABASE_FILE
from tests.support.purging import Kept, backlog, container_at, process, stock, until
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import Shelf, Shelves

KEPT: dict[str, Any] = {"changeFeedPolicy": {"retentionDuration": 60}}
LATEST = {"A-IM": "Incremental Feed"}
ALL = {"A-IM": "Full-Fidelity Feed", "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15"}


def drain_feed(
    raw: RawClient, path: str, mode: dict[str, str], etag: str | None, **more: str
) -> tuple[list[Any], str]:
    """Everything up to the 304, and its etag."""
    found: list[Any] = []
    while True:
        position = {} if etag is None else {"If-None-Match": etag}
        reply = raw.request("GET", f"{path}/docs", headers=mode | position | more)
        assert reply.status in (200, 304), reply
        etag = reply.headers["etag"]
        if reply.status == 304:
            return found, etag
        found += reply.json["Documents"]


def now(shelf: Shelf) -> str:
    return drain_feed(shelf.raw, shelf.path, ALL, "*")[1]


def changes(shelf: Shelf, etag: str) -> list[Any]:
    return drain_feed(shelf.raw, shelf.path, ALL, etag)[0]


def latest(shelf: Shelf, etag: str | None = None) -> list[str]:
    return [each["id"] for each in drain_feed(shelf.raw, shelf.path, LATEST, etag)[0]]


def told(found: list[Any]) -> list[tuple[str, str, bool | None]]:
    return [
        (
            change["metadata"]["operationType"],
            change["current"].get("id") or change["metadata"]["id"],
            change["metadata"].get("timeToLiveExpired"),
        )
        for change in found
    ]


def test_latest_versions_lose_items_at_the_second_of_their_expiry(shelves: Shelves) -> None:
    """T-086: purged or not, and without a record of the end."""
    shelf = shelves.make(10)
    shelf.create("inherits")
    shelf.create("own", ttl=5)
    shelf.create("stays", ttl=-1)
    shelves.clock.advance(4)
    assert latest(shelf) == ["inherits", "own", "stays"]
    shelves.clock.advance(1)
    assert latest(shelf) == ["inherits", "stays"]
    shelves.clock.advance(5)
    found, etag = drain_feed(shelf.raw, shelf.path, LATEST, None)
    assert [each["id"] for each in found] == ["stays"]
    assert shelf.drain() == 2
    assert latest(shelf) == ["stays"]
    assert latest(shelf, etag) == []


def test_a_position_at_an_expired_item_stays_valid(shelves: Shelves) -> None:
    """T-085: pages go on behind an item that has died since, purged or not."""
    shelf = shelves.make(-1)
    for number in range(6):
        shelf.create(f"i{number}", ttl=5 if number < 4 else -1)
    reply = shelf.raw.request(
        "GET", f"{shelf.path}/docs", headers=LATEST | {"x-ms-max-item-count": "2"}
    )
    etag = reply.headers["etag"]
    shelves.clock.advance(5)
    assert latest(shelf, etag) == ["i4", "i5"]
    shelf.drain()
    assert latest(shelf, etag) == ["i4", "i5"]


def test_one_record_when_purged_and_not_when_expired(shelves: Shelves) -> None:
    """T-181, T-182, T-183."""
    shelf = shelves.make(10, **KEPT)
    etag = now(shelf)
    created = shelf.create("x")
    reply = shelf.replace("x", shelf.body("x", v=2))
    assert reply.status == 200
    shelves.clock.advance(10)
    assert told(changes(shelf, etag)) == [("create", "x", None), ("replace", "x", None)]
    shelves.clock.advance(7)
    assert shelf.drain() == 1
    assert shelf.drain() == 0
    first, second, gone = changes(shelf, etag)
    lsn = second["metadata"]["lsn"]
    assert first["metadata"]["crts"] == created["_ts"]
    assert gone == {
        "current": {},
        "metadata": {
            "operationType": "delete",
            "lsn": lsn + 1,
            "crts": shelves.now,
            "previousImageLSN": lsn,
            "timeToLiveExpired": True,
            "id": "x",
            "partitionKey": {"pk": "p"},
        },
    }


def test_an_explicit_delete_is_distinguished(shelves: Shelves) -> None:
    """T-182: and shows what was deleted, which an expiry does not."""
    shelf = shelves.make(10, **KEPT)
    etag = now(shelf)
    stored = shelf.create("x")
    assert shelf.delete("x").status == 204
    gone = changes(shelf, etag)[-1]
    assert gone["metadata"]["timeToLiveExpired"] is False
    assert gone["previous"] == stored


@pytest.mark.parametrize("upsert", ["false", "true"])
def test_recreation_records_the_expiry_first(shelves: Shelves, upsert: str) -> None:
    """T-139, T-184: whoever removes it, an item that was dead has expired."""
    shelf = shelves.make(-1, **KEPT)
    etag = now(shelf)
    shelf.create("x", ttl=5)
    shelves.clock.advance(5)
    assert shelf.post(shelf.body("x"), upsert=upsert).status == 201
    found = changes(shelf, etag)
    assert told(found) == [("create", "x", None), ("delete", "x", True), ("create", "x", None)]
    assert found[1]["metadata"]["lsn"] == found[2]["metadata"]["lsn"]
    assert "previous" not in found[1]
    assert shelf.drain() == 0
    assert len(changes(shelf, etag)) == 3


def test_an_expired_owner_of_a_unique_value_is_recorded(shelves: Shelves) -> None:
    """T-184: swept along by the item that takes its value, and only once."""
    unique: dict[str, Any] = {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/mark"]}]}}
    shelf = shelves.make(-1, **KEPT, **unique)
    etag = now(shelf)
    shelf.create("old", ttl=5, mark="m")
    shelves.clock.advance(5)
    shelf.create("new", mark="m")
    assert told(changes(shelf, etag))[1:] == [("delete", "old", True), ("create", "new", None)]
    assert shelf.drain() == 0
    assert len(changes(shelf, etag)) == 3


def test_a_purge_comes_after_the_writes_it_ends(shelves: Shelves) -> None:
    """T-185: for each item create, replace, delete, in the order of its transactions."""
    shelf = shelves.make(10, **KEPT)
    etag = now(shelf)
    for number in range(5):
        shelf.create(f"i{number}")
        shelf.replace(f"i{number}", shelf.body(f"i{number}", v=2))
    shelves.clock.advance(10)
    assert shelf.drain() == 5
    found = changes(shelf, etag)
    assert [change["metadata"]["lsn"] for change in found] == sorted(
        change["metadata"]["lsn"] for change in found
    )
    for number in range(5):
        mine = [kind for kind, id_, _ in told(found) if id_ == f"i{number}"]
        assert mine == ["create", "replace", "delete"]


def test_soft_delete(shelves: Shelves) -> None:
    """T-187: the flag is seen, then the item is gone."""
    shelf = shelves.make(-1)
    shelf.create("x")
    etag = drain_feed(shelf.raw, shelf.path, LATEST, None)[1]
    shelf.replace("x", shelf.body("x", ttl=5, deleted=True))
    (seen,), etag = drain_feed(shelf.raw, shelf.path, LATEST, etag)
    assert seen["deleted"] is True
    shelves.clock.advance(5)
    assert shelf.read("x").status == 404
    assert latest(shelf, etag) == []


def test_records_outlive_the_items_by_the_feeds_own_retention(shelves: Shelves) -> None:
    """T-186: an hour, whatever the lifetimes are."""
    shelf = shelves.make(10, **KEPT)
    start = now(shelf)
    shelf.create("x")
    shelves.clock.advance(10)
    assert shelf.drain() == 1
    shelves.clock.advance(3589)
    assert len(changes(shelf, start)) == 2
    shelves.clock.advance(1)
    headers = ALL | {"If-None-Match": start}
    reply = shelf.raw.request("GET", f"{shelf.path}/docs", headers=headers)
    assert reply.status == 400


@pytest.mark.only_on("sqlite", reason="looks into the file")
def test_the_sweeper_forgets_old_records(place: Place) -> None:
    clock = frozen_clock()
    settings = place.lasting(no_sweeper=True)
    with serving(settings, clock) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        shelf = Shelves(raw, clock, "/dbs/d").make(-1, **KEPT)
        for number in range(300):
            shelf.create(f"i{number}")
        middle = now(shelf)
        clock.advance(3000)
        shelf.create("young")
        clock.advance(600)
        assert shelf.drain() == 0
        assert told(changes(shelf, middle)) == [("create", "young", None)]
    db = apsw.Connection(str(settings.data / DATABASE_FILE))
    table = db.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'changes_[0-9]'").get
    assert db.execute(f"SELECT id FROM {table}").fetchall() == [("young",)]
    db.close()


# T-186: kill -9


@pytest.mark.slow
@pytest.mark.only_on("sqlite", reason="tests/postgres kills one of two")
def test_exactly_one_record_for_each_expiry_across_kills(place: Place) -> None:
    """Three times kill -9 in the middle of the purge; then the log and the dead are counted."""
    dead = 4000
    clock = frozen_clock()
    start = int(clock.now())
    settings = place.lasting()

    async def load() -> None:
        async with container_at(settings, clock, 100, **KEPT) as (account, container):
            kept = [
                Kept(f"d{number:06}", start - 900_000 + number, None if number % 2 else 100)
                for number in range(dead)
            ]
            await stock(account, container, kept)
            await stock(account, container, [Kept("alive", start, 1_000_000)])

    asyncio.run(load())
    pace = ("--durability", "normal", "--sweep-pace", "1")
    with process(settings, *pace, "--no-sweeper") as server:
        headers = LATEST
        reply = server.raw.request("GET", "/dbs/d/colls/c/docs", headers=headers)
        etag = reply.headers["etag"]
        assert backlog(server.raw) == dead
    left = dead
    for _ in range(3):
        with process(settings, *pace) as server:
            before = left
            until(lambda server=server, before=before: backlog(server.raw) < before)  # type: ignore[misc]
            left = backlog(server.raw)
    assert left > 0, "the purge was over before the last kill; give it more to do"
    with process(settings, *pace) as server:
        until(lambda: backlog(server.raw) == 0)
        found, end = drain_feed(
            server.raw, "/dbs/d/colls/c", ALL, etag, **{"x-ms-max-item-count": "1000"}
        )
        assert sorted(change["metadata"]["id"] for change in found) == [
            f"d{number:06}" for number in range(dead)
        ]
        assert all(change["metadata"]["timeToLiveExpired"] for change in found)
        assert drain_feed(server.raw, "/dbs/d/colls/c", ALL, end)[0] == []
        assert server.stop(signal.SIGTERM)[0] == 0
    with process(settings, *pace) as server:
        again, _ = drain_feed(
            server.raw, "/dbs/d/colls/c", ALL, etag, **{"x-ms-max-item-count": "1000"}
        )
        assert json.dumps(again) == json.dumps(found)


def test_an_import_happens_now_however_old_its_items(shelves: Shelves) -> None:
    """Their age is their own: a record is kept for as long as any other from the import on."""
    shelf = shelves.make(-1, **KEPT)
    start = now(shelf)
    path = shelf.admin.replace("/ttl/", "/import/")
    body = json.dumps(shelf.body("old")).encode()
    reply = shelf.raw.request("POST", path, body, raw_path=f"{path}?age=86400")
    assert reply.json["created"] == 1
    (record,) = changes(shelf, start)
    assert record["current"]["_ts"] == shelves.now - 86400
    assert record["metadata"]["crts"] == shelves.now
