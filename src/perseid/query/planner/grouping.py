"""Which parts of an item a query looks at, and how much it does with them."""

from __future__ import annotations

from typing import Final

from perseid.conditions import PropertyPath
from perseid.query.functions import lookup
from perseid.query.functions.aggregates import LISTS
from perseid.query.nodes import Aggregate, Alias, BoundQuery, Call, Like, Node, children, walk
from perseid.query.planner.filters import item_path

# One more column for each; beyond that a whole item is as cheap.
_MAX_GROUP_PATHS: Final = 6


def group_paths(query: BoundQuery, *, is_filtered: bool) -> tuple[PropertyPath, ...] | None:
    """The paths that alone decide the result, if equal items need not be told apart.

    Then the query may see each combination of their values once, and how many items have it.
    None if it needs the items themselves. `is_filtered` leaves WHERE to whoever chooses them.
    A query over another one in FROM sees nothing of the items but what that one makes of them.
    """
    inner = query.sources[0].collection if query.sources else None
    if isinstance(inner, BoundQuery):
        return group_paths(inner, is_filtered=False)
    if query.root is None or not (query.is_grouped or query.distinct):
        return None
    if query.sources[0].collection is not None or not all(map(_is_repeatable, walk(query))):
        return None
    if _orders_by_last_item(query):
        return None
    parts = [*query.items, *query.sources, *query.group_by, *query.aggregates, *query.order_by]
    if query.where is not None and not is_filtered:
        parts.append(query.where)
    paths: set[PropertyPath] = set()
    pending: list[Node] = parts
    while pending:
        node = pending.pop()
        path = item_path(node, query.root.slot)  # type: ignore[arg-type]
        if path:
            paths.add(_path_above_arrays(path))
        elif isinstance(node, Alias) and node.slot == query.root.slot:
            return None
        else:
            pending.extend(children(node))
    if () in paths or len(paths) > _MAX_GROUP_PATHS:
        return None
    # What lies below another path comes with it.
    return tuple(
        sorted(
            path for path in paths if not any(path[:end] in paths for end in range(1, len(path)))
        )
    )


def _orders_by_last_item(query: BoundQuery) -> bool:
    """True when the last of equal items says where their row stands, and not the first: rows that
    ORDER BY leaves equal come in the order of their items, backwards if its first key descends."""
    if query.is_grouped or not query.order_by or not query.order_by[0].descending:
        return False
    assert query.root is not None  # noqa: S101  # the caller has looked
    slot = query.root.slot
    keys = {item_path(key.expr, slot) for key in query.order_by}
    return not {item_path(item.expr, slot) for item in query.items} <= keys - {None}


def _path_above_arrays(path: PropertyPath) -> PropertyPath:
    """As far as an array: its elements come with it."""
    for at, step in enumerate(path):
        if isinstance(step, int):
            return path[:at]
    return path


def _is_repeatable(node: Node) -> bool:
    """False for what tells equal items apart: their order in a list, or chance."""
    if isinstance(node, Aggregate):
        return node.function != "MAKELIST"
    if isinstance(node, Call):
        function = lookup(node.name)
        return function is not None and not function.random
    return True


def is_linear(query: BoundQuery) -> bool:
    """True when an item takes as long as it is large, for each part of the query, and no longer."""
    return not (query.has_joins or query.has_subqueries or any(map(_is_expensive, walk(query))))


def _is_expensive(node: Node) -> bool:
    if isinstance(node, Aggregate):
        return node.function in LISTS
    if isinstance(node, Call):
        function = lookup(node.name)
        return function is None or function.expensive
    return isinstance(node, Like)
