"""The order of a result, as far as an index may serve it."""

from __future__ import annotations

from collections.abc import Callable

from perseid.conditions import Order
from perseid.query.index_usage import CompositeIndex, sorting_index_of
from perseid.query.nodes import BoundQuery
from perseid.query.planner.paths import searchable_path


def store_order(query: BoundQuery) -> Order | None:
    """The first key of ORDER BY, if it is a path of the item and each row belongs to one item."""
    if not query.order_by or query.root is None or query.is_grouped or query.distinct:
        return None
    item = query.order_by[0]
    path = searchable_path(item.expr, query.root.slot)
    return Order(path, item.descending) if path else None


def lacks_composite_index(query: BoundQuery, can_sort: Callable[[CompositeIndex], bool]) -> bool:
    """True if ORDER BY has several keys and the container has no composite index for them.

    The rows of groups, and the single row of an aggregate, are not sorted by an index.
    """
    if len(query.order_by) < 2 or query.is_grouped:
        return False
    return not can_sort(sorting_index_of(query))
