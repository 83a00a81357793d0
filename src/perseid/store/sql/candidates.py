"""Index candidates: the parts of a condition that an index over one path can answer."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from perseid.conditions import (
    STRING,
    AnyOf,
    Comparison,
    Condition,
    HasType,
    PropertyPath,
    TextMatch,
    all_of,
    any_of,
    conjuncts,
    has_single_value,
)
from perseid.store.types import Search

# Among more items than this a scan finds a page soon enough.
MAX_INDEXED_ITEMS: Final = 20_000

# How far an index narrows a search: to one value, some values, a range, everything above or
# below a value, all values of a type. The most selective first.
Selectivity: TypeAlias = Literal["value", "values", "range", "one-sided", "type"]
_SELECTIVITIES: Final[tuple[Selectivity, ...]] = ("value", "values", "range", "one-sided", "type")


class IndexCandidate(NamedTuple):
    """The part of a condition that refers to one path."""

    path: PropertyPath
    term: Condition
    selectivity: Selectivity


@lru_cache(maxsize=1024)
def index_candidates(condition: Condition) -> tuple[IndexCandidate, ...]:
    """The parts that indexes could answer, the most selective first."""
    by_path: dict[PropertyPath, list[IndexCandidate]] = {}
    for term in conjuncts(condition):
        for candidate in _candidates_of(term):
            by_path.setdefault(candidate.path, []).append(candidate)
    result = []
    for path, parts in by_path.items():
        selectivity = min((each.selectivity for each in parts), key=_SELECTIVITIES.index)
        if (
            selectivity == "one-sided"
            and sum(each.selectivity == "one-sided" for each in parts) > 1
        ):
            selectivity = "range"
        result.append(IndexCandidate(path, all_of([each.term for each in parts]), selectivity))
    return tuple(sorted(result, key=lambda candidate: _SELECTIVITIES.index(candidate.selectivity)))


def required_ids(search: Search) -> tuple[int, ...]:
    """The positions of the values that an item's id must be one of, in a search of one logical
    partition, where the primary key finds them; empty if the id may be any."""
    if search.where is None or search.pk_prefix is None or search.is_prefix:
        return ()
    return _required_ids(search.where.condition)


@lru_cache(maxsize=1024)
def _required_ids(condition: Condition) -> tuple[int, ...]:
    for term in conjuncts(condition):
        choices = term.terms if isinstance(term, AnyOf) else (term,)
        value_indexes = [
            each.value
            for each in choices
            if isinstance(each, Comparison)
            and (each.path, each.rank, each.operator) == (("id",), STRING, "=")
        ]
        if value_indexes and len(value_indexes) == len(choices):
            return tuple(value_indexes)
    return ()


def _candidates_of(term: Condition) -> list[IndexCandidate]:
    if isinstance(term, Comparison):
        return [IndexCandidate(term.path, term, "value" if term.operator == "=" else "one-sided")]
    if isinstance(term, TextMatch):
        return [IndexCandidate(term.path, term, "range")] if term.where == "start" else []
    if isinstance(term, HasType):
        is_one = len(term.ranks) == 1 and has_single_value(term.ranks[0])
        return [IndexCandidate(term.path, term, "value" if is_one else "type")]
    if isinstance(term, AnyOf):
        return _common_candidates(term.terms)
    return []


def _common_candidates(terms: tuple[Condition, ...]) -> list[IndexCandidate]:
    """Paths that every alternative compares with a value."""
    by_path: dict[PropertyPath, list[Condition]] | None = None
    for term in terms:
        values = {
            candidate.path: candidate.term
            for part in conjuncts(term)
            for candidate in _candidates_of(part)
            if candidate.selectivity == "value"
        }
        if by_path is None:
            by_path = {path: [each] for path, each in values.items()}
        else:
            by_path = {path: [*by_path[path], values[path]] for path in by_path if path in values}
    return [
        IndexCandidate(path, any_of(parts), "values") for path, parts in (by_path or {}).items()
    ]
