"""Logical partitions as a whole: removing all items of one."""

from __future__ import annotations

from perseid import charges
from perseid.service import policies, throughput
from perseid.service.operation import Operation
from perseid.service.transactions import Place


async def delete(op: Operation, place: Place) -> tuple[int, float]:
    """Removes the partition's items, the dead among them too: the range's LSN, and the charge.

    They are gone together, when this returns. Each costs what deleting it alone would; the dead
    cost nothing.
    """
    spare = policies.spare_horizon(op.account, op.container, op.now)
    cleared = await op.store.clear(op.container, place.range_index, place.pk, op.horizon, spare)
    if throughput.is_removal_metered(op.account):
        throughput.note_purge(op.account, op.container, charges.delete_all(cleared.dead))
    charge = charges.delete_all(cleared.live)
    return cleared.lsn, max(charge, charges.MISS)
