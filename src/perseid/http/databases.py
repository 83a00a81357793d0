"""Handlers for the account and its databases."""

from __future__ import annotations

from typing import Final

from perseid.documents import parse_object
from perseid.http import wire
from perseid.http.addresses import advertised_endpoint
from perseid.http.headers import (
    AUTOSCALE,
    CHARGE,
    IF_MATCH,
    IF_NONE_MATCH,
    SESSION_TOKEN,
    THROUGHPUT,
)
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import (
    metadata_deleted,
    metadata_feed,
    metadata_query,
    metadata_read,
    metadata_written,
    not_modified,
    owner_path,
)
from perseid.service.account import Account
from perseid.service.preconditions import is_unchanged
from perseid.service.resources import databases
from perseid.service.throughput.rules import Throughput, throughput_from_headers

# Versions are for people who want to know which service this is; no client reads them. Clients of
# 2017 read what attachments may use and do use.
_ACCOUNT_HEADERS: Final = (
    ("x-ms-max-media-storage-usage-mb", "2048"),
    ("x-ms-media-storage-usage-mb", "0"),
    ("x-ms-schemaversion", "1.18"),
    ("x-ms-serviceversion", "version=2.14.0"),
    ("x-ms-gatewayversion", "version=2.14.0"),
)
# Clients expect one after every write. Databases have no position of their own.
_SESSION: Final = (SESSION_TOKEN, "0:-1#0")


async def read_account(account: Account, request: Request, _exchange: Exchange) -> Response:
    """GET /, which clients read before anything else."""
    body = wire.account(account.settings, advertised_endpoint(request, account.settings))
    return Response(200, [(CHARGE, "1"), *_ACCOUNT_HEADERS], wire.encode(body))


def requested_throughput(request: Request) -> Throughput | None:
    return throughput_from_headers(
        request.header(THROUGHPUT),
        request.header(AUTOSCALE),
    )


async def create(account: Account, request: Request, _exchange: Exchange) -> Response:
    body = parse_object(request.body)
    created = await databases.create(account, body, requested_throughput(request), request.now)
    return metadata_written(201, wire.database(created), _SESSION)


async def read(account: Account, request: Request, exchange: Exchange) -> Response:
    database = account.catalog.database(exchange.names[0])
    if is_unchanged(database.etag, request.header(IF_NONE_MATCH)):
        return not_modified(database.etag)
    return metadata_read(wire.database(database), owner_path(database.id))


async def read_feed(account: Account, request: Request, _exchange: Exchange) -> Response:
    entries = [
        (database.number, wire.database(database)) for database in databases.read_all(account)
    ]
    return metadata_feed(account, request, "", "Databases", entries)


async def query(account: Account, request: Request, _exchange: Exchange) -> Response:
    bodies = [wire.database(database) for database in databases.read_all(account)]
    return await metadata_query(account, request, "", "Databases", bodies)


async def delete(account: Account, request: Request, exchange: Exchange) -> Response:
    await databases.delete(account, exchange.names[0], request.header(IF_MATCH))
    return metadata_deleted(_SESSION)
