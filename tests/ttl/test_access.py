"""Dead items, whole partitions and tokens (T-090 to T-092, T-097, T-184)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.raw import Reply
from tests.support.ttl_containers import ABSENT, Shelf, Shelves, assert_gone

Bury = Callable[[Shelf], None]
PK = {"x-ms-documentdb-partitionkey": '["p"]'}


@pytest.fixture(params=["unpurged", "purged"])
def bury(request: pytest.FixtureRequest) -> Bury:
    """Called when items have died: leaves them where they are, or removes them."""

    def remove(shelf: Shelf) -> None:
        assert shelf.raw.post(f"{shelf.admin}/drain", {}).status == 200

    return remove if request.param == "purged" else lambda _: None


@pytest.fixture
def shelf(shelves: Shelves) -> Shelf:
    """Lifetimes are the items' own."""
    return shelves.make(-1)


def clear(shelf: Shelf, pk: str = "p") -> Reply:
    path = f"{shelf.path}/operations/partitionkeydelete"
    return shelf.raw.request("POST", path, headers={next(iter(PK)): f'["{pk}"]'})


def purged(shelf: Shelf) -> int:
    """How many items of the container were ever removed for being dead."""
    removed: int = shelf.raw.get(shelf.admin).json["purgedTotal"]
    return removed


def token_for(shelf: Shelf, resource: str) -> str:
    database = shelf.path.rpartition("/colls/")[0]
    shelf.raw.post(f"{database}/users", {"id": "u"})
    body = {"id": "p", "permissionMode": "All", "resource": resource}
    reply = shelf.raw.post(f"{database}/users/u/permissions", body, upsert="true")
    assert reply.status in (200, 201), reply
    token: str = reply.json["_token"]
    return token


def test_delete_by_partition_key_with_expired_items_in_it(shelf: Shelf, bury: Bury) -> None:
    """T-092: it succeeds, sweeps them along, and they cost nothing."""
    shelf.create("dead", 5)
    alive = shelf.create("alive")
    shelf.create("other", 5, pk="q")
    shelf.clock.advance(5)
    bury(shelf)
    alone = shelf.create("alive", pk="r")
    price = shelf.delete("alive", pk="r").headers["x-ms-request-charge"]
    assert len(alone) == len(alive)
    reply = clear(shelf)
    assert (reply.status, reply.headers["x-ms-request-charge"]) == (200, price)
    assert shelf.seen("dead", "alive") == set()
    # Whoever removed it, it was dead by then (T-184): once counted, and not again.
    shelf.raw.post(f"{shelf.admin}/drain", {})
    assert purged(shelf) == 2
    assert shelf.post(shelf.body("dead")).status == 201


def test_delete_by_partition_key_with_only_expired_items(shelf: Shelf) -> None:
    """T-092: it removes them, which moves the LSN as a purge does; after that there is nothing."""
    shelf.create("dead", 5)
    shelf.clock.advance(5)
    before = int(shelf.raw.get(f"{shelf.path}/docs").headers["lsn"])
    first, second = clear(shelf), clear(shelf)
    assert (first.status, int(first.headers["lsn"])) == (200, before + 1)
    assert first.headers["x-ms-request-charge"] == "1"
    assert (second.status, int(second.headers["lsn"])) == (200, before + 1)
    assert purged(shelf) == 1


def test_what_was_deleted_by_partition_key_does_not_come_back(shelves: Shelves) -> None:
    """Not even the dead, which a change of policy that is undone would otherwise bring back."""
    shelf = shelves.make(5)
    shelf.create("dead")
    shelf.clock.advance(5)
    assert clear(shelf).status == 200
    shelf.set_default(1000)
    assert shelf.seen("dead") == set()


def test_tokens_for_an_expired_item(shelf: Shelf, bury: Bury) -> None:
    """T-097: they still open the door, but there is nobody behind it."""
    stored = shelf.create("dead", 5)
    shelf.create("alive")
    item = f"{shelf.path}/docs/dead"
    alive = shelf.raw.request("GET", item, headers=PK, token=token_for(shelf, item))
    assert alive.status == 200
    shelf.clock.advance(5)
    bury(shelf)
    for resource, path in ((item, item), (stored["_self"], f"/{stored['_self']}")):
        token = token_for(shelf, resource)
        for method, body in (("GET", None), ("PUT", shelf.body("dead")), ("DELETE", None)):
            assert_gone(shelf.raw.request(method, path, body, PK, token=token))
        other = shelf.raw.request("GET", f"{shelf.path}/docs/alive", headers=PK, token=token)
        assert other.status == 403


def test_tokens_expire_by_the_clock_that_expires_items(shelf: Shelf) -> None:
    """T-300: the movable clock drives both."""
    shelf.create("item", 3600)
    token = token_for(shelf, f"{shelf.path}/docs/item")
    path = f"{shelf.path}/docs/item"
    shelf.clock.advance(3599)
    assert shelf.raw.request("GET", path, headers=PK, token=token).status == 200
    shelf.clock.advance(1)
    assert shelf.raw.request("GET", path, headers=PK, token=token).status == 401
    assert_gone(shelf.read("item"))


def test_expiry_and_purge_run_no_scripts(shelf: Shelf) -> None:
    """T-091: and a write to a dead item that names a trigger changes nothing (T-090)."""
    trigger = {
        "id": "t",
        "body": "function () { throw new Error(); }",
        "triggerType": "Post",
        "triggerOperation": "All",
    }
    assert shelf.raw.post(f"{shelf.path}/triggers", trigger).status == 201
    shelf.create("dead", 5)
    shelf.clock.advance(5)
    headers = PK | {"x-ms-documentdb-post-trigger-include": "t"}
    for method, body in (("PUT", shelf.body("dead")), ("DELETE", None)):
        reply = shelf.raw.request(method, f"{shelf.path}/docs/dead", body, headers)
        assert reply.status == 400
    assert shelf.raw.post(f"{shelf.admin}/drain", {}).json["purged"] == 1
    assert shelf.seen("dead") == set()


LATEST = {"A-IM": "Incremental Feed"}
VERSIONS = {"A-IM": "Full-Fidelity Feed"}


def follow(shelf: Shelf, mode: dict[str, str], etag: str | None) -> tuple[list[Any], str]:
    """All changes behind an etag, and the etag of their end."""
    found: list[Any] = []
    while True:
        sent = mode if etag is None else mode | {"If-None-Match": etag}
        reply = shelf.raw.request("GET", f"{shelf.path}/docs", headers=sent)
        etag = reply.headers["etag"]
        if reply.status == 304:
            return found, etag
        assert reply.status == 200, reply
        found += reply.json["Documents"]


@pytest.mark.parametrize("count", [3, 150])
def test_delete_by_partition_key_in_the_change_feed(shelves: Shelves, count: int) -> None:
    """T-184: gone from the latest versions at once, a delete for each in all versions; those who
    were dead by then had expired. Many are told in steps, so that they fit on pages."""
    shelf = shelves.make(-1, changeFeedPolicy={"retentionDuration": 60})
    _, start = follow(shelf, VERSIONS, "*")
    for number in range(count):
        shelf.create(f"{number}", 5 if number < 2 else ABSENT)
    shelf.create("kept", pk="q")
    shelf.clock.advance(5)
    assert clear(shelf).status == 200
    latest, _ = follow(shelf, LATEST, None)
    assert [each["id"] for each in latest] == ["kept"]
    shelf.create("2")  # at once, whether the old one is still on its way out or not
    shelf.raw.post("/_perseid/ttl/drain", {})
    latest, _ = follow(shelf, LATEST, None)
    assert [each["id"] for each in latest] == ["kept", "2"]
    changes, _ = follow(shelf, VERSIONS, start)
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
