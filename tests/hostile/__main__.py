"""Attacks a real server for some time: `python -m tests.hostile 600`.

Each scenario gets a server of its own and its share of the time. The last line is the verdict, and
the exit code is 1 if a scenario failed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import traceback

from tests.hostile import report
from tests.hostile.attack import Scenario
from tests.hostile.play import Result, play
from tests.hostile.scenarios import SCENARIOS
from tests.support.stores import STORES, Place

START_SECONDS = 4.0  # of the share of a scenario: a server starts and is measured idle


def seconds_for(scenario: Scenario, chosen: list[Scenario], total: float) -> float:
    """How long the attack may take."""
    part = total * scenario.share / sum(each.share for each in chosen)
    return max(scenario.least_seconds, part - START_SECONDS)


def run(
    chosen: list[Scenario], place: Place, total: float, seed: int
) -> tuple[list[Result], list[str]]:
    """Plays the scenarios one after the other, and prints a row after each.

    Also returns the names of those that could not be played, such as by a server that ended.
    """
    print(report.LEGEND)
    print(report.header(), flush=True)
    results: list[Result] = []
    broken: list[str] = []
    for scenario in chosen:
        try:
            result = play(scenario, place, seconds_for(scenario, chosen, total), seed)
        except Exception:
            traceback.print_exc()
            broken.append(scenario.name)
            continue
        results.append(result)
        print(report.row(result))
        print("\n".join(report.details(result)), flush=True)
    return results, broken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("seconds", type=float, nargs="?", default=120.0)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="of the random requests")
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    options = parser.parse_args()
    if options.list:
        for scenario in SCENARIOS.values():
            note = "" if scenario.is_met else " (limits not met: runs with --only)"
            print(f"{scenario.name:20} {scenario.description}{note}")
        return 0
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.seconds:g} s on {options.store}")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        print(f"The machine is busy ({load}): the times below are not the server's alone.")
    left_out = [] if options.only else [each.name for each in SCENARIOS.values() if not each.is_met]
    chosen = [SCENARIOS[name] for name in options.only or SCENARIOS if name not in left_out]
    with STORES[options.store].place() as place:
        results, broken = run(chosen, place, options.seconds, seed)
    print("\n".join([report.header(), *map(report.row, results)]))
    failed = [result.scenario.name for result in results if result.failures] + broken
    if left_out:
        print(f"not run, because its limits are not met yet: {', '.join(left_out)}")
    print(f"hostile: FAILED ({', '.join(failed)})" if failed else "hostile: passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
