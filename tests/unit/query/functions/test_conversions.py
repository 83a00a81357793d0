"""Conversions of values to strings and of strings to values."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perseid.query.functions import CallContext, conversions, lookup
from perseid.query.values import UNDEFINED, canonical

CONTEXT = CallContext(now=0, random=lambda: 0.5)

ROWS: list[tuple[str, list[Any], Any]] = [
    ("StringToArray", ["[1, [2]]"], [1, [2]]),
    ("StringToArray", [" [] "], []),
    ("StringToArray", ['["a", null, true, 1.5]'], ["a", None, True, 1.5]),
    ("StringToArray", ["['a']"], UNDEFINED),
    ("StringToArray", ["[1,]"], UNDEFINED),
    ("StringToArray", ["[NaN]"], UNDEFINED),
    ("StringToArray", ['{"a":1}'], UNDEFINED),
    ("StringToArray", [""], UNDEFINED),
    ("StringToArray", ["\ud83d"], UNDEFINED),
    ("StringToArray", ["[" * 5_000], UNDEFINED),
    ("StringToArray", [[1]], UNDEFINED),
    ("StringToObject", ['{"a":1}'], {"a": 1}),
    ("StringToObject", [" {} "], {}),
    ("StringToObject", ["{a:1}"], UNDEFINED),
    ("StringToObject", ["{'a':1}"], UNDEFINED),
    ("StringToObject", ["[1]"], UNDEFINED),
    ("StringToObject", ["null"], UNDEFINED),
    ("StringToObject", [{}], UNDEFINED),
    ("StringToBoolean", [" true"], True),
    ("StringToBoolean", ["false\n"], False),
    ("StringToBoolean", ["True"], UNDEFINED),
    ("StringToBoolean", ["1"], UNDEFINED),
    ("StringToBoolean", ["\u00a0true"], UNDEFINED),
    ("StringToBoolean", [True], UNDEFINED),
    ("StringToNull", [" null"], None),
    ("StringToNull", ["NULL"], UNDEFINED),
    ("StringToNull", [None], UNDEFINED),
    ("StringToNumber", [" 1e3 "], 1000),
    ("StringToNumber", ["-1.5"], -1.5),
    ("StringToNumber", ["0"], 0),
    ("StringToNumber", ["9223372036854775807"], 2**63 - 1),
    ("StringToNumber", ["9223372036854775808"], 2.0**63),
    ("StringToNumber", ["1" * 5_000], math.inf),
    ("StringToNumber", ["1e999"], math.inf),
    ("StringToNumber", ["0x1"], UNDEFINED),
    ("StringToNumber", ["+1"], UNDEFINED),
    ("StringToNumber", [".5"], UNDEFINED),
    ("StringToNumber", ["5."], UNDEFINED),
    ("StringToNumber", ["01"], UNDEFINED),
    ("StringToNumber", ["1,2"], UNDEFINED),
    ("StringToNumber", ["1_000"], UNDEFINED),
    ("StringToNumber", ["NaN"], UNDEFINED),
    ("StringToNumber", ["١"], UNDEFINED),
    ("StringToNumber", [""], UNDEFINED),
    ("StringToNumber", [1], UNDEFINED),
    ("ToString", ["a"], "a"),
    ("ToString", [1.0], "1"),
    ("ToString", [1e21], "1e+21"),
    ("ToString", [math.nan], "NaN"),
    ("ToString", [-math.inf], "-Infinity"),
    ("ToString", [True], "true"),
    ("ToString", [False], "false"),
    ("ToString", [None], "null"),
    ("ToString", [{"a": [1, "x"]}], '{"a":[1,"x"]}'),
    ("ToString", [[]], "[]"),
    ("ToString", [[1.5, None, "é"]], '[1.5,null,"é"]'),
    ("ToString", [UNDEFINED], UNDEFINED),
]


@pytest.mark.parametrize(("name", "args", "result"), ROWS)
def test_conversions(name: str, args: list[Any], result: Any) -> None:
    function = lookup(name)
    assert function is not None
    assert canonical(function.call(CONTEXT, args)) == canonical(result)


def test_every_conversion_has_a_row() -> None:
    assert {f.name for f in conversions.FUNCTIONS} == {name for name, _, _ in ROWS}
