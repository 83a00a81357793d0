"""Parts of a condition that an index over one path can answer, and which of them to follow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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

# More candidates than this are dense enough for a scan to meet a page of them soon.
MAX_CANDIDATES: Final = 20_000
# Up to so many are sorted rather than looked for along the order of another property.
SORTED_UP_TO: Final = 1000


# How much an index narrows a search down: to one value, some, a stretch of them, …
Selectivity: TypeAlias = Literal["value", "values", "stretch", "side", "type"]
_SELECTIVITIES: Final[tuple[Selectivity, ...]] = ("value", "values", "stretch", "side", "type")


class IndexCandidate(NamedTuple):
    """A part of a condition that is about one path."""

    path: PropertyPath
    term: Condition
    selectivity: Selectivity


@lru_cache(maxsize=1024)
def leads(condition: Condition) -> tuple[IndexCandidate, ...]:
    """What indexes could answer, the most promising first."""
    by_path: dict[PropertyPath, list[IndexCandidate]] = {}
    for term in conjuncts(condition):
        for candidate in _candidates_of(term):
            by_path.setdefault(candidate.path, []).append(candidate)
    result = []
    for path, parts in by_path.items():
        selectivity = min((each.selectivity for each in parts), key=_SELECTIVITIES.index)
        if selectivity == "side" and sum(each.selectivity == "side" for each in parts) > 1:
            selectivity = "stretch"
        result.append(IndexCandidate(path, all_of([each.term for each in parts]), selectivity))
    return tuple(sorted(result, key=lambda candidate: _SELECTIVITIES.index(candidate.selectivity)))


@lru_cache(maxsize=1024)
def _most_promising(
    condition: Condition, indexable: frozenset[PropertyPath]
) -> tuple[IndexCandidate, ...]:
    """Those among them to choose from, by paths that may be indexed."""
    wanted = [each for each in leads(condition) if each.path in indexable]
    return tuple([each for each in wanted if each.selectivity == wanted[0].selectivity])


def _choices(search: Search) -> tuple[IndexCandidate, ...]:
    """What to choose from; nothing within a partition, which has an index of its own."""
    if search.pk_prefix is not None or search.where is None:
        return ()
    return _most_promising(search.where.condition, search.indexable)


def only_candidate(search: Search) -> IndexCandidate | None:
    """The lead to follow where there is no choice, if there is one at all."""
    found = _choices(search)
    return found[0] if len(found) == 1 else None


async def best_candidate(
    search: Search,
    index_of: Callable[[PropertyPath], Awaitable[str | None]],
    count: Callable[[IndexCandidate, str], Awaitable[int]],
) -> tuple[IndexCandidate, str] | None:
    """The lead to follow and its index: of those that promise most, the one with fewest items.

    `index_of` may make an index; `count` need not count further than FEW.
    """
    found = []
    for candidate in _choices(search):
        index = await index_of(candidate.path)
        if index is not None:
            found.append((candidate, index))
    if len(found) < 2:
        return found[0] if found else None
    counts = [await count(*each) for each in found]
    return found[counts.index(min(counts))]


def required_ids(search: Search) -> tuple[int, ...]:
    """The places of the values of which an item's id must be one, within a partition, which has an
    index of them; none if it may be any."""
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
        return [IndexCandidate(term.path, term, "value" if term.operator == "=" else "side")]
    if isinstance(term, TextMatch):
        return [IndexCandidate(term.path, term, "stretch")] if term.where == "start" else []
    if isinstance(term, HasType):
        is_one = len(term.ranks) == 1 and has_single_value(term.ranks[0])
        return [IndexCandidate(term.path, term, "value" if is_one else "type")]
    if isinstance(term, AnyOf):
        return _common_candidates(term.terms)
    return []


def _common_candidates(terms: tuple[Condition, ...]) -> list[IndexCandidate]:
    """What alternatives have in common: a path that each of them wants a value of."""
    found: dict[PropertyPath, list[Condition]] | None = None
    for term in terms:
        values = {
            candidate.path: candidate.term
            for part in conjuncts(term)
            for candidate in _candidates_of(part)
            if candidate.selectivity == "value"
        }
        if found is None:
            found = {path: [each] for path, each in values.items()}
        else:
            found = {path: [*found[path], values[path]] for path in found if path in values}
    return [IndexCandidate(path, any_of(parts), "values") for path, parts in (found or {}).items()]
