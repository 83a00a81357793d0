"""`perseid import --age-from`: the second of an item's last write, read from one of its properties.

The server counts lifetimes from the `_ts` that an imported item brings, so it is put there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import click

from perseid.commands.item_files import Record
from perseid.commands.output import printable
from perseid.commands.time_text import parse_instant
from perseid.documents import strip_system

_LATEST: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


def check_property(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    if name == "":
        raise click.BadParameter("The name of the property is empty.")
    return name


def dated(records: Iterable[Record], property_name: str) -> Iterator[Record]:
    """The records with the date in the property as `_ts`, or with a problem if it is no date."""
    for record in records:
        yield _dated(record, property_name)


def _dated(record: Record, property_name: str) -> Record:
    # Only objects can have a date. The server says what is wrong with anything else.
    if record.problem is not None or not isinstance(record.value, dict):
        return record
    try:
        item = json.loads(record.text, parse_int=float)  # of long numbers, too
    except (ValueError, RecursionError):
        return record
    if property_name not in item:
        return _without_age(record, f"it has no property '{printable(property_name)}'")
    try:
        seconds = _seconds(item[property_name])
    except ValueError as exc:
        return _without_age(record, f"its '{printable(property_name)}' is {exc}")
    members = strip_system(record.text.strip())[:-1].rstrip()
    comma = b"" if members.endswith(b"{") else b","
    return record._replace(text=b'%b%b"_ts":%d}' % (members, comma, seconds))


def _without_age(record: Record, reason: str) -> Record:
    return record._replace(problem=f"The item has no age: {reason}.")


def _seconds(value: Any) -> int:
    """Whole seconds since 1970; ValueError says what the value is instead."""
    if isinstance(value, str):
        try:
            value = parse_instant(value)
        except click.BadParameter:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError("neither seconds since 1970 nor a date like 2030-01-31T12:00:00Z")
    if value < 0:
        raise ValueError("before 1970")
    if value > _LATEST:
        raise ValueError("after the year 9999; milliseconds are not accepted")
    return math.floor(value)
