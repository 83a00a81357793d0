"""Breaks servers, disks, clocks and databases for some time: `python -m tests.faults 600`.

Each fault has data of its own and its share of the time. The last line is the verdict, and the exit
code is 1 if something was lost, doubled, seen after its expiry, or answered wrongly.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.faults import report
from tests.faults.play import FAULTS, play
from tests.support.stores import STORES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("seconds", type=float, nargs="?", default=120.0)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--only", action="append", choices=FAULTS, help="may be repeated")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--list", action="store_true", help="print the faults")
    options = parser.parse_args()
    if options.list:
        for fault in FAULTS.values():
            print(f"{fault.name:18} {', '.join(fault.stores):18} {fault.description}")
        return 0
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.seconds:g} s on {options.store}")
    chosen = [
        FAULTS[name] for name in options.only or FAULTS if options.store in FAULTS[name].stores
    ]
    print(report.header(), flush=True)
    results = []
    for fault in chosen:
        seconds = options.seconds * fault.share / sum(each.share for each in chosen)
        result = play(fault, options.store, seconds, seed)
        results.append(result)
        print(report.row(result))
        print("\n".join(report.details(result)), flush=True)
    print("\n".join([report.header(), *map(report.row, results)]))
    print(report.verdict(results))
    return 1 if any(result.has_failed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
