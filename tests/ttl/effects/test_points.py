"""Point operations on an expired item (T-070 and after), and its id that is free again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.replies import charge
from tests.support.ttl_containers import MaybePurge, TtlContainer, assert_gone
from tests.ttl.effects.mixed_containers import same, session_lsn

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


def perform(
    container: TtlContainer, verb: str, path: str, body: Any, headers: dict[str, str]
) -> Reply:
    """One of LOST on the item at `path`, whatever it is named by."""
    with_key = {"pk": '["p"]', **headers}
    if verb == "replace":
        return container.raw.put(path, body, **with_key)
    return (container.raw.get if verb == "read" else container.raw.delete)(path, **with_key)


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
@pytest.mark.parametrize("verb", LOST)
def test_nothing_finds_an_expired_item(
    container: TtlContainer, expired: dict[str, Any], verb: str, condition: dict[str, str]
) -> None:
    """T-070, T-071, T-072, T-074: the very answer for an id that never existed."""
    before = session_lsn(container)
    headers = {name: value.format(etag=expired["_etag"]) for name, value in condition.items()}
    replies = [
        perform(container, verb, f"{container.path}/docs/{id_}", container.body(id_), headers)
        for id_ in ("expired", "fresh")
    ]
    assert_gone(replies[0])
    assert same(replies[0]) == same(replies[1])
    assert container.seen("expired", "fresh", "alive") == {"alive"}
    assert session_lsn(container) == before


@pytest.mark.parametrize("verb", LOST)
@pytest.mark.parametrize("link", ["self", "rid"])
def test_nothing_finds_an_expired_item_by_rid(
    container: TtlContainer, expired: dict[str, Any], verb: str, link: str
) -> None:
    """T-070: `_self` names what `id` names."""
    path = f"/{expired['_self']}" if link == "self" else f"{container.path}/docs/{expired['_rid']}"
    assert_gone(perform(container, verb, path, container.body("expired"), {}))
    assert container.seen("expired", "alive") == {"alive"}


def test_a_live_item_is_found_by_rid(container: TtlContainer) -> None:
    """Without which the test above would prove nothing."""
    stored = container.create("a", 5)
    for path in (f"/{stored['_self']}", f"{container.path}/docs/{stored['_rid']}"):
        for verb, status in (("read", 200), ("replace", 200)):
            assert perform(container, verb, path, container.body("a", 5), {}).status == status
    assert perform(container, "delete", f"/{stored['_self']}", None, {}).status == 204


@pytest.mark.parametrize(("verb", "status"), [("read", 200), ("replace", 200), ("delete", 204)])
def test_an_expired_id_hides_no_other_item(
    container: TtlContainer, maybe_purge: MaybePurge, verb: str, status: int
) -> None:
    """An id may look like the rid of another item; once it is expired, the rid names that item."""
    other = container.create("other")
    container.create(other["_rid"], 5)
    container.clock.advance(5)
    maybe_purge(container)
    path = f"{container.path}/docs/{other['_rid']}"
    reply = perform(container, verb, path, container.body("other"), {})
    assert reply.status == status, reply
    assert verb != "read" or reply.json["id"] == "other"


@pytest.mark.parametrize("consistency", ["Session", "ConsistentPrefix", "Eventual"])
def test_no_consistency_level_brings_it_back(
    container: TtlContainer, expired: dict[str, Any], consistency: str
) -> None:
    assert_gone(container.read("expired", x_ms_consistency_level=consistency))


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
def test_the_id_is_free(
    container: TtlContainer, expired: dict[str, Any], headers: dict[str, str]
) -> None:
    """T-075, T-076, T-077: an insert of a new item that only shares the name."""
    headers = {name: value.format(etag=expired["_etag"]) for name, value in headers.items()}
    before = session_lsn(container)
    reply = container.post(container.body("expired", 7, note="new"), **headers)
    assert reply.status == 201, reply
    new = reply.json
    assert new["_rid"] != expired["_rid"]
    assert new["_self"] != expired["_self"]
    assert new["_etag"] != expired["_etag"]
    assert (new["_ts"], new["note"], new["ttl"]) == (int(container.clock.now()), "new", 7)
    assert session_lsn(container) == before + 1
    assert container.read("expired").json == new
    # The old version is gone for good, by whatever name.
    assert_gone(container.read(expired["_rid"]))
    assert (
        container.replace("expired", container.body("expired"), if_match=expired["_etag"]).status
        == 412
    )
    assert container.drain() == 0
    container.clock.advance(6)
    assert container.seen("expired", "alive") == {"expired", "alive"}
    container.clock.advance(1)
    assert container.seen("expired", "alive") == {"alive"}


def test_an_insert_over_an_expired_item_answers_like_any_other(
    container: TtlContainer, expired: dict[str, Any]
) -> None:
    """T-156: neither its charge nor its headers show that an item expired here."""
    taken, fresh = (container.post(container.body(id_)) for id_ in ("expired", "next"))
    assert (taken.status, fresh.status) == (201, 201)
    assert charge(taken) == charge(fresh)
    assert set(taken.headers) == set(fresh.headers)


def test_an_upsert_of_a_live_item_is_a_replace(container: TtlContainer) -> None:
    """T-076: until the boundary second, `200` and the same `_rid`; in it, `201`."""
    first = container.create("a", 5)
    container.clock.advance(4)
    second = container.post(container.body("a", 5), upsert="true")
    assert (second.status, second.json["_rid"]) == (200, first["_rid"])
    assert (
        container.post(container.body("a", 5), upsert="true", if_match=first["_etag"]).status == 412
    )
    container.clock.advance(5)
    third = container.post(container.body("a", 5), upsert="true", if_match=first["_etag"])
    assert third.status == 201
    assert third.json["_rid"] != first["_rid"]


def test_a_create_of_a_live_item_conflicts(container: TtlContainer) -> None:
    container.create("a", 5)
    container.clock.advance(4)
    assert container.post(container.body("a", 5)).status == 409
    container.clock.advance(1)
    assert container.post(container.body("a", 5)).status == 201


def test_one_of_many_creates_gets_an_expired_id(
    container: TtlContainer, expired: dict[str, Any], endpoint: str, key: str
) -> None:
    """T-075: to the others it is an id in use."""

    def create(number: int) -> Reply:
        with closing(RawClient(endpoint, key)) as raw:
            return TtlContainer(raw, container.clock, container.path).post(
                container.body("expired", n=number)
            )

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(create, range(6)))
    assert sorted(reply.status for reply in replies) == [201, *[409] * 5]
    (winner,) = (reply for reply in replies if reply.status == 201)
    assert container.read("expired").json == winner.json
    assert container.drain() == 0


def test_an_item_may_take_the_id_of_an_expired_one(
    container: TtlContainer, expired: dict[str, Any]
) -> None:
    """A replace that carries another id needs that id to be free."""
    reply = container.replace("alive", container.body("expired"))
    assert reply.status == 200, reply
    assert reply.json["_rid"] != expired["_rid"]
    assert container.seen("expired", "alive") == {"expired"}
    assert container.drain() == 0


def test_partitions_expire_independently(container: TtlContainer, maybe_purge: MaybePurge) -> None:
    container.create("a", 5, pk="p")
    container.create("a", pk="q")
    container.clock.advance(5)
    maybe_purge(container)
    assert_gone(container.read("a", pk="p"))
    assert container.read("a", pk="q").status == 200
