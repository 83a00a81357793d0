"""Handlers for containers and their partition key ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perseid.documents import parse_object
from perseid.http import wire
from perseid.http.api_versions import REQUIRED_KEYS, is_before
from perseid.http.databases import requested_throughput
from perseid.http.headers import (
    CONFIRM,
    CONTENT_PATH,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    INDEXING_PROGRESS,
    LAZY_INDEXING_PROGRESS,
    POPULATE_QUOTA,
    POPULATE_STATISTICS,
    RESOURCE_QUOTA,
    RESOURCE_USAGE,
    SESSION_TOKEN,
    check_container,
    flag,
    is_relaxed,
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
    session_token,
)
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.preconditions import is_unchanged
from perseid.service.resources import containers

_QUOTA_KB = 10 * 1024 * 1024
_SCRIPTS = {"storedProcedures": "sproc", "triggers": "trigger", "functions": "udf"}


async def create(account: Account, request: Request, exchange: Exchange) -> Response:
    created = await containers.create(
        account,
        exchange.names[0],
        parse_object(request.body),
        requested_throughput(request),
        request.now,
        is_lenient=is_relaxed(request, account.settings),
        needs_key=not is_before(request, REQUIRED_KEYS),
    )
    return await _written(account, request, 201, created)


async def read(account: Account, request: Request, exchange: Exchange) -> Response:
    container = account.catalog.container(*_names(exchange))
    check_container(request, container)
    extra = await _owner_headers(account, container)
    if is_unchanged(container.etag, request.header(IF_NONE_MATCH)):
        return not_modified(container.etag, *extra)
    statistics = None
    if flag(request, POPULATE_QUOTA):
        extra += await _quota(account, container, request.now)
    if flag(request, POPULATE_STATISTICS):
        statistics = await _statistics(account, container, request.now)
    return metadata_read(_body(request, container, statistics), *extra)


async def read_feed(account: Account, request: Request, exchange: Exchange) -> Response:
    owner = account.catalog.owner(exchange.names[0])
    entries = [(each.number, _body(request, each)) for each in containers.read_all(account, owner)]
    path = owner_path(owner.id)
    return metadata_feed(account, request, owner.rid, "DocumentCollections", entries, path)


async def query(account: Account, request: Request, exchange: Exchange) -> Response:
    owner = account.catalog.owner(exchange.names[0])
    bodies = [_body(request, each) for each in containers.read_all(account, owner)]
    path = owner_path(owner.id)
    return await metadata_query(account, request, owner.rid, "DocumentCollections", bodies, path)


async def replace(account: Account, request: Request, exchange: Exchange) -> Response:
    check_container(request, account.catalog.container(*_names(exchange)))
    body = parse_object(request.body)
    changed = await containers.replace(
        account,
        *_names(exchange),
        body,
        if_match=request.header(IF_MATCH),
        now=request.now,
        caller=exchange.caller,
        confirmation=request.header(CONFIRM),
    )
    return await _written(account, request, 200, changed)


async def delete(account: Account, request: Request, exchange: Exchange) -> Response:
    container = account.catalog.container(*_names(exchange))
    check_container(request, container)
    session = _first_session_token(container, await account.lsns(container))
    deleted = await containers.delete(account, *_names(exchange), if_match=request.header(IF_MATCH))
    return metadata_deleted(
        owner_path(deleted.database.id), (CONTENT_PATH, deleted.database.rid), session
    )


async def _written(
    account: Account, request: Request, status: int, container: Container
) -> Response:
    session = _first_session_token(container, await account.lsns(container))
    headers = [*_owner_path_headers(container), session]
    return metadata_written(status, _body(request, container), *headers)


def _first_session_token(container: Container, lsns: Sequence[int]) -> tuple[str, str]:
    """The header after a write of a container: Java and .NET refuse tokens of several ranges."""
    return SESSION_TOKEN, f"{container.ranges[0].id}:-1#{lsns[0]}"


async def read_ranges(account: Account, request: Request, exchange: Exchange) -> Response:
    """The ranges never change, so a client that has read them gets a 304."""
    owner = account.catalog.container_of_items(*_names(exchange))
    check_container(request, owner)
    etag = f'"{owner.number}"'
    path = owner_path(owner.database.id, owner.id)
    if is_unchanged(etag, request.header(IF_NONE_MATCH)):
        return not_modified(etag, path)
    lsns = await account.lsns(owner)
    entries = [
        (key_range.index, wire.partition_key_range(key_range, owner, lsns[key_range.index]))
        for key_range in owner.ranges
    ]
    page = metadata_feed(account, request, owner.rid, "PartitionKeyRanges", entries, path)
    page.headers.append((ETAG, etag))
    return page


def _body(
    request: Request, container: Container, statistics: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The definition of a container as the client's API version knows it."""
    body = wire.container(container, statistics)
    if not container.key.tokens and is_before(request, REQUIRED_KEYS):
        del body["partitionKey"]
    return body


def _names(exchange: Exchange) -> tuple[str, str]:
    database, container = exchange.names
    return database, container


async def _owner_headers(account: Account, container: Container) -> list[tuple[str, str]]:
    lsns = await account.lsns(container)
    return [*_owner_path_headers(container), (SESSION_TOKEN, session_token(container, lsns))]


def _owner_path_headers(container: Container) -> list[tuple[str, str]]:
    return [owner_path(container.database.id), (CONTENT_PATH, container.database.rid)]


async def _quota(account: Account, container: Container, now: float) -> list[tuple[str, str]]:
    """Headers with quota and usage in KB; expired items do not count."""
    usage = await account.usage(container, account.cutoff(container, now))
    size = _kilobytes(usage.size)
    quota = (
        "documentSize=10240;storedProcedures=100;triggers=25;functions=50;documentsCount=-1;"
        f"documentsSize={_QUOTA_KB};collectionSize={_QUOTA_KB};"
    )
    scripts = ";".join(
        f"{name}={len(account.catalog.children(kind, container.rid))}"
        for name, kind in _SCRIPTS.items()
    )
    used = (
        f"documentSize=0;{scripts};"
        f"documentsCount={usage.items};"
        f"documentsSize={size};collectionSize={size};"
    )
    progress = [(INDEXING_PROGRESS, "100")]
    if container.properties["indexingPolicy"]["indexingMode"] == "lazy":
        progress.append((LAZY_INDEXING_PROGRESS, "100"))
    return [(RESOURCE_QUOTA, quota), (RESOURCE_USAGE, used), *progress]


async def _statistics(account: Account, container: Container, now: float) -> list[dict[str, Any]]:
    return [
        {
            "id": part.range_id,
            "sizeInKB": _kilobytes(part.size),
            "documentCount": part.items,
            "sampledDistinctPartitionKeyCount": part.partition_keys,
            "partitionKeys": [],
        }
        for part in await containers.statistics(account, container, now)
    ]


def _kilobytes(size: int) -> int:
    return -(-size // 1024)
