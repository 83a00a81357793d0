"""PostgreSQL that stops or ends connections, and a server process that is frozen."""

from __future__ import annotations

import itertools
import signal
import time
from typing import Final

from perseid.config import Settings
from tests.faults.load import Load
from tests.faults.world import ALLOWED, Until, World
from tests.hostile.attack import Tally
from tests.support import postgres
from tests.support.builders import create_container
from tests.support.postgres import Postgres
from tests.support.processes import ServerProcess
from tests.support.waiting import until as wait_until

FREEZE_SECONDS: Final = 18.0
GO_ON_SECONDS: Final = 15.0  # after which others must not wait for a frozen process
_names = itertools.count(1)


def cut_connections(world: World, until: Until) -> None:
    """Connections are ended in the midst of writes."""
    assert world.settings.store is not None
    with world.server() as server:
        world.furnish(server.raw)
        while world.rounds == 0 or not until.is_over:
            load = world.load()
            load.start([server.endpoint])
            for _ in range(10):
                time.sleep(world.chance.uniform(0.02, 0.3))
                postgres.server().cut(world.settings.store)
            load.end()
            _ready(server)
            world.verify(server.raw)
        world.verify_counters(server.raw)


def database_stops(world: World, until: Until) -> None:
    """The database crashes for up to seven seconds; then another process changes containers."""
    with Postgres(durable=True) as own:
        world.renew(Settings(store=own.fresh_dsn(), data=world.folder / "files", relaxed=True))
        with world.server() as first, world.server() as second:
            world.furnish(first.raw)
            while world.rounds == 0 or not until.is_over:
                load = world.load()
                load.start([first.endpoint, second.endpoint])
                time.sleep(world.chance.uniform(0.2, 1))
                own.stop()
                time.sleep(world.chance.choice((0.2, 2, 7)))
                own.start()
                _ready(second)
                create_container(second.raw, "/dbs/d", f"other{next(_names)}")
                time.sleep(1)
                load.end()
                _ready(first)
                world.verify(first.raw)
            world.verify(second.raw)


def frozen_process(world: World, until: Until) -> None:
    """One of two server processes stops in the midst of its writes; the other one goes on."""
    with world.server() as frozen, world.server() as other:
        world.furnish(other.raw)
        while world.rounds == 0 or not until.is_over:
            # Clients of the frozen process wait: that is no finding.
            ignored = Load(world.ledger, Tally(ALLOWED), world.chance, run=-world.rounds - 1)
            ignored.start([frozen.endpoint])
            load = world.load()
            load.start([other.endpoint])
            time.sleep(world.chance.uniform(0.5, 1.5))
            frozen.child.send_signal(signal.SIGSTOP)
            try:
                time.sleep(FREEZE_SECONDS)
            finally:
                frozen.child.send_signal(signal.SIGCONT)
            time.sleep(1)
            load.end()
            ignored.end()
            if load.slowest > GO_ON_SECONDS:
                text = f"an answer took {load.slowest:.1f} s"
                world.findings.add("stopped by a frozen process", text)
            _ready(frozen)
            world.verify(frozen.raw)
            world.verify(other.raw)
        world.verify_counters(other.raw)


def _ready(server: ServerProcess) -> None:
    wait_until(lambda: server.raw.get("/_perseid/ready").status == 200)
