"""Which property paths the indexing policy of a container allows to be indexed."""

from __future__ import annotations

from typing import Final

from perseid.charges import IndexPaths
from perseid.conditions import AllOf, AnyOf, Condition, Not, PropertyPath
from perseid.documents import SYSTEM_PROPERTIES
from perseid.model import Container

# Indexed in every container, although no policy lists them; and those that are never indexed.
_ALWAYS_INDEXED: Final = frozenset({"id", "_ts"})
_NEVER_INDEXED: Final = SYSTEM_PROPERTIES - {"_ts"}


def is_indexable(container: Container, path: PropertyPath) -> bool:
    """True if the indexing policy allows the values at a path to be indexed."""
    policy = container.properties.get("indexingPolicy", {})
    if str(policy.get("indexingMode", "")).lower() == "none" or path[0] in _NEVER_INDEXED:
        return False
    if len(path) == 1 and path[0] in _ALWAYS_INDEXED:
        return True
    point: IndexPaths = container.index
    for step in path:
        point = point.child(step if isinstance(step, str) else None)
    return point.scalar


def paths_of(condition: Condition) -> set[PropertyPath]:
    """The paths that a condition refers to."""
    if isinstance(condition, AllOf | AnyOf):
        return {path for term in condition.terms for path in paths_of(term)}
    if isinstance(condition, Not):
        return paths_of(condition.term)
    return {condition.path}
