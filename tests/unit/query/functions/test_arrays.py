"""Array and set functions, and functions that return one of their arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perseid.query.functions import CallContext, arrays, conditional, lookup
from perseid.query.values import INT64_MAX, UNDEFINED, canonical

CONTEXT = CallContext(now=0, random=lambda: 0.5)

ROWS: list[tuple[str, list[Any], Any]] = [
    ("ARRAY_AVG", [[2, 4]], 3),
    ("ARRAY_AVG", [[1, 2]], 1.5),
    ("ARRAY_AVG", [[]], UNDEFINED),
    ("ARRAY_AVG", [[1, "2"]], UNDEFINED),
    ("ARRAY_AVG", [[1, True]], UNDEFINED),
    ("ARRAY_AVG", ["[1]"], UNDEFINED),
    ("ARRAY_CONCAT", [[1], [2, 3]], [1, 2, 3]),
    ("ARRAY_CONCAT", [[], [], [[1]]], [[1]]),
    ("ARRAY_CONCAT", [[1], 2], UNDEFINED),
    ("ARRAY_CONCAT", [[1], [2], UNDEFINED], UNDEFINED),
    ("ARRAY_CONTAINS", [[1, 2], 2], True),
    ("ARRAY_CONTAINS", [[1, 2], 2.0], True),
    ("ARRAY_CONTAINS", [[1, 2], "2"], False),
    ("ARRAY_CONTAINS", [["a", "b"], "b"], True),
    ("ARRAY_CONTAINS", [["a", "b"], "c"], False),
    ("ARRAY_CONTAINS", [[1], True], False),
    ("ARRAY_CONTAINS", [[False], 0], False),
    ("ARRAY_CONTAINS", [[None], None], True),
    ("ARRAY_CONTAINS", [[math.nan], math.nan], False),
    ("ARRAY_CONTAINS", [[[1, 2]], [1, 2]], True),
    ("ARRAY_CONTAINS", [[{"x": 1, "y": 2}], {"y": 2, "x": 1}], True),
    ("ARRAY_CONTAINS", [[{"x": 1, "y": 2}], {"x": 1}], False),
    ("ARRAY_CONTAINS", [[{"x": 1, "y": 2}], {"x": 1}, False], False),
    ("ARRAY_CONTAINS", [[{"x": 1, "y": 2}], {"x": 1}, True], True),
    ("ARRAY_CONTAINS", [[{"x": 1}], {"x": 1, "y": 2}, True], False),
    ("ARRAY_CONTAINS", [[{"x": {"a": 1, "b": 2}}], {"x": {"a": 1}}, True], True),
    ("ARRAY_CONTAINS", [[{"x": [1, 2]}], {"x": [1]}, True], False),
    ("ARRAY_CONTAINS", [[{"x": [{"a": 1, "b": 2}]}], {"x": [{"a": 1}]}, True], True),
    ("ARRAY_CONTAINS", [[{"x": 1}], {"x": True}, True], False),
    ("ARRAY_CONTAINS", [[1, 2], 2, True], True),
    ("ARRAY_CONTAINS", [[], 1], False),
    ("ARRAY_CONTAINS", [[1], UNDEFINED], UNDEFINED),
    ("ARRAY_CONTAINS", ["abc", "a"], UNDEFINED),
    ("ARRAY_CONTAINS", [UNDEFINED, 1], UNDEFINED),
    ("ARRAY_CONTAINS", [[1], 1, "true"], UNDEFINED),
    ("ARRAY_CONTAINS_ALL", [[1, 2], 1, 3], False),
    ("ARRAY_CONTAINS_ALL", [[1, 2], 2, 1], True),
    ("ARRAY_CONTAINS_ALL", [[1], 1, UNDEFINED], UNDEFINED),
    ("ARRAY_CONTAINS_ALL", [[1], UNDEFINED, 9], False),
    ("ARRAY_CONTAINS_ALL", [UNDEFINED, 1], UNDEFINED),
    ("ARRAY_CONTAINS_ALL", ["a", "a"], UNDEFINED),
    ("ARRAY_CONTAINS_ANY", [[1, 2], 5, 2], True),
    ("ARRAY_CONTAINS_ANY", [[1, 2], 5, 6], False),
    ("ARRAY_CONTAINS_ANY", [[1], 9, UNDEFINED], UNDEFINED),
    ("ARRAY_CONTAINS_ANY", [[1], UNDEFINED, 1], True),
    ("ARRAY_CONTAINS_ANY", [{}, 1], UNDEFINED),
    ("ARRAY_LENGTH", [[7, 8]], 2),
    ("ARRAY_LENGTH", [[]], 0),
    ("ARRAY_LENGTH", ["ab"], UNDEFINED),
    ("ARRAY_LENGTH", [{}], UNDEFINED),
    ("ARRAY_MAX", [[3, "b", True]], "b"),
    ("ARRAY_MAX", [[1, 3, 2]], 3),
    ("ARRAY_MAX", [[None, False]], False),
    ("ARRAY_MAX", [[]], UNDEFINED),
    ("ARRAY_MAX", [[1, [2]]], UNDEFINED),
    ("ARRAY_MAX", [3], UNDEFINED),
    ("ARRAY_MIN", [[3, "b", True]], True),
    ("ARRAY_MIN", [[3, None]], None),
    ("ARRAY_MIN", [["b", "a"]], "a"),
    ("ARRAY_MIN", [[]], UNDEFINED),
    ("ARRAY_MIN", [[{}]], UNDEFINED),
    ("ARRAY_MIN", [None], UNDEFINED),
    ("ARRAY_MEDIAN", [[5, 1, 3, 9]], 4),
    ("ARRAY_MEDIAN", [[5, 1, 3]], 3),
    ("ARRAY_MEDIAN", [[1, 2]], 1.5),
    ("ARRAY_MEDIAN", [[]], UNDEFINED),
    ("ARRAY_MEDIAN", [[1, "2", 3]], UNDEFINED),
    ("ARRAY_MEDIAN", [1], UNDEFINED),
    ("ARRAY_SLICE", [[1, 2, 3, 4], -3, 2], [2, 3]),
    ("ARRAY_SLICE", [[1, 2, 3, 4], 1], [2, 3, 4]),
    ("ARRAY_SLICE", [[1, 2, 3, 4], 1, 2], [2, 3]),
    ("ARRAY_SLICE", [[1, 2, 3, 4], -9, 2], [1, 2]),
    ("ARRAY_SLICE", [[1, 2, 3, 4], 4, 1], []),
    ("ARRAY_SLICE", [[1, 2, 3, 4], 1, 0], []),
    ("ARRAY_SLICE", [[1, 2, 3, 4], 1, -1], []),
    ("ARRAY_SLICE", [[1, 2, 3, 4], 1e300, 1e300], []),
    ("ARRAY_SLICE", [[1, 2, 3, 4], -1e300, 1e300], [1, 2, 3, 4]),
    ("ARRAY_SLICE", [[1, 2], 0.5], UNDEFINED),
    ("ARRAY_SLICE", [[1, 2], 0, 1.5], UNDEFINED),
    ("ARRAY_SLICE", ["ab", 0], UNDEFINED),
    ("ARRAY_SUM", [[1, 2.5]], 3.5),
    ("ARRAY_SUM", [[]], 0),
    ("ARRAY_SUM", [[INT64_MAX, 1]], 2.0**63),
    ("ARRAY_SUM", [[1e308, 1e308]], math.inf),
    ("ARRAY_SUM", [[math.inf, -math.inf]], math.nan),
    ("ARRAY_SUM", [[1, None]], UNDEFINED),
    ("ARRAY_SUM", [1], UNDEFINED),
    ("ObjectToArray", [{"a": 1}, "n"], [{"n": "a", "v": 1}]),
    ("ObjectToArray", [{"b": 1, "a": None}], [{"k": "b", "v": 1}, {"k": "a", "v": None}]),
    ("ObjectToArray", [{"a": 1}, "n", "x"], [{"n": "a", "x": 1}]),
    ("ObjectToArray", [{}], []),
    ("ObjectToArray", [[]], UNDEFINED),
    ("ObjectToArray", [{"a": 1}, 1], UNDEFINED),
    ("SetDifference", [[1, 1, 2], [2]], [1]),
    ("SetDifference", [[3, 1, [2]], [[2.0]]], [3, 1]),
    ("SetDifference", [[True], [1]], [True]),
    ("SetDifference", [[1], 1], UNDEFINED),
    ("SetEqual", [[1, 2, 2], [2, 1]], True),
    ("SetEqual", [[1], [True]], False),
    ("SetEqual", [[], []], True),
    ("SetEqual", [[1], None], UNDEFINED),
    ("SetIntersect", [[1, 2, 3], [3, 9, 1]], [3, 1]),
    ("SetIntersect", [[1, 1], [1, 1]], [1]),
    ("SetIntersect", [[{"a": 1}], [{"a": 1.0}]], [{"a": 1}]),
    ("SetIntersect", ["a", ["a"]], UNDEFINED),
    ("SetUnion", [[1, 2], [3, 2]], [1, 2, 3]),
    ("SetUnion", [[1, 1], []], [1]),
    ("SetUnion", [[1], UNDEFINED], UNDEFINED),
    ("CHOOSE", [2, "x", "y"], "y"),
    ("CHOOSE", [1.0, "x", "y"], "x"),
    ("CHOOSE", [1, "x", UNDEFINED], "x"),
    ("CHOOSE", [2, "x", UNDEFINED], UNDEFINED),
    ("CHOOSE", [0, "x"], UNDEFINED),
    ("CHOOSE", [3, "x", "y"], UNDEFINED),
    ("CHOOSE", [-1, "x", "y"], UNDEFINED),
    ("CHOOSE", [1e300, "x", "y"], UNDEFINED),
    ("CHOOSE", [1.5, "x", "y"], UNDEFINED),
    ("CHOOSE", ["1", "x"], UNDEFINED),
    ("IIF", [True, "t", "f"], "t"),
    ("IIF", [False, "t", "f"], "f"),
    ("IIF", [1, "t", "f"], "f"),
    ("IIF", [None, "t", "f"], "f"),
    ("IIF", [UNDEFINED, "t", "f"], "f"),
    ("IIF", [True, "t", UNDEFINED], "t"),
    ("IIF", [True, UNDEFINED, "f"], UNDEFINED),
]


@pytest.mark.parametrize(("name", "args", "result"), ROWS)
def test_array_functions(name: str, args: list[Any], result: Any) -> None:
    function = lookup(name)
    assert function is not None
    assert canonical(function.call(CONTEXT, args)) == canonical(result)


def test_every_array_function_has_a_row() -> None:
    functions = (*arrays.FUNCTIONS, *conditional.FUNCTIONS)
    assert {f.name for f in functions} == {name for name, _, _ in ROWS}


def test_arguments_are_not_changed() -> None:
    a, b = [3, 1, 1], [2, 1]
    for name in ("ARRAY_CONCAT", "SetUnion", "SetIntersect", "SetDifference"):
        function = lookup(name)
        assert function is not None
        function.call(CONTEXT, [a, b])
    assert (a, b) == ([3, 1, 1], [2, 1])
