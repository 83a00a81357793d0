"""Why one item is live or expired, and when it expires."""

from __future__ import annotations

from typing import Any

from perseid import ttl
from perseid.model import ItemKey, Row
from perseid.service.items.transactions import LogicalPartition, item_not_found
from perseid.service.lifetimes import policies
from perseid.service.lifetimes.item_totals import item_summary
from perseid.service.operation import Operation
from perseid.ttl import Policy


async def explain_item(
    op: Operation,
    logical_partition: LogicalPartition,
    item_id: str,
    proposed_ttl: int | None = None,
) -> dict[str, Any]:
    """Explains an item that is live or not purged yet; never returns its body.

    `proposed_ttl` asks in addition when the item would expire if it was written now with that ttl.
    """
    row, _ = await op.stores.items.read(
        op.container, logical_partition.range_index, ItemKey(logical_partition.pk, item_id)
    )
    if row is None:
        raise item_not_found()
    policy, now = op.container.policy, op.ts
    is_live = ttl.is_live(row.ts, row.ttl, op.cutoff)
    expiry = ttl.expires_at(row.ts, row.ttl, policy) if is_live else _expired_at(op, row)
    explanation = {
        **item_summary(row),
        "asOf": now,
        "live": is_live,
        "rule": ttl.ttl_rule(row.ttl, policy),
        "reason": _reason(policy, row, is_live),
        "expiresAt": expiry,
        "remainingSeconds": None if expiry is None or not is_live else expiry - now,
        "ttlSource": ttl.ttl_source(row.ttl, policy),
        "purgePosition": None if is_live else await _purge_position(op, row),
    }
    if proposed_ttl is not None:
        explanation["proposed"] = {
            "ttl": proposed_ttl,
            "expiresAt": ttl.expires_at(now, proposed_ttl, policy),
        }
    return explanation


def _reason(policy: Policy, row: Row, is_live: bool) -> str:
    if is_live:
        return "live under the current policy and every earlier one"
    is_earlier = not ttl.is_live(row.ts, row.ttl, policy.final_cutoff)
    if row.ttl is not None:
        if is_earlier:
            return "its own ttl passed before TTL was switched off"
        return "its own ttl has passed"
    if is_earlier:
        return "an earlier defaultTtl of the container has passed"
    return "the container's defaultTtl has passed"


async def _purge_position(op: Operation, row: Row) -> int:
    """How many expired items of its range are purged before this one."""
    ages = policies.expiry_ages(op.container)
    counts = [
        await op.stores.expiry.expiry_count(op.container, row.range_index, span)
        for span in ttl.spans_purged_before(op.cutoff, ages, _expired_at(op, row))
    ]
    return sum(count.items for count in counts)


def _expired_at(op: Operation, row: Row) -> int:
    return ttl.expired_at(row.ts, row.ttl, policies.expiry_ages(op.container))
