"""Conditions that PostgreSQL can hold: its texts have no NUL, and none comes after all others.

No stored text has a NUL, so one with a NUL is equal to none; it has its place in the order right
behind the part before the NUL.
"""

from __future__ import annotations

from functools import lru_cache

from perseid.conditions import (
    NEVER,
    STRING,
    Compared,
    Condition,
    Every,
    Filter,
    Holding,
    Matched,
    Not,
    Some,
    every,
    some,
)
from perseid.store.dialect import behind


def held(found: Filter | None) -> Filter | None:
    """The filter with conditions and values that mean the same and can be bound."""
    if found is None:
        return None
    cut = frozenset(
        place
        for place, value in enumerate(found.values)
        if isinstance(value, str) and "\0" in value
    )
    open_ended = frozenset(
        place
        for place, value in enumerate(found.values)
        if isinstance(value, str) and behind(value) is None
    )
    if not cut and not open_ended:
        return found
    values = tuple(
        value.partition("\0")[0] if place in cut else value
        for place, value in enumerate(found.values)
    )
    return Filter(_held(found.condition, cut, open_ended), values)


@lru_cache(maxsize=1024)
def _held(condition: Condition, cut: frozenset[int], open_ended: frozenset[int]) -> Condition:
    match condition:
        case Not(term):
            return Not(_held(term, cut, open_ended))
        case Every(terms):
            return every([_held(term, cut, open_ended) for term in terms])
        case Some(terms):
            return some([_held(term, cut, open_ended) for term in terms])
        case Compared(path, rank, operator, value) if value in cut:
            if operator == "=":
                return NEVER
            return Compared(path, rank, "<=" if operator in ("<", "<=") else ">", value)
        case Matched(_, _, value) | Holding(_, _, value) if value in cut:
            return NEVER
        case Matched(path, "start", value) if value in open_ended:
            return Compared(path, STRING, ">=", value)  # nothing comes behind those
        case _:
            return condition
