"""Stops work whose client has closed the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, TypeAlias

from perseid.shared_timer import SharedTimer

WaitForDisconnect: TypeAlias = Callable[[], Awaitable[None]]

_WATCH_AFTER_SECONDS: Final = 0.05  # most work takes less, and then nothing is watched


class ClientDisconnected(Exception):
    """The work was stopped because its client has closed the connection."""


class DisconnectWatcher(SharedTimer):
    """Starts watching the clients of work that takes a while: a shared timer for all work."""

    def __init__(self) -> None:
        super().__init__(_WATCH_AFTER_SECONDS)


class DisconnectWatch:
    """Around work: cancels it when the client disconnects, and raises ClientDisconnected."""

    __slots__ = ("_has_cancelled", "_is_old", "_task", "_wait", "_watch", "_watcher")

    def __init__(self, watcher: DisconnectWatcher, wait: WaitForDisconnect | None) -> None:
        self._watcher = watcher
        self._wait = wait
        self._watch: asyncio.Future[None] | None = None
        self._has_cancelled = False
        self._is_old = False

    def __enter__(self) -> None:
        if self._wait is not None:
            self._task = asyncio.current_task()
            self._watcher.add(self)

    def __exit__(
        self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None
    ) -> None:
        self._watcher.remove(self)
        if self._watch is not None:
            self._watch.remove_done_callback(self._cancel_work)
            self._watch.cancel()
        if self._has_cancelled and self._task is not None:
            self._task.uncancel()
            if isinstance(exc, asyncio.CancelledError):
                raise ClientDisconnected from exc

    def tick(self) -> None:
        """Begins to wait for the client to disconnect if the work runs since the last tick."""
        if self._is_old and self._watch is None and self._wait is not None:
            self._watch = asyncio.ensure_future(self._wait())
            self._watch.add_done_callback(self._cancel_work)
        self._is_old = True

    def _cancel_work(self, watch: asyncio.Future[None]) -> None:
        if self._task is not None and not watch.cancelled():
            self._has_cancelled = True
            self._task.cancel()
