"""A finished page of query results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from perseid import charges


@dataclass(slots=True)
class PageTimings:
    """The seconds that each phase of a page took."""

    loading: float = 0.0
    evaluating: float = 0.0

    @property
    def total(self) -> float:
        return self.loading + self.evaluating


class QueryResultPage(NamedTuple):
    """Result rows as JSON, and what it took to find them."""

    rows: list[bytes]
    loaded: list[int]  # sizes of the items that rows were made of
    counted: int  # items that the store counted without loading them
    examined: int  # items read in the order of an index
    continuation: str | None
    times: PageTimings
    ranges: set[int]  # physical ranges the items are from, if the container has several
    lsn: int | None = None  # of the only range of the container, if it was read with the items

    @property
    def charge(self) -> float:
        """Request units, before the factor of the consistency level."""
        return charges.query_page(self.loaded, self.counted)
