"""Patches as operations of transactions.

Condition and operations of a patch are evaluated in the decision of its write if that is short. If
it is not, other requests would wait for it. Then the decision writes nothing and returns a
`PendingPatch`: the evaluation happens elsewhere, for the version that the decision saw, and the
next decision uses its outcome if the item is still the same (`patch_evaluator.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from perseid import documents, partition
from perseid.errors import CosmosError, PartitionKeyMismatch, without_frames
from perseid.model import Container, ItemKey, Row
from perseid.service.items import patches, point_operations
from perseid.service.items.patches import CONDITION_SECONDS, Patch
from perseid.service.items.transactions import (
    CheckedItem,
    ItemOperation,
    LogicalPartition,
    Transaction,
    WriteResult,
)
from perseid.service.preconditions import check_if_match
from perseid.store.types import Decision

T = TypeVar("T")

_LINEAR_BYTES: Final = 256 * 1024  # of item and patch: tens of milliseconds without JOIN


class PatchTask(NamedTuple):
    """What the evaluation of a patch needs, in a form that a worker process can get."""

    container: Container
    logical_partition: LogicalPartition
    old: Row
    source: bytes  # the text of the patch
    is_indexed: bool
    is_lenient: bool
    now: float
    seconds: float = CONDITION_SECONDS


class PatchOutcome(NamedTuple):
    """The patched item, or why the patch is refused; for one version of the item."""

    old: Row
    new: CheckedItem | None
    changed_terms: int
    error: CosmosError | None
    seconds: float  # that the evaluation took

    def is_for(self, row: Row, lsn: int) -> bool:
        """True if the outcome holds for the row, in the transaction with this LSN.

        What the transaction itself has written gets another etag each time it is decided.
        """
        if row.lsn == lsn:
            return documents.strip_system(row.body) == documents.strip_system(self.old.body)
        return row.etag == self.old.etag


class PendingPatch(NamedTuple):
    """A patch that has to be evaluated before its transaction can be decided."""

    operation: PatchItemOperation
    task: PatchTask

    @property
    def is_linear(self) -> bool:
        """True if the evaluation takes tens of milliseconds at most."""
        patch, old = self.operation.patch, self.task.old
        return (
            patch.is_linear
            and len(old.body) + len(patch.source) <= _LINEAR_BYTES
            and not documents.has_many_values(old.body, patch.source)
        )


class PatchUnprepared(Exception):
    """Raised in a decision; `deferring` returns its pending patch."""

    def __init__(self, pending: PendingPatch) -> None:
        super().__init__()
        self.pending = pending


def deferring(decide: Callable[[], Decision[T]]) -> Decision[T | PendingPatch]:
    """The decision, or one without changes that says which patch must be evaluated first."""
    try:
        return decide()  # type: ignore[return-value]
    except PatchUnprepared as unprepared:
        return Decision((), unprepared.pending)


class PatchItemOperation:
    """A patch of one item, and its outcome once it was evaluated outside of the decision."""

    __slots__ = (
        "_if_match",
        "_is_indexed",
        "_is_lenient",
        "attempts",
        "key",
        "outcome",
        "partition",
        "patch",
    )

    def __init__(
        self,
        logical_partition: LogicalPartition,
        item_id: str,
        patch: Patch,
        if_match: str | None,
        is_indexed: bool,
        is_lenient: bool,
    ) -> None:
        self.partition = logical_partition
        self.key = ItemKey(logical_partition.pk, item_id)
        self.patch = patch
        self.outcome: PatchOutcome | None = None
        self.attempts = 0
        self._if_match = if_match
        self._is_indexed = is_indexed
        self._is_lenient = is_lenient

    def run(self, transaction: Transaction) -> WriteResult:
        old = transaction.require_readable(self.key)
        check_if_match(old.etag, self._if_match)
        lsn = transaction.view.lsn
        outcome = self.outcome
        if outcome is not None and outcome.is_for(old, lsn):
            if outcome.error is not None:
                raise outcome.error
            new, changed = outcome.new, outcome.changed_terms
        else:
            task = PatchTask(
                transaction.op.container,
                self.partition,
                old,
                self.patch.source,
                self._is_indexed,
                self._is_lenient,
                transaction.op.now,
            )
            if not self.patch.is_short(old.body):
                raise PatchUnprepared(PendingPatch(self, task))
            new, changed = _patched(task, self.patch), None
        assert new is not None  # noqa: S101
        row = transaction.put(self.key, new, old)
        return WriteResult(200, row, lsn, old, new, self.patch.count, changed)


def patch_operation(
    logical_partition: LogicalPartition,
    item_id: str,
    patch: Patch,
    if_match: str | None,
    *,
    is_indexed: bool = True,
    is_lenient: bool = False,
) -> ItemOperation:
    operation = PatchItemOperation(
        logical_partition, item_id, patch, if_match, is_indexed, is_lenient
    )
    return ItemOperation(logical_partition, (operation.key,), operation.run)


def evaluate(task: PatchTask, patch: Patch | None = None) -> PatchOutcome:
    """The outcome of a patch; runs in a thread or in a worker process, which reads it again."""
    started = time.perf_counter()
    new, changed, error = None, 0, None
    try:
        if patch is None:
            patch = patches.read(documents.exact(task.source), task.container.key, task.source)
        new = _patched(task, patch)
        changed = point_operations.changed_terms(task.container, task.old, new)
    except CosmosError as refused:
        new, error = None, without_frames(refused)
    return PatchOutcome(task.old, new, changed, error, time.perf_counter() - started)


def _patched(task: PatchTask, patch: Patch) -> CheckedItem:
    """The patched item, checked like any other body; its id and key must be unchanged."""
    container, old = task.container, task.old
    patch.check_condition(old.body, task.now, task.seconds)
    document = documents.parse(patch.apply(old.body))
    value = document.value
    pk = partition.canonical(partition.extract(container.key, value))
    if value.get("id") != old.id or pk != old.pk:
        raise PartitionKeyMismatch("A patch may change neither the id nor the partition key.")
    return point_operations.build_checked_item(
        container,
        document,
        old.id,
        task.logical_partition,
        old.epk,
        is_indexed=task.is_indexed,
        is_lenient=task.is_lenient,
    )
