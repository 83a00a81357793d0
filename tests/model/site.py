"""A real server that keeps its data, and a clock that stands still until it is moved."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Protocol, Self

from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.servers import frozen_clock


class Hands(Protocol):
    """The hands of a clock, which only move forward."""

    def now(self) -> float: ...
    def advance(self, seconds: float) -> float: ...
    def set(self, instant: float) -> float: ...


class Site:
    """A server that can be started again on what it has left behind."""

    raw: RawClient
    clock: Hands

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.clock = self._own_clock = frozen_clock()
        self._running = ExitStack()
        self.steps = 0  # taken so far, in all runs
        self.met: Counter[str] = Counter()  # answers that are not to be missed by all runs

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def restart(self) -> None:
        self._running.close()
        self._start()

    def _start(self) -> None:
        found = self._running.enter_context(running(self._settings, self._own_clock))
        self.raw = self._running.enter_context(closing(RawClient(found.endpoint)))
