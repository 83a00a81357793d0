"""Date and time functions at a fixed time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.query.functions import CallContext, dates, instants, lookup
from perseid.query.values import INT64_MAX, UNDEFINED, canonical

CONTEXT = CallContext(now=1893553445.678, random=lambda: 0.5)
NOW = "2030-01-02T03:04:05.6780000Z"
LEAP = "2024-02-29T12:30:15Z"
FINE = "2024-03-10T11:45:06.1234567Z"
FIRST = "0001-01-01T00:00:00.0000000Z"
LAST = "9999-12-31T23:59:59.9999999Z"

ROWS: list[tuple[str, list[Any], Any]] = [
    ("GetCurrentDateTime", [], NOW),
    ("GetCurrentDateTimeStatic", [], NOW),
    ("GetCurrentTimestamp", [], 1893553445678),
    ("GetCurrentTimestampStatic", [], 1893553445678),
    ("GetCurrentTicks", [], 18935534456780000),
    ("GetCurrentTicksStatic", [], 18935534456780000),
    ("NOW", [], NOW),
    ("NOW", ["dd", 1], "2030-01-03T03:04:05.6780000Z"),
    ("NOW", ["dd"], UNDEFINED),
    ("NOW", ["dd", UNDEFINED], UNDEFINED),
    ("NOW", ["eon", 1], UNDEFINED),
    ("NOW", ["dd", 0.5], UNDEFINED),
    ("NOW", ["yyyy", 1e300], UNDEFINED),
    ("AGO", ["hh", 2], "2030-01-02T01:04:05.6780000Z"),
    ("AGO", ["hh", -2], "2030-01-02T05:04:05.6780000Z"),
    ("AGO", ["hh", "2"], UNDEFINED),
    ("AGO", [2, "hh"], UNDEFINED),
    ("DateTimeAdd", ["mm", 1, "2023-01-31"], "2023-02-28T00:00:00.0000000Z"),
    ("DateTimeAdd", ["mm", 1, "2024-01-31"], "2024-02-29T00:00:00.0000000Z"),
    ("DateTimeAdd", ["mm", -13, "2024-03-31"], "2023-02-28T00:00:00.0000000Z"),
    ("DateTimeAdd", ["mm", 1, "2023-11-30"], "2023-12-30T00:00:00.0000000Z"),
    ("DateTimeAdd", ["yy", -1, LEAP], "2023-02-28T12:30:15.0000000Z"),
    ("DateTimeAdd", ["dd", 1, LEAP], "2024-03-01T12:30:15.0000000Z"),
    ("DateTimeAdd", ["hh", -13, LEAP], "2024-02-28T23:30:15.0000000Z"),
    ("DateTimeAdd", ["mi", 30, LEAP], "2024-02-29T13:00:15.0000000Z"),
    ("DateTimeAdd", ["ss", 45, LEAP], "2024-02-29T12:31:00.0000000Z"),
    ("DateTimeAdd", ["ms", 1, LEAP], "2024-02-29T12:30:15.0010000Z"),
    ("DateTimeAdd", ["mcs", 1, LEAP], "2024-02-29T12:30:15.0000010Z"),
    ("DateTimeAdd", ["ns", 250, LEAP], "2024-02-29T12:30:15.0000002Z"),
    ("DateTimeAdd", ["NS", 99, LEAP], "2024-02-29T12:30:15.0000000Z"),
    ("DateTimeAdd", ["dd", 1.0, "2024-01-01"], "2024-01-02T00:00:00.0000000Z"),
    ("DateTimeAdd", ["dd", 0.5, LEAP], UNDEFINED),
    ("DateTimeAdd", ["week", 1, LEAP], UNDEFINED),
    ("DateTimeAdd", ["dd", 1, "2024-02-30"], UNDEFINED),
    ("DateTimeAdd", ["dd", 1, 5], UNDEFINED),
    ("DateTimeAdd", ["ns", 100, LAST], UNDEFINED),
    ("DateTimeAdd", ["mm", 1, LAST], UNDEFINED),
    ("DateTimeAdd", ["ns", -1, FIRST], UNDEFINED),
    ("DateTimeAdd", ["yy", -1, FIRST], UNDEFINED),
    ("DateTimeAdd", ["yy", 1e308, LEAP], UNDEFINED),
    ("DateTimeAdd", ["ss", -1e308, LEAP], UNDEFINED),
    ("DateTimeBin", ["2024-03-10T11:45:00Z", "hh", 6], "2024-03-10T06:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "dd"], "2024-03-10T00:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "ns", 1000], "2024-03-10T11:45:06.1234560Z"),
    ("DateTimeBin", [FINE, "ns"], FINE),
    ("DateTimeBin", [FINE, "mm"], "2024-03-01T00:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "mm", 3], "2024-01-01T00:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "yyyy", 10], "2020-01-01T00:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "mm", 1, "2020-01-15"], "2024-02-15T00:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "dd", 7, "2024-03-04"], "2024-03-04T00:00:00.0000000Z"),
    ("DateTimeBin", ["1969-12-31T23:00:00Z", "dd"], "1969-12-31T00:00:00.0000000Z"),
    ("DateTimeBin", ["1969-12-31", "yy", 2], "1968-01-01T00:00:00.0000000Z"),
    ("DateTimeBin", ["1960-01-01", "yy", 1e300], UNDEFINED),
    ("DateTimeBin", ["1960-01-01", "dd", 1e300], UNDEFINED),
    ("DateTimeBin", [FINE, "dd", 1e300], "1970-01-01T00:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "hh", 0], UNDEFINED),
    ("DateTimeBin", [FINE, "hh", -1], UNDEFINED),
    ("DateTimeBin", [FINE, "hh", 1.5], UNDEFINED),
    ("DateTimeBin", [FINE, "hh", 1, "1600-12-31"], UNDEFINED),
    ("DateTimeBin", [FINE, "hh", 1, "1601-01-01"], "2024-03-10T11:00:00.0000000Z"),
    ("DateTimeBin", [FINE, "fortnight"], UNDEFINED),
    ("DateTimeBin", ["yesterday", "dd"], UNDEFINED),
    ("DateTimeDiff", ["yyyy", "2023-12-31", "2024-01-01"], 1),
    ("DateTimeDiff", ["mm", "2024-01-31", "2023-11-01"], -2),
    ("DateTimeDiff", ["dd", "2024-01-01T23:59:00Z", "2024-01-02T00:01:00Z"], 1),
    ("DateTimeDiff", ["dd", "1969-12-31T23:59:00Z", "1970-01-01T00:01:00Z"], 1),
    ("DateTimeDiff", ["hh", "2024-01-01T10:59:59Z", "2024-01-01T11:00:00Z"], 1),
    ("DateTimeDiff", ["mi", LEAP, LEAP], 0),
    ("DateTimeDiff", ["ss", "2024-01-01T00:00:01Z", "2024-01-01"], -1),
    ("DateTimeDiff", ["ms", "2024-01-01", "2024-01-01T00:00:00.0019999Z"], 1),
    ("DateTimeDiff", ["mcs", "2024-01-01", "2024-01-01T00:00:00.0000019Z"], 1),
    ("DateTimeDiff", ["ns", "2024-01-01", "2024-01-01T00:00:00.0000001Z"], 100),
    ("DateTimeDiff", ["q", LEAP, LEAP], UNDEFINED),
    ("DateTimeDiff", ["dd", LEAP, None], UNDEFINED),
    ("DateTimeFormat", ["2024-05-06 07:08:09", "dd/MM/yyyy"], "06/05/2024"),
    ("DateTimeFormat", ["2024-05-06 07:08:09", "d.M H:m:s"], "6.5 7:8:9"),
    ("DateTimeFormat", ["2024-05-06 17:08:09", "HH:mm:ss hh h"], "17:08:09 05 5"),
    ("DateTimeFormat", ["2024-05-06 00:08:09", "hh h"], "12 12"),
    ("DateTimeFormat", ["2024-05-06 12:08:09", "hh"], "12"),
    ("DateTimeFormat", [FINE, "f ff fff ffff fffff ffffff fffffff"],
     "1 12 123 1234 12345 123456 1234567"),
    ("DateTimeFormat", ["2024-05-06 07:08:09.1200", "ss.FFFFFFF|s.FF"], "09.12|9.12"),
    ("DateTimeFormat", ["2024-05-06 07:08:09", "ss.FFF"], "09."),
    ("DateTimeFormat", ["2024-05-06", r"yyyy\y\M\\ 'x'"], "2024yM\\ 'x'"),
    ("DateTimeFormat", ["2024-05-06", "yy\\"], "yy\\"),
    ("DateTimeFormat", ["0001-01-01", "yyyy"], "0001"),
    ("DateTimeFormat", ["2024-05-06", ""], ""),
    ("DateTimeFormat", ["2024-05-06", 1], UNDEFINED),
    ("DateTimeFormat", ["2024-5-6", "yyyy"], UNDEFINED),
    ("DateTimeFromParts", [2024, 2, 29, 1], "2024-02-29T01:00:00.0000000Z"),
    ("DateTimeFromParts", [2024, 2, 29], "2024-02-29T00:00:00.0000000Z"),
    ("DateTimeFromParts", [2024, 2, 29, 1, 2, 3, 4], "2024-02-29T01:02:03.0000004Z"),
    ("DateTimeFromParts", [9999, 12, 31, 23, 59, 59, 9999999], LAST),
    ("DateTimeFromParts", [2023, 2, 29], UNDEFINED),
    ("DateTimeFromParts", [0, 1, 1], UNDEFINED),
    ("DateTimeFromParts", [10000, 1, 1], UNDEFINED),
    ("DateTimeFromParts", [1e300, 1, 1], UNDEFINED),
    ("DateTimeFromParts", [-2024, 1, 1], UNDEFINED),
    ("DateTimeFromParts", [2024, 1, 1, 24], UNDEFINED),
    ("DateTimeFromParts", [2024, 1, 1, 0, 60], UNDEFINED),
    ("DateTimeFromParts", [2024, 1, 1, 0, 0, -1], UNDEFINED),
    ("DateTimeFromParts", [2024, 1, 1, 0, 0, 0, 10_000_000], UNDEFINED),
    ("DateTimeFromParts", [2024, 1.5, 1], UNDEFINED),
    ("DateTimeFromParts", [2024, "1", 1], UNDEFINED),
    ("DateTimeFromParts", [2024, 1, UNDEFINED], UNDEFINED),
    ("DateTimePart", ["ns", "2024-01-01T00:00:00.5Z"], 500000000),
    ("DateTimePart", ["mcs", FINE], 123456),
    ("DateTimePart", ["ms", FINE], 123),
    ("DateTimePart", ["ss", FINE], 6),
    ("DateTimePart", ["mi", FINE], 45),
    ("DateTimePart", ["hh", FINE], 11),
    ("DateTimePart", ["dd", FINE], 10),
    ("DateTimePart", ["mm", FINE], 3),
    ("DateTimePart", ["yyyy", FINE], 2024),
    ("DateTimePart", ["weekday", FINE], UNDEFINED),
    ("DateTimePart", ["dd", 20240310], UNDEFINED),
    ("DateTimePart", [UNDEFINED, FINE], UNDEFINED),
    ("DateTimeToTicks", ["1970-01-01T00:00:01Z"], 10000000),
    ("DateTimeToTicks", ["1969-12-31T23:59:59.9999999Z"], -1),
    ("DateTimeToTicks", ["1970-01-01T00:00Z"], UNDEFINED),
    ("DateTimeToTicks", [0], UNDEFINED),
    ("DateTimeToTimestamp", [LEAP], 1709209815000),
    ("DateTimeToTimestamp", ["1969-12-31T23:59:59.9995Z"], -1),
    ("DateTimeToTimestamp", [None], UNDEFINED),
    ("TicksToDateTime", [10000000], "1970-01-01T00:00:01.0000000Z"),
    ("TicksToDateTime", [-1], "1969-12-31T23:59:59.9999999Z"),
    ("TicksToDateTime", [instants.MIN_TICKS], FIRST),
    ("TicksToDateTime", [instants.MIN_TICKS - 1], UNDEFINED),
    ("TicksToDateTime", [instants.MAX_TICKS], LAST),
    ("TicksToDateTime", [instants.MAX_TICKS + 1], UNDEFINED),
    ("TicksToDateTime", [INT64_MAX], UNDEFINED),
    ("TicksToDateTime", [0.5], UNDEFINED),
    ("TicksToDateTime", ["0"], UNDEFINED),
    ("TimestampToDateTime", [1709209815000], "2024-02-29T12:30:15.0000000Z"),
    ("TimestampToDateTime", [-1], "1969-12-31T23:59:59.9990000Z"),
    ("TimestampToDateTime", [1e300], UNDEFINED),
    ("TimestampToDateTime", [math.inf], UNDEFINED),
    ("TimestampToDateTime", [None], UNDEFINED),
    ("YEAR", ["2024-02-29"], 2024),
    ("YEAR", ["2024"], UNDEFINED),
    ("MONTH", ["2024-02-29"], 2),
    ("MONTH", [2], UNDEFINED),
    ("DAY", ["2024-02-29"], 29),
    ("DAY", ["2023-02-29"], UNDEFINED),
    ("DAY", [UNDEFINED], UNDEFINED),
]  # fmt: skip


def call(name: str, *args: Any) -> Any:
    function = lookup(name)
    assert function is not None
    return function.call(CONTEXT, args)


@pytest.mark.parametrize(("name", "args", "result"), ROWS)
def test_date_functions(name: str, args: list[Any], result: Any) -> None:
    assert canonical(call(name, *args)) == canonical(result)


def test_every_date_function_has_a_row() -> None:
    assert {f.name for f in dates.FUNCTIONS} == {name for name, _, _ in ROWS}


def test_functions_of_the_current_time_are_not_deterministic() -> None:
    clocked = {f.name for f in dates.FUNCTIONS if not f.deterministic}
    assert clocked == {name for name in clocked if name in ("NOW", "AGO") or "Current" in name}
    assert len(clocked) == 8


@pytest.mark.parametrize(("spellings", "part"), [
    ("year yyyy yy YEAR", 2024), ("month mm m Month", 3), ("day dd d", 10), ("hour hh", 11),
    ("minute mi n", 45), ("second ss s", 6), ("millisecond ms", 123), ("microsecond mcs", 123456),
    ("nanosecond ns", 123456700),
])  # fmt: skip
def test_spellings_of_parts(spellings: str, part: int) -> None:
    assert {call("DateTimePart", spelling, FINE) for spelling in spellings.split()} == {part}


moments = st.datetimes(timezones=st.just(UTC))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(moment: datetime) -> str:
    return f"{moment:%H:%M:%S.%f}".join((f"{moment.date().isoformat()}T", "0Z"))


@settings(deadline=None)
@given(moments)
def test_ticks_agree_with_the_standard_library(moment: datetime) -> None:
    ticks = (moment - EPOCH) // timedelta(microseconds=1) * 10
    assert call("DateTimeToTicks", text_of(moment)) == ticks
    assert call("TicksToDateTime", ticks) == text_of(moment)


@settings(deadline=None)
@given(moments, moments, st.sampled_from(sorted(dates._LENGTHS)))
def test_differences_of_bins_are_differences(a: datetime, b: datetime, part: str) -> None:
    start, end = text_of(a), text_of(b)
    count = call("DateTimeDiff", part, start, end)
    bins = [call("DateTimeBin", moment, part) for moment in (start, end)]
    assert count == call("DateTimeDiff", part, *bins)
    if part != "nanosecond":
        assert call("DateTimeAdd", part, count, bins[0]) == bins[1]


@settings(deadline=None)
@given(moments, st.sampled_from(["year", "month"]), st.integers(1, 30), moments)
def test_calendar_bins_contain_their_time(
    a: datetime, part: str, size: int, origin: datetime
) -> None:
    moment = text_of(a)
    start = call("DateTimeBin", moment, part, size, text_of(origin))
    if origin.year < 1601 or start is UNDEFINED:  # the bin may begin before the year 1
        return
    assert start <= moment
    assert call("DateTimeDiff", part, start, moment) <= size
