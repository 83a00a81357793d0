"""Metadata in SQLite: resources, the audit log, and single named values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw
import orjson

from perseid import clock
from perseid.clock import ClockSetting
from perseid.store.sqlite import schema
from perseid.store.sqlite.database import SqliteDatabase
from perseid.store.sqlite.writer import client_errors
from perseid.store.types import (
    AuditEntry,
    PutResource,
    RemoveResource,
    Resource,
    StaleResource,
    StoreError,
)

_FEW_CONTAINERS: Final = 4  # whose tables are dropped at once


class SqliteValues:
    """See `store.protocol.NamedValues`."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def get(self, name: str) -> str | None:
        with client_errors():
            return _get(self._database.point_db, name)

    async def put(self, name: str, value: str) -> None:
        sql = (
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        db = self._database.write_db

        def work() -> None:
            db.execute(sql, (name, value))

        await self._database.writer.submit(work)

    async def put_if_absent(self, name: str, value: str) -> str:
        db = self._database.write_db

        def work() -> str:
            db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
            return _get(db, name) or value

        return await self._database.writer.submit(work)


class SqliteMetadata:
    """See `store.protocol.MetadataStore`."""

    generation = 0  # no other process writes to the file, so the metadata is read once

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def check_catalog_version(self) -> None:
        """Always current: no other process has the file."""

    async def publish_clock(self, setting: ClockSetting) -> None:
        """There is no other process to publish it to."""

    async def system_time(self) -> float:
        return clock.wall()

    async def restart_clock(self, floor: float) -> None:
        """The account has the only clock."""

    async def next_number(self, series: str) -> int:
        return await self._database.writer.submit(
            lambda: _next_number(self._database.write_db, series)
        )

    async def resources(self) -> list[Resource]:
        with client_errors():
            return resources(self._database.point_db)

    async def audit_entries(
        self, container: str | None, after: int, limit: int
    ) -> list[tuple[int, AuditEntry]]:
        with client_errors():
            return _audit_entries(self._database.point_db, container, after, limit)

    async def change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        await self._database.writer.submit(lambda: self._change(changes), is_heavy=True)

    def _change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        database, logs, state = self._database, self._database.logs, self._database.state
        if any(isinstance(each, PutResource) and each.replaces is None for each in changes):
            database.reserve.refuse_growth()
        is_hiding = sum(map(_drops_container, changes)) > _FEW_CONTAINERS
        for change in changes:
            _apply(database.write_db, change, is_hiding=is_hiding)
            if isinstance(change, PutResource) and change.resource.kind == "container":
                definition = change.resource.state
                logs.set_logging(definition["number"], definition.get("keeps_versions", False))
        # Only now: a change that failed above has no effect.
        for change in changes:
            if isinstance(change, PutResource) and change.resource.kind == "container":
                state.load_container(change)
            elif isinstance(change, RemoveResource) and change.resource.kind == "container":
                number = change.resource.state["number"]
                state.drop_container(number, is_hidden=is_hiding)
                database.indexes.drop_container(number)
        state.set_logged_containers(logs.read())


def _get(db: apsw.Connection, name: str) -> str | None:
    value: str | None = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
    return value


def _next_number(db: apsw.Connection, series: str) -> int:
    value: str = db.execute(
        "INSERT INTO meta VALUES (?, '1')"
        " ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
        (f"last_{series}",),
    ).get
    return int(value)


def resources(db: apsw.Connection) -> list[Resource]:
    """All resources in order of creation; StoreError if one cannot be read."""
    stored = []
    for *columns, state in db.execute(
        "SELECT rid, kind, parent, id, etag, ts, state FROM resources ORDER BY rowid"
    ):
        try:
            stored.append(Resource._make((*columns, _decoded_state(state))))
        except ValueError as exc:
            _, kind, _, name, *_ = columns
            raise StoreError(f"the definition of {kind} '{name}' is damaged: {exc}") from exc
    return stored


def _decoded_state(text: str) -> dict[str, Any]:
    """ValueError if the text is not a JSON object."""
    state = orjson.loads(text)
    if not isinstance(state, dict):
        raise ValueError("it is not an object")
    return state


def _audit_entries(
    db: apsw.Connection, container: str | None, after: int, limit: int
) -> list[tuple[int, AuditEntry]]:
    """Lines of the audit log of one container or of all."""
    rows = db.execute(
        "SELECT line, ts, container, entry FROM audit"
        " WHERE line > ? AND container = COALESCE(?, container) ORDER BY line LIMIT ?",
        (after, container, limit),
    )
    return [(line, AuditEntry(ts, rid, orjson.loads(entry))) for line, ts, rid, entry in rows]


def _drops_container(change: PutResource | RemoveResource | AuditEntry) -> bool:
    return isinstance(change, RemoveResource) and change.resource.kind == "container"


def _apply(
    db: apsw.Connection,
    change: PutResource | RemoveResource | AuditEntry,
    *,
    is_hiding: bool,
) -> None:
    """Applies a change, with the tables of a new or removed container; StaleResource if the
    resource is not what the caller expects. `is_hiding` leaves tables to be dropped later."""
    if isinstance(change, PutResource):
        _put_resource(db, change)
    elif isinstance(change, RemoveResource):
        _remove_resource(db, change.resource, is_hiding=is_hiding)
    else:
        db.execute(
            "INSERT INTO audit (ts, container, entry) VALUES (?, ?, ?)",
            (change.ts, change.container, orjson.dumps(change.entry).decode()),
        )


def _put_resource(db: apsw.Connection, change: PutResource) -> None:
    resource = change.resource
    state = orjson.dumps(resource.state).decode()
    if change.replaces is None:
        try:
            db.execute("INSERT INTO resources VALUES (?,?,?,?,?,?,?)", (*resource[:-1], state))
        except apsw.ConstraintError as exc:
            raise StaleResource(resource.id) from exc
        if resource.kind == "container":
            indexes = [each["index"] for each in resource.state["ranges"]]
            schema.create_items(db, resource.state["number"], indexes)
    else:
        db.execute(
            "UPDATE resources SET id = ?, etag = ?, ts = ?, state = ? WHERE rid = ? AND etag = ?",
            (resource.id, resource.etag, resource.ts, state, resource.rid, change.replaces),
        )
        if db.changes() != 1:
            raise StaleResource(resource.id)


def _remove_resource(db: apsw.Connection, resource: Resource, *, is_hiding: bool) -> None:
    db.execute("DELETE FROM resources WHERE rid = ?", (resource.rid,))
    if db.changes() != 1:
        raise StaleResource(resource.id)
    if resource.kind == "container":
        drop = schema.hide_items if is_hiding else schema.drop_items
        drop(db, resource.state["number"])
