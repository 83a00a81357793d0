"""A short form of `make hostile`: counts, hangs, memory and ratios to an idle server."""

from __future__ import annotations

from typing import Final

import pytest

from tests.hostile.attack import Scenario
from tests.hostile.play import counted_failures, play
from tests.hostile.scenarios import SCENARIOS
from tests.hostile.scenarios.catalog import database_delete
from tests.support.stores import SQLITE

# One after the other, also with those of tests/faults: they need the machine.
pytestmark = [pytest.mark.xdist_group("hostile"), pytest.mark.slow]

ATTACK_SECONDS: Final = 2.0
LONGER: Final = {"heavy-queries": 4.0, "memory-bombs": 4.0}  # processes are started first
IDLE_SECONDS: Final = 0.7
# How many times slower the usual point read of others may be: a machine may be busy.
RATIO: Final = 20.0
SHORT: Final = (
    "conditional-patches",
    "slow-bodies",
    "endless-bodies",
    "tiny-segments",
    "h2-slow-bodies",
    "h2-waiting-bodies",
    "h2-endless-bodies",
    "h2-tiny-frames",
    "h2-rapid-resets",
    "h2-header-bombs",
    "h2-continuations",
    "h2-unread-pages",
    "metadata-queries",
    "memory-bombs",
    "index-churn",
    "heavy-queries",
    "large-patches",
    "database-delete",
    "fuzz",
    "tokens",
)


def scenario(name: str) -> Scenario:
    return database_delete(120) if name == "database-delete" else SCENARIOS[name]


@pytest.mark.parametrize("name", SHORT)
def test_others_notice_little(name: str) -> None:
    with SQLITE.place() as place:
        seconds = LONGER.get(name, ATTACK_SECONDS)
        result = play(scenario(name), place, seconds, seed=1, idle=IDLE_SECONDS)
    assert counted_failures(result) == [], result.tally.examples
    assert not result.has_crashed
    assert result.hangs == 0
    assert result.server_megabytes <= result.scenario.limits.server_megabytes
    assert result.worker_megabytes <= result.scenario.limits.worker_megabytes
    assert result.tally.requests > 0
    # A client that is itself woken up late shows how long the machine makes everyone wait.
    allowed = RATIO * result.idle.p50 + result.during.late_p99
    assert result.during.p50 <= allowed, (result.idle, result.during)
