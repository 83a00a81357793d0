"""The gate of requests about items, with --enforce-throughput: 429 while a budget is used up.

What a request costs is known when it is answered. So it is admitted if the ranges it is for have
anything left, and the charge of its answer is booked on those it touched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from perseid import charges, documents, partition
from perseid.errors import CosmosError, TooManyRequests
from perseid.http.headers import (
    CHARGE,
    IS_BATCH,
    IS_PLAN,
    PARTITION_KEY,
    flag,
    is_low_priority,
    is_query,
    scope_of,
)
from perseid.http.request import Exchange, Request, Response
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items.scope import interval_of, key_interval, point_of
from perseid.service.operation import begin
from perseid.service.queries import query_requests
from perseid.service.queries.plans import partition_key_filter
from perseid.service.throughput import enforcement

_TOO_MANY: Final = (
    "Request rate is large. More Request Units may be needed, so no changes were made. Please"
    " retry this request later. Learn more: http://aka.ms/cosmosdb-error-429"
)


def admit(account: Account, request: Request, exchange: Exchange, container: Container) -> None:
    """429 and when to come back, unless all ranges that the request is for have something left."""
    if not _is_metered(request, exchange):
        return
    range_indexes = exchange.ranges = _ranges(account, request, container)
    exchange.range_index = range_indexes[0]
    now = request.now
    wait = enforcement.wait_ms(
        account, container, range_indexes, now, is_low=is_low_priority(request)
    )
    if wait:
        raise TooManyRequests(
            _TOO_MANY,
            listed=True,
            charge=charges.THROTTLED,
            headers=[("x-ms-retry-after-ms", str(wait))],
        )
    exchange.allowance = enforcement.allowance(account, container, range_indexes, now)


def book(account: Account, request: Request, exchange: Exchange, response: Response) -> None:
    """Takes the charge of the answer from the budgets; a refusal to admit costs nothing."""
    if (
        exchange.container is None
        or not exchange.ranges
        or response.status == TooManyRequests.status
    ):
        return
    charge = next((float(value) for name, value in response.headers if name == CHARGE), 0.0)
    enforcement.book(
        account,
        exchange.container,
        exchange.ranges,
        charge,
        request.now,
        is_low=is_low_priority(request),
    )


def affordable_count(exchange: Exchange, sizes: Sequence[int]) -> int:
    """How many items of these sizes a page gives: under pressure fewer, but at least one."""
    left = exchange.allowance
    for count, size in enumerate(sizes):
        if count and left <= 0:
            return count
        left -= charges.read(size)
    return len(sizes)


def narrow_ranges(exchange: Exchange, range_indexes: Collection[int]) -> None:
    """Narrows what is booked to the ranges that a page has its items from, if it has any."""
    if range_indexes:
        exchange.ranges = sorted(range_indexes)


def _is_metered(request: Request, exchange: Exchange) -> bool:
    """Whether a request below a container works on items; the rest is metadata, and free."""
    kind = request.path.split("/", 6)[5]
    if kind == "docs":
        return not flag(request, IS_PLAN)
    is_run = kind == "sprocs" and request.method == "POST" and len(exchange.names) > 2
    return is_run or kind == "operations"


def _ranges(account: Account, request: Request, container: Container) -> Sequence[int]:
    """The physical ranges a request is for, as far as that can be told before it is run."""
    if len(container.ranges) == 1:
        return (0,)
    try:
        low, high = _interval(account, request, container)
    except CosmosError:  # the handler says what is wrong with it
        return (0,)
    return partition.overlapping(container.ranges, low, high) or (0,)


def _interval(account: Account, request: Request, container: Container) -> tuple[str, str]:
    """From and up to, not including: the effective partition keys a request is for."""
    # Point operations name a key; they do not read the other headers, which may be out of date.
    interval = key_interval(container, request.header(PARTITION_KEY))
    if interval is None:
        interval = interval_of(container, scope_of(request, container, None))
    if interval is not None:
        return interval
    if is_query(request):
        query_request = query_requests.parse_request(request.body)
        op = begin(account, container, request.now)
        plan = query_requests.plan_query(op, query_request)
        filtered_key = partition_key_filter(container, plan, query_request.parameters)
        return partition.WHOLE if filtered_key is None else point_of(container, filtered_key)
    if request.method != "GET" and request.body and not flag(request, IS_BATCH):
        document = documents.parse(request.body).value
        return point_of(container, partition.canonical(partition.extract(container.key, document)))
    return partition.WHOLE
