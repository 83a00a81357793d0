"""The copy of an item's text that conditions and indexes look at: equal numbers as equal numerics.

jsonb keeps numbers as decimals of any length, the language knows 64-bit integers and doubles. They
compare alike when each number of the copy is one that the language has: then decimals are equal,
smaller or larger exactly when the values are. Rare numbers need another spelling for that; the
text that clients get is stored next to the copy, as it was sent.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final

import orjson

_INT64: Final = 2**63
_EXACT: Final = 2**53
# A number that has an exponent, or more digits than a double is sure to keep. Found within texts
# too, which costs a little time and is no harm.
_RARE: Final = re.compile(rb"[\[:,\s]-?(?:[\d.]{16}|[\d.]+[eE])")


def normalized_json(text: bytes) -> bytes:
    """The same JSON with its numbers as the language has them."""
    if _RARE.search(text) is None:
        return text
    # orjson writes the fragments as they are.
    value: Any = json.loads(text, parse_int=_whole, parse_float=_double)
    return orjson.dumps(value)


def as_numeric(value: int | float) -> Decimal:
    """A number of a query as the decimal that equal numbers of items have in the copy."""
    if isinstance(value, int):
        return Decimal(value) if -_INT64 <= value < _INT64 else as_numeric(float(value))
    if value.is_integer() and -_INT64 <= value < _INT64:
        return Decimal(int(value))
    return Decimal(repr(value))


def from_numeric(value: Decimal) -> int | float:
    """The number that such a decimal stands for."""
    if -_INT64 <= value < _INT64 and value == value.to_integral_value():
        return int(value)
    return float(value)


def _whole(text: str) -> orjson.Fragment:
    # So few digits cannot be more than 64 bits hold.
    if len(text) < 19 or (len(text) <= 20 and -_INT64 <= int(text) < _INT64):
        return orjson.Fragment(text)
    return orjson.Fragment(repr(float(text)))


def _double(text: str) -> orjson.Fragment:
    value = float(text)
    if abs(value) >= _EXACT and -_INT64 <= value < _INT64:
        # Written out: its shortest text would be another integer. A double has a fraction.
        return orjson.Fragment(f"{int(value)}.0")
    return orjson.Fragment(repr(value))
