"""How far a physical range has come: its counters, moved by each transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from perseid.model import Container
from perseid.store.types import PurgedItem, Put, Remove
from perseid.ttl import Cutoff


class RangeState(NamedTuple):
    """How far a range has come: its last LSN, and the items it holds, dead ones included.

    Then what was ever removed because it was dead, and how many of those the policy of that moment
    killed but the one before it would have spared.
    """

    lsn: int = 0
    items: int = 0
    size: int = 0
    purged_items: int = 0
    purged_size: int = 0
    expired_by_change: int = 0

    def after_write(self, changes: Sequence[Put | Remove]) -> RangeState:
        """After one more transaction."""
        lsn, items, size, purged_items, purged_size, expired_by_change = self
        for change in changes:
            if isinstance(change, Remove):
                items, size = items - 1, size - change.row.size
                if change.expired:
                    purged_items, purged_size = purged_items + 1, purged_size + change.row.size
                    expired_by_change += change.expired_by_change
            else:
                old = change.replaces
                items += old is None
                size += change.row.size - (0 if old is None else old.size)
        return RangeState(lsn + 1, items, size, purged_items, purged_size, expired_by_change)

    def after_purge(
        self, items_purged: Sequence[PurgedItem], previous_cutoff: Cutoff | None
    ) -> RangeState:
        """After the removal of the dead; `spare` is the horizon of the policy before."""
        size = sum(purged_item.size for purged_item in items_purged)
        expired_by_change = 0
        if previous_cutoff is not None:
            expired_by_change = sum(
                purged_item.base > previous_cutoff.bound(purged_item.kind)
                for purged_item in items_purged
            )
        return RangeState(
            self.lsn + 1,
            self.items - len(items_purged),
            self.size - size,
            self.purged_items + len(items_purged),
            self.purged_size + size,
            self.expired_by_change + expired_by_change,
        )

    def after_clear(
        self,
        *,
        items: int,
        size: int,
        expired: int,
        expired_size: int,
        expired_by_change: int,
        steps: int,
    ) -> RangeState:
        """Without so many items of a partition that was cleared; the dead among them count as
        removed for that. `steps` is how many transactions this is, if it clears the partition."""
        return RangeState(
            self.lsn + steps,
            self.items - items,
            self.size - size,
            self.purged_items + expired,
            self.purged_size + expired_size,
            self.expired_by_change + expired_by_change,
        )


EMPTY_RANGE: Final = RangeState()


def container_state(
    range_states: Mapping[tuple[int, int], RangeState], container: Container
) -> RangeState:
    """The sums over all ranges of a container, which are keyed by its number and their index."""
    number = container.number
    if len(container.ranges) == 1:
        return range_states.get((number, 0), EMPTY_RANGE)
    states = [range_states.get((number, each.index), EMPTY_RANGE) for each in container.ranges]
    return RangeState._make(map(sum, zip(*states, strict=True)))
