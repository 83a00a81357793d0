"""Admission: how many items a page returns within an allowance."""

from __future__ import annotations

from math import inf

import pytest

from perseid import charges
from perseid.service.throughput.admission import affordable_count

KB = 1024
CHARGE = charges.read(KB)


@pytest.mark.parametrize(
    ("allowance", "count"),
    [(inf, 4), (0.0, 1), (-1.0, 1), (CHARGE, 1), (CHARGE * 1.5, 2), (CHARGE * 4, 4)],
)
def test_affordable_count_is_at_least_one(allowance: float, count: int) -> None:
    assert affordable_count(allowance, [KB] * 4) == count


def test_an_empty_page_is_affordable() -> None:
    assert affordable_count(0.0, []) == 0
