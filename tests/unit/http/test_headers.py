"""What request headers mean, where it takes more than a comparison to say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from perseid.http.headers import parse_date


@pytest.fixture(autouse=True)
def _far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Tue, 01 Jan 2030 00:00:00 GMT", 1893456000),
        ("Tue, 01 Jan 2030 00:00:00 -0000", 1893456000),
        ("Tue, 01 Jan 2030 00:00:00", 1893456000),
        ("01 Jan 2030 09:00:00 +0900", 1893456000),
        ("yesterday", None),
        ("", None),
        ("Tue, 32 Jan 2030 00:00:00 GMT", None),
        ("Tue, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_dates_without_a_zone_are_of_greenwich(text: str, seconds: int | None) -> None:
    assert parse_date(text) == seconds
