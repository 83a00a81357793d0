"""How long the evaluation of one item may go on, and that it ends when nobody waits for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from perseid.errors import BadRequest
from perseid.query import CallContext
from perseid.query.effort import Effort

# By far more than an item needs unless JOIN multiplies what it holds.
ITEM_SECONDS: Final = 10.0


class Overdue(BadRequest):
    """The evaluation was ended."""

    def __init__(self) -> None:
        super().__init__(
            "The query execution was stopped: JOIN, subqueries and functions take too long over a"
            " single item. Please filter its arrays in subqueries, join fewer of them, or ask less"
            " of large values."
        )


class Patience:
    """Runs out so many seconds after it began; made to be asked by `query.effort`."""

    __slots__ = ("_end", "_is_over")

    def __init__(self, seconds: float = ITEM_SECONDS) -> None:
        self._is_over = False
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Anew, unless nobody waits any more."""
        if self._is_over:
            raise Overdue
        self._end = time.perf_counter() + seconds

    def end(self) -> None:
        """For good, from another thread."""
        self._is_over = True

    def check(self) -> None:
        if self._is_over or time.perf_counter() > self._end:
            raise Overdue


def call_context(now: float, check: Callable[[], None]) -> CallContext:
    """What functions may ask for; `check` is asked in turn whether they have taken too long."""
    return CallContext(now=now, random=random.random, effort=Effort(check))
