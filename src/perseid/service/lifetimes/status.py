"""The TTL status of a container: its policy, its live items, and the items pending purge."""

from __future__ import annotations

from typing import Any

from perseid import ttl
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.lifetimes import policies
from perseid.service.lifetimes.item_totals import ItemTotals, count_items, sample_items
from perseid.ttl import Cutoff


async def status(account: Account, container: Container, now: float) -> dict[str, Any]:
    cutoff = account.cutoff(container, now)
    policy = container.policy
    usage = await account.usage(container, cutoff)
    live = ItemTotals(usage.items, usage.size)
    spans = [span for span in ttl.live_spans(cutoff) if policy.expires(span.kind)]
    expiring = ItemTotals(*(await count_items(account, container, spans))[:2])
    return {
        "container": container.path,
        "asOf": int(now),
        "defaultTtl": policy.default_ttl,
        "live": live._asdict(),
        "expiring": expiring._asdict(),
        "nonExpiring": {
            "items": live.items - expiring.items,
            "bytes": live.bytes - expiring.bytes,
        },
        "pendingPurge": ItemTotals(usage.expired_items, usage.expired_size)._asdict(),
        "purgedTotal": usage.purged_items,
        "purgedBytes": usage.purged_size,
        "purgeLagSeconds": await _purge_lag(account, container, cutoff, int(now)),
        "nextExpiry": await _next_expiry(account, container, cutoff, int(now)),
        "purgeHoldSeconds": container.purge_hold.seconds,
        "guard": container.guard,
        "policyChanges": account.catalog.resource(container.rid).state.get("policy_changes", 0),
    }


async def _purge_lag(account: Account, container: Container, cutoff: Cutoff, now: int) -> int:
    """For how many seconds the oldest item has been pending purge."""
    oldest = await sample_items(account, container, ttl.expired_spans(cutoff), 1)
    ages = policies.expiry_ages(container)
    return max([0, *(now - ttl.expired_at(row.ts, row.ttl, ages) for row in oldest)])


async def _next_expiry(
    account: Account, container: Container, cutoff: Cutoff, now: int
) -> int | None:
    spans = [each.span for each in ttl.expiring_spans(container.policy, cutoff, now)]
    first = await sample_items(account, container, spans, 1)
    seconds = [ttl.expires_at(row.ts, row.ttl, container.policy) for row in first]
    return min((second for second in seconds if second is not None), default=None)
