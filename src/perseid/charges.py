"""The request-unit model: what each operation costs, and how many index terms an item has.

Every figure is a constant of this module and every charge a function of sizes and counts, so the
same work always costs the same. Budgets are in `service/throughput`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from perseid.documents import SYSTEM_PROPERTIES
from perseid.errors import BadRequest
from perseid.paths import Segment, split_path

MISS: Final = 1.0  # a point read that finds nothing, or nothing new
METADATA_READ: Final = 1.0
METADATA_WRITE: Final = 5.0
REJECTED: Final = 1.24  # 400, 409 and 412 on items
THROTTLED: Final = 0.38

_PER_TERM: Final = 0.2
_PER_UNIQUE_KEY: Final = 0.2
_PER_PATCH_OPERATION: Final = 0.4
_QUERY_START: Final = 1.79
_QUERY_LEAST: Final = 2.0
_PER_INDEX_ENTRY: Final = 0.0025
_PER_UDF_CALL: Final = 0.05
_FEED_LEAST: Final = 1.0
_SCRIPT_START: Final = 1.0
_SCRIPT_SHARE: Final = 0.95


# Sizes ------------------------------------------------------------------------------------------


class Anchor(NamedTuple):
    """What an item of a size costs to read and to write."""

    kilobytes: int
    read: float
    write: float


# The published table; 100 KB and the 5.00 for writing 1 KB come from the worked examples.
ANCHORS: Final = (
    Anchor(1, 1.00, 5.00),       Anchor(2, 1.04, 6.29),         Anchor(4, 1.14, 6.67),
    Anchor(8, 1.33, 7.04),       Anchor(16, 1.67, 9.52),        Anchor(32, 2.19, 11.23),
    Anchor(64, 4.76, 22.67),     Anchor(100, 9.90, 48.00),      Anchor(128, 9.95, 48.19),
    Anchor(256, 20.28, 98.29),   Anchor(512, 40.95, 184.57),    Anchor(1024, 145.90, 625.00),
    Anchor(2048, 291.80, 1250.00),
)  # fmt: skip

_Line: TypeAlias = tuple[float, float]  # the cost at an anchor, and of each byte above it


def _lines(costs: tuple[float, ...], starts: tuple[int, ...]) -> tuple[_Line, ...]:
    slopes = [
        (costs[index + 1] - costs[index]) / (starts[index + 1] - starts[index])
        for index in range(len(starts) - 1)
    ]
    # above the last anchor the last slope applies
    return tuple(zip(costs, (*slopes, slopes[-1]), strict=True))


_STARTS: Final = tuple(anchor.kilobytes * 1024 for anchor in ANCHORS)
_READ: Final = _lines(tuple(anchor.read for anchor in ANCHORS), _STARTS)
_WRITE: Final = _lines(tuple(anchor.write for anchor in ANCHORS), _STARTS)
_SMALL: Final = _STARTS[0]
_SMALL_READ: Final = ANCHORS[0].read
_SMALL_WRITE: Final = ANCHORS[0].write


def read(size: int) -> float:
    """The unrounded cost of reading `size` bytes."""
    if size <= _SMALL:
        return _SMALL_READ
    index = bisect_right(_STARTS, size) - 1
    cost, slope = _READ[index]
    return cost + slope * (size - _STARTS[index])


def write(size: int) -> float:
    """The unrounded cost of writing `size` bytes, without index terms."""
    if size <= _SMALL:
        return _SMALL_WRITE
    index = bisect_right(_STARTS, size) - 1
    cost, slope = _WRITE[index]
    return cost + slope * (size - _STARTS[index])


# Operations -------------------------------------------------------------------------------------


def point_read(size: int) -> float:
    """The charge of reading one item by its key."""
    return _SMALL_READ if size <= _SMALL else _rounded(read(size))


def create(size: int, terms: int, unique_keys: int = 0) -> float:
    """The charge of a create, or of an upsert that creates."""
    return _rounded(write(size) + _PER_TERM * terms + _PER_UNIQUE_KEY * unique_keys)


def replace(old_size: int, new_size: int, changed_terms: int) -> float:
    """The charge of a replace, or of an upsert that replaces.

    A property with a new value changes two terms: one is removed and one is added.
    """
    return _rounded(write(old_size) + write(new_size) + _PER_TERM * changed_terms)


def patch(old_size: int, new_size: int, changed_terms: int, operations: int) -> float:
    """The charge of a patch: that of a replace, and an amount for each operation."""
    return round(replace(old_size, new_size, changed_terms) + _PER_PATCH_OPERATION * operations, 2)


def delete(size: int, terms: int) -> float:
    """The charge of a delete, and of purging the same item."""
    return _rounded(write(size) + _PER_TERM * terms)


def hundredths(charge: float) -> int:
    """A charge as a whole number of hundredths of a request unit, as budgets count it."""
    return round(charge * 100)


def delete_all(groups: Iterable[tuple[int, int, int]]) -> float:
    """The charge of deleting many items: groups of size, number of items, number of terms."""
    return round(sum(write(size) * items + _PER_TERM * terms for size, items, terms in groups), 2)


def batch(charges: Iterable[float]) -> float:
    """The charge of a batch: the sum of its operations."""
    return round(sum(charges), 2)


def query_page(loaded_sizes: Collection[int], index_entries: int = 0, udf_calls: int = 0) -> float:
    """The charge of a query page; `index_entries` were read without loading their items."""
    if not loaded_sizes or max(loaded_sizes) <= _SMALL:
        loaded = _SMALL_READ * len(loaded_sizes)
    else:
        loaded = sum(map(read, loaded_sizes))
    total = _QUERY_START + loaded + _PER_INDEX_ENTRY * index_entries + _PER_UDF_CALL * udf_calls
    return _QUERY_LEAST if total < _QUERY_LEAST else _rounded(total)


@lru_cache(maxsize=4096)
def _rounded(charge: float) -> float:
    """Rounded to two decimals; cached, because rounding takes a microsecond."""
    return round(charge, 2)


def feed_page(sizes: Iterable[int]) -> float:
    """The charge of a page of a read feed or change feed."""
    return round(max(_FEED_LEAST, sum(map(read, sizes))), 2)


def script(inside: float) -> float:
    """The charge of a script whose operations cost `inside`."""
    return round(_SCRIPT_START + _SCRIPT_SHARE * inside, 2)


_DOUBLE_CHARGE_LEVELS: Final = frozenset(("Strong", "BoundedStaleness"))


def consistency_factor(level: str | None) -> int:
    """The factor of the consistency level for the charges of reads, queries and feeds."""
    return 2 if level in _DOUBLE_CHARGE_LEVELS else 1


@lru_cache(maxsize=4096)
def text(charge: float) -> str:
    """A charge as its header has it: at most two decimals, no trailing zeros."""
    return f"{charge:.2f}".rstrip("0").rstrip(".")


# Index terms ------------------------------------------------------------------------------------

# Properties that are indexed always or never. They cost nothing in either case.
_UNCOUNTED: Final = SYSTEM_PROPERTIES | {"id"}
_NESTED: Final = frozenset((dict, list))


@dataclass(frozen=True, slots=True)
class IndexPaths:
    """The included and excluded paths of an indexing policy, from one path downwards.

    `scalar` says whether a value at this path is indexed, `below` whether values below it are that
    no child covers. The child None stands for the elements of an array.
    """

    scalar: bool
    below: bool
    children: Mapping[str | None, IndexPaths]

    def child(self, name: str | None) -> IndexPaths:
        """The paths one step further down."""
        return self.children.get(name) or (EVERYTHING if self.below else NOTHING)


EVERYTHING: Final = IndexPaths(scalar=True, below=True, children={})
NOTHING: Final = IndexPaths(scalar=False, below=False, children={})


@dataclass(slots=True)
class _PathNode:
    """A path of the policy while the policy is read; None is not decided yet."""

    scalar: bool | None = None
    below: bool | None = None
    children: dict[str | None, _PathNode] = field(default_factory=dict)

    def descend(self, segments: Iterable[Segment]) -> Iterator[_PathNode]:
        point = self
        for name, quoted in segments:
            if not quoted and name[0] == "{" and name[-1] == "}":
                # a tuple of properties, which is always the last step: each of them is meant
                for member in name[1:-1].split(","):
                    yield point.children.setdefault(member.strip(), _PathNode())
                return
            step = None if name == "[]" and not quoted else name
            point = point.children.setdefault(step, _PathNode())
        yield point

    def freeze(self, inherited: bool) -> IndexPaths:
        below = inherited if self.below is None else self.below
        scalar = below if self.scalar is None else self.scalar
        return IndexPaths(
            scalar, below, {name: point.freeze(below) for name, point in self.children.items()}
        )


def compile_paths(indexing_policy: Mapping[str, Any]) -> IndexPaths:
    """The included and excluded paths of a policy, in the form that documents are compared with.

    The deeper path wins, `/?` wins over `/*`, and an exclusion wins over an equal inclusion.
    """
    if str(indexing_policy.get("indexingMode", "")).lower() == "none":
        return NOTHING
    included = _path_texts(indexing_policy, "includedPaths")
    excluded = _path_texts(indexing_policy, "excludedPaths")
    root = _PathNode()
    for is_included, paths in ((True, included), (False, excluded)):
        for path in paths:
            _add_rule(root, path, is_included=is_included)
    for name in _UNCOUNTED:
        root.children.pop(name, None)
    return root.freeze(inherited=not included)


def _path_texts(policy: Mapping[str, Any], name: str) -> list[str]:
    entries = policy.get(name) or []
    try:
        paths = [entry["path"] for entry in entries]
    except (TypeError, KeyError):
        paths = [None]
    if not all(isinstance(path, str) for path in paths):
        raise BadRequest(f"The {name} of an indexing policy are objects with a path.", listed=True)
    return paths


def _add_rule(root: _PathNode, path: str, *, is_included: bool) -> None:
    segments = split_path("/*" if path == "/" else path)
    last = segments[-1]
    if last == Segment("?", quoted=False):
        for point in root.descend(segments[:-1]):
            point.scalar = is_included
        return
    # a path that ends in a name means the same as with /*
    ends_in_wildcard = last == Segment("*", quoted=False)
    for point in root.descend(segments[:-1] if ends_in_wildcard else segments):
        point.below = is_included


def count_terms(document: Mapping[str, Any], paths: IndexPaths) -> int:
    """The number of index terms of an item: one for each value at an indexed path."""
    if paths.children:
        return _count_differing_terms(document, {}, paths)
    return _count_values(document) if paths.below else 0


def _count_values(document: Mapping[str, Any]) -> int:
    """The count if everything is indexed, as by default: the number of scalar values."""
    count = 0
    counted = {**document}
    for name in _UNCOUNTED.intersection(document):
        del counted[name]
    level = [*counted.values()]
    while not _NESTED.isdisjoint(map(type, level)):
        nested = [value for value in level if type(value) in _NESTED]
        count += len(level) - len(nested)
        level = [
            inner
            for value in nested
            for inner in (value.values() if type(value) is dict else value)
        ]
    return count + len(level)


def changed_terms(old: Mapping[str, Any], new: Mapping[str, Any], paths: IndexPaths) -> int:
    """How many index terms a write removes and adds; a changed value counts as two."""
    if not paths.children and not paths.below:
        return 0
    removed, added = _differing_parts(old, new)
    return _count_differing_terms(removed, added, paths) if removed or added else 0


_ABSENT: Final = object()
_COMPARED_LEVELS: Final = 2


def _differing_parts(old: Any, new: Any, levels: int = _COMPARED_LEVELS) -> tuple[Any, Any]:
    """Two values without the parts that are equal in both, since those have the same terms.

    Comparing is much cheaper than listing terms, and a patch may change one of thousands of values.
    But each level compares all levels below it, so there are few.
    """
    if not levels:
        return old, new
    if type(old) is dict and type(new) is dict:
        removed = {
            name: value for name, value in old.items() if _differs(value, new.get(name, _ABSENT))
        }
        added = {name: value for name, value in new.items() if name in removed or name not in old}
        for name, value in removed.items():
            if type(value) in _NESTED and name in added:
                removed[name], added[name] = _differing_parts(value, added[name], levels - 1)
        return removed, added
    if type(old) is list and type(new) is list and not _NESTED.isdisjoint(map(type, old)):
        pairs = [
            _differing_parts(*pair, levels - 1)
            for pair in zip(old, new, strict=False)
            if _differs(*pair)
        ]
        return (
            [before for before, _ in pairs] + old[len(new) :],
            [after for _, after in pairs] + new[len(old) :],
        )
    return old, new


def _differs(before: Any, after: Any) -> bool:
    """True if two values may have different terms; True for equal ones only costs time."""
    if type(before) is not type(after) or before != after:
        return True
    # as text, since [True] == [1] in Python
    return type(before) in _NESTED and orjson.dumps(before) != orjson.dumps(after)


def _count_differing_terms(
    old: Mapping[str, Any], new: Mapping[str, Any], paths: IndexPaths
) -> int:
    """How many terms one document has and the other one has not, counted as often as they occur.

    A term is a path and a value. All values of a path are compared together, so that the time is
    linear: in an array of a million numbers they have one path.
    """
    count = 0
    pending: list[tuple[list[Any], list[Any], IndexPaths]] = [
        ([old[name]] if name in old else [], [new[name]] if name in new else [], paths.child(name))
        for name in {**old, **new}
        if name not in _UNCOUNTED
    ]
    while pending:
        before, after, here = pending.pop()
        if here is NOTHING:
            continue
        if not (_NESTED.isdisjoint(map(type, before)) and _NESTED.isdisjoint(map(type, after))):
            children: dict[str | None, tuple[list[Any], list[Any]]] = {}
            before, after = _split_off(before, children, 0), _split_off(after, children, 1)
            pending += [(*values, here.child(name)) for name, values in children.items()]
        if here.scalar:
            count += _count_differing_values(before, after)
    return count


def _split_off(
    values: list[Any], children: dict[str | None, tuple[list[Any], list[Any]]], side: int
) -> list[Any]:
    """The scalar values. What is inside the others goes to the children, arrays to the one None."""
    for value in values:
        if type(value) is dict:
            for name, inner in value.items():
                children.setdefault(name, ([], []))[side].append(inner)
        elif type(value) is list:
            children.setdefault(None, ([], []))[side].extend(value)
    return [value for value in values if type(value) not in _NESTED]


def _count_differing_values(before: list[Any], after: list[Any]) -> int:
    if not before or not after:
        return len(before) + len(after)
    if len(before) == len(after) == 1:  # most often, and then this is all there is
        is_same = before == after and (type(before[0]) is bool) is (type(after[0]) is bool)
        return 0 if is_same else 2
    occurrences = Counter(_distinct(after))
    common = sum(
        min(times, occurrences.get(value, 0)) for value, times in Counter(_distinct(before)).items()
    )
    return len(before) + len(after) - 2 * common


def _distinct(values: list[Any]) -> list[Any]:
    """The values as terms: true and 1, which are equal in Python, are different terms."""
    if bool not in map(type, values):
        return values
    return [(value,) if type(value) is bool else value for value in values]
