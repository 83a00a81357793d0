"""Handlers for items: decode the request, call the service, encode the response."""

from __future__ import annotations

from perseid import charges, ttl
from perseid.errors import InvalidTtl
from perseid.http import binary_json, metering, wire
from perseid.http.addresses import item_location
from perseid.http.headers import (
    CONTINUATION,
    ETAG,
    EXPIRES_AT,
    IF_MATCH,
    IF_NONE_MATCH,
    ITEM_COUNT,
    ITEM_LSN,
    LIFETIME,
    PARTITION_KEY,
    REMAINING,
    TTL_SOURCE,
    check_container,
    check_session,
    flag,
    is_indexed,
    is_relaxed,
    page_size,
    scope_of,
    wants_minimal,
)
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.model import Container, Row
from perseid.service.account import Account
from perseid.service.items import feed, patches, point_operations
from perseid.service.items.decoding import run_decoding
from perseid.service.items.one_thread import LARGE, in_one_thread
from perseid.service.items.patch_evaluator import PatchEvaluator
from perseid.service.items.patch_operations import patch_operation
from perseid.service.items.transactions import CheckedItem, WriteResult, item_not_found
from perseid.service.operation import Operation, begin
from perseid.service.preconditions import is_unchanged
from perseid.service.queries.disconnects import ClientDisconnected


def container_of(account: Account, request: Request, exchange: Exchange) -> Container:
    """The container of a request about items, checked against the rid that the client knows."""
    container = account.catalog.container_of_items(exchange.names[0], exchange.names[1])
    check_container(request, container)
    exchange.container = container
    if account.budgets is not None:
        metering.admit(account, request, exchange, container)
    return container


async def read(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    logical_partition = point_operations.logical_partition_of(
        container, request.header(PARTITION_KEY)
    )
    exchange.range_index = logical_partition.range_index
    row, lsn = await point_operations.read(op, logical_partition, exchange.names[2])
    check_session(request, {logical_partition.range_index: lsn})
    if row is None:
        raise item_not_found()
    factor = charges.consistency_factor(exchange.consistency)
    known = request.header(IF_NONE_MATCH)
    if known is not None and is_unchanged(row.etag, known):
        headers = container_headers(
            container, logical_partition.range_index, lsn, charges.MISS * factor
        )
        headers.append((ETAG, row.etag))
        _add_lifetime(headers, request, op, row)
        return Response(304, headers)
    charge = charges.point_read(row.size) * factor
    headers = container_headers(container, logical_partition.range_index, lsn, charge)
    headers += (
        (ETAG, row.etag),
        (ITEM_LSN, str(row.lsn)),
        item_location(request, account.settings, container.path, row.id),
    )
    if request.header(LIFETIME) is not None:
        _add_lifetime(headers, request, op, row)
    return Response(200, headers, row.body)


async def create(account: Account, request: Request, exchange: Exchange) -> Response:
    op, checked_item = await _checked_item(account, request, exchange)
    return await _written(request, exchange, op, await point_operations.create(op, checked_item))


async def upsert(account: Account, request: Request, exchange: Exchange) -> Response:
    op, checked_item = await _checked_item(account, request, exchange)
    written = await point_operations.upsert(
        op, checked_item, request.header(IF_MATCH), request.header(IF_NONE_MATCH)
    )
    return await _written(request, exchange, op, written)


async def replace(account: Account, request: Request, exchange: Exchange) -> Response:
    op, checked_item = await _checked_item(account, request, exchange)
    name = await point_operations.resolve_id(op, checked_item.logical_partition, exchange.names[2])
    written = await point_operations.replace(
        op, name, checked_item, request.header(IF_MATCH), may_rename=exchange.may_rename
    )
    return await _written(request, exchange, op, written)


async def patch(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    logical_partition = point_operations.logical_partition_of(
        op.container, request.header(PARTITION_KEY)
    )
    exchange.range_index = logical_partition.range_index
    body = request.body
    item_patch = await run_decoding(account, (body,), patches.parse, body, op.container.key)
    name = await point_operations.resolve_id(op, logical_partition, exchange.names[2])
    if_match = request.header(IF_MATCH)
    operation = patch_operation(
        logical_partition,
        name,
        item_patch,
        if_match,
        is_indexed=is_indexed(request),
        is_lenient=is_relaxed(request, account.settings),
    )
    evaluator = PatchEvaluator(account, request.gone)
    try:
        written = await evaluator.perform(op, operation)
    except ClientDisconnected as exc:
        raise exchange.abandon() from exc
    return await _written(request, exchange, op, written)


async def delete(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    logical_partition = point_operations.logical_partition_of(
        op.container, request.header(PARTITION_KEY)
    )
    exchange.range_index = logical_partition.range_index
    name = await point_operations.resolve_id(op, logical_partition, exchange.names[2])
    deleted = await point_operations.delete(op, logical_partition, name, request.header(IF_MATCH))
    charge = point_operations.charge_of(op.container, deleted)
    return Response(
        204, container_headers(op.container, logical_partition.range_index, deleted.lsn, charge)
    )


async def read_feed(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    limit = page_size(request)
    after = feed.position_of(account, container, request.header(CONTINUATION))
    lsns = await account.lsns(container)
    check_session(request, dict(enumerate(lsns)))
    scope = scope_of(request, container, partition_key(request, exchange))
    page = await feed.read_page(op, scope, after=after, limit=limit, allowance=exchange.allowance)
    rows = page.rows
    if account.budgets is not None:
        metering.narrow_ranges(exchange, {row.range_index for row in rows})
    factor = charges.consistency_factor(exchange.consistency)
    charge = charges.feed_page(row.size for row in rows) * factor
    range_index = page.range_index or 0
    headers = container_headers(container, range_index, lsns[range_index], charge)
    headers.append((ITEM_COUNT, str(len(rows))))
    if page.continuation is not None:
        headers.append((CONTINUATION, page.continuation))
    return Response(200, headers, wire.feed(container.rid, "Documents", [row.body for row in rows]))


def partition_key(request: Request, exchange: Exchange) -> str | None:
    """The partition key of a list: that of the header, or else that of the resource token."""
    header = request.header(PARTITION_KEY)
    return exchange.confined_key if header is None else header


async def _checked_item(
    account: Account, request: Request, exchange: Exchange
) -> tuple[Operation, CheckedItem]:
    if request.body[:1] == binary_json.FIRST_BYTE:
        request = await _with_text(request)
    container = container_of(account, request, exchange)
    body = request.body
    arguments = container, body, request.header(PARTITION_KEY), is_indexed(request)
    check = point_operations.check_body
    try:
        if len(body) <= LARGE:
            checked_item = check(*arguments)
        else:
            checked_item = await run_decoding(account, (body,), check, *arguments)
    except InvalidTtl:
        # Asked only now, because the question takes time and nearly all items are valid.
        if container.policy.default_ttl is not None or not is_relaxed(request, account.settings):
            raise
        checked_item = await run_decoding(account, (body,), check, *arguments, True)
    exchange.range_index = checked_item.logical_partition.range_index
    return begin(account, container, request.now), checked_item


async def _with_text(request: Request) -> Request:
    """The request with the JSON text of its binary body."""
    body = request.body
    if len(body) <= binary_json.FEW_BYTES:
        return request._replace(body=binary_json.decode(body))
    return request._replace(body=await in_one_thread(binary_json.decode, body))


async def _written(
    request: Request, exchange: Exchange, op: Operation, written: WriteResult
) -> Response:
    container, row = op.container, written.row
    if written.old is not None and point_operations.compared_bytes(written) > LARGE:
        (written,) = await point_operations.compare(op, (written,))
    charge = point_operations.charge_of(container, written)
    headers = container_headers(container, exchange.range_index, written.lsn, charge)
    headers += ((ETAG, row.etag), (ITEM_LSN, str(row.lsn)))
    if request.header(LIFETIME) is not None:
        _add_lifetime(headers, request, op, row)
    if wants_minimal(request):
        return Response(written.status, headers)
    return Response(written.status, headers, row.body)


def _add_lifetime(
    headers: list[tuple[str, str]], request: Request, op: Operation, row: Row
) -> None:
    """Adds when the item expires, if the request asks for it."""
    if not flag(request, LIFETIME):
        return
    policy = op.container.policy
    expires_at = ttl.expires_at(row.ts, row.ttl, policy)
    headers.append((TTL_SOURCE, ttl.ttl_source(row.ttl, policy)))
    if expires_at is not None:
        headers.append((EXPIRES_AT, str(expires_at)))
        headers.append((REMAINING, str(expires_at - max(op.ts, row.ts))))
