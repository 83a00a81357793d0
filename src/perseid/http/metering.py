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
    epk_interval,
    flag,
    is_low_priority,
    is_query,
    range_index,
)
from perseid.http.request import Request, Response
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.throughput import enforcement

_TOO_MANY: Final = (
    "Request rate is large. More Request Units may be needed, so no changes were made. Please"
    " retry this request later. Learn more: http://aka.ms/cosmosdb-error-429"
)


def admit(account: Account, request: Request, container: Container) -> None:
    """429 and when to come back, unless all ranges that the request is for have something left."""
    if not _is_metered(request):
        return
    range_indexes = request.ranges = _ranges(account, request, container)
    request.range_index = range_indexes[0]
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
    request.allowance = enforcement.allowance(account, container, range_indexes, now)


def book(account: Account, request: Request, response: Response) -> None:
    """Takes the charge of the answer from the budgets; a refusal to admit costs nothing."""
    if request.container is None or not request.ranges or response.status == TooManyRequests.status:
        return
    charge = next((float(value) for name, value in response.headers if name == CHARGE), 0.0)
    enforcement.book(
        account,
        request.container,
        request.ranges,
        charge,
        request.now,
        is_low=is_low_priority(request),
    )


def affordable_count(request: Request, sizes: Sequence[int]) -> int:
    """How many items of these sizes a page gives: under pressure fewer, but at least one."""
    left = request.allowance
    for count, size in enumerate(sizes):
        if count and left <= 0:
            return count
        left -= charges.read(size)
    return len(sizes)


def narrow_ranges(request: Request, range_indexes: Collection[int]) -> None:
    """Narrows what is booked to the ranges that a page has its items from, if it has any."""
    if range_indexes:
        request.ranges = sorted(range_indexes)


def _is_metered(request: Request) -> bool:
    """Whether a request below a container works on items; the rest is metadata, and free."""
    kind = request.path.split("/", 6)[5]
    if kind == "docs":
        return not flag(request, IS_PLAN)
    is_run = kind == "sprocs" and request.method == "POST" and len(request.names) > 2
    return is_run or kind == "operations"


def _ranges(account: Account, request: Request, container: Container) -> Sequence[int]:
    """The physical ranges a request is for, as far as that can be told before it is run."""
    if len(container.ranges) == 1:
        return (0,)
    try:
        low, high = _interval(account, request, container)
    except CosmosError:  # the handler says what is wrong with it
        return (0,)
    range_indexes = [
        key_range.index
        for key_range in container.ranges
        if key_range.min < high and low < key_range.max
    ]
    return range_indexes or (0,)


def _interval(account: Account, request: Request, container: Container) -> tuple[str, str]:
    """From and up to, not including: the effective partition keys a request is for."""
    key = container.key
    header = request.header(PARTITION_KEY)
    if header is not None and header.strip("[] "):
        components = partition.parse_header(header, key.levels)
        if len(components) < key.levels:
            return partition.prefix_interval(components, key)
        return _point(container, partition.canonical(components))
    index = range_index(request, container)
    if index is not None:
        return container.ranges[index].min, container.ranges[index].max
    low, high = epk_interval(request)
    if low is not None or high is not None:
        upper = partition.WHOLE[1] if high is None else high.hex().upper()
        return (low or b"").hex().upper(), upper
    if is_query(request):
        bound = account.plans.find_or_bind(container, request.body, request.now)
        filtered_key = bound.partition_key
        return partition.WHOLE if filtered_key is None else _point(container, filtered_key)
    if request.method != "GET" and request.body and not flag(request, IS_BATCH):
        document = documents.parse(request.body).value
        return _point(container, partition.canonical(partition.extract(key, document)))
    return partition.WHOLE


def _point(container: Container, pk: bytes) -> tuple[str, str]:
    return partition.point_interval(partition.effective_of(pk, container.key))
