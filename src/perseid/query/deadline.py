"""The time limit of a query's evaluation: seconds until it is stopped with an error.

The evaluator does not read the clock itself. It spends steps of a `WorkLimit`, which calls
`Deadline.check` now and then; `call_context` connects the two.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from perseid.errors import BadRequest
from perseid.query.functions.builtin import CallContext
from perseid.query.work_limit import WorkLimit

# Far more than one item needs, unless JOIN multiplies its arrays.
ITEM_SECONDS: Final = 10.0


class DeadlineExceeded(BadRequest):
    """The evaluation took too long, or no client waits for it any more."""

    def __init__(self) -> None:
        super().__init__(
            "The query execution was stopped: JOIN, subqueries and functions take too long over a"
            " single item. Please filter its arrays in subqueries, join fewer of them, or call"
            " fewer functions on large values."
        )


class Deadline:
    """A point in time after which `check` raises; it can be moved, and cancelled for good."""

    __slots__ = ("_end", "_is_cancelled")

    def __init__(self, seconds: float = ITEM_SECONDS) -> None:
        self._is_cancelled = False
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Allows `seconds` from now on; raises if the evaluation was cancelled."""
        if self._is_cancelled:
            raise DeadlineExceeded
        self._end = time.perf_counter() + seconds

    def end(self) -> None:
        """Cancels the evaluation; may be called from another thread."""
        self._is_cancelled = True

    def check(self) -> None:
        """Raises DeadlineExceeded if the time is up or the evaluation was cancelled."""
        if self._is_cancelled or time.perf_counter() > self._end:
            raise DeadlineExceeded


def call_context(now: float, check: Callable[[], None]) -> CallContext:
    """The context of a run at `now`; its work limit calls `check`, which may raise."""
    return CallContext(now=now, random=random.random, work_limit=WorkLimit(check))
