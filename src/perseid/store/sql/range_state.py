"""The counters of a physical range, which each transaction updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from perseid.model import Container
from perseid.store.types import PurgedItem, Put, Remove
from perseid.ttl import Cutoff


class RangeState(NamedTuple):
    """The last LSN of a range, and its items including expired ones.

    Then all items that were purged so far, and how many of them were live under the policy before
    the last change.
    """

    lsn: int = 0
    items: int = 0
    size: int = 0
    purged_items: int = 0
    purged_size: int = 0
    expired_by_change: int = 0

    def after_write(self, changes: Sequence[Put | Remove]) -> RangeState:
        """After a transaction with these changes."""
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
        """After a purge; the cutoff is that of the policy before the last change."""
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
        """After items of a cleared partition were removed; the expired ones count as purged.
        `steps` is the number of transactions, 0 if no reader sees the removal."""
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
