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
EXPENSIVE_STEPS: Final = 1_000
# Characters, or parts of them for each element of an array, that are one step.
_CHARACTERS_SHIFT: Final = 7
_ELEMENT: Final = 16


def steps_of_values(values: Sequence[Any]) -> int:
    """What it takes to look at all of these values for each of them; nothing if they are small."""
    size = 0
    for value in values:
        if type(value) is str:
            size += len(value)
        elif type(value) is list:
            size += len(value) * _ELEMENT
    return size * len(values) >> _CHARACTERS_SHIFT


def no_limit() -> None:
    """The answer of those who do not mind."""


class WorkLimit:
    __slots__ = ("_check", "_remaining")

    def __init__(self, check: Callable[[], None] = no_limit) -> None:
        self._check = check
        self._remaining = STEPS

    def spend(self, steps: int) -> None:
        self._remaining -= steps
        if self._remaining < 0:
            self._remaining = STEPS
            self._check()
