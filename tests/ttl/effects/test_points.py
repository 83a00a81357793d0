"""Point operations on an expired item (T-070 and after), and its id that is free again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.replies import charge
from tests.support.ttl_containers import Shelf, assert_gone
from tests.ttl.effects.stock import Bury, lsn, same

NEVER_WAS: Final = '"00000000-0000-0000-0000-000000000000"'

# Point operations -------------------------------------------------------------------------------

# Conditions that would decide something if the item existed; {etag} is the last one it had.
CONDITIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"if_match": "{etag}"},
    {"if_match": NEVER_WAS},
    {"if_match": "*"},
    {"if_none_match": "{etag}"},
    {"if_none_match": "*"},
    {"if_none_match": NEVER_WAS},
)
LOST: Final = ("read", "replace", "delete")


def perform(shelf: Shelf, verb: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
    """One of LOST on the item at `path`, whatever it is named by."""
    with_key = {"pk": '["p"]', **headers}
    if verb == "replace":
        return shelf.raw.put(path, body, **with_key)
    return (shelf.raw.get if verb == "read" else shelf.raw.delete)(path, **with_key)


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
@pytest.mark.parametrize("verb", LOST)
def test_nothing_finds_an_expired_item(
    shelf: Shelf, dead: dict[str, Any], verb: str, condition: dict[str, str]
) -> None:
    """T-070, T-071, T-072, T-074: the very answer for an id that never existed."""
    before = lsn(shelf)
    headers = {name: value.format(etag=dead["_etag"]) for name, value in condition.items()}
    replies = [
        perform(shelf, verb, f"{shelf.path}/docs/{id_}", shelf.body(id_), headers)
        for id_ in ("dead", "fresh")
    ]
    assert_gone(replies[0])
    assert same(replies[0]) == same(replies[1])
    assert shelf.seen("dead", "fresh", "alive") == {"alive"}
    assert lsn(shelf) == before


@pytest.mark.parametrize("verb", LOST)
@pytest.mark.parametrize("link", ["self", "rid"])
def test_nothing_finds_an_expired_item_by_rid(
    shelf: Shelf, dead: dict[str, Any], verb: str, link: str
) -> None:
    """T-070: `_self` names what `id` names."""
    path = f"/{dead['_self']}" if link == "self" else f"{shelf.path}/docs/{dead['_rid']}"
    assert_gone(perform(shelf, verb, path, shelf.body("dead"), {}))
    assert shelf.seen("dead", "alive") == {"alive"}


def test_a_live_item_is_found_by_rid(shelf: Shelf) -> None:
    """Without which the test above would prove nothing."""
    stored = shelf.create("a", 5)
    for path in (f"/{stored['_self']}", f"{shelf.path}/docs/{stored['_rid']}"):
        for verb, status in (("read", 200), ("replace", 200)):
            assert perform(shelf, verb, path, shelf.body("a", 5), {}).status == status
    assert perform(shelf, "delete", f"/{stored['_self']}", None, {}).status == 204


@pytest.mark.parametrize(("verb", "status"), [("read", 200), ("replace", 200), ("delete", 204)])
def test_an_expired_id_hides_no_other_item(
    shelf: Shelf, bury: Bury, verb: str, status: int
) -> None:
    """An id may look like the rid of another item; once it is dead, the rid names that item."""
    other = shelf.create("other")
    shelf.create(other["_rid"], 5)
    shelf.clock.advance(5)
    bury(shelf)
    path = f"{shelf.path}/docs/{other['_rid']}"
    reply = perform(shelf, verb, path, shelf.body("other"), {})
    assert reply.status == status, reply
    assert verb != "read" or reply.json["id"] == "other"


@pytest.mark.parametrize("consistency", ["Session", "ConsistentPrefix", "Eventual"])
def test_no_consistency_level_brings_it_back(
    shelf: Shelf, dead: dict[str, Any], consistency: str
) -> None:
    assert_gone(shelf.read("dead", x_ms_consistency_level=consistency))


# The id is free again ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"upsert": "true"},
        {"upsert": "true", "if_match": "{etag}"},
        {"upsert": "true", "if_match": NEVER_WAS},
        {"upsert": "true", "if_match": "*"},
    ],
    ids=str,
)
def test_the_id_is_free(shelf: Shelf, dead: dict[str, Any], headers: dict[str, str]) -> None:
    """T-075, T-076, T-077: an insert of a new item that only shares the name."""
    headers = {name: value.format(etag=dead["_etag"]) for name, value in headers.items()}
    before = lsn(shelf)
    reply = shelf.post(shelf.body("dead", 7, note="new"), **headers)
    assert reply.status == 201, reply
    new = reply.json
    assert new["_rid"] != dead["_rid"]
    assert new["_self"] != dead["_self"]
    assert new["_etag"] != dead["_etag"]
    assert (new["_ts"], new["note"], new["ttl"]) == (int(shelf.clock.now()), "new", 7)
    assert lsn(shelf) == before + 1
    assert shelf.read("dead").json == new
    # The old version is gone for good, by whatever name.
    assert_gone(shelf.read(dead["_rid"]))
    assert shelf.replace("dead", shelf.body("dead"), if_match=dead["_etag"]).status == 412
    assert shelf.drain() == 0
    shelf.clock.advance(6)
    assert shelf.seen("dead", "alive") == {"dead", "alive"}
    shelf.clock.advance(1)
    assert shelf.seen("dead", "alive") == {"alive"}


def test_an_insert_over_an_expired_item_answers_like_any_other(
    shelf: Shelf, dead: dict[str, Any]
) -> None:
    """T-156: neither its cost nor its headers tell that somebody died here."""
    taken, fresh = (shelf.post(shelf.body(id_)) for id_ in ("dead", "next"))
    assert (taken.status, fresh.status) == (201, 201)
    assert charge(taken) == charge(fresh)
    assert set(taken.headers) == set(fresh.headers)


def test_an_upsert_of_a_live_item_is_a_replace(shelf: Shelf) -> None:
    """T-076: until the boundary second, `200` and the same `_rid`; in it, `201`."""
    first = shelf.create("a", 5)
    shelf.clock.advance(4)
    second = shelf.post(shelf.body("a", 5), upsert="true")
    assert (second.status, second.json["_rid"]) == (200, first["_rid"])
    assert shelf.post(shelf.body("a", 5), upsert="true", if_match=first["_etag"]).status == 412
    shelf.clock.advance(5)
    third = shelf.post(shelf.body("a", 5), upsert="true", if_match=first["_etag"])
    assert third.status == 201
    assert third.json["_rid"] != first["_rid"]


def test_a_create_of_a_live_item_conflicts(shelf: Shelf) -> None:
    shelf.create("a", 5)
    shelf.clock.advance(4)
    assert shelf.post(shelf.body("a", 5)).status == 409
    shelf.clock.advance(1)
    assert shelf.post(shelf.body("a", 5)).status == 201


def test_one_of_many_creates_gets_an_expired_id(
    shelf: Shelf, dead: dict[str, Any], endpoint: str, key: str
) -> None:
    """T-075: to the others it is an id in use."""

    def create(number: int) -> Reply:
        with closing(RawClient(endpoint, key)) as raw:
            return Shelf(raw, shelf.clock, shelf.path).post(shelf.body("dead", n=number))

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(create, range(6)))
    assert sorted(reply.status for reply in replies) == [201, *[409] * 5]
    (winner,) = (reply for reply in replies if reply.status == 201)
    assert shelf.read("dead").json == winner.json
    assert shelf.drain() == 0


def test_an_item_may_take_the_id_of_an_expired_one(shelf: Shelf, dead: dict[str, Any]) -> None:
    """A replace that carries another id needs that id to be free."""
    reply = shelf.replace("alive", shelf.body("dead"))
    assert reply.status == 200, reply
    assert reply.json["_rid"] != dead["_rid"]
    assert shelf.seen("dead", "alive") == {"dead"}
    assert shelf.drain() == 0


def test_partitions_expire_independently(shelf: Shelf, bury: Bury) -> None:
    shelf.create("a", 5, pk="p")
    shelf.create("a", pk="q")
    shelf.clock.advance(5)
    bury(shelf)
    assert_gone(shelf.read("a", pk="p"))
    assert shelf.read("a", pk="q").status == 200
