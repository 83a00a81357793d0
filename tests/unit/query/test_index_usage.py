"""The index paths that a query could use, and how it uses them."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.query import compile_query
from perseid.query.index_usage import CompositeFilter, index_usage_of

COMPUTED = (("low", "SELECT VALUE LOWER(c.name) FROM c"),)
PARAMETERS = {"@name": "Ann", "@list": ["a", "b"], "@like": "%x"}


def singles(text: str) -> list[tuple[Any, ...]]:
    filters = index_usage_of(compile_query(text, COMPUTED).bound, PARAMETERS).singles
    return [(single.path, single.service, single.filter) for single in filters]


@pytest.mark.parametrize(("condition", "expected"), [
    ("c.name = 'Ann'", [(("name",), "SEEK", '(ROOT.name = "Ann")')]),
    ("c.name = @name", [(("name",), "SEEK", '(ROOT.name = "Ann")')]),
    ("5 < c.n", [(("n",), "RANGE", "(5 < ROOT.n)")]),
    ("c.a.b != null", [(("a", "b"), "RANGE", "(ROOT.a.b != null)")]),
    ("c.n IN (1, 2)", [(("n",), "SEEK", "(ROOT.n IN (1, 2))")]),
    ("c.n BETWEEN 1 AND 2", [(("n",), "RANGE", "(ROOT.n BETWEEN 1 AND 2)")]),
    ("c.s LIKE 'a%'", [(("s",), "RANGE", '(ROOT.s LIKE "a%")')]),
    ("c.s LIKE @like", [(("s",), "SCAN", '(ROOT.s LIKE "%x")')]),
    ("c.flag", [(("flag",), "SEEK", "ROOT.flag")]),
    ("NOT IS_DEFINED(c.x)", [(("x",), "RANGE", "IS_DEFINED(ROOT.x)")]),
    ("startswith(c.s, 'a')", [(("s",), "RANGE", 'STARTSWITH(ROOT.s, "a")')]),
    ("CONTAINS(c.s, 'a')", [(("s",), "SCAN", 'CONTAINS(ROOT.s, "a")')]),
    ("FLOOR(c.n) = 1", [(("n",), "RANGE", "(FLOOR(ROOT.n) = 1)")]),
    ("ARRAY_CONTAINS(c.tags, 'a')", [(("tags", None), "SEEK", 'ARRAY_CONTAINS(ROOT.tags, "a")')]),
    ("ARRAY_CONTAINS(@list, c.id)", [(("id",), "SEEK", "ARRAY_CONTAINS(@list, ROOT.id)")]),
    ("c.list[0].x = 1", [(("list", None, "x"), "SEEK", "(ROOT.list[0].x = 1)")]),
    ("c.low = 'ann'", [(("low",), "SEEK", '(ROOT.low = "ann")')]),
    ("c.a = 1 OR (c.b > 2 AND c.a = 1)",
     [(("a",), "SEEK", "(ROOT.a = 1)"), (("b",), "RANGE", "(ROOT.b > 2)")]),
    ("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.n = 1)",
     [(("tags", None, "n"), "SEEK", "(t.n = 1)")]),
    # no index can serve these
    ("LOWER(c.s) = 'a'", []), ("c.a = c.b", []), ("c.a + 1 = 2", []), ("true", []),
    ("LENGTH(c.s) > 1", []), ("c.a ?? true", []),
])  # fmt: skip
def test_filters(condition: str, expected: list[Any]) -> None:
    assert singles(f"SELECT * FROM c WHERE {condition}") == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT * FROM c", []),
    ("SELECT c.a FROM c ORDER BY c.n DESC", [(("n",), "RANGE", "")]),
    ("SELECT * FROM c ORDER BY c.n, c.m", []),
    ("SELECT * FROM c ORDER BY LOWER(c.n)", []),
    ("SELECT c.a FROM c WHERE c.a > 1 GROUP BY c.a ORDER BY c.a",
     [(("a",), "RANGE", "(ROOT.a > 1)"), (("a",), "RANGE", "")]),
    ("SELECT * FROM t IN c.tags WHERE t = 1", [(("tags", None), "SEEK", "(t = 1)")]),
    ("SELECT t FROM c JOIN t IN c.tags WHERE t.x = 1",
     [(("tags", None, "x"), "SEEK", "(t.x = 1)")]),
    ("SELECT t FROM c JOIN (SELECT VALUE t FROM t IN c.tags WHERE t.y > 1) AS t WHERE t.x = 1",
     [(("tags", None, "y"), "RANGE", "(t.y > 1)"), (("tags", None, "x"), "SEEK", "(t.x = 1)")]),
])  # fmt: skip
def test_whole_queries(text: str, expected: list[Any]) -> None:
    assert singles(text) == expected


A, B, C = ("a",), ("b",), ("c",)


@pytest.mark.parametrize(("end", "filters", "sorting"), [
    ("WHERE c.a = 1 AND c.b = 2", [CompositeFilter((A, B), None)], None),
    ("WHERE c.b > 1 AND c.a = 1 AND c.b < 5", [CompositeFilter((A,), B)], None),
    ("WHERE c.a = 1 AND c.b > 1 AND c.c > 1",
     [CompositeFilter((A,), B), CompositeFilter((A,), C)], None),
    ("WHERE c.a = 1 AND c.a > 1", [], None),
    ("WHERE c.a > 1 AND c.b > 1", [], None),
    ("WHERE c.a = 1 AND c.low = 'x' AND ARRAY_CONTAINS(c.b, 1)", [], None),
    ("ORDER BY c.a, c.b DESC", [], ((A, False), (B, True))),
    ("ORDER BY c.a, LOWER(c.b)", [], None),
])  # fmt: skip
def test_composite_indexes(end: str, filters: list[Any], sorting: Any) -> None:
    usage = index_usage_of(compile_query(f"SELECT * FROM c {end}", COMPUTED).bound, {})
    assert list(usage.filters) == filters
    assert usage.sorting == sorting
