"""The work limit of an evaluation: how many steps it takes before it must ask whether to go on.

The size of an item is limited, but what JOIN and subqueries make of it is not: three inputs over an
array of two thousand elements are eight billion rows. Inputs spend a step for each element they
iterate over, functions spend steps for large arguments. Whenever `STEPS` have been spent, `check`
is called; it raises to stop the evaluation. A work limit knows no time: see `deadline`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

# Steps between two calls of `check`: a few milliseconds, or ten where each of them makes a group.
STEPS: Final = 2_000
# Steps of an operation that may take a large part of a second, however small its arguments are.
EXPENSIVE_STEPS: Final = 1_000
# 2**7 characters are one step, and an element of an array counts as 16 characters.
_CHARACTERS_SHIFT: Final = 7
_ELEMENT: Final = 16


def steps_of_values(values: Sequence[Any]) -> int:
    """The steps of a function that looks at all its arguments for each of them; 0 if small."""
    size = 0
    for value in values:
        if type(value) is str:
            size += len(value)
        elif type(value) is list:
            size += len(value) * _ELEMENT
    return size * len(values) >> _CHARACTERS_SHIFT


def no_limit() -> None:
    """A check that never stops the evaluation."""


class WorkLimit:
    """Counts the steps of one run and calls `check` once for every `STEPS` of them.

    `spent` are the steps up to the last call. It includes those of an operation that begins only
    after that call, so `check` can also stop what would take long by itself.
    """

    __slots__ = ("_check", "_remaining", "spent")

    def __init__(self, check: Callable[[], None] = no_limit) -> None:
        self._check = check
        self._remaining = STEPS
        self.spent = 0

    def spend(self, steps: int) -> None:
        self._remaining -= steps
        if self._remaining < 0:
            self.spent += STEPS - self._remaining
            self._remaining = STEPS
            self._check()
