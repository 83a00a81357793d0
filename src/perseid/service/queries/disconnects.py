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


class DisconnectWatch:
    """Around work: cancels it when the client disconnects, and raises ClientDisconnected."""

    def __init__(self, wait_for_disconnect: WaitForDisconnect | None) -> None:
        self._wait_for_disconnect = wait_for_disconnect
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Future[None] | None = None
        self._has_cancelled = False

    def __enter__(self) -> None:
        if self._wait_for_disconnect is not None:
            self._task = asyncio.current_task()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_WATCH_AFTER_SECONDS, self._begin)

    def __exit__(
        self, _: type[BaseException] | None, exc: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.remove_done_callback(self._cancel_work)
            self._watch.cancel()
        if self._has_cancelled and self._task is not None:
            self._task.uncancel()
            if isinstance(exc, asyncio.CancelledError):
                raise ClientDisconnected from exc

    def _begin(self) -> None:
        assert self._wait_for_disconnect is not None  # noqa: S101  # else there is no timer
        self._watch = asyncio.ensure_future(self._wait_for_disconnect())
        self._watch.add_done_callback(self._cancel_work)

    def _cancel_work(self, watch: asyncio.Future[None]) -> None:
        if self._task is not None and not watch.cancelled():
            self._has_cancelled = True
            self._task.cancel()
