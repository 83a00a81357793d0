"""All function tables: names, numbers of arguments, undefined arguments; no function raises."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perseid.query.functions import AGGREGATES, BUILTINS, Builtin, CallContext, lookup
from perseid.query.functions.builtin import (
    ANY,
    ARRAY,
    BOOL,
    INT64,
    INTEGER,
    MAYBE,
    NUMBER,
    OBJECT,
    STRING,
)
from perseid.query.functions.dates import INSTANT, PART, POSITIVE
from perseid.query.values import UNDEFINED, type_name

CONTEXT = CallContext(now=1_700_000_000.5, random=lambda: 0.5)
FUNCTIONS = sorted(set(BUILTINS.values()), key=lambda function: function.name)

# name: minimum and maximum number of arguments
ARITY: dict[str, tuple[int, int | None]] = {
    "ARRAY_AVG": (1, 1), "ARRAY_CONCAT": (2, None), "ARRAY_CONTAINS": (2, 3),
    "ARRAY_CONTAINS_ALL": (2, None), "ARRAY_CONTAINS_ANY": (2, None), "ARRAY_LENGTH": (1, 1),
    "ARRAY_MAX": (1, 1), "ARRAY_MIN": (1, 1), "ARRAY_MEDIAN": (1, 1), "ARRAY_SLICE": (2, 3),
    "ARRAY_SUM": (1, 1), "CHOOSE": (2, None), "ObjectToArray": (1, 3), "SetDifference": (2, 2),
    "SetEqual": (2, 2), "SetIntersect": (2, 2), "SetUnion": (2, 2),
    "IIF": (3, 3),
    "GetCurrentDateTime": (0, 0), "GetCurrentTimestamp": (0, 0), "GetCurrentTicks": (0, 0),
    "GetCurrentDateTimeStatic": (0, 0), "GetCurrentTimestampStatic": (0, 0),
    "GetCurrentTicksStatic": (0, 0), "NOW": (0, 2), "AGO": (2, 2), "DateTimeAdd": (3, 3),
    "DateTimeBin": (2, 4), "DateTimeDiff": (3, 3), "DateTimeFormat": (2, 2),
    "DateTimeFromParts": (3, 7), "DateTimePart": (2, 2), "DateTimeToTicks": (1, 1),
    "DateTimeToTimestamp": (1, 1), "TicksToDateTime": (1, 1), "TimestampToDateTime": (1, 1),
    "YEAR": (1, 1), "MONTH": (1, 1), "DAY": (1, 1),
    "DOCUMENTID": (1, 1),
    "ABS": (1, 1), "ACOS": (1, 1), "ASIN": (1, 1), "ATAN": (1, 1), "ATN2": (2, 2),
    "CEILING": (1, 1), "FLOOR": (1, 1), "COS": (1, 1), "SIN": (1, 1), "TAN": (1, 1), "COT": (1, 1),
    "DEGREES": (1, 1), "RADIANS": (1, 1), "EXP": (1, 1), "LOG": (1, 2), "LOG10": (1, 1),
    "NumberBin": (1, 2), "PI": (0, 0), "POWER": (2, 2), "RAND": (0, 0), "ROUND": (1, 2),
    "SIGN": (1, 1), "SQRT": (1, 1), "SQUARE": (1, 1), "TRUNC": (1, 1), "IntAdd": (2, 2),
    "IntSub": (2, 2), "IntMul": (2, 2), "IntDiv": (2, 2), "IntMod": (2, 2), "IntBitAnd": (2, 2),
    "IntBitOr": (2, 2), "IntBitXor": (2, 2), "IntBitNot": (1, 1), "IntBitLeftShift": (2, 2),
    "IntBitRightShift": (2, 2), "IntBitwiseAnd": (2, 2), "IntBitwiseOr": (2, 2),
    "IntBitwiseXor": (2, 2), "IntBitwiseNot": (1, 1), "IntBitwiseLeftShift": (2, 2),
    "IntBitwiseRightShift": (2, 2),
    "CONCAT": (2, None), "CONTAINS": (2, 3), "CONTAINS_ALL_CI": (2, None),
    "CONTAINS_ALL_CS": (2, None), "CONTAINS_ANY_CI": (2, None), "CONTAINS_ANY_CS": (2, None),
    "ContainsAllCi": (2, None), "ContainsAllCs": (2, None), "ContainsAnyCi": (2, None),
    "ContainsAnyCs": (2, None), "ENDSWITH": (2, 3), "INDEX_OF": (2, 3), "LASTINDEXOF": (2, 3),
    "LEFT": (2, 2), "RIGHT": (2, 2), "LENGTH": (1, 1), "LOWER": (1, 1), "UPPER": (1, 1),
    "LTRIM": (1, 2), "RTRIM": (1, 2), "TRIM": (1, 2), "RegexMatch": (2, 3), "REPLACE": (3, 3),
    "REPLICATE": (2, 2), "REVERSE": (1, 1), "STARTSWITH": (2, 3), "STRINGEQUALS": (2, 3),
    "STRINGJOIN": (2, 2), "STRINGSPLIT": (2, 2), "StringToArray": (1, 1),
    "StringToObject": (1, 1), "StringToBoolean": (1, 1), "StringToNull": (1, 1),
    "StringToNumber": (1, 1), "SUBSTRING": (2, 3), "ToString": (1, 1), "SubstringBefore": (2, 2),
    "SubstringAfter": (2, 2), "LastSubstringBefore": (2, 2), "LastSubstringAfter": (2, 2),
    "IS_ARRAY": (1, 1), "IS_BOOL": (1, 1), "IS_BOOLEAN": (1, 1), "IS_NULL": (1, 1),
    "IS_NUMBER": (1, 1), "IS_OBJECT": (1, 1), "IS_STRING": (1, 1), "IS_DEFINED": (1, 1),
    "IS_PRIMITIVE": (1, 1), "IS_FINITE_NUMBER": (1, 1), "IS_INTEGER": (1, 1), "IS_DATETIME": (1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ARITY)
def test_names_and_arity(name: str) -> None:
    function = lookup(name)
    assert function is not None
    assert (function.min_args, function.max_args) == ARITY[name]
    assert lookup(name.lower()) is lookup(name.upper()) is function


def test_there_are_no_other_names() -> None:
    assert set(BUILTINS) == {name.upper() for name in ARITY}
    assert not set(BUILTINS) & set(AGGREGATES)


@pytest.mark.parametrize("name", ["", "COUNT", "NOPE", "ST_AREA", "VectorDistance", "CONTAINS "])
def test_unknown_names(name: str) -> None:
    assert lookup(name) is None


def test_functions_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        FUNCTIONS[0].name = "other"  # type: ignore[misc]


# --- arguments of the wrong type, and undefined ones

GOOD: dict[Callable[[Any], Any], Any] = {
    ANY: 1, ARRAY: [], BOOL: True, INT64: 1, INTEGER: 1, MAYBE: 1, NUMBER: 1.5, OBJECT: {},
    STRING: "a", INSTANT: "2024-01-01", PART: "dd", POSITIVE: 1,
}  # fmt: skip
SAMPLES: list[Any] = [None, True, 1, 1.5, "a", [], {}]


def places() -> list[Any]:
    """Each parameter of each function, with valid arguments for the others."""
    cases = []
    for function in FUNCTIONS:
        kinds = (*function.takes, *function.optional, *((function.rest,) if function.rest else ()))
        for place, kind in enumerate(kinds):
            args = [GOOD[kind] for kind in kinds]
            cases.append(pytest.param(function, kind, args, place, id=f"{function.name}-{place}"))
    return cases


@pytest.mark.parametrize(("function", "kind", "args", "place"), places())
def test_arguments_of_wrong_types_give_undefined(
    function: Builtin, kind: Callable[[Any], Any], args: list[Any], place: int
) -> None:
    if kind is MAYBE:
        return
    refused = [UNDEFINED, *(sample for sample in SAMPLES if kind(sample) is UNDEFINED)]
    assert kind is ANY or len(refused) >= 5
    for value in refused:
        with_it = [*args[:place], value, *args[place + 1 :]]
        assert function.call(CONTEXT, with_it) is UNDEFINED


# --- nothing raises

BIG = [2**63 - 1, -(2**63), 2**64, 10**400, -(10**400), 64, 63, -1, 10_000, 9999, 12]
FLOATS = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.5, 1e15, 2.0**63]
TEXTS = [
    "", "a", "A", "😀", "\ud83d", "é", "ß", "[1]", '{"a":1}', "null", " true ", "1e999",
    "[" * 2_000,
    "2024-02-29", "0001-01-01", "9999-12-31T23:59:59.9999999Z", "yyyy", "mm", "ns", "dd", "i", "x",
    "(a+)+$", "(", "[a", "a" * 10_000,
]  # fmt: skip


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 70)
    | st.sampled_from(BIG)
    | st.floats()
    | st.sampled_from(FLOATS)
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(TEXTS)
)
values = st.just(UNDEFINED) | st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)
calls = st.sampled_from(FUNCTIONS).flatmap(
    lambda function: st.tuples(
        st.just(function),
        st.lists(
            values,
            min_size=function.min_args,
            max_size=function.max_args or function.min_args + 3,
        ),
    )
)
# The same with arguments of the right types, so that more calls reach the body.
TAKEN: dict[Callable[[Any], Any], st.SearchStrategy[Any]] = {
    ANY: values,
    MAYBE: values,
    ARRAY: st.lists(scalars, max_size=5),
    BOOL: st.booleans(),
    INT64: st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 70),
    INTEGER: st.integers() | st.integers(-5, 70) | st.sampled_from([1e308, -1e308, *BIG]),
    NUMBER: st.floats() | st.integers() | st.sampled_from(BIG + FLOATS),
    OBJECT: st.dictionaries(st.text(max_size=2) | st.just("_rid"), values, max_size=3),
    STRING: st.text(max_size=8) | st.sampled_from(TEXTS),
    INSTANT: st.datetimes().map(
        lambda moment: f"{moment:%H:%M:%S}".join((f"{moment.date()}T", ""))
    ),
    PART: st.sampled_from(["yyyy", "mm", "dd", "hh", "mi", "ss", "ms", "mcs", "ns"]),
    POSITIVE: st.integers(1) | st.just(1e308),
}
well_typed_calls = st.sampled_from(FUNCTIONS).flatmap(
    lambda function: st.tuples(
        st.just(function),
        st.tuples(*(TAKEN[kind] for kind in (*function.takes, *function.optional))).map(list),
    )
)


@settings(max_examples=600, deadline=None)
@given(calls | well_typed_calls)
@example((BUILTINS["REPLICATE"], ["", 10**400]))
@example((BUILTINS["POWER"], [10**400, -(10**400)]))
@example((BUILTINS["INTBITLEFTSHIFT"], [1, 10**400]))
@example((BUILTINS["DATETIMEADD"], ["yyyy", 10**400, "2024-01-01"]))
@example((BUILTINS["DATETIMEFROMPARTS"], [10**400, 1, 1]))
def test_no_function_ever_raises(call: tuple[Builtin, list[Any]]) -> None:
    function, args = call
    type_name(function.call(CONTEXT, args))  # raises unless the result is a value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_deep_nesting_is_no_error(function: Builtin) -> None:
    deep, equal = nested(20_000), nested(20_000)
    count = function.max_args or function.min_args + 1
    for args in ([deep] * count, [deep, equal, True], [[deep], equal, True], [[deep], equal]):
        if function.min_args <= len(args) <= count:
            type_name(function.call(CONTEXT, args))
