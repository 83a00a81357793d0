"""Throughput on the wire, with --enforce-throughput: what headers say, the 429, the billed charge.

`service.throughput.admission` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from perseid import charges
from perseid.errors import CosmosError, TooManyRequests
from perseid.http.headers import (
    CHARGE,
    IS_BATCH,
    IS_PLAN,
    PARTITION_KEY,
    RETRY_AFTER_MS,
    flag,
    is_low_priority,
    is_query,
    scope_of,
)
from perseid.http.request import Exchange, Request, Response
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items.scope import Scope
from perseid.service.operation import begin
from perseid.service.throughput import admission, enforcement
from perseid.service.throughput.admission import BodyKind

_TOO_MANY: Final = (
    "Request rate is large. More Request Units may be needed, so no changes were made. Please"
    " retry this request later. Learn more: http://aka.ms/cosmosdb-error-429"
)


def admit(account: Account, request: Request, exchange: Exchange, container: Container) -> None:
    """429 with the time to wait, unless each range of the request has request units left."""
    if not _is_metered(request, exchange):
        return
    ranges = exchange.ranges = _ranges(account, request, container)
    exchange.range_index = ranges[0]
    decision = admission.admit(
        account, container, ranges, request.now, is_low_priority=is_low_priority(request)
    )
    if decision.retry_after_ms:
        raise TooManyRequests(
            _TOO_MANY,
            listed=True,
            charge=charges.THROTTLED,
            headers=[(RETRY_AFTER_MS, str(decision.retry_after_ms))],
        )
    exchange.allowance = decision.allowance


def bill(account: Account, request: Request, exchange: Exchange, response: Response) -> None:
    """Takes the charge of a response from the budgets of its ranges; a 429 costs nothing."""
    container, ranges = exchange.container, exchange.ranges
    if container is None or not ranges or response.status == TooManyRequests.status:
        return
    charge = next((float(value) for name, value in response.headers if name == CHARGE), 0.0)
    is_low = is_low_priority(request)
    enforcement.book(account, container, ranges, charge, request.now, is_low=is_low)


def narrow_ranges(exchange: Exchange, range_indexes: Collection[int]) -> None:
    """Bills only the ranges that the items of a page come from, if it has any."""
    if range_indexes:
        exchange.ranges = sorted(range_indexes)


def _is_metered(request: Request, exchange: Exchange) -> bool:
    """True if a request below a container reads or writes items; metadata is free."""
    kind = request.path.split("/", 6)[5]
    if kind == "docs":
        return not flag(request, IS_PLAN)
    is_run = kind == "sprocs" and request.method == "POST" and len(exchange.names) > 2
    return is_run or kind == "operations"


def _ranges(account: Account, request: Request, container: Container) -> Sequence[int]:
    header = request.header(PARTITION_KEY)
    op = begin(account, container, request.now)
    try:
        if header is not None and header.strip("[] "):
            # Point operations do not read the other headers, which may be out of date.
            scope = Scope(header, None, None, None)
        else:
            scope = scope_of(request, container, None)
        return admission.ranges_of(op, scope, request.body, _body_kind(request))
    except CosmosError:  # the handler reports what is wrong
        return (0,)


def _body_kind(request: Request) -> BodyKind:
    if is_query(request):
        return "query"
    is_item = request.method != "GET" and bool(request.body) and not flag(request, IS_BATCH)
    return "item" if is_item else "other"
