"""Servers that the tests of one process share: tests that ask for equal flags get one server.

A test gets its server from the fixture `server`. A suite that needs other flags overrides that
fixture: `return servers(no_sweeper=True)`. A test that stops or kills its server, or reads what
the whole account holds, starts a private one with `running` (tests/support/running.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from perseid.clock import Clock, MovableClock
from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.stores import Stores

ClockKind: TypeAlias = Literal["movable", "frozen", "system"]


def frozen_clock(at: float | None = None) -> MovableClock:
    """A clock that stands at the beginning of a second, or at the time `at`."""
    clock = MovableClock()
    now = math.ceil(clock.freeze())
    clock.set(now if at is None else at)
    return clock


@contextmanager
def serving(settings: Settings, clock: Clock | None = None) -> Iterator[RawClient]:
    """A client of a private server that runs until the block ends."""
    with running(settings, clock) as ready, closing(RawClient(ready.endpoint, ready.key)) as raw:
        yield raw


@dataclass(frozen=True)
class RunningServer:
    """A server and the clock it reads; `movable` is None if that is the system's."""

    settings: Settings
    movable: MovableClock | None = None
    is_frozen: bool = False

    @property
    def endpoint(self) -> str:
        return self.settings.endpoint

    @property
    def key(self) -> str:
        return self.settings.key

    @property
    def clock(self) -> MovableClock:
        assert self.movable is not None, "this server reads the system clock"
        return self.movable

    def connect(self) -> AbstractContextManager[RawClient]:
        """A client of its own connection, which is closed with the block."""
        return closing(RawClient(self.endpoint, self.key))


class Servers:
    """Starts servers on one database, each when it is first asked for; all stop with the block."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._open = ExitStack()
        self._known: dict[tuple[ClockKind, frozenset[tuple[str, Any]]], RunningServer] = {}

    def __enter__(self) -> Self:
        self._place = self._open.enter_context(self._stores.place())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    def __call__(
        self, clock: ClockKind = "movable", *, relaxed: bool = True, **flags: Any
    ) -> RunningServer:
        """The server with these flags; not `relaxed`: one that refuses what the service refuses.

        Its clock runs and can be moved, stands still until a test moves it, or is the system's.
        Tests of several suites move a shared clock, but only forward.
        """
        flags["relaxed"] = relaxed
        wanted = (clock, frozenset(flags.items()))
        if wanted not in self._known:
            self._known[wanted] = self._start(clock, flags)
        return self._known[wanted]

    def _start(self, kind: ClockKind, flags: dict[str, Any]) -> RunningServer:
        clock = None
        if kind != "system":
            clock = frozen_clock() if kind == "frozen" else MovableClock()
        settings = self._open.enter_context(running(self._place.fresh(**flags), clock))
        return RunningServer(settings, clock, kind == "frozen")
