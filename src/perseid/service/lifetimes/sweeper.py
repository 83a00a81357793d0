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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from perseid import charges, clock
from perseid.charges import hundredths
from perseid.clock import Readings
from perseid.errors import NOT_WRITTEN_ERRORS
from perseid.model import Container
from perseid.service import change_feed
from perseid.service.account import Account
from perseid.service.lifetimes import policies
from perseid.service.throughput import enforcement
from perseid.store.types import PurgedItem, PurgeLeaseTaken, PurgeRequest
from perseid.ttl import Cutoff, Policy

log = logging.getLogger(__name__)

SMALL_STEP: Final = 64  # items in one transaction: about a millisecond
LARGE_STEP: Final = 4000  # while nobody asks for anything
DRAIN_STEP: Final = 20_000  # when someone waits for the end of it
_TICK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.1
_SIZE_AND_TERMS: Final = attrgetter("size", "terms")
_ALARM_KEY: Final = "clock_alarm"  # under which name the alarm is kept with the data
_PAGES_PER_STEP: Final = 1024  # given back to the file system in one go: four megabytes


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
    _last_readings: Readings | None = None
    _saved_alarm: str | None = None  # as it is kept with the data
    _requests_at_last_pause: int = 0
    _requests_at_last_step: int = 0
    _requests_at_clock_persist: int = 0
    _idle_ranges: dict[tuple[str, int], Policy] = field(default_factory=dict)
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
        await self._save_alarm()
        self.wake()

    async def load_alarm(self) -> None:
        """At the start: a restart confirms nothing."""
        self.alarm = self._saved_alarm = (
            await self.account.stores.values.get_meta(_ALARM_KEY) or None
        )
        if self.alarm is not None:
            log.error(self.alarm)

    async def _save_alarm(self) -> None:
        if self.alarm != self._saved_alarm:
            saved = self.alarm
            await self.account.stores.values.put_meta(_ALARM_KEY, saved or "")
            self._saved_alarm = saved

    async def run(self) -> None:
        """Until cancelled. An error is logged and the next tick tries again."""
        while True:
            # Not `wait_for`: up to Python 3.11 it loses a cancellation that comes with a wake-up,
            # and a server that stops would wait for this loop for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.tick()
            except NOT_WRITTEN_ERRORS as exc:
                log.warning("nothing is removed for the moment: %s", exc.message)
            except Exception:
                log.exception("removing dead items failed; trying again")

    async def tick(self) -> None:
        """One look at everything: the clock's health, its high-water mark, the dead."""
        await self.account.retry_if_stale(self.account.stores.metadata.check_catalog_version)
        await self.watch_clock()
        await self.persist_clock_early()
        total = 0
        while not self.is_paused and self.alarm is None and (removed := await self._purge_round()):
            total += removed
            await self.persist_clock_early()  # a long sweep must not make requests wait for it
        if total and self.account.budgets is not None:
            self._rate = total / _TICK_SECONDS  # more is not to be had in a second
        if not self.is_paused and self.alarm is None:
            await self._trim_change_logs()
        while (
            await self._purge_cleared_partitions()
        ):  # whatever the clock does: a client wanted this
            await self.persist_clock_early()
        while await self.account.stores.expiry.free_disk_space(_PAGES_PER_STEP):
            await self._pause_between_steps(0.002)

    async def drain(self, container: Container | None = None) -> dict[str, int]:
        """Removes everything that may be removed now, paused or not; counts by container path."""
        if self.account.background:  # a policy change is still being counted
            await asyncio.wait(self.account.background)
        counts: dict[str, int] = {}
        while await self.account.stores.expiry.purge_cleared(DRAIN_STEP):
            pass
        for candidate, part in self._purgeable_ranges():
            if container is None or candidate.rid == container.rid:
                while purged_items := await self._purge_step(
                    candidate.rid, part, DRAIN_STEP, ignores_allowance=True
                ):
                    counts[candidate.path] = counts.get(candidate.path, 0) + len(purged_items)
        await self._trim_change_logs()
        self.wake()  # to give the space back, which nobody need wait for
        return counts

    async def free_disk_space(self, seconds: float) -> None:
        """At the end: returns free space to the file system, as far as the time allows."""
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline and await self.account.stores.expiry.free_disk_space(
                _PAGES_PER_STEP
            ):
                pass
        except NOT_WRITTEN_ERRORS as exc:  # it is there for the next start
            log.warning("free space could not be given back: %s", exc.message)

    def drain_seconds(self, pending_purge: int) -> float | None:
        """How long removing so many items would take at the pace of the last step, if known."""
        if not pending_purge:
            return 0.0
        return None if self._rate is None else round(pending_purge / self._rate, 3)

    async def watch_clock(self) -> None:
        """Stops purging when wall time leaps ahead of the steady clock: a leap kills for good."""
        current = self.readings()
        if self._last_readings is not None and self.alarm is None:
            jump = (current.wall - self._last_readings.wall) - (
                current.monotonic - self._last_readings.monotonic
            )
            if jump > self.account.settings.clock_jump:
                self.alarm = (
                    f"the system's clock leapt ahead by {jump:.0f} seconds; nothing is removed"
                    " until this is confirmed"
                )
                log.error(self.alarm)
        self._last_readings = current
        await self._save_alarm()

    async def persist_clock_early(self) -> None:
        """Moves the clock's durable mark on before requests reach it, as long as there are any."""
        account = self.account
        if account.requests != self._requests_at_clock_persist:
            self._requests_at_clock_persist = account.requests
            await account.persist_clock(account.clock.now(), early=1)

    async def _trim_change_logs(self) -> None:
        """Removes change records that are older than their container's retention."""
        for container in self.account.catalog.containers():
            started = time.perf_counter()
            while await change_feed.trim_change_log(
                self.account, container, self.account.clock.now()
            ):
                await self._pause_between_steps(time.perf_counter() - started)
                started = time.perf_counter()

    async def _purge_round(self) -> int:
        """A step for each range that has dead items; how many were removed in all."""
        removed = 0
        for container, part in self._purgeable_ranges():
            if self.is_paused or self.alarm is not None:
                break
            started = time.perf_counter()
            is_idle = (
                self.account.requests == self._requests_at_last_step
            )  # nobody since the last step
            self._requests_at_last_step = self.account.requests
            purged_items = await self._purge_step(
                container.rid, part, LARGE_STEP if is_idle else SMALL_STEP
            )
            if purged_items:
                removed += len(purged_items)
                await self._pause_between_steps(time.perf_counter() - started)
                self._rate = len(purged_items) / (time.perf_counter() - started)
        return removed

    async def _purge_cleared_partitions(self) -> bool:
        """A step through the partitions that were cleared; whether there are more."""
        started = time.perf_counter()
        is_idle = self.account.requests == self._requests_at_last_step
        self._requests_at_last_step = self.account.requests
        has_more = await self.account.stores.expiry.purge_cleared(
            LARGE_STEP if is_idle else SMALL_STEP
        )
        if has_more:
            await self._pause_between_steps(time.perf_counter() - started)
        return has_more

    async def _purge_step(
        self, rid: str, part: int, limit: int, *, ignores_allowance: bool = False
    ) -> list[PurgedItem]:
        """Removes some of the dead of a range: `is_free`, or with what requests have left over."""
        try:
            return await self.account.retry_if_stale(
                lambda: self._purge_range(rid, part, limit, ignores_allowance=ignores_allowance)
            )
        except PurgeLeaseTaken:
            return []

    async def _purge_range(
        self, rid: str, part: int, limit: int, *, ignores_allowance: bool
    ) -> list[PurgedItem]:
        account = self.account
        # Under the lock that policy changes take: what an undo brings back is not swept away.
        async with account.metadata_lock:
            container = account.catalog.container_by_rid(rid)
            if container is None or any(
                rid == pending_rid for pending_rid, _ in account.pending_audit_counts
            ):
                return []
            now = account.clock.now()
            # Behind that: a leap that this has seen is never missed, however long a sweep takes.
            await self.watch_clock()
            if self.alarm is not None and not ignores_allowance:
                return []
            cutoff = policies.purge_cutoff(account, container, now)
            if cutoff.expires_nothing:
                return []
            purge_allowance = None
            if account.budgets is not None and not ignores_allowance:
                purge_allowance = enforcement.open_purge_allowance(account, container, part, now)
                if purge_allowance is None:
                    return []
                limit = min(limit, purge_allowance.limit)
            result = await account.stores.expiry.purge(
                PurgeRequest(
                    container,
                    part,
                    cutoff,
                    limit,
                    policies.expiry_ages(container),
                    policies.previous_cutoff(account, container, now),
                    None if purge_allowance is None else purge_allowance.credit,
                    take_over_lease=ignores_allowance,
                )
            )
            # Many items have the same size and number of terms, and so the same charge.
            kinds = Counter(map(_SIZE_AND_TERMS, result.items))
            item_charges = [(charges.delete(*kind), count) for kind, count in kinds.items()]
            if purge_allowance is not None:
                spent = sum(hundredths(charge) * count for charge, count in item_charges)
                next_charge = result.next_charge
                enforcement.charge_purge(
                    account, container, part, now, spent=spent, next_charge=next_charge
                )
            self._mark_idle(container, part, is_empty=not result.candidates, cutoff=cutoff)
        if result.items:
            charge = sum(charge * count for charge, count in item_charges)
            self.charges[rid] = self.charges.get(rid, 0.0) + charge
            if enforcement.is_purge_metered(account):
                enforcement.record_purge_charge(account, container, charge)
        return result.items

    def _mark_idle(
        self, container: Container, part: int, *, is_empty: bool, cutoff: Cutoff
    ) -> None:
        """With TTL off nobody dies any more: once its dead are gone, a range is left alone."""
        is_all = cutoff == self.account.cutoff(container, self.account.clock.now())
        if is_empty and is_all and container.policy.default_ttl is None:
            self._idle_ranges[container.rid, part] = container.policy

    def _purgeable_ranges(self) -> Iterator[tuple[Container, int]]:
        for container in self.account.catalog.containers():
            if container.policy.cutoff(0).expires_nothing:
                continue
            for part in container.ranges:
                if self._idle_ranges.get((container.rid, part.index)) != container.policy:
                    yield container, part.index

    async def _pause_between_steps(self, busy: float) -> None:
        """Leaves requests their share of the time; none arriving, goes on at once."""
        requests = self.account.requests
        await asyncio.sleep(0)
        if requests == self._requests_at_last_pause:
            return
        self._requests_at_last_pause = requests
        paused = 0.0
        while True:
            # Asked again and again: a rest at a small pace is long, and the pace may be changed.
            share = self.pace or self.account.settings.sweep_pace
            pause_left = busy * (1 - share) / share - paused
            if pause_left <= 0:
                return
            await asyncio.sleep(min(pause_left, _PAUSE_SECONDS))
            paused += _PAUSE_SECONDS
