"""What a filter fixes: paths that must equal a constant in every row the query can return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perseid.query.nodes import (
    Alias,
    Binary,
    BoundParameter,
    BoundQuery,
    Chain,
    Expr,
    Literal,
    Property,
)
from perseid.query.values import UNDEFINED

Path = tuple[str, ...]


def pinned(query: BoundQuery, parameters: Mapping[str, Any]) -> dict[Path, Any]:
    """Paths of the item and the one value each must have; empty when nothing is sure."""
    root, where = query.root, query.where
    if root is None or where is None:
        return {}
    terms = where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)
    found: dict[Path, Any] = {}
    for term in terms:
        if isinstance(term, Binary) and term.op == "=":
            for side, other in ((term.left, term.right), (term.right, term.left)):
                path = path_of(side, root.slot)
                value = _constant(other, parameters)
                if path and value is not UNDEFINED:
                    found.setdefault(path, value)
    return found


def path_of(expr: Expr, slot: int) -> Path | None:
    """The property names from the item in `slot` down to the expression, if it is such a path."""
    names: list[str] = []
    while isinstance(expr, Property):
        names.append(expr.name)
        expr = expr.target
    if isinstance(expr, Alias) and expr.slot == slot:
        return tuple(reversed(names))
    return None


def _constant(expr: Expr, parameters: Mapping[str, Any]) -> Any:
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, BoundParameter):
        return parameters.get(expr.name, UNDEFINED)
    return UNDEFINED
