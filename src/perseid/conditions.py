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
Path: TypeAlias = tuple[str | int, ...]

# Types in the order that ORDER BY has them; false and true count as two.
UNDEFINED, NULL, FALSE, TRUE, NUMBER, STRING, ARRAY, OBJECT = range(8)
DEFINED: Final = (NULL, FALSE, TRUE, NUMBER, STRING, ARRAY, OBJECT)

Operator: TypeAlias = Literal["=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """What the path leads to has one of the types."""

    path: Path
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """It has the type, number or string, and compares so with the value."""

    path: Path
    rank: int
    operator: Operator
    value: int  # place among the values


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """It is a string that has the value at its start, at its end or anywhere."""

    path: Path
    where: Literal["start", "end", "anywhere"]
    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """It is an array with an element of the type and, for numbers and strings, the value."""

    path: Path
    rank: int
    value: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    term: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Every:
    """All of the terms; true if there are none."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """At least one of the terms; false if there are none."""

    terms: tuple[Condition, ...]


Condition: TypeAlias = Typed | Compared | Matched | Holding | Not | Every | Some

ALWAYS: Final = Every(())
NEVER: Final = Some(())


class Filter(NamedTuple):
    """A condition with its values."""

    condition: Condition
    values: tuple[Any, ...]


class Order(NamedTuple):
    """By what a path leads to, ties by creation; both backwards if it descends."""

    path: Path
    is_descending: bool


class Place(NamedTuple):
    """A place in such an order: the type, the value of a number or string, the item's number."""

    rank: int
    value: Any
    number: int


def has_only_value(rank: int) -> bool:
    """True for the types that have a single value: undefined, null, false and true."""
    return rank < NUMBER


def is_always(condition: Condition) -> bool:
    return isinstance(condition, Every) and not condition.terms


def is_never(condition: Condition) -> bool:
    return isinstance(condition, Some) and not condition.terms


def is_equality(condition: Condition) -> TypeGuard[Compared]:
    """True for the comparison of a number or string with one value."""
    return isinstance(condition, Compared) and condition.operator == "="


def every(terms: list[Condition]) -> Condition:
    """The conjunction, without needless levels."""
    flat: list[Condition] = []
    for term in terms:
        if isinstance(term, Every):
            flat += term.terms
        elif is_never(term):
            return NEVER
        else:
            flat.append(term)
    return flat[0] if len(flat) == 1 else Every(tuple(flat))


def some(terms: list[Condition]) -> Condition:
    """The disjunction, without needless levels."""
    flat: list[Condition] = []
    for term in terms:
        if isinstance(term, Some):
            flat += term.terms
        elif is_always(term):
            return ALWAYS
        else:
            flat.append(term)
    return flat[0] if len(flat) == 1 else Some(tuple(flat))


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The terms that must all be true."""
    return condition.terms if isinstance(condition, Every) else (condition,)
