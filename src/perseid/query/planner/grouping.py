"""Which paths of an item decide the result of a query, and how its cost grows with the item."""

from __future__ import annotations

from typing import Final

from perseid.conditions import PropertyPath
from perseid.query.functions import lookup
from perseid.query.functions.aggregates import LISTS
from perseid.query.nodes import (
    Aggregate,
    Alias,
    BoundQuery,
    Call,
    Grouped,
    Like,
    Literal,
    Node,
    children,
    walk,
)
from perseid.query.planner.paths import searchable_path
from perseid.query.values import UNDEFINED

# Each path is one more column; with more of them, reading the whole item is as cheap.
_MAX_GROUP_PATHS: Final = 6


def group_paths(query: BoundQuery, *, is_filtered: bool) -> tuple[PropertyPath, ...] | None:
    """The paths whose values decide the result, if items with equal values need not be told apart.

    The query can then run over each combination of values once, with the number of its items.
    None if it needs the items themselves. `is_filtered`: the store checks all of WHERE, so the
    paths in it do not count. A query over a subquery in FROM reads only the rows of that one.
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
        path = searchable_path(node, query.root.slot)
        if path:
            paths.add(_path_above_arrays(path))
        elif isinstance(node, Alias) and node.slot == query.root.slot:
            return None
        else:
            pending.extend(children(node))
    if () in paths or len(paths) > _MAX_GROUP_PATHS:
        return None
    # The value at a path includes everything below it.
    return tuple(
        sorted(
            path for path in paths if not any(path[:end] in paths for end in range(1, len(path)))
        )
    )


def is_plain_count(query: BoundQuery) -> bool:
    """True for SELECT VALUE COUNT of a constant: the only row is the number of rows before it."""
    if query.shape != "VALUE" or query.group_by or query.distinct or query.has_offset_or_limit:
        return False
    result = query.items[0].expr
    return (
        isinstance(result, Grouped)
        and isinstance(result.expr, Aggregate)
        and result.expr.function == "COUNT"
        and isinstance(result.expr.argument, Literal)
        and result.expr.argument.value is not UNDEFINED
    )


def _orders_by_last_item(query: BoundQuery) -> bool:
    """True if the last of several equal items determines the position of their row.

    Rows with equal ORDER BY keys keep the order of their items, reversed if the first key descends.
    """
    if query.is_grouped or not query.order_by or not query.order_by[0].descending:
        return False
    assert query.root is not None  # noqa: S101  # checked by the caller
    slot = query.root.slot
    keys = {searchable_path(key.expr, slot) for key in query.order_by}
    return not {searchable_path(item.expr, slot) for item in query.items} <= keys - {None}


def _path_above_arrays(path: PropertyPath) -> PropertyPath:
    """The path up to the first array; its value includes the elements."""
    for at, step in enumerate(path):
        if isinstance(step, int):
            return path[:at]
    return path


def _is_repeatable(node: Node) -> bool:
    """False for what tells equal items apart: their order in a list, or a random number."""
    if isinstance(node, Aggregate):
        return node.function != "MAKELIST"
    if isinstance(node, Call):
        function = lookup(node.name)
        return function is not None and not function.random
    return True


def is_linear(query: BoundQuery) -> bool:
    """True if evaluating the query costs time linear in the size of the item."""
    return not (query.has_joins or query.has_subqueries or any(map(_is_expensive, walk(query))))


def _is_expensive(node: Node) -> bool:
    if isinstance(node, Aggregate):
        return node.function in LISTS
    if isinstance(node, Call):
        function = lookup(node.name)
        return function is None or function.expensive
    return isinstance(node, Like)
