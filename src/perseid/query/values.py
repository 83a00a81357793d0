"""Query values: undefined, type names, equality, order, and output as JSON.

A value is decoded JSON (`None`, `bool`, `int`, `float`, `str`, `list`, `dict`) or `UNDEFINED`.
Types are compared with `type(v)`, never with `isinstance`: a Python `bool` is an `int`, and a
boolean of the language is not a number. All comparisons of values are made here; expressions are
not known here. Comparisons do not recurse, so a deeply nested parameter cannot exhaust the stack.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from types import NoneType
from typing import Any, Final, NamedTuple, final

import orjson

from perseid.conditions import ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, TRUE
from perseid.conditions import UNDEFINED as UNDEFINED_RANK


@final
class Undefined:
    """The type of `UNDEFINED`, the value of a missing property and of an invalid operation."""

    __slots__ = ()
    _only: Undefined | None = None

    def __new__(cls) -> Undefined:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "undefined"

    def __bool__(self) -> bool:
        # Three-valued logic must compare with `is`, so taking the truth of undefined is a bug.
        raise TypeError("undefined is neither true nor false")

    def __copy__(self) -> Undefined:
        return self

    def __deepcopy__(self, _memo: object) -> Undefined:
        return self

    def __reduce__(self) -> tuple[type[Undefined], tuple[()]]:
        return Undefined, ()


UNDEFINED: Final = Undefined()

# Characters of a string, and of a value as text; no response can be longer.
LONGEST_TEXT: Final = 16 * 1024 * 1024
# Levels of values in a result: the encoder takes no more than 254.
_MOST_LEVELS: Final = 250

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_NAMES: Final[dict[type, str]] = {
    Undefined: "undefined",
    NoneType: "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
# Booleans are not listed: false and true have a rank each.
_RANKS: Final[dict[type, int]] = {
    Undefined: UNDEFINED_RANK,
    NoneType: NULL,
    int: NUMBER,
    float: NUMBER,
    str: STRING,
    list: ARRAY,
    dict: OBJECT,
}
# Types that `<` compares, and the group of types that can be compared with each other.
_ORDERED: Final[dict[type, int]] = {
    NoneType: NULL,
    bool: TRUE,
    int: NUMBER,
    float: NUMBER,
    str: STRING,
}
# Types that Python compares as the language does, if both sides have the same type.
_PLAIN: Final = frozenset({bool, str})


# --- types


def type_name(v: Any) -> str:
    """The query language's name for the type of `v`."""
    return _NAMES[type(v)]


def type_rank(v: Any) -> int:
    """The rank of the type of `v` in ORDER BY; false and true have a rank each."""
    if type(v) is bool:
        return TRUE if v else FALSE
    return _RANKS[type(v)]


def is_number(v: Any) -> bool:
    """True for numbers, including NaN and the infinities; booleans are not numbers."""
    return type(v) is int or type(v) is float


def is_integer(v: Any) -> bool:
    """True for integers of 64 bits, also if written with a point: 5.0 is one, 2**63 is not."""
    if type(v) is int:
        return INT64_MIN <= v <= INT64_MAX
    # As a float, 2**63 - 1 would be rounded up to 2**63, which must be rejected.
    return type(v) is float and v.is_integer() and INT64_MIN <= int(v) <= INT64_MAX


def as_number(x: int | float) -> int | float:
    """`x` as a number of the language: integers beyond 64 bits become doubles or infinities."""
    if type(x) is float or INT64_MIN <= x <= INT64_MAX:
        return x
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


# --- comparison


def equals(a: Any, b: Any) -> bool | Undefined:
    """Structural equality; false across types, undefined for undefined and for NaN."""
    kind = type(a)
    if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
        return bool(a == b)
    if a is UNDEFINED or b is UNDEFINED or _is_nan(a) or _is_nan(b):
        return UNDEFINED
    return same(a, b)


def same(a: Any, b: Any) -> bool:
    """Structural equality of two defined values: 1 is 1.0, true is not 1, NaN is not itself."""
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        kind = type(a)
        if kind is int or kind is float:
            if not (is_number(b) and as_number(a) == as_number(b)):
                return False
        elif kind is not type(b):
            return False
        elif kind is list:
            if len(a) != len(b):
                return False
            pending.extend(zip(a, b, strict=True))
        elif kind is dict:
            if a.keys() != b.keys():
                return False
            pending.extend((value, b[name]) for name, value in a.items())
        elif a != b:
            return False
    return True


def less(a: Any, b: Any) -> bool | Undefined:
    """`a < b`, undefined unless both are null, both booleans, both numbers or both strings."""
    kind = type(a)
    if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
        return bool(a < b)
    if not _comparable(a, b):
        return UNDEFINED
    if is_number(a):
        return as_number(a) < as_number(b)
    return a is not None and bool(a < b)


def less_equal(a: Any, b: Any) -> bool | Undefined:
    """`a <= b`, with the same limits as `less`; null is equal to null."""
    kind = type(a)
    if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
        return bool(a <= b)
    if not _comparable(a, b):
        return UNDEFINED
    if is_number(a):
        return as_number(a) <= as_number(b)
    return a is None or bool(a <= b)


def sort_key(v: Any) -> tuple[Any, ...]:
    """A key that puts values of any types in the order of ORDER BY, undefined first.

    Two keys are equal exactly when the values are structurally equal. NaN comes before the other
    numbers. Arrays go by length and then element by element, objects the same way with their
    names sorted; the language leaves that order open.
    """
    kind = type(v)
    if kind is str:
        return (STRING, v)
    if kind is list or kind is dict:
        return (_RANKS[kind], tuple(_flattened(v)))
    return _scalar_key(v)


def order_bytes(v: Any) -> bytes:
    """Bytes in the order of the sort keys, equal if the sort keys are equal.

    No result is a prefix of another, so the bytes of several values can be concatenated, and the
    complement of every byte gives the reverse order.
    """
    key = sort_key(v)
    return _packed(key) if key[0] < ARRAY else b"".join(map(_packed, key[1]))


class FirstValue(NamedTuple):
    """The first value in order bytes; if not `is_whole`, a text that the bytes cut off."""

    rank: int
    value: Any
    is_whole: bool = True


def first_in_order(start: bytes) -> FirstValue | None:
    """The first value that was encoded into order bytes.

    None for arrays, objects and NaN, which cannot be decoded.
    """
    rank = start[0]
    if rank < NUMBER:
        return FirstValue(rank, None)
    if rank == NUMBER and len(start) >= _NUMBER_BYTES.size and start[1]:
        _, _, bits, rest = _NUMBER_BYTES.unpack_from(start)
        bits ^= _SIGN_BIT if bits & _SIGN_BIT else _ALL_BITS
        (near,) = _DOUBLE.unpack(_BITS.pack(bits))
        rest -= 2**15
        return FirstValue(rank, int(near) + rest if rest else near)
    if rank == STRING:
        end = start.find(b"\0\0")  # a zero inside the text is followed by 0xff
        text = start[1:] if end < 0 else start[1:end]
        if end < 0 and text.endswith(b"\0"):
            text = text[:-1]  # may be the first half of the end mark
        decoded = text.replace(b"\0\xff", b"\0").decode("utf-8", "ignore")
        return FirstValue(rank, decoded, end >= 0)
    return None


def canonical(v: Any) -> tuple[Any, ...]:
    """A hashable key of `v` for sets and groups, equal for structurally equal values.

    Undefined is equal to itself here, and so is NaN: each makes one group.
    """
    return sort_key(v)


def _comparable(a: Any, b: Any) -> bool:
    group = _ORDERED.get(type(a))
    if group is None or group != _ORDERED.get(type(b)):
        return False
    return group != NUMBER or not (_is_nan(a) or _is_nan(b))


def _is_nan(v: Any) -> bool:
    # Not math.isnan, which fails on integers too large for a double.
    return type(v) is float and v != v  # noqa: PLR0124


def _scalar_key(v: Any) -> tuple[Any, ...]:
    rank = type_rank(v)
    if rank < NUMBER:
        return (rank,)
    if type(v) is int and not INT64_MIN <= v <= INT64_MAX:
        v = as_number(v)
    # NaN has the rank only: a shorter tuple sorts before every (rank, number) and equals itself.
    return (rank,) if _is_nan(v) else (rank, v)


def _flattened(v: Any) -> Iterator[tuple[Any, ...]]:
    """Keys of the parts of `v`, depth first; the counts make the sequence unambiguous."""
    pending = [v]
    while pending:
        part = pending.pop()
        kind = type(part)
        if kind is list:
            yield (ARRAY, len(part))
            pending.extend(reversed(part))
        elif kind is dict:
            yield (OBJECT, len(part))
            for name in sorted(part, reverse=True):
                pending += (part[name], name)
        else:
            yield _scalar_key(part)


def _packed(key: tuple[Any, ...]) -> bytes:
    """The bytes of a scalar's key, or of a count."""
    rank = key[0]
    if rank == STRING:
        # UTF-8 sorts like code points, and the end mark sorts before every character.
        text: bytes = key[1].encode("utf-8", "surrogatepass")
        return b"\x05" + text.replace(b"\0", b"\0\xff") + b"\0\0"
    if rank == NUMBER:
        return _packed_number(key[1]) if len(key) > 1 else b"\x04\0"
    return _COUNT_BYTES.pack(rank, key[1]) if rank >= ARRAY else bytes((rank,))


def _packed_number(x: int | float) -> bytes:
    """The double nearest to `x` as sortable bits, and the difference of an integer from it."""
    near = float(x)
    if near == 0:
        near = 0.0  # -0 is 0
    (bits,) = _BITS.unpack(_DOUBLE.pack(near))
    bits ^= _ALL_BITS if bits & _SIGN_BIT else _SIGN_BIT
    rest = x - int(near) if type(x) is int else 0
    return _NUMBER_BYTES.pack(NUMBER, 1, bits, rest + 2**15)


_BITS: Final = struct.Struct(">Q")
_DOUBLE: Final = struct.Struct(">d")
_NUMBER_BYTES: Final = struct.Struct(">BBQH")
_COUNT_BYTES: Final = struct.Struct(">BI")
_SIGN_BIT: Final = 2**63
_ALL_BITS: Final = 2**64 - 1


# --- output


def is_writable(v: Any) -> bool:
    """False if `v` has too many levels, or more than about `LONGEST_TEXT` characters as JSON.

    It may still be small in memory: its parts can refer to the same value many times.
    """
    remaining = LONGEST_TEXT
    pending: list[tuple[Iterable[Any], int]] = [((v,), 0)]
    while pending:
        parts, level = pending.pop()
        if level > _MOST_LEVELS:
            return False
        for part in parts:
            kind = type(part)
            remaining -= 1
            if kind is str:
                remaining -= len(part)
            elif kind is list:
                pending.append((part, level + 1))
            elif kind is dict:
                remaining -= sum(map(len, part))
                pending.append((part.values(), level + 1))
        if remaining < 0:
            return False
    return True


def to_output(v: Any) -> Any:
    """`v` for the JSON encoder: no undefined members, no NaN, whole floats as integers.

    NaN and the infinities become their names as strings. Whole numbers beyond 64 bits stay floats,
    because the encoder takes no longer integers; a reader gets the same number from both texts.
    """
    writer = _OUTPUT.get(type(v))
    return v if writer is None else writer(v)


def to_number_text(x: int | float) -> str:
    """The shortest text that reads back as `x`, with an exponent where JavaScript has one."""
    x = as_number(x)
    if type(x) is int:
        return str(x)
    if not math.isfinite(x):
        return _name_of_special(x)
    if x == 0:
        return "0"  # -0 too
    sign, digits, exponent = Decimal(repr(x)).normalize().as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  # a letter only for NaN and infinities
    text = _place_point("".join(map(str, digits)), exponent)
    return f"-{text}" if sign else text


def to_json_text(v: Any) -> str:
    """Compact JSON of a defined value, numbers written as in results."""
    kind = type(v)
    if kind is str:
        return _quote(v)
    if kind is list:
        return f"[{','.join(to_json_text(item) for item in v if item is not UNDEFINED)}]"
    if kind is dict:
        members = (
            f"{_quote(name)}:{to_json_text(item)}"
            for name, item in v.items()
            if item is not UNDEFINED
        )
        return f"{{{','.join(members)}}}"
    if is_number(v):
        number = as_number(v)
        text = to_number_text(number)
        return text if math.isfinite(number) else f'"{text}"'
    return orjson.dumps(v).decode()


def _quote(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except TypeError:  # half a surrogate pair has no UTF-8 form
        return orjson.dumps(whole_text(text)).decode()


def whole_text(text: str) -> str:
    """`text` with U+FFFD for every unpaired surrogate, as most encoders write it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _place_point(digits: str, exponent: int) -> str:
    """`digits` times ten to the `exponent`, in plain notation from 1e-6 up to 1e21."""
    point = len(digits) + exponent
    if 0 < point <= 21:
        if exponent >= 0:
            return digits + "0" * exponent
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _name_of_special(x: float) -> str:
    return "NaN" if _is_nan(x) else "Infinity" if x > 0 else "-Infinity"


def _output_float(x: float) -> Any:
    if not math.isfinite(x):
        return _name_of_special(x)
    if not x.is_integer() or abs(x) >= 2**64:
        return x
    # Above 2**53 the exact value of a float has digits that its shortest text has not.
    whole = int(x) if abs(x) < 2**53 else int(Decimal(repr(x)))
    return whole if _is_encodable(whole) else x


def _output_int(x: int) -> Any:
    return x if _is_encodable(x) else _output_float(float(as_number(x)))


def _is_encodable(n: int) -> bool:
    return INT64_MIN <= n < 2**64


def _output_array(items: list[Any]) -> list[Any]:
    return [to_output(item) for item in items if item is not UNDEFINED]


def _output_object(members: dict[str, Any]) -> dict[str, Any]:
    return {name: to_output(item) for name, item in members.items() if item is not UNDEFINED}


_OUTPUT: Final[dict[type, Callable[[Any], Any]]] = {
    int: _output_int,
    float: _output_float,
    list: _output_array,
    dict: _output_object,
}
