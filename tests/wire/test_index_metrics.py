"""Index metrics on request, in both forms."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.builders import create_container
from tests.support.raw import RawClient

POLICY = {
    "indexingMode": "consistent",
    "includedPaths": [{"path": "/*"}, {"path": "/lower/?"}],
    "excludedPaths": [{"path": "/secret/?"}, {"path": "/deep/*"}],
    "compositeIndexes": [
        [{"path": "/a"}, {"path": "/b", "order": "descending"}],
        [{"path": "/x"}, {"path": "/y"}, {"path": "/z"}],
    ],
}
COMPUTED = [
    {"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"},
    {"name": "upper", "query": "SELECT VALUE UPPER(c.name) FROM c"},
]


@pytest.fixture
def indexed(raw: RawClient, database: str) -> str:
    return create_container(raw, database, "i", indexingPolicy=POLICY, computedProperties=COMPUTED)


def first_form(raw: RawClient, path: str, text: str, parameters: Any = ()) -> Any:
    headers = {"x_ms_cosmos_populateindexmetrics": "True"}
    reply = raw.query(f"{path}/docs", text, parameters, **headers)
    assert reply.status == 200
    return json.loads(base64.b64decode(reply.headers["x-ms-cosmos-index-utilization"]))


def second_form(raw: RawClient, path: str, text: str) -> Any:
    headers = {"x_ms_cosmos_populateindexmetrics_v2": "true"}
    reply = raw.query(f"{path}/docs", text, **headers)
    assert reply.status == 200
    header = reply.headers["x-ms-cosmos-index-utilization"]
    assert header.isascii()
    return json.loads(unquote(header))


@pytest.mark.parametrize(
    ("policy", "listed"),
    [
        ({"includedPaths": [{"path": "/*"}]}, "UtilizedSingleIndexes"),
        ({"includedPaths": [{"path": "/a/?"}], "excludedPaths": [{"path": "/*"}]},
         "PotentialSingleIndexes"),
        ({"indexingMode": "none", "automatic": False}, "PotentialSingleIndexes"),
    ],
)  # fmt: skip
def test_a_partition_key_is_a_filter(
    raw: RawClient, database: str, policy: Any, listed: str
) -> None:
    path = create_container(raw, database, "k", indexingPolicy=policy)
    headers = {"x_ms_cosmos_populateindexmetrics": "true", "pk": '["a"]'}
    reply = raw.query(f"{path}/docs", "SELECT * FROM c", **headers)
    metrics = json.loads(base64.b64decode(reply.headers["x-ms-cosmos-index-utilization"]))
    (entry,) = metrics.pop(listed)
    assert entry == {
        "FilterExpression": "",
        "IndexSpec": "/pk/?",
        "FilterPreciseSet": True,
        "IndexPreciseSet": True,
        "IndexImpactScore": "High",
    }
    assert [*metrics.values()] == [[], [], []]
    headers = {"x_ms_cosmos_populateindexmetrics_v2": "true", "pk": '["a"]'}
    reply = raw.query(f"{path}/docs", "SELECT * FROM c WHERE c.pk = 'a'", **headers)
    metrics = json.loads(unquote(reply.headers["x-ms-cosmos-index-utilization"]))
    found = [*metrics["UtilizedIndexes"]["SingleIndexes"],
             *metrics["PotentialIndexes"]["SingleIndexes"]]  # fmt: skip
    assert [each["IndexSpec"] for each in found] == ["/pk/?"]


@pytest.mark.parametrize(
    ("header", "specs"),
    [('["a"]', ["/a/?"]), ('["a","b"]', ["/a/?", "/deep/b/?"]), ("[]", [])],
    ids=["prefix", "whole", "nothing"],
)
def test_levels_of_a_key_are_filters(
    raw: RawClient, database: str, header: str, specs: list[str]
) -> None:
    levels = {"paths": ["/a", "/deep/b"], "kind": "MultiHash", "version": 2}
    path = create_container(raw, database, "h", partitionKey=levels)
    headers = {"x_ms_cosmos_populateindexmetrics": "true", "pk": header}
    reply = raw.query(f"{path}/docs", "SELECT * FROM c", **headers)
    metrics = json.loads(base64.b64decode(reply.headers["x-ms-cosmos-index-utilization"]))
    assert [entry["IndexSpec"] for entry in metrics["UtilizedSingleIndexes"]] == specs


def test_only_on_request(raw: RawClient, container: str) -> None:
    reply = raw.query(f"{container}/docs", "SELECT * FROM c WHERE c.a = 1")
    assert "x-ms-cosmos-index-utilization" not in reply.headers


def test_the_first_form(raw: RawClient, container: str) -> None:
    text = "SELECT * FROM c WHERE c.name = @name AND c.age > 5"
    assert first_form(raw, container, text, [{"name": "@name", "value": "Ann"}]) == {
        "UtilizedSingleIndexes": [
            {
                "FilterExpression": '(ROOT.name = "Ann")',
                "IndexSpec": "/name/?",
                "FilterPreciseSet": True,
                "IndexPreciseSet": True,
                "IndexImpactScore": "High",
            },
            {
                "FilterExpression": "(ROOT.age > 5)",
                "IndexSpec": "/age/?",
                "FilterPreciseSet": True,
                "IndexPreciseSet": True,
                "IndexImpactScore": "High",
            },
        ],
        "PotentialSingleIndexes": [],
        "UtilizedCompositeIndexes": [],
        "PotentialCompositeIndexes": [
            {
                "IndexSpecs": ["/name ASC", "/age ASC"],
                "IndexPreciseSet": False,
                "IndexImpactScore": "High",
            }
        ],
    }


def test_the_second_form(raw: RawClient, indexed: str) -> None:
    text = "SELECT * FROM c WHERE c['größe & \"b\"'] = 1 AND CONTAINS(c.secret, 'x')"
    assert second_form(raw, indexed, text) == {
        "UtilizedIndexes": {
            "SingleIndexes": [{"IndexSpec": '/"größe & \\"b\\""/?'}],
            "CompositeIndexes": [],
        },
        "PotentialIndexes": {
            "SingleIndexes": [{"IndexSpec": "/secret/?", "IndexImpactScore": "Low"}],
            "CompositeIndexes": [],
        },
    }


@pytest.mark.parametrize(("end", "utilized", "potential"), [
    ("", [], []),
    ("WHERE c.a = 1 OR c.a = 2", ["/a/?"], []),
    ("WHERE c.secret = 1", [], ["/secret/?"]),
    ("WHERE c.deep.down = 1 AND c.secret.inner = 1", ["/secret/inner/?"], ["/deep/down/?"]),
    ("WHERE c.id = 'x' AND c._ts > 1", ["/id/?", "/_ts/?"], []),
    ("WHERE c._etag = 'x'", [], ["/_etag/?"]),
    ("WHERE c.lower = 'x' AND c.upper = 'X'", ["/lower/?"], ["/upper/?"]),
    ("WHERE ARRAY_CONTAINS(c.tags, 1)", ["/tags/[]/?"], []),
    ("ORDER BY c.n", ["/n/?"], []),
    ("ORDER BY c.secret DESC", [], ["/secret/?"]),
])  # fmt: skip
def test_single_paths(
    raw: RawClient, indexed: str, end: str, utilized: list[str], potential: list[str]
) -> None:
    found = second_form(raw, indexed, f"SELECT * FROM c {end}")
    for kind, expected in (("UtilizedIndexes", utilized), ("PotentialIndexes", potential)):
        assert [each["IndexSpec"] for each in found[kind]["SingleIndexes"]] == expected


AB, XYZ = ["/a ASC", "/b DESC"], ["/x ASC", "/y ASC", "/z ASC"]


@pytest.mark.parametrize(("end", "utilized", "potential"), [
    ("ORDER BY c.a, c.b DESC", [AB], []),
    ("ORDER BY c.a DESC, c.b", [AB], []),
    ("ORDER BY c.a, c.b", [], [["/a ASC", "/b ASC"]]),
    ("ORDER BY c.b DESC, c.a", [], [["/b DESC", "/a ASC"]]),
    ("ORDER BY c.x, c.y", [], [["/x ASC", "/y ASC"]]),
    ("WHERE c.a = 1 AND c.b > 1", [AB], []),
    ("WHERE c.b = 1 AND c.a = 1", [AB], []),
    ("WHERE c.b = 1 AND c.a > 1", [], [["/b ASC", "/a ASC"]]),
    ("WHERE c.y = 1 AND c.x = 2 AND c.z > 3", [XYZ], []),
    ("WHERE c.x = 1 AND c.y > 2", [XYZ], []),
])  # fmt: skip
def test_several_paths(
    raw: RawClient, indexed: str, end: str, utilized: list[Any], potential: list[Any]
) -> None:
    found = second_form(raw, indexed, f"SELECT * FROM c {end}")
    for kind, expected in (("UtilizedIndexes", utilized), ("PotentialIndexes", potential)):
        assert [each["IndexSpecs"] for each in found[kind]["CompositeIndexes"]] == expected


def test_without_indexing_nothing_is_used(raw: RawClient, database: str) -> None:
    body = {
        "id": "n",
        "partitionKey": {"paths": ["/pk"]},
        "indexingPolicy": {"indexingMode": "none"},
    }
    assert raw.post(f"{database}/colls", body).status == 201
    found = second_form(raw, f"{database}/colls/n", "SELECT * FROM c WHERE c.id = '1'")
    assert found["UtilizedIndexes"]["SingleIndexes"] == []
    assert found["PotentialIndexes"]["SingleIndexes"][0]["IndexSpec"] == "/id/?"


def test_a_header_stays_one_that_clients_take(raw: RawClient, container: str) -> None:
    terms = " OR ".join(f"c.größe{n} = '{'x' * 400}'" for n in range(300))
    text = f"SELECT * FROM c WHERE {terms}"
    assert first_form(raw, container, text)["UtilizedSingleIndexes"]
    assert second_form(raw, container, text)["UtilizedIndexes"]["SingleIndexes"]
