"""The only reader of wall time. Everyone else is handed a `now`."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch that never run backwards."""

    def now(self) -> float:
        """The time that decides `_ts` and expiry; read once per request."""
        ...


def wall() -> float:
    """The system's own time: for signature dates, which clients stamp with theirs."""
    return time.time()


class SystemClock:
    """System time, held back from ever going backwards: not below `floor`, nor below itself.

    `floor` is the highest time an earlier run has shown to anyone; a machine whose clock was set
    back keeps that time until the real one has caught up, so nothing that died is seen again.
    """

    def __init__(self, floor: float = 0.0) -> None:
        self._highest = floor

    def now(self) -> float:
        # Two threads may race here; each still gets a time that it, and the store, never undercut.
        self._highest = highest = max(self._highest, time.time())
        return highest


class MovableClock:
    """A clock that a test or an administrator can freeze and move forward, never back."""

    def __init__(self, floor: float = 0.0) -> None:
        self._base = SystemClock(floor)
        self._offset = 0.0
        self._frozen: float | None = None
        self._lock = threading.Lock()

    @property
    def is_frozen(self) -> bool:
        return self._frozen is not None

    def now(self) -> float:
        frozen = self._frozen
        return frozen if frozen is not None else self._base.now() + self._offset

    def freeze(self) -> float:
        with self._lock:
            if self._frozen is None:
                self._frozen = self.now()
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
            if self._frozen is not None:
                self._frozen += seconds
            else:
                self._offset += seconds
            return self.now()

    def set(self, instant: float) -> float:
        """Moves to `instant`; ValueError if that lies in the past."""
        return self.advance(instant - self.now())
