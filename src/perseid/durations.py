"""Durations as people write them: 90, 90s, 15m, 2h, 3d, 1w. Pure."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
# The limit on digits keeps the float finite and the conversion to int exact.
NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"
_DURATION: Final = re.compile(rf"({NUMBER})([smhdw]?)", re.ASCII)


def seconds_of(text: str) -> float | None:
    """The number of seconds, an int if it is whole; None if the text is not a duration."""
    match = _DURATION.fullmatch(text)
    return None if match is None else as_int_if_whole(float(match[1]) * UNITS[match[2]])


def as_int_if_whole(number: float) -> float:
    """The same number, an int if it is whole: JSON distinguishes 60 from 60.0."""
    return int(number) if number == int(number) else number
