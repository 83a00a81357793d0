"""Pages and read_many while items expire in between."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pytest
from azure.cosmos import CosmosClient

from tests.support.ttl_containers import Shelf, assert_gone
from tests.ttl.effects.stock import LIVING, Bury, Stock


@dataclass
class Reader:
    """Turns the pages of a feed or query."""

    shelf: Shelf
    text: str | None  # None: the read feed
    size: int = 2
    token: str | None = None
    is_done: bool = False

    def page(self) -> list[Any]:
        headers = {"count": str(self.size)}
        if self.token is not None:
            headers["continuation"] = self.token
        path = f"{self.shelf.path}/docs"
        if self.text is None:
            reply = self.shelf.raw.get(path, **headers)
        else:
            reply = self.shelf.raw.query(path, self.text, **headers)
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
def test_pages_hold_live_items(stock: Stock, text: str | None, size: int) -> None:
    """T-080: a full page is full of living items, and no page is wasted on the dead."""
    pages = []
    for shelf in (stock.mixed, stock.clean):
        reader = Reader(shelf, text, size)
        found = [reader.page()]
        while not reader.is_done:
            found.append(reader.page())
        pages.append(found)
    mixed, clean = pages
    assert mixed == clean
    assert list(chain.from_iterable(mixed)) == LIVING


# Who dies while page 1 (items 0 and 1) is being looked at, and what is left for later pages.
DEATHS: Final = [
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
@pytest.mark.parametrize(("dying", "left"), [d[1:] for d in DEATHS], ids=[d[0] for d in DEATHS])
def test_pages_go_on_past_expired_items(
    shelf: Shelf, bury: Bury, text: str | None, dying: set[int], left: list[int]
) -> None:
    """T-085: a token stays valid, and nobody is shown twice, left out, or shown after death."""
    for number in range(6):
        shelf.create(f"i{number}", 5 if number in dying else -1, n=number)
    reader = Reader(shelf, text)
    assert reader.page() == [0, 1]
    shelf.clock.advance(5)
    bury(shelf)
    assert reader.rest() == left


def test_each_page_has_its_own_now(shelf: Shelf, bury: Bury) -> None:
    """T-085: one death a second, one page a second."""
    for number in range(8):
        shelf.create(f"i{number}", 1 + number // 2 * 2, n=number)  # 1, 1, 3, 3, 5, 5, 7, 7
    reader = Reader(shelf, None)
    pages = []
    while not reader.is_done:
        pages.append(reader.page())
        shelf.clock.advance(2)
        bury(shelf)
    # When the second page is asked for, items 0 and 1 are gone, at the third 2 and 3 as well.
    assert pages == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert_gone(shelf.read("i7"))


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
    shelf: Shelf, bury: Bury, size: int, shown: list[int], left: list[int]
) -> None:
    """T-085: what a token says about a dead item is not said about the next one."""
    for number, lifetime in enumerate((5, 5, -1)):
        shelf.create(f"i{number}", lifetime, tags=[number * 10 + each for each in (1, 2, 3)])
    reader = Reader(shelf, JOINED, size)
    assert reader.page() == shown
    shelf.clock.advance(5)
    bury(shelf)
    assert reader.rest() == left


def test_a_page_may_end_at_an_item_that_is_created_again(shelf: Shelf, bury: Bury) -> None:
    """T-085: the new item is a new row; the token does not take it for the old one."""
    for number in range(4):
        shelf.create(f"i{number}", 5 if number == 1 else -1, n=number)
    reader = Reader(shelf, None)
    assert reader.page() == [0, 1]
    shelf.clock.advance(5)
    bury(shelf)
    shelf.create("i1", n=9)
    assert sorted(reader.rest()) == [2, 3, 9]


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n", [0, 1], [2, 3]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 4", [1, 2], [3, 4]),
    ],
)
def test_windows_go_on_past_expired_items(
    shelf: Shelf, bury: Bury, text: str, first: list[int], rest: list[int]
) -> None:
    """T-085: a window that was half shown goes on where it stood."""
    for number in range(6):
        shelf.create(f"i{number}", 5 if number in first else -1, n=number)
    reader = Reader(shelf, text)
    assert reader.page() == first
    shelf.clock.advance(5)
    bury(shelf)
    assert reader.rest() == rest


# Read many --------------------------------------------------------------------------------------


def test_read_many_leaves_expired_items_out(
    shelf: Shelf, bury: Bury, endpoint: str, key: str
) -> None:
    """T-084."""
    for number in range(6):
        shelf.create(f"i{number}", 5 if number % 2 else -1, pk=f"k{number % 3}")
    shelf.clock.advance(5)
    bury(shelf)
    _, _, database, _, container = shelf.path.split("/")
    with CosmosClient(endpoint, key) as client:
        proxy = client.get_database_client(database).get_container_client(container)
        wanted = [(f"i{number}", f"k{number % 3}") for number in range(6)]
        found = proxy.read_items([*wanted, ("never", "k1")])
        assert sorted(item["id"] for item in found) == ["i0", "i2", "i4"]
        assert proxy.read_items([("i1", "k1")]) == []
        assert proxy.read_items([("i1", "k1"), ("i3", "k0"), ("i5", "k2")]) == []
