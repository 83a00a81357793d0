"""Instants and durations as commands read and print them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

from perseid.durations import NUMBER, UNITS, as_int_if_whole, seconds_of

_NUMBER: Final = re.compile(NUMBER, re.ASCII)
_DURATIONS: Final = "90, 90s, 15m, 2h, 3d or 1w"


def parse_duration(text: str) -> float:
    """Seconds from 90, 90s, 15m, 2h, 3d or 1w."""
    seconds = seconds_of(text)
    if seconds is None:
        problem = "is negative, and not" if is_negative(text) else "is not"
        raise click.BadParameter(f"'{text}' {problem} a duration like {_DURATIONS}.")
    return seconds


def parse_lifetime(text: str) -> float:
    """The ttl of an item: seconds from a duration, or -1 for an item that never expires."""
    if is_negative(text) and text != "-1":
        raise click.BadParameter(
            f"'{text}' is negative; a ttl is a duration like {_DURATIONS}, or -1: the item never"
            " expires."
        )
    return -1 if text == "-1" else parse_duration(text)


def parse_default_ttl(text: str, hint: str = "--default-ttl") -> float | None:
    """The defaultTtl of a container: seconds, -1 for `none` (no default), None for `off`."""
    word = text.lower()
    if word == "off":
        return None
    if word in ("none", "-1"):
        return -1
    seconds = seconds_of(text)
    if seconds is None:
        problem = "is negative" if is_negative(text) else "is not a duration"
        raise click.BadParameter(
            f"'{text}' {problem}; give a duration like {_DURATIONS}, or -1 or none (items never"
            " expire by default, only by their own ttl), or off (no item expires).",
            param_hint=hint,
        )
    return seconds


def is_negative(text: str) -> bool:
    """True for a duration with a minus sign."""
    return text.startswith("-") and seconds_of(text[1:]) is not None


def parse_instant(text: str) -> float:
    """Seconds since 1970 from such a number or an ISO date. A date without a zone is UTC."""
    if _NUMBER.fullmatch(text):
        return as_int_if_whole(float(text))
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"'{text}' is neither seconds since 1970 nor a date like 2030-01-31T12:00:00Z."
        ) from None
    return as_int_if_whole((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())


def instant_text(seconds: float | None) -> str:
    """The date in UTC with the seconds since 1970; "never" for None."""
    if seconds is None:
        return "never"
    try:
        date = datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):  # after the year 9999
        return str(seconds)
    return f"{date:%Y-%m-%d %H:%M:%S}Z ({int(seconds)})"


def duration_text(seconds: float) -> str:
    """The two largest units: 1d 2h, 3m 20s, 5s."""
    rest, parts = int(seconds), []
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
