"""The Cosmos DB routes for commands that read or delete items."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import click

from perseid.commands.connection import Connection, Refused, Reply

SESSION: Final = "x-ms-session-token"
_QUERY = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "true",
    "x-ms-documentdb-query-enablecrosspartition": "true",
    "x-perseid-direct": "true",  # also what the cloud service leaves to its clients
}


class QueryPage(NamedTuple):
    """A page of results, its request charge, and the token for the next page."""

    rows: list[Any]
    charge: float
    continuation: str | None


class FeedPage(NamedTuple):
    """A page of items as the server sent it, and the token for the next page."""

    body: bytes
    continuation: str | None
    session: str | None  # the session token of the response


def query_page(
    connection: Connection,
    database: str,
    container: str,
    text: str,
    parameters: list[dict[str, Any]],
    *,
    partition_key: list[Any] | None,
    page_size: int,
    continuation: str | None,
) -> QueryPage:
    headers = _QUERY | _paging(page_size, continuation)
    if partition_key is not None:
        headers["x-ms-documentdb-partitionkey"] = json.dumps(partition_key)
    body = json.dumps({"query": text, "parameters": parameters}).encode()
    reply = _docs(connection, "POST", database, container, headers=headers, body=body)
    rows = connection.checked_body(reply)["Documents"]
    charge = float(reply.headers.get("x-ms-request-charge", "0"))
    return QueryPage(rows, charge, reply.headers.get("x-ms-continuation"))


def feed_page(
    connection: Connection,
    database: str,
    container: str,
    page_size: int,
    continuation: str | None,
    session: str | None = None,
) -> FeedPage:
    """A page of all live items in the order of their creation.

    Raises Refused if the container is older than the session token `session`.
    """
    headers = _paging(page_size, continuation)
    if session is not None:
        headers[SESSION] = session
    reply = _docs(connection, "GET", database, container, headers=headers, body=None)
    if reply.status != 200:
        connection.checked_body(reply)
    reply_headers = reply.headers
    return FeedPage(reply.body, reply_headers.get("x-ms-continuation"), reply_headers.get(SESSION))


def delete_item(
    connection: Connection,
    container: tuple[str, str],
    item_id: str,
    partition_key: list[Any],
    etag: str,
) -> int:
    """The status of the response: 204, 404 if there is no such item, 412 if its etag differs."""
    names = ("dbs", container[0], "colls", container[1], "docs", item_id)
    headers = {"if-match": etag, "x-ms-documentdb-partitionkey": json.dumps(partition_key)}
    reply = connection.request("DELETE", names, ("docs", "/".join(names)), headers=headers)
    if reply.status not in (204, 404, 412):
        connection.checked_body(reply)
    return reply.status


def check_session(
    connection: Connection, database: str, container: str, session: str | None, state: str
) -> None:
    """click.ClickException if the data is older than the session token in the file `state`.

    Without a token, as before the first response, there is nothing to check.
    """
    if session is None:
        return
    try:
        feed_page(connection, database, container, 1, None, session)
    except Refused as exc:
        if exc.status != 404:
            raise
        raise click.ClickException(
            f"The container is older than {state}: a backup was restored since that file was"
            " written. Start over with --restart."
        ) from exc


def _paging(page_size: int, continuation: str | None) -> dict[str, str]:
    headers = {"x-ms-max-item-count": str(page_size)}
    if continuation is not None:
        headers["x-ms-continuation"] = continuation
    return headers


def _docs(
    connection: Connection,
    method: str,
    database: str,
    container: str,
    *,
    headers: dict[str, str],
    body: bytes | None,
) -> Reply:
    owner = ("dbs", database, "colls", container)
    return connection.request(
        method, (*owner, "docs"), ("docs", "/".join(owner)), headers=headers, body=body
    )
