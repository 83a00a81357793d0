"""Date and time functions. The text form of dates is defined in `instants`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from perseid.query.functions import instants
from perseid.query.functions.builtin import INTEGER, STRING, Builtin, CallContext
from perseid.query.functions.instants import DAY, HOUR, MINUTE, SECOND, Fields
from perseid.query.values import UNDEFINED

# The names of each part of a date.
_SPELLINGS: Final = {
    "year": ("year", "yyyy", "yy"),
    "month": ("month", "mm", "m"),
    "day": ("day", "dd", "d"),
    "hour": ("hour", "hh"),
    "minute": ("minute", "mi", "n"),
    "second": ("second", "ss", "s"),
    "millisecond": ("millisecond", "ms"),
    "microsecond": ("microsecond", "mcs"),
    "nanosecond": ("nanosecond", "ns"),
}
_PARTS: Final = {name: part for part, names in _SPELLINGS.items() for name in names}

_NS_PER_TICK: Final = 100
# The parts of fixed length, in nanoseconds, since a nanosecond is shorter than a tick.
_LENGTHS: Final = {
    "day": DAY * _NS_PER_TICK,
    "hour": HOUR * _NS_PER_TICK,
    "minute": MINUTE * _NS_PER_TICK,
    "second": SECOND * _NS_PER_TICK,
    "millisecond": 1_000_000,
    "microsecond": 1_000,
    "nanosecond": 1,
}
_MONTHS: Final = {"year": 12, "month": 1}

_READERS: Final[dict[str, Callable[[Fields], int]]] = {
    "year": lambda at: at.year,
    "month": lambda at: at.month,
    "day": lambda at: at.day,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
    "millisecond": lambda at: at.fraction // 10_000,
    "microsecond": lambda at: at.fraction // 10,
    "nanosecond": lambda at: at.fraction * _NS_PER_TICK,
}

_OLDEST_ORIGIN: Final = -116_444_736_000_000_000  # the first tick of 1601

_FORMAT_PIECE: Final = re.compile(
    r"\\(?P<escaped>.)|yyyy|MM?|dd?|HH?|hh?|mm?|ss?|f{1,7}|F{1,7}", re.DOTALL
)
_FORMATS: Final[dict[str, Callable[[Fields], str]]] = {
    "yyyy": lambda at: f"{at.year:04}",
    "MM": lambda at: f"{at.month:02}",
    "M": lambda at: f"{at.month}",
    "dd": lambda at: f"{at.day:02}",
    "d": lambda at: f"{at.day}",
    "HH": lambda at: f"{at.hour:02}",
    "H": lambda at: f"{at.hour}",
    "hh": lambda at: f"{(at.hour - 1) % 12 + 1:02}",
    "h": lambda at: f"{(at.hour - 1) % 12 + 1}",
    "mm": lambda at: f"{at.minute:02}",
    "m": lambda at: f"{at.minute}",
    "ss": lambda at: f"{at.second:02}",
    "s": lambda at: f"{at.second}",
}


# --- argument types


def PART(v: Any) -> Any:  # noqa: N802  # used like constants in the table
    """A name of a part of a date; the body gets the long name."""
    return _PARTS.get(v.lower(), UNDEFINED) if type(v) is str else UNDEFINED


def INSTANT(v: Any) -> Any:  # noqa: N802
    """A date as text; the body gets its ticks."""
    return _defined(instants.parse(v)) if type(v) is str else UNDEFINED


def POSITIVE(v: Any) -> Any:  # noqa: N802
    n = INTEGER(v)
    return n if n is not UNDEFINED and n > 0 else UNDEFINED


# --- now


def current_ticks(ctx: CallContext) -> int:
    # Rounded to microseconds, the finest unit that a double has for a date of today.
    return round(ctx.now * 1_000_000) * 10


def current_timestamp(ctx: CallContext) -> int:
    return to_timestamp(current_ticks(ctx))


def current_datetime(ctx: CallContext) -> Any:
    return to_text(current_ticks(ctx))


def now(ctx: CallContext, part: str | None = None, count: int | None = None) -> Any:
    if part is None:
        return current_datetime(ctx)
    return UNDEFINED if count is None else add(part, count, current_ticks(ctx))


def ago(ctx: CallContext, part: str, count: int) -> Any:
    return add(part, -count, current_ticks(ctx))


# --- arithmetic


def add(part: str, count: int, at: int) -> Any:
    return _defined(_added(part, count, at))


def bin_of(at: int, part: str, size: int = 1, origin: int = 0) -> Any:
    """The start of the bin that contains `at`; bins are counted from `origin`."""
    if origin < _OLDEST_ORIGIN:
        return UNDEFINED
    if part not in _MONTHS:
        length = _LENGTHS[part] * size
        passed = (at - origin) * _NS_PER_TICK // length * length
        return to_text(origin + passed // _NS_PER_TICK)
    months = _MONTHS[part] * size
    passed = difference("month", origin, at) // months * months
    start = instants.add_months(origin, passed)
    if start is not None and start > at:  # same month, but before the origin's day and time
        start = instants.add_months(origin, passed - months)
    return UNDEFINED if start is None else to_text(start)


def difference(part: str, start: int, end: int) -> int:
    """How many boundaries of `part` are between the two; negative if `end` is before `start`."""
    if part in _MONTHS:
        months = _MONTHS[part]
        return _months_of(end) // months - _months_of(start) // months
    length = _LENGTHS[part]
    return end * _NS_PER_TICK // length - start * _NS_PER_TICK // length


def _added(part: str, count: int, at: int) -> str | None:
    if part in _MONTHS:
        moved = instants.add_months(at, count * _MONTHS[part])
        return None if moved is None else instants.render(moved)
    return instants.render(at + count * _LENGTHS[part] // _NS_PER_TICK)


def _months_of(at: int) -> int:
    return instants.month_number(instants.take_apart(at))


# --- conversion


def to_text(at: int) -> Any:
    return _defined(instants.render(at))


def to_ticks(at: int) -> int:
    return at


def to_timestamp(at: int) -> int:
    return at // 10_000


def from_timestamp(timestamp: int) -> Any:
    return to_text(timestamp * 10_000)


def from_parts(*parts: int) -> Any:
    at = instants.combine(Fields(*parts))
    return UNDEFINED if at is None else to_text(at)


def part_of(part: str, at: int) -> int:
    return _READERS[part](instants.take_apart(at))


def year(at: int) -> int:
    return part_of("year", at)


def month(at: int) -> int:
    return part_of("month", at)


def day(at: int) -> int:
    return part_of("day", at)


def formatted(at: int, form: str) -> str:
    fields = instants.take_apart(at)
    return _FORMAT_PIECE.sub(lambda match: _format_piece(match, fields), form)


def _format_piece(match: re.Match[str], at: Fields) -> str:
    if match["escaped"] is not None:
        return match["escaped"]
    piece = match[0]
    if piece[0] not in "fF":
        return _FORMATS[piece](at)
    digits = f"{at.fraction:07}"[: len(piece)]
    return digits.rstrip("0") if piece[0] == "F" else digits


def _defined(text: Any) -> Any:
    return UNDEFINED if text is None else text


FUNCTIONS: Final = (
    Builtin("AGO", (PART, INTEGER), ago, timed=True),
    Builtin("DateTimeAdd", (PART, INTEGER, INSTANT), add),
    Builtin("DateTimeBin", (INSTANT, PART), bin_of, optional=(POSITIVE, INSTANT)),
    Builtin("DateTimeDiff", (PART, INSTANT, INSTANT), difference),
    Builtin("DateTimeFormat", (INSTANT, STRING), formatted),
    Builtin("DateTimeFromParts", (INTEGER,) * 3, from_parts, optional=(INTEGER,) * 4),
    Builtin("DateTimePart", (PART, INSTANT), part_of),
    Builtin("DateTimeToTicks", (INSTANT,), to_ticks),
    Builtin("DateTimeToTimestamp", (INSTANT,), to_timestamp),
    Builtin("DAY", (INSTANT,), day),
    Builtin("GetCurrentDateTime", (), current_datetime, timed=True),
    Builtin("GetCurrentDateTimeStatic", (), current_datetime, timed=True),
    Builtin("GetCurrentTicks", (), current_ticks, timed=True),
    Builtin("GetCurrentTicksStatic", (), current_ticks, timed=True),
    Builtin("GetCurrentTimestamp", (), current_timestamp, timed=True),
    Builtin("GetCurrentTimestampStatic", (), current_timestamp, timed=True),
    Builtin("MONTH", (INSTANT,), month),
    Builtin("NOW", (), now, optional=(PART, INTEGER), timed=True),
    Builtin("TicksToDateTime", (INTEGER,), to_text),
    Builtin("TimestampToDateTime", (INTEGER,), from_timestamp),
    Builtin("YEAR", (INSTANT,), year),
)
