"""The limits of one query page: how long it may take, and how much it may return.

`pages.builder` enforces them for pages, `evaluation` for what runs in the server process, and the
package `workers` limits the memory of a worker process.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from perseid.config import Settings
from perseid.query.deadline import ITEM_SECONDS

# Evaluation of one page in the server process; what takes longer goes to a worker process.
SLICE_SECONDS: Final = 0.02
# Steps of its work limit: a single function may take longer than the time between two checks.
SLICE_STEPS: Final = 50_000
# Groups counted by the store that may be evaluated in the server process: about as much.
SLICE_GROUPS: Final = 2_000
_PAGE_BYTES: Final = 4 * 1024 * 1024
# A worker that is late by this much is ended.
_GRACE_SECONDS: Final = 5.0


class QueryBudget(NamedTuple):
    """What one page may take."""

    page_seconds: float  # then a page ends, if its rows are in the order of items
    total_seconds: float  # of a page that is known once all items are read; then it is an error
    item_seconds: float
    page_bytes: int = _PAGE_BYTES

    @property
    def worker_seconds(self) -> float:
        """After these a worker process is ended."""
        longest = max(self.page_seconds, self.total_seconds)
        return longest + self.item_seconds + _GRACE_SECONDS


def budget_of(settings: Settings) -> QueryBudget:
    return QueryBudget(settings.query_page_seconds, settings.query_seconds, ITEM_SECONDS)
