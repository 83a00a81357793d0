"""Work that takes some milliseconds: in a thread, so that the event loop serves others meanwhile.

One thread for all of it. With several, the event loop would wait for each of them whenever it needs
the interpreter. What takes longer belongs into a worker process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Bytes of JSON that are decoded and checked in about a millisecond.
LARGE: Final = 32 * 1024

_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="perseid-large-items")


def in_one_thread(work: Callable[..., T], *arguments: Any) -> Awaitable[T]:
    """Runs the work after the work that was submitted before it."""
    return asyncio.get_running_loop().run_in_executor(_thread, work, *arguments)


async def if_large(size: int, work: Callable[..., T], *arguments: Any) -> T:
    """Runs work over that many bytes here if they are few, else in the thread."""
    if size <= LARGE:
        return work(*arguments)
    return await in_one_thread(work, *arguments)
