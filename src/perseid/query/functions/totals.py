"""Rules that array functions and aggregates share: the sum of an array, values with an order.

Integers are added exactly and floats in their order, without `sum`, whose rounding differs between
Python versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.query.values import UNDEFINED, as_number, is_number


def total(values: Iterable[Any]) -> Any:
    """The sum, undefined if a value is not a number."""
    result: int | float = 0
    for value in values:
        if not is_number(value):
            return UNDEFINED
        result += as_number(value)
    return as_number(result)


def is_rankable(v: Any) -> bool:
    """True for values that MIN and MAX compare: all but arrays, objects and undefined."""
    return type(v) is not list and type(v) is not dict and v is not UNDEFINED
