"""Binding: resolved names, rejected queries with positions, and the facts for the planner."""

from __future__ import annotations

import re

import pytest

from perseid.errors import BadRequest, QueryError
from perseid.query import compile_query, nodes, validate_computed
from perseid.query.nodes import BoundQuery


def bound(text: str) -> BoundQuery:
    return compile_query(text).bound


UNGROUPED = "is not contained in either an aggregate function or the GROUP BY clause."
NESTED = "Cannot perform an aggregate function on an expression containing an aggregate"


@pytest.mark.parametrize(("marked", "code", "message"), [
    # names
    ("SELECT «id» FROM c", "SC2001", "Identifier 'id' could not be resolved."),
    ("SELECT «products».id FROM products p", "SC2001", "could not be resolved."),
    ("SELECT c.x AS n FROM c WHERE «n» = 1", "SC2001", "Identifier 'n'"),
    ("SELECT c.x AS nn FROM c ORDER BY «nn»", "SC2001", "Identifier 'nn'"),
    ("SELECT «*» FROM c JOIN dd IN other.list", "SC2040", "only valid with a single input set"),
    ("SELECT dd FROM c JOIN dd IN «other».list", "SC2001", "Identifier 'other'"),
    ("SELECT VALUE «c» FROM t IN c.tags", "SC2001", "Identifier 'c'"),
    ("SELECT «C».x FROM c", "SC2001", "Identifier 'C'"),
    ("SELECT (SELECT VALUE COUNT(1) FROM «root») FROM c", "SC2001", "Identifier 'root'"),
    ("SELECT «tt» FROM c WHERE EXISTS(SELECT VALUE tt FROM tt IN c.x)", "SC2001", "'tt'"),
    ("SELECT 1 FROM c JOIN «c IN c.x»", "SC2011", "The input alias 'c' is specified"),
    ("SELECT 1 FROM c.a JOIN «a IN a.b»", "SC2011", "The input alias 'a'"),
    # functions
    ("SELECT «FOO»(1)", "SC2005", "'FOO' is not a recognized built-in function name."),
    ("SELECT «RRF»(1, 2)", "SC2005", "'RRF' is not a recognized built-in function name."),
    ("SELECT «udf.tax»(1)", "SC2005", "'udf.tax' is not supported yet by Perseid."),
    ("SELECT «ST_Within»(1, 2)", "SC2005", "not supported yet by Perseid."),
    ("SELECT «VectorDistance»([1], [2])", "SC2005", "not supported yet"),
    ("SELECT «FullTextContains»('a', 'b')", "SC2005", "not supported yet"),
    ("SELECT «FullTextScore('a', 'b')»", "SC2240", "ORDER BY RANK"),
    ("SELECT 1 FROM c ORDER BY RANK «FullTextScore(c.t, 'b')»", "SC2005",
     "'ORDER BY RANK' is not supported yet by Perseid."),
    ("SELECT «ABS()»", "SC2050", "The ABS function requires 1 argument(s)."),
    ("SELECT 1 + «lower('a', 'b')»", "SC2050", "The LOWER function requires 1 arg"),
    ("SELECT «CONTAINS('a')»", "SC2050", "requires 2 to 3 argument(s)."),
    ("SELECT «CONCAT('a')»", "SC2050", "requires at least 2 argument(s)."),
    ("SELECT «COUNT()» FROM c", "SC2050", "The COUNT function requires 1 argument(s)."),
    ("SELECT «SUM(c.a, 1)» FROM c", "SC2050", "The SUM function requires 1 arg"),
    # SELECT *
    ("SELECT «*»", "SC2040", "'SELECT *' is not valid if FROM clause is omitted."),
    ("SELECT «*» FROM c JOIN t IN c.t", "SC2040", "only valid with a single input set."),
    ("SELECT «*» FROM c GROUP BY c.x", "SC2041", "'SELECT *' is not allowed with GROUP BY."),
    ("SELECT VALUE ARRAY(SELECT «*») FROM c", "SC2040", "FROM clause is omitted"),
    # groups
    ("SELECT «c.a.b» FROM c GROUP BY c.x", "SC2102",
     f"Property reference 'c.a.b' is invalid in the select list because it {UNGROUPED}"),
    ("SELECT «c['a'][0]», COUNT(1) FROM c", "SC2102", UNGROUPED),
    ("SELECT VALUE {n: COUNT(1), a: «c.a»} FROM c", "SC2102", UNGROUPED),
    ("SELECT «c» FROM c GROUP BY c.x", "SC2102", UNGROUPED),
    ("SELECT c.x + «c.y» FROM c GROUP BY c.x", "SC2102", UNGROUPED),
    ("SELECT «t» FROM c JOIN t IN c.tags GROUP BY c.x", "SC2102", UNGROUPED),
    ("SELECT c.x, (SELECT VALUE «c.y») FROM c GROUP BY c.x", "SC2102", UNGROUPED),
    ("SELECT c.x FROM c GROUP BY c.x ORDER BY «c.y»", "SC2103",
     f"Property reference 'c.y' is invalid in the ORDER BY clause because it {UNGROUPED}"),
    ("SELECT MAX(«MIN(c.x)») FROM c", "SC2101", NESTED),
    ("SELECT SUM(1 + ABS(«AVG(c.x)»)) FROM c", "SC2101", NESTED),
    ("SELECT SUM(«(SELECT VALUE 1)») FROM c", "SC2101", NESTED),
    ("SELECT 1 FROM c WHERE «COUNT(1)» > 1", "SC2101", "in the WHERE clause"),
    ("SELECT 1 FROM c GROUP BY «MAX(c.x)»", "SC2101", "in the GROUP BY clause"),
    # counts
    ("SELECT TOP «4294967296» * FROM c", "SC2060", "TOP clause must be an integer."),
    ("SELECT TOP «1.5» * FROM c", "SC2060", "TOP clause must be an integer."),
    ("SELECT * FROM c OFFSET 0 LIMIT «4294967296»", "SC2061", "The LIMIT count"),
    ("SELECT * FROM c OFFSET «4294967296» LIMIT 0", "SC2062", "The OFFSET count"),
    ("SELECT * FROM c OFFSET «.5» LIMIT 0", "SC2060", "must be an integer."),
])  # fmt: skip
def test_rejected_queries(marked: str, code: str, message: str) -> None:
    before, spot, after = re.split("[«»]", marked)
    with pytest.raises(QueryError) as caught:
        compile_query(before + spot + after)
    (problem,) = caught.value.problems
    assert problem.code == code
    assert message in problem.message
    assert (problem.start, problem.end) == (len(before), len(before) + len(spot))


@pytest.mark.parametrize("text", [
    "SELECT p.id FROM products p",
    "SELECT b FROM c.a.b",
    "SELECT x FROM c.a[0] AS x",
    "SELECT * FROM c.a[0]",
    "SELECT c FROM c IN c.items",
    "SELECT t FROM c JOIN t IN c.tags WHERE EXISTS(SELECT VALUE t FROM t IN c.other WHERE t)",
    "SELECT d.x FROM (SELECT DISTINCT r.x FROM root r) AS d",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.x FROM c)",
    "SELECT 1 FROM c JOIN (SELECT VALUE 1) JOIN (SELECT VALUE 2)",
    "SELECT all.x, first.y FROM all JOIN first IN all.z",
    "SELECT c.a.b, c.a, 1, @p, UPPER(c.a.x) FROM c GROUP BY c.a",
    "SELECT c.x + 1, COUNT(1) FROM c GROUP BY c.x + 1",
    "SELECT LOWER(c['x']) FROM c GROUP BY lower(c.x)",
    "SELECT c.x, ARRAY(SELECT VALUE c.x) FROM c GROUP BY c.x",
    "SELECT ARRAY(SELECT c.id, COUNT(1) AS n FROM l IN c.lines) FROM c",
    "SELECT COUNT(1) + SUM(c.x) / 2 FROM c ORDER BY COUNT(1)",
    "SELECT COUNT(1) FROM c ORDER BY c.y, LOWER(c.z) DESC",
    "SELECT 1 FROM c ORDER BY LOWER(c.x) DESC, c.x + 1",
])  # fmt: skip
def test_accepted_queries(text: str) -> None:
    compile_query(text)


@pytest.mark.parametrize(("select", "names"), [
    ("c", ["c"]),
    ("c.a.b", ["b"]),
    ('c["a b"]', ["a b"]),
    ("c.a AS x, c.b y", ["x", "y"]),
    ("c.arr[0], c.a, 1, @p, LOWER(c.a), c.a + 1", ["$1", "a", "$2", "$3", "$4", "$5"]),
    ("(SELECT c.n).n", ["n"]),
    ("(SELECT VALUE 1), EXISTS(SELECT 1)", ["$1", "$2"]),
    ("c[@p], (c.a)", ["$1", "a"]),
    ("c.a, c.b AS a", ["a"]),
])  # fmt: skip
def test_names_of_result_members(select: str, names: list[str]) -> None:
    assert [item.name for item in bound(f"SELECT {select} FROM c").items] == names


def test_facts_for_the_planner() -> None:
    query = bound(
        "SELECT DISTINCT TOP @n c.a, COUNT(1) AS n FROM root c WHERE c.b = @b "
        "GROUP BY c.a ORDER BY c.a DESC OFFSET 1 LIMIT 2"
    )
    assert query.root is not None
    root = query.root
    assert (root.name, query.sources[0].slot, query.sources[0].collection) == ("c", root.slot, None)
    assert isinstance(query.where, nodes.Binary)
    assert query.where.left == nodes.Property(nodes.Alias(root.slot, "c"), "b")
    assert isinstance(query.where.right, nodes.BoundParameter)
    assert [key.expr for key in query.group_by] == [nodes.Property(root, "a")]
    (count,) = query.aggregates
    assert isinstance(count.expr, nodes.Aggregate)
    assert count.expr.function == "COUNT"
    assert query.items[0].expr == query.group_by[0]
    assert query.items[1].expr == count
    assert (query.order_by[0].expr, query.order_by[0].descending) == (query.group_by[0], True)
    assert isinstance(query.top, nodes.BoundParameter)
    assert isinstance(query.offset, nodes.Literal)
    assert isinstance(query.limit, nodes.Literal)
    assert (query.distinct, query.is_grouped) == (True, True)
    assert (query.has_joins, query.has_subqueries) == (False, False)


@pytest.mark.parametrize(("text", "joins", "subqueries", "root", "streaming"), [
    ("SELECT * FROM c", False, False, "c", True),
    ("SELECT * FROM c WHERE c.x", False, False, "c", True),
    ("SELECT 1", False, False, None, False),
    ("SELECT * FROM t IN c.tags", False, False, None, True),
    ("SELECT t FROM c JOIN t IN c.tags", True, False, "c", True),
    ("SELECT t FROM c JOIN (SELECT VALUE 1) t", True, True, "c", True),
    ("SELECT c.id FROM c WHERE EXISTS(SELECT VALUE 1 FROM c.t)", False, True, "c", True),
    ("SELECT COUNT(1) FROM c", False, False, "c", False),
    ("SELECT c.x FROM c GROUP BY c.x", False, False, "c", False),
    ("SELECT DISTINCT c.x FROM c", False, False, "c", False),
    ("SELECT TOP 1 c.x FROM c", False, False, "c", False),
    ("SELECT c.x FROM c OFFSET 0 LIMIT 1", False, False, "c", False),
    ("SELECT c.x FROM c ORDER BY c.x", False, False, "c", False),
    ("SELECT d FROM (SELECT DISTINCT c.x FROM c) d", False, True, None, False),
    ("SELECT d FROM (SELECT c.x FROM c) d", False, True, None, True),
])  # fmt: skip
def test_shapes(
    text: str, joins: bool, subqueries: bool, root: str | None, streaming: bool
) -> None:
    compiled = compile_query(text)
    query = compiled.bound
    assert (query.has_joins, query.has_subqueries) == (joins, subqueries)
    assert (query.root.name if query.root else None) == root
    assert compiled.streaming is streaming


def test_parameters_are_listed_once() -> None:
    compiled = compile_query("SELECT TOP @n @a FROM c WHERE c.x = @a AND c.y = @b")
    assert set(compiled.parameters) == {"@n", "@a", "@b"}


def test_a_text_is_compiled_once() -> None:
    assert compile_query("SELECT 1 FROM c") is compile_query("SELECT 1 FROM c")
    long = f"SELECT 1 FROM c WHERE c.x = '{'x' * 20_000}'"
    assert compile_query(long) is compile_query(long)
    assert compile_query("SELECT 1 FROM c", (("p", "SELECT VALUE c.x FROM c"),)) is not (
        compile_query("SELECT 1 FROM c")
    )


@pytest.mark.parametrize("text", [
    "SELECT VALUE LOWER(c.name) FROM c",
    "SELECT VALUE c.price * 1.2 FROM root c",
    'SELECT VALUE {"a": c.a, "b": [c["b"], 1]} FROM c',
    "SELECT VALUE c.a ? c.b : 'x' FROM c",
])  # fmt: skip
def test_definitions_of_computed_properties(text: str) -> None:
    validate_computed("cp", text)


@pytest.mark.parametrize(("name", "text"), [
    ("", "SELECT VALUE c.x FROM c"),
    ("id", "SELECT VALUE c.x FROM c"),
    ("_ts", "SELECT VALUE c.x FROM c"),
    ("cp", "not a query"),
    ("cp", "SELECT VALUE other.x FROM c"),
    ("cp", "SELECT c.x FROM c"),
    ("cp", "SELECT * FROM c"),
    ("cp", "SELECT VALUE 1"),
    ("cp", "SELECT DISTINCT VALUE c.x FROM c"),
    ("cp", "SELECT TOP 1 VALUE c.x FROM c"),
    ("cp", "SELECT VALUE c.x FROM c WHERE c.y"),
    ("cp", "SELECT VALUE t FROM c JOIN t IN c.t"),
    ("cp", "SELECT VALUE t FROM t IN c.t"),
    ("cp", "SELECT VALUE x FROM c.x"),
    ("cp", "SELECT VALUE c.x FROM (SELECT VALUE c FROM c) c"),
    ("cp", "SELECT VALUE c.x FROM c GROUP BY c.x"),
    ("cp", "SELECT VALUE c.x FROM c ORDER BY c.x"),
    ("cp", "SELECT VALUE c.x FROM c OFFSET 0 LIMIT 1"),
    ("cp", "SELECT VALUE (SELECT VALUE c.x) FROM c"),
    ("cp", "SELECT VALUE EXISTS(SELECT VALUE 1) FROM c"),
    ("cp", "SELECT VALUE COUNT(c.x) FROM c"),
    ("cp", "SELECT VALUE udf.f(c.x) FROM c"),
    ("cp", "SELECT VALUE ST_AREA(c.x) FROM c"),
    ("cp", "SELECT VALUE RAND() FROM c"),
    ("cp", "SELECT VALUE GetCurrentTimestamp() FROM c"),
    ("cp", "SELECT VALUE c.x = @p FROM c"),
    ("cp", "SELECT VALUE " + "[" * 60 + "1" + "]" * 60 + " FROM c"),
])  # fmt: skip
def test_invalid_computed_properties(name: str, text: str) -> None:
    with pytest.raises(BadRequest, match="One of the specified inputs is invalid"):
        validate_computed(name, text)
