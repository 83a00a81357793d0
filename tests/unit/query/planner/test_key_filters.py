"""What filters say of the paths of a partition key."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.query import compile_query
from perseid.query.planner.key_filters import key_alternatives, key_filter

A, B = ("a",), ("b", "c")
PARAMETERS = {"@one": 1, "@list": [1, 2], "@yes": True}


@pytest.mark.parametrize(("condition", "alternatives"), [
    ("c.a = 1", [{A: 1}]),
    ("1 = c['a']", [{A: 1}]),
    ("c.a = @one AND c.b.c = 'x'", [{A: 1, B: "x"}]),
    ("c.a = null AND c.other > 5", [{A: None}]),
    ("c.a IN (1, 'x', @one)", [{A: 1}, {A: "x"}, {A: 1}]),
    ("c.a = 1 OR c.a = 2", [{A: 1}, {A: 2}]),
    ("c.a = 1 OR c.other = 2", [{A: 1}, {}]),
    ("(c.a = 1 OR c.a = 2) AND c.b.c IN (3, 4)",
     [{A: 1, B: 3}, {A: 1, B: 4}, {A: 2, B: 3}, {A: 2, B: 4}]),
    ("(c.a = 1 AND c.b.c = 3) OR (c.a = 2 AND c.b.c = 4)", [{A: 1, B: 3}, {A: 2, B: 4}]),
    ("c.a = 1 AND c.a = 1.0", [{A: 1.0}]),
    # nothing can pass
    ("false", []), ("@one", []), ("c.a = 1 AND c.a = 2", []), ("c.a = 1 AND false", []),
    ("c.a = undefined", []), ("c.a = @absent", []), ("c.a = true AND c.a = 1", []),
    # nothing is known
    ("true", [{}]), ("@yes", [{}]), ("c.a > 1", [{}]), ("NOT (c.a = 1)", [{}]), ("c.a = c.b", [{}]),
    ("c.a = [1]", [{}]), ("c.a = @list", [{}]), ("c.a IN (1, c.b)", [{}]), ("c.b = 1", [{}]),
    ("c.a[0] = 1", [{}]), ("ARRAY_CONTAINS(@list, c.a)", [{}]),
])  # fmt: skip
def test_ways_to_pass(condition: str, alternatives: list[dict[Any, Any]]) -> None:
    bound = compile_query(f"SELECT * FROM c WHERE {condition}").bound
    assert key_alternatives(bound, PARAMETERS, [A, B]) == alternatives


@pytest.mark.parametrize("text", [
    "SELECT * FROM c",
    "SELECT * FROM t IN c.tags WHERE t.a = 1",
    "SELECT t FROM c JOIN t IN c.tags WHERE t.a = 1",
])  # fmt: skip
def test_queries_that_say_nothing_of_the_item(text: str) -> None:
    bound = compile_query(text).bound
    assert key_alternatives(bound, {}, [A]) == [{}]
    assert key_filter(bound, {}, [A]) is None


def test_ways_do_not_multiply_without_end() -> None:
    numbers = ", ".join(map(str, range(900)))
    text = f"SELECT * FROM c WHERE c.a IN ({numbers}) AND c.b.c IN ({numbers})"
    assert key_alternatives(compile_query(text).bound, {}, [A, B]) == [{A: n} for n in range(900)]


def test_a_computed_property_is_no_stored_one() -> None:
    computed = (("a", "SELECT VALUE c.x FROM c"),)
    bound = compile_query("SELECT * FROM c WHERE c.a = 1", computed).bound
    assert key_alternatives(bound, {}, [A]) == [{}]


def test_a_query_in_from_has_the_filter() -> None:
    bound = compile_query("SELECT * FROM (SELECT TOP 5 c.x FROM c WHERE c.a = 1) AS d").bound
    assert key_alternatives(bound, {}, [A]) == [{A: 1}]
