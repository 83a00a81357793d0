"""When property indexes are worth creating; the same on both databases."""

from __future__ import annotations

from typing import Final

# A scan over fewer items is done before an index could help.
LEAST_ITEMS: Final = 500
# Each index costs time for every write, and space.
MOST_INDEXES: Final = 24
# After a failure the same index is not tried again for so many seconds.
RETRY_DELAY: Final = 60.0
