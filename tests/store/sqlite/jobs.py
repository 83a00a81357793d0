"""Helpers for write jobs that are submitted together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from perseid.store.protocol import Stores
from tests.support.stores import sqlite_database

T = TypeVar("T")


class Gate:
    """Holds the writer in a heavy job, so that what is submitted meanwhile becomes one group."""

    def __init__(self, store: Stores) -> None:
        self._entered, self._opened = threading.Event(), threading.Event()
        self._store = store
        self._task: asyncio.Future[bool] | None = None

    def hold(self) -> bool:
        """Waits until the gate opens, and changes nothing; as a commit hook it lets it happen."""
        self._entered.set()
        return not self._opened.wait()

    async def entered(self) -> None:
        await asyncio.to_thread(self._entered.wait)

    def open(self) -> None:
        self._opened.set()

    async def __aenter__(self) -> Gate:
        self._task = sqlite_database(self._store).writer.submit(self.hold, is_heavy=True)
        await self.entered()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open()
        if self._task is not None:
            await self._task


async def submit(*jobs: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Starts the jobs, in order, up to where they wait for the writer."""
    tasks = [asyncio.create_task(job) for job in jobs]
    await asyncio.sleep(0)
    return tasks


async def outcomes(tasks: Sequence[asyncio.Task[T]]) -> list[T | BaseException]:
    return await asyncio.gather(*tasks, return_exceptions=True)


# A full disk ------------------------------------------------------------------------------------


def limit_pages(store: Stores, more: int) -> None:
    """Leaves room for `more` pages; the engine then answers as on a full disk."""
    used = sqlite_database(store).write_db.pragma("page_count")
    sqlite_database(store).write_db.pragma("max_page_count", used + more)
