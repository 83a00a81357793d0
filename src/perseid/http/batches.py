"""The handler for batches and bulk requests: an array of operations, an array of results."""

from __future__ import annotations

from collections.abc import Sequence

from perseid import charges
from perseid.http import metering, wire
from perseid.http.headers import (
    BATCH_ATOMIC,
    BATCH_CONTINUE_ON_ERROR,
    PARTITION_KEY,
    check_session,
    flag,
    is_indexed,
    range_index,
    wants_minimal,
)
from perseid.http.items import container_of
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.service.account import Account
from perseid.service.items import batches, point_operations
from perseid.service.operation import begin

_MULTI_STATUS = 207


async def run(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    header = request.header(PARTITION_KEY)
    options = batches.BatchOptions(
        container, header, is_indexed(request), with_bodies=not wants_minimal(request)
    )
    factor = charges.consistency_factor(exchange.consistency)
    is_atomic = request.header(BATCH_ATOMIC) is None or flag(request, BATCH_ATOMIC)
    if is_atomic:
        logical_partition = point_operations.logical_partition_of(container, header)
        reported_range = exchange.range_index = logical_partition.range_index
        batch_operations = batches.parse(request.body, options)
        await _check_session(account, request, exchange, batch_operations, reported_range)
        batch_result = await batches.run_atomic(
            op, logical_partition, batch_operations, options, factor
        )
    else:
        given = range_index(request, container)
        batch_operations = batches.parse(request.body, options)
        reported_range = exchange.range_index = batches.range_index_of(batch_operations, given)
        if account.budgets is not None:
            metering.narrow_ranges(exchange, batches.ranges_of(batch_operations))
        await _check_session(account, request, exchange, batch_operations, reported_range)
        continue_on_error = request.header(BATCH_CONTINUE_ON_ERROR) is None or flag(
            request, BATCH_CONTINUE_ON_ERROR
        )
        batch_result = await batches.run_each(
            op,
            given,
            batch_operations,
            options,
            factor,
            continue_on_error=continue_on_error,
            reparse=lambda container: batches.parse(
                request.body, options._replace(container=container)
            ),
        )
    headers = container_headers(container, reported_range, batch_result.lsn, batch_result.charge)
    status = 200 if batch_result.is_success else _MULTI_STATUS
    return Response(
        status, headers, wire.encode([wire.batch_entry(each) for each in batch_result.results])
    )


async def _check_session(
    account: Account,
    request: Request,
    exchange: Exchange,
    batch_operations: Sequence[batches.BatchOperation],
    reported_range: int,
) -> None:
    """404/1002 if a batch would read a state older than the client has seen."""
    if exchange.container is not None and any(
        batch_operation.kind == "Read" for batch_operation in batch_operations
    ):
        lsns = await account.lsns(exchange.container)
        check_session(request, {reported_range: lsns[reported_range]})
