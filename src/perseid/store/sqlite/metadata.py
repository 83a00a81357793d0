"""Databases, containers and all else that is not an item, in the SQLite file; and the audit log."""

from __future__ import annotations

import apsw
import orjson

from perseid.store.sqlite import schema
from perseid.store.types import (
    AuditEntry,
    PutResource,
    RemoveResource,
    Resource,
    StaleResource,
    StoreError,
)


def get(db: apsw.Connection, name: str) -> str | None:
    value: str | None = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
    return value


def put(db: apsw.Connection, name: str, value: str) -> None:
    db.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def put_if_absent(db: apsw.Connection, name: str, value: str) -> str:
    """The value that is there, which is this one if there was none."""
    db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
    kept: str = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
    return kept


def next_number(db: apsw.Connection, series: str) -> int:
    value: str = db.execute(
        "INSERT INTO meta VALUES (?, '1')"
        " ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
        (f"last_{series}",),
    ).get
    return int(value)


def resources(db: apsw.Connection) -> list[Resource]:
    """All of them, in the order of their making; StoreError if one cannot be read."""
    found = []
    for *columns, state in db.execute(
        "SELECT rid, kind, parent, id, etag, ts, state FROM resources ORDER BY rowid"
    ):
        try:
            found.append(Resource._make((*columns, orjson.loads(state))))
        except orjson.JSONDecodeError as exc:
            _, kind, _, name, *_ = columns
            raise StoreError(f"the definition of {kind} '{name}' is damaged: {exc}") from exc
    return found


def audit_entries(
    db: apsw.Connection, container: str | None, after: int, limit: int
) -> list[tuple[int, AuditEntry]]:
    """Lines of the audit log, of one container or of all."""
    rows = db.execute(
        "SELECT line, ts, container, entry FROM audit"
        " WHERE line > ? AND container = COALESCE(?, container) ORDER BY line LIMIT ?",
        (after, container, limit),
    )
    return [(line, AuditEntry(ts, rid, orjson.loads(entry))) for line, ts, rid, entry in rows]


def apply(db: apsw.Connection, change: PutResource | RemoveResource | AuditEntry) -> None:
    """Makes a change, with the tables of a container that comes or goes; StaleResource if somebody
    else was first."""
    if isinstance(change, PutResource):
        _put_resource(db, change)
    elif isinstance(change, RemoveResource):
        _remove_resource(db, change.resource)
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
            schema.create_items(db, resource.state["number"], resource.state["ranges"])
    else:
        db.execute(
            "UPDATE resources SET id = ?, etag = ?, ts = ?, state = ? WHERE rid = ? AND etag = ?",
            (resource.id, resource.etag, resource.ts, state, resource.rid, change.replaces),
        )
        if db.changes() != 1:
            raise StaleResource(resource.id)


def _remove_resource(db: apsw.Connection, resource: Resource) -> None:
    db.execute("DELETE FROM resources WHERE rid = ?", (resource.rid,))
    if db.changes() != 1:
        raise StaleResource(resource.id)
    if resource.kind == "container":
        schema.drop_items(db, resource.state["number"])
