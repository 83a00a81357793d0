"""Locks a range for a transaction, which orders all writes to it."""

from __future__ import annotations

from typing import Any

from perseid.errors import OwnerNotFound
from perseid.model import Container
from perseid.store.postgres import statements
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.pool import DatabaseConnection
from perseid.store.postgres.transactions import pipelined


async def lock_range(
    db: DatabaseConnection, catalog_version: CatalogVersion, container: Container, part: str
) -> Any:
    """Begins a transaction that holds the lock; the row of the range."""
    lock, version = await pipelined(
        db, ("BEGIN", ()), (statements.LOCK, (part,)), (statements.VERSION, ())
    )
    catalog_version.check(version[0][0], container)
    catalog_version.check_write(container)
    if not lock:
        raise OwnerNotFound()
    return lock
