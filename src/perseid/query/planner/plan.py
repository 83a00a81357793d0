"""A query plan: plain data that can be printed, compared and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from perseid.conditions import Order, PropertyPath
from perseid.query.executor import CompiledPaging, CompiledQuery, offset_limit
from perseid.query.nodes import Node
from perseid.query.planner import tree
from perseid.query.planner.filters import PushedFilter
from perseid.query.planner.key_filters import KeyFilter

# copy: the items that the store finds are the rows. stream: the rows of each item follow those of
# the previous one. sort: the rows of all items, sorted. collect: no row is known before the last
# item is read.
Paging: TypeAlias = Literal["copy", "stream", "sort", "collect"]

PAGING: Final[dict[CompiledPaging, Paging]] = {
    "STREAM": "stream",
    "SORT": "sort",
    "WHOLE": "collect",
}


class Plan(NamedTuple):
    """How one query runs on one container, for bound values of certain types."""

    compiled: CompiledQuery
    filter: PushedFilter
    partition_key: KeyFilter | None  # WHERE confines the query to one logical partition
    order: Order | None  # what an index may serve; each page says whether one did
    group_paths: tuple[PropertyPath, ...] | None  # the store counts combinations of their values
    counts_items: bool  # the only row is the number of items that the store finds
    indexable: frozenset[PropertyPath]  # the store may create indexes on these paths
    paging: Paging
    copies_items: bool  # the rows are items that the store finds, unchanged
    is_linear: bool  # evaluation costs time linear in the size of the item
    # What the service refuses: to merge ranges for the client, to sort without a composite index.
    needs_client_plan: bool
    lacks_composite_index: bool

    @property
    def is_fully_ordered(self) -> bool:
        """True if ORDER BY has no further key by which items with equal values are sorted."""
        return self.order is not None and len(self.compiled.bound.order_by) == 1

    def offset_limit(self, parameters: Mapping[str, Any]) -> tuple[int, int | None]:
        """How many rows OFFSET skips, and how many rows TOP or LIMIT allows after them."""
        if not self.compiled.bound.has_offset_or_limit:
            return 0, None
        return offset_limit(self.compiled, parameters)

    def text_of(self, node: Node) -> str:
        """A part of the query as it was written, on one line."""
        return " ".join(self.compiled.text[node.start : node.end].split())

    def __str__(self) -> str:
        return tree.print_plan(self)
