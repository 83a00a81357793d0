"""kill -9 under load, again and again on the same data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from tests.faults.world import Until, World

# Seconds by which the system clock is set between two runs. On the whole it goes forward: a server
# whose clock waits for the system's sees nothing expire.
STEPS: Final = (-2.0, -1.5, -1.0, 0.0, 4.0, 5.0)
CHECK_EACH: Final = 5  # rounds


def kill_rounds(world: World, until: Until, steps: Sequence[float] = (0.0,)) -> None:
    """Each start must find all that was ever acknowledged, once, and nothing that has expired."""
    with world.server() as server:
        world.furnish(server.raw)
    while world.rounds == 0 or not until.is_over:
        with world.server() as server:
            world.verify(server.raw)
            load = world.load()
            load.start([server.endpoint])
            time.sleep(world.chance.uniform(0.1, 1.5))
            server.child.kill()
            server.child.wait()
            load.end()
        world.clock.set(world.clock.offset + world.chance.choice(steps))
        if world.rounds % CHECK_EACH == 1:
            world.verify_file()
    with world.server() as server:
        world.verify(server.raw)
        world.verify_counters(server.raw)
    world.verify_file()


def kill_rounds_with_clocks(world: World, until: Until) -> None:
    """The same while the system clock goes back and forth between two runs.

    Servers on PostgreSQL use the clock of the database, which stays right.
    """
    kill_rounds(world, until, STEPS)
