"""Batches: several operations in one request, all or nothing, or each on its own.

A transactional batch is one decision over all of its keys, so it has one LSN and one `_ts`, and
each operation sees what those before it did. In a bulk request each operation is a transaction of
its own; they are queued together, in order, and share commits with whatever else is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from perseid import charges, documents
from perseid.errors import (
    BadRequest,
    CosmosError,
    FailedDependency,
    PartitionKeyMismatch,
    RequestEntityTooLarge,
    RequestTimeout,
)
from perseid.model import Container
from perseid.service.items import patches, point_operations
from perseid.service.items.transactions import (
    CheckedItem,
    ItemOperation,
    LogicalPartition,
    Transaction,
    WriteResult,
    write,
)
from perseid.service.operation import Operation, check_catalog_version, retry_if_stale
from perseid.store.types import Decision, Put, View

MOST_OPERATIONS: Final = 100
LARGEST_RESPONSE: Final = 4 * 1024 * 1024
_LEVELS: Final = 2 + patches.LEVELS  # around what is written: [{"resourceBody": …}]
_FEW_PATCHES: Final = 4
_LONGEST_SECONDS: Final = 5.0
# What an entry of the response takes besides the item.
_ENTRY: Final = 128


class BatchOptions(NamedTuple):
    """How the operations of a batch are to be read."""

    container: Container
    header: str | None  # the partition key of all of them, if they have one in common
    is_indexed: bool
    with_bodies: bool  # of what was written; what is read always comes with its body


class OperationResult(NamedTuple):
    """What became of one operation: its outcome, or why it did not happen."""

    status: int
    charge: float
    write_result: WriteResult | None = None
    error: CosmosError | None = None
    has_body: bool = False


class BatchResult(NamedTuple):
    """Of all operations, in their order, and the LSN behind the last of them."""

    results: list[OperationResult]
    lsn: int

    @property
    def charge(self) -> float:
        return charges.batch(result.charge for result in self.results)

    @property
    def is_success(self) -> bool:
        """Whether all have a status of success; 304 is none, though nothing is undone for it."""
        return all(200 <= result.status < 300 for result in self.results)


class BatchOperation(NamedTuple):
    """An operation of a batch, ready to run, or the reason why it never will be."""

    kind: str
    item_operation: ItemOperation | CosmosError


# Reading ----------------------------------------------------------------------------------------


def parse(raw: bytes, options: BatchOptions) -> list[BatchOperation]:
    """The operations of a request body; what is wrong with a single one shows in its result."""
    documents.parse_named(raw, around=_LEVELS)
    operations = documents.exact(raw)
    if not isinstance(operations, list):
        raise BadRequest('A batch is an array of operations: [{"operationType": "Create", …}, …].')
    if not operations:
        raise BadRequest("Batch request has no operations.")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(
            "Batch request has more operations than what is supported."
            f" It has {len(operations)}, the most is {MOST_OPERATIONS}."
        )
    return [_read(operation, options) for operation in operations]


def _read(operation: Any, options: BatchOptions) -> BatchOperation:
    kind = operation.get("operationType") if isinstance(operation, dict) else None
    try:
        if not isinstance(kind, str) or kind not in _OPERATION_TYPES:
            raise BadRequest(f"The operationType must be one of {', '.join(_OPERATION_TYPES)}.")
        return BatchOperation(kind, _OPERATION_TYPES[kind](_OperationReader(operation, options)))
    except CosmosError as error:
        return BatchOperation(str(kind), error)


class _OperationReader:
    """The parts of one operation, each checked when it is asked for."""

    def __init__(self, operation: dict[str, Any], options: BatchOptions) -> None:
        self._operation = operation
        self._options = options

    @property
    def key(self) -> str | None:
        """The operation's own partition key, which must be the batch's if that has one."""
        own, common = self._text("partitionKey"), self._options.header
        if own is None or common is None:
            return common if own is None else own
        container = self._options.container
        if point_operations.logical_partition_of(
            container, own
        ) != point_operations.logical_partition_of(container, common):
            raise PartitionKeyMismatch(
                "The partitionKey of the operation is not the one the batch is for."
            )
        return common

    @property
    def logical_partition(self) -> LogicalPartition:
        return point_operations.logical_partition_of(self._options.container, self.key)

    @property
    def id(self) -> str:
        name = self._text("id")
        if name is None:
            raise BadRequest("The operation needs the 'id' of an item.")
        return name

    @property
    def checked_item(self) -> CheckedItem:
        options = self._options
        document = documents.parse(orjson.dumps(self._body))
        return point_operations.checked_item(
            options.container, document, self.key, is_indexed=options.is_indexed
        )

    @property
    def patch(self) -> ItemOperation:
        options = self._options
        item_patch = patches.read(self._body, options.container.key)
        return point_operations.patch_operation(
            self.logical_partition,
            self.id,
            item_patch,
            self.if_match,
            is_indexed=options.is_indexed,
        )

    @property
    def if_match(self) -> str | None:
        return self._text("ifMatch")

    @property
    def if_none_match(self) -> str | None:
        return self._text("ifNoneMatch")

    @property
    def _body(self) -> Any:
        if "resourceBody" not in self._operation:
            raise BadRequest("The operation needs a 'resourceBody'.")
        return self._operation["resourceBody"]

    def _text(self, name: str) -> str | None:
        value = self._operation.get(name)
        if value is not None and not isinstance(value, str):
            raise BadRequest(f"The '{name}' of an operation must be a string.")
        return value


_OPERATION_TYPES: Final[dict[str, Callable[[_OperationReader], ItemOperation]]] = {
    "Create": lambda reader: point_operations.create_operation(reader.checked_item),
    "Upsert": lambda reader: point_operations.upsert_operation(
        reader.checked_item, reader.if_match, reader.if_none_match
    ),
    # The service gives 304 for either header when it names the version there is.
    "Read": lambda reader: point_operations.read_operation(
        reader.logical_partition, reader.id, reader.if_none_match or reader.if_match
    ),
    "Replace": lambda reader: point_operations.replace_operation(
        reader.id, reader.checked_item, reader.if_match
    ),
    "Delete": lambda reader: point_operations.delete_operation(
        reader.logical_partition, reader.id, reader.if_match
    ),
    "Patch": lambda reader: reader.patch,
}


# All or nothing ---------------------------------------------------------------------------------


async def run_atomic(
    op: Operation,
    logical_partition: LogicalPartition,
    batch_operations: Sequence[BatchOperation],
    options: BatchOptions,
    factor: int,
) -> BatchResult:
    """Runs the operations as one transaction of one logical partition."""
    keys = {
        key
        for _, item_operation in batch_operations
        if isinstance(item_operation, ItemOperation)
        for key in item_operation.keys
    }

    def decide(view: View) -> Decision[tuple[list[WriteResult], CosmosError | None, int]]:
        transaction = Transaction(op, view)
        response_budget = _ResponseBudget()
        write_results: list[WriteResult] = []
        deadline = time.perf_counter() + _LONGEST_SECONDS
        try:
            for position, batch_operation in enumerate(batch_operations):
                if time.perf_counter() > deadline:  # all other writes wait for this one
                    raise RequestTimeout(
                        f"The batch takes longer than {_LONGEST_SECONDS:g} seconds. Nothing of it"
                        " was done; please divide it."
                    )
                write_results.append(
                    _run(batch_operation, transaction, response_budget, position, options)
                )
        except CosmosError as error:
            claimed = [
                entry
                for change in transaction.changes
                if isinstance(change, Put)
                for entry in change.unique
            ]
            result = (write_results, error, view.lsn - 1)
            return Decision((), result, claimed, transaction.needed_sizes)
        lsn = view.lsn if transaction.changes else view.lsn - 1
        return Decision(
            transaction.changes,
            (write_results, None, lsn),
            needs_sizes=transaction.needed_sizes,
            at=transaction.op.ts,
        )

    # A patch decodes its item, which may be large.
    is_heavy = (
        sum(batch_operation.kind == "Patch" for batch_operation in batch_operations) > _FEW_PATCHES
    )
    write_results, error, lsn = await write(
        op, logical_partition.range_index, tuple(sorted(keys)), decide, is_heavy=is_heavy
    )
    if error is not None:
        results = [_DEPENDENT] * len(batch_operations)
        results[len(write_results)] = _failed(error)
        return BatchResult(results, lsn)

    def operation_results() -> list[OperationResult]:
        return [
            _succeeded(batch_operation, write_result, options, factor)
            for batch_operation, write_result in zip(batch_operations, write_results, strict=True)
        ]

    # What a change costs is found by comparing the item with what it was.
    return BatchResult(
        await asyncio.to_thread(operation_results) if is_heavy else operation_results(), lsn
    )


# Each on its own --------------------------------------------------------------------------------


async def run_each(
    op: Operation,
    range_index: int | None,
    batch_operations: Sequence[BatchOperation],
    options: BatchOptions,
    factor: int,
    *,
    continue_on_error: bool,
    reparse: Callable[[Container], Sequence[BatchOperation]],
) -> BatchResult:
    """Runs each operation as a transaction; `goes_on` says what happens after one has failed.

    Each goes to the range of its own key, whichever the request names. A 410 would be of no use: a
    client that knows the ranges of a container made anew under the same name looks again, finds the
    range it was refused, and the JavaScript one then waits on it for ever.
    `reread` gives the operations for the container as it is by then, if it changes in between.
    """
    if any(
        isinstance(batch_operation.item_operation, CosmosError)
        for batch_operation in batch_operations
    ):
        await check_catalog_version(
            op
        )  # what is refused by now never comes to the store, which would find out
    response_budget = _ResponseBudget()
    first = op.container

    async def run(position: int, batch_operation: BatchOperation) -> OperationResult:
        async def transact(op: Operation) -> OperationResult:
            current = batch_operation
            if op.container is not first:
                current = reparse(op.container)[position]
            item_operation = current.item_operation
            if isinstance(item_operation, CosmosError):
                return _failed(item_operation)

            def decide(view: View) -> Decision[WriteResult]:
                transaction = Transaction(op, view)
                write_result = _run(current, transaction, response_budget, position, options)
                return Decision(
                    transaction.changes,
                    write_result,
                    needs_sizes=transaction.needed_sizes,
                    at=transaction.op.ts,
                )

            operation_range = item_operation.logical_partition.range_index
            write_result = await write(op, operation_range, item_operation.keys, decide)
            return _succeeded(
                current, write_result, options._replace(container=op.container), factor
            )

        try:
            return await retry_if_stale(op, transact)
        except CosmosError as error:
            response_budget.release(position)
            return _failed(error)

    if continue_on_error:
        # Queued in this order before any of them is run, so they share their commits.
        results = list(
            await asyncio.gather(*map(run, range(len(batch_operations)), batch_operations))
        )
    else:
        results = []
        for position, batch_operation in enumerate(batch_operations):
            has_failed = bool(results) and results[-1].status >= 400
            results.append(_DEPENDENT if has_failed else await run(position, batch_operation))
    lsns = await op.stores.items.lsns(op.container)
    return BatchResult(results, lsns[range_index_of(batch_operations, range_index)])


def range_index_of(batch_operations: Sequence[BatchOperation], given: int | None) -> int:
    """The range whose position the response tells: the one asked for, or that of the first."""
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
    """The ranges that the operations are for, as far as they are any."""
    return {
        batch_operation.item_operation.logical_partition.range_index
        for batch_operation in batch_operations
        if isinstance(batch_operation.item_operation, ItemOperation)
    }


# Both -------------------------------------------------------------------------------------------


class _ResponseBudget:
    """What is left of the largest response, by operation, so that asking twice takes once."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}

    def reserve(self, position: int, size: int) -> None:
        """413 before anything is written whose answer would not fit."""
        self._taken[position] = size + _ENTRY
        if sum(self._taken.values()) > LARGEST_RESPONSE:
            self.release(position)
            raise RequestEntityTooLarge(
                "The response would be larger than 4 MB with this operation.", sub_status=3402
            )

    def release(self, position: int) -> None:
        self._taken.pop(position, None)


def _run(
    batch_operation: BatchOperation,
    transaction: Transaction,
    response_budget: _ResponseBudget,
    position: int,
    options: BatchOptions,
) -> WriteResult:
    if isinstance(batch_operation.item_operation, CosmosError):
        raise batch_operation.item_operation
    write_result = batch_operation.item_operation.run(transaction)
    # While sizes are missing the operation runs again, and a full partition is the first error.
    if not transaction.needed_sizes and _has_body(batch_operation, write_result, options):
        response_budget.reserve(position, len(write_result.row.body))
    return write_result


def _has_body(
    batch_operation: BatchOperation, write_result: WriteResult, options: BatchOptions
) -> bool:
    if write_result.status in (204, 304):
        return False
    return options.with_bodies or batch_operation.kind == "Read"


def _succeeded(
    batch_operation: BatchOperation, write_result: WriteResult, options: BatchOptions, factor: int
) -> OperationResult:
    charge = point_operations.charge_of(options.container, write_result, factor)
    has_body = _has_body(batch_operation, write_result, options)
    return OperationResult(write_result.status, charge, write_result, None, has_body)


def _failed(error: CosmosError) -> OperationResult:
    charge = charges.REJECTED if error.charge is None else error.charge
    return OperationResult(error.status, charge, None, error)


_DEPENDENT: Final = OperationResult(
    FailedDependency.status,
    0.0,
    None,
    FailedDependency("Another operation of the batch has failed, so this one was not done."),
)
