"""Stored procedures, triggers and functions: what is a valid one, and that none runs yet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.figures import resource_usage
from tests.support.raw import RawClient

SOURCE = "function () { getContext().getResponse().setBody(1); }"
PRE = "x-ms-documentdb-pre-trigger-include"
POST = "x-ms-documentdb-post-trigger-include"
NOT_YET = "does not support executing"


@pytest.mark.parametrize("type_", ["Pre", "pre", "PRE", "Post", "post"])
@pytest.mark.parametrize("operation", ["All", "create", "Update", "REPLACE", "Delete"])
def test_triggers_keep_what_was_sent(
    raw: RawClient, container: str, type_: str, operation: str
) -> None:
    body = {"id": "t", "body": SOURCE, "triggerType": type_, "triggerOperation": operation}
    reply = raw.post(f"{container}/triggers", body)
    assert reply.status == 201
    assert {name: reply.json[name] for name in body} == body


@pytest.mark.parametrize(
    ("feed", "change", "text"),
    [
        ("sprocs", {"body": None}, "the required properties - 'body; ' - are missing"),
        ("sprocs", {"body": None, "id": None}, "the required properties - 'id; body; ' -"),
        ("sprocs", {"body": ""}, "JavaScript source"),
        ("sprocs", {"body": 7}, "JavaScript source"),
        ("udfs", {"body": {"a": 1}}, "JavaScript source"),
        ("triggers", {"body": "  "}, "JavaScript source"),
        ("triggers", {"triggerType": None}, "the required properties - 'triggerType; ' -"),
        ("triggers", {"triggerType": "During"}, "triggerType is one of Pre, Post; not 'During'"),
        ("triggers", {"triggerType": 1}, "triggerType is one of Pre, Post"),
        ("triggers", {"triggerOperation": "Read"}, "triggerOperation is one of All, Create"),
        ("triggers", {"triggerOperation": None}, "'triggerOperation; ' - are missing"),
    ],
)
def test_bad_definitions(
    raw: RawClient, container: str, feed: str, change: dict[str, Any], text: str
) -> None:
    good = {"id": "s", "body": SOURCE, "triggerType": "Pre", "triggerOperation": "All"}
    made = raw.post(f"{container}/{feed}", good).json
    for reply in (
        raw.post(f"{container}/{feed}", good | {"id": "s2"} | change),
        raw.put(f"{container}/{feed}/s", good | change),
        raw.post(f"{container}/{feed}", good | change, upsert="true"),
    ):
        assert (reply.status, reply.json["code"]) == (400, "BadRequest")
        assert text in reply.json["message"]
    assert raw.get(f"{container}/{feed}/s").json == made


def test_executing_a_stored_procedure_is_refused(raw: RawClient, container: str) -> None:
    made = raw.post(f"{container}/sprocs", {"id": "s", "body": SOURCE}).json
    for path in (f"{container}/sprocs/s", f"/{made['_self']}"):
        reply = raw.post(path, [1, 2], pk='["a"]')
        assert (reply.status, reply.json["code"]) == (400, "BadRequest")
        assert NOT_YET in reply.json["message"]
    missing = raw.post(f"{container}/sprocs/none", [], pk='["a"]')
    assert missing.status == 404
    assert raw.get(f"{container}/docs").json["Documents"] == []


@pytest.mark.parametrize("header", [PRE, POST])
def test_writes_that_name_triggers_are_refused(raw: RawClient, container: str, header: str) -> None:
    """Registered or not: they would not be what the client means."""
    trigger = {"id": "t", "body": SOURCE, "triggerType": "Pre", "triggerOperation": "All"}
    raw.post(f"{container}/triggers", trigger)
    made = raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]').json
    item = f"{container}/docs/1"
    sent = {"x-ms-documentdb-partitionkey": '["a"]'}
    for name in ("t", "missing", "t,missing"):
        headers = sent | {header: name}
        for reply in (
            raw.request("POST", f"{container}/docs", {"id": "2", "pk": "a"}, headers),
            raw.request(
                "POST",
                f"{container}/docs",
                {"id": "1", "pk": "a"},
                headers | {"x-ms-documentdb-is-upsert": "true"},
            ),
            raw.request("PUT", item, {"id": "1", "pk": "a", "n": 1}, headers),
            raw.request("DELETE", item, headers=headers),
        ):
            assert (reply.status, reply.json["code"]) == (400, "BadRequest")
            assert NOT_YET in reply.json["message"]
            assert name in reply.json["message"]
        # Reads run no triggers, whatever they name.
        assert raw.request("GET", item, headers=headers).status == 200
    assert raw.get(f"{container}/docs").json["Documents"] == [made]
    assert raw.request("PUT", item, {"id": "1", "pk": "a"}, sent | {header: ""}).status == 200


@pytest.mark.parametrize(
    "text",
    [
        "SELECT udf.tax(c.price) FROM c",
        "SELECT * FROM c WHERE udf.tax(c.price) > 1",
        "SELECT VALUE udf.missing() FROM c ORDER BY c.id",
    ],
)
def test_queries_with_functions_are_refused(raw: RawClient, container: str, text: str) -> None:
    raw.post(f"{container}/udfs", {"id": "tax", "body": "function (x) { return x; }"})
    reply = raw.query(f"{container}/docs", text)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "not supported yet" in reply.json["message"]


def test_quota_counts_scripts(raw: RawClient, container: str) -> None:
    for id_ in ("a", "b"):
        raw.post(f"{container}/sprocs", {"id": id_, "body": SOURCE})
    raw.post(f"{container}/udfs", {"id": "a", "body": SOURCE})
    usage = resource_usage(raw, container)
    assert (usage["storedProcedures"], usage["triggers"], usage["functions"]) == (2, 0, 1)
