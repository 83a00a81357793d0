"""A sweeper on a machine whose clocks a test moves by hand."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from perseid.clock import MovableClock, Readings, SystemClock
from perseid.config import Settings
from perseid.documents import parse
from perseid.http.metrics import exposition
from perseid.model import Container
from perseid.server import opened
from perseid.service.account import Account
from perseid.service.items import point_operations
from perseid.service.lifetimes import metrics
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.service.operation import begin
from perseid.service.resources import containers, databases
from tests.support.builders import PARTITION_KEY
from tests.support.stores import Place


@dataclass
class Machine:
    """The two clocks of a machine, moved by hand."""

    wall: float = 1_700_000_000.0
    monotonic: float = 5_000.0
    boot: str = "first"

    def readings(self) -> Readings:
        return Readings(self.wall, self.monotonic, self.boot)

    def reboot(self, seconds: float, *, leap: float = 0) -> None:
        """It is off for a while, and its monotonic clock begins again."""
        self.wall += seconds + leap
        self.monotonic = 1.0
        self.boot += " again"

    def pass_time(self, seconds: float, *, leap: float = 0) -> None:
        self.wall += seconds + leap
        self.monotonic += seconds


@dataclass
class Ward:
    """A sweeper whose machine can be tampered with, and a container with one item, ttl 60."""

    machine: Machine
    account: Account
    sweeper: Sweeper
    container: Container

    async def stored(self) -> int:
        """Items on disk, expired or not."""
        cutoff = self.account.cutoff(self.container, self.machine.wall)
        usage = await self.account.stores.items.usage(self.container, 0, cutoff)
        return usage.items + usage.expired_items

    async def is_live(self, id_: str, now: float) -> bool:
        op = begin(self.account, self.container, now)
        where = point_operations.logical_partition_of(self.container, '["p"]')
        return (await point_operations.read(op, where, id_))[0] is not None

    async def shown_alarm(self) -> tuple[bool, int]:
        """The alarm in the figures, and in their text form."""
        figures = await metrics.collect(self.account, self.sweeper, self.machine.wall)
        (value,) = re.findall(rb"^perseid_clock_alarm (\d)$", exposition(figures), re.M)
        return figures["clockAlarm"], int(value)

    async def add(self, id_: str, ttl: int = 60) -> None:
        op = begin(self.account, self.container, self.account.clock.now())
        document = parse(b'{"id":"%s","pk":"p","ttl":%d}' % (id_.encode(), ttl))
        await point_operations.create(
            op, point_operations.checked_item(self.container, document, '["p"]')
        )


@asynccontextmanager
async def ward(place: Place, **settings: Any) -> AsyncIterator[Ward]:
    machine = Machine()
    async with ward_at(place.fresh(**settings), machine) as found:
        yield found


@asynccontextmanager
async def ward_at(
    settings: Settings, machine: Machine, kind: type[SystemClock | MovableClock] = MovableClock
) -> AsyncIterator[Ward]:
    clock = kind(lambda: machine.wall)
    async with opened(settings, clock) as account:
        await databases.create(account, {"id": "d"}, None, clock.now())
        body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": -1}
        container = await containers.create(account, "d", body, None, clock.now())
        sweeper = Sweeper(account, readings=machine.readings)
        found = Ward(machine, account, sweeper, container)
        await found.add("a")
        await sweeper.tick()
        assert await found.stored() == 1
        yield found


@asynccontextmanager
async def ward_again(
    settings: Settings, machine: Machine, kind: type[SystemClock | MovableClock] = MovableClock
) -> AsyncIterator[Ward]:
    """A server that starts on what the one before left, which was killed."""
    async with opened(settings, kind(lambda: machine.wall)) as account:
        sweeper = Sweeper(account, readings=machine.readings)
        await sweeper.load_alarm()
        yield Ward(machine, account, sweeper, account.catalog.container("d", "c"))
