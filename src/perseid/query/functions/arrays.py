"""Array and set functions. Elements are compared structurally, as by the operator `=`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from perseid.query.functions.builtin import (
    ANY,
    ARRAY,
    BOOL,
    INTEGER,
    MAYBE,
    OBJECT,
    STRING,
    Builtin,
)
from perseid.query.functions.logic import Truth, conjunction, disjunction
from perseid.query.functions.totals import is_rankable, total
from perseid.query.values import UNDEFINED, canonical, is_number, same, sort_key

# More than an item can have; limits the memory of arrays that are concatenated again and again.
MAX_ELEMENTS: Final = 4 * 1024 * 1024
# Up to so many values are searched one by one; for more, a dictionary of the items is faster.
_FEW: Final = 4


def average(items: list[Any]) -> Any:
    sum_ = total(items)
    return UNDEFINED if sum_ is UNDEFINED or not items else sum_ / len(items)


def concatenate(*arrays: list[Any]) -> Any:
    if sum(map(len, arrays)) > MAX_ELEMENTS:
        return UNDEFINED
    return [item for array in arrays for item in array]


def contains(items: list[Any], value: Any, partial: bool = False) -> bool:
    if partial:
        return any(_covers(item, value) for item in items)
    # Python's `in` is fast, but `True in [1]` holds and integers beyond 64 bits are not doubles.
    if type(value) is str or value is None:
        return value in items
    return any(same(item, value) for item in items)


def contains_all(items: list[Any], *values: Any) -> Truth:
    return conjunction(_contains_each(items, values))


def contains_any(items: list[Any], *values: Any) -> Truth:
    return disjunction(_contains_each(items, values))


def largest(items: list[Any]) -> Any:
    return max(items, key=sort_key) if _has_extremes(items) else UNDEFINED


def smallest(items: list[Any]) -> Any:
    return min(items, key=sort_key) if _has_extremes(items) else UNDEFINED


def median(items: list[Any]) -> Any:
    if not items or not all(map(is_number, items)):
        return UNDEFINED
    ordered = sorted(items, key=sort_key)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else average(ordered[middle - 1 : middle + 1])


def cut(items: list[Any], start: int, count: int | None = None) -> list[Any]:
    start = max(start + len(items), 0) if start < 0 else start
    return items[start:] if count is None else items[start : start + max(count, 0)]


def object_to_array(members: dict[str, Any], name: str = "k", value: str = "v") -> list[Any]:
    return [{name: key, value: item} for key, item in members.items()]


def set_difference(a: list[Any], b: list[Any]) -> list[Any]:
    excluded = _distinct(b)
    return [item for key, item in _distinct(a).items() if key not in excluded]


def set_equal(a: list[Any], b: list[Any]) -> bool:
    return _distinct(a).keys() == _distinct(b).keys()


def set_intersect(a: list[Any], b: list[Any]) -> list[Any]:
    allowed = _distinct(a)
    return [item for key, item in _distinct(b).items() if key in allowed]


def set_union(a: list[Any], b: list[Any]) -> list[Any]:
    return list(_distinct(a + b).values())


def _contains_each(items: list[Any], values: Sequence[Any]) -> list[Truth]:
    if len(values) <= _FEW:
        return [UNDEFINED if value is UNDEFINED else contains(items, value) for value in values]
    # NaN is not equal to itself, so it is left out.
    keys = _distinct([item for item in items if same(item, item)])
    return [UNDEFINED if value is UNDEFINED else canonical(value) in keys for value in values]


def _covers(item: Any, value: Any) -> bool:
    """True if `item` equals `value`, except that its objects may have more members."""
    if type(item) is dict and type(value) is dict:
        return all(name in item and _covers(item[name], value[name]) for name in value)
    if type(item) is list and type(value) is list:
        return len(item) == len(value) and all(map(_covers, item, value))
    return same(item, value)


def _has_extremes(items: list[Any]) -> bool:
    return bool(items) and all(map(is_rankable, items))


def _distinct(items: list[Any]) -> dict[tuple[Any, ...], Any]:
    """The first of each group of equal items, in order, by canonical key."""
    distinct: dict[tuple[Any, ...], Any] = {}
    for item in items:
        distinct.setdefault(canonical(item), item)
    return distinct


FUNCTIONS: Final = (
    Builtin("ARRAY_AVG", (ARRAY,), average),
    Builtin("ARRAY_CONCAT", (ARRAY, ARRAY), concatenate, rest=ARRAY),
    Builtin("ARRAY_CONTAINS", (ARRAY, ANY), contains, optional=(BOOL,)),
    Builtin("ARRAY_CONTAINS_ALL", (ARRAY, MAYBE), contains_all, rest=MAYBE, expensive=True),
    Builtin("ARRAY_CONTAINS_ANY", (ARRAY, MAYBE), contains_any, rest=MAYBE, expensive=True),
    Builtin("ARRAY_LENGTH", (ARRAY,), len),
    Builtin("ARRAY_MAX", (ARRAY,), largest),
    Builtin("ARRAY_MEDIAN", (ARRAY,), median),
    Builtin("ARRAY_MIN", (ARRAY,), smallest),
    Builtin("ARRAY_SLICE", (ARRAY, INTEGER), cut, optional=(INTEGER,)),
    Builtin("ARRAY_SUM", (ARRAY,), total),
    Builtin("ObjectToArray", (OBJECT,), object_to_array, optional=(STRING, STRING)),
    Builtin("SetDifference", (ARRAY, ARRAY), set_difference, expensive=True),
    Builtin("SetEqual", (ARRAY, ARRAY), set_equal, expensive=True),
    Builtin("SetIntersect", (ARRAY, ARRAY), set_intersect, expensive=True),
    Builtin("SetUnion", (ARRAY, ARRAY), set_union, expensive=True),
)
