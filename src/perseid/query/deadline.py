"""How long the evaluation of one item may go on, and that it ends when nobody waits for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from perseid.errors import BadRequest
from perseid.query import CallContext
from perseid.query.work_limit import WorkLimit

# By far more than an item needs unless JOIN multiplies what it holds.
ITEM_SECONDS: Final = 10.0


class DeadlineExceeded(BadRequest):
    """The evaluation was ended."""

    def __init__(self) -> None:
        super().__init__(
            "The query execution was stopped: JOIN, subqueries and functions take too long over a"
            " single item. Please filter its arrays in subqueries, join fewer of them, or ask less"
            " of large values."
        )


class Deadline:
    """Runs out so many seconds after it began; made to be asked by `query.effort`."""

    __slots__ = ("_end", "_is_cancelled")

    def __init__(self, seconds: float = ITEM_SECONDS) -> None:
        self._is_cancelled = False
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Anew, unless nobody waits any more."""
        if self._is_cancelled:
            raise DeadlineExceeded
        self._end = time.perf_counter() + seconds

    def end(self) -> None:
        """For good, from another thread."""
        self._is_cancelled = True

    def check(self) -> None:
        if self._is_cancelled or time.perf_counter() > self._end:
            raise DeadlineExceeded


def call_context(now: float, check: Callable[[], None]) -> CallContext:
    """What functions may ask for; `check` is asked in turn whether they have taken too long."""
    return CallContext(now=now, random=random.random, work_limit=WorkLimit(check))
