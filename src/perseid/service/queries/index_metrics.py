"""Index metrics: which indexes of a container a query uses, and which it could use if they existed.

They depend on the query and the indexing policy alone, as in the service, and not on the indexes
that this server has created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from perseid.model import Container
from perseid.paths import split_path
from perseid.query.index_usage import (
    CompositeFilter,
    CompositeIndex,
    IndexPath,
    SinglePathFilter,
    index_usage_of,
)
from perseid.service.queries.requests import QueryRequest, compile_for

_ALWAYS_INDEXED: Final = frozenset({("id",), ("_ts",)})
_ETAG: Final = ("_etag",)


class IndexMetrics(NamedTuple):
    """Single-path and composite indexes: those that the query uses, and those that would help."""

    utilized: tuple[SinglePathFilter, ...]
    potential: tuple[SinglePathFilter, ...]
    utilized_composites: tuple[CompositeIndex, ...]
    potential_composites: tuple[CompositeIndex, ...]


def index_metrics(container: Container, query: QueryRequest, key_levels: int = 0) -> IndexMetrics:
    """The metrics of a query. So many levels of the partition key are in its header: each of them
    is a filter without a text."""
    policy = container.properties["indexingPolicy"]
    needed = index_usage_of(compile_for(container, query.text).bound, query.parameters)
    key_paths = container.key.tokens[:key_levels]
    singles = (
        *needed.singles,
        *(
            SinglePathFilter(path, is_computed=False, service="SEEK", filter="")
            for path in key_paths
        ),
    )
    is_on = policy["indexingMode"] != "none"
    utilized = [each for each in singles if is_on and _covers(container, each)]
    known = tuple(_composites(policy)) if is_on else ()
    served = [(each.composite, _filtering(each, known)) for each in needed.filters]
    if needed.sorting is not None:
        served.append((needed.sorting, _sorting(needed.sorting, known)))
    return IndexMetrics(
        tuple(utilized),
        tuple(each for each in singles if each not in utilized),
        tuple(dict.fromkeys(index for _, index in served if index is not None)),
        tuple(dict.fromkeys(each for each, index in served if index is None)),
    )


def can_sort(container: Container, sorting: CompositeIndex) -> bool:
    """True if the container has a composite index for an ORDER BY with several keys."""
    policy = container.properties.get("indexingPolicy", {})
    if policy.get("indexingMode") == "none":
        return False
    return _sorting(sorting, _composites(policy)) is not None


def _covers(container: Container, single: SinglePathFilter) -> bool:
    path = single.path
    if path in _ALWAYS_INDEXED:
        return True
    if path == _ETAG:
        included = container.properties["indexingPolicy"]["includedPaths"]
        return any(split_path(each["path"])[0].name == "_etag" for each in included)
    point = container.index
    if single.is_computed and path[0] not in point.children:
        return False  # wildcards do not include computed properties
    for name in path:
        point = point.child(name)
    return point.scalar


def _composites(policy: Mapping[str, Any]) -> Iterator[CompositeIndex]:
    for entries in policy.get("compositeIndexes") or ():
        yield tuple((_path(entry["path"]), entry["order"] == "descending") for entry in entries)


def _path(text: str) -> IndexPath:
    return tuple(None if name == "[]" and not quoted else name for name, quoted in split_path(text))


def _filtering(needed: CompositeFilter, known: Iterable[CompositeIndex]) -> CompositeIndex | None:
    """An index that begins with the equality paths, in any order, followed by the last path."""
    count = len(needed.equal)
    for index in known:
        paths = [path for path, _ in index]
        continues = needed.last is None or paths[count : count + 1] == [needed.last]
        if set(paths[:count]) == set(needed.equal) and continues:
            return index
    return None


def _sorting(needed: CompositeIndex, known: Iterable[CompositeIndex]) -> CompositeIndex | None:
    """An index of exactly these paths, in these directions or all in the opposite ones."""
    opposite = tuple((path, not descending) for path, descending in needed)
    return next((index for index in known if index in (needed, opposite)), None)
