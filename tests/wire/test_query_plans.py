"""Query plans on the wire, and the rewritten queries as clients send them to each range."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.partition import effective, parse_definition
from tests.support.builders import PARTITION_KEY, create_container
from tests.support.raw import RawClient, Reply

FILTER = "{documentdb-formattableorderbyquery-filter}"
PYTHON = (
    "Aggregate,CompositeAggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top,"
    "NonStreamingOrderBy,HybridSearch,CountIf,WeightedRankFusion"
)
JAVA = (
    "Aggregate, CompositeAggregate, MultipleOrderBy, MultipleAggregates, OrderBy, OffsetAndLimit, "
    "Distinct, GroupBy, Top, DCount, NonValueAggregate"
)
EVERYWHERE = [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}]
ANYWHERE = [{"min": "", "max": "", "isMinInclusive": True, "isMaxInclusive": True}]

PK = "x-ms-documentdb-partitionkey"


def plan(
    raw: RawClient, path: str, text: str, parameters: Any = None, features: str | None = None
) -> Reply:
    body = {"query": text} if parameters is None else {"query": text, "parameters": parameters}
    headers = {
        "x-ms-cosmos-is-query-plan-request": "True",
        "x-ms-cosmos-query-version": "1.4",
        "content-type": "application/query+json",
    }
    if features is not None:
        headers["x-ms-cosmos-supported-query-features"] = features
    return raw.request("POST", f"{path}/docs", body, headers)


@pytest.fixture
def wide(raw: RawClient, database: str) -> str:
    """A container with four ranges."""
    return create_container(raw, database, "wide", headers={"throughput": "24000"})


def test_a_plan(raw: RawClient, container: str) -> None:
    reply = plan(raw, container, "SELECT TOP 5 * FROM c WHERE c.x = @x ORDER BY c.a DESC")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert float(reply.headers["x-ms-request-charge"]) > 0
    assert "x-ms-session-token" in reply.headers
    assert reply.json == {
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": {
            "distinctType": "None",
            "top": 5,
            "offset": None,
            "limit": None,
            "orderBy": ["Descending"],
            "orderByExpressions": ["c.a"],
            "groupByExpressions": [],
            "groupByAliases": [],
            "aggregates": [],
            "groupByAliasToAggregateType": {},
            "rewrittenQuery": 'SELECT TOP 5 c._rid, [{"item": c.a}] AS orderByItems, c AS payload'
            f" FROM c WHERE ((c.x = @x) AND ({FILTER})) ORDER BY c.a DESC",
            "hasSelectValue": False,
            "dCountInfo": None,
            "hasNonStreamingOrderBy": False,
        },
        "hybridSearchQueryInfo": None,
        "queryRanges": EVERYWHERE,
    }


def test_a_plan_of_groups(raw: RawClient, container: str) -> None:
    text = "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team"
    info = plan(raw, container, text).json["queryInfo"]
    assert info["groupByExpressions"] == ["c.team"]
    assert info["groupByAliases"] == ["team", "n"]
    assert info["groupByAliasToAggregateType"] == {"team": None, "n": "Count"}


@pytest.mark.parametrize(("text", "rewritten_text"), [
    ("SELECT VALUE AVG(c.x) FROM c WHERE c.x > 1 ORDER BY c.y, c.z",
     'SELECT VALUE [{"item": {"sum": SUM(c.x), "count": COUNT(c.x)}}] FROM c WHERE (c.x > 1)'
     " ORDER BY c.y, c.z"),
    ("SELECT VALUE COUNT(1) FROM r ORDER BY r.x DESC",
     'SELECT VALUE [{"item": COUNT(1)}] FROM r ORDER BY r.x DESC'),
])  # fmt: skip
def test_a_plan_of_a_sorted_aggregate(
    raw: RawClient, container: str, text: str, rewritten_text: str
) -> None:
    """There is one row, so the client has nothing to sort."""
    info = plan(raw, container, text, features=PYTHON).json["queryInfo"]
    assert (info["orderBy"], info["orderByExpressions"]) == ([], [])
    assert info["aggregates"] in (["Average"], ["Count"])
    assert info["rewrittenQuery"] == rewritten_text


@pytest.mark.parametrize(("text", "numbers"), [
    ("SELECT TOP 10 VALUE COUNT(c.a) FROM c", {"top": 10, "aggregates": ["Count"]}),
    ("SELECT * FROM c ORDER BY c.a OFFSET 5 LIMIT 10", {"offset": 5, "limit": 10, "top": None}),
    ("SELECT * FROM c", {"top": None, "offset": None, "limit": None, "rewrittenQuery": ""}),
])  # fmt: skip
def test_numbers_in_plans(
    raw: RawClient, container: str, text: str, numbers: dict[str, Any]
) -> None:
    info = plan(raw, container, text).json["queryInfo"]
    assert {name: info[name] for name in numbers} == numbers
    lists = ("orderBy", "orderByExpressions", "groupByExpressions", "groupByAliases", "aggregates")
    assert all(isinstance(info[name], list) for name in lists)
    assert isinstance(info["rewrittenQuery"], str)


@pytest.mark.parametrize(("text", "kind"), [
    ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a", "Ordered"),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.a", "Unordered"),
    ("SELECT DISTINCT VALUE c.a FROM c", "Unordered"),
    ("SELECT VALUE c.a FROM c ORDER BY c.a", "None"),
])  # fmt: skip
def test_only_sorted_values_are_distinct_in_order(
    raw: RawClient, container: str, text: str, kind: str
) -> None:
    """Rows that are objects: a client that continues from its own token would repeat some."""
    assert plan(raw, container, text).json["queryInfo"]["distinctType"] == kind


def test_a_plan_of_a_number_of_distinct_rows(raw: RawClient, container: str) -> None:
    text = "SELECT COUNT(1) FROM (SELECT DISTINCT c.x FROM c)"
    info = plan(raw, container, text, features=JAVA).json["queryInfo"]
    assert info["dCountInfo"] == {"dCountAlias": "$1"}


def test_the_query_may_be_a_bare_string(raw: RawClient, container: str) -> None:
    headers = {"x-ms-cosmos-is-query-plan-request": "true"}
    reply = raw.request("POST", f"{container}/docs", "SELECT * FROM c", headers)
    assert reply.status == 200
    assert reply.json["queryInfo"]["rewrittenQuery"] == ""


def points(*keys: Any) -> list[dict[str, Any]]:
    hashes = sorted(effective((key,), parse_definition(PARTITION_KEY)) for key in keys)
    return [
        {"min": epk, "max": epk, "isMinInclusive": True, "isMaxInclusive": True} for epk in hashes
    ]


@pytest.mark.parametrize(("text", "ranges"), [
    ("SELECT * FROM c", EVERYWHERE),
    ("SELECT * FROM c WHERE c.other = 1", EVERYWHERE),
    ("SELECT * FROM c WHERE c.pk = 'redmond'", points("redmond")),
    ("SELECT * FROM c WHERE c.pk = @key AND c.n > 1", points("k")),
    ("SELECT * FROM c WHERE c.pk IN ('a', 'b', 1) ORDER BY c.x", points("a", "b", 1)),
    ("SELECT * FROM c WHERE c.pk = 'a' OR (c.pk = 'b' AND c.x)", points("a", "b")),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = null", points(None)),
    ("SELECT * FROM c WHERE false", ANYWHERE),
    ("SELECT 1", ANYWHERE),
])  # fmt: skip
def test_ranges(raw: RawClient, container: str, text: str, ranges: list[Any]) -> None:
    reply = plan(raw, container, text, [{"name": "@key", "value": "k"}])
    assert reply.json["queryRanges"] == ranges


def test_hierarchical_keys(raw: RawClient, database: str) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    assert raw.post(f"{database}/colls", {"id": "t", "partitionKey": key}).status == 201
    path, definition = f"{database}/colls/t", parse_definition(key)
    (below,) = plan(raw, path, "SELECT * FROM c WHERE c.a = 1").json["queryRanges"]
    start = effective((1,), definition)
    assert below == {
        "min": start, "max": f"{start}FF", "isMinInclusive": True, "isMaxInclusive": True,
    }  # fmt: skip
    (point,) = plan(raw, path, "SELECT * FROM c WHERE c.a = 1 AND c.b = 2").json["queryRanges"]
    assert point["min"] == point["max"] == effective((1, 2), definition)


def test_a_window_over_one_key_stays_with_the_server(raw: RawClient, wide: str) -> None:
    info = plan(raw, wide, "SELECT * FROM c WHERE c.pk = 1 OFFSET 2 LIMIT 3").json["queryInfo"]
    assert (info["offset"], info["limit"], info["rewrittenQuery"]) == (None, None, "")


# --- refusals


@pytest.mark.parametrize(("text", "features", "missing"), [
    ("SELECT c.a FROM c GROUP BY c.a", PYTHON, "GroupBy"),
    ("SELECT COUNT(1) FROM c", PYTHON, "NonValueAggregate"),
    ("SELECT VALUE MAKELIST(c.a) FROM c", PYTHON, "ListAndSetAggregate"),
    ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a FROM c)", PYTHON, "DCount"),
    ("SELECT TOP 1 * FROM c ORDER BY c.a, c.b", "Aggregate, Top", "MultipleOrderBy, OrderBy"),
    ("SELECT * FROM c OFFSET 0 LIMIT 1", "None", "OffsetAndLimit"),
])  # fmt: skip
def test_features_a_client_lacks(
    raw: RawClient, container: str, text: str, features: str, missing: str
) -> None:
    reply = plan(raw, container, text, features=features)
    assert reply.status == 400
    expected = (
        "Query contains the following features, which the calling client does not support:"
        f" {missing}"
    )
    assert expected in reply.json["message"]
    assert plan(raw, container, text).status == 200


@pytest.mark.parametrize("text", [
    "SELECT c.a, COUNT(1) AS n, MAX(c.b) AS m FROM c GROUP BY c.a",
    "SELECT SUM(c.a), AVG(c.b) FROM c",
    "SELECT DISTINCT TOP 1 VALUE c.a FROM c ORDER BY c.a, c.b",
])  # fmt: skip
def test_features_with_blanks_between_them(raw: RawClient, container: str, text: str) -> None:
    assert plan(raw, container, text, features=JAVA).status == 200


def test_a_query_that_is_none(raw: RawClient, container: str) -> None:
    reply = plan(raw, container, "SELECT FROM c")
    assert reply.status == 400
    assert reply.json["message"].startswith("Gateway Failed to Retrieve Query Plan: Message: {")
    assert '"code":"SC1001"' in reply.json["message"]


@pytest.mark.parametrize(("text", "why"), [
    ("SELECT VALUE {n: COUNT(1)} FROM c", "Compositions of aggregates and other expressions"),
    ("SELECT c.a FROM c GROUP BY c.a ORDER BY c.a", "sorted"),
    ("SELECT * FROM (SELECT TOP 5 c.x FROM c) AS d", "complete result"),
])  # fmt: skip
def test_queries_no_client_can_merge(
    raw: RawClient, wide: str, container: str, text: str, why: str
) -> None:
    reply = plan(raw, wide, text)
    assert reply.status == 400
    assert why in reply.json["message"]
    # with one range, or one key, there is nothing to merge
    pinned = text.replace("FROM c", "FROM c WHERE c.pk = 1", 1)
    for place, query in ((container, text), (wide, pinned)):
        found = plan(raw, place, query).json
        assert found["queryInfo"]["rewrittenQuery"] == ""
        assert found["queryInfo"]["aggregates"] == []
        assert raw.query(f"{place}/docs", query).status == 200
    assert raw.query(f"{wide}/docs", text).status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"query": 5}'])
def test_bodies_that_are_no_query(raw: RawClient, container: str, body: bytes) -> None:
    headers = {"x-ms-cosmos-is-query-plan-request": "True"}
    assert raw.request("POST", f"{container}/docs", body, headers).status == 400


def test_plans_are_for_items_only(raw: RawClient, database: str) -> None:
    headers = {"x-ms-cosmos-is-query-plan-request": "True"}
    body = {"query": "SELECT * FROM c"}
    assert raw.request("POST", f"{database}/colls", body, headers).status == 405
    assert raw.request("POST", f"{database}/colls/none/docs", body, headers).status == 404


def test_a_query_across_partitions_must_say_so(raw: RawClient, container: str) -> None:
    """Without a sub-status: with 1004 the Python client would merge what it was asked not to."""
    headers = {"x_ms_documentdb_query_enablecrosspartition": "False"}
    reply = raw.query(f"{container}/docs", "SELECT * FROM c", **headers)
    assert (reply.status, reply.sub_status) == (400, 0)
    assert "Cross partition query is required but disabled." in reply.json["message"]
    interval = {
        "x_ms_read_key_type": "EffectivePartitionKeyRange",
        "x_ms_start_epk": "05",
        "x_ms_end_epk": "3F",
    }
    assert raw.query(f"{container}/docs", "SELECT * FROM c", **headers, **interval).status == 200


@pytest.mark.parametrize("intent", ["x-ms-documentdb-is-upsert", "x-ms-cosmos-is-batch-request"])
def test_a_question_writes_nothing(raw: RawClient, container: str, intent: str) -> None:
    """Whatever else its headers say: its content type makes it one."""
    headers = {"content-type": "application/query+json", PK: '["a"]', intent: "true"}
    body = {"query": "SELECT VALUE 1", "id": "q", "pk": "a"}
    reply = raw.request("POST", f"{container}/docs", body, headers)
    assert (reply.status, reply.json["Documents"]) == (200, [1])
    assert raw.get(f"{container}/docs").json["_count"] == 0


# --- rewritten queries, range by range


@pytest.fixture
def filled(raw: RawClient, wide: str) -> str:
    for n in range(24):
        body = {"id": str(n), "pk": f"k{n}", "n": n, "g": n % 3}
        if n % 4 == 0:
            body["text"] = f"t{n}"
        assert raw.post(f"{wide}/docs", body, pk=f'["k{n}"]').status == 201
    return wide


def by_range(raw: RawClient, path: str, text: str, **headers: str) -> list[list[Any]]:
    return [
        raw.query(f"{path}/docs", text, range=str(index), **headers).json["Documents"]
        for index in range(4)
    ]


def rewritten(raw: RawClient, path: str, text: str) -> str:
    found: str = plan(raw, path, text).json["queryInfo"]["rewrittenQuery"]
    return found


def test_sorted_rows_of_ranges(raw: RawClient, filled: str) -> None:
    text = rewritten(raw, filled, "SELECT * FROM c ORDER BY c.text DESC, c.n")
    parts = by_range(raw, filled, text.replace(FILTER, "true"))
    assert all(parts), "every range has some"
    assert by_range(raw, filled, text) == parts, "an unfilled placeholder filters nothing"
    rows = [row for part in parts for row in part]
    assert sorted(row["payload"]["n"] for row in rows) == list(range(24))
    for row in rows:
        assert row["_rid"] == row["payload"]["_rid"]
        has_text = "text" in row["payload"]
        first = {"item": row["payload"]["text"]} if has_text else {}
        assert row["orderByItems"] == [first, {"item": row["payload"]["n"]}]


@pytest.mark.parametrize(("text", "empty"), [
    ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 99", [{"item": 0}]),
    ("SELECT VALUE SUM(c.n) FROM c WHERE c.n > 99", [{"item": 0}]),
    ("SELECT VALUE AVG(c.n) FROM c WHERE c.n > 99", [{"item": {"sum": 0, "count": 0}}]),
    ("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 99", [{"item2": {"count": 0}}]),
    ("SELECT VALUE MAX(c.n) FROM c WHERE c.n > 99", [{"item2": {"count": 0}}]),
    ("SELECT VALUE SUM(c.id) FROM c", [{}]),
])  # fmt: skip
def test_a_range_gives_one_row_of_an_aggregate(
    raw: RawClient, filled: str, text: str, empty: list[Any]
) -> None:
    assert by_range(raw, filled, rewritten(raw, filled, text)) == [[empty]] * 4


def test_groups_of_ranges(raw: RawClient, filled: str) -> None:
    text = "SELECT c.g, MAX(c.n) AS best FROM c GROUP BY c.g"
    rows = [row for part in by_range(raw, filled, rewritten(raw, filled, text)) for row in part]
    assert {row["payload"]["g"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert row["groupByItems"] == [{"item": row["payload"]["g"]}]
        best = row["payload"]["best"]
        assert best["item"] == best["item2"]["max"]
    assert sum(row["payload"]["best"]["item2"]["count"] for row in rows) == 24


def test_a_token_outlives_the_filter_it_was_made_with(raw: RawClient, filled: str) -> None:
    """A client resumes with its token and a filter in place of the one before."""
    text = rewritten(raw, filled, "SELECT VALUE c.n FROM c WHERE c.n < 20 ORDER BY c.n")
    whole = by_range(raw, filled, text.replace(FILTER, "true"))[1]
    first = raw.query(f"{filled}/docs", text.replace(FILTER, "true"), range="1", count="2")
    assert first.json["Documents"] == whole[:2]
    last = whole[1]["payload"]
    second = raw.query(
        f"{filled}/docs",
        text.replace(FILTER, f"(c.n >= {last})"),
        range="1",
        continuation=first.headers["x-ms-continuation"],
    )
    assert second.json["Documents"] == whole[2:]
    other = raw.query(
        f"{filled}/docs",
        text.replace(FILTER, "true").replace("ORDER BY c.n", "ORDER BY c.id"),
        range="1",
        continuation=first.headers["x-ms-continuation"],
    )
    assert other.status == 400
