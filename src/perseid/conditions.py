"""Conditions on stored items that any store can check, and the ranks of value types.

A condition is true or false for an item, never undefined: the planner, which translates WHERE into
conditions, decides what undefined means in each place. A condition does not contain values but
indexes into a tuple of values, so one condition, and the SQL that a store makes of it, serves a
query with any parameters of the same types. Conditions are compared by identity, so that caches
keyed by a condition need not look into it. Nothing here knows SQL or the query language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

# Property names and array indexes from the item down.
PropertyPath: TypeAlias = tuple[str | int, ...]

# The ranks of types in the order of ORDER BY; false and true have a rank each.
UNDEFINED, NULL, FALSE, TRUE, NUMBER, STRING, ARRAY, OBJECT = range(8)
DEFINED: Final = (NULL, FALSE, TRUE, NUMBER, STRING, ARRAY, OBJECT)

Operator: TypeAlias = Literal["=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, eq=False)
class HasType:
    """The value at the path has one of the types."""

    path: PropertyPath
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The value at the path is a number or string, as `rank` says, and compares as stated."""

    path: PropertyPath
    rank: int
    operator: Operator
    value: int  # index into the tuple of values


@dataclass(frozen=True, slots=True, eq=False)
class TextMatch:
    """The value at the path is a string that contains the text at its start, end or anywhere."""

    path: PropertyPath
    where: Literal["start", "end", "anywhere"]
    value: int


@dataclass(frozen=True, slots=True, eq=False)
class ArrayContains:
    """The value at the path is an array with an element of the type.

    For numbers and strings the element must also be equal to the value.
    """

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
    """Sorted by the value at a path, ties by creation; both reversed if descending."""

    path: PropertyPath
    is_descending: bool


class OrderPosition(NamedTuple):
    """A position in an `Order`: type, value if it is a number or string, number of the item."""

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
    """The conjunction of the terms, flattened."""
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
    """The disjunction of the terms, flattened."""
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
