"""One timer for many things that are watched: a timer for each request would cost too much."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Watch(Protocol):
    """Something that a shared timer calls at intervals for as long as it is watched."""

    def tick(self) -> None: ...


class SharedTimer:
    """Calls `tick` of everything that is watched, at intervals; it rests while nothing is."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._watches: set[Watch] = set()
        self._is_set = False

    def add(self, watch: Watch) -> None:
        self._watches.add(watch)
        if not self._is_set:
            self._set()

    def remove(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def _set(self) -> None:
        self._is_set = True
        asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def _tick(self) -> None:
        self._is_set = False
        for watch in tuple(self._watches):
            watch.tick()
        if self._watches:
            self._set()
