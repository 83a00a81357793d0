"""Values: types, equality, order and output."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.query.values import (
    INT64_MAX,
    INT64_MIN,
    UNDEFINED,
    Undefined,
    as_number,
    canonical,
    equals,
    first_in_order,
    is_integer,
    is_number,
    less,
    less_equal,
    order_bytes,
    same,
    sort_key,
    to_json_text,
    to_number_text,
    to_output,
    type_name,
    type_rank,
    whole_text,
)

NAN = math.nan
INF = math.inf

# One of each rank, in order.
RANKED: list[Any] = [UNDEFINED, None, False, True, 0, "", [], {}]

numbers = st.integers(INT64_MIN, INT64_MAX) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.integers(-3, 3) | st.text(max_size=5)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=10,
)
all_values = st.just(UNDEFINED) | st.just(NAN) | json_values


def as_doubles(value: Any) -> Any:
    """`value` with all numbers as doubles: the shortest text is exact for doubles only."""
    if type(value) is list:
        return [as_doubles(item) for item in value]
    if type(value) is dict:
        return {name: as_doubles(item) for name, item in value.items()}
    return float(value) if is_number(value) else value


def nested(depth: int, leaf: Any = None) -> list[Any]:
    value: list[Any] = [leaf]
    for _ in range(depth):
        value = [value]
    return value


# --- undefined and types


def test_undefined_is_one_object() -> None:
    assert Undefined() is UNDEFINED
    assert copy.copy(UNDEFINED) is UNDEFINED
    assert copy.deepcopy([UNDEFINED])[0] is UNDEFINED
    assert pickle.loads(pickle.dumps(UNDEFINED)) is UNDEFINED
    assert repr(UNDEFINED) == "undefined"


def test_undefined_has_no_truth_value() -> None:
    with pytest.raises(TypeError):
        bool(UNDEFINED)


@pytest.mark.parametrize(("value", "name", "rank"), [
    (UNDEFINED, "undefined", 0),
    (None, "null", 1),
    (False, "boolean", 2),
    (True, "boolean", 3),
    (1, "number", 4),
    (NAN, "number", 4),
    ("", "string", 5),
    ([], "array", 6),
    ({}, "object", 7),
])  # fmt: skip
def test_types(value: Any, name: str, rank: int) -> None:
    assert type_name(value) == name
    assert type_rank(value) == rank


@pytest.mark.parametrize(("value", "number", "integer"), [
    (1, True, True),
    (1.0, True, True),
    (1.5, True, False),
    (NAN, True, False),
    (INF, True, False),
    (INT64_MAX, True, True),
    (INT64_MAX + 1, True, False),
    (float(INT64_MAX), True, False),  # the double is 2**63
    (float(INT64_MIN), True, True),
    (True, False, False),
    ("1", False, False),
    (None, False, False),
    (UNDEFINED, False, False),
])  # fmt: skip
def test_numbers_and_integers(value: Any, number: bool, integer: bool) -> None:
    assert is_number(value) is number
    assert is_integer(value) is integer


@pytest.mark.parametrize(("value", "result"), [
    (INT64_MAX, INT64_MAX), (INT64_MAX + 1, 2.0**63), (1.5, 1.5),
    (10**400, INF), (-(10**400), -INF),
])  # fmt: skip
def test_integers_beyond_64_bits_are_doubles(value: int | float, result: int | float) -> None:
    assert as_number(value) == result
    assert type(as_number(value)) is type(result)


# --- equality


@pytest.mark.parametrize(("a", "b", "result"), [
    (UNDEFINED, UNDEFINED, UNDEFINED),
    (UNDEFINED, None, UNDEFINED),
    (1, UNDEFINED, UNDEFINED),
    (NAN, NAN, UNDEFINED),
    (NAN, "a", UNDEFINED),
    (None, None, True),
    (None, False, False),
    (1, 1.0, True),
    (0.0, -0.0, True),
    (2**53 + 1, float(2**53), False),
    (1, True, False),
    (0, False, False),
    (True, True, True),
    ("a", "a", True),
    ("a", "A", False),
    ("1", 1, False),
    ([], [], True),
    ([1, 2], [1.0, 2], True),
    ([1, 2], [2, 1], False),
    ([1, 2], [1, 2, 3], False),
    ([1, 2], [1, "2"], False),
    ([1], [True], False),
    ([NAN], [NAN], False),
    ([], {}, False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1}, {"a": 1, "b": 2}, False),
    ({"a": 1}, {"b": 1}, False),
    ({"a": {"b": [0]}}, {"a": {"b": [False]}}, False),
])  # fmt: skip
def test_equality(a: Any, b: Any, result: Any) -> None:
    assert equals(a, b) is result
    assert equals(b, a) is result


def test_deep_nesting_is_compared_without_recursion() -> None:
    deep, other = nested(50_000, 1), nested(50_000, True)
    assert equals(deep, deep) is True
    assert equals(deep, other) is False
    assert canonical(deep) == canonical(nested(50_000, 1.0))
    assert sort_key(other) < sort_key(deep)


# --- order


@pytest.mark.parametrize(("a", "b", "is_less", "is_less_equal"), [
    (None, None, False, True),
    (False, True, True, True),
    (True, False, False, False),
    (True, True, False, True),
    (1, 2, True, True),
    (1, 1.0, False, True),
    (1.5, 1, False, False),
    (-INF, INF, True, True),
    ("B", "a", True, True),
    ("a", "a", False, True),
    ("\uffff", "\U00010000", True, True),  # by code point
    ("", "a", True, True),
    (NAN, 1, UNDEFINED, UNDEFINED),
    (1, NAN, UNDEFINED, UNDEFINED),
    (1, "1", UNDEFINED, UNDEFINED),
    (0, True, UNDEFINED, UNDEFINED),
    (None, 0, UNDEFINED, UNDEFINED),
    ([1], [2], UNDEFINED, UNDEFINED),
    ({}, {}, UNDEFINED, UNDEFINED),
    (UNDEFINED, 1, UNDEFINED, UNDEFINED),
    (UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED),
])  # fmt: skip
def test_less(a: Any, b: Any, is_less: Any, is_less_equal: Any) -> None:
    assert less(a, b) is is_less
    assert less_equal(a, b) is is_less_equal


def test_sort_keys_follow_the_order_of_types() -> None:
    mixed = [{"a": 1}, [1], "b", "a", INF, 1.5, -1, -INF, NAN, *reversed(RANKED)]
    ordered = sorted(mixed, key=sort_key)
    assert [type_rank(v) for v in ordered] == sorted(type_rank(v) for v in mixed)
    assert repr(ordered) == (
        "[undefined, None, False, True, nan, -inf, -1, 0, 1.5, inf, '', 'a', 'b', [], [1], {}, "
        "{'a': 1}]"
    )


@pytest.mark.parametrize(("a", "b", "equal"), [
    (1, 1.0, True),
    (1, True, False),
    (0, False, False),
    (None, UNDEFINED, False),
    (UNDEFINED, UNDEFINED, True),
    (NAN, -NAN, True),
    ("1", 1, False),
    ([1, [2]], [1, 2], False),
    ([[1], 2], [[1, 2]], False),
    ([], {}, False),
    (["a", 1], {"a": 1}, False),
    ({"a": 1, "b": True}, {"b": True, "a": 1.0}, True),
    ({"a": True}, {"a": 1}, False),
    ([UNDEFINED], [None], False),
])  # fmt: skip
def test_canonical(a: Any, b: Any, equal: bool) -> None:
    assert (canonical(a) == canonical(b)) is equal
    assert len({canonical(a), canonical(b)}) == (1 if equal else 2)


@settings(deadline=None)
@given(json_values, json_values)
def test_canonical_equality_is_equality(a: Any, b: Any) -> None:
    assert (canonical(a) == canonical(b)) is equals(a, b)
    assert canonical(copy.deepcopy(a)) == canonical(a)
    assert same(a, copy.deepcopy(a))


@settings(deadline=None)
@given(all_values, all_values, all_values)
def test_sort_key_is_a_total_order(a: Any, b: Any, c: Any) -> None:
    x, y, z = sort_key(a), sort_key(b), sort_key(c)
    assert (x < y) + (x == y) + (x > y) == 1
    first, second, third = sorted([x, y, z])
    assert first <= second <= third
    assert first <= third
    if type_rank(a) < type_rank(b):
        assert x < y
    hash(x)


@settings(deadline=None)
@given(scalars, scalars)
def test_sort_key_agrees_with_less(a: Any, b: Any) -> None:
    if less(a, b) is not UNDEFINED:
        assert less(a, b) is (sort_key(a) < sort_key(b))
        assert less_equal(a, b) is (sort_key(a) <= sort_key(b))


@settings(deadline=None)
@given(st.lists(all_values, max_size=6))
def test_sorting_does_not_depend_on_the_input_order(values: list[Any]) -> None:
    orders = {
        tuple(sorted(map(sort_key, order)))
        for order in itertools.islice(itertools.permutations(values), 24)
    }
    assert len(orders) == 1


# --- output


@pytest.mark.parametrize(("value", "text"), [
    (0, "0"), (-0.0, "0"), (1.0, "1"), (-1.5, "-1.5"), (19.90, "19.9"), (3e2, "300"), (0.1, "0.1"),
    (12345678901234567000.0, "12345678901234567000"),
    (1e20, "100000000000000000000"), (123456789012345680000.0, "123456789012345680000"),
    (1e21, "1e+21"), (1.5e300, "1.5e+300"), (-1e21, "-1e+21"),
    (0.000001, "0.000001"), (0.0000012, "0.0000012"), (1e-7, "1e-7"), (1.25e-7, "1.25e-7"),
    (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
    (INT64_MAX, "9223372036854775807"), (INT64_MIN, "-9223372036854775808"),
    (2**64, "18446744073709552000"), (10**400, "Infinity"),
    (NAN, "NaN"), (INF, "Infinity"), (-INF, "-Infinity"),
])  # fmt: skip
def test_number_text(value: int | float, text: str) -> None:
    assert to_number_text(value) == text


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_text_reads_back(x: float) -> None:
    assert float(to_number_text(x)) == x


@pytest.mark.parametrize(("value", "text"), [
    (None, "null"), (True, "true"), ("a\"\n", '"a\\"\\n"'), (1.0, "1"), (NAN, '"NaN"'),
    ([1, "x", None, [False]], '[1,"x",null,[false]]'),
    ({"a": [1, "x"], "é": {}}, '{"a":[1,"x"],"é":{}}'),
    ({"a": UNDEFINED, "b": [UNDEFINED, 1e21, INF]}, '{"b":[1e+21,"Infinity"]}'),
    ("\ud83d", '"\ufffd"'),
])  # fmt: skip
def test_json_text(value: Any, text: str) -> None:
    assert to_json_text(value) == text


@settings(deadline=None)
@given(json_values)
def test_json_text_is_json(value: Any) -> None:
    assert same(as_doubles(json.loads(to_json_text(value))), as_doubles(value))


@pytest.mark.parametrize(("text", "whole"), [
    ("abc", "abc"), ("😀", "😀"), ("\ud83d\ude00", "😀"),
    ("a\ud83d", "a\ufffd"), ("\ude00b", "\ufffdb"),
])  # fmt: skip
def test_whole_text(text: str, whole: str) -> None:
    assert whole_text(text) == whole


@pytest.mark.parametrize(("value", "text"), [
    (1.0, "1"), (-0.0, "0"), (19.90, "19.9"), (3e2, "300"),
    (1e15, "1000000000000000"), (1e16, "10000000000000000"),
    (12345678901234567000.0, "12345678901234567000"),
    (-1e18, "-1000000000000000000"),
    (INT64_MAX, "9223372036854775807"), (2**64 - 1, "18446744073709551615"),
    (NAN, '"NaN"'), (INF, '"Infinity"'), (-INF, '"-Infinity"'), (10**400, '"Infinity"'),
    ("a", '"a"'), (None, "null"), (True, "true"),
    ([1.0, UNDEFINED, [UNDEFINED]], "[1,[]]"),
    ({"a": UNDEFINED, "b": {"c": UNDEFINED, "d": 2.50}}, '{"b":{"d":2.5}}'),
])  # fmt: skip
def test_output(value: Any, text: str) -> None:
    assert orjson.dumps(to_output(value)).decode() == text


@pytest.mark.parametrize("value", [1e20, -1e20, 1e21, 1e300, 2**64, -(2**63) - 1, 10**25])
def test_output_of_very_large_numbers_reads_back(value: int | float) -> None:
    assert float(orjson.dumps(to_output(value))) == float(value)


def test_output_does_not_change_its_argument() -> None:
    value = {"a": [1.0, UNDEFINED]}
    to_output(value)
    assert repr(value) == "{'a': [1.0, undefined]}"


@settings(deadline=None)
@given(json_values)
def test_output_keeps_json_values(value: Any) -> None:
    assert same(as_doubles(orjson.loads(orjson.dumps(to_output(value)))), as_doubles(value))


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(INT64_MIN, INT64_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)


@given(_scalars, _scalars)
def test_order_bytes_can_be_decoded(value: Any, next_value: Any) -> None:
    start = order_bytes(value) + order_bytes(next_value)
    first = first_in_order(start)
    assert first is not None
    assert (first.rank, first.is_whole) == (type_rank(value), True)
    if isinstance(value, bool) or value is None:
        assert first.value is None
    else:
        assert first.value == value
    # Bytes that end inside a text give a prefix of the text.
    for end in range(1, len(order_bytes(value))) if isinstance(value, str) else ():
        cut = first_in_order(start[:end])
        assert cut is not None
        assert not cut.is_whole
        assert value.startswith(cut.value)


@pytest.mark.parametrize("value", [[], [1], {}, {"a": 1}, NAN])
def test_order_bytes_of_other_types_cannot_be_decoded(value: Any) -> None:
    assert first_in_order(order_bytes(value) + order_bytes(1)) is None
