"""Mathematical functions: on IEEE doubles, which never raise, and on 64-bit integers, which wrap.

Where Python's `math` raises, the language has a value: NaN outside a function's domain, an
infinity beyond the largest double.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from perseid.query.arithmetic import divide
from perseid.query.functions.builtin import INT64, INTEGER, NUMBER, Builtin, CallContext
from perseid.query.values import UNDEFINED, as_number

Number = int | float

# No double has a digit further from its decimal point than this, on either side.
_MOST_DIGITS: Final = 400


def _total(function: Callable[[float], float]) -> Callable[[Number], float]:
    """`function`, with NaN or infinity where `math` raises."""

    def call(x: Number) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return call


def _whole(function: Callable[[float], int]) -> Callable[[Number], Number]:
    """`function` that rounds to an integer; NaN and the infinities stay as they are."""

    def call(x: Number) -> Number:
        return as_number(function(x)) if math.isfinite(x) else x

    return call


# --- doubles


def absolute(x: Number) -> Number:
    return as_number(abs(x))


def cotangent(x: Number) -> float:
    return math.inf if x == 0 else 1 / math.tan(x)


def natural_log(x: Number) -> float:
    return -math.inf if x == 0 else math.log(x)


_ln: Final = _total(natural_log)


def decimal_log(x: Number) -> float:
    return -math.inf if x == 0 else math.log10(x)


def log(x: Number, base: Number | None = None) -> float:
    return _ln(x) if base is None else divide(_ln(x), _ln(base))


def number_bin(x: Number, size: Number = 1) -> Any:
    if size == 0:
        return UNDEFINED
    if type(x) is int and type(size) is int:
        return as_number(x // size * size)
    return as_number(floor(divide(x, size)) * size)


def pi() -> float:
    return math.pi


def power(x: Number, y: Number) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:  # a negative power of zero, or a root of a negative number
        return math.inf if x == 0 else math.nan


def rand(ctx: CallContext) -> float:
    return ctx.random()


def round_half_away(x: Number, digits: int = 0) -> Number:
    """`x` rounded to `digits` decimals, by its shortest decimal text and not its binary value."""
    if not math.isfinite(x):
        return x
    decimal = Decimal(repr(x))
    exponent = decimal.as_tuple().exponent
    if isinstance(exponent, int) and digits >= -exponent:
        return x
    if digits < -_MOST_DIGITS:
        return 0
    rounded = decimal.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return as_number(int(rounded)) if type(x) is int else float(rounded)


def sign(x: Number) -> Number:
    return math.nan if math.isnan(x) else (x > 0) - (x < 0)


def square(x: Number) -> Number:
    return as_number(x * x)


ceiling: Final = _whole(math.ceil)
floor: Final = _whole(math.floor)
truncate: Final = _whole(math.trunc)


# --- 64-bit integers


def _wrap(n: int) -> int:
    return (n + 2**63) % 2**64 - 2**63


def int_add(a: int, b: int) -> int:
    return _wrap(a + b)


def int_sub(a: int, b: int) -> int:
    return _wrap(a - b)


def int_mul(a: int, b: int) -> int:
    return _wrap(a * b)


def int_div(a: int, b: int) -> Any:
    """Rounds toward zero, which `//` does not."""
    if b == 0:
        return UNDEFINED
    quotient = abs(a) // abs(b)
    return _wrap(quotient if (a < 0) == (b < 0) else -quotient)


def int_mod(a: int, b: int) -> Any:
    """The result has the sign of `a`; that of `%` has the sign of `b`."""
    if b == 0:
        return UNDEFINED
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def int_and(a: int, b: int) -> int:
    return a & b


def int_or(a: int, b: int) -> int:
    return a | b


def int_xor(a: int, b: int) -> int:
    return a ^ b


def int_not(a: int) -> int:
    return ~a


def int_left_shift(a: int, count: int) -> Any:
    return _wrap(a << count) if 0 <= count < 64 else UNDEFINED


def int_right_shift(a: int, count: int) -> Any:
    return a >> count if 0 <= count < 64 else UNDEFINED


FUNCTIONS: Final = (
    Builtin("ABS", (NUMBER,), absolute),
    Builtin("ACOS", (NUMBER,), _total(math.acos)),
    Builtin("ASIN", (NUMBER,), _total(math.asin)),
    Builtin("ATAN", (NUMBER,), _total(math.atan)),
    Builtin("ATN2", (NUMBER, NUMBER), math.atan2),
    Builtin("CEILING", (NUMBER,), ceiling),
    Builtin("COS", (NUMBER,), _total(math.cos)),
    Builtin("COT", (NUMBER,), _total(cotangent)),
    Builtin("DEGREES", (NUMBER,), math.degrees),
    Builtin("EXP", (NUMBER,), _total(math.exp)),
    Builtin("FLOOR", (NUMBER,), floor),
    Builtin("LOG", (NUMBER,), log, optional=(NUMBER,)),
    Builtin("LOG10", (NUMBER,), _total(decimal_log)),
    Builtin("NumberBin", (NUMBER,), number_bin, optional=(NUMBER,)),
    Builtin("PI", (), pi),
    Builtin("POWER", (NUMBER, NUMBER), power),
    Builtin("RADIANS", (NUMBER,), math.radians),
    Builtin("RAND", (), rand, random=True),
    Builtin("ROUND", (NUMBER,), round_half_away, optional=(INTEGER,)),
    Builtin("SIGN", (NUMBER,), sign),
    Builtin("SIN", (NUMBER,), _total(math.sin)),
    Builtin("SQRT", (NUMBER,), _total(math.sqrt)),
    Builtin("SQUARE", (NUMBER,), square),
    Builtin("TAN", (NUMBER,), _total(math.tan)),
    Builtin("TRUNC", (NUMBER,), truncate),
    Builtin("IntAdd", (INT64, INT64), int_add),
    Builtin("IntBitAnd", (INT64, INT64), int_and, aliases=("IntBitwiseAnd",)),
    Builtin("IntBitLeftShift", (INT64, INT64), int_left_shift, aliases=("IntBitwiseLeftShift",)),
    Builtin("IntBitNot", (INT64,), int_not, aliases=("IntBitwiseNot",)),
    Builtin("IntBitOr", (INT64, INT64), int_or, aliases=("IntBitwiseOr",)),
    Builtin("IntBitRightShift", (INT64, INT64), int_right_shift, aliases=("IntBitwiseRightShift",)),
    Builtin("IntBitXor", (INT64, INT64), int_xor, aliases=("IntBitwiseXor",)),
    Builtin("IntDiv", (INT64, INT64), int_div),
    Builtin("IntMod", (INT64, INT64), int_mod),
    Builtin("IntMul", (INT64, INT64), int_mul),
    Builtin("IntSub", (INT64, INT64), int_sub),
)
