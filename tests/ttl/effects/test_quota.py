"""Expired items do not count towards quota and statistics."""

from __future__ import annotations

from typing import Any

from tests.support.figures import partition_statistics, resource_usage
from tests.support.raw import Reply
from tests.support.ttl_containers import MaybePurge, TtlContainer, TtlContainers


def kilobytes(*replies: Reply) -> int:
    return -(-sum(len(reply.body) for reply in replies) // 1024)


def test_expired_items_take_no_space(container: TtlContainer) -> None:
    """T-093: from the instant of expiry, before any purge, and no less after it."""
    small = container.post(container.body("small", n="x" * 4000))
    alone = resource_usage(container.raw, container.path)
    assert alone["documentsCount"] == 1
    assert alone["documentsSize"] == alone["collectionSize"] == kilobytes(small)
    large = container.post(container.body("large", 5, "q", n="x" * 100_000), pk="q")
    container.clock.advance(4)
    both = resource_usage(container.raw, container.path)
    assert both["documentsCount"] == 2
    assert both["documentsSize"] == both["collectionSize"] == kilobytes(small, large)
    assert partition_statistics(container.raw, container.path) == (2, kilobytes(small, large), 2)
    container.clock.advance(1)
    for _ in range(2):
        assert resource_usage(container.raw, container.path) == alone
        assert partition_statistics(container.raw, container.path) == (1, kilobytes(small), 1)
        container.drain()


def test_room_is_taken_once_after_a_new_start(
    container: TtlContainer, expired: dict[str, Any]
) -> None:
    """T-093: a re-created item counts once; inheriting and own lifetimes alike."""
    assert resource_usage(container.raw, container.path)["documentsCount"] == 1
    container.create("expired")
    assert (
        resource_usage(container.raw, container.path)["documentsCount"]
        == partition_statistics(container.raw, container.path)[0]
        == 2
    )
    assert container.delete("expired").status == 204
    assert resource_usage(container.raw, container.path)["documentsCount"] == 1
    assert container.drain() == 0
    assert resource_usage(container.raw, container.path)["documentsCount"] == 1


def test_items_expired_by_the_default_take_no_space(
    containers: TtlContainers, maybe_purge: MaybePurge
) -> None:
    container = containers.make(5)
    container.create("a")
    container.create("b", -1)
    container.create("c", 9)
    container.clock.advance(5)
    maybe_purge(container)
    assert resource_usage(container.raw, container.path)["documentsCount"] == 2
    container.clock.advance(4)
    assert resource_usage(container.raw, container.path)["documentsCount"] == 1
