"""GET /: what clients read before anything else."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import pytest

from perseid.config import CONSISTENCY_LEVELS
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.stores import Place

GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ENGINE = {
    "maxSqlQueryInputLength": 262144,
    "maxJoinsPerSqlQuery": 5,
    "maxLogicalAndPerSqlQuery": 500,
    "maxLogicalOrPerSqlQuery": 500,
    "maxUdfRefPerSqlQuery": 10,
    "maxInExpressionItemsCount": 16000,
    "queryMaxInMemorySortDocumentCount": 500,
    "maxQueryRequestTimeoutFraction": 0.9,
    "sqlAllowNonFiniteNumbers": False,
    "sqlAllowAggregateFunctions": True,
    "sqlAllowSubQuery": True,
    "sqlAllowScalarSubQuery": True,
    "allowNewKeywords": True,
    "sqlAllowLike": True,
    "sqlAllowGroupByClause": True,
    "maxSpatialQueryCells": 12,
    "spatialMaxGeometryPointCount": 256,
    "sqlDisableOptimizationFlags": 0,
    "sqlAllowTop": True,
    "enableSpatialIndexing": True,
}


def test_body(raw: RawClient, endpoint: str) -> None:
    reply = raw.get("/")
    body = reply.json
    assert reply.status == 200
    assert json.loads(body.pop("queryEngineConfiguration")) == ENGINE
    location = {"name": "South Central US", "databaseAccountEndpoint": endpoint}
    assert body == {
        "_self": "",
        # "localhost" would make JavaScript clients forget the locations and ask before each call
        "id": "perseid",
        "_rid": "127.0.0.1",
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": [location],
        "readableLocations": [location],
        "enableMultipleWriteLocations": False,
        "userReplicationPolicy": {
            "asyncReplication": False,
            "minReplicaSetSize": 1,
            "maxReplicasetSize": 4,
        },
        "userConsistencyPolicy": {"defaultConsistencyLevel": "Session"},
        "systemReplicationPolicy": {"minReplicaSetSize": 1, "maxReplicasetSize": 4},
        "readPolicy": {"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
    }


@pytest.mark.parametrize(
    ("said", "scheme"),
    [("https", "https"), ("HTTPS", "https"), ("https, http", "https"), ("http", "http"),
     ("", "http"), ("ftp", "http"), ("https://elsewhere/", "http")],
)  # fmt: skip
def test_behind_a_proxy_that_ends_tls(raw: RawClient, said: str, scheme: str) -> None:
    """Clients go on with the address they are told here: it must be the one they can use."""
    body = raw.get("/", x_forwarded_proto=said).json
    for name in ("writableLocations", "readableLocations"):
        address = body[name][0]["databaseAccountEndpoint"]
        assert address == f"{scheme}://{urlsplit(raw.endpoint).netloc}/"


def test_headers(raw: RawClient) -> None:
    headers = raw.get("/").headers
    assert headers["content-type"] == "application/json"
    assert float(headers["x-ms-request-charge"]) > 0
    assert GUID.fullmatch(headers["x-ms-activity-id"])
    assert headers["x-ms-max-media-storage-usage-mb"] == "2048"
    assert headers["x-ms-media-storage-usage-mb"] == "0"
    assert "etag" not in headers
    assert "x-ms-continuation" not in headers
    assert "x-ms-substatus" not in headers


def test_activity_ids_differ_unless_the_client_gives_one(raw: RawClient) -> None:
    made = {raw.get("/").headers["x-ms-activity-id"] for _ in range(5)}
    assert len(made) == 5
    own = "b5a1e3d0-6c52-4c7e-9f0e-0123456789ab"
    assert raw.get("/", x_ms_activity_id=own).headers["x-ms-activity-id"] == own
    refused = raw.get("/dbs/nowhere", x_ms_activity_id=own)
    assert refused.headers["x-ms-activity-id"] == own
    assert own in refused.json["message"]


@pytest.mark.parametrize("level", CONSISTENCY_LEVELS)
def test_default_consistency_is_the_setting(place: Place, level: str) -> None:
    with running(place.fresh(consistency=level)) as settings:
        client = RawClient(settings.endpoint)
        policy = client.get("/").json["userConsistencyPolicy"]
        client.close()
    assert policy == {"defaultConsistencyLevel": level}


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ms-version": "2018-12-31"},
        {"x-ms-version": "2099-01-01"},
        {"x-ms-version": "garbage"},
        {"x-http-method": "DELETE", "slug": "x", "cache-control": "no-cache"},
        {"accept": "text/html", "x-unknown": "1"},
        {"if-none-match": "*"},
    ],
)
def test_headers_that_mean_nothing_here(raw: RawClient, headers: dict[str, str]) -> None:
    reply = raw.request("GET", "/", headers=headers)
    assert reply.status == 200
    assert reply.json == raw.get("/").json


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_get(raw: RawClient, method: str) -> None:
    reply = raw.request(method, "/", None if method == "DELETE" else {})
    assert reply.status == 405
    assert reply.json["code"] == "MethodNotAllowed"


@pytest.mark.parametrize("path", ["/addresses/", "//addresses/", "/addresses"])
def test_direct_connections_are_refused(raw: RawClient, path: str) -> None:
    """Clients in direct mode ask where the replicas are; to them a 404 is that of the item."""
    query = "$resolveFor=dbs%2fAQAAAA%3d%3d%2fcolls%2fAQAAAIAAAAI%3d%2fdocs&$partitionKeyRangeIds=0"
    reply = raw.request("GET", path, raw_path=f"{path}?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "set the connection mode of the client to gateway" in reply.json["message"]
