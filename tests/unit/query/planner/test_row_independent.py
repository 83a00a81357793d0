"""Which parts of a filter are known before an item is looked at."""

from __future__ import annotations

import pytest

from perseid.query import CallContext, compile_query, evaluate_row_independent
from perseid.query.values import UNDEFINED

NOW = 1_900_000_000.0
PARAMETERS = {"@n": 3, "@who": {"name": "Ada", "tags": ["x"]}}


@pytest.mark.parametrize(("condition", "parts"), [
    ("c.n = 3 + 4", {"3 + 4": 7}),
    ("c.n = 3 + 4 OR c.m = 3 + 4", {"3 + 4": 7}),
    ("c.at > GetCurrentTimestamp() - 1000 * @n",
     {"GetCurrentTimestamp() - 1000 * @n": NOW * 1000 - 3000}),
    ("c.name = LOWER(@who.name) AND c.n > 1", {"LOWER(@who.name)": "ada"}),
    ("@n = 3 AND c.n = 1", {"@n = 3": True}),
    ("@n + 1 IN (4, 5) AND c.n BETWEEN -@n AND @n + 1",
     {"@n + 1 IN (4, 5)": True, "-@n": -3, "@n + 1": 4}),
    ("c.tag IN (@who.tags[0], 'y')", {"@who.tags[0]": "x"}),
    ("c.n = (@n > 2 ? 'many' : 'few')", {"@n > 2 ? 'many' : 'few'": "many"}),
    ("c.n = @none + 1", {"@none + 1": UNDEFINED}),
    ("1 + 1 = 2", {"1 + 1 = 2": True}),
    ("LOWER(CONCAT(c.name, UPPER('a'))) = 'x'", {"UPPER('a')": "A"}),
    # what says itself what it is
    ("c.n = 3 AND c.m = @n AND c.o = -1 AND c.p IN (1, [2, -3], {'a': @n})", {}),
    ("ARRAY_CONTAINS(['a', @n], c.n)", {}),
    # chance, items, and what may take long
    ("c.n > RAND()", {}), ("c.n = c.m + 1", {}), ("c.n = REPLICATE('a', @n)", {}),
    ("c.n LIKE @p AND 'a' LIKE @p", {}), ("RegexMatch('a', @p)", {}),
    ("EXISTS(SELECT VALUE x FROM x IN c.tags WHERE x = 1 + 1)", {}),
])  # fmt: skip
def test_parts(condition: str, parts: dict[str, object]) -> None:
    compiled = compile_query(f"SELECT * FROM c WHERE {condition}")
    found = evaluate_row_independent(compiled, PARAMETERS, CallContext(now=NOW, random=lambda: 0.5))
    text = compiled.text
    assert {text[part.start : part.end]: value for part, value in found.items()} == parts


@pytest.mark.parametrize(("text", "depends_on_time"), [
    ("SELECT * FROM c WHERE c.at > DateTimeAdd('dd', -1, GetCurrentDateTime())", True),
    ("SELECT * FROM c WHERE NOW() > '2030'", True),
    ("SELECT * FROM c WHERE c.at > DateTimeAdd('dd', -1, @now)", False),
    ("SELECT c.id, GetCurrentTimestamp() AS now FROM c WHERE c.n = 1 + 1", False),
    ("SELECT * FROM c WHERE c.n = REPLICATE(NOW(), 2)", True),
])  # fmt: skip
def test_time_makes_another_filter_of_it(text: str, depends_on_time: bool) -> None:
    assert compile_query(text).depends_on_time is depends_on_time


def test_a_query_without_a_filter_has_no_parts() -> None:
    assert not compile_query("SELECT VALUE 1 + 1 FROM c").row_independent
