"""The audit log of policy changes: entries about what a change expired, and reading the log."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from perseid import ttl
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.lifetimes.item_totals import count_items
from perseid.store.types import AuditEntry

# Entries stored by earlier versions; the migration rewrites their keys.
_EARLIER_AUDIT_KEYS: Final = {"diedAtOnce": "expiredImmediately", "revived": "restored"}


def audit_change_later(
    account: Account, old: Container, new: Container, caller: str, now: float
) -> None:
    """Counts in the background what a policy change expired, and adds it to the audit log.

    The answer to the change does not wait for this: it takes longer on a large container.
    """
    account.pending_audit_counts.add((new.rid, new.etag))
    task = asyncio.create_task(_audit_change(account, old, new, caller, now))
    account.background.add(task)
    task.add_done_callback(account.background.discard)


async def _audit_change(
    account: Account, old: Container, new: Container, caller: str, now: float
) -> None:
    try:
        spans = ttl.newly_expired_spans(account.cutoff(old, now), account.cutoff(new, now))
        expired = await count_items(account, new, spans)
        entry = {
            "event": "counts",
            "defaultTtl": {"old": old.policy.default_ttl, "new": new.policy.default_ttl},
            "caller": caller,
            "expiredImmediately": {"items": expired.items, "bytes": expired.size},
            "etag": new.etag,
        }
        await account.stores.metadata.change([AuditEntry(int(now), new.rid, entry)])
    finally:
        account.pending_audit_counts.discard((new.rid, new.etag))


async def audit_entries(
    account: Account, container: Container | None, after: int, limit: int
) -> list[dict[str, Any]]:
    """The entries after line `after`, oldest first; of one container or of all."""
    rid = None if container is None else container.rid
    return [
        {
            "line": line,
            "ts": audit_entry.ts,
            "containerRid": audit_entry.container,
            "container": _path_of(account, audit_entry.container),
            **_with_current_names(audit_entry.entry),
        }
        for line, audit_entry in await account.stores.metadata.audit_entries(rid, after, limit)
    ]


def _with_current_names(entry: dict[str, Any]) -> dict[str, Any]:
    """An audit entry as earlier versions stored it, under the names that the API uses now."""
    renamed = {_EARLIER_AUDIT_KEYS.get(key, key): value for key, value in entry.items()}
    return renamed | ({"event": "counts"} if entry["event"] == "figures" else {})


def _path_of(account: Account, rid: str) -> str | None:
    """None if the container no longer exists."""
    container = account.catalog.container_by_rid(rid)
    return None if container is None else container.path
