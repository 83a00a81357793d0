"""The Cosmos DB routes for commands: databases, containers and their throughput."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from perseid.commands.connection import Connection, Refused
from perseid.commands.output import printable


class ResourcePath(NamedTuple):
    """A database, or one of its containers."""

    database: str
    container: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        database = ("dbs", self.database)
        return database if self.container is None else (*database, "colls", self.container)

    @property
    def kind(self) -> str:
        return self.names[-2]

    def __str__(self) -> str:
        """Names the resource in a sentence."""
        if self.container is None:
            return f"database {printable(self.database)}"
        return f"container {printable(f'{self.database}/{self.container}')}"


def read_resource(connection: Connection, path: ResourcePath) -> dict[str, Any]:
    """The definition; Refused with a message that names the resource if there is none."""
    try:
        reply = connection.request("GET", path.names, (path.kind, "/".join(path.names)))
        return connection.checked_body(reply)
    except Refused as exc:
        raise _missing(exc, path) from exc


def create_resource(
    connection: Connection,
    path: ResourcePath,
    properties: dict[str, Any] | None = None,
    throughput: int | None = None,
) -> dict[str, Any]:
    """The definition of the new resource."""
    *feed, name = path.names
    headers = {} if throughput is None else {"x-ms-offer-throughput": str(throughput)}
    try:
        reply = connection.request(
            "POST", feed, (path.kind, "/".join(feed[:-1])),
            headers=headers, body=json.dumps({"id": name} | (properties or {})).encode(),
        )  # fmt: skip
        return connection.checked_body(reply)
    except Refused as exc:
        if exc.status == 409:
            raise Refused(409, f"The {path} exists already.") from exc
        raise _missing(exc, ResourcePath(path.database)) from exc


def replace_resource(
    connection: Connection,
    path: ResourcePath,
    definition: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The new definition; Refused (412) if it was changed since `definition` was read."""
    reply = connection.request(
        "PUT", path.names, (path.kind, "/".join(path.names)),
        headers={"if-match": definition["_etag"]} | (headers or {}),
        body=json.dumps(definition).encode(),
    )  # fmt: skip
    return connection.checked_body(reply)


def delete_resource(connection: Connection, path: ResourcePath) -> None:
    try:
        reply = connection.request("DELETE", path.names, (path.kind, "/".join(path.names)))
        if reply.status != 204:
            connection.checked_body(reply)
    except Refused as exc:
        raise _missing(exc, path) from exc


def _missing(refused: Refused, path: ResourcePath) -> Refused:
    """The same refusal, or a clearer one if it says that the resource does not exist."""
    if refused.status != 404:
        return refused
    database = shlex.quote(printable(path.database))
    listing = "db list" if path.container is None else f"container list {database}"
    return Refused(404, f"There is no {path}; see `perseid {listing}`.")


def container_identity(connection: Connection, database: str, container: str) -> str:
    """A text that differs for a container that was deleted and created again.

    The rid alone is not enough: a server that starts empty assigns the same rids again.
    """
    rid = read_resource(connection, ResourcePath(database, container))["_rid"]
    ts = read_resource(connection, ResourcePath(database))["_ts"]
    return f"{database}/{container} {rid} {ts}"


def read_databases(connection: Connection) -> Iterator[dict[str, Any]]:
    return _feed(connection, ("dbs",), "", "Databases")


def read_containers(connection: Connection, database: str) -> Iterator[dict[str, Any]]:
    names = ("dbs", database, "colls")
    try:
        yield from _feed(connection, names, f"dbs/{database}", "DocumentCollections")
    except Refused as exc:
        raise _missing(exc, ResourcePath(database)) from exc


def database_names(connection: Connection) -> list[str]:
    return [each["id"] for each in read_databases(connection)]


def container_names(connection: Connection, database: str) -> list[str]:
    return [each["id"] for each in read_containers(connection, database)]


def read_throughput(connection: Connection, rid: str) -> dict[str, Any] | None:
    """The throughput that was provisioned for a database or container; None if it has none."""
    for offer in _feed(connection, ("offers",), "", "Offers"):
        if offer["offerResourceId"] == rid:
            content: dict[str, Any] = offer["content"]
            autoscale = content.get("offerAutopilotSettings")
            if autoscale:
                return {"autoscaleMax": autoscale["maxThroughput"]}
            return {"manual": content["offerThroughput"]}
    return None


def _feed(
    connection: Connection, path: tuple[str, ...], link: str, member: str
) -> Iterator[dict[str, Any]]:
    token: str | None = None
    while True:
        headers = {} if token is None else {"x-ms-continuation": token}
        reply = connection.request("GET", path, (path[-1], link), headers=headers)
        yield from connection.checked_body(reply)[member]
        token = reply.headers.get("x-ms-continuation")
        if token is None:
            return
