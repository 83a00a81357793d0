"""Metrics of the account: expiry, purging and throughput of each container."""

from __future__ import annotations

from typing import Any

from perseid.service.account import Account
from perseid.service.lifetimes.status import status
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.service.throughput import enforcement


async def collect(account: Account, sweeper: Sweeper, now: float) -> dict[str, Any]:
    containers = []
    for container in account.catalog.containers():
        metrics = await status(account, container, now)
        metrics |= enforcement.throughput_metrics(account, container, now) | {
            "purgeCharge": round(sweeper.charges.get(container.rid, 0.0), 2),
            "expiredTotal": metrics["purgedTotal"] + metrics["pendingPurge"]["items"],
        }
        containers.append(metrics)
    return {
        "asOf": now,
        "requests": account.requests,
        "sweeperPaused": sweeper.is_paused,
        "clockAlarm": sweeper.alarm is not None,
        "diskFull": sweeper.is_disk_full,
        "verifiedItems": sweeper.verification.checked,
        "damagedItems": sweeper.verification.damaged,
        "indexBuilds": account.stores.queries.index_builds._asdict(),
        "containers": containers,
    }
