"""Requests that say which container they mean by its rid."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.raw import RawClient
from tests.support.replies import outcome
from tests.wire.containers.definitions import create, definition

INTENDED = "x-ms-cosmos-intended-collection-rid"

# The intended container --------------------------------------------------------------------------


CALLS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", "", None, {}),
    ("PUT", "", definition(), {}),
    ("DELETE", "", None, {}),
    ("GET", "/pkranges", None, {}),
    ("GET", "/docs", None, {}),
    ("GET", "/docs/1", None, {"x-ms-documentdb-partitionkey": '["a"]'}),
    ("POST", "/docs", {"id": "2", "pk": "a"}, {"x-ms-documentdb-partitionkey": '["a"]'}),
    ("PUT", "/docs/1", {"id": "1", "pk": "a"}, {"x-ms-documentdb-partitionkey": '["a"]'}),
    ("DELETE", "/docs/1", None, {"x-ms-documentdb-partitionkey": '["a"]'}),
    (
        "POST",
        "/docs",
        {"query": "SELECT * FROM c"},
        {
            "x-ms-documentdb-isquery": "True",
            "x-ms-documentdb-query-enablecrosspartition": "True",
        },
    ),
]


@pytest.mark.parametrize(("method", "tail", "body", "headers"), CALLS)
def test_intended_container(
    raw: RawClient, database: str, method: str, tail: str, body: Any, headers: dict[str, str]
) -> None:
    path = f"{database}/colls/c"
    old = create(raw, database)
    raw.delete(path)
    new = create(raw, database)
    raw.post(f"{path}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    stale = raw.request(method, path + tail, body, {**headers, INTENDED: old["_rid"]})
    assert outcome(stale) == (400, 1024, "BadRequest")
    assert raw.get(path).json == new
    right = raw.request(method, path + tail, body, {**headers, INTENDED: new["_rid"]})
    assert right.status < 300


def test_stale_container_wins_over_a_future_session(raw: RawClient, container: str) -> None:
    headers = {
        INTENDED: "AQAAAIAAAAI=",
        "x-ms-session-token": "0:-1#999",
        "x-ms-documentdb-partitionkey": '["a"]',
    }
    reply = raw.request("GET", f"{container}/docs/1", headers=headers)
    assert outcome(reply) == (400, 1024, "BadRequest")
