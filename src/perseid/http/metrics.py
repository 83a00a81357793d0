"""The metrics of the account in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

# name, type, help text, path of the value in the metrics of a container
_SERIES: Final = (
    ("live_items", "gauge", "Live items.", ("live", "items")),
    ("live_bytes", "gauge", "Bytes of live items.", ("live", "bytes")),
    ("expiring_items", "gauge", "Live items that will expire.", ("expiring", "items")),
    ("expiring_bytes", "gauge", "Bytes of live items that will expire.", ("expiring", "bytes")),
    ("non_expiring_items", "gauge", "Live items that never expire.", ("nonExpiring", "items")),
    ("non_expiring_bytes", "gauge", "Bytes of live items that never expire.",
     ("nonExpiring", "bytes")),
    ("pending_purge_items", "gauge", "Expired items not purged yet.", ("pendingPurge", "items")),
    ("pending_purge_bytes", "gauge", "Bytes of expired items not purged yet.",
     ("pendingPurge", "bytes")),
    ("expired_total", "counter", "Items that have expired.", ("expiredTotal",)),
    ("purged_total", "counter", "Expired items purged.", ("purgedTotal",)),
    ("purged_bytes_total", "counter", "Bytes of expired items purged.", ("purgedBytes",)),
    ("purge_charge_total", "counter", "Request units of purging.", ("purgeCharge",)),
    ("purge_lag_seconds", "gauge", "Seconds since the oldest item pending purge expired.",
     ("purgeLagSeconds",)),
    ("next_expiry_timestamp", "gauge", "When the next item expires.", ("nextExpiry",)),
    ("policy_changes_total", "counter", "Changes of defaultTtl.", ("policyChanges",)),
    ("consumed_total", "counter", "Request units of requests.", ("consumedTotal",)),
    ("throttled_total", "counter", "Requests refused with 429.", ("throttledTotal",)),
    ("provisioned_throughput", "gauge", "Maximum RU/s of the offer.", ("provisionedThroughput",)),
    ("scaled_throughput", "gauge", "RU/s at the load of this second.", ("scaledThroughput",)),
    ("billed_throughput", "gauge", "The highest RU/s of this hour.", ("billedThroughput",)),
    ("exhausted_seconds_total", "counter", "Seconds that left purging no request units.",
     ("exhaustedSeconds",)),
)  # fmt: skip


def exposition(metrics: dict[str, Any]) -> bytes:
    """The text for what `service.lifetimes.metrics.collect` returns."""
    return "".join(f"{line}\n" for line in _lines(metrics)).encode()


def _lines(metrics: dict[str, Any]) -> Iterator[str]:
    for name, kind, text, value in (
        ("requests_total", "counter", "Requests admitted.", metrics["requests"]),
        ("sweeper_paused", "gauge", "1 if purging is paused.", int(metrics["sweeperPaused"])),
        ("disk_full", "gauge", "1 if creates are refused with 507.", int(metrics["diskFull"])),
        (
            "verified_items_total",
            "counter",
            "Items compared with their checksums.",
            metrics["verifiedItems"],
        ),
        ("damaged_items", "gauge", "Items whose checksums do not match.", metrics["damagedItems"]),
        (
            "index_builds",
            "gauge",
            "Property indexes that are being created.",
            metrics["indexBuilds"]["running"],
        ),
        (
            "index_build_progress",
            "gauge",
            "The part of the items that the index being created covers; 1 if there is none.",
            metrics["indexBuilds"]["progress"],
        ),
        ("clock_alarm", "gauge", "1 after a clock jump.", int(metrics["clockAlarm"])),
    ):
        yield from (f"# HELP perseid_{name} {text}", f"# TYPE perseid_{name} {kind}")
        yield f"perseid_{name} {value}"
    for name, kind, text, path in _SERIES:
        yield from (f"# HELP perseid_{name} {text}", f"# TYPE perseid_{name} {kind}")
        for container in metrics["containers"]:
            value = container
            for key in path:
                value = value[key]
            if value is not None:
                label = container["container"].replace("\\", "\\\\").replace('"', '\\"')
                yield f'perseid_{name}{{container="{label}"}} {value}'
