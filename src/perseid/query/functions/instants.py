"""Points in time as ticks of 100 ns since 1970, and their text form.

UTC only, Gregorian calendar, years 1 to 9999. `render` returns None for ticks outside of these
years, `parse` for text in another form. The current time is not read here.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import Final, NamedTuple

SECOND: Final = 10_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
MIN_TICKS: Final = (date.min.toordinal() - _EPOCH_DAY) * DAY
MAX_TICKS: Final = (date.max.toordinal() - _EPOCH_DAY + 1) * DAY - 1

_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:Z|[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,7}))?Z?)?", re.ASCII
)


class Fields(NamedTuple):
    """The fields of a point in time; `fraction` is in ticks."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    fraction: int = 0


def is_in_range(ticks: int) -> bool:
    return MIN_TICKS <= ticks <= MAX_TICKS


def combine(fields: Fields) -> int | None:
    """The ticks of `fields`, or None if there is no such date or time."""
    year, month, day, hour, minute, second, fraction = fields
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= fraction < SECOND):
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except (ValueError, OverflowError):
        return None
    return days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + fraction


def take_apart(ticks: int) -> Fields:
    """The fields of `ticks`, which must be in range."""
    days, rest = divmod(ticks, DAY)
    day = date.fromordinal(days + _EPOCH_DAY)
    hour, rest = divmod(rest, HOUR)
    minute, rest = divmod(rest, MINUTE)
    return Fields(day.year, day.month, day.day, hour, minute, *divmod(rest, SECOND))


def parse(text: str) -> int | None:
    """The ticks of a date, or a date and time, in the language's form."""
    matched = _FORM.fullmatch(text)
    if matched is None:
        return None
    *numbers, fraction = matched.groups(default="0")
    return combine(Fields(*map(int, (*numbers, fraction.ljust(7, "0")))))


def render(ticks: int) -> str | None:
    """The text of `ticks` with all seven digits of the fraction."""
    if not is_in_range(ticks):
        return None
    year, month, day, hour, minute, second, fraction = take_apart(ticks)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z"


def add_months(ticks: int, months: int) -> int | None:
    """The same day and time `months` later, or the last day of a shorter month."""
    fields = take_apart(ticks)
    year, month = divmod(month_number(fields) + months, 12)
    if not date.min.year <= year <= date.max.year:
        return None
    day = min(fields.day, monthrange(year, month + 1)[1])
    return combine(fields._replace(year=year, month=month + 1, day=day))


def month_number(fields: Fields) -> int:
    """Months since the start of the year 0."""
    return fields.year * 12 + fields.month - 1
