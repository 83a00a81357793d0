"""Chooses how a search finds its items. Searches and `access_path` both ask here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from perseid.conditions import Condition, PropertyPath
from perseid.store.sql import index_limits
from perseid.store.sql.candidates import IndexCandidate, index_candidates
from perseid.store.types import AccessPath, Search

# Up to so many items are sorted by the caller, rather than searched along the index that serves
# the order.
SORTED_UP_TO: Final = 1000

# The name of the index over a path, or None. A search may create it here.
FindIndex: TypeAlias = Callable[[PropertyPath], Awaitable[str | None]]
# How many items the index has for a candidate, counted up to a limit.
CountItems: TypeAlias = Callable[[IndexCandidate, str, int], Awaitable[int]]


class Access(NamedTuple):
    """The index that a search uses, if any, and what for."""

    index_name: str | None = None
    path: PropertyPath | None = None
    candidate: IndexCandidate | None = None  # the part of the condition that narrows the search
    is_ordered: bool = False  # the index serves the order of the search

    def describe(self, search: Search, examined: int) -> AccessPath:
        if search.pk_prefix is not None:
            return AccessPath("key", None, examined)
        if self.index_name is None:
            is_small = examined < index_limits.LEAST_ITEMS
            return AccessPath("scan", None, examined, _candidate_paths(search), is_small)
        is_order_only = self.is_ordered and self.candidate is None
        return AccessPath("order" if is_order_only else "index", self.path, examined)


NO_INDEX: Final = Access()


def _candidate_paths(search: Search) -> tuple[PropertyPath, ...]:
    """The paths on which an index could serve the search, whether or not the policy allows it."""
    condition = None if search.where is None else search.where.condition
    paths = [each.path for each in index_candidates(condition)] if condition is not None else []
    if search.order is not None:
        paths.append(search.order.path)
    return tuple(dict.fromkeys(paths))


async def choose_access(
    search: Search,
    find_index: FindIndex,
    count_items: CountItems,
    group_paths: Sequence[PropertyPath] = (),
) -> Access:
    """The order is served by an index unless the condition leaves so few items that sorting them
    is cheaper. `group_paths` are those of a search that counts groups."""
    if search.pk_prefix is not None:  # the primary key finds the items
        return NO_INDEX
    best = await _best_candidate(search, find_index, count_items)
    order = search.order
    if order is not None and order.path in search.indexable:
        if best.candidate is not None and best.path == order.path:
            return best._replace(is_ordered=True)
        if not await _is_small(best, count_items):
            index = await find_index(order.path)
            if index is not None:
                return Access(index, order.path, is_ordered=True)
    if best.candidate is None and len(group_paths) == 1 and group_paths[0] in search.indexable:
        index = await find_index(group_paths[0])
        if index is not None:
            return Access(index, group_paths[0])
    return best


async def _is_small(access: Access, count_items: CountItems) -> bool:
    if access.candidate is None or access.index_name is None:
        return False
    count = await count_items(access.candidate, access.index_name, SORTED_UP_TO + 1)
    return count <= SORTED_UP_TO


async def _best_candidate(search: Search, find_index: FindIndex, count_items: CountItems) -> Access:
    """Of the most selective candidates, the one with the fewest items."""
    usable: list[tuple[IndexCandidate, str]] = []
    for candidate in _choices(search):
        index = await find_index(candidate.path)
        if index is not None:
            usable.append((candidate, index))
    if not usable:
        return NO_INDEX
    best = 0
    if len(usable) > 1:
        counts = [await count_items(*each, SORTED_UP_TO) for each in usable]
        best = counts.index(min(counts))
    candidate, index = usable[best]
    return Access(index, candidate.path, candidate)


def only_candidate(search: Search) -> IndexCandidate | None:
    """The only candidate that `choose_access` may take; None if there are several or none."""
    choices = _choices(search)
    return choices[0] if len(choices) == 1 else None


def _choices(search: Search) -> tuple[IndexCandidate, ...]:
    if search.pk_prefix is not None or search.where is None:
        return ()
    return _most_selective(search.where.condition, search.indexable)


@lru_cache(maxsize=1024)
def _most_selective(
    condition: Condition, indexable: frozenset[PropertyPath]
) -> tuple[IndexCandidate, ...]:
    allowed = [each for each in index_candidates(condition) if each.path in indexable]
    return tuple([each for each in allowed if each.selectivity == allowed[0].selectivity])
