"""Notices jumps of the system time, and what administrators decide about them.

A purge is final, so a clock that is wrong must not cause one: after a jump purging waits until an
administrator confirms or rejects it. Reads follow the clock meanwhile. A jump shows when wall time
and monotonic time differ. After a restart they are compared with readings that were stored; if the
machine was booted since, only a long time without a server can be noticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

import orjson

from perseid import clock
from perseid.clock import ClockJump, Readings
from perseid.errors import NOT_WRITTEN_ERRORS, Conflict
from perseid.service.account import Account
from perseid.service.lifetimes import policies
from perseid.store.types import AuditEntry

log = logging.getLogger(__name__)

_ALARM_KEY: Final = "clock_alarm"  # the name under which the jump is stored
_READINGS_KEY: Final = "clock_readings"
_READINGS_INTERVAL: Final = 3600.0  # seconds between two stored readings
_CORRECTION: Final = 1.0  # seconds; time servers correct clocks by less, or it is stored
# A server may be stopped for a while. After more than this the time is doubtful.
LONGEST_STOP: Final = 30 * 86_400
_UNDECIDED: Final = "purging is paused until the jump is confirmed or rejected"
WAITS_FOR_DECISION: Final = (
    "The system clock has jumped ahead. Confirm the jump if the new time is right, or correct the"
    " system clock and reject it; then try again."
)


@dataclass(slots=True)
class ClockGuard:
    account: Account
    readings: Callable[[], Readings] = clock.readings
    jump: ClockJump | None = None
    _last: Readings | None = None
    _last_shown: float = 0.0
    _saved_alarm: str = ""
    _saved_readings: Readings | None = None

    async def load(self) -> None:
        """Called at the start: a restart neither confirms a jump nor hides one."""
        self._adopt(await self.account.stores.values.get(_ALARM_KEY) or "")
        if self.jump is not None:
            log.error(self.jump.text)
            return
        stored = await self._stored_readings()
        if stored is not None:
            await self._compare(*stored, floor=self.account.clock_limit_at_start)
            try:
                await self._save_alarm()
            except NOT_WRITTEN_ERRORS as exc:  # a server must start on a full disk
                log.warning("the clock jump could not be stored: %s", exc.message)

    async def watch(self) -> None:
        """Compares the clocks with the readings of the last call."""
        if self.jump is not None:
            await self._follow_decision()
        current = self.readings()
        if self._last is not None and self.jump is None:
            await self._compare(self._last, self._last_shown)
        self._last, self._last_shown = current, self.account.clock.now()
        if self.jump is None:
            await self._save_readings(current)
        await self._save_alarm()

    async def confirm(self) -> None:
        """Accepts a jump: what has expired by the new time may be purged."""
        self._set(None)
        await self._save_alarm()
        await self._save_readings(self.readings(), is_due=True)

    async def reject(self, caller: str) -> None:
        """Goes on from the corrected system clock, as if the jump had not been.

        What only the jump had expired, and was not purged, is live again. Items that were written
        after the jump keep the `_ts` that their clients know.
        """
        await self._follow_decision()
        jump, account = self.jump, self.account
        if jump is None:
            raise Conflict("There is no clock jump to reject.")
        current = self.readings()
        if account.durable_clock_limit == inf:  # the clock is that of the database
            current = current._replace(wall=await account.stores.metadata.system_time())
        self._check_corrected(jump, current)
        shown = account.clock.now()
        async with account.metadata_lock:
            now = max(jump.shown, current.wall)
            entry = {
                "event": "clock jump rejected",
                "caller": caller,
                "clock": {"old": int(shown), "new": int(now)},
            }
            changes = await policies.changes_after_rejection(account, jump, now)
            await account.change([*changes, AuditEntry(int(now), "", entry)])
        await account.stores.metadata.restart_clock(jump.before.wall)
        await account.reload()
        account.clock.reject_jump(jump.shown, jump.before.wall)
        # From here on no time after this is shown before it is durable.
        await account.persist_clock(account.clock.now(), ahead=0)
        self._set(None)
        self._last = None
        await self._save_alarm()
        await self._save_readings(self.readings(), is_due=True)
        log.warning("the clock jump was rejected: the time went back by %.0f s", shown - now)

    def _check_corrected(self, jump: ClockJump, current: Readings) -> None:
        expected = jump.corrected_wall(current)
        if expected is None:
            is_corrected = current.wall < jump.after or not jump.after
        else:
            is_corrected = current.wall <= expected + self.account.settings.clock_jump
        if not is_corrected:
            raise Conflict(
                "The system clock still shows the time after the jump. Correct it, then reject the"
                " jump."
            )

    async def _compare(self, before: Readings, shown: float, floor: float = 0.0) -> None:
        """Raises the alarm if the time has jumped since these readings and the time shown then."""
        current = self.readings()
        jump, limit = current.wall - before.wall, self.account.settings.clock_jump
        text = "the system clock is {:.0f} seconds ahead of the time when the server was last used"
        corrected = before
        if current.boot == before.boot:
            passed = current.monotonic - before.monotonic
            jump -= passed
            text = "the system clock jumped ahead by {:.0f} seconds"
            corrected = current._replace(wall=before.wall + passed)
            shown += passed
        else:
            limit = max(LONGEST_STOP, limit)
        if jump <= limit or await self._is_accepted(before, before.wall + limit):
            return
        text = f"{text.format(jump)}; {_UNDECIDED}"
        log.error(text)
        self._set(ClockJump(text, corrected, max(shown, floor), current.wall))

    async def _is_accepted(self, before: Readings, wall: float) -> bool:
        """True if another server process on the database has confirmed the jump already."""
        stored = await self._stored_readings()
        return stored is not None and stored[0] != before and stored[0].wall > wall

    def _set(self, jump: ClockJump | None) -> None:
        self.jump = self.account.jump = jump
        self.account.corrected_time = (
            None if jump is None else lambda: jump.corrected_time(self.readings())
        )

    def _adopt(self, stored: str) -> None:
        self._saved_alarm = stored
        self._set(_parse_jump(stored) if stored else None)

    async def _follow_decision(self) -> None:
        """Another server process on the database may have confirmed or rejected the jump."""
        if self._saved_alarm:
            stored = await self.account.stores.values.get(_ALARM_KEY) or ""
            if stored != self._saved_alarm:
                self._adopt(stored)
                self._last = None

    async def _save_alarm(self) -> None:
        alarm = "" if self.jump is None else _jump_text(self.jump)
        if alarm != self._saved_alarm:
            await self.account.stores.values.put(_ALARM_KEY, alarm)
            self._saved_alarm = alarm

    async def _save_readings(self, current: Readings, *, is_due: bool = False) -> None:
        saved = self._saved_readings
        if saved is not None and not is_due:
            passed = current.wall - saved.wall
            drift = passed - (current.monotonic - saved.monotonic)
            if passed < _READINGS_INTERVAL and abs(drift) < _CORRECTION:
                return
        value = orjson.dumps([[*current], self.account.clock.now()]).decode()
        try:
            await self.account.stores.values.put(_READINGS_KEY, value)
        except NOT_WRITTEN_ERRORS as exc:  # purging goes on: it may free the disk
            log.warning("the readings of the clocks could not be stored: %s", exc.message)
        else:
            self._saved_readings = current

    async def _stored_readings(self) -> tuple[Readings, float] | None:
        stored = await self.account.stores.values.get(_READINGS_KEY)
        if stored is None:
            return None
        stored_readings, shown = orjson.loads(stored)
        return Readings(*stored_readings), shown


def _jump_text(jump: ClockJump) -> str:
    return orjson.dumps([jump.text, [*jump.before], jump.shown, jump.after]).decode()


def _parse_jump(stored: str) -> ClockJump:
    if not stored.startswith("["):  # by an earlier release, which did not store the readings
        return ClockJump(stored, Readings(0.0, 0.0, "unknown"), 0.0, 0.0)
    text, before, shown, after = orjson.loads(stored)
    return ClockJump(text, Readings(*before), shown, after)


def check_decided(account: Account) -> None:
    """Conflict while a clock jump is neither confirmed nor rejected."""
    if account.jump is not None:
        raise Conflict(WAITS_FOR_DECISION)
