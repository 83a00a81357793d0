"""Stops work whose client has closed the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, TypeAlias

WaitForDisconnect: TypeAlias = Callable[[], Awaitable[None]]

_WATCH_AFTER_SECONDS: Final = 0.05  # most work takes less, and then nothing is watched


class ClientDisconnected(Exception):
    """The work was stopped because its client has closed the connection."""


class DisconnectWatcher:
    """Starts watching the clients of work that takes a while.

    One timer serves all work: a timer for each query costs a tenth of a short query.
    """

    def __init__(self) -> None:
        self._watches: set[DisconnectWatch] = set()
        self._has_timer = False

    def add(self, watch: DisconnectWatch) -> None:
        self._watches.add(watch)
        if not self._has_timer:
            self._set_timer()

    def remove(self, watch: DisconnectWatch) -> None:
        self._watches.discard(watch)

    def _set_timer(self) -> None:
        self._has_timer = True
        asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._start_old_watches)

    def _start_old_watches(self) -> None:
        """Starts the watches that existed at the last call; the others start at the next."""
        self._has_timer = False
        for watch in self._watches:
            if watch.is_old:
                watch.start()
            watch.is_old = True
        if self._watches:
            self._set_timer()


class DisconnectWatch:
    """Around work: cancels it when the client disconnects, and raises ClientDisconnected."""

    __slots__ = ("_has_cancelled", "_task", "_wait", "_watch", "_watcher", "is_old")

    def __init__(self, watcher: DisconnectWatcher, wait: WaitForDisconnect | None) -> None:
        self._watcher = watcher
        self._wait = wait
        self._watch: asyncio.Future[None] | None = None
        self._has_cancelled = False
        self.is_old = False

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

    def start(self) -> None:
        """Begins to wait for the client to disconnect, if that has not begun."""
        if self._watch is None and self._wait is not None:
            self._watch = asyncio.ensure_future(self._wait())
            self._watch.add_done_callback(self._cancel_work)

    def _cancel_work(self, watch: asyncio.Future[None]) -> None:
        if self._task is not None and not watch.cancelled():
            self._has_cancelled = True
            self._task.cancel()
