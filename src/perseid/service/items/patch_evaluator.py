"""Evaluates the patches of one request that take too long for the event loop.

Optimistically: a patch is evaluated for the version of the item that a decision has seen, and the
next decision uses the outcome if the item is unchanged. All evaluations of a request share one
time limit, run one after the other, and stop when the client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from perseid.errors import RequestTimeout, RetryWith
from perseid.service.account import Account
from perseid.service.items.one_thread import in_one_thread
from perseid.service.items.patch_operations import (
    PatchOutcome,
    PatchTask,
    PendingPatch,
    deferring,
    evaluate,
)
from perseid.service.items.patches import CONDITION_SECONDS
from perseid.service.items.point_operations import HEAVY_WRITE
from perseid.service.items.transactions import ItemOperation, Transaction, WriteResult, write
from perseid.service.operation import Operation
from perseid.service.queries.disconnects import (
    ClientDisconnected,
    DisconnectWatch,
    WaitForDisconnect,
)
from perseid.store.types import Decision, View

T = TypeVar("T")

_TOTAL_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 10.0  # for the start of the worker, and for decoding and encoding
_ATTEMPTS: Final = 5  # of a patch whose item changes all the time
_CHANGING: Final = (
    "The item was changed by other requests each time the patch was evaluated; nothing was written."
    " Please retry."
)
_TOO_LONG: Final = (
    f"The patches of this request take longer than {_TOTAL_SECONDS:g} seconds to evaluate together,"
    " so this one was not executed. Please send fewer of them in one request, or simplify their"
    " conditions."
)


class PatchEvaluator:
    """One for each request that may contain patches."""

    __slots__ = ("_account", "_has_disconnected", "_lock", "_seconds_left", "_wait")

    def __init__(self, account: Account, wait_for_disconnect: WaitForDisconnect | None) -> None:
        self._account = account
        self._wait = wait_for_disconnect
        self._lock: asyncio.Lock | None = None
        self._seconds_left = _TOTAL_SECONDS
        self._has_disconnected = False

    async def perform(self, op: Operation, item_operation: ItemOperation) -> WriteResult:
        """Runs one operation as a transaction of its own."""

        def decide(view: View) -> Decision[WriteResult | PendingPatch]:
            transaction = Transaction(op, view)
            return deferring(lambda: transaction.decision(item_operation.run(transaction)))

        range_index, keys = item_operation.logical_partition.range_index, item_operation.keys
        return await self.write(
            lambda is_heavy: write(op, range_index, keys, decide, is_heavy=is_heavy)
        )

    async def write(
        self, attempt: Callable[[bool], Awaitable[T | PendingPatch]], *, is_heavy: bool = False
    ) -> T:
        """Calls `attempt` until no patch is pending: then it has written.

        It gets whether the write is too large for the event loop.
        """
        result = await attempt(is_heavy)
        if not isinstance(result, PendingPatch):
            return result
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            # Again, because patches of this request before this one may have changed the item.
            while isinstance(result := await attempt(is_heavy), PendingPatch):
                await self._prepare(result)
                is_heavy = is_heavy or len(result.task.old.body) > HEAVY_WRITE
        return result

    async def _prepare(self, pending: PendingPatch) -> None:
        if self._has_disconnected:
            raise ClientDisconnected
        operation = pending.operation
        operation.attempts += 1
        if operation.attempts > _ATTEMPTS:
            raise RetryWith(_CHANGING)
        if self._seconds_left <= 0:
            raise RequestTimeout(_TOO_LONG)
        seconds = min(CONDITION_SECONDS, self._seconds_left)
        taken = seconds
        try:
            with DisconnectWatch(self._account.disconnects, self._wait):
                outcome = await self._evaluate(pending, pending.task._replace(seconds=seconds))
            taken = outcome.seconds
            operation.outcome = outcome
        except ClientDisconnected:
            self._has_disconnected = True
            raise
        finally:
            self._seconds_left -= taken

    async def _evaluate(self, pending: PendingPatch, task: PatchTask) -> PatchOutcome:
        if pending.is_linear:
            return await in_one_thread(evaluate, task, pending.operation.patch)
        return await self._account.workers.call(
            evaluate, task, seconds=task.seconds + _GRACE_SECONDS
        )
