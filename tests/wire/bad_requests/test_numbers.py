"""Numbers with more digits than Python converts to an integer."""

from __future__ import annotations

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.wire.bad_requests.refusals import PK, QUERY, bad

ZEROS = "0" * 4301
NINES = "9" * 4301


@pytest.mark.parametrize(
    ("text", "value"), [(ZEROS, 0), (ZEROS + "7", 7), (f"{ZEROS}.5", 0.5), (NINES, "Infinity")]
)
def test_long_numbers_in_queries(
    raw: RawClient, container: str, text: str, value: float | str
) -> None:
    """Leading zeros have no weight, and what 64 bits cannot hold is a double."""
    docs = f"{container}/docs"
    assert raw.query(docs, f"SELECT VALUE {text}").json["Documents"] == [value]
    plan = {**QUERY, "x-ms-cosmos-is-query-plan-request": "true"}
    assert raw.request("POST", docs, {"query": f"SELECT TOP 1 {text} FROM c"}, plan).status == 200
    for path in ("/dbs", "/offers", container.rpartition("/")[0]):
        assert raw.query(path, f"SELECT * FROM c WHERE c.id = {text}").status == 200
    names = container.split("/")
    body = {"database": names[2], "container": names[4], "query": f"SELECT VALUE {text} FROM c"}
    assert raw.post("/_perseid/explain", body).status == 200


@pytest.mark.parametrize("text", [ZEROS, NINES])
def test_long_numbers_in_conditions_and_definitions(
    raw: RawClient, container: str, text: str
) -> None:
    raw.post(f"{container}/docs", {"id": "1", "pk": "a", "n": 0}, pk='["a"]')
    patch = {
        "condition": f"from c where c.n = {text}",
        "operations": [{"op": "set", "path": "/m", "value": 1}],
    }
    reply = raw.request("PATCH", f"{container}/docs/1", patch, PK)
    assert reply.status == (200 if text == ZEROS else 412)
    computed = {"name": "x", "query": f"SELECT VALUE c.n + {text} FROM c"}
    body = {"id": "x", "partitionKey": PARTITION_KEY, "computedProperties": [computed]}
    assert raw.post(container.rpartition("/")[0], body).status == 201


@pytest.mark.parametrize("text", ["TOP", "OFFSET 0 LIMIT", "LIMIT"])
def test_long_counts(raw: RawClient, container: str, text: str) -> None:
    before, after = ("TOP {} *", "") if text == "TOP" else ("*", "OFFSET {0} LIMIT {0}")
    query = f"SELECT {before} FROM c {after}"
    assert raw.query(f"{container}/docs", query.format(ZEROS + "1")).status == 200
    bad(raw.query(f"{container}/docs", query.format(NINES)))
