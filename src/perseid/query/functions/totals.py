"""Sums and extremes of many values, the same for arrays and for aggregates.

Integers are added exactly and floats in the order they come, so that a result does not depend on
the Python version's idea of `sum`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.query.values import UNDEFINED, as_number, is_number


def total(values: Iterable[Any]) -> Any:
    """The sum, undefined as soon as one value is not a number."""
    result: int | float = 0
    for value in values:
        if not is_number(value):
            return UNDEFINED
        result += as_number(value)
    return as_number(result)


def is_rankable(v: Any) -> bool:
    """True for what has a smallest and a largest: anything but arrays, objects and undefined."""
    return type(v) is not list and type(v) is not dict and v is not UNDEFINED
