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

PropertyPath = tuple[str, ...]
# One way to pass a filter: what it says of some paths; others may hold anything.
KeyAlternative: TypeAlias = dict[PropertyPath, Any]

# Terms of an AND whose alternatives would multiply beyond this are left out of account.
_MAX_ALTERNATIVES: Final = 1000


def key_filters(query: BoundQuery, parameters: Mapping[str, Any]) -> dict[PropertyPath, Any]:
    """Paths of the item and the one value each must have; empty when nothing is sure."""
    root, where = query.root, query.where
    if root is None or where is None:
        return {}
    terms = where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)
    matches: dict[PropertyPath, Any] = {}
    for term in terms:
        if isinstance(term, Binary) and term.op == "=":
            for side, other in ((term.left, term.right), (term.right, term.left)):
                path = property_path(side, root.slot)
                value = _constant(other, parameters)
                if path and value is not UNDEFINED:
                    matches.setdefault(path, value)
    return matches


def property_path(expr: Expr, slot: int) -> PropertyPath | None:
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


def key_alternatives(
    query: BoundQuery, parameters: Mapping[str, Any], paths: Collection[PropertyPath]
) -> list[KeyAlternative]:
    """All ways in which a row can have passed the filter, by what they say of `paths`.

    Empty when nothing can pass.
    """
    inner = query.sources[0].collection if query.sources else None
    if isinstance(inner, BoundQuery):
        return key_alternatives(inner, parameters, paths)
    root, where = query.root, query.where
    if where is None:
        return [{}]
    slot = -1 if root is None else root.slot  # no expression reads that one
    return _alternatives(where, slot, parameters, frozenset(paths))


def _alternatives(
    expr: Expr, slot: int, parameters: Mapping[str, Any], paths: frozenset[PropertyPath]
) -> list[KeyAlternative]:
    def alternatives_of(term: Expr) -> list[KeyAlternative]:
        return _alternatives(term, slot, parameters, paths)

    def equal(side: Expr, others: Iterable[Expr]) -> list[KeyAlternative] | None:
        path = property_path(side, slot)
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
            return [alternative for term in terms for alternative in alternatives_of(term)]
        case Chain(op="AND", operands=terms):
            return _combinations(map(alternatives_of, terms))
        case Binary(op="=", left=left, right=right):
            matches = equal(left, [right])
            matches = equal(right, [left]) if matches is None else matches
        case In(operand=operand, items=items):
            matches = equal(operand, items)
        case _:
            matches = None
    return [{}] if matches is None else matches


def _combinations(factors: Iterable[list[KeyAlternative]]) -> list[KeyAlternative]:
    """Every combination whose parts do not contradict each other."""
    matches: list[KeyAlternative] = [{}]
    for factor in factors:
        if len(matches) * len(factor) <= _MAX_ALTERNATIVES:
            matches = [
                alternative | other
                for alternative in matches
                for other in factor
                if _are_compatible(alternative, other)
            ]
    return matches


def _are_compatible(alternative: KeyAlternative, other: KeyAlternative) -> bool:
    return all(path not in other or same(value, other[path]) for path, value in alternative.items())
