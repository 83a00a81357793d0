"""Which part of a condition is left to check on the items that an index has found.

An index has numbers, short texts and the types of all values exactly, so the range of the index
answers such terms. To check them again would read and unpack the copy of each item.
"""

from __future__ import annotations

from perseid.conditions import (
    NUMBER,
    AnyOf,
    Comparison,
    Condition,
    Filter,
    HasType,
    all_of,
    conjuncts,
    is_equality,
)
from perseid.store.postgres.conditions_sql import INDEXED_CHARACTERS
from perseid.store.sql.candidates import IndexCandidate


def remaining_condition(where: Filter, candidate: IndexCandidate | None) -> Condition | None:
    """The terms that the range of the candidate does not decide; None if it decides all."""
    if candidate is None:
        return where.condition
    searched = conjuncts(candidate.term)
    alternatives = [each.terms for each in searched if isinstance(each, AnyOf)]
    terms = conjuncts(where.condition)
    left = [
        each
        for each in terms
        # A candidate may have only a part of each alternative.
        if (each.terms not in alternatives if isinstance(each, AnyOf) else each not in searched)
        or not _is_decided(each, where)
    ]
    if len(left) == len(terms):
        return where.condition
    return all_of(left) if left else None


def _is_decided(term: Condition, where: Filter) -> bool:
    """True if the index holds all that the term compares, and its range compares the same."""
    if isinstance(term, HasType):
        return True
    if isinstance(term, Comparison):
        if term.rank == NUMBER:
            return True
        return term.operator == "=" and len(where.values[term.value]) <= INDEXED_CHARACTERS
    if isinstance(term, AnyOf):
        # In a list, a text of just this length also finds longer ones that begin with it.
        return all(
            isinstance(each, HasType)
            or (
                is_equality(each)
                and (each.rank == NUMBER or len(where.values[each.value]) < INDEXED_CHARACTERS)
            )
            for each in term.terms
        )
    return False
