"""Plays the state machine with new seeds for as long as one likes: `python -m tests.model 600`.

Ends with the failing example, in the fewest steps that were found, or with the steps it took.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback

from hypothesis import HealthCheck, settings

from tests.model.machine import play
from tests.model.site import Site
from tests.support.stores import STORES

RULES = settings(
    max_examples=20,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model")
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("--seed", type=int, help="play the runs of this seed only")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    with STORES[options.store].place() as place, Site(place.lasting()) as site:
        while True:
            number = options.seed if options.seed is not None else secrets.randbits(32)
            try:
                play(site, RULES, number)
            except Exception:
                traceback.print_exc()
                print(f"failed after {site.steps} steps; again with --seed {number}")
                return 1
            print(f"seed {number}: {site.steps} steps so far", flush=True)
            if options.seed is not None or time.monotonic() >= end:
                return 0


if __name__ == "__main__":
    sys.exit(main())
