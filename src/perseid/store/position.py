"""How far a physical range has come: its counters, moved by each transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from perseid.store.protocol import Corpse, Put, Remove
from perseid.ttl import Horizon


class Position(NamedTuple):
    """How far a range has come: its last LSN, and the items it holds, dead ones included.

    Then what was ever removed because it was dead, and how many of those the policy of that moment
    killed but the one before it would have spared.
    """

    lsn: int = 0
    items: int = 0
    size: int = 0
    purged_items: int = 0
    purged_size: int = 0
    spared: int = 0

    def moved(self, changes: Sequence[Put | Remove]) -> Position:
        """After one more transaction."""
        lsn, items, size, purged_items, purged_size, spared = self
        for change in changes:
            if isinstance(change, Remove):
                items, size = items - 1, size - change.row.size
                if change.expired:
                    purged_items, purged_size = purged_items + 1, purged_size + change.row.size
                    spared += change.spared
            else:
                old = change.replaces
                items += old is None
                size += change.row.size - (0 if old is None else old.size)
        return Position(lsn + 1, items, size, purged_items, purged_size, spared)

    def purged(self, corpses: Sequence[Corpse], spare: Horizon | None) -> Position:
        """After the removal of the dead; `spare` is the horizon of the policy before."""
        size = sum(corpse.size for corpse in corpses)
        spared = 0
        if spare is not None:
            bounds = {"inheriting": spare.inherited, "own": spare.own}
            spared = sum(corpse.base > bounds[corpse.kind] for corpse in corpses)
        return Position(
            self.lsn + 1,
            self.items - len(corpses),
            self.size - size,
            self.purged_items + len(corpses),
            self.purged_size + size,
            self.spared + spared,
        )

    def cleared(
        self, *, items: int, size: int, dead: int, dead_size: int, spared: int, steps: int
    ) -> Position:
        """Without so many items of a partition that was cleared; the dead among them count as
        removed for that. `steps` is how many transactions this is, if it clears the partition."""
        return Position(
            self.lsn + steps,
            self.items - items,
            self.size - size,
            self.purged_items + dead,
            self.purged_size + dead_size,
            self.spared + spared,
        )


START: Final = Position()
