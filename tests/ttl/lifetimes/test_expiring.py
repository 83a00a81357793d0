"""The list of expiring items, soonest first, compared with what then happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.builders import create_container
from tests.support.ttl_containers import TtlContainer, TtlContainers
from tests.ttl.lifetimes.admin import EVERYBODY, HISTORIES, Figures, ask, body_of, family, status


def read_page(container: TtlContainer, count: int, continuation: str | None = None) -> Figures:
    token = f"&continuation={quote(continuation, safe='')}" if continuation else ""
    return body_of(ask(container, f"expiring?count={count}{token}"))


def read_all(container: TtlContainer, count: int) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    continuation = None
    while True:
        page = read_page(container, count, continuation)
        assert len(page["items"]) <= count
        listed += page["items"]
        continuation = page["continuation"]
        if continuation is None:
            return listed


def ids(listed: list[dict[str, Any]]) -> list[str]:
    return [each["item"]["id"] for each in listed]


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_the_list_comes_true(
    containers: TtlContainers, history: Callable[[TtlContainer], None], count: int
) -> None:
    """Each item is there until the second of its entry and gone in it, in the order of the list."""
    container = containers.make(100)
    history(container)
    listed = read_all(container, count)
    assert len(listed) == status(container)["expiring"]["items"]
    seconds = [each["expiresAt"] for each in listed]
    assert seconds == sorted(seconds)
    live = container.queried()
    assert set(ids(listed)) <= live
    for second in dict.fromkeys(seconds):
        containers.clock.set(second - 1)
        assert container.queried() == live
        containers.clock.set(second)
        live -= {each["item"]["id"] for each in listed if each["expiresAt"] == second}
        assert container.queried() == live
    assert read_all(container, count) == []


@pytest.mark.parametrize("default_ttl", [None, -1, 100, 1000])
def test_the_nine_combinations(containers: TtlContainers, default_ttl: int | None) -> None:
    container = family(containers, default_ttl)
    start = containers.now - 60
    inheriting = {"i0": 0, "x0": 0, "i1": 40}
    own = {"o1": 40 + 500}  # o0 has expired
    sources = dict.fromkeys(inheriting, "container") | dict.fromkeys(own, "item")
    expected = {} if default_ttl is None else {id_: start + ttl for id_, ttl in own.items()}
    if default_ttl is not None and default_ttl > 0:
        expected |= {id_: start + written + default_ttl for id_, written in inheriting.items()}
    listed = read_all(container, 2)
    assert {each["item"]["id"]: each["expiresAt"] for each in listed} == expected
    assert all(each["ttlSource"] == sources[each["item"]["id"]] for each in listed)
    assert set(expected) <= EVERYBODY


@pytest.mark.parametrize("throughput", ["400", "30000"])
def test_pages_of_items_that_expire_in_the_same_second(
    containers: TtlContainers, throughput: str
) -> None:
    """In one range and in several, by the default and by their own ttl, of different sizes."""
    path = create_container(
        containers.raw,
        containers.database,
        "many",
        headers={"throughput": throughput},
        defaultTtl=50,
    )
    container = TtlContainer(containers.raw, containers.clock, path)
    for number in range(24):
        ttl = {"ttl": 50} if number % 3 == 0 else {}
        container.create(f"i{number}", pk=f"p{number}", text="x" * (number % 4), **ttl)
    for count in (1, 5, 24):
        listed = ids(read_all(container, count))
        assert sorted(listed) == sorted(f"i{number}" for number in range(24))
        assert listed == ids(read_all(container, 1000))


def test_between_two_pages_items_expire_appear_and_move(containers: TtlContainers) -> None:
    container = containers.make(-1)
    for number in range(6):
        container.create(f"i{number}", 10 + number)
    page = read_page(container, 2)
    assert ids(page["items"]) == ["i0", "i1"]
    containers.clock.advance(12)  # i2 expires
    container.create("new", 2)
    assert container.replace("i3", container.body("i3", 100)).status == 200
    rest = read_page(container, 100, page["continuation"])
    assert ids(rest["items"]) == ["i4", "new", "i5", "i3"] or ids(rest["items"]) == [
        "new", "i4", "i5", "i3",
    ]  # fmt: skip
    assert rest["continuation"] is None


def test_an_entry_has_the_whole_item_as_stored(containers: TtlContainers) -> None:
    container = containers.make(100)
    text = b'{"id":"a","pk":"p","big":12345678901234567890,"small":1.50}'
    assert container.post(text).status == 201
    reply = ask(container, "expiring")
    assert b"12345678901234567890" in reply.body
    (entry,) = reply.json["items"]
    assert entry["item"] == container.read("a").json
    assert (entry["expiresAt"], entry["ttlSource"]) == (containers.now + 100, "container")
    assert (reply.json["asOf"], reply.json["continuation"]) == (containers.now, None)


def test_a_page_of_large_items_is_bounded(containers: TtlContainers) -> None:
    container = containers.make(100)
    for number in range(5):
        container.create(f"i{number}", text="x" * 1_500_000)
    page = read_page(container, 5)
    assert 1 <= len(page["items"]) < 5
    assert sorted(ids(read_all(container, 5))) == [f"i{number}" for number in range(5)]


def test_items_of_a_cleared_partition_are_not_listed(containers: TtlContainers) -> None:
    container = containers.make(100)
    container.create("a", pk="gone")
    container.create("b")
    assert container.clear_partition("gone").status == 200
    assert ids(read_all(container, 10)) == ["b"]


@pytest.mark.parametrize(
    "query", ["count=0", "count=1001", "count=x", "continuation=x", "continuation=%00", "after=1"]
)
def test_requests_that_are_refused(containers: TtlContainers, query: str) -> None:
    reply = ask(containers.make(10), f"expiring?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


def test_a_continuation_of_another_container_is_refused(containers: TtlContainers) -> None:
    container, other = containers.make(100), containers.make(100, "other")
    for id_ in ("a", "b"):
        container.create(id_)
    token = read_page(container, 1)["continuation"]
    reply = ask(other, f"expiring?continuation={quote(token, safe='')}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
