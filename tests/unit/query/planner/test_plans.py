"""Plans as text: one tree for each query, whatever the store makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.conditions import PropertyPath
from perseid.query import compile_query
from perseid.query.planner.bound_values import bound_values, types_of
from perseid.query.planner.plan import Plan
from perseid.query.planner.rules import RULES, PlanInputs, make_plan
from perseid.query.planner.tree import AccessStep, print_plan

NOW = 1_900_000_000.0
PARAMETERS = {"@status": "open", "@list": [1, 2], "@yes": True, "@rows": 5}


def plan_of(text: str, parameters: dict[str, Any] | None = None) -> Plan:
    compiled = compile_query(text)
    values = bound_values(compiled, PARAMETERS if parameters is None else parameters, NOW)
    inputs = PlanInputs(types_of(compiled, values), (("pk",),), is_indexable, bool)
    return make_plan(compiled, inputs)


def is_indexable(path: PropertyPath) -> bool:
    return path[0] != "secret"


@pytest.mark.parametrize(("text", "tree"), [
    ("SELECT * FROM c", ["Scan  all items"]),
    ("SELECT * FROM c WHERE c.pk = 'a'", ["Scan  one partition key", "Filter (store)  c.pk = 'a'"]),
    ("SELECT TOP 10 * FROM c WHERE c.status = @status AND LENGTH(c.name) > 3 ORDER BY c.n DESC",
     ["Limit 10", "Filter (evaluated)  LENGTH(c.name) > 3", "Ordered scan  /n descending",
      "Filter (store)  c.status = @status"]),
    ("SELECT c.id FROM c ORDER BY c.a.b, c.id OFFSET 2 LIMIT @rows",
     ["Limit @rows", "Offset 2", "Sort ties  c.a.b, c.id", "Ordered scan  /a/b ascending"]),
    ("SELECT * FROM c WHERE c.pk = 'a' ORDER BY c.n",
     ["Sort  c.n", "Scan  one partition key", "Filter (store)  c.pk = 'a'"]),
    ("SELECT * FROM c ORDER BY LOWER(c.n)", ["Sort  LOWER(c.n)", "Scan  all items"]),
    ("SELECT c.kind, COUNT(1) AS n FROM c WHERE c.n > 1 GROUP BY c.kind",
     ["Group by  c.kind", "Group counts  /kind", "Scan  all items", "Filter (store)  c.n > 1"]),
    ("SELECT VALUE COUNT(1) FROM c", ["Aggregate", "Count", "Scan  all items"]),
    ("SELECT DISTINCT c.kind FROM c", ["Distinct", "Group counts  /kind", "Scan  all items"]),
    ("SELECT VALUE MAKELIST(c.n) FROM c", ["Aggregate", "Scan  all items"]),
    ("SELECT t FROM c JOIN t IN c.tags WHERE t = 'a' AND c.n IN (1, 2)",
     ["Filter (evaluated)  t = 'a'", "Join", "Scan  all items", "Filter (store)  c.n IN (1, 2)"]),
    ("SELECT * FROM c WHERE 1 = 1 AND @yes", ["Scan  all items", "Filter (store)  1 = 1 AND @yes"]),
    ("SELECT * FROM c WHERE c.at > GetCurrentTimestamp() - 1000",
     ["Scan  all items", "Filter (store)  c.at > GetCurrentTimestamp() - 1000"]),
    ('SELECT * FROM c WHERE c["a b"][0] = 1 ORDER BY c["a b"][0]',
     ['Ordered scan  /"a b"/[] ascending', 'Filter (store)  c["a b"][0] = 1']),
])  # fmt: skip
def test_trees(text: str, tree: list[str]) -> None:
    indented = [f"{'   ' * (depth - 1)}└─ {line}" for depth, line in enumerate(tree)]
    assert str(plan_of(text)).splitlines() == [tree[0], *indented[1:]]


@pytest.mark.parametrize(("access", "tree"), [
    (AccessStep("order", ("n",), "9 items examined"),
     "Result\n└─ Ordered scan  /n ascending, index on /n, 9 items examined\n"
     "   └─ Filter (store)  c.a = 1"),
    (AccessStep("index", ("a",)),
     "Result\n└─ Sort  c.n\n   └─ Index scan  index on /a\n      └─ Filter (store)  c.a = 1"),
    (AccessStep("index", ("n",)),
     "Result\n└─ Ordered scan  /n ascending, index on /n\n   └─ Filter (store)  c.a = 1"),
    (AccessStep("scan", None),
     "Result\n└─ Sort  c.n\n   └─ Scan  all items\n      └─ Filter (store)  c.a = 1"),
])  # fmt: skip
def test_the_tree_shows_the_access_path(access: AccessStep, tree: str) -> None:
    plan = plan_of("SELECT * FROM c WHERE c.a = 1 ORDER BY c.n")
    assert print_plan(plan, access, "Result") == tree


@pytest.mark.parametrize(("text", "paging", "copies_items"), [
    ("SELECT * FROM c WHERE c.n = 1", "copy", True),
    ("SELECT * FROM c WHERE LOWER(c.n) = 'a'", "stream", False),
    ("SELECT c.n FROM c", "stream", False),
    ("SELECT * FROM c ORDER BY c.n", "sort", True),
    ("SELECT * FROM c ORDER BY c.n, c.m", "sort", False),
    ("SELECT c.n FROM c ORDER BY c.n", "sort", False),
    ("SELECT DISTINCT VALUE c FROM c", "collect", False),
    ("SELECT 1", "collect", False),
])  # fmt: skip
def test_paging(text: str, paging: str, copies_items: bool) -> None:
    plan = plan_of(text)
    assert (plan.paging, plan.copies_items) == (paging, copies_items)


@pytest.mark.parametrize(("text", "counts_items"), [
    ("SELECT VALUE COUNT(1) FROM c", True),
    ("SELECT VALUE COUNT('a') FROM c WHERE c.n = @n AND c.m > 2", True),
    ("SELECT VALUE COUNT(null) FROM c", True),
    ("SELECT VALUE COUNT(undefined) FROM c", False),
    ("SELECT VALUE COUNT(c.n) FROM c", False),
    ("SELECT VALUE COUNT(c) FROM c", False),
    ("SELECT VALUE COUNT(1) FROM c WHERE LOWER(c.n) = 'a'", False),
    ("SELECT VALUE COUNT(1) FROM c WHERE RAND() < 2", False),
    ("SELECT VALUE COUNT(1) FROM x IN c.list", False),
    ("SELECT VALUE COUNT(1) FROM c JOIN x IN c.list", False),
    ("SELECT VALUE COUNT(1) FROM (SELECT VALUE c.n FROM c) x", False),
    ("SELECT VALUE COUNT(1) FROM c GROUP BY c.n", False),
    ("SELECT VALUE COUNT(1) + 1 FROM c", False),
    ("SELECT VALUE {\"a\": COUNT(1)} FROM c", False),
    ("SELECT COUNT(1) FROM c", False),
    ("SELECT DISTINCT VALUE COUNT(1) FROM c", False),
    ("SELECT TOP 0 VALUE COUNT(1) FROM c", False),
    ("SELECT VALUE COUNT(1) FROM c OFFSET 1 LIMIT 1", False),
    ("SELECT VALUE SUM(1) FROM c", False),
])  # fmt: skip
def test_the_store_counts_items(text: str, counts_items: bool) -> None:
    assert plan_of(text, {"@n": 1}).counts_items == counts_items


@pytest.mark.parametrize(("where", "parameters", "key"), [
    ("c.pk = 'a'", {}, ("a",)),
    ("@a = c.pk AND c.n > 1", {"@a": None}, (None,)),
    ("c.pk = @missing AND c.pk = 2", {}, (2,)),
    ("c.pk = @a", {"@a": 1e300}, (1e300,)),
    ("c.pk = @a", {"@a": [1]}, None),
    ("c.pk = @a", {"@a": {"b": 1}}, None),
])  # fmt: skip
def test_partition_key_values(
    where: str, parameters: dict[str, Any], key: tuple[Any, ...] | None
) -> None:
    plan = plan_of(f"SELECT * FROM c WHERE {where}", parameters)
    assert plan.partition_key is not None
    assert plan.partition_key.values(parameters) == key


@pytest.mark.parametrize("where", ["c.pk = @missing", "c.pk > 1", "c.pk = 1 OR c.n = 1", "c.n = 1"])
def test_no_partition_key(where: str) -> None:
    assert plan_of(f"SELECT * FROM c WHERE {where}").partition_key is None


def test_indexable_paths_are_those_that_the_policy_allows() -> None:
    plan = plan_of("SELECT * FROM c WHERE c.a = 1 AND c.secret = 2 ORDER BY c.b.c")
    assert plan.indexable == {("a",), ("b", "c")}


def test_rules_are_pure() -> None:
    """Applying all rules to a finished plan changes nothing but conditions, which are new."""
    plan = plan_of("SELECT * FROM c WHERE c.pk = 'a' AND c.n = @rows ORDER BY c.n")
    types = types_of(plan.compiled, PARAMETERS)
    again = plan
    for rule in RULES:
        again = rule(again, PlanInputs(types, (("pk",),), is_indexable, bool))
    assert str(again) == str(plan)
    assert again._replace(filter=plan.filter) == plan
