"""Expired items, whole partitions and tokens (T-090 to T-092, T-097, T-184)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.change_feed import LATEST
from tests.support.ttl_containers import (
    ABSENT,
    MaybePurge,
    TtlContainer,
    TtlContainers,
    assert_gone,
)

PK = {"x-ms-documentdb-partitionkey": '["p"]'}


def purged(container: TtlContainer) -> int:
    """How many expired items of the container were ever purged."""
    removed: int = container.raw.get(container.admin).json["purgedTotal"]
    return removed


def token_for(container: TtlContainer, resource: str) -> str:
    database = container.path.rpartition("/colls/")[0]
    container.raw.post(f"{database}/users", {"id": "u"})
    body = {"id": "p", "permissionMode": "All", "resource": resource}
    reply = container.raw.post(f"{database}/users/u/permissions", body, upsert="true")
    assert reply.status in (200, 201), reply
    token: str = reply.json["_token"]
    return token


def test_delete_by_partition_key_with_expired_items_in_it(
    container: TtlContainer, maybe_purge: MaybePurge
) -> None:
    """T-092: it succeeds, sweeps them along, and they cost nothing."""
    container.create("expired", 5)
    alive = container.create("alive")
    container.create("other", 5, pk="q")
    container.clock.advance(5)
    maybe_purge(container)
    alone = container.create("alive", pk="r")
    price = container.delete("alive", pk="r").headers["x-ms-request-charge"]
    assert len(alone) == len(alive)
    reply = container.clear_partition()
    assert (reply.status, reply.headers["x-ms-request-charge"]) == (200, price)
    assert container.seen("expired", "alive") == set()
    # It was expired when it was removed, by whatever request (T-184): it counts once.
    container.raw.post(f"{container.admin}/drain", {})
    assert purged(container) == 2
    assert container.post(container.body("expired")).status == 201


def test_delete_by_partition_key_with_only_expired_items(container: TtlContainer) -> None:
    """T-092: it removes them, which moves the LSN as a purge does; after that there is nothing."""
    container.create("expired", 5)
    container.clock.advance(5)
    before = int(container.raw.get(f"{container.path}/docs").headers["lsn"])
    first, second = container.clear_partition(), container.clear_partition()
    assert (first.status, int(first.headers["lsn"])) == (200, before + 1)
    assert first.headers["x-ms-request-charge"] == "1"
    assert (second.status, int(second.headers["lsn"])) == (200, before + 1)
    assert purged(container) == 1


def test_what_was_deleted_by_partition_key_does_not_come_back(containers: TtlContainers) -> None:
    """Not even expired items, which the undo of a policy change would otherwise restore."""
    container = containers.make(5)
    container.create("expired")
    container.clock.advance(5)
    assert container.clear_partition().status == 200
    container.set_default(1000)
    assert container.seen("expired") == set()


def test_tokens_for_an_expired_item(container: TtlContainer, maybe_purge: MaybePurge) -> None:
    """T-097: they are still valid, but their item is not there."""
    stored = container.create("expired", 5)
    container.create("alive")
    item = f"{container.path}/docs/expired"
    alive = container.raw.request("GET", item, headers=PK, token=token_for(container, item))
    assert alive.status == 200
    container.clock.advance(5)
    maybe_purge(container)
    for resource, path in ((item, item), (stored["_self"], f"/{stored['_self']}")):
        token = token_for(container, resource)
        for method, body in (("GET", None), ("PUT", container.body("expired")), ("DELETE", None)):
            assert_gone(container.raw.request(method, path, body, PK, token=token))
        other = container.raw.request(
            "GET", f"{container.path}/docs/alive", headers=PK, token=token
        )
        assert other.status == 403


def test_tokens_expire_by_the_clock_that_expires_items(container: TtlContainer) -> None:
    """T-300: the movable clock drives both."""
    container.create("item", 3600)
    token = token_for(container, f"{container.path}/docs/item")
    path = f"{container.path}/docs/item"
    container.clock.advance(3599)
    assert container.raw.request("GET", path, headers=PK, token=token).status == 200
    container.clock.advance(1)
    assert container.raw.request("GET", path, headers=PK, token=token).status == 401
    assert_gone(container.read("item"))


def test_expiry_and_purge_run_no_scripts(container: TtlContainer) -> None:
    """T-091: and a write to an expired item that names a trigger changes nothing (T-090)."""
    trigger = {
        "id": "t",
        "body": "function () { throw new Error(); }",
        "triggerType": "Post",
        "triggerOperation": "All",
    }
    assert container.raw.post(f"{container.path}/triggers", trigger).status == 201
    container.create("expired", 5)
    container.clock.advance(5)
    headers = PK | {"x-ms-documentdb-post-trigger-include": "t"}
    for method, body in (("PUT", container.body("expired")), ("DELETE", None)):
        reply = container.raw.request(method, f"{container.path}/docs/expired", body, headers)
        assert reply.status == 400
    assert container.raw.post(f"{container.admin}/drain", {}).json["purged"] == 1
    assert container.seen("expired") == set()


VERSIONS = {"A-IM": "Full-Fidelity Feed"}


def follow(
    container: TtlContainer, mode: dict[str, str], etag: str | None
) -> tuple[list[Any], str]:
    """All changes behind an etag, and the etag of their end."""
    found: list[Any] = []
    while True:
        sent = mode if etag is None else mode | {"If-None-Match": etag}
        reply = container.raw.request("GET", f"{container.path}/docs", headers=sent)
        etag = reply.headers["etag"]
        if reply.status == 304:
            return found, etag
        assert reply.status == 200, reply
        found += reply.json["Documents"]


@pytest.mark.parametrize("count", [3, 150])
def test_delete_by_partition_key_in_the_change_feed(containers: TtlContainers, count: int) -> None:
    """T-184: gone from the latest versions at once, a delete for each in all versions; those who
    were expired by then had expired. Many are logged in steps, so that they fit on pages."""
    container = containers.make(-1, changeFeedPolicy={"retentionDuration": 60})
    _, start = follow(container, VERSIONS, "*")
    for number in range(count):
        container.create(f"{number}", 5 if number < 2 else ABSENT)
    container.create("kept", pk="q")
    container.clock.advance(5)
    assert container.clear_partition().status == 200
    latest, _ = follow(container, LATEST, None)
    assert [each["id"] for each in latest] == ["kept"]
    container.create("2")  # at once, whether the old one is still on its way out or not
    container.raw.post("/_perseid/ttl/drain", {})
    latest, _ = follow(container, LATEST, None)
    assert [each["id"] for each in latest] == ["kept", "2"]
    changes, _ = follow(container, VERSIONS, start)
    history: dict[str, list[tuple[str, bool]]] = {}
    for change in changes:
        metadata = change["metadata"]
        name = change["current"].get("id") or metadata["id"]
        key = (metadata["operationType"], metadata.get("timeToLiveExpired", False))
        history.setdefault(name, []).append(key)
        if key == ("delete", False):
            assert change["previous"]["id"] == name
    once = [("create", False), ("delete", False)]
    expected = {f"{number}": once for number in range(3, count)}
    expected |= {f"{number}": [("create", False), ("delete", True)] for number in range(2)}
    expected |= {"2": [*once, ("create", False)], "kept": [("create", False)]}
    assert history == expected
    lsns = [change["metadata"]["lsn"] for change in changes]
    assert lsns == sorted(lsns)
    assert max(map(lsns.count, lsns)) <= 101
