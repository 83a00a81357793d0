"""Query info for clients: the rewritten queries; merging the ranges gives the whole result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.errors import IndivisibleQuery, QueryError
from perseid.query import CallContext, compile_query, run
from perseid.query.distribution import Distribution, distribute, without_resume_filter
from perseid.query.parser import parse
from perseid.query.values import UNDEFINED, canonical, order_bytes, sort_key

FILTER = "{documentdb-formattableorderbyquery-filter}"
CONTEXT = CallContext(now=0.0, random=lambda: 0.5)


def plan_of(
    text: str, parameters: Mapping[str, Any] | None = None, *, has_one_key: bool = False
) -> Distribution:
    bound = compile_query(text).bound
    return distribute(parse(text), bound, parameters or {}, has_one_key=has_one_key)


# --- rewritten queries


def golden() -> list[tuple[str, str]]:
    """The queries in rewritten.txt and the rewritten text of each."""
    cases: list[tuple[str, str]] = []
    for line in Path(__file__).with_name("rewritten.txt").read_text().splitlines():
        if line.startswith(" "):
            cases[-1] = (cases[-1][0], line.strip().replace("FILTER", FILTER))
        elif line and not line.startswith("#"):
            cases.append((line, ""))
    return cases


@pytest.mark.parametrize(("text", "rewritten"), golden())
def test_rewritten_text(text: str, rewritten: str) -> None:
    assert plan_of(text).rewritten == rewritten
    if rewritten:
        compile_query(rewritten)
        compile_query(rewritten.replace(FILTER, "true"))


# --- the rest of the query info


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT * FROM r", {}),
    ("SELECT VALUE r FROM r", {"has_select_value": True}),
    ("SELECT * FROM r ORDER BY r.a, r['b c'] DESC",
     {"order_by": ("Ascending", "Descending"), "order_by_expressions": ("r.a", 'r["b c"]')}),
    ("SELECT * FROM r ORDER BY r.a + 1",
     {"order_by": ("Ascending",), "order_by_expressions": ("(r.a + 1)",)}),
    ("SELECT TOP 5 * FROM c", {"top": 5}),
    ("SELECT TOP @n * FROM c ORDER BY c.a",
     {"top": 7, "order_by": ("Ascending",), "order_by_expressions": ("c.a",)}),
    ("SELECT * FROM c OFFSET @n LIMIT @n", {"offset": 7, "limit": 7}),
    ("SELECT TOP 2 * FROM c OFFSET 2 LIMIT 3", {"offset": 2, "limit": 2}),
    ("SELECT DISTINCT c.a FROM c", {"distinct": "Unordered"}),
    ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a",
     {"distinct": "Ordered", "has_select_value": True, "order_by": ("Ascending",),
      "order_by_expressions": ("c.a",)}),
    ("SELECT DISTINCT c.b, c.a FROM c ORDER BY c.a DESC, c.b",
     {"distinct": "Unordered", "order_by": ("Descending", "Ascending"),
      "order_by_expressions": ("c.a", "c.b")}),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.a",
     {"distinct": "Unordered", "order_by": ("Ascending",), "order_by_expressions": ("c.a",)}),
    ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a, c.b",
     {"distinct": "Unordered", "has_select_value": True, "order_by": ("Ascending",) * 2,
      "order_by_expressions": ("c.a", "c.b")}),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.a, c.b",
     {"distinct": "Unordered", "order_by": ("Ascending",) * 2,
      "order_by_expressions": ("c.a", "c.b")}),
    ("SELECT DISTINCT c.a, c.b FROM c ORDER BY c.a",
     {"distinct": "Unordered", "order_by": ("Ascending",), "order_by_expressions": ("c.a",)}),
    ("SELECT DISTINCT * FROM c ORDER BY c.a",
     {"distinct": "Unordered", "order_by": ("Ascending",), "order_by_expressions": ("c.a",)}),
    ("SELECT VALUE AVG(c.a) FROM c", {"has_select_value": True, "aggregates": ("Average",)}),
    ("SELECT VALUE AVG(c.a) FROM c ORDER BY c.b DESC, c.a",
     {"has_select_value": True, "aggregates": ("Average",)}),
    ("SELECT COUNT(1) AS n FROM c ORDER BY c.b", {"alias_aggregates": {"n": "Count"}}),
    ("SELECT TOP 3 VALUE MAKESET(c.a) FROM c",
     {"has_select_value": True, "aggregates": ("MakeSet",), "top": 3}),
    ("SELECT DISTINCT VALUE COUNT(1) FROM c", {"has_select_value": True, "aggregates": ("Count",)}),
    ("SELECT SUM(c.x), 1 AS one FROM c", {"alias_aggregates": {"$1": "Sum", "one": None}}),
    ("SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.a, c.b OFFSET 1 LIMIT 2",
     {"group_by_expressions": ("c.a", "c.b"), "alias_aggregates": {"n": "Count"},
      "distinct": "Unordered", "offset": 1, "limit": 2}),
    ("SELECT VALUE MAX(c.x) FROM c GROUP BY c.a",
     {"has_select_value": True, "aggregates": ("Max",), "group_by_expressions": ("c.a",)}),
    ("SELECT COUNT(1) FROM (SELECT DISTINCT c.x FROM c)",
     {"distinct": "Unordered", "count_alias": "$1"}),
    ("SELECT COUNT(1) AS n FROM (SELECT DISTINCT c.x FROM c)",
     {"distinct": "Unordered", "count_alias": "n"}),
    ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.x FROM c)",
     {"distinct": "Unordered", "count_alias": "", "has_select_value": True}),
])  # fmt: skip
def test_instructions(text: str, expected: dict[str, Any]) -> None:
    plan = plan_of(text, {"@n": 7})
    plain = Distribution(has_select_value=False, rewritten=plan.rewritten)
    differing = {
        name: getattr(plan, name)
        for name in Distribution.__slots__
        if getattr(plan, name) != getattr(plain, name)
    }
    assert differing == expected


def test_the_server_applies_offset_and_limit_to_one_key() -> None:
    plan = plan_of("SELECT * FROM c WHERE c.pk = 1 OFFSET 2 LIMIT 3", has_one_key=True)
    assert plan == Distribution(has_select_value=False)
    assert plan_of("SELECT TOP 5 * FROM c WHERE c.pk = 1", has_one_key=True).top == 5


@pytest.mark.parametrize(("text", "features"), [
    ("SELECT * FROM c", []),
    ("SELECT TOP 1 * FROM c", ["Top"]),
    ("SELECT * FROM c OFFSET 0 LIMIT 1", ["OffsetAndLimit"]),
    ("SELECT * FROM c ORDER BY c.a", ["OrderBy"]),
    ("SELECT * FROM c ORDER BY c.a, c.b", ["MultipleOrderBy", "OrderBy"]),
    ("SELECT DISTINCT c.a FROM c", ["Distinct"]),
    ("SELECT VALUE COUNT(1) FROM c", ["Aggregate"]),
    ("SELECT COUNT(1) FROM c", ["Aggregate", "NonValueAggregate"]),
    ("SELECT COUNT(1), SUM(c.a) FROM c", ["Aggregate", "MultipleAggregates", "NonValueAggregate"]),
    ("SELECT VALUE COUNTIF(c.a) FROM c", ["Aggregate", "CountIf"]),
    ("SELECT VALUE MAKELIST(c.a) FROM c", ["Aggregate", "ListAndSetAggregate"]),
    ("SELECT c.a FROM c GROUP BY c.a", ["GroupBy"]),
    ("SELECT c.a, COUNT(1) FROM c GROUP BY c.a", ["Aggregate", "GroupBy"]),
    ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a FROM c)", ["DCount", "Distinct"]),
])  # fmt: skip
def test_features(text: str, features: list[str]) -> None:
    assert plan_of(text).features() == features


@pytest.mark.parametrize("text", [
    'SELECT VALUE {"n": COUNT(1)} FROM c',
    "SELECT SUM(c.a) / COUNT(1) FROM c",
    "SELECT VALUE COUNT(1) + 5 FROM c",
    "SELECT c.a, MAX(c.b) - MIN(c.b) AS spread FROM c GROUP BY c.a",
    "SELECT VALUE 1 FROM c ORDER BY COUNT(1)",
    "SELECT 1 FROM c ORDER BY COUNT(1)",
    "SELECT c.a FROM c GROUP BY c.a ORDER BY c.a",
    "SELECT * FROM (SELECT DISTINCT c.x FROM c) AS d",
    "SELECT * FROM (SELECT TOP 5 c.x FROM c) AS d",
    "SELECT VALUE COUNT(1) FROM (SELECT VALUE c.x FROM c GROUP BY c.x) AS d",
    "SELECT VALUE COUNT(d.x) FROM (SELECT DISTINCT c.x FROM c) AS d",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.x FROM c) AS d WHERE d.x > 1",
    "SELECT * FROM (SELECT c.x FROM c) AS d ORDER BY d.x",
])  # fmt: skip
def test_indivisible_queries(text: str) -> None:
    with pytest.raises(IndivisibleQuery):
        plan_of(text)


def test_invalid_count_parameter() -> None:
    with pytest.raises(QueryError):
        plan_of("SELECT TOP @n * FROM c", {"@n": "many"})


@pytest.mark.parametrize(("text", "kept"), [
    ("SELECT * FROM c WHERE c.a = 1", "SELECT * FROM c WHERE c.a = 1"),
    ("SELECT c.orderByItems FROM c WHERE 1", "SELECT c.orderByItems FROM c WHERE 1"),
    ("SELECT orderByItems FROM", "SELECT orderByItems FROM"),
    ('SELECT c._rid, [{"item": c.a}] AS orderByItems, c AS payload FROM c WHERE c.a ORDER BY c.a',
     'SELECT c._rid, [{"item": c.a}] AS orderByItems, c AS payload FROM c ORDER BY c.a'),
])  # fmt: skip
def test_text_without_resume_filter(text: str, kept: str) -> None:
    assert without_resume_filter(text) == kept


# --- merged results


def merged(text: str, parameters: Mapping[str, Any], ranges: Sequence[list[Any]]) -> list[Any]:
    """The result of a query as a client merges it from the ranges."""
    plan = plan_of(text, parameters)
    sent = plan.rewritten.replace(FILTER, "true") or text
    parts = [list(run(compile_query(sent), part, parameters, CONTEXT)) for part in ranges]
    if plan.order_by:
        rows = sorted(chain(*parts), key=lambda row: _rank(row["orderByItems"], plan.order_by))
        rows = [row["payload"] for row in rows]
    elif plan.aggregates or plan.alias_aggregates or plan.group_by_expressions:
        rows = _combined(plan, chain(*parts))
    else:
        rows = list(chain(*parts))
    if plan.distinct == "Unordered":
        rows = _different(rows)
    elif plan.distinct == "Ordered":
        pairs = zip([UNDEFINED, *rows], rows, strict=False)
        rows = [row for before, row in pairs if canonical(before) != canonical(row)]
    if plan.count_alias is not None:
        rows = [{plan.count_alias: len(rows)} if plan.count_alias else len(rows)]
    start = plan.offset or 0
    most = plan.limit if plan.limit is not None else plan.top
    return rows[start:] if most is None else rows[start : start + most]


def _rank(items: list[Any], directions: Iterable[str]) -> list[bytes]:
    keys = []
    for item, direction in zip(items, directions, strict=True):
        rank = order_bytes(item.get("item", UNDEFINED))
        keys.append(rank if direction == "Ascending" else bytes(255 - byte for byte in rank))
    return keys


def _different(rows: Iterable[Any]) -> list[Any]:
    distinct: dict[Any, Any] = {}
    for row in rows:
        distinct.setdefault(canonical(row), row)
    return list(distinct.values())


def _combined(plan: Distribution, rows: Iterable[Any]) -> list[Any]:
    """The groups of all ranges, or the one row of an aggregate."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        has_key = bool(plan.group_by_expressions)
        key = canonical(row["groupByItems"]) if has_key else ()
        has_payload = has_key or not plan.has_select_value
        groups.setdefault(key, []).append(row.get("payload", UNDEFINED) if has_payload else row)
    combined = [_combined_group(plan, payloads) for payloads in groups.values()]
    return [row for row in combined if row is not UNDEFINED]


def _combined_group(plan: Distribution, payloads: list[Any]) -> Any:
    if plan.aggregates:
        return COMBINE[plan.aggregates[0]]([payload[0] for payload in payloads])
    if plan.has_select_value:
        return payloads[0]
    columns = {
        name: payloads[0].get(name, UNDEFINED)
        if function is None
        else COMBINE[function]([payload[name] for payload in payloads])
        for name, function in plan.alias_aggregates.items()
    }
    return {name: value for name, value in columns.items() if value is not UNDEFINED}


def _sum(parts: list[Any]) -> Any:
    return (
        sum(part["item"] for part in parts) if all("item" in part for part in parts) else UNDEFINED
    )


def _average(parts: list[Any]) -> Any:
    total = _sum([{"item": p["item"]["sum"]} if "sum" in p["item"] else {} for p in parts])
    count = sum(part["item"]["count"] for part in parts)
    return UNDEFINED if total is UNDEFINED or count == 0 else total / count


def _extreme(name: str, choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def combine(parts: list[Any]) -> Any:
        known = [part["item2"] for part in parts if part["item2"]["count"] > 0]
        if not known or any(name not in part for part in known):
            return UNDEFINED
        return choose((part[name] for part in known), key=sort_key)

    return combine


def _list(parts: list[Any]) -> Any:
    return list(chain(*(part["item"] for part in parts)))


COMBINE: dict[str, Callable[[list[Any]], Any]] = {
    "Average": _average,
    "Count": _sum,
    "CountIf": _sum,
    "MakeList": _list,
    "MakeSet": lambda parts: _different(_list(parts)),
    "Max": _extreme("max", max),
    "Min": _extreme("min", min),
    "Sum": _sum,
}

QUERIES = [
    "SELECT * FROM c",
    "SELECT c.a, c.b FROM c WHERE c.b > 1",
    "SELECT TOP @n * FROM c",
    "SELECT * FROM c OFFSET 1 LIMIT @n",
    "SELECT TOP 2 VALUE c.a FROM c OFFSET 1 LIMIT @n",
    "SELECT * FROM c ORDER BY c.a, c.id",
    "SELECT * FROM c ORDER BY c.a DESC, c.b, c.id DESC",
    "SELECT VALUE c.b FROM c WHERE IS_DEFINED(c.a) ORDER BY c.a, c.id",
    "SELECT TOP @n VALUE c.b FROM c ORDER BY c.a DESC, c.id",
    "SELECT c.id, c.a ?? 0 FROM c ORDER BY c.b, c.id OFFSET 2 LIMIT @n",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY t, c.id DESC",
    "SELECT VALUE t FROM t IN c.tags ORDER BY t",
    "SELECT VALUE t FROM c JOIN (SELECT VALUE t FROM t IN c.tags WHERE t > 1) AS t",
    "SELECT DISTINCT c.a FROM c",
    "SELECT DISTINCT TOP @n VALUE c.a FROM c",
    "SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags OFFSET 1 LIMIT @n",
    "SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a DESC",
    "SELECT DISTINCT c.a, c.b FROM c ORDER BY c.b, c.a OFFSET 1 LIMIT @n",
    "SELECT DISTINCT c.a FROM c ORDER BY c.b, c.id",
    "SELECT DISTINCT TOP @n c.a FROM c ORDER BY c.b, c.id",
    *(f"SELECT VALUE {function}(c.a) FROM c" for function in
      ("COUNT", "SUM", "AVG", "MIN", "MAX", "MAKELIST", "MAKESET", "COUNTIF")),
    "SELECT VALUE SUM(c.b) FROM c",
    "SELECT VALUE AVG(c.b) FROM c WHERE c.b > 1",
    "SELECT VALUE AVG(c.b) FROM c WHERE c.b > 1 ORDER BY c.a, c.b DESC",
    "SELECT MAX(c.b) AS m FROM c ORDER BY c.b",
    "SELECT MIN(c.b), MAX(c.b) AS hi, AVG(c.b) AS m, SUM(c.a) AS s, COUNT(1) AS n, 'x' AS x FROM c",
    "SELECT VALUE COUNT(1) FROM c WHERE false",
    "SELECT VALUE MAX(c.b) FROM c WHERE false",
    "SELECT c.a, COUNT(1) AS n, SUM(c.b) AS s, AVG(c.b) AS m FROM c GROUP BY c.a",
    "SELECT c.a, MIN(c.b) AS lo, MAX(c.a) AS hi FROM c GROUP BY c.a",
    "SELECT VALUE AVG(c.b) FROM c GROUP BY c.a",
    "SELECT VALUE c.a FROM c GROUP BY c.a, c.b",
    "SELECT TOP @n c.a, MAKESET(c.b) AS bs FROM c GROUP BY c.a",
    "SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.a OFFSET 0 LIMIT @n",
    "SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a FROM c)",
    "SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE c.a FROM c)",
]  # fmt: skip

SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 1.0, "a", "b", [1], {"k": 1}])
NUMBERS = st.integers(0, 3)
BODIES = st.fixed_dictionaries(
    {"tags": st.lists(NUMBERS, max_size=3)}, optional={"a": SCALARS, "b": NUMBERS}
)


@settings(deadline=None)
@given(st.lists(st.lists(BODIES, max_size=5), min_size=4, max_size=4), st.integers(0, 4))
def test_merged_results_equal_the_whole_result(bodies: list[list[dict[str, Any]]], n: int) -> None:
    ranges = [
        [body | {"id": f"{part}-{at}", "_rid": f"{part}{at}"} for at, body in enumerate(documents)]
        for part, documents in enumerate(bodies)
    ]
    parameters = {"@n": n}
    for text in QUERIES:
        whole = list(run(compile_query(text), chain(*ranges), parameters, CONTEXT))
        result = merged(text, parameters, ranges)
        assert list(map(canonical, result)) == list(map(canonical, whole)), text
