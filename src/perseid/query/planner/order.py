"""The order of a result, as far as an index may serve it."""

from __future__ import annotations

from perseid.conditions import Order
from perseid.query.nodes import BoundQuery
from perseid.query.planner.paths import searchable_path


def store_order(query: BoundQuery) -> Order | None:
    """The first key of ORDER BY, if it is a path of the item and each row belongs to one item."""
    if not query.order_by or query.root is None or query.is_grouped or query.distinct:
        return None
    item = query.order_by[0]
    path = searchable_path(item.expr, query.root.slot)
    return Order(path, item.descending) if path else None
