"""Quota, usage and partition statistics of a container."""

from __future__ import annotations

import pytest

from tests.support.figures import figures_in, resource_usage
from tests.support.raw import RawClient
from tests.wire.containers.definitions import definition

QUOTA = "x-ms-resource-quota"
USAGE = "x-ms-resource-usage"
PROGRESS = "x-ms-documentdb-collection-index-transformation-progress"
POPULATE = "x-ms-documentdb-populatequotainfo"
STATISTICS = "x-ms-documentdb-populatepartitionstatistics"


@pytest.mark.parametrize("spelling", ["true", "True"])
def test_quota(raw: RawClient, container: str, spelling: str) -> None:
    reply = raw.request("GET", container, headers={POPULATE: spelling})
    quota, usage = figures_in(reply.headers[QUOTA]), figures_in(reply.headers[USAGE])
    assert quota["collectionSize"] == 10485760
    assert quota["documentsCount"] == -1
    assert {"documentSize", "documentsSize"} <= set(quota) == set(usage)
    assert usage["documentsCount"] == usage["documentsSize"] == usage["collectionSize"] == 0
    assert reply.headers[PROGRESS] == "100"
    assert "x-ms-documentdb-collection-lazy-indexing-progress" not in reply.headers


def test_usage_grows(raw: RawClient, container: str) -> None:
    for n in range(3):
        body = {"id": f"{n}", "pk": "a", "text": "x" * 2000}
        assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201
    usage = resource_usage(raw, container)
    assert usage["documentsCount"] == 3
    assert 6 <= usage["documentsSize"] <= 10
    assert usage["collectionSize"] >= usage["documentsSize"]


@pytest.mark.parametrize("headers", [{}, {POPULATE: "False", STATISTICS: "false"}])
def test_quota_only_when_asked(raw: RawClient, container: str, headers: dict[str, str]) -> None:
    reply = raw.request("GET", container, headers=headers)
    assert {QUOTA, USAGE, PROGRESS}.isdisjoint(reply.headers)
    assert "statistics" not in reply.json


def test_statistics(raw: RawClient, container: str) -> None:
    empty = raw.request("GET", container, headers={STATISTICS: "True"})
    assert empty.json["statistics"] == [
        {
            "id": "0",
            "sizeInKB": 0,
            "documentCount": 0,
            "sampledDistinctPartitionKeyCount": 0,
            "partitionKeys": [],
        }
    ]
    for n, pk in enumerate("aab"):
        raw.post(f"{container}/docs", {"id": f"{n}", "pk": pk}, pk=f'["{pk}"]')
    (found,) = raw.request("GET", container, headers={STATISTICS: "true"}).json["statistics"]
    assert found["documentCount"] == 3
    assert found["sampledDistinctPartitionKeyCount"] == 2
    assert found["sizeInKB"] == 1


def test_statistics_of_several_ranges(raw: RawClient, database: str) -> None:
    headers = {"x-ms-offer-throughput": "18000"}
    assert raw.request("POST", f"{database}/colls", definition(), headers).status == 201
    path = f"{database}/colls/c"
    for n in range(12):
        raw.post(f"{path}/docs", {"id": f"{n}", "pk": f"{n}"}, pk=f'["{n}"]')
    found = raw.request("GET", path, headers={STATISTICS: "true"}).json["statistics"]
    assert [part["id"] for part in found] == ["0", "1", "2"]
    assert sum(part["documentCount"] for part in found) == 12
    assert all(part["documentCount"] for part in found)
