"""T-086, T-139, T-181 to T-187: what the change feed says of expired items, and when."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import apsw
import pytest

from perseid.store.sqlite.files import DATABASE_FILE
from tests.support.change_feed import ALL_VERSIONS, LATEST, operations_of
from tests.support.purging import DatedItem, backlog, container_at, process, store_items
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainer, TtlContainers
from tests.support.waiting import until

KEPT: dict[str, Any] = {"changeFeedPolicy": {"retentionDuration": 60}}


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


def now(container: TtlContainer) -> str:
    return drain_feed(container.raw, container.path, ALL_VERSIONS, "*")[1]


def changes(container: TtlContainer, etag: str) -> list[Any]:
    return drain_feed(container.raw, container.path, ALL_VERSIONS, etag)[0]


def latest(container: TtlContainer, etag: str | None = None) -> list[str]:
    return [each["id"] for each in drain_feed(container.raw, container.path, LATEST, etag)[0]]


def with_expiry(changes: list[Any]) -> list[tuple[str, str, bool | None]]:
    """The operation and the id of each change, and whether it was an expiry."""
    flags = [change["metadata"].get("timeToLiveExpired") for change in changes]
    return [(*each, flag) for each, flag in zip(operations_of(changes), flags, strict=True)]


def test_latest_versions_lose_items_at_the_second_of_their_expiry(
    containers: TtlContainers,
) -> None:
    """T-086: purged or not, and without a record of the end."""
    container = containers.make(10)
    container.create("inherits")
    container.create("own", ttl=5)
    container.create("stays", ttl=-1)
    containers.clock.advance(4)
    assert latest(container) == ["inherits", "own", "stays"]
    containers.clock.advance(1)
    assert latest(container) == ["inherits", "stays"]
    containers.clock.advance(5)
    found, etag = drain_feed(container.raw, container.path, LATEST, None)
    assert [each["id"] for each in found] == ["stays"]
    assert container.drain() == 2
    assert latest(container) == ["stays"]
    assert latest(container, etag) == []


def test_a_position_at_an_expired_item_stays_valid(containers: TtlContainers) -> None:
    """T-085: pages go on after an item that has expired since, purged or not."""
    container = containers.make(-1)
    for number in range(6):
        container.create(f"i{number}", ttl=5 if number < 4 else -1)
    reply = container.raw.request(
        "GET", f"{container.path}/docs", headers=LATEST | {"x-ms-max-item-count": "2"}
    )
    etag = reply.headers["etag"]
    containers.clock.advance(5)
    assert latest(container, etag) == ["i4", "i5"]
    container.drain()
    assert latest(container, etag) == ["i4", "i5"]


def test_one_record_when_purged_and_not_when_expired(containers: TtlContainers) -> None:
    """T-181, T-182, T-183."""
    container = containers.make(10, **KEPT)
    etag = now(container)
    created = container.create("x")
    reply = container.replace("x", container.body("x", v=2))
    assert reply.status == 200
    containers.clock.advance(10)
    assert with_expiry(changes(container, etag)) == [("create", "x", None), ("replace", "x", None)]
    containers.clock.advance(7)
    assert container.drain() == 1
    assert container.drain() == 0
    first, second, gone = changes(container, etag)
    lsn = second["metadata"]["lsn"]
    assert first["metadata"]["crts"] == created["_ts"]
    assert gone == {
        "current": {},
        "metadata": {
            "operationType": "delete",
            "lsn": lsn + 1,
            "crts": containers.now,
            "previousImageLSN": lsn,
            "timeToLiveExpired": True,
            "id": "x",
            "partitionKey": {"pk": "p"},
        },
    }


def test_an_explicit_delete_is_distinguished(containers: TtlContainers) -> None:
    """T-182: and shows what was deleted, which an expiry does not."""
    container = containers.make(10, **KEPT)
    etag = now(container)
    stored = container.create("x")
    assert container.delete("x").status == 204
    gone = changes(container, etag)[-1]
    assert gone["metadata"]["timeToLiveExpired"] is False
    assert gone["previous"] == stored


@pytest.mark.parametrize("upsert", ["false", "true"])
def test_recreation_records_the_expiry_first(containers: TtlContainers, upsert: str) -> None:
    """T-139, T-184: whatever removes it, an item that was expired is logged as expired."""
    container = containers.make(-1, **KEPT)
    etag = now(container)
    container.create("x", ttl=5)
    containers.clock.advance(5)
    assert container.post(container.body("x"), upsert=upsert).status == 201
    found = changes(container, etag)
    assert with_expiry(found) == [
        ("create", "x", None),
        ("delete", "x", True),
        ("create", "x", None),
    ]
    assert found[1]["metadata"]["lsn"] == found[2]["metadata"]["lsn"]
    assert "previous" not in found[1]
    assert container.drain() == 0
    assert len(changes(container, etag)) == 3


def test_an_expired_owner_of_a_unique_value_is_recorded(containers: TtlContainers) -> None:
    """T-184: swept along by the item that takes its value, and only once."""
    unique: dict[str, Any] = {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/mark"]}]}}
    container = containers.make(-1, **KEPT, **unique)
    etag = now(container)
    container.create("old", ttl=5, mark="m")
    containers.clock.advance(5)
    container.create("new", mark="m")
    assert with_expiry(changes(container, etag))[1:] == [
        ("delete", "old", True),
        ("create", "new", None),
    ]
    assert container.drain() == 0
    assert len(changes(container, etag)) == 3


def test_a_purge_comes_after_the_writes_it_ends(containers: TtlContainers) -> None:
    """T-185: for each item create, replace, delete, in the order of its transactions."""
    container = containers.make(10, **KEPT)
    etag = now(container)
    for number in range(5):
        container.create(f"i{number}")
        container.replace(f"i{number}", container.body(f"i{number}", v=2))
    containers.clock.advance(10)
    assert container.drain() == 5
    found = changes(container, etag)
    assert [change["metadata"]["lsn"] for change in found] == sorted(
        change["metadata"]["lsn"] for change in found
    )
    for number in range(5):
        mine = [kind for kind, id_, _ in with_expiry(found) if id_ == f"i{number}"]
        assert mine == ["create", "replace", "delete"]


def test_soft_delete(containers: TtlContainers) -> None:
    """T-187: the flag is seen, then the item is gone."""
    container = containers.make(-1)
    container.create("x")
    etag = drain_feed(container.raw, container.path, LATEST, None)[1]
    container.replace("x", container.body("x", ttl=5, deleted=True))
    (seen,), etag = drain_feed(container.raw, container.path, LATEST, etag)
    assert seen["deleted"] is True
    containers.clock.advance(5)
    assert container.read("x").status == 404
    assert latest(container, etag) == []


def test_records_outlive_the_items_by_the_feeds_own_retention(containers: TtlContainers) -> None:
    """T-186: an hour, whatever the lifetimes are."""
    container = containers.make(10, **KEPT)
    start = now(container)
    container.create("x")
    containers.clock.advance(10)
    assert container.drain() == 1
    containers.clock.advance(3589)
    assert len(changes(container, start)) == 2
    containers.clock.advance(1)
    headers = ALL_VERSIONS | {"If-None-Match": start}
    reply = container.raw.request("GET", f"{container.path}/docs", headers=headers)
    assert reply.status == 400


@pytest.mark.only_on("sqlite", reason="looks into the file")
def test_the_sweeper_forgets_old_records(place: Place) -> None:
    clock = frozen_clock()
    settings = place.lasting(no_sweeper=True)
    with serving(settings, clock) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        container = TtlContainers(raw, clock, "/dbs/d").make(-1, **KEPT)
        for number in range(300):
            container.create(f"i{number}")
        middle = now(container)
        clock.advance(3000)
        container.create("young")
        clock.advance(600)
        assert container.drain() == 0
        assert with_expiry(changes(container, middle)) == [("create", "young", None)]
    db = apsw.Connection(str(settings.data / DATABASE_FILE))
    table = db.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'changes_[0-9]'").get
    assert db.execute(f"SELECT id FROM {table}").fetchall() == [("young",)]
    db.close()


# T-186: kill -9


@pytest.mark.slow
@pytest.mark.only_on("sqlite", reason="tests/postgres kills one of two")
def test_exactly_one_record_for_each_expiry_across_kills(place: Place) -> None:
    """Three times kill -9 in the middle of the purge; then the log and the items are counted."""
    expired = 4000
    clock = frozen_clock()
    start = int(clock.now())
    settings = place.lasting()

    async def load() -> None:
        async with container_at(settings, clock, 100, **KEPT) as (account, container):
            kept = [
                DatedItem(f"d{number:06}", start - 900_000 + number, None if number % 2 else 100)
                for number in range(expired)
            ]
            await store_items(account, container, kept)
            await store_items(account, container, [DatedItem("alive", start, 1_000_000)])

    asyncio.run(load())
    pace = ("--durability", "normal", "--sweep-pace", "1")
    with process(settings, *pace, "--no-sweeper") as server:
        headers = LATEST
        reply = server.raw.request("GET", "/dbs/d/colls/c/docs", headers=headers)
        etag = reply.headers["etag"]
        assert backlog(server.raw) == expired
    left = expired
    for _ in range(3):
        with process(settings, *pace) as server:
            before = left
            until(lambda server=server, before=before: backlog(server.raw) < before)  # type: ignore[misc]
            left = backlog(server.raw)
    assert left > 0, "the purge was over before the last kill; give it more to do"
    with process(settings, *pace) as server:
        until(lambda: backlog(server.raw) == 0)
        found, end = drain_feed(
            server.raw, "/dbs/d/colls/c", ALL_VERSIONS, etag, **{"x-ms-max-item-count": "1000"}
        )
        assert sorted(change["metadata"]["id"] for change in found) == [
            f"d{number:06}" for number in range(expired)
        ]
        assert all(change["metadata"]["timeToLiveExpired"] for change in found)
        assert drain_feed(server.raw, "/dbs/d/colls/c", ALL_VERSIONS, end)[0] == []
        assert server.stop(signal.SIGTERM)[0] == 0
    with process(settings, *pace) as server:
        again, _ = drain_feed(
            server.raw, "/dbs/d/colls/c", ALL_VERSIONS, etag, **{"x-ms-max-item-count": "1000"}
        )
        assert json.dumps(again) == json.dumps(found)


def test_an_import_happens_now_however_old_its_items(containers: TtlContainers) -> None:
    """Their age is their own: a record is kept for as long as any other from the import on."""
    container = containers.make(-1, **KEPT)
    start = now(container)
    path = container.admin.replace("/ttl/", "/import/")
    body = json.dumps(container.body("old")).encode()
    reply = container.raw.request("POST", path, body, raw_path=f"{path}?age=86400")
    assert reply.json["created"] == 1
    (record,) = changes(container, start)
    assert record["current"]["_ts"] == containers.now - 86400
    assert record["metadata"]["crts"] == containers.now
