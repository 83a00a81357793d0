"""Filters that PostgreSQL can evaluate: its texts have no NUL and no greatest text.

No stored text has a NUL, so one with a NUL is equal to none; it has its place in the order right
behind the part before the NUL.
"""

from __future__ import annotations

from functools import lru_cache

from perseid.conditions import (
    NEVER,
    STRING,
    AllOf,
    AnyOf,
    ArrayContains,
    Comparison,
    Condition,
    Filter,
    Not,
    TextMatch,
    all_of,
    any_of,
)
from perseid.store.sql.dialect import text_after_prefix


def storable_filter(where: Filter | None) -> Filter | None:
    """The filter with conditions and values that mean the same and can be bound."""
    if where is None:
        return None
    with_nul = frozenset(
        value_index
        for value_index, value in enumerate(where.values)
        if isinstance(value, str) and "\0" in value
    )
    open_ended = frozenset(
        value_index
        for value_index, value in enumerate(where.values)
        if isinstance(value, str) and text_after_prefix(value) is None
    )
    if not with_nul and not open_ended:
        return where
    values = tuple(
        value.partition("\0")[0] if value_index in with_nul else value
        for value_index, value in enumerate(where.values)
    )
    return Filter(_storable(where.condition, with_nul, open_ended), values)


@lru_cache(maxsize=1024)
def _storable(
    condition: Condition, with_nul: frozenset[int], open_ended: frozenset[int]
) -> Condition:
    match condition:
        case Not(term):
            return Not(_storable(term, with_nul, open_ended))
        case AllOf(terms):
            return all_of([_storable(term, with_nul, open_ended) for term in terms])
        case AnyOf(terms):
            return any_of([_storable(term, with_nul, open_ended) for term in terms])
        case Comparison(path, rank, operator, value) if value in with_nul:
            if operator == "=":
                return NEVER
            return Comparison(path, rank, "<=" if operator in ("<", "<=") else ">", value)
        case TextMatch(_, _, value) | ArrayContains(_, _, value) if value in with_nul:
            return NEVER
        case TextMatch(path, "start", value) if value in open_ended:
            return Comparison(path, STRING, ">=", value)  # no text is greater
        case _:
            return condition
