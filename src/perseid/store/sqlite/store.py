"""Opens the embedded stores: one SQLite file, one writer, several readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from perseid.clock import SystemClock
from perseid.store.protocol import Stores
from perseid.store.sqlite.change_log import SqliteChanges
from perseid.store.sqlite.clearing import PartitionClearing
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.disk_reserve import DiskReserve
from perseid.store.sqlite.expiry import SqliteExpiry
from perseid.store.sqlite.integrity import SqliteIntegrity
from perseid.store.sqlite.items import SqliteItems
from perseid.store.sqlite.metadata import SqliteMetadata, SqliteValues
from perseid.store.sqlite.queries import SqliteQueries
from perseid.store.types import ServerLoad, StoreError


def open_stores(
    path: Path,
    *,
    durability: str = "full",
    now: Callable[[], float] | None = None,
    reserve_size: int = 0,
    reserve_from: int = 0,
) -> Stores:
    """Opens or creates the file; StoreError if it cannot be used.

    `reserve_size` bytes are kept on the disk for deletes on a full disk, once the file has
    `reserve_from` bytes.
    """
    try:
        reserve = DiskReserve(path.resolve(), reserve_size, reserve_from)
        load = ServerLoad()
        database = SqliteDatabase(path, durability, now or SystemClock().now, reserve, load)
    except (apsw.CorruptError, apsw.NotADBError, ValueError) as exc:
        raise StoreError(f"{path} is not a usable database file: {exc}") from exc
    except apsw.Error as exc:
        raise StoreError(f"cannot open {path}: {exc}") from exc
    state, clearing = database.state, PartitionClearing(database)
    return Stores(
        metadata=SqliteMetadata(database),
        values=SqliteValues(database),
        items=SqliteItems(database, clearing),
        queries=SqliteQueries(
            database.readers,
            database.indexes,
            state.range_states,
            state.tombstones,
            database.cache,
            database.damaged,
        ),
        changes=SqliteChanges(database),
        expiry=SqliteExpiry(database, clearing),
        integrity=SqliteIntegrity(database),
        closing=database.close,
        load=load,
    )
