"""Conditions on stored items that a store can check by itself, in terms of no particular store.

A condition is true or false of an item, never undefined: whoever makes one from the three-valued
logic of queries has said what undefined means there. Values are not part of it. It names places in
a tuple of values instead, so one condition, and whatever a store derives from it, serves a query
with any parameters of the same types. Each condition equals itself and no other, so that caches
which go by conditions need not look into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

# Property names and array indexes from the item down.
PropertyPath: TypeAlias = tuple[str | int, ...]

# Types in the order that ORDER BY has them; false and true count as two.
UNDEFINED, NULL, FALSE, TRUE, NUMBER, STRING, ARRAY, OBJECT = range(8)
DEFINED: Final = (NULL, FALSE, TRUE, NUMBER, STRING, ARRAY, OBJECT)

Operator: TypeAlias = Literal["=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, eq=False)
class HasType:
    """What the path leads to has one of the types."""

    path: PropertyPath
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """It has the type, number or string, and compares so with the value."""

    path: PropertyPath
    rank: int
    operator: Operator
    value: int  # place among the values


@dataclass(frozen=True, slots=True, eq=False)
class TextMatch:
    """It is a string that has the value at its start, at its end or anywhere."""

    path: PropertyPath
    where: Literal["start", "end", "anywhere"]
    value: int


@dataclass(frozen=True, slots=True, eq=False)
class ArrayContains:
    """It is an array with an element of the type and, for numbers and strings, the value."""

    path: PropertyPath
    rank: int
    value: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    term: Condition


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """All of the terms; true if there are none."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """At least one of the terms; false if there are none."""

    terms: tuple[Condition, ...]


Condition: TypeAlias = HasType | Comparison | TextMatch | ArrayContains | Not | AllOf | AnyOf

ALWAYS: Final = AllOf(())
NEVER: Final = AnyOf(())


class Filter(NamedTuple):
    """A condition with its values."""

    condition: Condition
    values: tuple[Any, ...]


class Order(NamedTuple):
    """By what a path leads to, ties by creation; both backwards if it descends."""

    path: PropertyPath
    is_descending: bool


class OrderPosition(NamedTuple):
    """A place in such an order: the type, the value of a number or string, the item's number."""

    rank: int
    value: Any
    number: int


def has_single_value(rank: int) -> bool:
    """True for the types that have a single value: undefined, null, false and true."""
    return rank < NUMBER


def is_always(condition: Condition) -> bool:
    return isinstance(condition, AllOf) and not condition.terms


def is_never(condition: Condition) -> bool:
    return isinstance(condition, AnyOf) and not condition.terms


def is_equality(condition: Condition) -> TypeGuard[Comparison]:
    """True for the comparison of a number or string with one value."""
    return isinstance(condition, Comparison) and condition.operator == "="


def all_of(terms: list[Condition]) -> Condition:
    """The conjunction, without needless levels."""
    flat: list[Condition] = []
    for term in terms:
        if isinstance(term, AllOf):
            flat += term.terms
        elif is_never(term):
            return NEVER
        else:
            flat.append(term)
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def any_of(terms: list[Condition]) -> Condition:
    """The disjunction, without needless levels."""
    flat: list[Condition] = []
    for term in terms:
        if isinstance(term, AnyOf):
            flat += term.terms
        elif is_always(term):
            return ALWAYS
        else:
            flat.append(term)
    return flat[0] if len(flat) == 1 else AnyOf(tuple(flat))


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The terms that must all be true."""
    return condition.terms if isinstance(condition, AllOf) else (condition,)


def paths_of(condition: Condition) -> set[PropertyPath]:
    """The paths that a condition reads."""
    if isinstance(condition, AllOf | AnyOf):
        return {path for term in condition.terms for path in paths_of(term)}
    if isinstance(condition, Not):
        return paths_of(condition.term)
    return {condition.path}
