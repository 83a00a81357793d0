"""How long an evaluation goes on before it asks whether it may.

What an item can hold is limited, what JOIN and subqueries make of it is not: three inputs over an
array of two thousand elements are eight billion rows. They count the elements they go through,
functions what they are given, and now and then whoever runs the query is asked; an answer that is
no is an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

# Elements between two questions; a few milliseconds.
STEPS: Final = 10_000
# Of what may take a good part of a second, however small it looks.
HEAVY: Final = 1_000
# Characters, or parts of them for each element of an array, that are one step.
_CHARACTERS_SHIFT: Final = 7
_ELEMENT: Final = 16


def steps_for(values: Sequence[Any]) -> int:
    """What it takes to look at all of these values for each of them; nothing if they are small."""
    size = 0
    for value in values:
        if type(value) is str:
            size += len(value)
        elif type(value) is list:
            size += len(value) * _ELEMENT
    return size * len(values) >> _CHARACTERS_SHIFT


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
