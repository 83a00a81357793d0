"""Expired items do not count towards quota and statistics."""

from __future__ import annotations

from typing import Any

from tests.support.raw import Reply
from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.effects.stock import Bury, statistics, usage


def kilobytes(*replies: Reply) -> int:
    return -(-sum(len(reply.body) for reply in replies) // 1024)


def test_expired_items_take_no_space(shelf: Shelf) -> None:
    """T-093: from the instant of death, before any purge, and no less after it."""
    small = shelf.post(shelf.body("small", n="x" * 4000))
    alone = usage(shelf)
    assert alone["documentsCount"] == 1
    assert alone["documentsSize"] == alone["collectionSize"] == kilobytes(small)
    large = shelf.post(shelf.body("large", 5, "q", n="x" * 100_000), pk="q")
    shelf.clock.advance(4)
    both = usage(shelf)
    assert both["documentsCount"] == 2
    assert both["documentsSize"] == both["collectionSize"] == kilobytes(small, large)
    assert statistics(shelf) == (2, kilobytes(small, large), 2)
    shelf.clock.advance(1)
    for _ in range(2):
        assert usage(shelf) == alone
        assert statistics(shelf) == (1, kilobytes(small), 1)
        shelf.drain()


def test_room_is_taken_once_after_a_new_start(shelf: Shelf, dead: dict[str, Any]) -> None:
    """T-093: a re-created item counts once; inheriting and own lifetimes alike."""
    assert usage(shelf)["documentsCount"] == 1
    shelf.create("dead")
    assert usage(shelf)["documentsCount"] == statistics(shelf)[0] == 2
    assert shelf.delete("dead").status == 204
    assert usage(shelf)["documentsCount"] == 1
    assert shelf.drain() == 0
    assert usage(shelf)["documentsCount"] == 1


def test_items_expired_by_the_default_take_no_space(shelves: Shelves, bury: Bury) -> None:
    shelf = shelves.make(5)
    shelf.create("a")
    shelf.create("b", -1)
    shelf.create("c", 9)
    shelf.clock.advance(5)
    bury(shelf)
    assert usage(shelf)["documentsCount"] == 2
    shelf.clock.advance(4)
    assert usage(shelf)["documentsCount"] == 1
