"""The only module that reads wall time. All others get `now` as an argument."""

from __future__ import annotations

import math
import secrets
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

LAST_SECOND: Final = 253_402_300_799  # of the year 9999, the last one that calendars support
_REPORTED_PAUSE: Final = 5.0  # seconds; time servers correct clocks by less than this


class Clock(Protocol):
    """Seconds since the epoch; never runs backwards."""

    def now(self) -> float:
        """The time that decides `_ts` and expiry; read once per request."""
        ...

    def advance_to_at_least(self, floor: float) -> None:
        """From now on shows no time before `floor`, the highest time of an earlier run."""
        ...

    def held_until(self) -> float | None:
        """The time it shows until the system clock has caught up; None if it is not ahead."""
        ...

    def latest_within(self, seconds: float) -> float:
        """The latest time that it shows in the next `seconds`, unless it is moved."""
        ...

    def reject_jump(self, shown: float, wall: float) -> None:
        """Goes back to the system time, which has been corrected.

        Before the jump it showed `shown` at the system time `wall`; it shows nothing earlier.
        """
        ...


class Readings(NamedTuple):
    """The machine's two clocks at one moment; the monotonic one never jumps.

    Monotonic readings can be compared if they are from the same boot.
    """

    wall: float
    monotonic: float
    boot: str = ""


class ClockJump(NamedTuple):
    """A jump of the system time that is neither confirmed nor rejected."""

    text: str  # for administrators
    before: Readings
    shown: float  # the latest time that may have been shown before the jump
    after: float  # the system time when the jump was noticed

    def corrected_wall(self, current: Readings) -> float | None:
        """What the system time would be without the jump; None if that cannot be measured."""
        if current.boot != self.before.boot:
            return None
        return self.before.wall + current.monotonic - self.before.monotonic

    def corrected_time(self, current: Readings) -> float:
        """What the clock would show without the jump, as far as that is known."""
        return self.shown + max(0.0, (self.corrected_wall(current) or 0.0) - self.before.wall)


def wall() -> float:
    """The system's own time, for comparison with the dates that clients sign."""
    return time.time()


def monotonic() -> float:
    """Seconds since the machine was booted, where possible with the time that it was suspended."""
    return _steady()


def _steady_clock() -> Callable[[], float]:
    if sys.platform == "linux":
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


_steady: Final = _steady_clock()


@lru_cache(maxsize=1)
def _boot() -> str:
    """Names the boot of the machine; this process, where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return secrets.token_hex(8)


def readings() -> Readings:
    return Readings(time.time(), _steady(), _boot())


class SystemClock:
    """System time that never runs backwards.

    If the machine's clock is set back, this keeps showing the highest time it has shown until the
    system time has caught up, so expired items do not become visible again.
    """

    def __init__(self, read: Callable[[], float] = time.time) -> None:
        self._read = read
        # In a list that a rejected jump replaces: a thread that reads the clock in that moment
        # must not bring the rejected time back.
        self._highest = [0.0]

    def now(self) -> float:
        # Two threads may race here. Their times then differ by much less than the resolution of
        # `_ts`, and neither is before the floor.
        highest = self._highest
        highest[0] = shown = max(highest[0], self._read())
        return shown

    def advance_to_at_least(self, floor: float) -> None:
        self._highest[0] = max(self._highest[0], floor)

    def held_until(self) -> float | None:
        highest = self._highest[0]
        return highest if highest - self._read() > _REPORTED_PAUSE else None

    def latest_within(self, seconds: float) -> float:
        # A clock that is held stays where it is: otherwise each crash would move it further ahead.
        return max(self._highest[0], self._read() + seconds)

    def reject_jump(self, shown: float, wall: float) -> None:  # noqa: ARG002 -- see MovableClock
        self._highest = [shown]


class ClockSetting(NamedTuple):
    """How a moved clock differs from the clock it is based on."""

    offset: float = 0.0
    frozen: float | None = None


class MovableClock:
    """A clock that tests and administrators can freeze and move forward, never back."""

    def __init__(self, read: Callable[[], float] = time.time) -> None:
        self._base = SystemClock(read)
        self._offset = 0.0
        self._frozen: float | None = None
        self._lock = threading.Lock()

    @property
    def is_frozen(self) -> bool:
        return self._frozen is not None

    @property
    def setting(self) -> ClockSetting:
        return ClockSetting(self._offset, self._frozen)

    def adopt(self, setting: ClockSetting) -> None:
        with self._lock:
            self._offset, self._frozen = setting

    def trial(self) -> MovableClock:
        """A copy with the same base and setting, to try a move on."""
        other = MovableClock()
        other._base = self._base
        other.adopt(self.setting)
        return other

    def now(self) -> float:
        frozen = self._frozen
        return frozen if frozen is not None else self._base.now() + self._offset

    def advance_to_at_least(self, floor: float) -> None:
        with self._lock:
            missing = floor - self.now()
            if missing > 0:
                self._move(missing)

    def held_until(self) -> None:
        """None: a clock ahead of the system time runs on with it."""

    def latest_within(self, seconds: float) -> float:
        frozen = self._frozen
        return frozen if frozen is not None else self._base.latest_within(seconds) + self._offset

    def reject_jump(self, shown: float, wall: float) -> None:
        """The clock also leaves out the moves that were made after the jump."""
        with self._lock:
            self._base.reject_jump(0, wall)
            now = self._base.now()
            corrected = shown + max(0.0, now - wall)
            if self._frozen is not None:
                self._frozen = min(self._frozen, corrected)
            self._offset = corrected - now

    def freeze(self) -> float:
        with self._lock:
            if self._frozen is None:
                # Rounded up to a microsecond, so not before a time that was shown: see _move.
                self._frozen = math.ceil(self.now() * 1e6) / 1e6
            return self._frozen

    def resume(self) -> float:
        """Lets the clock run on from its current time."""
        with self._lock:
            if self._frozen is not None:
                self._offset = self._frozen - self._base.now()
                self._frozen = None
            return self.now()

    def advance(self, seconds: float) -> float:
        """Moves the clock forward; ValueError for a negative number."""
        if not seconds >= 0:
            raise ValueError("the clock only moves forward")
        with self._lock:
            if self.now() + seconds > LAST_SECOND:
                raise ValueError("the calendar ends with the year 9999")
            self._move(seconds)
            return self.now()

    def set(self, instant: float) -> float:
        """Moves the clock to `instant`; ValueError if that is in the past."""
        return self.advance(instant - self.now())

    def _move(self, seconds: float) -> None:
        if self._frozen is not None:
            # In microseconds; otherwise ten steps of 0.1 s add up to less than a second.
            self._frozen = max(self._frozen, round(self._frozen + seconds, 6))
        else:
            self._offset += seconds


class SharedClock(MovableClock):
    """The clock of all server processes on one database: the database's time, and one setting.

    Between two readings of the database's clock it runs with the machine's monotonic clock. The
    processes differ by the time that a reading takes, well below a second. The clock of each
    process never goes back behind what it has shown with the setting in force.
    """

    # A freeze stops the clock at a time that no server process has shown yet.
    _FREEZE_MARGIN: Final = 0.05

    def __init__(self, read: Callable[[], float] = monotonic) -> None:
        super().__init__(self._estimate)
        self._read = read
        self._database_offset: float | None = None  # database time minus monotonic time
        self._floor = 0.0

    def _estimate(self) -> float:
        return self._read() + (self._database_offset or 0.0)

    def steady(self) -> float:
        """The machine's monotonic clock, to be read before and after the database's clock."""
        return self._read()

    def add_reading(self, database: float, sent: float, received: float) -> None:
        """The database's clock showed `database` between two readings of the monotonic clock.

        The estimated offset stays if it agrees with that; otherwise it becomes the nearest
        possible one.
        """
        lowest, highest = database - received, database - sent
        if self._database_offset is None:
            self._database_offset = (lowest + highest) / 2
        else:
            self._database_offset = min(max(self._database_offset, lowest), highest)

    def hold(self, floor: float) -> None:
        """Shows nothing before `floor`, by the database's clock: another process has shown it."""
        self._base.advance_to_at_least(floor)

    def unmoved(self) -> float:
        """The time without the setting of a test clock, but not before what was shown."""
        return self._base.now()

    def database_time(self) -> float:
        """The database's own time, which no test clock moves: for leases of processes."""
        return self._estimate()

    def readings(self) -> Readings:
        return Readings(self._estimate(), self._read(), _boot())

    def now(self) -> float:
        return max(self._floor, super().now())

    def adopt(self, setting: ClockSetting) -> None:
        # The base of the process that resumed the clock differs by some milliseconds.
        self._floor = max(self._floor, self._frozen or 0.0)
        super().adopt(setting)

    def trial(self) -> MovableClock:
        return _TrialWithMargin(self._base, self.setting, self._FREEZE_MARGIN)

    def advance_to_at_least(self, floor: float) -> None:
        """Does nothing: the store keeps the database's clock from going back."""

    def reject_jump(self, shown: float, wall: float) -> None:
        """Does nothing: the store calls `restart` in each server process."""

    def restart(self, database: float, sent: float, received: float) -> None:
        """Forgets what the database's clock showed before this reading."""
        self._database_offset = None
        self.add_reading(database, sent, received)
        self._floor = 0.0
        self._base.reject_jump(0.0, database)


class _TrialWithMargin(MovableClock):
    def __init__(self, base: SystemClock, setting: ClockSetting, margin: float) -> None:
        super().__init__()
        self._base = base
        self._margin = margin
        self.adopt(setting)

    def freeze(self) -> float:
        if not self.is_frozen:
            self.advance(self._margin)
        return super().freeze()


class FollowingClock:
    """Shows the time of a shared clock, and cannot be moved."""

    def __init__(self, followed: SharedClock) -> None:
        self._followed = followed

    def now(self) -> float:
        return self._followed.now()

    def readings(self) -> Readings:
        return self._followed.readings()

    def advance_to_at_least(self, floor: float) -> None:
        self._followed.advance_to_at_least(floor)

    def held_until(self) -> None:
        """None, like the clock it follows."""

    def latest_within(self, seconds: float) -> float:
        return self._followed.latest_within(seconds)

    def reject_jump(self, shown: float, wall: float) -> None:
        self._followed.reject_jump(shown, wall)
