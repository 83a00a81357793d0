"""The only reader of wall time. Everyone else is handed a `now`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

LAST_SECOND: Final = 253_402_300_799  # of the year 9999, where calendars end
_REPORTED_PAUSE: Final = 5.0  # seconds of standing still; less is what time servers do all day


class Clock(Protocol):
    """Seconds since the epoch that never run backwards."""

    def now(self) -> float:
        """The time that decides `_ts` and expiry; read once per request."""
        ...

    def advance_to_at_least(self, floor: float) -> None:
        """Never shows a time before `floor`: the highest that an earlier run has shown."""
        ...

    def held_until(self) -> float | None:
        """Where it stands until the system's time gets there; None if it does not wait."""
        ...


class Readings(NamedTuple):
    """The machine's two clocks at one moment; only the second never jumps."""

    wall: float
    monotonic: float


def wall() -> float:
    """The system's own time: for signature dates, which clients stamp with theirs."""
    return time.time()


def readings() -> Readings:
    return Readings(time.time(), time.monotonic())


class SystemClock:
    """System time, held back from ever going backwards.

    A machine whose clock was set back keeps showing the highest time anyone has seen until the
    real one has caught up, so nothing that died is seen again.
    """

    def __init__(self, read: Callable[[], float] = time.time) -> None:
        self._read = read
        self._highest = 0.0

    def now(self) -> float:
        # Two threads may race here; each still gets a time that neither will undercut by much
        # less than the resolution of `_ts`, and never one before the floor.
        self._highest = highest = max(self._highest, self._read())
        return highest

    def advance_to_at_least(self, floor: float) -> None:
        self._highest = max(self._highest, floor)

    def held_until(self) -> float | None:
        highest = self._highest
        return highest if highest - self._read() > _REPORTED_PAUSE else None


class ClockSetting(NamedTuple):
    """How a clock that was moved differs from the one it is based on."""

    offset: float = 0.0
    frozen: float | None = None


class MovableClock:
    """A clock that a test or an administrator can freeze and move forward, never back."""

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
        """Another clock with the same base and setting, to try a move on."""
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
        """Never: what is ahead of the system's time runs on with it."""

    def freeze(self) -> float:
        with self._lock:
            if self._frozen is None:
                # At a whole microsecond, and not behind what was shown: see _move.
                self._frozen = math.ceil(self.now() * 1e6) / 1e6
            return self._frozen

    def resume(self) -> float:
        """Runs on from where it stood, at the system's pace."""
        with self._lock:
            if self._frozen is not None:
                self._offset = self._frozen - self._base.now()
                self._frozen = None
            return self.now()

    def advance(self, seconds: float) -> float:
        """Moves forward; ValueError for a step back."""
        if not seconds >= 0:
            raise ValueError("the clock only moves forward")
        with self._lock:
            if self.now() + seconds > LAST_SECOND:
                raise ValueError("the calendar ends with the year 9999")
            self._move(seconds)
            return self.now()

    def set(self, instant: float) -> float:
        """Moves to `instant`; ValueError if that lies in the past."""
        return self.advance(instant - self.now())

    def _move(self, seconds: float) -> None:
        if self._frozen is not None:
            # In microseconds, or ten steps of a tenth would end just before the second is over.
            self._frozen = max(self._frozen, round(self._frozen + seconds, 6))
        else:
            self._offset += seconds


class SharedClock(MovableClock):
    """The clock that all front ends of a database share: the database's, and one setting.

    Between two looks at the database's clock it runs with the machine's steady one. Front ends
    differ by what such a look leaves open, well below a second; each by itself never goes back
    behind what it has shown with the setting that was in force.
    """

    # A frozen clock stands where no front end has been yet.
    _FREEZE_MARGIN: Final = 0.05

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        super().__init__(self._estimate)
        self._read = read
        self._database_offset: float | None = None  # of the database's clock against the steady one
        self._floor = 0.0

    def _estimate(self) -> float:
        return self._read() + (self._database_offset or 0.0)

    def steady(self) -> float:
        """The machine's steady clock, to be read around a look at the database's."""
        return self._read()

    def add_reading(self, database: float, sent: float, received: float) -> None:
        """The database's clock showed this at some time between two readings of the steady one.

        An estimate that is possible stays; else it becomes the nearest that is.
        """
        lowest, highest = database - received, database - sent
        if self._database_offset is None:
            self._database_offset = (lowest + highest) / 2
        else:
            self._database_offset = min(max(self._database_offset, lowest), highest)

    def database_time(self) -> float:
        """The database's own time: for what lives and dies with processes, like leases."""
        return self._estimate()

    def readings(self) -> Readings:
        return Readings(self._estimate(), self._read())

    def now(self) -> float:
        return max(self._floor, super().now())

    def adopt(self, setting: ClockSetting) -> None:
        # Whoever resumed it has another idea of the base, by some milliseconds.
        self._floor = max(self._floor, self._frozen or 0.0)
        super().adopt(setting)

    def trial(self) -> MovableClock:
        return _TrialWithMargin(self._base, self.setting, self._FREEZE_MARGIN)

    def advance_to_at_least(self, floor: float) -> None:
        """Nothing to do: the store holds the database's clock to what was shown before."""


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
    """Shows what a shared clock shows, and cannot be moved."""

    def __init__(self, followed: SharedClock) -> None:
        self._followed = followed

    def now(self) -> float:
        return self._followed.now()

    def readings(self) -> Readings:
        return self._followed.readings()

    def advance_to_at_least(self, floor: float) -> None:
        self._followed.advance_to_at_least(floor)

    def held_until(self) -> None:
        """Never, as the one that it follows."""
