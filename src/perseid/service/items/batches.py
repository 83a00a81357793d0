"""Batches: several operations in one request, all or nothing, or each on its own.

A transactional batch is one decision over all of its keys, so it has one LSN and one `_ts`, and
each operation sees the changes of the operations before it. In a bulk request each operation is a
transaction of its own. The transactions are queued together, in order, and share commits with
other writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from perseid.errors import (
    CosmosError,
    RequestTimeout,
    without_frames,
)
from perseid.model import Container
from perseid.service.items import point_operations
from perseid.service.items.batch_operations import BatchOperation, BatchOptions
from perseid.service.items.batch_results import (
    FAILED_DEPENDENCY,
    BatchResult,
    OperationResult,
    ResponseSize,
    failed,
)
from perseid.service.items.one_thread import LARGE, if_large, in_one_thread
from perseid.service.items.patch_evaluator import PatchEvaluator
from perseid.service.items.patch_operations import PendingPatch, deferring
from perseid.service.items.transactions import (
    ItemOperation,
    LogicalPartition,
    Transaction,
    WriteResult,
    write,
)
from perseid.service.operation import Operation, check_catalog_version, retry_if_stale
from perseid.store.types import Decision, Put, View

_FEW_PATCHES: Final = 4
_LONGEST_SECONDS: Final = 5.0


# All or nothing ---------------------------------------------------------------------------------


class _AtomicResult(NamedTuple):
    """The results of the operations before the first error, or of all if there was none."""

    write_results: list[WriteResult]
    error: CosmosError | None
    lsn: int


async def run_atomic(
    op: Operation,
    logical_partition: LogicalPartition,
    batch_operations: Sequence[BatchOperation],
    options: BatchOptions,
    factor: int,
    evaluator: PatchEvaluator,
) -> BatchResult:
    """Runs the operations as one transaction of one logical partition."""
    keys = {
        key
        for batch_operation in batch_operations
        if isinstance(batch_operation.item_operation, ItemOperation)
        for key in batch_operation.item_operation.keys
    }
    # A patch decodes its item, which may be large.
    patch_count = sum(batch_operation.kind == "Patch" for batch_operation in batch_operations)
    is_heavy = patch_count > _FEW_PATCHES

    def decide(view: View) -> Decision[_AtomicResult | PendingPatch]:
        return deferring(lambda: _decide_all(op, view, batch_operations, options))

    result = await evaluator.write(
        lambda is_heavy: write(
            op, logical_partition.range_index, tuple(sorted(keys)), decide, is_heavy=is_heavy
        ),
        is_heavy=is_heavy,
    )
    if result.error is not None:
        results = [FAILED_DEPENDENCY] * len(batch_operations)
        results[len(result.write_results)] = failed(result.error)
        return BatchResult(results, result.lsn)

    def operation_results() -> list[OperationResult]:
        return [
            _succeeded(batch_operation, write_result, options, factor)
            for batch_operation, write_result in zip(
                batch_operations, result.write_results, strict=True
            )
        ]

    # The charge of a change is computed by comparing the item with its previous version.
    size = sum(
        point_operations.compared_bytes(write_result) for write_result in result.write_results
    )
    if is_heavy or size > LARGE:
        return BatchResult(await in_one_thread(operation_results), result.lsn)
    return BatchResult(operation_results(), result.lsn)


def _decide_all(
    op: Operation, view: View, batch_operations: Sequence[BatchOperation], options: BatchOptions
) -> Decision[_AtomicResult]:
    """The changes of all operations, or none and the error of the first that failed."""
    transaction = Transaction(op, view)
    response_size = ResponseSize()
    write_results: list[WriteResult] = []
    deadline = time.perf_counter() + _LONGEST_SECONDS
    try:
        for position, batch_operation in enumerate(batch_operations):
            if time.perf_counter() > deadline:  # all other writes wait for this one
                raise RequestTimeout(
                    f"The batch takes longer than {_LONGEST_SECONDS:g} seconds; nothing was done."
                    " Split it into smaller batches."
                )
            write_results.append(
                _run(batch_operation, transaction, response_size, position, options)
            )
    except CosmosError as error:
        # An earlier operation may violate a unique key whose owner the store has not read yet. It
        # reads the owners of these entries and decides again, so the first error is reported.
        reserved = [
            entry
            for change in transaction.changes
            if isinstance(change, Put)
            for entry in change.unique
        ]
        result = _AtomicResult(write_results, without_frames(error), view.lsn - 1)
        return Decision((), result, reserved, transaction.needed_sizes)
    lsn = view.lsn if transaction.changes else view.lsn - 1
    return transaction.decision(_AtomicResult(write_results, None, lsn))


# Each on its own --------------------------------------------------------------------------------


async def run_each(
    op: Operation,
    range_index: int | None,
    batch_operations: Sequence[BatchOperation],
    options: BatchOptions,
    factor: int,
    *,
    evaluator: PatchEvaluator,
    continue_on_error: bool,
    reparse: Callable[[Container], Awaitable[Sequence[BatchOperation]]],
) -> BatchResult:
    """Runs each operation as a transaction of its own.

    Each goes to the range of its own key, whichever range the request names. A 410 would not help:
    if a container was created again under the same name, a client with the old ranges reads the
    ranges, gets the one that was refused, and the JavaScript client then waits on it forever.
    `reparse` reads the operations again if the container's definition changes in between.
    """
    if any(
        isinstance(batch_operation.item_operation, CosmosError)
        for batch_operation in batch_operations
    ):
        # The store checks the version when it writes; these operations never reach it.
        await check_catalog_version(op)
    bulk = _BulkRequest(op, batch_operations, options, factor, evaluator, reparse)
    positions = range(len(batch_operations))
    if continue_on_error:
        # All are queued in this order before the first one runs, so they share their commits.
        results = list(await asyncio.gather(*map(bulk.run, positions)))
    else:
        results = []
        for position in positions:
            has_failed = bool(results) and results[-1].status >= 400
            results.append(FAILED_DEPENDENCY if has_failed else await bulk.run(position))
    lsns = await op.stores.items.lsns(op.container)
    return BatchResult(results, lsns[range_index_of(batch_operations, range_index)])


class _BulkRequest:
    """The operations of a bulk request, which are run one by one."""

    def __init__(
        self,
        op: Operation,
        batch_operations: Sequence[BatchOperation],
        options: BatchOptions,
        factor: int,
        evaluator: PatchEvaluator,
        reparse: Callable[[Container], Awaitable[Sequence[BatchOperation]]],
    ) -> None:
        self._op = op
        self._batch_operations = batch_operations
        self._options = options
        self._factor = factor
        self._evaluator = evaluator
        self._reparse = reparse
        self._response_size = ResponseSize()

    async def run(self, position: int) -> OperationResult:
        try:
            return await retry_if_stale(self._op, lambda op: self._transact(op, position))
        except CosmosError as error:
            self._response_size.release(position)
            return failed(error)

    async def _transact(self, op: Operation, position: int) -> OperationResult:
        if op.container is self._op.container:
            batch_operation = self._batch_operations[position]
        else:
            batch_operation = (await self._reparse(op.container))[position]
        item_operation = batch_operation.item_operation
        if isinstance(item_operation, CosmosError):
            return failed(item_operation)
        options = self._options._replace(container=op.container)

        def decide(view: View) -> Decision[WriteResult | PendingPatch]:
            transaction = Transaction(op, view)
            return deferring(
                lambda: transaction.decision(
                    _run(batch_operation, transaction, self._response_size, position, options)
                )
            )

        range_index = item_operation.logical_partition.range_index
        write_result = await self._evaluator.write(
            lambda is_heavy: write(op, range_index, item_operation.keys, decide, is_heavy=is_heavy)
        )
        return await if_large(
            point_operations.compared_bytes(write_result),
            _succeeded,
            batch_operation,
            write_result,
            options,
            self._factor,
        )


def range_index_of(batch_operations: Sequence[BatchOperation], given: int | None) -> int:
    """The range whose LSN the response reports: the given one, or that of the first operation."""
    if given is not None:
        return given
    item_operations = (
        batch_operation.item_operation
        for batch_operation in batch_operations
        if isinstance(batch_operation.item_operation, ItemOperation)
    )
    return next(
        (item_operation.logical_partition.range_index for item_operation in item_operations), 0
    )


def ranges_of(batch_operations: Sequence[BatchOperation]) -> set[int]:
    """The ranges of all operations that could be read."""
    return {
        batch_operation.item_operation.logical_partition.range_index
        for batch_operation in batch_operations
        if isinstance(batch_operation.item_operation, ItemOperation)
    }


# Both -------------------------------------------------------------------------------------------


def _run(
    batch_operation: BatchOperation,
    transaction: Transaction,
    response_size: ResponseSize,
    position: int,
    options: BatchOptions,
) -> WriteResult:
    if isinstance(batch_operation.item_operation, CosmosError):
        raise batch_operation.item_operation
    write_result = batch_operation.item_operation.run(transaction)
    # While sizes are missing the operation runs again, and a full partition is the first error.
    if not transaction.needed_sizes and _has_body(batch_operation, write_result, options):
        response_size.reserve(position, len(write_result.row.body))
    return write_result


def _has_body(
    batch_operation: BatchOperation, write_result: WriteResult, options: BatchOptions
) -> bool:
    if write_result.status in (204, 304):
        return False
    if batch_operation.kind == "Read":
        return True
    return options.with_bodies and not batch_operation.is_minimal


def _succeeded(
    batch_operation: BatchOperation, write_result: WriteResult, options: BatchOptions, factor: int
) -> OperationResult:
    charge = point_operations.charge_of(options.container, write_result, factor)
    has_body = _has_body(batch_operation, write_result, options)
    return OperationResult(write_result.status, charge, write_result, None, has_body)
