"""Removes the dead, and partitions that were cleared. Correctness never waits for it: reads do not
see what it has yet to remove.

Small steps, the longest dead first, one range after the other. Between steps it rests while
requests arrive, so that they hardly notice; when nobody asks for anything it works without rest.
Where throughput is enforced it lives on what the seconds before have left over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from perseid import charges, clock
from perseid.clock import Readings
from perseid.errors import UNWRITTEN
from perseid.model import Container
from perseid.service import change_feed, policies, throughput
from perseid.service.account import Account
from perseid.service.budgets import hundredths
from perseid.store.protocol import Corpse, PurgedElsewhere
from perseid.ttl import Horizon, Policy

log = logging.getLogger(__name__)

STEP: Final = 64  # items in one transaction: about a millisecond
LARGE_STEP: Final = 4000  # while nobody asks for anything
DRAIN_STEP: Final = 20_000  # when someone waits for the end of it
_TICK: Final = 1.0
_NAP: Final = 0.1
_SIZE_AND_TERMS: Final = attrgetter("size", "terms")
_ALARM: Final = "clock_alarm"  # under which name the alarm is kept with the data
_PAGES: Final = 1024  # given back to the file system in one go: four megabytes


@dataclass(slots=True)
class Sweeper:
    """One for each account. `run` is the background task, the rest is for administrators."""

    account: Account
    readings: Callable[[], Readings] = clock.readings
    is_paused: bool = False
    pace: float | None = None  # share of the time while requests arrive; None: as configured
    alarm: str | None = None  # why purging has stopped by itself
    # Request units that removing has cost since the start, by container rid; paid by nobody.
    charges: dict[str, float] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _last: Readings | None = None
    _kept_alarm: str | None = None  # as it is kept with the data
    _seen_requests: int = 0
    _stepped_at: int = 0
    _renewed_at: int = 0
    _silent: dict[tuple[str, int], Policy] = field(default_factory=dict)
    _rate: float | None = None  # items a second, in the last step and its rest

    def wake(self) -> None:
        """Look now: the clock was moved, a policy changed."""
        self._wake.set()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.wake()

    async def confirm_clock(self) -> None:
        """The leap was meant: go on removing what is dead by the new time."""
        self.alarm = None
        await self._keep_alarm()
        self.wake()

    async def recall_alarm(self) -> None:
        """At the start: a restart confirms nothing."""
        self.alarm = self._kept_alarm = await self.account.store.get_meta(_ALARM) or None
        if self.alarm is not None:
            log.error(self.alarm)

    async def _keep_alarm(self) -> None:
        if self.alarm != self._kept_alarm:
            kept = self.alarm
            await self.account.store.put_meta(_ALARM, kept or "")
            self._kept_alarm = kept

    async def run(self) -> None:
        """Until cancelled. An error is logged and the next tick tries again."""
        while True:
            # Not `wait_for`: up to Python 3.11 it loses a cancellation that comes with a wake-up,
            # and a server that stops would wait for this loop for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.tick()
            except UNWRITTEN as exc:
                log.warning("nothing is removed for the moment: %s", exc.message)
            except Exception:
                log.exception("removing dead items failed; trying again")

    async def tick(self) -> None:
        """One look at everything: the clock's health, its high-water mark, the dead."""
        await self.account.on_current(self.account.store.confirm)
        await self.watch_clock()
        await self.renew_clock()
        total = 0
        while not self.is_paused and self.alarm is None and (removed := await self._round()):
            total += removed
            await self.renew_clock()  # a long sweep must not make requests wait for it
        if total and self.account.budgets is not None:
            self._rate = total / _TICK  # more is not to be had in a second
        if not self.is_paused and self.alarm is None:
            await self._forget()
        while await self._reap():  # whatever the clock does: a client wanted this
            await self.renew_clock()
        while await self.account.store.reclaim(_PAGES):
            await self._rest(0.002)

    async def drain(self, container: Container | None = None) -> dict[str, int]:
        """Removes everything that may be removed now, paused or not; counts by container path."""
        if self.account.background:  # a policy change is still being counted
            await asyncio.wait(self.account.background)
        counts: dict[str, int] = {}
        while await self.account.store.reap(DRAIN_STEP):
            pass
        for each, part in self._places():
            if container is None or each.rid == container.rid:
                while corpses := await self._step(each.rid, part, DRAIN_STEP, is_free=True):
                    counts[each.path] = counts.get(each.path, 0) + len(corpses)
        await self._forget()
        self.wake()  # to give the space back, which nobody need wait for
        return counts

    async def give_back(self, seconds: float) -> None:
        """At the end: returns free space to the file system, as far as the time allows."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and await self.account.store.reclaim(_PAGES):
                pass
        except UNWRITTEN as exc:  # it is there for the next start
            log.warning("free space could not be given back: %s", exc.message)

    def drain_seconds(self, backlog: int) -> float | None:
        """How long removing so many items would take at the pace of the last step, if known."""
        if not backlog:
            return 0.0
        return None if self._rate is None else round(backlog / self._rate, 3)

    async def watch_clock(self) -> None:
        """Stops purging when wall time leaps ahead of the steady clock: a leap kills for good."""
        current = self.readings()
        if self._last is not None and self.alarm is None:
            leap = (current.wall - self._last.wall) - (current.monotonic - self._last.monotonic)
            if leap > self.account.settings.clock_jump:
                self.alarm = (
                    f"the system's clock leapt ahead by {leap:.0f} seconds; nothing is removed"
                    " until this is confirmed"
                )
                log.error(self.alarm)
        self._last = current
        await self._keep_alarm()

    async def renew_clock(self) -> None:
        """Moves the clock's durable mark on before requests reach it, as long as there are any."""
        account = self.account
        if account.requests != self._renewed_at:
            self._renewed_at = account.requests
            await account.reach(account.clock.now(), early=1)

    async def _forget(self) -> None:
        """Removes change records that are older than their container's retention."""
        for container in self.account.catalog.containers():
            started = time.perf_counter()
            while await change_feed.forget(self.account, container, self.account.clock.now()):
                await self._rest(time.perf_counter() - started)
                started = time.perf_counter()

    async def _round(self) -> int:
        """A step for each range that has dead items; how many were removed in all."""
        removed = 0
        for container, part in self._places():
            if self.is_paused or self.alarm is not None:
                break
            started = time.perf_counter()
            is_calm = self.account.requests == self._stepped_at  # nobody since the last step
            self._stepped_at = self.account.requests
            corpses = await self._step(container.rid, part, LARGE_STEP if is_calm else STEP)
            if corpses:
                removed += len(corpses)
                await self._rest(time.perf_counter() - started)
                self._rate = len(corpses) / (time.perf_counter() - started)
        return removed

    async def _reap(self) -> bool:
        """A step through the partitions that were cleared; whether there are more."""
        started = time.perf_counter()
        is_calm = self.account.requests == self._stepped_at
        self._stepped_at = self.account.requests
        has_more = await self.account.store.reap(LARGE_STEP if is_calm else STEP)
        if has_more:
            await self._rest(time.perf_counter() - started)
        return has_more

    async def _step(
        self, rid: str, part: int, limit: int, *, is_free: bool = False
    ) -> list[Corpse]:
        """Removes some of the dead of a range: `is_free`, or with what requests have left over."""
        try:
            return await self.account.on_current(
                lambda: self._remove(rid, part, limit, is_free=is_free)
            )
        except PurgedElsewhere:
            return []

    async def _remove(self, rid: str, part: int, limit: int, *, is_free: bool) -> list[Corpse]:
        account = self.account
        # Under the lock that policy changes take: what an undo brings back is not swept away.
        async with account.metadata:
            container = account.catalog.container_by_rid(rid)
            if container is None or any(rid == counted for counted, _ in account.uncounted):
                return []
            now = account.clock.now()
            # Behind that: a leap that this has seen is never missed, however long a sweep takes.
            await self.watch_clock()
            if self.alarm is not None and not is_free:
                return []
            horizon = policies.purge_horizon(account, container, now)
            if horizon.is_endless:
                return []
            purse = None
            if account.budgets is not None and not is_free:
                purse = throughput.open_purse(account, container, part, now)
                if purse is None:
                    return []
                limit = min(limit, purse.limit)
            corpses = await account.store.purge(
                container,
                part,
                horizon,
                limit=limit,
                ages=policies.ages(container),
                spare=policies.spare_horizon(account, container, now),
                afford=None if purse is None else lambda found: purse.afford(_prices(found)),
                takes_over=is_free,
            )
            is_empty = not corpses
            if purse is not None:
                throughput.settle(account, container, part, purse, now)
                is_empty = not purse.seen
            self._note_silence(container, part, is_empty=is_empty, horizon=horizon)
        if corpses:
            # Many are of one size and cost the same.
            kinds = Counter(map(_SIZE_AND_TERMS, corpses))
            charge = sum(charges.delete(*kind) * count for kind, count in kinds.items())
            self.charges[rid] = self.charges.get(rid, 0.0) + charge
            if throughput.is_removal_metered(account):
                throughput.note_purge(account, container, charge)
        return corpses

    def _note_silence(
        self, container: Container, part: int, *, is_empty: bool, horizon: Horizon
    ) -> None:
        """With TTL off nobody dies any more: once its dead are gone, a range is left alone."""
        is_all = horizon == self.account.horizon(container, self.account.clock.now())
        if is_empty and is_all and container.policy.default_ttl is None:
            self._silent[container.rid, part] = container.policy

    def _places(self) -> Iterator[tuple[Container, int]]:
        for container in self.account.catalog.containers():
            if container.policy.horizon(0).is_endless:
                continue
            for part in container.ranges:
                if self._silent.get((container.rid, part.index)) != container.policy:
                    yield container, part.index

    async def _rest(self, worked: float) -> None:
        """Leaves requests their share of the time; none arriving, goes on at once."""
        requests = self.account.requests
        await asyncio.sleep(0)
        if requests == self._seen_requests:
            return
        self._seen_requests = requests
        rested = 0.0
        while True:
            # Asked again and again: a rest at a small pace is long, and the pace may be changed.
            share = self.pace or self.account.settings.sweep_pace
            left = worked * (1 - share) / share - rested
            if left <= 0:
                return
            await asyncio.sleep(min(left, _NAP))
            rested += _NAP


def _prices(corpses: Sequence[Corpse]) -> list[int]:
    return [hundredths(charges.delete(corpse.size, corpse.terms)) for corpse in corpses]
