"""The account's metadata on PostgreSQL: resources, numbers, the audit log.

Every change increments the version that server processes compare with theirs (see
`catalog_version`), in the same transaction. It also locks the ranges of the containers it changes,
so that no write that was decided with the old definition commits after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
import psycopg

from perseid.clock import ClockSetting, SharedClock
from perseid.errors import StaleCatalog
from perseid.store.postgres import values
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.failures import as_client_error
from perseid.store.postgres.lease import LEASE
from perseid.store.postgres.pool import DatabaseConnection, Pool, fetch_all, fetch_one
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.transactions import (
    ResultRows,
    commit,
    execute,
    transact,
    transact_for_client,
)
from perseid.store.sql.range_state import EMPTY_RANGE
from perseid.store.types import AuditEntry, PutResource, RemoveResource, Resource, StaleResource

CLOCK_LIMIT_AHEAD: Final = 4.0  # seconds
_HIGHEST_DROPPED: Final = "highest_dropped_lsn"


class Reading(NamedTuple):
    """A snapshot of all metadata and of the clock's setting."""

    version: int
    resources: list[Resource]
    clock: ClockSetting


class PostgresMetadata:
    """See `store.protocol.MetadataStore`."""

    def __init__(
        self, pool: Pool, catalog_version: CatalogVersion, clock: SharedClock, process_name: str
    ) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._clock = clock
        self._clock_restarts: int | None = None  # how many this process has made; None: not read
        self._process_name = process_name

    @property
    def generation(self) -> int:
        return self._catalog_version.catalog_generation

    async def check_catalog_version(self) -> None:
        if await version(self._pool) != self._catalog_version.version:
            raise StaleCatalog

    async def publish_clock(self, setting: ClockSetting) -> None:
        self._catalog_version.version = await _publish_clock(
            self._pool, self._catalog_version.version, setting
        )

    async def system_time(self) -> float:
        return (await values.database_clock(self._pool, self._clock.steady))[0]

    async def restart_clock(self, floor: float) -> None:
        await _restart_clock(self._pool, floor)

    async def next_number(self, series: str) -> int:
        return await _next_number(self._pool, series)

    async def resources(self) -> list[Resource]:
        reading = await read_all(self._pool)
        restarts = await values.clock_restarts(self._pool)
        clock_reading, floor = None, 0.0
        if restarts != self._clock_restarts:
            clock_reading = await values.database_clock(self._pool, self._clock.steady)
            floor = await values.highest_clock(self._pool)
        # Nothing is awaited between this and the caller's use of the resources.
        self._catalog_version.adopt(reading.version)
        if clock_reading is not None:
            if self._clock_restarts is not None:
                self._clock.restart(*clock_reading)
                self._clock.hold(floor)
            self._clock_restarts = restarts
        self._clock.adopt(reading.clock)
        return reading.resources

    async def change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        until = self._clock.database_time() + LEASE
        made = await _change(
            self._pool, self._catalog_version.version, changes, self._process_name, until
        )
        # Nothing is awaited between this and the caller's use of it. A later version, which
        # includes this change, may have been read meanwhile.
        self._catalog_version.version = max(self._catalog_version.version, made)
        for each in changes:
            if not isinstance(each, AuditEntry) and each.resource.kind == "container":
                number, etag = each.resource.state["number"], each.resource.etag
                if isinstance(each, RemoveResource):
                    self._catalog_version.dropped.add(number)
                else:
                    self._catalog_version.changed_etags[number] = etag

    async def audit_entries(
        self, container: str | None, after: int, limit: int
    ) -> list[tuple[int, AuditEntry]]:
        return await _audit_entries(self._pool, container, after, limit)


async def _next_number(pool: Pool, series: str) -> int:
    row = await fetch_one(
        pool,
        "INSERT INTO meta VALUES ($1, '1') ON CONFLICT (name)"
        " DO UPDATE SET value = (meta.value::bigint + 1)::text RETURNING value",
        (f"last_{series}",),
    )
    assert row is not None  # noqa: S101 -- it returns what it wrote
    return int(row[0])


async def version(pool: Pool) -> int:
    row = await fetch_one(pool, "SELECT version FROM shared")
    return 0 if row is None else int(row[0])


async def read_all(pool: Pool) -> Reading:
    """Resources in order of creation, with the version and clock setting that belong to them."""
    rows = await fetch_all(
        pool,
        "SELECT shared.version, clock_offset, clock_frozen,"
        " rid, kind, parent, id, etag, ts, state FROM shared LEFT JOIN resources ON true"
        " ORDER BY resources.line",
    )
    number, offset, frozen = rows[0][:3]
    resources = [
        Resource._make((*columns, orjson.loads(state)))
        for _, _, _, *columns, state in rows
        if state is not None
    ]
    return Reading(number, resources, ClockSetting(offset, frozen))


async def _audit_entries(
    pool: Pool, container: str | None, after: int, limit: int
) -> list[tuple[int, AuditEntry]]:
    rows = await fetch_all(
        pool,
        "SELECT line, ts, container, entry FROM audit"
        " WHERE line > $1 AND ($2::text IS NULL OR container = $2) ORDER BY line LIMIT $3",
        (after, container, limit),
    )
    return [(line, AuditEntry(ts, rid, orjson.loads(entry))) for line, ts, rid, entry in rows]


async def _publish_clock(pool: Pool, known_version: int, setting: ClockSetting) -> int:
    """Stores the setting; returns the new version. StaleCatalog if the version is not as known."""

    async def work(db: DatabaseConnection) -> int:
        await db.execute("BEGIN")
        rows = await execute(
            db,
            "UPDATE shared SET version = version + 1, clock_offset = $2, clock_frozen = $3"
            " WHERE version = $1 RETURNING version",
            (known_version, setting.offset, setting.frozen),
        )
        if not rows:
            raise StaleCatalog
        await commit(db)
        return int(rows[0][0])

    # Not retried once it may have been committed: the clock would move twice.
    try:
        return await transact(pool, work)
    except psycopg.Error as exc:
        raise as_client_error(exc) from exc


async def _restart_clock(pool: Pool, floor: float) -> None:
    """Other server processes notice it by the new version."""

    async def work(db: DatabaseConnection) -> None:
        await db.execute("BEGIN")
        await values.restart_clock(db, floor, CLOCK_LIMIT_AHEAD)
        await execute(db, "UPDATE shared SET version = version + 1")
        await commit(db)

    await transact_for_client(pool, work)


Changes = Sequence[PutResource | RemoveResource | AuditEntry]


async def _change(
    pool: Pool, known_version: int, changes: Changes, lease_holder: str, until: float
) -> int:
    """Applies all changes or none; returns the version after them.

    The process that changes a container takes its purge lease until then, so that no other process
    purges the items that it is about to count.
    """

    async def work(db: DatabaseConnection) -> int:
        await db.execute("BEGIN")
        attempt = _Change(db, lease_holder, until)
        await attempt.lock_ranges(changes)
        new_version = await attempt.begin(known_version, changes)
        for each in changes:
            await attempt.apply(each)
        await commit(db)
        return new_version

    try:
        return await transact(pool, work)
    except psycopg.errors.UniqueViolation as exc:
        raise StaleResource(_created_id(changes)) from exc
    except psycopg.Error as exc:
        raise as_client_error(exc) from exc


def _created_id(changes: Changes) -> str:
    new = (c.resource.id for c in changes if isinstance(c, PutResource) and c.replaces is None)
    return next(new, "")


class _Change:
    """The transaction of a metadata change."""

    def __init__(self, db: DatabaseConnection, lease_holder: str, until: float) -> None:
        self._db = db
        self._lease_holder = lease_holder
        self._until = until
        self._line = 0

    async def _run(self, sql: str, values: Sequence[Any] = ()) -> ResultRows:
        return await execute(self._db, sql, values)

    async def lock_ranges(self, changes: Changes) -> None:
        """Waits for writes to the changed containers, and keeps others from starting."""
        for part in sorted(
            part
            for each in changes
            if _is_container(each) and getattr(each, "replaces", "") is not None
            for part in _range_keys(each)
        ):
            await self._run("SELECT 1 FROM positions WHERE part = $1 FOR UPDATE", (part,))

    async def begin(self, known_version: int, changes: Changes) -> int:
        lines = len(changes)
        if all(
            isinstance(each, AuditEntry) for each in changes
        ):  # the metadata in memory stays valid
            (row,) = await self._run(
                "UPDATE shared SET line = line + $1 RETURNING version, line", (lines,)
            )
            self._line = row[1] - lines
            return known_version
        rows = await self._run(
            "UPDATE shared SET version = version + 1, line = line + $2"
            " WHERE version = $1 RETURNING version, line",
            (known_version, lines),
        )
        if not rows:
            raise StaleCatalog
        new_version, line = rows[0]
        self._line = line - lines
        return int(new_version)

    async def apply(self, change: PutResource | RemoveResource | AuditEntry) -> None:
        self._line += 1
        if isinstance(change, PutResource):
            await self._put(change)
        elif isinstance(change, RemoveResource):
            await self._remove(change)
        else:
            entry = orjson.dumps(change.entry).decode()
            await self._run(
                "INSERT INTO audit VALUES ($1, $2, $3, $4)",
                (self._line, change.ts, change.container, entry),
            )

    async def _put(self, change: PutResource) -> None:
        resource = change.resource
        state = orjson.dumps(resource.state).decode()
        if change.replaces is None:
            await self._run(
                "INSERT INTO resources VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                (*resource[:-1], state, self._line),
            )
        else:
            rows = await self._run(
                "UPDATE resources SET id = $1, etag = $2, ts = $3, state = $4"
                " WHERE rid = $5 AND etag = $6 RETURNING 1",
                (resource.id, resource.etag, resource.ts, state, resource.rid, change.replaces),
            )
            if not rows:
                raise StaleResource(resource.id)
        if resource.kind == "container":
            if change.replaces is None:
                await self._insert_range_states(change)
            await self._update_change_log(change)

    async def _insert_range_states(self, change: PutResource) -> None:
        # LSNs continue from those of dropped containers: a client may still hold a session token of
        # a dropped container of the same name, and with lower LSNs its reads would fail.
        rows = await self._run("SELECT value FROM meta WHERE name = $1", (_HIGHEST_DROPPED,))
        range_state = EMPTY_RANGE._replace(lsn=int(rows[0][0]) if rows else 0)
        for part in _range_keys(change):
            await self._run(
                "INSERT INTO positions VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, NULL, 0)",
                (part, *range_state),
            )

    async def _update_change_log(self, change: PutResource) -> None:
        """Creates or drops the change log of the container."""
        is_wanted = change.resource.state.get("keeps_versions", False)
        for part in _range_keys(change):
            await self._run(
                "UPDATE positions SET purge_lease_holder = $2, purge_lease_until = $3,"
                " floor = CASE WHEN $4 THEN COALESCE(floor, lsn) END WHERE part = $1",
                (part, self._lease_holder, self._until, is_wanted),
            )
            if not is_wanted and change.replaces is not None:
                await self._run("DELETE FROM log WHERE part = $1", (part,))

    async def _remove(self, change: RemoveResource) -> None:
        resource = change.resource
        if not await self._run("DELETE FROM resources WHERE rid = $1 RETURNING 1", (resource.rid,)):
            raise StaleResource(resource.id)
        if resource.kind != "container":
            return
        highest = 0
        for part in _range_keys(change):
            gone = await self._run("DELETE FROM positions WHERE part = $1 RETURNING lsn", (part,))
            highest = max(highest, *(lsn for (lsn,) in gone), 0)
            await self._run("INSERT INTO dropped VALUES ($1)", (part,))
        await self._run(
            "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE"
            " SET value = GREATEST(meta.value::bigint, excluded.value::bigint)::text",
            (_HIGHEST_DROPPED, str(highest)),
        )


def _is_container(change: PutResource | RemoveResource | AuditEntry) -> bool:
    return not isinstance(change, AuditEntry) and change.resource.kind == "container"


def _range_keys(change: PutResource | RemoveResource | AuditEntry) -> list[str]:
    if isinstance(change, AuditEntry):
        return []
    state = change.resource.state
    return [range_key(state["number"], each["index"]) for each in state["ranges"]]
