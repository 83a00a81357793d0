"""Calls that give all callers the same result: those that wait for it share the next call.

A caller never gets the result of a call that began before it asked, which might be outdated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from perseid.errors import without_frames

T = TypeVar("T")


class SharedCalls(Generic[T]):
    """One call in progress for each key, and one that follows it."""

    def __init__(self) -> None:
        self._following: dict[Hashable, _Following[T] | None] = {}  # by key of a call in progress
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which may be that of another caller with the same key."""
        if key not in self._following:
            self._following[key] = None
            try:
                return await work()
            finally:
                self._go_on(key)
        following = self._following[key]
        if following is None:
            following = self._following[key] = _Following(work)
        # If this caller gives up, others may still wait.
        return await asyncio.shield(following.result)

    def _go_on(self, key: Hashable) -> None:
        following = self._following[key]
        if following is None:
            del self._following[key]
            return
        self._following[key] = None
        task = asyncio.get_running_loop().create_task(self._run(key, following))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: Hashable, following: _Following[T]) -> None:
        result = following.result
        try:
            value = await following.work()
        except asyncio.CancelledError:
            result.cancel()
            raise
        except Exception as exc:
            result.set_exception(without_frames(exc))
            result.exception()  # all callers may have given up
        else:
            result.set_result(value)
        finally:
            self._go_on(key)


class _Following(Generic[T]):
    """The next call, and the result for those that wait for it."""

    __slots__ = ("result", "work")

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.work = work
        self.result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
