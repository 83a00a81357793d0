"""What a filter fixes: paths that must equal a constant in every row the query can return.

`pinned` looks for the one value of each path, `alternatives` for all values that paths can have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from perseid.query.nodes import (
    Alias,
    Binary,
    BoundParameter,
    BoundQuery,
    Chain,
    Expr,
    In,
    Literal,
    Property,
)
from perseid.query.values import UNDEFINED, same

Path = tuple[str, ...]
# One way to pass a filter: what it says of some paths; others may hold anything.
Way: TypeAlias = dict[Path, Any]

# Terms of an AND whose alternatives would multiply beyond this are left out of account.
_MOST_WAYS: Final = 1000


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


def alternatives(
    query: BoundQuery, parameters: Mapping[str, Any], paths: Collection[Path]
) -> list[Way]:
    """All ways in which a row can have passed the filter, by what they say of `paths`.

    Empty when nothing can pass.
    """
    inner = query.sources[0].collection if query.sources else None
    if isinstance(inner, BoundQuery):
        return alternatives(inner, parameters, paths)
    root, where = query.root, query.where
    if where is None:
        return [{}]
    slot = -1 if root is None else root.slot  # no expression reads that one
    return _ways(where, slot, parameters, frozenset(paths))


def _ways(
    expr: Expr, slot: int, parameters: Mapping[str, Any], paths: frozenset[Path]
) -> list[Way]:
    def ways(term: Expr) -> list[Way]:
        return _ways(term, slot, parameters, paths)

    def equal(side: Expr, others: Iterable[Expr]) -> list[Way] | None:
        path = path_of(side, slot)
        constants = list(others)
        if path not in paths or not all(isinstance(c, Literal | BoundParameter) for c in constants):
            return None
        values = [_constant(constant, parameters) for constant in constants]
        # Nothing equals undefined; arrays and objects are left open, since no key is one of them.
        return [
            {} if isinstance(value, list | dict) else {path: value}
            for value in values
            if value is not UNDEFINED
        ]

    match expr:
        case Literal() | BoundParameter():
            return [{}] if _constant(expr, parameters) is True else []
        case Chain(op="OR", operands=terms):
            return [way for term in terms for way in ways(term)]
        case Chain(op="AND", operands=terms):
            return _product(map(ways, terms))
        case Binary(op="=", left=left, right=right):
            found = equal(left, [right])
            found = equal(right, [left]) if found is None else found
        case In(operand=operand, items=items):
            found = equal(operand, items)
        case _:
            found = None
    return [{}] if found is None else found


def _product(factors: Iterable[list[Way]]) -> list[Way]:
    """Every combination whose parts do not contradict each other."""
    found: list[Way] = [{}]
    for factor in factors:
        if len(found) * len(factor) <= _MOST_WAYS:
            found = [way | other for way in found for other in factor if _agree(way, other)]
    return found


def _agree(way: Way, other: Way) -> bool:
    return all(path not in other or same(value, other[path]) for path, value in way.items())
