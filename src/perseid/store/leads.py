"""Parts of a condition that an index over one path can answer, and which of them to follow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from perseid.conditions import (
    STRING,
    Compared,
    Condition,
    Matched,
    Path,
    Some,
    Typed,
    conjuncts,
    every,
    has_only_value,
    some,
)
from perseid.store.protocol import Scan

# More candidates than this are dense enough for a scan to meet a page of them soon.
MOST_CANDIDATES: Final = 20_000
# Up to so many are sorted rather than looked for along the order of another property.
FEW: Final = 1000


# How much an index narrows a search down: to one value, some, a stretch of them, …
Strength: TypeAlias = Literal["value", "values", "stretch", "side", "type"]
_STRENGTHS: Final[tuple[Strength, ...]] = ("value", "values", "stretch", "side", "type")


class Lead(NamedTuple):
    """A part of a condition that is about one path."""

    path: Path
    term: Condition
    strength: Strength


@lru_cache(maxsize=1024)
def leads(condition: Condition) -> tuple[Lead, ...]:
    """What indexes could answer, the most promising first."""
    by_path: dict[Path, list[Lead]] = {}
    for term in conjuncts(condition):
        for lead in _leads_of(term):
            by_path.setdefault(lead.path, []).append(lead)
    result = []
    for path, parts in by_path.items():
        strength = min((each.strength for each in parts), key=_STRENGTHS.index)
        if strength == "side" and sum(each.strength == "side" for each in parts) > 1:
            strength = "stretch"
        result.append(Lead(path, every([each.term for each in parts]), strength))
    return tuple(sorted(result, key=lambda lead: _STRENGTHS.index(lead.strength)))


@lru_cache(maxsize=1024)
def _most_promising(condition: Condition, indexable: frozenset[Path]) -> tuple[Lead, ...]:
    """Those among them to choose from, by paths that may be indexed."""
    wanted = [each for each in leads(condition) if each.path in indexable]
    return tuple([each for each in wanted if each.strength == wanted[0].strength])


def _candidates(scan: Scan) -> tuple[Lead, ...]:
    """What to choose from; nothing within a partition, which has an index of its own."""
    if scan.pk_prefix is not None or scan.where is None:
        return ()
    return _most_promising(scan.where.condition, scan.indexable)


def only_lead(scan: Scan) -> Lead | None:
    """The lead to follow where there is no choice, if there is one at all."""
    found = _candidates(scan)
    return found[0] if len(found) == 1 else None


async def best_lead(
    scan: Scan,
    index_of: Callable[[Path], Awaitable[str | None]],
    count: Callable[[Lead, str], Awaitable[int]],
) -> tuple[Lead, str] | None:
    """The lead to follow and its index: of those that promise most, the one with fewest items.

    `index_of` may make an index; `count` need not count further than FEW.
    """
    found = []
    for lead in _candidates(scan):
        index = await index_of(lead.path)
        if index is not None:
            found.append((lead, index))
    if len(found) < 2:
        return found[0] if found else None
    counts = [await count(*each) for each in found]
    return found[counts.index(min(counts))]


def wanted_ids(scan: Scan) -> tuple[int, ...]:
    """The places of the values of which an item's id must be one, within a partition, which has an
    index of them; none if it may be any."""
    if scan.where is None or scan.pk_prefix is None or scan.is_prefix:
        return ()
    return _wanted_ids(scan.where.condition)


@lru_cache(maxsize=1024)
def _wanted_ids(condition: Condition) -> tuple[int, ...]:
    for term in conjuncts(condition):
        choices = term.terms if isinstance(term, Some) else (term,)
        places = [
            each.value
            for each in choices
            if isinstance(each, Compared)
            and (each.path, each.rank, each.operator) == (("id",), STRING, "=")
        ]
        if places and len(places) == len(choices):
            return tuple(places)
    return ()


def _leads_of(term: Condition) -> list[Lead]:
    if isinstance(term, Compared):
        return [Lead(term.path, term, "value" if term.operator == "=" else "side")]
    if isinstance(term, Matched):
        return [Lead(term.path, term, "stretch")] if term.where == "start" else []
    if isinstance(term, Typed):
        is_one = len(term.ranks) == 1 and has_only_value(term.ranks[0])
        return [Lead(term.path, term, "value" if is_one else "type")]
    if isinstance(term, Some):
        return _common_leads(term.terms)
    return []


def _common_leads(terms: tuple[Condition, ...]) -> list[Lead]:
    """What alternatives have in common: a path that each of them wants a value of."""
    found: dict[Path, list[Condition]] | None = None
    for term in terms:
        values = {
            lead.path: lead.term
            for part in conjuncts(term)
            for lead in _leads_of(part)
            if lead.strength == "value"
        }
        if found is None:
            found = {path: [each] for path, each in values.items()}
        else:
            found = {path: [*found[path], values[path]] for path in found if path in values}
    return [Lead(path, some(parts), "values") for path, parts in (found or {}).items()]
