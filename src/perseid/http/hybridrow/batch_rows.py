"""The rows of a batch: an operation in the request, its result in the response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from perseid import documents
from perseid.errors import CosmosError, RequestEntityTooLarge, without_frames
from perseid.http import binary_json, wire
from perseid.http.headers import RETRY_AFTER_MS
from perseid.http.hybridrow import record_io
from perseid.http.hybridrow.byte_reader import ByteReader
from perseid.http.hybridrow.rows import RowSchema, ValueType, read_row, write_row
from perseid.limits import MAX_BODY_BYTES
from perseid.service.items.batch_results import FAILED_DEPENDENCY, OperationResult

OPERATION: Final = RowSchema(
    2145473648,
    fixed={"operationType": ValueType.INT32, "resourceType": ValueType.INT32},
    variable={
        "partitionKey": ValueType.TEXT,
        "effectivePartitionKey": ValueType.BINARY,
        "id": ValueType.TEXT,
        "binaryId": ValueType.BINARY,
        "resourceBody": ValueType.BINARY,
    },
    sparse={
        "indexingDirective": ValueType.TEXT,
        "ifMatch": ValueType.TEXT,
        "ifNoneMatch": ValueType.TEXT,
        "timeToLiveInSeconds": ValueType.INT32,
        "minimalReturnPreference": ValueType.BOOLEAN,
    },
)
RESULT: Final = RowSchema(
    2145473649,
    fixed={"statusCode": ValueType.INT32, "subStatusCode": ValueType.INT32},
    variable={"eTag": ValueType.TEXT, "resourceBody": ValueType.BINARY},
    sparse={"retryAfterMilliseconds": ValueType.UINT32, "requestCharge": ValueType.FLOAT64},
)
# Columns for containers of other APIs; clients of this one do not send them.
_IGNORED: Final = ("resourceType", "effectivePartitionKey", "binaryId", "timeToLiveInSeconds")
_ITEM: Final = 2  # the resource type
_OPERATION_TYPES: Final = {
    0: "Create", 1: "Patch", 2: "Read", 4: "Delete", 5: "Replace", 20: "Upsert",
}  # fmt: skip


def read_operations(body: bytes) -> list[dict[str, Any] | CosmosError]:
    """The operations of a body with the names that they have in JSON.

    A `resourceBody` is JSON text, not decoded yet. If it cannot be converted to text, the operation
    is the error.
    """
    if len(body) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge(documents.TOO_LARGE)
    return [_read_operation(row) for row in record_io.records(body)]


def _read_operation(row: ByteReader) -> dict[str, Any] | CosmosError:
    start = row.position
    operation = read_row(row, OPERATION)
    name = _OPERATION_TYPES.get(operation.get("operationType", -1))
    if name is None:
        types = ", ".join(f"{number} ({name})" for number, name in _OPERATION_TYPES.items())
        row.fail(f"the operationType is none of {types}", start)
    if operation.get("resourceType", _ITEM) != _ITEM:
        row.fail(f"the resourceType is not {_ITEM} (item)", start)
    operation["operationType"] = name
    for ignored in _IGNORED:
        operation.pop(ignored, None)
    if operation.get("resourceBody", b"").startswith(binary_json.FIRST_BYTE):
        try:
            operation["resourceBody"] = binary_json.decode(operation["resourceBody"])
        except CosmosError as error:
            return without_frames(error)
    return operation


def write_results(results: Iterable[OperationResult], activity_id: str) -> bytes:
    """The body of a response."""
    return record_io.write_stream(
        write_row(_result_values(result, activity_id), RESULT) for result in results
    )


def _result_values(result: OperationResult, activity_id: str) -> dict[str, Any]:
    error, body, retry_after = result.error, result.body, None
    # The row has no column for a message; the client shows the body of a failed operation.
    if error is not None and result is not FAILED_DEPENDENCY:
        body = wire.error_body(error, activity_id)
        retry_after = dict(error.headers).get(RETRY_AFTER_MS)
    return {
        "statusCode": result.status,
        "subStatusCode": 0 if error is None else error.sub_status,
        "eTag": result.etag,
        "resourceBody": body,
        "retryAfterMilliseconds": None if retry_after is None else int(retry_after),
        "requestCharge": result.charge,
    }
