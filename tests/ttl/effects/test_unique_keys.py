"""Unique values of an expired item are free again."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.ttl_containers import MaybePurge, TtlContainer, TtlContainers
from tests.ttl.effects.mixed_containers import session_lsn, taken

UNIQUE: Final = {"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/first", "/last"]}]}


@pytest.fixture
def directory(containers: TtlContainers) -> TtlContainer:
    """People with unique addresses and unique names."""
    return containers.make(-1, uniqueKeyPolicy=UNIQUE)


def person(id_: str, email: str, last: str, ttl: int = -1) -> dict[str, Any]:
    return {"id": id_, "pk": "p", "email": email, "first": "Ada", "last": last, "ttl": ttl}


@pytest.mark.parametrize(
    "new",
    [
        person("new", "a@x", "other"),
        person("new", "b@x", "L"),
        person("new", "a@x", "L"),
        person("old", "a@x", "L"),
        person("old", "b@x", "other"),
    ],
    ids=["one value", "the other", "both", "all and the id", "only the id"],
)
@pytest.mark.parametrize("verb", ["create", "upsert", "replace"])
def test_expiry_frees_unique_values(
    directory: TtlContainer, maybe_purge: MaybePurge, verb: str, new: dict[str, Any]
) -> None:
    """T-087: the value of an expired item is free; a later purge does not free it again."""
    directory.post(person("old", "a@x", "L", 5))
    if verb == "replace":
        assert directory.post(person("bystander", "z@x", "Z")).status == 201
    directory.clock.advance(5)
    maybe_purge(directory)
    if verb == "replace":
        reply = directory.replace("bystander", new)
    else:
        reply = directory.post(new, **({"upsert": "true"} if verb == "upsert" else {}))
    assert reply.status == (200 if verb == "replace" else 201), reply
    for _ in range(2):
        again = person("again", new["email"], "unheard of")
        assert taken(directory.post(again))
        assert taken(directory.post(person("again", "unheard@of", new["last"])))
        assert directory.queried() == {new["id"]}
        directory.drain()


def test_until_expiry_unique_values_are_taken(directory: TtlContainer) -> None:
    assert directory.post(person("old", "a@x", "L", 5)).status == 201
    directory.clock.advance(4)
    assert taken(directory.post(person("new", "a@x", "M")))
    assert directory.read("old").status == 200
    directory.clock.advance(1)
    assert directory.post(person("new", "a@x", "M")).status == 201


def test_one_item_replaces_two_expired_owners(
    directory: TtlContainer, maybe_purge: MaybePurge
) -> None:
    """T-087: each of the new item's values was that of another expired item."""
    directory.post(person("one", "a@x", "K", 5))
    directory.post(person("two", "b@x", "L", 5))
    directory.clock.advance(5)
    maybe_purge(directory)
    assert directory.post(person("new", "a@x", "L")).status == 201
    assert directory.drain() == 0
    assert taken(directory.post(person("x", "a@x", "X")))
    assert directory.post(person("y", "b@x", "K")).status == 201


def test_a_refused_write_leaves_expired_items_alone(directory: TtlContainer) -> None:
    """T-087: one value is free, the other is not; nothing happens, not even a purge."""
    directory.post(person("expired", "a@x", "K", 5))
    directory.post(person("alive", "b@x", "L"))
    directory.clock.advance(5)
    before = session_lsn(directory)
    assert taken(directory.post(person("new", "a@x", "L")))
    assert directory.seen("expired", "alive", "new") == {"alive"}
    assert session_lsn(directory) == before
    assert directory.drain() == 1


def test_other_partitions_keep_their_values(
    directory: TtlContainer, maybe_purge: MaybePurge
) -> None:
    for pk, ttl in (("p", 5), ("q", -1)):
        body = person("a", "a@x", "L", ttl) | {"pk": pk}
        assert directory.post(body, pk=pk).status == 201
    directory.clock.advance(5)
    maybe_purge(directory)
    assert directory.post(person("b", "a@x", "L")).status == 201
    assert taken(directory.post(person("b", "a@x", "M") | {"pk": "q"}, pk="q"))
