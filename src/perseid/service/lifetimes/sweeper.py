"""Purges expired items and cleared partitions in the background.

Reads filter them out already, so nothing depends on when this runs. It works in small steps, one
range after the other, earliest expiry first. While requests arrive it pauses between steps, so
that they are hardly delayed; while none arrive it does not pause. Where throughput is enforced it
spends the request units that requests left over in the seconds before.
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
from perseid.service.lifetimes.clock_guard import ClockGuard, check_decided
from perseid.service.lifetimes.verification import Verification
from perseid.service.throughput import enforcement
from perseid.store.types import PurgeLeaseTaken, PurgeRequest, PurgeResult
from perseid.ttl import Cutoff, Policy

log = logging.getLogger(__name__)

SMALL_STEP: Final = 64  # items in one transaction: takes about a millisecond
LARGE_STEP: Final = 4000  # while no requests arrive
DRAIN_STEP: Final = 20_000  # while an administrator waits for the result
_TICK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.1
_SIZE_AND_TERMS: Final = attrgetter("size", "terms")
_PAGES_PER_STEP: Final = 1024  # freed in one step: four megabytes


@dataclass(slots=True)
class Sweeper:
    """One per account. `run` is the background task; the rest is for administrators."""

    account: Account
    readings: Callable[[], Readings] = clock.readings
    is_paused: bool = False
    pace: float | None = None  # share of the time while requests arrive; None: as configured
    # Request units of purging since the start, by container rid. No budget pays for them.
    charges: dict[str, float] = field(default_factory=dict)
    verification: Verification = field(init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    guard: ClockGuard = field(init=False)
    _requests_at_last_pause: int = 0
    _requests_at_last_step: int = 0
    _requests_at_clock_persist: int = 0
    _idle_ranges: dict[tuple[str, int], Policy] = field(default_factory=dict)
    _rate: float | None = None  # items per second, in the last step and the pause after it

    def __post_init__(self) -> None:
        self.guard = ClockGuard(self.account, self.readings)
        self.verification = Verification(self.account)

    def wake(self) -> None:
        """Starts the next tick now, because the clock was moved or a policy changed."""
        self._wake.set()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.wake()

    @property
    def alarm(self) -> str | None:
        """Why purging stopped by itself, if it did."""
        return None if self.guard.jump is None else self.guard.jump.text

    async def confirm_clock(self) -> None:
        """Accepts a clock jump: purges what has expired by the new time."""
        await self.guard.confirm()
        self.wake()

    async def reject_clock(self, caller: str) -> None:
        """Undoes a clock jump: the time goes on from the corrected system clock."""
        await self.guard.reject(caller)
        self.wake()

    @property
    def is_disk_full(self) -> bool:
        """True while writes that grow the data are refused."""
        return self.account.stores.integrity.is_disk_full

    async def load_alarm(self) -> None:
        """Called at the start: a restart does not confirm a clock jump."""
        await self.guard.load()

    async def run(self) -> None:
        """Ticks until cancelled. An error is logged, and the next tick tries again."""
        while True:
            # Not `wait_for`: up to Python 3.11 it loses a cancellation that arrives together with a
            # wake-up, and a server that stops would wait for this loop forever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.tick()
            except NOT_WRITTEN_ERRORS as exc:
                log.warning("purging is paused: %s", exc.message)
            except Exception:
                log.exception("purging failed; the next tick tries again")

    async def tick(self) -> None:
        """Checks and persists the clock, then purges everything that may be purged."""
        await self.account.retry_if_stale(self.account.stores.metadata.check_catalog_version)
        await self.watch_clock()
        await self.persist_clock_early()
        total = 0
        while self._may_purge() and (purged := await self._purge_round()):
            total += purged
            await self.persist_clock_early()  # a long tick must not make requests wait for it
        if total and self.account.budgets is not None:
            self._rate = total / _TICK_SECONDS  # the budgets of a second allow no more
        if self._may_purge():
            await self._trim_change_logs()
        # A client cleared these partitions, so a clock alarm does not stop their purge.
        while await self._purge_cleared_partitions():
            await self.persist_clock_early()
        while await self.account.stores.expiry.free_disk_space(_PAGES_PER_STEP):
            await self._pause_between_steps(0.002)
        await self.verification.step()

    def _may_purge(self) -> bool:
        return not self.is_paused and self.alarm is None

    async def drain(self, container: Container | None = None) -> dict[str, int]:
        """Purges everything that may be purged now, paused or not; counts by container path.

        Conflict if an administrator has to decide about a clock jump first.
        """
        await self.watch_clock()
        check_decided(self.account)
        if self.account.background:  # what a policy change expired is still being counted
            await asyncio.wait(self.account.background)
        counts: dict[str, int] = {}
        while await self.account.stores.expiry.purge_cleared(DRAIN_STEP):
            pass
        for candidate, range_index in self._purgeable_ranges():
            if container is None or candidate.rid == container.rid:
                while purged := await self._purge_step(
                    candidate.rid, range_index, DRAIN_STEP, is_drain=True
                ):
                    counts[candidate.path] = counts.get(candidate.path, 0) + purged
        await self._trim_change_logs()
        self.wake()  # to free disk space, which the caller need not wait for
        return counts

    async def free_disk_space(self, seconds: float) -> None:
        """Called at the end: returns free space to the file system while the time allows."""
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline and await self.account.stores.expiry.free_disk_space(
                _PAGES_PER_STEP
            ):
                pass
        except NOT_WRITTEN_ERRORS as exc:  # the next start can do it
            log.warning("disk space was not freed: %s", exc.message)

    def drain_seconds(self, pending_purge: int) -> float | None:
        """How long purging so many items takes at the rate of the last step, if known."""
        if not pending_purge:
            return 0.0
        return None if self._rate is None else round(pending_purge / self._rate, 3)

    async def watch_clock(self) -> None:
        """Stops purging if wall time jumps ahead of the monotonic clock: purges are final."""
        await self.guard.watch()

    async def persist_clock_early(self) -> None:
        """Raises the durable clock limit before requests reach it, while requests arrive."""
        account = self.account
        if account.requests != self._requests_at_clock_persist:
            self._requests_at_clock_persist = account.requests
            await account.persist_clock(account.clock.now(), early=1)

    async def _trim_change_logs(self) -> None:
        """Removes change records that are older than the retention of their container."""
        for container in self.account.catalog.containers():
            started = time.perf_counter()
            while await change_feed.trim_change_log(
                self.account, container, self.account.clock.now()
            ):
                await self._pause_between_steps(time.perf_counter() - started)
                started = time.perf_counter()

    async def _purge_round(self) -> int:
        """One step for each range with expired items; returns how many items were purged."""
        total = 0
        for container, range_index in self._purgeable_ranges():
            if not self._may_purge():
                break
            started = time.perf_counter()
            purged = await self._purge_step(container.rid, range_index, self._step_size())
            if purged:
                total += purged
                await self._pause_between_steps(time.perf_counter() - started)
                self._rate = purged / (time.perf_counter() - started)
        return total

    async def _purge_cleared_partitions(self) -> bool:
        """One step through the cleared partitions; True if there are more."""
        started = time.perf_counter()
        has_more = await self.account.stores.expiry.purge_cleared(self._step_size())
        if has_more:
            await self._pause_between_steps(time.perf_counter() - started)
        return has_more

    def _step_size(self) -> int:
        """Large if no request arrived since the last step."""
        is_idle = self.account.requests == self._requests_at_last_step
        self._requests_at_last_step = self.account.requests
        return LARGE_STEP if is_idle else SMALL_STEP

    async def _purge_step(
        self, rid: str, range_index: int, limit: int, *, is_drain: bool = False
    ) -> int:
        """Purges items of a range in one transaction; returns how many.

        A drain ignores the purge allowance and the lease of another process.
        """
        try:
            return await self.account.retry_if_stale(
                lambda: self._purge_range(rid, range_index, limit, is_drain=is_drain)
            )
        except PurgeLeaseTaken:
            return 0

    async def _purge_range(self, rid: str, range_index: int, limit: int, *, is_drain: bool) -> int:
        account = self.account
        # Under the lock that policy changes take, so that no item is purged that an undo restores.
        async with account.metadata_lock:
            container = account.catalog.container_by_rid(rid)
            is_counting = any(rid == counted for counted, _ in account.pending_audit_counts)
            if container is None or is_counting:
                return 0
            now = account.clock.now()
            # After reading the time: a clock jump that `now` contains is always noticed.
            await self.watch_clock()
            cutoff = policies.purge_cutoff(account, container, now)
            if cutoff.expires_nothing or self.alarm is not None:
                return 0
            allowance = None
            if account.budgets is not None and not is_drain:
                allowance = enforcement.open_purge_allowance(account, container, range_index, now)
                if allowance is None:
                    return 0
                limit = min(limit, allowance.limit)
            result = await account.stores.expiry.purge(
                PurgeRequest(
                    container,
                    range_index,
                    cutoff,
                    limit,
                    policies.expiry_ages(container),
                    policies.previous_cutoff(account, container, now),
                    None if allowance is None else allowance.credit,
                    take_over_lease=is_drain,
                )
            )
            self._charge(container, range_index, result, now, is_metered=allowance is not None)
            self._mark_idle(container, range_index, is_empty=not result.candidates, cutoff=cutoff)
        return len(result.items)

    def _charge(
        self,
        container: Container,
        range_index: int,
        result: PurgeResult,
        now: float,
        *,
        is_metered: bool,
    ) -> None:
        # Many items have the same size and number of terms, and so the same charge.
        groups = Counter(map(_SIZE_AND_TERMS, result.items))
        item_charges = [(charges.delete(*group), count) for group, count in groups.items()]
        if is_metered:
            spent = sum(hundredths(charge) * count for charge, count in item_charges)
            enforcement.charge_purge(
                self.account, container, range_index, now,
                spent=spent, next_charge=result.next_charge,
            )  # fmt: skip
        if result.items:
            charge = sum(charge * count for charge, count in item_charges)
            self.charges[container.rid] = self.charges.get(container.rid, 0.0) + charge
            if enforcement.is_purge_metered(self.account):
                enforcement.record_purge_charge(self.account, container, charge)

    def _mark_idle(
        self, container: Container, range_index: int, *, is_empty: bool, cutoff: Cutoff
    ) -> None:
        """With TTL off no more items expire: once a range is purged, it is skipped."""
        is_all = cutoff == self.account.cutoff(container, self.account.clock.now())
        if is_empty and is_all and container.policy.default_ttl is None:
            self._idle_ranges[container.rid, range_index] = container.policy

    def _purgeable_ranges(self) -> Iterator[tuple[Container, int]]:
        for container in self.account.catalog.containers():
            if container.policy.cutoff(0).expires_nothing:
                continue
            for key_range in container.ranges:
                if self._idle_ranges.get((container.rid, key_range.index)) != container.policy:
                    yield container, key_range.index

    async def _pause_between_steps(self, busy: float) -> None:
        """Leaves requests their share of the time; returns at once if none arrive."""
        requests = self.account.requests
        await asyncio.sleep(0)
        if requests == self._requests_at_last_pause:
            return
        self._requests_at_last_pause = requests
        paused = 0.0
        while True:
            # In short sleeps: at a small pace the pause is long, and the pace may be changed.
            share = self.pace or self.account.settings.sweep_pace
            pause_left = busy * (1 - share) / share - paused
            if pause_left <= 0:
                return
            await asyncio.sleep(min(pause_left, _PAUSE_SECONDS))
            paused += _PAUSE_SECONDS
