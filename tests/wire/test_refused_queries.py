"""Queries that the service refuses: refused by a strict server, answered by a relaxed one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.builders import create_container
from tests.support.figures import physical_ranges
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer

DIRECT = {"x_perseid_direct": "true"}
NOT_ENABLED = {"x_ms_documentdb_query_enablecrosspartition": "False"}
NO_INDEX = "does not have a corresponding composite index that it can be served from."
PYTHON = (
    "Aggregate,CompositeAggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top,"
    "NonStreamingOrderBy,HybridSearch,CountIf,WeightedRankFusion"
)
DOTNET = (
    "Aggregate, Distinct, MultipleOrderBy, OffsetAndLimit, OrderBy, Top, NonValueAggregate, "
    "GroupBy, MultipleAggregates, DCount, NonStreamingOrderBy, CountIf, HybridSearch"
)

PLANNED = [
    "SELECT * FROM c ORDER BY c.n",
    "SELECT DISTINCT c.n FROM c",
    "SELECT DISTINCT VALUE c.n FROM c",
    "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT COUNT(1) FROM c",
    "SELECT VALUE MAX(c.n) FROM c",
    "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
    "SELECT TOP 1 * FROM c",
    "SELECT * FROM c OFFSET 0 LIMIT 1",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.n FROM c)",
    "SELECT * FROM c WHERE c.pk = 'a' ORDER BY c.n",
    "SELECT TOP 1 * FROM c WHERE c.pk = 'a'",
]
DIRECTLY_SERVED = [
    "SELECT * FROM c",
    "SELECT c.id, c.n + 1 AS m FROM c WHERE c.n > 0 AND CONTAINS(c.id, 'a')",
    "SELECT VALUE t FROM c JOIN t IN c.list",
    "SELECT VALUE ARRAY(SELECT DISTINCT VALUE t FROM t IN c.list ORDER BY t) FROM c",
    "SELECT * FROM c WHERE c.pk = 'a'",
    "SELECT VALUE 1",
]


@pytest.fixture(scope="session")
def server(strict_server: RunningServer) -> RunningServer:
    return strict_server


@pytest.fixture
def wide(raw: RawClient, database: str) -> str:
    """A container with several ranges."""
    return create_container(raw, database, "wide", headers={"throughput": "40000"})


def message(reply: Reply) -> str:
    text: str = reply.json["message"]
    return text


def plan(raw: RawClient, path: str, text: str, features: str = "", **headers: str) -> Reply:
    sent = {"x-ms-cosmos-is-query-plan-request": "True"}
    if features:
        sent["x-ms-cosmos-supported-query-features"] = features
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return raw.request("POST", f"{path}/docs", {"query": text}, sent)


# --- rows of several ranges that the client merges


@pytest.mark.parametrize("text", PLANNED)
def test_the_client_has_to_merge(raw: RawClient, container: str, wide: str, text: str) -> None:
    for path in (container, wide):  # the number of ranges does not matter
        reply = raw.query(f"{path}/docs", text)
        assert (reply.status, reply.sub_status, reply.json["code"]) == (400, 1004, "BadRequest")
        assert message(reply).startswith(
            "The provided cross partition query can not be directly served by the gateway."
        )
        assert json.loads(reply.json["additionalErrorInfo"]) == plan(raw, path, text).json


@pytest.mark.parametrize("text", [*PLANNED, "SELECT VALUE COUNT(1) + 5 FROM c"])
def test_a_key_a_range_or_an_interval_is_enough(raw: RawClient, container: str, text: str) -> None:
    interval = {
        "x_ms_read_key_type": "EffectivePartitionKeyRange",
        "x_ms_start_epk": "",
        "x_ms_end_epk": "FF",
    }
    for headers in ({"pk": '["a"]'}, {"range": "0"}, interval, {"range": "0", **interval}):
        assert raw.query(f"{container}/docs", text, **headers).status == 200, headers


def test_an_empty_key_is_none(raw: RawClient, container: str) -> None:
    reply = raw.query(f"{container}/docs", "SELECT TOP 1 * FROM c", pk="[]")
    assert (reply.status, reply.sub_status) == (400, 1004)


def test_the_first_levels_of_a_key_are_enough(raw: RawClient, database: str) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    path = create_container(raw, database, "levels", partitionKey=key)
    assert raw.query(f"{path}/docs", "SELECT VALUE COUNT(1) FROM c", pk='["x"]').status == 200


@pytest.mark.parametrize("text", DIRECTLY_SERVED)
def test_what_is_served_directly(raw: RawClient, container: str, text: str) -> None:
    assert raw.query(f"{container}/docs", text).status == 200


@pytest.mark.parametrize("text", [*PLANNED, "SELECT VALUE COUNT(1) + 5 FROM c"])
def test_a_request_may_ask_for_direct_answers(raw: RawClient, wide: str, text: str) -> None:
    assert raw.query(f"{wide}/docs", text, **DIRECT).status == 200


@pytest.mark.parametrize(
    "text", [*PLANNED, "SELECT VALUE COUNT(1) + 5 FROM c", "SELECT * FROM c ORDER BY c.n, c.m"]
)
def test_a_relaxed_server_answers_directly(relaxed_server: RunningServer, text: str) -> None:
    with relaxed_server.connect() as raw:
        path = _shared_container(raw)
        assert raw.query(f"{path}/docs", text).status == 200


def test_a_direct_answer_needs_the_same_permission(raw: RawClient, container: str) -> None:
    reply = raw.query(f"{container}/docs", "SELECT * FROM c", **NOT_ENABLED, **DIRECT)
    assert (reply.status, reply.sub_status) == (400, 0)


def _shared_container(raw: RawClient) -> str:
    raw.post("/dbs", {"id": "refused-queries"})
    raw.post("/dbs/refused-queries/colls", {"id": "c", "partitionKey": {"paths": ["/pk"]}})
    return "/dbs/refused-queries/colls/c"


# --- the order of refusals


def test_bad_sql_comes_first(raw: RawClient, container: str) -> None:
    reply = raw.query(f"{container}/docs", "SELECT * FROM c ORDER BY", **NOT_ENABLED)
    assert (reply.status, reply.sub_status) == (400, 0)
    assert "Syntax error" in message(reply)


@pytest.mark.parametrize("text", [
    "SELECT * FROM c",
    "SELECT * FROM c ORDER BY c.n",
    "SELECT * FROM c ORDER BY c.n, c.m",
    "SELECT VALUE COUNT(1) + 5 FROM c",
])  # fmt: skip
def test_the_permission_comes_second(raw: RawClient, container: str, text: str) -> None:
    """Without 1004: with it, the Python client would run the query that was not allowed."""
    reply = raw.query(f"{container}/docs", text, **NOT_ENABLED)
    assert (reply.status, reply.sub_status) == (400, 0)
    assert "Cross partition query is required but disabled." in message(reply)
    assert "additionalErrorInfo" not in reply.json


def test_a_filter_on_the_key_replaces_the_permission_only(raw: RawClient, container: str) -> None:
    pinned = "SELECT * FROM c WHERE c.pk = 'a'"
    assert raw.query(f"{container}/docs", pinned, **NOT_ENABLED).status == 200
    reply = raw.query(f"{container}/docs", f"{pinned} ORDER BY c.n", **NOT_ENABLED)
    assert (reply.status, reply.sub_status) == (400, 1004)


def test_the_composite_index_comes_third(raw: RawClient, container: str) -> None:
    reply = raw.query(f"{container}/docs", "SELECT * FROM c ORDER BY c.n, c.m")
    assert (reply.status, reply.sub_status) == (400, 0)
    assert NO_INDEX in message(reply)
    assert "additionalErrorInfo" not in reply.json


# --- composite indexes


@pytest.fixture
def sorted_by(raw: RawClient, database: str) -> str:
    """A container with the composite indexes (a, b) and (a, b desc, x/y)."""
    policy = {
        "compositeIndexes": [
            [{"path": "/a"}, {"path": "/b", "order": "ascending"}],
            [
                {"path": "/a", "order": "ascending"},
                {"path": "/b", "order": "descending"},
                {"path": '/"x"/y', "order": "ascending"},
            ],
        ]
    }
    return create_container(raw, database, "sorted", indexingPolicy=policy)


@pytest.mark.parametrize(("text", "is_served"), [
    ("SELECT * FROM c ORDER BY c.a", True),
    ("SELECT * FROM c ORDER BY c.zzz", True),
    ("SELECT * FROM c ORDER BY c.a, c.b", True),
    ("SELECT * FROM c ORDER BY c.a DESC, c.b DESC", True),
    ("SELECT * FROM r ORDER BY r['a'], r['b']", True),
    ("SELECT VALUE c.a FROM c WHERE c.q = 1 ORDER BY c.a, c.b", True),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.a, c.b", True),
    ("SELECT * FROM c ORDER BY c.a, c.b DESC, c.x.y", True),
    ("SELECT * FROM c ORDER BY c.a DESC, c.b ASC, c.x.y DESC", True),
    ("SELECT * FROM c ORDER BY c.a DESC, c.b", False),
    ("SELECT * FROM c ORDER BY c.b, c.a", False),
    ("SELECT * FROM c ORDER BY c.a, c.b DESC", False),
    ("SELECT * FROM c ORDER BY c.a, c.x.y", False),
    ("SELECT * FROM c ORDER BY c.a, c.b, c.z", False),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.b, c.a", False),
])  # fmt: skip
def test_several_sort_keys_need_an_index(
    raw: RawClient, sorted_by: str, text: str, is_served: bool
) -> None:
    for headers in ({"pk": '["a"]'}, {"range": "0"}):
        reply = raw.query(f"{sorted_by}/docs", text, **headers)
        assert reply.status == (200 if is_served else 400), headers
        assert is_served or (NO_INDEX in message(reply) and reply.sub_status == 0)
        assert raw.query(f"{sorted_by}/docs", text, **headers, **DIRECT).status == 200
    across = raw.query(f"{sorted_by}/docs", text)
    assert (across.status, across.sub_status) == (400, 1004 if is_served else 0)


def test_a_range_refuses_the_rewritten_query_too(raw: RawClient, sorted_by: str) -> None:
    for keys, status in (("c.a, c.b", 200), ("c.b, c.a", 400)):
        found = plan(raw, sorted_by, f"SELECT * FROM c ORDER BY {keys}")
        assert found.status == 200, "the plan does not depend on indexes"
        text = found.json["queryInfo"]["rewrittenQuery"]
        assert raw.query(f"{sorted_by}/docs", text, range="0").status == status


def test_a_new_index_takes_effect(raw: RawClient, container: str) -> None:
    text = "SELECT * FROM c ORDER BY c.a, c.b"
    assert raw.query(f"{container}/docs", text, pk='["a"]').status == 400
    definition = raw.get(container).json
    composite = [{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "ascending"}]
    definition["indexingPolicy"]["compositeIndexes"] = [composite]
    assert raw.put(container, definition).status == 200
    assert raw.query(f"{container}/docs", text, pk='["a"]').status == 200


# --- plans


@pytest.mark.parametrize(("text", "missing"), [
    ("SELECT c.a FROM c GROUP BY c.a", "GroupBy"),
    ("SELECT COUNT(1) FROM c", "NonValueAggregate"),
    ("SELECT COUNT(1) AS n, MAX(c.n) AS m FROM c", "MultipleAggregates, NonValueAggregate"),
    ("SELECT VALUE MAKESET(c.a) FROM c", "ListAndSetAggregate"),
])  # fmt: skip
def test_features_that_python_lacks(
    raw: RawClient, container: str, text: str, missing: str
) -> None:
    assert raw.query(f"{container}/docs", text).sub_status == 1004
    reply = plan(raw, container, text, PYTHON)
    assert (reply.status, reply.sub_status) == (400, 0)
    lacking = "Query contains the following features, which the calling client does not support:"
    assert f"{lacking} {missing}." in message(reply)


@pytest.mark.parametrize(("text", "feature"), [
    ("SELECT VALUE COUNTIF(c.n > 1) FROM c", "CountIf"),
    ("SELECT * FROM c ORDER BY c.a, c.b", "MultipleOrderBy"),
])  # fmt: skip
def test_further_features(raw: RawClient, container: str, text: str, feature: str) -> None:
    others = ",".join(name for name in PYTHON.split(",") if name != feature)
    reply = plan(raw, container, text, others)
    assert reply.status == 400
    assert f"does not support: {feature}." in message(reply)
    assert plan(raw, container, text, PYTHON).status == 200


@pytest.mark.parametrize("text", [
    "SELECT VALUE AVG(c.n) FROM c",
    "SELECT c.a, AVG(c.n) AS mean FROM c GROUP BY c.a",
])  # fmt: skip
def test_the_dotnet_client_gets_the_plan_of_an_average(
    raw: RawClient, container: str, text: str
) -> None:
    """It merges averages, and does not list CompositeAggregate as the others do."""
    assert plan(raw, container, text, DOTNET).status == 200


@pytest.mark.parametrize("text", [
    "SELECT COUNT(1) + 5 FROM c",
    "SELECT VALUE COUNT(1) + 5 FROM c",
    "SELECT COUNT(1) + SUM(c.n) FROM c",
    "SELECT VALUE {n: COUNT(1)} FROM c",
    "SELECT VALUE COUNT(1) + 5 FROM c WHERE c.pk = 'a'",
])  # fmt: skip
def test_compositions_of_aggregates(raw: RawClient, container: str, text: str) -> None:
    expected = "Compositions of aggregates and other expressions are not allowed."
    for reply in (raw.query(f"{container}/docs", text), plan(raw, container, text)):
        assert (reply.status, reply.sub_status) == (400, 0)
        assert expected in message(reply)
    assert plan(raw, container, text, **DIRECT).status == 200
    assert raw.query(f"{container}/docs", text, pk='["a"]').status == 200


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT TOP 10 VALUE COUNT(c.n) FROM c", {"top": 10, "aggregates": ["Count"]}),
    ("SELECT * FROM c ORDER BY c.n OFFSET 5 LIMIT 10", {"offset": 5, "limit": 10}),
    ("SELECT * FROM c", {"rewrittenQuery": "", "orderBy": [], "aggregates": []}),
])  # fmt: skip
def test_numbers_in_plans(
    raw: RawClient, container: str, text: str, expected: dict[str, Any]
) -> None:
    info = plan(raw, container, text).json["queryInfo"]
    assert {name: info[name] for name in expected} == expected


def test_groups_of_a_range_have_every_alias(raw: RawClient, wide: str) -> None:
    """Clients tell a property without a value from one that is missing."""
    raw.post(f"{wide}/docs", {"id": "1", "pk": "a", "g": 1}, pk='["a"]')
    text = (
        "SELECT c.g, c.none, SUM(c.x) AS total, AVG(c.id) AS mean, MIN(c.x) AS least,"
        " COUNT(c.x) AS n FROM c GROUP BY c.g, c.none"
    )
    rewritten = plan(raw, wide, text).json["queryInfo"]["rewrittenQuery"]
    ranges = [each["id"] for each in physical_ranges(raw, wide)]
    pages = [raw.query(f"{wide}/docs", rewritten, range=each).json for each in ranges]
    (row,) = [row for page in pages for row in page["Documents"]]
    assert row["groupByItems"] == [{"item": 1}, {}]
    payload = row["payload"]
    assert payload.keys() == {"g", "total", "mean", "least", "n"}, "a plain column is left out"
    assert payload["n"] == {"item": 0}


# --- explanations


@pytest.mark.parametrize(("text", "sub_status", "why"), [
    ("SELECT * FROM c WHERE c.n = 1", None, ""),
    ("SELECT * FROM c ORDER BY c.n", 1004, "can not be directly served by the gateway"),
    ("SELECT * FROM c ORDER BY c.n, c.m", 0, NO_INDEX),
    ("SELECT VALUE COUNT(1) + 5 FROM c", 0, "Compositions of aggregates"),
])  # fmt: skip
@pytest.mark.parametrize("is_run", [False, True])
def test_explain_says_what_is_refused(
    raw: RawClient, container: str, text: str, sub_status: int | None, why: str, is_run: bool
) -> None:
    _, _, database, _, name = container.split("/")
    asked: dict[str, Any] = {"database": database, "container": name, "query": text}
    asked["analyze"] = is_run
    refusal = raw.post("/_perseid/explain", asked).json["refusal"]
    assert (refusal and refusal["subStatus"]) == sub_status
    assert why in (refusal["message"] if refusal else "")
    keyed = raw.post("/_perseid/explain", asked | {"partitionKey": ["a"]}).json["refusal"]
    assert (keyed is not None) == (why == NO_INDEX)


# --- conflicts


def test_a_query_over_conflicts_names_a_partition(raw: RawClient, container: str) -> None:
    path, text = f"{container}/conflicts", "SELECT * FROM c"
    reply = raw.query(path, text, **NOT_ENABLED)
    assert (reply.status, reply.sub_status) == (400, 0)
    assert "Cross partition query is required but disabled" in message(reply)
    assert raw.query(path, text).status == 200
    assert raw.query(path, text, **NOT_ENABLED, pk='["a"]').status == 200
    assert raw.query(path, text, **NOT_ENABLED, **DIRECT).status == 200


def test_a_relaxed_server_lists_no_conflicts(relaxed_server: RunningServer) -> None:
    with relaxed_server.connect() as raw:
        path = _shared_container(raw)
        assert raw.query(f"{path}/conflicts", "SELECT * FROM c", **NOT_ENABLED).status == 200


def test_queries_over_metadata_are_left_alone(raw: RawClient, database: str) -> None:
    for path in ("/dbs", f"{database}/colls"):
        assert raw.query(path, "SELECT VALUE COUNT(1) FROM c", **NOT_ENABLED).status == 200
