"""Limits of time on a busy machine: how long to wait, and what to repeat.

No test may fail because its machine was busy for a while. A limit that only guards against waiting
for ever is `TIME_LIMIT`. A test that is about time raises `TooSlow` for that, and for nothing else,
in a function that `repeat_if_slow` calls: a defect is too slow each time, a busy machine is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

TIME_LIMIT: Final = 60.0  # seconds until a test gives up waiting
# How much longer than usual the deadlines of each attempt may be.
_FACTORS: Final = (1, 4, 16)


class TooSlow(AssertionError):
    """Something took too long: the code is slow, or the machine was busy."""


def repeat_if_slow(attempt: Callable[[int], T]) -> T:
    """Calls `attempt` until it is not too slow, at most three times; other failures count at once.

    It gets a factor for the deadlines that it sets itself: a server that closes what is idle for
    0.2 seconds also closes an honest client that has to wait for a processor.
    """
    *first, last = _FACTORS
    for factor in first:
        try:
            return attempt(factor)
        except TooSlow:
            continue
    return attempt(last)


@contextmanager
def slow_if(*errors: type[Exception]) -> Iterator[None]:
    """TooSlow in the place of errors that a missed deadline causes."""
    try:
        yield
    except errors as exc:
        raise TooSlow(f"{type(exc).__name__}: {exc}") from exc


def until(is_done: Callable[[], bool]) -> None:
    """Asks until the answer is yes."""
    started = time.monotonic()
    while not is_done():
        assert time.monotonic() - started < TIME_LIMIT, "waited too long"
