"""The store's SQL holds exactly where the evaluator says true, whatever the documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid.conditions import Filter
from perseid.query import CallContext, compile_query, run
from perseid.query.planner.bound_values import parameter_type_of
from perseid.query.planner.filters import push_filter
from perseid.query.values import UNDEFINED
from perseid.store.postgres import conditions_sql as postgres
from perseid.store.postgres.numbers import normalized_json
from perseid.store.postgres.storable_filters import storable_filter
from perseid.store.sqlite import conditions_sql as sqlite
from tests.support.postgres import server

pytestmark = pytest.mark.only_on("sqlite", reason="its dialect by itself")

TEXTS: Final = (
    "", "a", "b", "ab", "abc", "A", "é", "\U0001f600", "\ue000", "a\0b", "\0", "null", "1", "%",
    "'", '"', "\U0010ffff", "%(v0)s", "x" * 300, "x" * 300 + "y",
)  # fmt: skip
NUMBERS: Final = (
    0, 1, -1, 1.5, 2, 0.1, -0.0, 1e300, 5e-324, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, -(2**63),
    2**63, 2**64 - 1, 1e19, 1.2345678901234568e18, 1234567890123456800, 1234567890123456768,
    0.1 + 0.2, 3e-320,
)  # fmt: skip
PATHS: Final = (
    "c.a", "c.b", "c.o.a", 'c["x y"]', 'c["é"]', "c.a[0]", "c.o.b[1]", 'c["it\'s"]', "c.b.a",
    'c["q\\"q"]', 'c["50%"]', 'c["0"]', 'c.a["0"]', "c.b[0][0]",
)  # fmt: skip

scalars = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS)
names = st.sampled_from(("a", "b", "x y", "é", "it's", 'q"q', "50%", "0"))
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
        lambda path, check, op, value: f"(IS_{check}({path}) {op} {value})",
        paths,
        st.sampled_from(_TYPE_CHECKS),
        st.sampled_from(("=", "!=")),
        st.sampled_from(("true", "false", "null", "1")),
    ),
    st.builds(
        lambda first, second, rows: (
            f"({' OR '.join(f'({first} = {a} AND {second} = {b})' for a, b in rows)})"
        ),
        paths,
        paths,
        st.lists(st.tuples(literals, literals), min_size=2, max_size=4),
    ),
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


Holds: Any = Callable[[Sequence[str], Filter], list[Any]]  # of each document: whether SQL says so


def in_sqlite(found: Sequence[str], wanted: Filter) -> list[Any]:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE items (number INTEGER PRIMARY KEY, body BLOB)")
    db.executemany("INSERT INTO items VALUES (?, jsonb(?))", list(enumerate(found)))
    sql = f"SELECT {sqlite.condition_sql(wanted.condition)} FROM items ORDER BY number"
    rows = db.execute(sql, sqlite.bindings(wanted)).fetchall()
    db.close()
    return [holds for (holds,) in rows]


@pytest.fixture(scope="module")
def in_postgres() -> Iterator[Holds]:
    dsn = server().fresh_dsn()
    with psycopg.connect(dsn, autocommit=True) as db:

        def select(found: Sequence[str], wanted: Filter) -> list[Any]:
            storable = storable_filter(wanted)
            assert storable is not None
            documents = [normalized_json(text.encode()).decode() for text in found]
            sql = (
                f"SELECT {postgres.condition_sql(storable.condition)}"
                " FROM unnest(%(documents)s::text[]) WITH ORDINALITY AS given (text, number),"
                " LATERAL (SELECT text::jsonb AS doc) AS item ORDER BY number"
            )
            values = postgres.bindings(storable) | {"documents": documents}
            return [holds for (holds,) in db.execute(sql, values, prepare=False)]

        yield select
    server().drop(dsn)


def check(
    select: Holds, found: list[dict[str, Any]], predicate: str, given_values: dict[str, Any]
) -> None:
    """The SQL holds where the evaluator says so, or of more where it is not exact."""
    compiled = compile_query(f"SELECT VALUE c.number FROM c WHERE {predicate}")
    numbered = [each | {"number": number} for number, each in enumerate(found)]
    context = CallContext(0.0, lambda: 0.0)
    expected = set(run(compiled, numbered, given_values, context))
    parameter_types = {
        name: parameter_type_of(given_values.get(name, UNDEFINED)) for name in compiled.parameters
    }
    pushed = push_filter(compiled.bound, parameter_types)
    wanted = pushed.filter({name: given_values.get(name) for name in compiled.parameters})
    if wanted is None:
        assert not pushed.is_exact or len(expected) == len(numbered)
        return
    rows = select([json.dumps(each) for each in numbered], wanted)
    assert set(rows) <= {False, True}
    selected = {number for number, holds in enumerate(rows) if holds}
    if pushed.is_exact:
        assert selected == expected
    else:
        assert selected >= expected


@settings(max_examples=300, deadline=None)
@given(st.lists(documents, min_size=1, max_size=12), predicates, parameters)
def test_sql_equals_the_evaluator(
    found: list[dict[str, Any]], predicate: str, given_values: dict[str, Any]
) -> None:
    check(in_sqlite, found, predicate, given_values)


def without_nul(value: Any) -> Any:
    """As PostgreSQL can store it."""
    if isinstance(value, str):
        return value.replace("\0", "\x01")
    if isinstance(value, list):
        return [*map(without_nul, value)]
    if isinstance(value, dict):
        return {name: without_nul(each) for name, each in value.items()}
    return value


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    found=st.lists(documents.map(without_nul), min_size=1, max_size=12),
    predicate=predicates,
    given_values=parameters,
)
def test_sql_of_postgres_equals_the_evaluator(
    in_postgres: Holds, found: list[dict[str, Any]], predicate: str, given_values: dict[str, Any]
) -> None:
    check(in_postgres, found, predicate, given_values)


@pytest.mark.parametrize(
    ("predicate", "is_exact"),
    [
        ("c.a = 1", True),
        ("c.a = 1 AND c.b != 'x' OR NOT c.a", True),
        ("c.a IN (1, 'a', null)", True),
        ("IS_DEFINED(c.a) = false OR true != IS_NUMBER(c.a)", True),
        ("IS_DEFINED(c.a) = c.b", False),
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
    assert push_filter(compiled.bound, {}).is_exact is is_exact
