"""A short form of `make faults`: nothing is lost, doubled, or seen after its expiry."""

from __future__ import annotations

from typing import Final

import pytest

from tests.faults.play import FAULTS, play
from tests.support.waiting import TooSlow, repeat_if_slow

# One after the other, also with those of tests/hostile: they need the machine.
pytestmark = [pytest.mark.xdist_group("hostile"), pytest.mark.slow]

SECONDS: Final = 4.0
SHORT: Final = (
    ("kills", "sqlite"),
    ("kills-and-clocks", "sqlite"),
    ("flipped-bits", "sqlite"),
    ("missing-file", "sqlite"),
    ("kills", "postgres"),
    ("cut-connections", "postgres"),
)


@pytest.mark.parametrize(
    ("name", "store"),
    [
        pytest.param(*each, marks=pytest.mark.only_on(each[1], reason="the fault is its own"))
        for each in SHORT
    ],
)
def test_nothing_is_lost(name: str, store: str) -> None:
    def attempt(factor: int) -> None:
        result = play(FAULTS[name], store, SECONDS * factor, seed=1)
        assert result.counts == {}, result.examples
        assert result.rounds > 0
        if result.acknowledged == 0:
            raise TooSlow("no write was acknowledged before the fault")

    repeat_if_slow(attempt)
