"""The store's SQL holds exactly where the evaluator says true, whatever the documents."""

from __future__ import annotations

import json
from typing import Any, Final

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.query import CallContext, compile_query, run
from perseid.query.pushdown import kind_of, push
from perseid.query.values import UNDEFINED
from perseid.store.predicates import bindings, condition_sql

pytestmark = pytest.mark.only_on("sqlite", reason="its dialect by itself")

TEXTS: Final = (
    "", "a", "b", "ab", "abc", "A", "é", "\U0001f600", "\ue000", "a\0b", "\0", "null", "1", "%",
    "'", '"',
)  # fmt: skip
NUMBERS: Final = (
    0, 1, -1, 1.5, 2, 0.1, -0.0, 1e300, 5e-324, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, -(2**63),
    2**63, 2**64 - 1, 1e19,
)  # fmt: skip
PATHS: Final = (
    "c.a", "c.b", "c.o.a", 'c["x y"]', 'c["é"]', "c.a[0]", "c.o.b[1]", 'c["it\'s"]', "c.b.a",
    'c["q\\"q"]',
)  # fmt: skip

scalars = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS)
names = st.sampled_from(("a", "b", "x y", "é", "it's", 'q"q'))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(names, values, max_size=4)
documents = st.builds(
    lambda rest, o: rest | ({} if o is None else {"o": o}), objects, st.none() | objects
)
paths = st.sampled_from(PATHS)
literals = values.map(json.dumps) | st.sampled_from(("undefined", "@p", "@q", "-5", "@missing"))
patterns = st.sampled_from(("%", "a%", "%b", "%a%", "ab", "", "_a", "a%b", "%%", "[a]%", "é%"))
_NEGATIONS = st.sampled_from(("", "NOT "))
_TYPE_CHECKS: Final = (
    "ARRAY", "BOOL", "DEFINED", "FINITE_NUMBER", "NULL", "NUMBER", "OBJECT", "PRIMITIVE", "STRING",
    "INTEGER",
)  # fmt: skip

leaves = st.one_of(
    st.builds(
        lambda path, op, value, swap: (
            f"({value} {op} {path})" if swap else f"({path} {op} {value})"
        ),
        paths,
        st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
        literals,
        st.booleans(),
    ),
    st.builds(
        lambda path, negation, items: f"({path} {negation}IN ({', '.join(items)}))",
        paths,
        _NEGATIONS,
        st.lists(literals, min_size=1, max_size=3),
    ),
    st.builds(
        lambda path, negation, low, high: f"({path} {negation}BETWEEN {low} AND {high})",
        paths,
        _NEGATIONS,
        literals,
        literals,
    ),
    st.builds(
        lambda path, negation, pattern: f"({path} {negation}LIKE {json.dumps(pattern)})",
        paths,
        _NEGATIONS,
        patterns,
    ),
    st.builds(lambda path, check: f"IS_{check}({path})", paths, st.sampled_from(_TYPE_CHECKS)),
    st.builds(
        lambda path, name, text: f"{name}({path}, {text})",
        paths,
        st.sampled_from(("STARTSWITH", "ENDSWITH", "CONTAINS")),
        st.sampled_from(TEXTS).map(json.dumps) | literals,
    ),
    st.builds(lambda path, value: f"ARRAY_CONTAINS({path}, {value})", paths, literals),
    st.builds(
        lambda path, items: f"ARRAY_CONTAINS([{', '.join(items)}], {path})",
        paths,
        st.lists(literals, max_size=3),
    ),
    st.builds(lambda path, name: f"ARRAY_CONTAINS({name}, {path})", paths, st.just("@list")),
    paths,
    st.sampled_from(("true", "false", "null", "1 = 1", "(c.a + 1 = 2)", "LOWER(c.a) = 'a'")),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda text: f"(NOT {text})"),
        st.builds(
            lambda op, parts: f"({f' {op} '.join(parts)})",
            st.sampled_from(("AND", "OR")),
            st.lists(inner, min_size=2, max_size=3),
        ),
    ),
    max_leaves=6,
)
parameters = st.fixed_dictionaries(
    {"@p": values, "@q": scalars, "@list": st.lists(values, max_size=3)}
)


@settings(max_examples=300, deadline=None)
@given(st.lists(documents, min_size=1, max_size=12), predicates, parameters)
def test_sql_equals_the_evaluator(
    found: list[dict[str, Any]], predicate: str, given_values: dict[str, Any]
) -> None:
    compiled = compile_query(f"SELECT VALUE c.number FROM c WHERE {predicate}")
    numbered = [each | {"number": number} for number, each in enumerate(found)]
    context = CallContext(0.0, lambda: 0.0)
    expected = set(run(compiled, numbered, given_values, context))
    kinds = {name: kind_of(given_values.get(name, UNDEFINED)) for name in compiled.parameters}
    pushed = push(compiled.bound, kinds)
    wanted = pushed.filter({name: given_values.get(name) for name in compiled.parameters})
    if wanted is None:
        assert not pushed.is_exact or len(expected) == len(numbered)
        return
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE items (number INTEGER PRIMARY KEY, body BLOB)")
    db.executemany(
        "INSERT INTO items VALUES (?, jsonb(?))",
        [(number, json.dumps(each)) for number, each in enumerate(numbered)],
    )
    sql = f"SELECT number, {condition_sql(wanted.condition)} FROM items"
    rows = db.execute(sql, bindings(wanted)).fetchall()
    db.close()
    assert {holds for _, holds in rows} <= {0, 1}
    selected = {number for number, holds in rows if holds}
    if pushed.is_exact:
        assert selected == expected
    else:
        assert selected >= expected


@pytest.mark.parametrize(
    ("predicate", "is_exact"),
    [
        ("c.a = 1", True),
        ("c.a = 1 AND c.b != 'x' OR NOT c.a", True),
        ("c.a IN (1, 'a', null)", True),
        ("c.a = [1]", False),
        ("c.a = 18446744073709551615", False),
        ("c.a = c.b", False),
        ("LOWER(c.a) = 'x'", False),
        ("c.a = 1 AND LOWER(c.a) = 'x'", False),
        ("STARTSWITH(c.a, 'x')", True),
        ("STARTSWITH(c.a, 'x', true)", False),
        ("c.a LIKE 'x%'", True),
        ("c.a LIKE 'x_'", False),
        ("ARRAY_CONTAINS(c.a, 'x')", True),
        ("ARRAY_CONTAINS(c.a, {'x': 1}, true)", False),
        ("c['q\"q'] = 1", False),
    ],
)
def test_what_is_exact(predicate: str, is_exact: bool) -> None:
    compiled = compile_query(f"SELECT * FROM c WHERE {predicate}")
    assert push(compiled.bound, {}).is_exact is is_exact
