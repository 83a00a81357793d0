"""How long an evaluation goes on before it asks whether it may.

What an item can hold is limited, what JOIN and subqueries make of it is not: three inputs over an
array of two thousand elements are eight billion rows. They count the elements they go through,
and now and then whoever runs the query is asked; an answer that is no is an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Elements between two questions; a few milliseconds.
STEPS: Final = 10_000


def go_on() -> None:
    """The answer of those who do not mind."""


class Effort:
    __slots__ = ("_ask", "_left")

    def __init__(self, ask: Callable[[], None] = go_on) -> None:
        self._ask = ask
        self._left = STEPS

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            self._left = STEPS
            self._ask()
