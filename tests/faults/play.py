"""The faults by name, and how one of them is played."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from tests.faults.clocks import clock_leaps
from tests.faults.damage import flipped_bits, missing_file
from tests.faults.databases import cut_connections, database_stops, frozen_process
from tests.faults.disk import full_disk
from tests.faults.kills import kill_rounds, kill_rounds_with_clocks
from tests.faults.report import Result, result_of
from tests.faults.world import Until, World
from tests.support.stores import STORES


@dataclass(frozen=True)
class Fault:
    """What breaks, where that can happen, and how much of the time it gets."""

    name: str
    description: str
    run: Callable[[World, Until], None]
    stores: tuple[str, ...] = ("sqlite",)
    share: float = 1.0


SQLITE, POSTGRES, BOTH = ("sqlite",), ("postgres",), ("sqlite", "postgres")
_ALL: Final = (
    Fault("kills", "kill -9 under load", kill_rounds, BOTH, 2.0),
    Fault("kills-and-clocks", "kill -9, and the clock is set between runs", kill_rounds_with_clocks,
          SQLITE, 3.0),
    Fault("full-disk", "a disk that becomes full and heals", full_disk, SQLITE),
    Fault("flipped-bits", "a flipped bit in a copy of the file", flipped_bits, SQLITE),
    Fault("missing-file", "a missing or empty file next to its log", missing_file, SQLITE),
    Fault("clock-leaps", "a clock that leaps by a year", clock_leaps, SQLITE),
    Fault("cut-connections", "connections end under load", cut_connections, POSTGRES),
    Fault("database-stops", "the database crashes and comes back", database_stops, POSTGRES),
    Fault("frozen-process", "one of two server processes is frozen", frozen_process, POSTGRES, 2.0),
)  # fmt: skip
FAULTS: Final[dict[str, Fault]] = {each.name: each for each in _ALL}


def play(fault: Fault, store: str, seconds: float, seed: int) -> Result:
    started = time.monotonic()
    with (
        STORES[store].place() as place,
        TemporaryDirectory(prefix="perseid-faults-") as folder,
    ):
        world = World(place, Path(folder), Random(f"{fault.name} {seed}"))
        try:
            fault.run(world, Until.after(seconds))
        except Exception:  # a round that could not go on is a finding, too
            world.findings.add("round not completed", traceback.format_exc(limit=-4))
        return result_of(fault.name, fault.description, world, time.monotonic() - started)
