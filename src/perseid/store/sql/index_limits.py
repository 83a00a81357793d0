"""When property indexes are worth creating; the same on both databases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

# A scan over fewer items is done before an index could help.
LEAST_ITEMS: Final = 500
# Each index costs time for every write, and space.
MOST_INDEXES: Final = 24
# After a failure the same index is not tried again for so many seconds.
RETRY_DELAY: Final = 60.0
# An index that was created or used in the last so many seconds is not dropped for another one:
# queries over more paths than that would have indexes dropped and created again all the time,
# and every write would wait for them.
KEPT_SECONDS: Final = 60.0


def replaceable(names: Iterable[str], last_used: Mapping[str, float], now: float) -> str | None:
    """The index to drop for another one; None if all of them are in use."""
    name = min(names, key=lambda each: last_used.get(each, 0.0))
    unused_since = last_used.get(name)
    is_kept = unused_since is not None and now - unused_since < KEPT_SECONDS
    return None if is_kept else name
