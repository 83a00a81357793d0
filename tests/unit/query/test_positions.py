"""Order-preserving bytes, positions and selections, on which pages of sorted results are based."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.query import CallContext, compile_query, prepare
from perseid.query.positions import (
    LONGEST_KEY,
    ResultPosition,
    ResultRow,
    RowSelection,
    end_position,
    last_page_end,
    tie_breaker_of,
)
from perseid.query.values import UNDEFINED, order_bytes, sort_key

INVERTED_BYTES = bytes(reversed(range(256)))
SCALARS = (
    st.just(UNDEFINED)
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([2**53, 2**53 + 1, 2.0**53, -(2**53) - 1, 2**63 - 1, 2.0**63, 0, -0.0, 1e400])
    | st.floats()
    | st.text(st.characters(codec=None) | st.sampled_from("\0\x01\ud800\uffff\U00010000ab"))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\0", max_size=2), inner),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_bytes_compare_as_sort_keys_do(a: Any, b: Any) -> None:
    one, two = order_bytes(a), order_bytes(b)
    assert (one < two, one == two) == (sort_key(a) < sort_key(b), sort_key(a) == sort_key(b))
    if one != two:
        assert not one.startswith(two)
        assert not two.startswith(one)


@given(*[st.tuples(VALUES, VALUES)] * 2, st.tuples(st.booleans(), st.booleans()))
def test_bytes_of_several_keys_can_be_joined(
    a: tuple[Any, Any], b: tuple[Any, Any], descending: tuple[bool, bool]
) -> None:
    def joined(values: tuple[Any, Any]) -> bytes:
        return b"".join(
            order_bytes(value).translate(INVERTED_BYTES) if down else order_bytes(value)
            for value, down in zip(values, descending, strict=True)
        )

    expected = 0
    for left, right, down in zip(map(sort_key, a), map(sort_key, b), descending, strict=True):
        expected = expected or ((left > right) - (left < right)) * (-1 if down else 1)
    assert (joined(a) > joined(b)) - (joined(a) < joined(b)) == expected


@pytest.mark.parametrize(("smaller", "larger"), list(itertools.pairwise([
    UNDEFINED, None, False, True, math.nan, -math.inf, -(2**63), -1.5, 0, 5e-324, 1, 2**53,
    2**53 + 1, 2**63 - 1, 2**63, math.inf, "", "\0", "\0\0", "\x01", "a", "a\0", "ab", "é",
    "\uffff", "\U00010000", [], [None], ["a"], [1, 1], {}, {"a": 1}, {"a": 2}, {"b": 0},
])))  # fmt: skip
def test_order_of_types_and_values(smaller: Any, larger: Any) -> None:
    assert order_bytes(smaller) < order_bytes(larger)


@pytest.mark.parametrize("position", [
    ResultPosition(b"", b""), ResultPosition(b"\0\xff", None),
    ResultPosition(bytes(range(200)) * 2, b"\xff" * 16),
])  # fmt: skip
def test_positions_have_a_short_json_form(position: ResultPosition) -> None:
    written = orjson.dumps(position.to_json())
    assert ResultPosition.from_json(orjson.loads(written)) == position
    assert len(written) < 600


@pytest.mark.parametrize(("position", "key", "tie", "expected"), [
    (ResultPosition(b"b", b"2"), b"a", b"9", False), (ResultPosition(b"b", b"2"), b"c", b"0", True),
    (ResultPosition(b"b", b"2"), b"b", b"2", False), (ResultPosition(b"b", b"2"), b"b", b"3", True),
    (ResultPosition(b"b", None), b"b", b"9", False),
    (ResultPosition(b"b", None), b"ba", b"0", True),
    (ResultPosition(b"x" * LONGEST_KEY, b"2"), b"x" * LONGEST_KEY + b"a", b"3", True),
    (ResultPosition(b"x" * LONGEST_KEY, b"2"), b"x" * LONGEST_KEY + b"z", b"1", False),
])  # fmt: skip
def test_rows_after_a_position(
    position: ResultPosition, key: bytes, tie: bytes, expected: bool
) -> None:
    assert position.is_before(key, tie) is expected


def test_a_selection_drops_rows_beyond_its_limit() -> None:
    numbers = list(range(20_000))
    random.Random(7).shuffle(numbers)
    selection = RowSelection(ResultPosition(order_bytes(99), b""), 10)
    added = 0
    for number in numbers:
        if selection.accepts(order_bytes(number), b""):
            selection.add(ResultRow(order_bytes(number), b"", number, None))
            added += 1
    assert [row.value for row in selection.rows()] == list(range(100, 110))
    assert added < 10_000  # once it has ten rows, it accepts smaller ones only


# Keys by letter; X and Y are long and have equal starts.
START = b"x" * LONGEST_KEY
KEYS = {"a": b"a", "b": b"b", "X": START + b"1", "Y": START + b"2", "z": b"z"}


@pytest.mark.parametrize(("rows", "first", "end", "cut", "tie"), [
    ("abz", 0, 2, 2, b"1"), ("aaz", 0, 1, 1, b"0"), ("aaz", 1, 2, 2, b"1"),
    ("aXYz", 0, 2, 1, b"0"), ("aXYz", 0, 3, 3, None), ("XYz", 0, 1, None, b"0"),
    ("aXYz", 1, 2, None, b"1"), ("aXXz", 0, 2, 1, b"0"), ("abXY", 0, 3, 2, b"1"),
])  # fmt: skip
def test_where_pages_can_end(
    rows: str, first: int, end: int, cut: int | None, tie: bytes | None
) -> None:
    result = [ResultRow(KEYS[letter], str(at).encode(), at, None) for at, letter in enumerate(rows)]
    assert last_page_end(result, first, end) == cut
    end = end if cut is None else cut
    assert end_position(result, end) == ResultPosition(result[end - 1].start, tie)


def test_ties_of_long_keys_differ() -> None:
    assert tie_breaker_of(b"short") == tie_breaker_of(b"other") == b""
    assert tie_breaker_of(KEYS["X"]) != tie_breaker_of(KEYS["Y"])
    assert len(tie_breaker_of(KEYS["X"])) == 12


@pytest.mark.parametrize(("text", "paging", "streaming", "gives_items"), [
    ("SELECT * FROM c", "STREAM", True, True),
    ("SELECT VALUE c FROM c JOIN t IN c.tags", "STREAM", True, True),
    ("SELECT VALUE t FROM c JOIN t IN c.tags", "STREAM", True, False),
    ("SELECT c FROM c", "STREAM", True, False),
    ("SELECT VALUE s FROM (SELECT VALUE c FROM c) s", "STREAM", True, False),
    ("SELECT TOP 3 * FROM c", "STREAM", False, True),
    ("SELECT VALUE c.a FROM c OFFSET 1 LIMIT 2", "STREAM", False, False),
    ("SELECT * FROM c ORDER BY c.a", "SORT", False, True),
    ("SELECT TOP 3 c.a FROM c ORDER BY c.a", "SORT", False, False),
    ("SELECT DISTINCT * FROM c", "WHOLE", False, True),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.a", "WHOLE", False, False),
    ("SELECT c.a FROM c GROUP BY c.a", "WHOLE", False, False),
    ("SELECT VALUE COUNT(1) FROM c", "WHOLE", False, False),
    ("SELECT 1", "WHOLE", False, False),
    ("SELECT * FROM (SELECT TOP 1 VALUE c FROM c) s", "WHOLE", False, False),
    ("SELECT * FROM (SELECT DISTINCT VALUE c FROM c) s ORDER BY s.a", "WHOLE", False, False),
])  # fmt: skip
def test_paging(text: str, paging: str, streaming: bool, gives_items: bool) -> None:
    compiled = compile_query(text)
    assert (compiled.paging, compiled.streaming) == (paging, streaming)
    assert compiled.gives_items is gives_items


ITEMS = [{"i": i, "g": i % 3, "s": "ab"[i % 2]} for i in range(7)]


@pytest.mark.parametrize("text", [
    "SELECT VALUE c.i FROM c ORDER BY c.g", "SELECT VALUE c.i FROM c ORDER BY c.g DESC, c.s",
    "SELECT VALUE c.i FROM c ORDER BY c.nothing DESC", "SELECT VALUE c.x FROM c ORDER BY c.i",
])  # fmt: skip
def test_sorted_rows_equal_the_result_without_pages(text: str) -> None:
    execution = prepare(compile_query(text), {}, CallContext(0.0, lambda: 0.0))
    whole = list(execution.rows(ITEMS))
    selection = RowSelection(None, 100)
    for number in reversed(range(len(ITEMS))):
        execution.sort_into(selection, number, ITEMS[number], None)
    assert [row.value for row in selection.rows()] == whole


@pytest.mark.parametrize("text", [
    "SELECT DISTINCT VALUE c.g FROM c", "SELECT DISTINCT VALUE c.s FROM c ORDER BY c.g DESC",
    "SELECT DISTINCT VALUE c.g FROM c ORDER BY c.i DESC", "SELECT VALUE SUM(c.i) FROM c",
    "SELECT c.g, COUNT(1) AS k FROM c GROUP BY c.g", "SELECT VALUE c.x FROM c GROUP BY c.x",
    "SELECT VALUE c.g FROM c GROUP BY c.g, c.s ORDER BY c.s DESC",
    "SELECT DISTINCT VALUE c.s FROM c GROUP BY c.g, c.s ORDER BY c.g DESC",
    "SELECT VALUE x FROM (SELECT TOP 5 VALUE c.g FROM c) x ORDER BY x DESC", "SELECT 1",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.g FROM c) x",
])  # fmt: skip
def test_collected_rows_equal_the_result_without_pages(text: str) -> None:
    execution = prepare(compile_query(text), {}, CallContext(0.0, lambda: 0.0))
    whole = list(execution.rows(ITEMS))
    collector = execution.collector()
    assert all(collector.feed(item) for item in ITEMS)
    collected = collector.finish()
    assert [row.value for row in collected] == whole
    assert len({row[:2] for row in collected}) == len(collected)
