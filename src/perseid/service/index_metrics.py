"""Index metrics: which indexes of a container a query uses, and which it could use if they existed.

All are told from the query and the indexing policy alone, as the service tells them; how this
server finds items is its own affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from perseid.model import Container
from perseid.partition import split_path
from perseid.query.index_usage import Composite, Filtering, IndexPath, Single, usage
from perseid.service.plans import compile_for
from perseid.service.query_requests import QueryRequest

_ALWAYS_INDEXED: Final = frozenset({("id",), ("_ts",)})
_ETAG: Final = ("_etag",)


class IndexMetrics(NamedTuple):
    """Indexes of single paths and of several, those in use and those that would help."""

    utilized: tuple[Single, ...]
    potential: tuple[Single, ...]
    utilized_composites: tuple[Composite, ...]
    potential_composites: tuple[Composite, ...]


def index_metrics(container: Container, query: QueryRequest) -> IndexMetrics:
    policy = container.properties["indexingPolicy"]
    wanted = usage(compile_for(container, query.text).bound, query.parameters)
    is_on = policy["indexingMode"] != "none"
    utilized = [each for each in wanted.singles if is_on and _covers(container, each)]
    known = tuple(_composites(policy)) if is_on else ()
    served = [(each.composite, _filtering(each, known)) for each in wanted.filters]
    if wanted.sorting is not None:
        served.append((wanted.sorting, _sorting(wanted.sorting, known)))
    return IndexMetrics(
        tuple(utilized),
        tuple(each for each in wanted.singles if each not in utilized),
        tuple(dict.fromkeys(index for _, index in served if index is not None)),
        tuple(dict.fromkeys(each for each, index in served if index is None)),
    )


def _covers(container: Container, single: Single) -> bool:
    path = single.path
    if path in _ALWAYS_INDEXED:
        return True
    if path == _ETAG:
        included = container.properties["indexingPolicy"]["includedPaths"]
        return any(split_path(each["path"])[0].name == "_etag" for each in included)
    point = container.index
    if single.is_computed and path[0] not in point.children:
        return False  # wildcards do not speak for computed properties
    for name in path:
        point = point.child(name)
    return point.scalar


def _composites(policy: Mapping[str, Any]) -> Iterator[Composite]:
    for entries in policy.get("compositeIndexes") or ():
        yield tuple((_path(entry["path"]), entry["order"] == "descending") for entry in entries)


def _path(text: str) -> IndexPath:
    return tuple(None if name == "[]" and not quoted else name for name, quoted in split_path(text))


def _filtering(wanted: Filtering, known: Iterable[Composite]) -> Composite | None:
    """An index that begins with the paths that are equal, in any order, and goes on as wanted."""
    count = len(wanted.equal)
    for index in known:
        paths = [path for path, _ in index]
        goes_on = wanted.last is None or paths[count : count + 1] == [wanted.last]
        if set(paths[:count]) == set(wanted.equal) and goes_on:
            return index
    return None


def _sorting(wanted: Composite, known: Iterable[Composite]) -> Composite | None:
    """An index of exactly these paths, in these directions or all in the opposite ones."""
    opposite = tuple((path, not descending) for path, descending in wanted)
    return next((index for index in known if index in (wanted, opposite)), None)
