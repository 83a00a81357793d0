"""A real server that keeps its data, and a clock that stands still until somebody moves it."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Self

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import running


class Site:
    """A server that can be started again on what it has left behind."""

    raw: RawClient

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._running = ExitStack()
        self.clock = MovableClock()
        self.clock.set(math.ceil(self.clock.freeze()))
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
        found = self._running.enter_context(running(self._settings, self.clock))
        self.raw = self._running.enter_context(closing(RawClient(found.endpoint)))
