"""Results of batches: one for each operation, and the size of the response."""

from __future__ import annotations

from typing import Final, NamedTuple

from perseid import charges
from perseid.errors import CosmosError, FailedDependency, RequestEntityTooLarge, without_frames
from perseid.limits import MAX_PAGE_BYTES
from perseid.service.items.transactions import WriteResult

# The size of an entry of the response, without the item.
_ENTRY_BYTES: Final = 128


class OperationResult(NamedTuple):
    """The result of one operation, or the error that prevented it."""

    status: int
    charge: float
    write_result: WriteResult | None = None
    error: CosmosError | None = None
    has_body: bool = False

    @property
    def etag(self) -> str | None:
        """The etag of the item, unless it was deleted."""
        if self.write_result is None or self.status == 204:
            return None
        return self.write_result.row.etag

    @property
    def body(self) -> bytes | None:
        """The text of the item, if the response should include it."""
        if self.write_result is None or not self.has_body:
            return None
        return self.write_result.row.body


class BatchResult(NamedTuple):
    """The results of all operations, in order, and the LSN after the last of them."""

    results: list[OperationResult]
    lsn: int

    @property
    def charge(self) -> float:
        return charges.batch(result.charge for result in self.results)

    @property
    def is_success(self) -> bool:
        """True if every status is 2xx. A 304 is not, although it does not undo the batch."""
        return all(200 <= result.status < 300 for result in self.results)


class ResponseSize:
    """The bytes of the response that are in use, by operation.

    A decision may run again, and an operation that reserves twice counts once.
    """

    def __init__(self) -> None:
        self._used: dict[int, int] = {}

    def reserve(self, position: int, size: int) -> None:
        """413 if the response would become too large; checked before anything is written."""
        self._used[position] = size + _ENTRY_BYTES
        if sum(self._used.values()) > MAX_PAGE_BYTES:
            self.release(position)
            raise RequestEntityTooLarge(
                "The response would be larger than 4 MB with this operation.", sub_status=3402
            )

    def release(self, position: int) -> None:
        self._used.pop(position, None)


def failed(error: CosmosError) -> OperationResult:
    """The result of an operation that raised the error."""
    charge = charges.REJECTED if error.charge is None else error.charge
    return OperationResult(error.status, charge, None, without_frames(error))


FAILED_DEPENDENCY: Final = OperationResult(
    FailedDependency.status,
    0.0,
    None,
    FailedDependency("Another operation of the batch has failed, so this one was not executed."),
)
