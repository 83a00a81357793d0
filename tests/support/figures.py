"""What a server reports about one container: metrics, usage, statistics, physical ranges."""

from __future__ import annotations

from typing import Any

from tests.support.raw import RawClient


def container_metrics(raw: RawClient, container: str = "/dbs/d/colls/c") -> dict[str, Any]:
    """The figures of one container among those of all."""
    reply = raw.get("/_perseid/metrics.json")
    assert reply.status == 200, reply
    (figures,) = [each for each in reply.json["containers"] if f"/{each['container']}" == container]
    assert isinstance(figures, dict)
    return figures


def figures_in(header: str) -> dict[str, int]:
    """The pairs of a header as x-ms-resource-usage."""
    pairs = [pair.split("=") for pair in header.split(";") if pair]
    return {name: int(value) for name, value in pairs}


def resource_usage(raw: RawClient, container: str) -> dict[str, int]:
    """The figures of x-ms-resource-usage."""
    reply = raw.get(container, x_ms_documentdb_populatequotainfo="true")
    assert reply.status == 200, reply
    return figures_in(reply.headers["x-ms-resource-usage"])


def partition_statistics(raw: RawClient, container: str) -> tuple[int, int, int]:
    """Items, kilobytes and partition keys of a container with one range."""
    reply = raw.get(container, x_ms_documentdb_populatepartitionstatistics="true")
    (only,) = reply.json["statistics"]
    keys: int = only["sampledDistinctPartitionKeyCount"]
    return only["documentCount"], only["sizeInKB"], keys


def physical_ranges(raw: RawClient, container: str) -> list[dict[str, Any]]:
    """The ranges of a container as a client reads them."""
    ranges: list[dict[str, Any]] = raw.get(f"{container}/pkranges").json["PartitionKeyRanges"]
    return ranges
