"""The arithmetic, bit and NOT operators as functions of values.

Arithmetic is IEEE double arithmetic; bit operators work on 32-bit integers, as in JavaScript.
Binary operators expect numbers: the caller checks the types.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from perseid.query.values import UNDEFINED

NUMBERS: Final = frozenset({int, float})
# Integers up to this size are exact as doubles, so integer arithmetic gives the same result.
_EXACT: Final = 2**53


def _not(value: Any) -> Any:
    return False if value is True else True if value is False else UNDEFINED


def _on_number(apply: Callable[[Any], Any], value: Any) -> Any:
    return apply(value) if type(value) in NUMBERS else UNDEFINED


def _as_doubles(apply: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if not (-_EXACT <= a <= _EXACT and -_EXACT <= b <= _EXACT):
        return apply(float(a), float(b))
    result = apply(a, b)
    if type(result) is float or -_EXACT <= result <= _EXACT:
        return result
    return apply(float(a), float(b))


def divide(a: Any, b: Any) -> float:
    """IEEE division: dividing by zero gives an infinity or NaN."""
    if b:
        return float(a) / float(b)
    if not a or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder(a: Any, b: Any) -> float:
    """The remainder with the sign of the dividend, as in C."""
    if not b or math.isinf(a):
        return math.nan
    return math.fmod(a, b)


def _int32(x: Any) -> int:
    """`x` as JavaScript converts it: truncated, wrapped to 32 bits, 0 for NaN and infinities."""
    if type(x) is float:
        if not math.isfinite(x):
            return 0
        x = int(x)
    return int((x + 0x80000000 & 0xFFFFFFFF) - 0x80000000)


def _shift_left(a: Any, b: Any) -> int:
    return _int32(_int32(a) << (_int32(b) & 31))


def _shift_right(a: Any, b: Any) -> int:
    return _int32(a) >> (_int32(b) & 31)


def _shift_right_unsigned(a: Any, b: Any) -> int:
    return (_int32(a) & 0xFFFFFFFF) >> (_int32(b) & 31)


UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "NOT": _not,
    "+": partial(_on_number, operator.pos),
    "-": partial(_on_number, operator.neg),
    "~": partial(_on_number, lambda x: ~_int32(x)),
}
BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": partial(_as_doubles, operator.add),
    "-": partial(_as_doubles, operator.sub),
    "*": partial(_as_doubles, operator.mul),
    "/": divide,
    "%": _remainder,
    "&": lambda a, b: _int32(a) & _int32(b),
    "|": lambda a, b: _int32(a) | _int32(b),
    "^": lambda a, b: _int32(a) ^ _int32(b),
    "<<": _shift_left,
    ">>": _shift_right,
    ">>>": _shift_right_unsigned,
}
