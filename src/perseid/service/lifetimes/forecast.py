"""When the live items of a container expire under the current policy, in buckets of time."""

from __future__ import annotations

from typing import Any, Final

from perseid import ttl
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.lifetimes.item_totals import (
    ItemTotals,
    bucket_json,
    count_by_bucket,
    count_items,
)
from perseid.service.lifetimes.status import status

BUCKET_SECONDS: Final = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "year": 31_536_000,
}  # fmt: skip
MOST_BUCKETS: Final = 1000


async def forecast(
    account: Account, container: Container, width: int, count: int, now: float
) -> dict[str, Any]:
    """So many buckets from now on, and the items that are in none of them."""
    cutoff, start = account.cutoff(container, now), int(now)
    buckets = [ItemTotals()] * count
    later = ItemTotals()
    for span, lifetime in ttl.expiring_spans(container.policy, cutoff, start):
        near, far = span.split(start + width * count - lifetime)
        counts = await count_by_bucket(account, container, near, start - lifetime, width)
        for bucket, totals in counts.items():
            buckets[bucket] += totals
        later += ItemTotals(*(await count_items(account, container, [far]))[:2])
    state = await status(account, container, now)
    return {
        "container": container.path,
        "asOf": start,
        "bucketSeconds": width,
        "buckets": [
            bucket_json(bucket, totals, start, width) for bucket, totals in enumerate(buckets)
        ],
        "later": later._asdict(),
        "nonExpiring": state["nonExpiring"],
        "pendingPurge": state["pendingPurge"],
    }
