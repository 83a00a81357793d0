"""The syntax tree: precedence, rejected text with positions, and the limit of depth."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.errors import QueryError
from perseid.query import nodes
from perseid.query.nodes import Node
from perseid.query.parser import MAX_DEPTH, MAX_NESTING, parse


def bracketed(node: Any) -> str:
    """The text of an expression with all its parentheses."""
    match node:
        case nodes.Literal():
            return repr(node.value)
        case nodes.Identifier() | nodes.Parameter():
            return node.name
        case nodes.Property():
            return f"{bracketed(node.target)}.{node.name}"
        case nodes.Index():
            return f"{bracketed(node.target)}[{bracketed(node.index)}]"
        case nodes.Unary():
            return f"({node.op} {bracketed(node.operand)})"
        case nodes.Binary():
            return f"({bracketed(node.left)} {node.op} {bracketed(node.right)})"
        case nodes.Chain():
            return f"({f' {node.op} '.join(map(bracketed, node.operands))})"
        case nodes.In():
            return f"({bracketed(node.operand)} IN {', '.join(map(bracketed, node.items))})"
        case nodes.Between():
            return (
                f"({bracketed(node.operand)} BETWEEN {bracketed(node.low)}, {bracketed(node.high)})"
            )
        case nodes.Like():
            escape = f" ESCAPE {node.escape}" if node.escape else ""
            return f"({bracketed(node.operand)} LIKE {bracketed(node.pattern)}{escape})"
        case nodes.Conditional():
            return (
                f"({bracketed(node.test)} ? {bracketed(node.then)} : {bracketed(node.otherwise)})"
            )
        case nodes.Call():
            return f"{node.name}({', '.join(map(bracketed, node.arguments))})"
        case nodes.ArrayLiteral():
            return f"[{', '.join(map(bracketed, node.items))}]"
        case nodes.ObjectLiteral():
            members = zip(node.names, map(bracketed, node.values), strict=True)
            return f"{{{', '.join(f'{name}: {value}' for name, value in members)}}}"
        case nodes.Subquery():
            return f"{node.kind}<{bracketed(node.query.select.items[0].expr)}>"
    raise AssertionError(node)


def expression(text: str) -> Any:
    return parse(f"SELECT VALUE {text}").select.items[0].expr


@pytest.mark.parametrize(("text", "expected"), [
    ("1 + 2 * 3", "(1 + (2 * 3))"),
    ("1 - 2 - 3", "((1 - 2) - 3)"),
    ("(1 - 2) * 3", "((1 - 2) * 3)"),
    ("-a.b * ~c[0]", "((- a.b) * (~ c[0]))"),
    ("- -1", "1"), ("-5", "-5"), ("- a", "(- a)"), ("+1.5", "1.5"), ("2 - -1", "(2 - -1)"),
    ("1 << 2 + 3 >> 4", "((1 << (2 + 3)) >> 4)"),
    ("a & b ^ c | d", "(((a & b) ^ c) | d)"),
    ("c.f & 4 = 4", "((c.f & 4) = 4)"),
    ("a || b || c", "(a || b || c)"),
    ("a || b + c || d", "(((a || b) + c) || d)"),
    ("a < b = c < d", "((a < b) = (c < d))"),
    ("a <> b", "(a != b)"),
    ("NOT a = 1 AND b", "((NOT (a = 1)) AND b)"),
    ("NOT NOT a", "(NOT (NOT a))"),
    ("a = NOT b", "(a = (NOT b))"),
    ("a AND b OR c AND d", "((a AND b) OR (c AND d))"),
    ("a OR b AND c OR d", "(a OR (b AND c) OR d)"),
    ("((a OR b) OR c) OR d", "(a OR b OR c OR d)"),
    ("a AND (b AND (c AND d))", "(a AND b AND c AND d)"),
    ("a ?? b ?? c OR d", "(a ?? b ?? (c OR d))"),
    ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
    ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
    ("a ?? b ? c : d", "((a ?? b) ? c : d)"),
    ("a BETWEEN 1 AND 2 AND b", "((a BETWEEN 1, 2) AND b)"),
    ("a BETWEEN 1 + 1 AND 2 | 3 OR b", "((a BETWEEN (1 + 1), (2 | 3)) OR b)"),
    ("a NOT BETWEEN 1 AND 2", "(NOT (a BETWEEN 1, 2))"),
    ("(a BETWEEN (1) AND (2))", "(a BETWEEN 1, 2)"),
    ("a BETWEEN 1 AND 2 = b", "((a BETWEEN 1, 2) = b)"),
    ("a + 1 IN (1, b)", "((a + 1) IN 1, b)"),
    ("a NOT IN (1) AND b", "((NOT (a IN 1)) AND b)"),
    ("a LIKE b || '%' AND c", "((a LIKE (b || '%')) AND c)"),
    ("a LIKE '!%' ESCAPE '!' OR b", "((a LIKE '!%' ESCAPE !) OR b)"),
    ("a NOT LIKE 'x' ESCAPE '!'", "(NOT (a LIKE 'x' ESCAPE !))"),
    ("NOT a LIKE 'x'", "(NOT (a LIKE 'x'))"),
    ("c.a['b'][\"c d\"][0][1+1][@p]", "c.a.b.c d[0][(1 + 1)][@p]"),
    ("c.value.order", "c.value.order"),
    ("(a.b).c", "a.b.c"),
    ("(SELECT VALUE 1).n", "SCALAR<1>.n"),
    ("EXISTS(SELECT VALUE 1) AND ARRAY(SELECT VALUE 2)", "(EXISTS<1> AND ARRAY<2>)"),
    ("ALL(SELECT VALUE 1) = first(SELECT VALUE 2)", "(ALL<1> = FIRST<2>)"),
    ("LAST (SELECT VALUE 1)", "LAST<1>"),
    ("first", "first"),
    ("left('ab', 1) = RIGHT(a, 2)", "(left('ab', 1) = RIGHT(a, 2))"),
    ("f() + udf.g(1)", "(f() + udf.g(1))"),
    ("[1, [a], {}]", "[1, [a], {}]"),
    ("{a: 1, 'b c': x ? y : z}", "{a: 1, b c: (x ? y : z)}"),
    ("TRUE = False", "(True = False)"), ("Null", "None"), ("undefined", "undefined"),
    ("NaN", "nan"), ("-Infinity", "-inf"), ("c.NaN", "c.NaN"),
    ("@p", "@p"),
])  # fmt: skip
def test_precedence(text: str, expected: str) -> None:
    assert bracketed(expression(text)) == expected


def test_equality_ignores_positions() -> None:
    assert expression("c.a  +  1") == expression("(c['a']+1)")
    assert expression("c.a = 1") != expression("c.a = true")
    assert hash(expression("f( c.a )")) == hash(expression("f(c.a)"))


def test_nodes_have_positions() -> None:
    text = "SELECT VALUE  LOWER( c.name ) = 'x' FROM c"
    node = parse(text).select.items[0].expr
    assert isinstance(node, nodes.Binary)
    assert text[node.start : node.end] == "LOWER( c.name ) = 'x'"
    assert text[node.left.start : node.left.end] == "LOWER( c.name )"


def test_all_clauses() -> None:
    query = parse(
        "select distinct top 3 value c.x from root c join t in c.tags join (select value 1) s "
        "where t group by c.x, t order by c.x asc, t desc offset @o limit 4;"
    )
    assert (query.select.shape, query.select.distinct) == ("VALUE", True)
    assert query.select.top == parse("SELECT TOP 3 1").select.top
    assert [(source.alias, source.iterate) for source in query.sources] == [
        ("c", False), ("t", True), ("s", False),
    ]  # fmt: skip
    assert isinstance(query.sources[2].collection, nodes.Query)
    assert query.where is not None
    assert len(query.group_by) == 2
    assert [item.descending for item in query.order_by] == [False, True]
    assert isinstance(query.offset, nodes.Parameter)
    assert isinstance(query.limit, nodes.Literal)


@pytest.mark.parametrize(("text", "near", "start"), [
    ("selectttt", "selectttt", 0),
    ("SELECT FROM c", "FROM", 7),
    ("SELECT *, c.x FROM c", ",", 8),
    ("SELECT * FORM c", "FORM", 9),
    ("SELECT TOP 5 DISTINCT c.x FROM c", "DISTINCT", 13),
    ("SELECT TOP -1 * FROM c", "-", 11),
    ("SELECT TOP 'a' * FROM c", "'a'", 11),
    ("SELECT c.x AS value FROM c", "value", 14),
    ("SELECT c.* FROM c", "*", 9),
    ("SELECT c.@p FROM c", "@p", 9),
    ("SELECT COUNT(*) FROM c", "*", 13),
    ("SELECT * FROM @p", "@p", 14),
    ("SELECT * FROM c LEFT JOIN t IN c.t", "LEFT", 16),
    ("SELECT * FROM c[@p]", "@p", 16),
    ("SELECT * FROM c WHERE c.x == 1", "=", 27),
    ("SELECT * FROM c WHERE c.x IS NULL", "IS", 26),
    ("SELECT * FROM c WHERE c.x IN ()", ")", 30),
    ("SELECT * FROM c WHERE c.x IN (SELECT VALUE 1)", "SELECT", 30),
    ("SELECT * FROM c WHERE c.x NOT 1", "NOT", 26),
    ("SELECT * FROM c WHERE c.x BETWEEN 1 OR 2", "OR", 36),
    ("SELECT * FROM c WHERE c.x BETWEEN 1 = 2 AND 3", "=", 36),
    ("SELECT * FROM c WHERE (c.x BETWEEN 1) AND 3", ")", 36),
    ("SELECT * FROM c WHERE c.x ESCAPE 'a'", "ESCAPE", 26),
    ("SELECT * FROM c WHERE c.x LIKE 'a' ESCAPE 'ab'", "'ab'", 42),
    ("SELECT * FROM c WHERE (c.x = 1", "", 30),
    ("SELECT * FROM c WHERE c.x = 1)", ")", 29),
    ("SELECT * FROM c WHERE c.x ? 1", "", 29),
    ("SELECT * FROM c WHERE (c.x ? 1)", ")", 30),
    ("SELECT * FROM c WHERE (c.x : 1)", ":", 27),
    ("SELECT * FROM c GROUP BY c.x HAVING c.x", "HAVING", 29),
    ("SELECT * FROM c LIMIT 10", "LIMIT", 16),
    ("SELECT * FROM c OFFSET 10", "", 25),
    ("SELECT * FROM c OFFSET 1 LIMIT -1", "-", 31),
    ("SELECT * FROM c ORDER BY", "", 24),
    ("SELECT * FROM c WHERE", "", 21),
    ("SELECT * FROM c; SELECT 1", "SELECT", 17),
    ("SELECT {a} FROM c", "}", 9),
    ("SELECT {1: 2} FROM c", "1", 8),
    ("SELECT [1, ] FROM c", "]", 11),
    ("SELECT f(1 FROM c", "FROM", 11),
    ("SELECT left FROM c", "left", 7),
    ("SELECT udf.f FROM c", "FROM", 13),
    ("SELECT EXISTS(1)", "1", 14),
    ("SELECT 1 +", "", 10),
    ("SELECT 1 2", "2", 9),
    ("", "", 0),
    ("   ", "", 3),
])  # fmt: skip
def test_syntax_errors(text: str, near: str, start: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert (problem.start, problem.end) == (start, start + len(near))
    if near:
        assert problem.code == "SC1001"
        assert problem.message == f"Syntax error, incorrect syntax near '{near}'."
    else:
        assert problem.code == "SC1002"
        assert problem.message == "Syntax error, unexpected end-of-file."


@pytest.mark.parametrize("text", [
    "SELECT VALUE " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT VALUE " + "(" * 600 + "c.a" + " OR c.b)" * 600 + " FROM c",
    "SELECT VALUE " + "c.a AND (" * 600 + "c.b" + ")" * 600 + " FROM c",
    "SELECT VALUE " + " OR ".join(f"(c.id = @i{i} AND c.pk = @p{i})" for i in range(1000)),
    "SELECT VALUE c.id IN (" + ", ".join(f"'{i}'" for i in range(16000)) + ")",
    "SELECT VALUE " + " ?? ".join(["c.a"] * 3000),
    "SELECT " + ", ".join(["c.a"] * 3000),
])  # fmt: skip
def test_wide_queries_are_not_deep(text: str) -> None:
    parse(text)


DEEP = {
    "calls": ("ABS(", "c.x", ")"),
    "arrays": ("[", "c.x", "]"),
    "objects": ("{a:", "c.x", "}"),
    "indexes": ("c[", "c.x", "]"),
    "lists": ("1 IN (", "c.x", ")"),
    "subqueries": ("(SELECT VALUE ", "c.x", ")"),
    "signs": ("- ", "c.x", ""),
    "negations": ("NOT ", "c.x", ""),
    "sums": ("1 + (", "c.x", ")"),
    "left sums": ("", "c.x", " + 1"),
    "logic": ("c.x AND (c.y OR (", "c.x", "))"),
    "conditions": ("c.x ? 1 : ", "c.x", ""),
    "inner conditions": ("c.x ? ", "c.x", " : 1"),
    "paths": ("", "c", ".a"),
}


def deep(shape: str, levels: int) -> str:
    opening, core, closing = DEEP[shape]
    return f"SELECT VALUE {opening * levels}{core}{closing * levels} FROM c"


@pytest.mark.parametrize("shape", DEEP)
def test_depth_has_a_limit(shape: str) -> None:
    parse(deep(shape, 12))
    for levels in (MAX_NESTING + MAX_DEPTH, 5_000):
        with pytest.raises(QueryError) as caught:
            parse(deep(shape, levels))
        assert "nested too deeply" in caught.value.message


def test_walking_reaches_every_node() -> None:
    text = (
        "SELECT c.a, f(-1 + @p), [b[0]], {x: d} FROM c JOIN t IN c.t JOIN (SELECT VALUE e) "
        "WHERE g IN (1, h) AND i BETWEEN j AND k AND l LIKE m AND (n ? o : q) AND EXISTS(SELECT r) "
        "GROUP BY s ORDER BY u"
    )
    names = {node.name for node in nodes.walk(parse(text)) if isinstance(node, nodes.Identifier)}
    assert names == set("cbdeghijklmnoqrsu")
    leaf: Node = expression("x")
    assert list(nodes.children(leaf)) == []
