"""The operations of a batch: decoded, checked, and ready to run.

A batch arrives as JSON or in a binary format, and its operations are the same in both. Reading and
checking them may happen in a worker process: see `decoding`. An error in a single operation becomes
its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from perseid import documents
from perseid.errors import BadRequest, CosmosError, PartitionKeyMismatch, without_frames
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items import patches, point_operations
from perseid.service.items.decoding import run_decoding
from perseid.service.items.one_thread import LARGE, in_one_thread
from perseid.service.items.patch_operations import patch_operation
from perseid.service.items.patches import Patch
from perseid.service.items.transactions import CheckedItem, ItemOperation, LogicalPartition

MAX_OPERATIONS: Final = 100
_LEVELS: Final = 2 + patches.LEVELS  # around an item: [{"resourceBody": …}]


class BatchOptions(NamedTuple):
    """What applies to all operations of a batch."""

    container: Container
    header: str | None  # the partition key of all of them, if they have one in common
    is_indexed: bool
    with_bodies: bool  # for writes; reads always return the body
    is_lenient: bool = False  # accepts an invalid ttl while TTL is off


class ReadOperation(NamedTuple):
    """An operation of a batch as the request has it, or the error found while reading it.

    A worker process can send it, unlike a `BatchOperation`. The arguments are those of the function
    in `_OPERATION_TYPES`.
    """

    kind: str
    arguments: tuple[Any, ...]
    is_minimal: bool = False
    error: CosmosError | None = None


class BatchOperation(NamedTuple):
    """An operation of a batch, ready to run, or the error found while reading it."""

    kind: str
    item_operation: ItemOperation | CosmosError
    is_minimal: bool = False  # the client wants no body, unless it is a read


def decode_json(raw: bytes) -> list[Any]:
    """The operations of a body in JSON; their numbers keep their text."""
    documents.parse_named(raw, around=_LEVELS)
    operations = documents.exact(raw)
    if not isinstance(operations, list):
        raise BadRequest('A batch is an array of operations: [{"operationType": "Create", …}, …].')
    return operations


async def parse_batch(
    account: Account,
    raw: bytes,
    options: BatchOptions,
    decode: Callable[[bytes], Sequence[Any]] = decode_json,
) -> list[BatchOperation]:
    """The operations of a request body.

    `decode` returns operations with the names they have in JSON. A `resourceBody` of bytes is JSON
    text, and an operation that could not be decoded is an error.
    """
    operations = await run_decoding(account, (raw,), _parse, raw, options, decode)
    if len(raw) <= LARGE:
        return _prepare(operations, options)
    return await in_one_thread(_prepare, operations, options)


def _prepare(operations: Sequence[ReadOperation], options: BatchOptions) -> list[BatchOperation]:
    return [
        BatchOperation(
            kind,
            _OPERATION_TYPES[kind].prepare(options, *arguments) if error is None else error,
            is_minimal,
        )
        for kind, arguments, is_minimal, error in operations
    ]


def _parse(
    raw: bytes, options: BatchOptions, decode: Callable[[bytes], Sequence[Any]]
) -> list[ReadOperation]:
    operations = decode(raw)
    if not operations:
        raise BadRequest("Batch request has no operations.")
    if len(operations) > MAX_OPERATIONS:
        raise BadRequest(
            "Batch request has more operations than what is supported."
            f" It has {len(operations)}, the most is {MAX_OPERATIONS}."
        )
    return [_read(operation, options) for operation in operations]


def _read(operation: Any, options: BatchOptions) -> ReadOperation:
    kind = operation.get("operationType") if isinstance(operation, dict) else None
    try:
        if isinstance(operation, CosmosError):
            raise operation
        if not isinstance(kind, str) or kind not in _OPERATION_TYPES:
            raise BadRequest(f"The operationType must be one of {', '.join(_OPERATION_TYPES)}.")
        reader = _OperationReader(operation, options)
        return ReadOperation(kind, _OPERATION_TYPES[kind].read(reader), reader.is_minimal)
    except CosmosError as error:
        return ReadOperation(str(kind), (), error=without_frames(error))


class _OperationReader:
    """The members of one operation, each checked when it is read."""

    def __init__(self, operation: dict[str, Any], options: BatchOptions) -> None:
        self._operation = operation
        self._options = options

    @property
    def key(self) -> str | None:
        """The operation's partition key. If the batch has one, the two must be equal."""
        own, common = self._text("partitionKey"), self._options.header
        if own is None or common is None:
            return common if own is None else own
        container = self._options.container
        if point_operations.logical_partition_of(
            container, own
        ) != point_operations.logical_partition_of(container, common):
            raise PartitionKeyMismatch(
                "The partitionKey of the operation differs from that of the batch."
            )
        return common

    @property
    def logical_partition(self) -> LogicalPartition:
        return point_operations.logical_partition_of(self._options.container, self.key)

    @property
    def id(self) -> str:
        name = self._text("id")
        if not name:
            raise BadRequest("The operation needs the 'id' of an item.")
        return name

    @property
    def checked_item(self) -> CheckedItem:
        body, options = self._body, self._options
        text = body if isinstance(body, bytes) else orjson.dumps(body)
        return point_operations.checked_item(
            options.container,
            documents.parse(text),
            self.key,
            is_indexed=self.is_indexed,
            is_lenient=options.is_lenient,
        )

    @property
    def patch(self) -> Patch:
        body, key = self._body, self._options.container.key
        if isinstance(body, bytes):
            return patches.parse(body, key)
        return patches.read(body, key, orjson.dumps(body))

    @property
    def if_match(self) -> str | None:
        return self._text("ifMatch")

    @property
    def if_none_match(self) -> str | None:
        return self._text("ifNoneMatch")

    @property
    def is_minimal(self) -> bool:
        value = self._operation.get("minimalReturnPreference")
        if value is not None and not isinstance(value, bool):
            raise BadRequest("The 'minimalReturnPreference' of an operation must be true or false.")
        return bool(value)

    @property
    def is_indexed(self) -> bool:
        directive = self._text("indexingDirective")
        if directive is None:
            return self._options.is_indexed
        is_indexed = point_operations.INDEXING_DIRECTIVES.get(directive.lower())
        if is_indexed is None:
            raise BadRequest(
                "The 'indexingDirective' of an operation must be Default, Include or Exclude."
            )
        return is_indexed

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


class OperationType(NamedTuple):
    """How an operation is read, which also checks it, and how it becomes one of a transaction."""

    read: Callable[[_OperationReader], tuple[Any, ...]]
    prepare: Callable[..., ItemOperation]  # of the options and what `read` returned


def _prepare_patch(
    options: BatchOptions,
    patch: Patch,
    logical_partition: LogicalPartition,
    item_id: str,
    if_match: str | None,
    is_indexed: bool,
) -> ItemOperation:
    return patch_operation(
        logical_partition,
        item_id,
        patches.read_if_short(patch, options.container.key),
        if_match,
        is_indexed=is_indexed,
        is_lenient=options.is_lenient,
    )


_OPERATION_TYPES: Final = {
    "Create": OperationType(
        lambda reader: (reader.checked_item,),
        lambda _, *arguments: point_operations.create_operation(*arguments),
    ),
    "Upsert": OperationType(
        lambda reader: (reader.checked_item, reader.if_match, reader.if_none_match),
        lambda _, *arguments: point_operations.upsert_operation(*arguments),
    ),
    # The service answers 304 for either header if it names the current version.
    "Read": OperationType(
        lambda reader: (
            reader.logical_partition,
            reader.id,
            reader.if_none_match or reader.if_match,
        ),
        lambda _, *arguments: point_operations.read_operation(*arguments),
    ),
    "Replace": OperationType(
        lambda reader: (reader.id, reader.checked_item, reader.if_match),
        lambda _, *arguments: point_operations.replace_operation(*arguments),
    ),
    "Delete": OperationType(
        lambda reader: (reader.logical_partition, reader.id, reader.if_match),
        lambda _, *arguments: point_operations.delete_operation(*arguments),
    ),
    "Patch": OperationType(
        lambda reader: (
            reader.patch,
            reader.logical_partition,
            reader.id,
            reader.if_match,
            reader.is_indexed,
        ),
        _prepare_patch,
    ),
}
