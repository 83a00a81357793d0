"""Items on the wire: decode, call the service, encode."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from perseid import charges, documents, ttl
from perseid.http import metering, wire
from perseid.http.headers import (
    CONTINUATION,
    PARTITION_KEY,
    check_container,
    check_session,
    epk_interval,
    flag,
    is_indexed,
    page_size,
    range_index,
    wants_minimal,
)
from perseid.http.request import Request, Response
from perseid.http.responses import container_headers
from perseid.model import Container, Row
from perseid.partition import canonical, parse_header
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.items import patches, point_operations
from perseid.service.items.transactions import CheckedItem, WriteResult, item_not_found
from perseid.service.lifetimes import reports
from perseid.service.operation import Operation, begin
from perseid.service.preconditions import is_unchanged
from perseid.store.types import Search

# A response holds 4 MB; the envelope around the items takes a little of that.
_LARGEST_PAGE: Final = 4 * 1024 * 1024 - 128
_LIFETIME_HEADER: Final = "x-perseid-lifetime"


def container_of(account: Account, request: Request) -> Container:
    """The container a request about items is for; it must be the one the client means."""
    container = account.catalog.container_of_items(request.names[0], request.names[1])
    check_container(request, container)
    request.container = container
    if account.budgets is not None:
        metering.admit(account, request, container)
    return container


def item_name(request: Request) -> str:
    """The id or rid in the path. JavaScript clients leave a `?` in it unescaped."""
    name = request.names[2]
    if request.query_string:
        return f"{name}?{unquote(request.query_string)}"
    return name


async def read(account: Account, request: Request) -> Response:
    op = begin(account, container_of(account, request), request.now)
    container = op.container
    logical_partition = point_operations.logical_partition_of(
        container, request.header(PARTITION_KEY)
    )
    request.range_index = logical_partition.range_index
    row, lsn = await point_operations.read(op, logical_partition, item_name(request))
    check_session(request, {logical_partition.range_index: lsn})
    if row is None:
        raise item_not_found()
    factor = charges.consistency_factor(request.level)
    if is_unchanged(row.etag, request.header("if-none-match")):
        headers = container_headers(
            container, logical_partition.range_index, lsn, charges.MISS * factor
        )
        headers.append(("etag", row.etag))
        if flag(request, _LIFETIME_HEADER):
            headers += _lifetime_headers(op, row)
        return Response(304, headers)
    charge = charges.point_read(row.size) * factor
    headers = container_headers(container, logical_partition.range_index, lsn, charge)
    headers += _item_headers(request, op, row)
    return Response(200, headers, row.body)


async def create(account: Account, request: Request) -> Response:
    op, checked_item = _checked_item(account, request)
    return _written(request, op, await point_operations.create(op, checked_item))


async def upsert(account: Account, request: Request) -> Response:
    op, checked_item = _checked_item(account, request)
    written = await point_operations.upsert(
        op, checked_item, request.header("if-match"), request.header("if-none-match")
    )
    return _written(request, op, written)


async def replace(account: Account, request: Request) -> Response:
    op, checked_item = _checked_item(account, request)
    name = await point_operations.resolve_id(op, checked_item.logical_partition, item_name(request))
    written = await point_operations.replace(op, name, checked_item, request.header("if-match"))
    return _written(request, op, written)


async def patch(account: Account, request: Request) -> Response:
    op = begin(account, container_of(account, request), request.now)
    logical_partition = point_operations.logical_partition_of(
        op.container, request.header(PARTITION_KEY)
    )
    request.range_index = logical_partition.range_index
    item_patch = patches.parse(request.body, op.container.key)
    name = await point_operations.resolve_id(op, logical_partition, item_name(request))
    if_match = request.header("if-match")
    written = await point_operations.patch(
        op, logical_partition, name, item_patch, if_match, is_indexed=is_indexed(request)
    )
    return _written(request, op, written)


async def delete(account: Account, request: Request) -> Response:
    op = begin(account, container_of(account, request), request.now)
    logical_partition = point_operations.logical_partition_of(
        op.container, request.header(PARTITION_KEY)
    )
    request.range_index = logical_partition.range_index
    name = await point_operations.resolve_id(op, logical_partition, item_name(request))
    deleted = await point_operations.delete(op, logical_partition, name, request.header("if-match"))
    charge = point_operations.charge_of(op.container, deleted)
    return Response(
        204, container_headers(op.container, logical_partition.range_index, deleted.lsn, charge)
    )


async def read_feed(account: Account, request: Request) -> Response:
    op = begin(account, container_of(account, request), request.now)
    container = op.container
    limit = page_size(request)
    after = _position(account, request, container)
    lsns = await account.stores.items.lsns(container)
    check_session(request, dict(enumerate(lsns)))
    search = scope(op, request, after=after, limit=limit)
    rows, has_more, *_ = await account.stores.queries.search(container, search)
    if account.budgets is not None:
        affordable_rows = metering.affordable_count(request, [row.size for row in rows])
        has_more = has_more or affordable_rows < len(rows)
        del rows[affordable_rows:]
        metering.narrow_ranges(request, {row.range_index for row in rows})
    charge = charges.feed_page(row.size for row in rows) * charges.consistency_factor(request.level)
    target_range = search.range_index or 0
    headers = container_headers(container, target_range, lsns[target_range], charge)
    headers.append(("x-ms-item-count", str(len(rows))))
    if has_more:
        position = {"f": "items", "c": container.rid, "n": rows[-1].number}
        headers.append((CONTINUATION, tokens.seal(account.secret, position)))
    return Response(200, headers, wire.feed(container.rid, "Documents", [row.body for row in rows]))


def scope(op: Operation, request: Request, *, after: int, limit: int) -> Search:
    """The items a feed or query is about: by key, key prefix, range, or interval of hashes."""
    header = request.header(PARTITION_KEY)
    if header is None:
        header = request.confined
    epk_min, epk_max = epk_interval(request)
    target_range = range_index(request, op.container)
    room = _LARGEST_PAGE - limit  # a comma each
    search = Search(
        after, target_range, None, False, epk_min, epk_max, op.cutoff,
        None, frozenset(), limit, room,
    )  # fmt: skip
    if header is None:
        return search
    components = parse_header(header, op.container.key.levels)
    if len(components) < op.container.key.levels:
        return search._replace(pk_prefix=canonical(components), is_prefix=True)
    logical_partition = point_operations.logical_partition_of(op.container, header)
    return search._replace(
        pk_prefix=logical_partition.pk, range_index=logical_partition.range_index
    )


def _position(account: Account, request: Request, container: Container) -> int:
    token = request.header(CONTINUATION)
    if not token:
        return -1
    position: int = tokens.unseal(account.secret, token, f="items", c=container.rid)["n"]
    return position


def _checked_item(account: Account, request: Request) -> tuple[Operation, CheckedItem]:
    container = container_of(account, request)
    document = documents.parse(request.body)
    header = request.header(PARTITION_KEY)
    checked_item = point_operations.checked_item(
        container, document, header, is_indexed=is_indexed(request)
    )
    request.range_index = checked_item.logical_partition.range_index
    return begin(account, container, request.now), checked_item


def _written(request: Request, op: Operation, written: WriteResult) -> Response:
    container = op.container
    charge = point_operations.charge_of(container, written)
    headers = container_headers(container, request.range_index, written.lsn, charge)
    headers += _item_headers(request, op, written.row)
    if wants_minimal(request):
        return Response(written.status, headers)
    return Response(written.status, headers, written.row.body)


def _item_headers(request: Request, op: Operation, row: Row) -> list[tuple[str, str]]:
    headers = [("etag", row.etag), ("x-ms-item-lsn", str(row.lsn))]
    if flag(request, _LIFETIME_HEADER):
        headers += _lifetime_headers(op, row)
    return headers


def _lifetime_headers(op: Operation, row: Row) -> list[tuple[str, str]]:
    """What becomes of the item, for those who ask."""
    policy = op.container.policy
    expires_at = ttl.expires_at(row.ts, row.ttl, policy)
    headers = [("x-perseid-lifetime-origin", reports.ttl_source(policy, row.ttl))]
    if expires_at is not None:
        headers.append(("x-perseid-expires-at", str(expires_at)))
        headers.append(("x-perseid-remaining", str(expires_at - max(op.ts, row.ts))))
    return headers
