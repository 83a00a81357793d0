"""A short form of `make hostile`: counts, hangs, memory and ratios to an idle server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.hostile.attack import Scenario
from tests.hostile.play import HONEST, OPTIONS, counted_failures, play
from tests.hostile.probe import ITEM, Probe, probing
from tests.hostile.scenarios import SCENARIOS
from tests.hostile.scenarios.catalog import database_delete
from tests.support.builders import create_container
from tests.support.processes import server_process
from tests.support.stores import SQLITE
from tests.support.waiting import TooSlow, repeat_if_slow

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


@pytest.fixture(scope="module")
def unattacked() -> Iterator[Probe]:
    """Reads from a server that shares the machine with the attacked ones."""
    with SQLITE.place() as place, server_process(place.lasting(), *OPTIONS) as server:
        assert server.raw.post("/dbs", {"id": "d"}).status == 201
        path = create_container(server.raw, "/dbs/d", HONEST.rpartition("/")[2])
        assert server.raw.post(f"{path}/docs", ITEM, pk='["probe"]').status == 201
        with probing(server.endpoint, path) as probe:
            yield probe


@pytest.mark.parametrize("name", SHORT)
def test_others_notice_little(name: str, unattacked: Probe) -> None:
    repeat_if_slow(lambda _: _attack(name, unattacked))


def _attack(name: str, unattacked: Probe) -> None:
    with SQLITE.place() as place:
        seconds = LONGER.get(name, ATTACK_SECONDS)
        result = play(scenario(name), place, seconds, seed=1, idle=IDLE_SECONDS, other=unattacked)
    assert counted_failures(result) == [], result.tally.examples
    assert not result.has_crashed
    assert result.server_megabytes <= result.scenario.limits.server_megabytes
    assert result.worker_megabytes <= result.scenario.limits.worker_megabytes
    if result.tally.requests == 0:
        raise TooSlow("the attack has not begun")
    if result.hangs:
        raise TooSlow(f"{result.hangs} hangs: {result.idle}, {result.during}")
    assert result.unattacked is not None
    # A machine that turns busy between the idle part and the attack slows the attack alone, but it
    # slows the other server as well. A client that is woken up late shows how long everyone waits.
    usual = max(result.idle.p50, result.unattacked.p50)
    allowed = RATIO * usual + result.during.late_p99
    if result.during.p50 > allowed:
        latencies = f"{result.idle}, {result.unattacked}, {result.during}"
        raise TooSlow(f"{result.during.p50} ms above {allowed}: {latencies}")
