"""Delete by partition key: removes all items of a logical partition."""

from __future__ import annotations

from perseid import charges
from perseid.service.items.transactions import LogicalPartition
from perseid.service.lifetimes import policies
from perseid.service.operation import Operation
from perseid.service.throughput import enforcement


async def delete(op: Operation, logical_partition: LogicalPartition) -> tuple[int, float]:
    """Removes the partition's items, live and expired; returns the range's LSN and the charge.

    When this returns, no operation sees any of them. The charge is the sum of deleting each live
    item; expired items are free.
    """
    previous_cutoff = policies.previous_cutoff(op.account, op.container, op.now)
    cleared = await op.stores.items.clear_partition(
        op.container,
        logical_partition.range_index,
        logical_partition.pk,
        op.cutoff,
        previous_cutoff,
    )
    if enforcement.is_purge_metered(op.account):
        enforcement.record_purge_charge(
            op.account, op.container, charges.delete_all(cleared.expired)
        )
    charge = charges.delete_all(cleared.live)
    return cleared.lsn, max(charge, charges.MISS)
