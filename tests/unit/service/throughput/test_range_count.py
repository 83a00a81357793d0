"""How many physical ranges a new container gets for its throughput."""

from __future__ import annotations

import pytest

from perseid.service.throughput.rules import autoscale, manual, range_count


@pytest.mark.parametrize(
    ("throughput", "count"),
    [(400, 1), (1000, 1), (6000, 1), (6100, 2), (10_000, 2), (12_000, 2), (12_100, 3),
     (18_000, 3), (20_000, 4), (21_000, 4), (22_000, 4), (25_000, 5), (25_100, 5),
     (30_000, 5), (1_000_000, 167)],
)  # fmt: skip
def test_manual_throughput_gives_a_range_for_6000(throughput: int, count: int) -> None:
    assert range_count(manual(throughput), is_shared=False) == count


@pytest.mark.parametrize(
    ("most", "count"), [(1000, 1), (10_000, 1), (11_000, 2), (20_000, 2), (25_000, 3)]
)
def test_autoscale_gives_a_range_for_10000_of_the_maximum(most: int, count: int) -> None:
    assert range_count(autoscale(most), is_shared=False) == count
    assert range_count(autoscale(most), is_shared=True) == count


@pytest.mark.parametrize(("throughput", "count"), [(400, 1), (10_000, 1), (12_000, 2)])
def test_a_shared_database_gives_a_range_for_10000(throughput: int, count: int) -> None:
    assert range_count(manual(throughput), is_shared=True) == count
