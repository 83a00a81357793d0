"""Printed trees: the text is readable and parses into an equal tree."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.query.nodes import (
    ArrayLiteral,
    Between,
    Binary,
    Call,
    Chain,
    Conditional,
    Expr,
    FromSource,
    Identifier,
    In,
    Index,
    Like,
    Literal,
    ObjectLiteral,
    OrderItem,
    Parameter,
    Property,
    Query,
    Select,
    SelectItem,
    Subquery,
    Unary,
)
from perseid.query.parser import literal, parse
from perseid.query.printer import print_query
from perseid.query.values import UNDEFINED, is_number


@pytest.mark.parametrize(("text", "printed"), [
    ("select * from c", "SELECT * FROM c"),
    ("SELECT DISTINCT TOP @n VALUE c.a b FROM Root c",
     "SELECT DISTINCT TOP @n VALUE c.a AS b FROM Root AS c"),
    ("SELECT c['a b'].d, c['order'], c.value, c.x[0]['y']",
     'SELECT c["a b"].d, c["order"], c["value"], c.x[0].y'),
    ("SELECT -5 - -6, 1e300, 0x1F, .5, 5.0, -0.0", "SELECT (-5 - -6), 1e+300, 31, 0.5, 5.0, -0.0"),
    ("SELECT NaN, -Infinity, undefined, NULL, TRUE",
     "SELECT NaN, -Infinity, undefined, null, true"),
    ("SELECT (5).a, -(5).b, - -c.x, NOT NOT c.y",
     "SELECT (5).a, (-(5).b), (-(-c.x)), (NOT (NOT c.y))"),
    ("SELECT 'it\\'s \"q\"\\n'", 'SELECT "it\'s \\"q\\"\\n"'),
    ("SELECT c.a NOT IN (1, 2)", "SELECT (NOT (c.a IN (1, 2)))"),
    ("SELECT c.a BETWEEN 1 AND 2 + 3 AND c.b", "SELECT ((c.a BETWEEN 1 AND (2 + 3)) AND c.b)"),
    ("SELECT c.s LIKE 'a!%' ESCAPE '!'", 'SELECT (c.s LIKE "a!%" ESCAPE "!")'),
    ("SELECT c.f & 4 = 4", "SELECT ((c.f & 4) = 4)"),
    ("SELECT a ? b : c ? d : e ?? f", "SELECT (a ? b : (c ? d : (e ?? f)))"),
    ("SELECT {a: 1, 'b c': [c.x]}", 'SELECT {"a": 1, "b c": [c.x]}'),
    ("SELECT (SELECT 1).a, EXISTS(SELECT 1), f((SELECT 2)), ALL(SELECT VALUE t FROM t IN c)",
     "SELECT (SELECT 1).a, EXISTS(SELECT 1), f((SELECT 2)), ALL(SELECT VALUE t FROM t IN c)"),
    ("SELECT udf.f(LEFT(c.a, 2)), first(1)", "SELECT udf.f(LEFT(c.a, 2)), first(1)"),
    ("SELECT 1 FROM c JOIN t IN c['a'].b JOIN (SELECT 1) q JOIN f(c.x)[0] AS y",
     "SELECT 1 FROM c JOIN t IN c.a.b JOIN (SELECT 1) AS q JOIN f(c.x)[0] AS y"),
    ("SELECT c.a FROM c GROUP BY c.a, c.b + 1 ORDER BY c.a ASC, c.b DESC OFFSET 1 LIMIT @n",
     "SELECT c.a FROM c GROUP BY c.a, (c.b + 1) ORDER BY c.a, c.b DESC OFFSET 1 LIMIT @n"),
    ("SELECT * FROM c ORDER BY RANK RRF(c.a)", "SELECT * FROM c ORDER BY RANK RRF(c.a)"),
])  # fmt: skip
def test_printed_text(text: str, printed: str) -> None:
    tree = parse(text)
    assert print_query(tree) == printed
    assert parse(printed) == tree


NAMES = st.sampled_from(["a", "b_1", "first", "ROOT", "größe", "x y", "select", "", 'q"\\'])
WORDS = st.sampled_from(["a", "c", "last", "ROOT", "größe"])
NUMBERS = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False), st.just(math.nan)
)
LITERALS = st.one_of(
    NUMBERS, st.booleans(), st.none(), st.just(UNDEFINED),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
).map(literal)  # fmt: skip
PARAMETERS = st.sampled_from(["@p", "@größe"]).map(Parameter)
COUNTS = st.one_of(st.integers(0, 9).map(literal), PARAMETERS)


def signed(op: str, operand: Expr) -> Expr:
    """The parser makes the sign of a number part of the number."""
    is_folded = op in "+-" and isinstance(operand, Literal) and is_number(operand.value)
    return Unary("~" if is_folded else op, operand)


def chained(op: str, operands: list[Expr]) -> Expr:
    flat: list[Expr] = []
    for operand in operands:
        flat += operand.operands if isinstance(operand, Chain) and operand.op == op else [operand]
    return Chain(op, tuple(flat))


def indexed(target: Expr, index: Expr) -> Expr:
    if isinstance(index, Literal) and type(index.value) is str:
        return Property(target, index.value)
    return Index(target, index)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    tuples = lists.map(tuple)
    comparison = st.sampled_from(["=", "!=", "<", ">=", "+", "-", "*", "%", "|", ">>>", "<<"])
    return st.one_of(
        st.builds(Property, inner, NAMES),
        st.builds(indexed, inner, inner),
        st.builds(signed, st.sampled_from(["+", "-", "~", "NOT"]), inner),
        st.builds(Binary, comparison, inner, inner),
        st.builds(chained, st.sampled_from(["AND", "OR", "??", "||"]),
                  st.lists(inner, min_size=2, max_size=3)),
        st.builds(In, inner, tuples),
        st.builds(Between, inner, inner, inner),
        st.builds(Like, inner, inner, st.sampled_from([None, "!", '"', "\\"])),
        st.builds(Conditional, inner, inner, inner),
        st.builds(Call, st.sampled_from(["f", "LEFT", "udf.g", "ALL"]), st.just(()) | tuples),
        st.builds(ArrayLiteral, st.just(()) | tuples),
        st.builds(lambda names, value: ObjectLiteral(tuple(names), (value,) * len(names)),
                  st.lists(NAMES, max_size=3), inner),
        st.builds(Subquery, st.sampled_from(["SCALAR", "EXISTS", "ARRAY", "ALL", "FIRST"]),
                  queries(inner)),
    )  # fmt: skip


def queries(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Query]:
    aliases = st.none() | WORDS
    items = st.builds(SelectItem, inner, aliases)
    selects = st.one_of(
        st.builds(Select, st.just("STAR"), st.just(()), st.booleans(), st.none() | COUNTS),
        st.builds(Select, st.just("VALUE"), st.tuples(items), st.booleans(), st.none() | COUNTS),
        st.builds(Select, st.just("LIST"), st.lists(items, min_size=1, max_size=3).map(tuple),
                  st.booleans(), st.none() | COUNTS),
    )  # fmt: skip
    steps = st.lists(NAMES | st.integers(0, 5), max_size=2)

    def path(head: str, steps: list[Any]) -> Expr:
        path: Expr = Identifier(head)
        for step in steps:
            path = Property(path, step) if isinstance(step, str) else Index(path, literal(step))
        return path

    paths = st.builds(path, WORDS, steps)
    sources = st.one_of(
        st.builds(FromSource, paths, aliases, st.just(False)),
        st.builds(FromSource, paths, WORDS, st.just(True)),
    )
    windows = st.just((None, None)) | st.tuples(COUNTS, COUNTS)
    return st.builds(
        lambda select, sources, where, groups, orders, rank, window: Query(
            select, tuple(sources), where, tuple(groups), tuple(orders), rank and bool(orders),
            *window,
        ),
        selects,
        st.lists(sources, max_size=2),
        st.none() | inner,
        st.lists(inner, max_size=2),
        st.lists(st.builds(OrderItem, inner, st.booleans()), max_size=2),
        st.booleans(),
        windows,
    )  # fmt: skip


LEAVES: st.SearchStrategy[Any] = st.one_of(LITERALS, PARAMETERS, WORDS.map(Identifier))
TREES = queries(st.recursive(LEAVES, grown, max_leaves=8))


@settings(deadline=None)
@given(TREES)
def test_text_parses_into_the_tree_it_was_printed_from(tree: Query) -> None:
    assert parse(print_query(tree)) == tree
