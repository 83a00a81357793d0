"""Partition keys that a filter allows: paths that must equal a constant in every matching item.

`key_filter` finds the one value of each path, `key_alternatives` all values that paths can have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from perseid import conditions
from perseid.conditions import PropertyPath
from perseid.query.nodes import (
    Binary,
    BoundParameter,
    BoundQuery,
    Chain,
    Expr,
    In,
    Literal,
)
from perseid.query.planner.bound_values import ParameterTypes
from perseid.query.planner.paths import item_path
from perseid.query.values import UNDEFINED, same

KeyValue: TypeAlias = "str | int | float | bool | None"
# One way to pass a filter: the values of some paths; other paths may hold anything.
KeyAlternative: TypeAlias = dict[PropertyPath, Any]

# Terms of an AND are ignored if the number of combinations would exceed this.
_MAX_ALTERNATIVES: Final = 1000


class KeyFilter(NamedTuple):
    """The constants that WHERE requires the paths of the partition key to equal, in their order."""

    constants: tuple[Literal | BoundParameter, ...]

    def values(self, parameters: Mapping[str, Any]) -> tuple[KeyValue, ...] | None:
        """The partition key of all items that can match; None if a value cannot be part of one."""
        values = tuple([_constant(constant, parameters) for constant in self.constants])
        is_key = all(value is None or isinstance(value, str | int | float) for value in values)
        return values if is_key else None


def key_filter(
    query: BoundQuery, parameter_types: ParameterTypes, key_paths: Collection[PropertyPath]
) -> KeyFilter | None:
    """The filter on the whole partition key, if WHERE has one."""
    root, where = query.root, query.where
    if root is None or where is None:
        return None
    terms = where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)
    constants: dict[PropertyPath, Literal | BoundParameter] = {}
    for term in terms:
        if isinstance(term, Binary) and term.op == "=":
            for side, other in ((term.left, term.right), (term.right, term.left)):
                path = item_path(side, root.slot)
                if path and _is_defined_constant(other, parameter_types):
                    constants.setdefault(path, other)
    if not key_paths or not all(path in constants for path in key_paths):
        return None
    return KeyFilter(tuple(constants[path] for path in key_paths))


def _is_defined_constant(
    expr: Expr, parameter_types: ParameterTypes
) -> TypeGuard[Literal | BoundParameter]:
    if isinstance(expr, Literal):
        return expr.value is not UNDEFINED
    return isinstance(expr, BoundParameter) and parameter_types[expr.name] != conditions.UNDEFINED


def _constant(expr: Expr, parameters: Mapping[str, Any]) -> Any:
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, BoundParameter):
        return parameters.get(expr.name, UNDEFINED)
    return UNDEFINED


def key_alternatives(
    query: BoundQuery, parameters: Mapping[str, Any], paths: Collection[PropertyPath]
) -> list[KeyAlternative]:
    """All combinations of values of `paths` with which an item can pass the filter.

    Empty if no item can pass.
    """
    inner = query.sources[0].collection if query.sources else None
    if isinstance(inner, BoundQuery):
        return key_alternatives(inner, parameters, paths)
    root, where = query.root, query.where
    if where is None:
        return [{}]
    slot = -1 if root is None else root.slot  # no expression reads that slot
    return _alternatives(where, slot, parameters, frozenset(paths))


def _alternatives(
    expr: Expr, slot: int, parameters: Mapping[str, Any], paths: frozenset[PropertyPath]
) -> list[KeyAlternative]:
    def alternatives_of(term: Expr) -> list[KeyAlternative]:
        return _alternatives(term, slot, parameters, paths)

    def equal(side: Expr, others: Iterable[Expr]) -> list[KeyAlternative] | None:
        path = item_path(side, slot)
        constants = list(others)
        if (
            path is None
            or path not in paths
            or not all(isinstance(c, Literal | BoundParameter) for c in constants)
        ):
            return None
        values = [_constant(constant, parameters) for constant in constants]
        # Nothing equals undefined. Arrays and objects are never keys, so they restrict nothing.
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
    """Every combination whose values do not contradict each other."""
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
