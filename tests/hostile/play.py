"""Runs one scenario against a server of its own, and judges what others noticed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.hostile.attack import READ_ONLY_KEY, Attack, Limits, Scenario, Tally
from tests.hostile.memory import MEGABYTE, sampled
from tests.hostile.probe import ITEM, Latencies, Probe, probing
from tests.support.builders import create_container
from tests.support.processes import ServerProcess, server_process
from tests.support.raw import RawClient
from tests.support.stores import Place

STOP_BYTES: Final = 1536 * MEGABYTE  # an attack ends here: the machine belongs to others, too
HONEST, ATTACKED = "/dbs/d/colls/honest", "/dbs/d/colls/attacked"
WARM_UP_SECONDS: Final = 0.3
CALM_MS: Final = 50.0
IDLE_PARTS: Final = 4
OPTIONS: Final = ("--read-only-key", READ_ONLY_KEY, "--log-level", "error")


@dataclass(frozen=True)
class Result:
    """What one scenario did."""

    scenario: Scenario
    tally: Tally
    idle: Latencies
    during: Latencies
    server_megabytes: int
    worker_megabytes: int
    worker_count: int
    has_crashed: bool
    tracebacks: int
    seconds: float
    failures: list[str] = field(default_factory=list)
    unattacked: Latencies | None = None  # of another server, at the same time

    @property
    def hangs(self) -> int:
        return self.during.hangs + self.tally.statuses["unanswered"]


def judge(result: Result, limits: Limits) -> list[str]:
    """What is wrong, in the words of the table; empty if the scenario passed."""
    wrong = []
    during = result.during
    if result.has_crashed:
        wrong.append("the server ended")
    # If the machine is so busy that an idle server is slow, that is no fault of the server.
    allowed = max(limits.p99_ms, 2 * result.idle.p99)
    if during.p99 > allowed:
        wrong.append(f"p99 {during.p99:.0f} ms above {allowed:.0f}")
    if during.create_p99 > limits.create_p99_ms:
        wrong.append(f"creates {during.create_p99:.0f} ms above {limits.create_p99_ms:g}")
    if result.server_megabytes > limits.server_megabytes:
        wrong.append(f"server {result.server_megabytes} MB above {limits.server_megabytes}")
    if result.worker_megabytes > limits.worker_megabytes:
        wrong.append(f"workers {result.worker_megabytes} MB above {limits.worker_megabytes}")
    if result.hangs:
        wrong.append(f"{result.hangs} hangs")
    return wrong + counted_failures(result)


def counted_failures(result: Result) -> list[str]:
    """What is wrong on a machine of any speed."""
    wrong = [
        f"{count}x {failure}"
        for failure, count in result.tally.failures.items()
        if failure != "unanswered"  # counted as hangs
    ]
    bad = {name: count for name, count in result.during.statuses.items() if name != "timeout"}
    if bad and not result.has_crashed:
        wrong.append(f"other clients got {bad}")
    if result.tracebacks:
        wrong.append(f"{result.tracebacks} tracebacks in the log")
    return wrong


def _idle(probe: Probe, seconds: float) -> Latencies:
    """What is measured without an attack, after what the preparation has left is done.

    The calmest part counts: a machine that is busy with something else must not raise the limits.
    """
    for _ in range(20):
        time.sleep(WARM_UP_SECONDS)
        if probe.report().highest < CALM_MS:
            break
    parts = []
    for _ in range(IDLE_PARTS):
        time.sleep(seconds / IDLE_PARTS)
        parts.append(probe.report())
    return min(parts, key=lambda part: part.p99)


def play(
    scenario: Scenario,
    place: Place,
    seconds: float,
    seed: int,
    idle: float = 1.5,
    other: Probe | None = None,
) -> Result:
    """Starts a server, measures it idle, attacks it for so many seconds, and ends it.

    `other` is the probe of a server that is not attacked: it shows what the machine does.
    """
    with (
        TemporaryDirectory(prefix="perseid-hostile-") as folder,
        _server(place, scenario, Path(folder) / "output.txt") as server,
        probing(server.endpoint, HONEST) as probe,
    ):
        before = _idle(probe, idle)
        attack = Attack(server.endpoint, ATTACKED, seconds, seed)
        started = time.monotonic()
        if other is not None:
            other.report()  # what follows is measured from here on
        with sampled(server.child.pid, STOP_BYTES, attack.stop.set) as peaks:
            scenario.run(attack)
            attack.stop.wait(0.5)  # what the attack left behind shows now
            during = probe.report()
            unattacked = other.report() if other is not None else None
        has_crashed = server.child.poll() is not None
        attack.stop.set()
        taken = time.monotonic() - started
        server.child.kill()
        server.child.wait()
        attack.finish()
        tracebacks = (Path(folder) / "output.txt").read_text(errors="replace").count("Traceback (")
    result = Result(
        scenario,
        attack.tally,
        before,
        during,
        peaks.server // MEGABYTE,
        peaks.workers // MEGABYTE,
        peaks.worker_count,
        has_crashed,
        tracebacks,
        taken,
        unattacked=unattacked,
    )
    result.failures.extend(judge(result, scenario.limits))
    return result


@contextmanager
def _server(place: Place, scenario: Scenario, output: Path) -> Iterator[ServerProcess]:
    """A server with the data of the probe and of the scenario."""
    settings = place.lasting()
    with server_process(settings, *OPTIONS, *scenario.options, output=output) as server:
        raw = server.raw
        assert raw.post("/dbs", {"id": "d"}).status == 201
        for path in (HONEST, ATTACKED):
            create_container(raw, "/dbs/d", path.rpartition("/")[2])
        assert raw.post(f"{HONEST}/docs", ITEM, pk='["probe"]').status == 201
        # Preparing may take a while on a busy machine.
        with closing(RawClient(server.endpoint, timeout=120)) as patient:
            scenario.prepare(patient, ATTACKED)
        yield server
