"""The handler for batches and bulk requests: a list of operations, a list of results.

The .NET client sends and reads both as HybridRow, all other clients as JSON. The first byte of the
request decides; the response has the same format. Errors of the whole request are always JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from perseid import charges
from perseid.http import metering, wire
from perseid.http.headers import (
    BATCH_ATOMIC,
    BATCH_CONTINUE_ON_ERROR,
    PARTITION_KEY,
    check_session,
    flag,
    is_indexed,
    is_relaxed,
    range_index,
    wants_minimal,
)
from perseid.http.hybridrow import batch_rows, record_io
from perseid.http.items import container_of
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.service.account import Account
from perseid.service.items import batches, point_operations
from perseid.service.items.batch_operations import (
    BatchOperation,
    BatchOptions,
    decode_json,
    parse_batch,
)
from perseid.service.items.batch_results import BatchResult
from perseid.service.items.patch_evaluator import PatchEvaluator
from perseid.service.operation import Operation, begin
from perseid.service.queries.disconnects import ClientDisconnected

_MULTI_STATUS = 207


async def run(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    header = request.header(PARTITION_KEY)
    options = BatchOptions(
        container,
        header,
        is_indexed(request),
        with_bodies=not wants_minimal(request),
        is_lenient=is_relaxed(request, account.settings),
    )
    evaluator = PatchEvaluator(account, request.gone)
    is_atomic = request.header(BATCH_ATOMIC) is None or flag(request, BATCH_ATOMIC)
    run_operations = _run_atomic if is_atomic else _run_each
    try:
        batch_result = await run_operations(op, request, exchange, options, evaluator)
    except ClientDisconnected as exc:
        raise exchange.abandon() from exc
    headers = container_headers(
        container, exchange.range_index, batch_result.lsn, batch_result.charge
    )
    status = 200 if batch_result.is_success else _MULTI_STATUS
    results = batch_result.results
    if record_io.is_stream(request.body):
        body = batch_rows.write_results(results, request.activity_id)
        return Response(status, headers, body, "application/octet-stream")
    return Response(status, headers, wire.encode([wire.batch_entry(each) for each in results]))


def _parse(
    op: Operation, request: Request, options: BatchOptions
) -> Awaitable[list[BatchOperation]]:
    is_row = record_io.is_stream(request.body)
    decode = batch_rows.read_operations if is_row else decode_json
    return parse_batch(op.account, request.body, options, decode)


async def _run_atomic(
    op: Operation,
    request: Request,
    exchange: Exchange,
    options: BatchOptions,
    evaluator: PatchEvaluator,
) -> BatchResult:
    """All operations in one transaction."""
    header = request.header(PARTITION_KEY)
    logical_partition = point_operations.logical_partition_of(op.container, header)
    exchange.range_index = logical_partition.range_index
    operations = await _parse(op, request, options)
    await _check_session(op, request, operations, exchange.range_index)
    factor = charges.consistency_factor(exchange.consistency)
    return await batches.run_atomic(op, logical_partition, operations, options, factor, evaluator)


async def _run_each(
    op: Operation,
    request: Request,
    exchange: Exchange,
    options: BatchOptions,
    evaluator: PatchEvaluator,
) -> BatchResult:
    """Each operation by itself."""
    requested_range = range_index(request, op.container)
    operations = await _parse(op, request, options)
    exchange.range_index = batches.range_index_of(operations, requested_range)
    if op.account.budgets is not None:
        metering.narrow_ranges(exchange, batches.ranges_of(operations))
    await _check_session(op, request, operations, exchange.range_index)
    continue_on_error = request.header(BATCH_CONTINUE_ON_ERROR) is None or flag(
        request, BATCH_CONTINUE_ON_ERROR
    )
    return await batches.run_each(
        op,
        requested_range,
        operations,
        options,
        charges.consistency_factor(exchange.consistency),
        evaluator=evaluator,
        continue_on_error=continue_on_error,
        reparse=lambda container: _parse(op, request, options._replace(container=container)),
    )


async def _check_session(
    op: Operation,
    request: Request,
    operations: Sequence[BatchOperation],
    reported_range: int,
) -> None:
    """404/1002 if a batch would read a state older than the client has seen."""
    if any(operation.kind == "Read" for operation in operations):
        lsns = await op.account.lsns(op.container)
        check_session(request, {reported_range: lsns[reported_range]})
