"""The handler for GET on the items of a container: all items, or with `A-IM` the changes."""

from __future__ import annotations

from typing import Final

from perseid import charges
from perseid.errors import BadRequest
from perseid.http import items, metering, wire
from perseid.http.headers import (
    A_IM,
    ETAG,
    FEED_FORMAT,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    ITEM_COUNT,
    check_session,
    page_size,
    parse_date,
    scope_of,
)
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.service import change_feed
from perseid.service.account import Account
from perseid.service.change_feed import ChangeFeedStart
from perseid.service.items.one_thread import if_large
from perseid.service.items.scope import search_of
from perseid.service.operation import begin

_LATEST_VERSIONS: Final = "incremental feed"
_ALL_VERSIONS: Final = "full-fidelity feed"
_KNOWN_FORMAT: Final = "2021-09-15"


async def read_feed(account: Account, request: Request, exchange: Exchange) -> Response:
    mode = request.header(A_IM)
    if mode is None:
        return await items.read_feed(account, request, exchange)
    return await _read_changes(account, request, exchange, mode)


async def _read_changes(
    account: Account, request: Request, exchange: Exchange, mode: str
) -> Response:
    op = begin(account, items.container_of(account, request, exchange), request.now)
    container = op.container
    is_all_versions = _is_all_versions(request, mode)
    scope = scope_of(request, container, items.partition_key(request, exchange))
    search = search_of(op, scope, after=-1, limit=page_size(request))
    start = ChangeFeedStart(request.header(IF_NONE_MATCH), _since(request))
    lsns = await account.lsns(container)
    check_session(request, dict(enumerate(lsns)))
    if is_all_versions:
        changes, etag, page_range = await change_feed.read_versions(op, search, start)
        bodies = await if_large(
            sum(len(change.body or b"") for change in changes),
            lambda: [wire.change(change, container.key) for change in changes],
        )
        sizes = [len(body) for body in bodies]
    else:
        rows, etag, page_range = await change_feed.read_latest(op, search, start)
        has_metadata = request.header(FEED_FORMAT) == _KNOWN_FORMAT
        encode = wire.changed_item_with_metadata if has_metadata else wire.changed_item
        bodies = await if_large(
            sum(row.size for row in rows), lambda: [encode(row) for row in rows]
        )
        sizes = [row.size for row in rows]
    if account.budgets is not None and page_range is not None:
        metering.narrow_ranges(exchange, (page_range,))
    charge = charges.feed_page(sizes) * charges.consistency_factor(exchange.consistency)
    range_index = search.range_index or 0
    headers = container_headers(container, range_index, lsns[range_index], charge)
    headers += [(ETAG, etag), (ITEM_COUNT, str(len(bodies)))]
    if not bodies:
        return Response(304, headers)
    return Response(200, headers, wire.feed(container.rid, "Documents", bodies))


def _is_all_versions(request: Request, mode: str) -> bool:
    """True for all versions and deletes, False for latest versions."""
    if mode.strip().lower() == _LATEST_VERSIONS:
        return False
    if mode.strip().lower() != _ALL_VERSIONS:
        raise BadRequest(
            f"The header A-IM must be 'Incremental Feed' or 'Full-Fidelity Feed', not '{mode}'."
        )
    version = request.header(FEED_FORMAT)
    if version not in (None, _KNOWN_FORMAT):
        raise BadRequest(f"The header {FEED_FORMAT} must be {_KNOWN_FORMAT}, not '{version}'.")
    return True


def _since(request: Request) -> int | None:
    """If-Modified-Since as seconds."""
    value = request.header(IF_MODIFIED_SINCE)
    if value is None:
        return None
    seconds = parse_date(value)
    if seconds is None:
        raise BadRequest(
            "The header If-Modified-Since must be a date such as"
            f" 'Tue, 01 Jan 2030 00:00:00 GMT', not '{value[:200]}'."
        )
    return int(seconds)
