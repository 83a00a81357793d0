"""Pages and read_many while items expire in between."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pytest
from azure.cosmos import CosmosClient

from tests.support.ttl_containers import MaybePurge, TtlContainer, assert_gone
from tests.ttl.effects.mixed_containers import LIVE, MixedContainers


@dataclass
class Reader:
    """Turns the pages of a feed or query."""

    container: TtlContainer
    text: str | None  # None: the read feed
    size: int = 2
    token: str | None = None
    is_done: bool = False

    def page(self) -> list[Any]:
        headers = {"count": str(self.size)}
        if self.token is not None:
            headers["continuation"] = self.token
        path = f"{self.container.path}/docs"
        if self.text is None:
            reply = self.container.raw.get(path, **headers)
        else:
            reply = self.container.raw.query(path, self.text, **headers)
        assert reply.status == 200, reply
        assert len(reply.json["Documents"]) <= self.size
        self.token = reply.headers.get("x-ms-continuation")
        self.is_done = self.token is None
        rows = reply.json["Documents"]
        return [row["n"] for row in rows] if self.text is None else rows

    def rest(self) -> list[Any]:
        """All rows of the pages to come."""
        rows: list[Any] = []
        while not self.is_done:
            rows += self.page()
        return rows


LISTS: Final = (
    None,
    "SELECT VALUE c.n FROM c",
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE c.n FROM c ORDER BY c._ts, c.n",
    "SELECT DISTINCT VALUE c.n FROM c",
    "SELECT VALUE c.n FROM c GROUP BY c.n",
    "SELECT VALUE s.n FROM (SELECT c.n FROM c) s",
)
lists = pytest.mark.parametrize("text", LISTS, ids=lambda text: text or "feed")


@lists
@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_pages_hold_live_items(
    mixed_containers: MixedContainers, text: str | None, size: int
) -> None:
    """T-080: a full page is full of live items, and no page is wasted on expired ones."""
    pages = []
    for container in (mixed_containers.mixed, mixed_containers.clean):
        reader = Reader(container, text, size)
        found = [reader.page()]
        while not reader.is_done:
            found.append(reader.page())
        pages.append(found)
    mixed, clean = pages
    assert mixed == clean
    assert list(chain.from_iterable(mixed)) == LIVE


# What expires while page 1 (items 0 and 1) is being read, and what is left for later pages.
EXPIRIES: Final = [
    ("the last one shown", {1}, [2, 3, 4, 5]),
    ("the first one shown", {0}, [2, 3, 4, 5]),
    ("all that were shown", {0, 1}, [2, 3, 4, 5]),
    ("the next one", {2}, [3, 4, 5]),
    ("shown and next", {1, 2}, [3, 4, 5]),
    ("a page to come", {2, 3}, [4, 5]),
    ("the last", {5}, [2, 3, 4]),
    ("all to come", {2, 3, 4, 5}, []),
    ("everyone", {0, 1, 2, 3, 4, 5}, []),
]


@lists
@pytest.mark.parametrize(
    ("expiring", "left"), [d[1:] for d in EXPIRIES], ids=[d[0] for d in EXPIRIES]
)
def test_pages_go_on_past_expired_items(
    container: TtlContainer,
    maybe_purge: MaybePurge,
    text: str | None,
    expiring: set[int],
    left: list[int],
) -> None:
    """T-085: a token stays valid, no item is returned twice, left out, or returned after expiry."""
    for number in range(6):
        container.create(f"i{number}", 5 if number in expiring else -1, n=number)
    reader = Reader(container, text)
    assert reader.page() == [0, 1]
    container.clock.advance(5)
    maybe_purge(container)
    assert reader.rest() == left


def test_each_page_has_its_own_now(container: TtlContainer, maybe_purge: MaybePurge) -> None:
    """T-085: one expiry a second, one page a second."""
    for number in range(8):
        container.create(f"i{number}", 1 + number // 2 * 2, n=number)  # 1, 1, 3, 3, 5, 5, 7, 7
    reader = Reader(container, None)
    pages = []
    while not reader.is_done:
        pages.append(reader.page())
        container.clock.advance(2)
        maybe_purge(container)
    # When the second page is asked for, items 0 and 1 are gone, at the third 2 and 3 as well.
    assert pages == [[0, 1], [2, 3], [4, 5], [6, 7], []]
    assert_gone(container.read("i7"))


JOINED: Final = "SELECT VALUE t FROM c JOIN t IN c.tags"


@pytest.mark.parametrize(
    ("size", "shown", "left"),
    [
        (1, [1], [21, 22, 23]),
        (2, [1, 2], [21, 22, 23]),
        (3, [1, 2, 3], [21, 22, 23]),
        (4, [1, 2, 3, 11], [21, 22, 23]),
        (5, [1, 2, 3, 11, 12], [21, 22, 23]),
        (7, [1, 2, 3, 11, 12, 13, 21], [22, 23]),
    ],
)
def test_a_page_may_end_within_an_item_that_expires(
    container: TtlContainer, maybe_purge: MaybePurge, size: int, shown: list[int], left: list[int]
) -> None:
    """T-085: what a token says about an expired item is not said about the next one."""
    for number, lifetime in enumerate((5, 5, -1)):
        container.create(f"i{number}", lifetime, tags=[number * 10 + each for each in (1, 2, 3)])
    reader = Reader(container, JOINED, size)
    assert reader.page() == shown
    container.clock.advance(5)
    maybe_purge(container)
    assert reader.rest() == left


def test_a_page_may_end_at_an_item_that_is_created_again(
    container: TtlContainer, maybe_purge: MaybePurge
) -> None:
    """T-085: the new item is a new row; the token does not take it for the old one."""
    for number in range(4):
        container.create(f"i{number}", 5 if number == 1 else -1, n=number)
    reader = Reader(container, None)
    assert reader.page() == [0, 1]
    container.clock.advance(5)
    maybe_purge(container)
    container.create("i1", n=9)
    assert sorted(reader.rest()) == [2, 3, 9]


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n", [0, 1], [2, 3]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 4", [1, 2], [3, 4]),
    ],
)
def test_windows_go_on_past_expired_items(
    container: TtlContainer, maybe_purge: MaybePurge, text: str, first: list[int], rest: list[int]
) -> None:
    """T-085: a window that was half shown goes on where it stood."""
    for number in range(6):
        container.create(f"i{number}", 5 if number in first else -1, n=number)
    reader = Reader(container, text)
    assert reader.page() == first
    container.clock.advance(5)
    maybe_purge(container)
    assert reader.rest() == rest


# Read many --------------------------------------------------------------------------------------


def test_read_many_leaves_expired_items_out(
    container: TtlContainer, maybe_purge: MaybePurge, endpoint: str, key: str
) -> None:
    """T-084."""
    for number in range(6):
        container.create(f"i{number}", 5 if number % 2 else -1, pk=f"k{number % 3}")
    container.clock.advance(5)
    maybe_purge(container)
    _, _, database, _, name = container.path.split("/")
    with CosmosClient(endpoint, key) as client:
        proxy = client.get_database_client(database).get_container_client(name)
        wanted = [(f"i{number}", f"k{number % 3}") for number in range(6)]
        found = proxy.read_items([*wanted, ("never", "k1")])
        assert sorted(item["id"] for item in found) == ["i0", "i2", "i4"]
        assert proxy.read_items([("i1", "k1")]) == []
        assert proxy.read_items([("i1", "k1"), ("i3", "k0"), ("i5", "k2")]) == []
