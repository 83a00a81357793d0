"""The only module that reads wall time. All others get `now` as an argument."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
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


class Readings(NamedTuple):
    """The machine's two clocks at one moment; the monotonic one never jumps."""

    wall: float
    monotonic: float


def wall() -> float:
    """The system's own time, for comparison with the dates that clients sign."""
    return time.time()


def readings() -> Readings:
    return Readings(time.time(), time.monotonic())


class SystemClock:
    """System time that never runs backwards.

    If the machine's clock is set back, this keeps showing the highest time it has shown until the
    system time has caught up, so expired items do not become visible again.
    """

    def __init__(self, read: Callable[[], float] = time.time) -> None:
        self._read = read
        self._highest = 0.0

    def now(self) -> float:
        # Two threads may race here. Their times then differ by much less than the resolution of
        # `_ts`, and neither is before the floor.
        self._highest = highest = max(self._highest, self._read())
        return highest

    def advance_to_at_least(self, floor: float) -> None:
        self._highest = max(self._highest, floor)

    def held_until(self) -> float | None:
        highest = self._highest
        return highest if highest - self._read() > _REPORTED_PAUSE else None


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

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
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

    def database_time(self) -> float:
        """The database's own time, which no test clock moves: for leases of processes."""
        return self._estimate()

    def readings(self) -> Readings:
        return Readings(self._estimate(), self._read())

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
