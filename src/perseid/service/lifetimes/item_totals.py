"""Counts of items and bytes by expiry, over all ranges of a container.

The stores count in the indexes on expiry, so a count costs as much as the items it counts, not as
much as the container holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from perseid import partition
from perseid.model import Container, Row
from perseid.service.account import Account
from perseid.store.types import ExpiryCount
from perseid.ttl import ExpirySpan, bucket_bounds


class ItemTotals(NamedTuple):
    """How many items, and their bytes."""

    items: int = 0
    bytes: int = 0

    def __add__(self, other: object) -> ItemTotals:
        if not isinstance(other, tuple):
            return NotImplemented
        return ItemTotals(self.items + other[0], self.bytes + other[1])


async def count_items(
    account: Account, container: Container, spans: Iterable[ExpirySpan]
) -> ExpiryCount:
    """What the spans hold together."""
    counts = [
        await account.stores.expiry.expiry_count(container, key_range.index, span)
        for key_range in container.ranges
        for span in spans
        if not span.is_empty
    ]
    return ExpiryCount(
        sum(count.items for count in counts),
        sum(count.size for count in counts),
        min((count.oldest for count in counts if count.oldest is not None), default=None),
        max((count.newest for count in counts if count.newest is not None), default=None),
        max((count.last for count in counts if count.last is not None), default=None),
    )


async def sample_items(
    account: Account, container: Container, spans: Iterable[ExpirySpan], limit: int
) -> list[Row]:
    """Of each range and span the first items, at most `limit`, without their bodies."""
    return [
        row
        for key_range in container.ranges
        for span in spans
        if not span.is_empty
        for row in await account.stores.expiry.sample(container, key_range.index, span, limit)
    ]


async def count_by_bucket(
    account: Account, container: Container, span: ExpirySpan, start: int, width: int
) -> dict[int, ItemTotals]:
    """The items of a span by bucket of `width` seconds; a bucket without items is left out."""
    buckets: dict[int, ItemTotals] = {}
    for key_range in container.ranges:
        counts = await account.stores.expiry.histogram(
            container, key_range.index, span, start, width
        )
        for bucket, count in counts.items():
            buckets[bucket] = buckets.get(bucket, ItemTotals()) + ItemTotals(*count)
    return buckets


def bucket_json(bucket: int, totals: ItemTotals, start: int, width: int) -> dict[str, int]:
    first, last = bucket_bounds(bucket, start, width)
    return {"from": first, "to": last, **totals._asdict()}


def item_summary(row: Row) -> dict[str, Any]:
    """What the admin API tells about an item: never its body."""
    key: list[Any] = [
        {} if component is partition.ABSENT else component
        for component in partition.from_canonical(row.pk)
    ]
    return {"id": row.id, "partitionKey": key, "_ts": row.ts, "ttl": row.ttl}
