"""Two ways that take turns, so that both get the same noise of the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def alternate(first: Callable[[], T], second: Callable[[], T], pairs: int) -> list[tuple[T, T]]:
    """Results of both; each begins a pair as often as the other."""
    results = []
    for number in range(pairs):
        if number % 2:
            results.append((first(), second()))
        else:
            later = second()
            results.append((first(), later))
    return results
