"""Where evaluation runs: on the event loop, in a thread, or in this process without either.

Threads take the interpreter from the event loop: with one, other requests wait for some
milliseconds, with four for hundreds. So the server evaluates in one thread at a time, each page for
some milliseconds only. A page that takes longer raises LongEvaluation, and is built in a worker
process from its start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, Final, Protocol, TypeVar

from perseid.errors import TooManyRequests
from perseid.service.queries import budget

T = TypeVar("T")

_SKIPPED_TRIES: Final = 50  # pages of a query that took long, before it is tried again
_MOST_QUERIES: Final = 4096
_MOST_PLANNED: Final = 32  # at a time


class LongEvaluation(Exception):
    """The evaluation takes longer than it may in the server process."""


class Evaluator(Protocol):
    """Evaluates the items of one page."""

    most_groups: float  # counted by the store, that may be evaluated here
    most_steps: float  # of the work limit of a page
    end: float  # of the work that is running: the reading of the performance counter
    chunks: int  # of items that may be read at a time

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of work that takes too long for the event loop."""
        ...

    def run_here(self, work: Callable[..., T], *arguments: Any) -> T:
        """The same on the thread of the caller, which is not the event loop."""
        ...


class InlineEvaluator:
    """Evaluates everything at once: in a worker process, which does nothing else."""

    most_groups = most_steps = end = inf
    chunks = 4  # the longer it evaluates, the more likely the server reads at the same time

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return work(*arguments)

    def run_here(self, work: Callable[..., T], *arguments: Any) -> T:
        return work(*arguments)


class ThreadEvaluator:
    """Evaluates in threads for as long as it takes: in a server without worker processes."""

    most_groups = most_steps = end = inf
    chunks = 1

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.to_thread(work, *arguments)

    def run_here(self, work: Callable[..., T], *arguments: Any) -> T:
        return work(*arguments)


class SliceEvaluator:
    """Evaluates in the one thread for evaluation, for a slice of time."""

    chunks = 1

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.most_groups: float = budget.SLICE_GROUPS
        self.most_steps: float = budget.SLICE_STEPS
        self._threads = threads
        self._seconds_left = budget.SLICE_SECONDS
        self.end = inf

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.run_here, work, *arguments)

    def run_here(self, work: Callable[..., T], *arguments: Any) -> T:
        started = time.perf_counter()
        self.end = started + self._seconds_left
        try:
            return work(*arguments)
        finally:
            self.end = inf
            self._seconds_left -= time.perf_counter() - started


class Evaluation:
    """The thread for evaluation, and which queries have taken long."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._planned = 0  # queries that are being planned in the thread, or wait for it
        # By a hash of the query: how many of its pages go to a worker process without a try.
        self._tries_to_skip: dict[int, int] = {}

    def slice(self) -> SliceEvaluator:
        """An evaluator for one page."""
        return SliceEvaluator(self._executor())

    @property
    def is_planning(self) -> bool:
        """True if the thread is busy for longer than a slice."""
        return self._planned > 0

    async def plan(self, work: Callable[..., T], *arguments: Any) -> T:
        """Runs work on the text of a query in the thread. It takes as long as the text is."""
        if self._planned >= _MOST_PLANNED:
            raise TooManyRequests("Too many long queries are waiting. Please retry later.")
        self._planned += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor(), work, *arguments)
        finally:
            self._planned -= 1

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="perseid-evaluation")
        return self._threads

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def is_long(self, key: int) -> bool:
        """True if a query took long lately; each call brings the next try nearer."""
        if not self._tries_to_skip:
            return False
        tries = self._tries_to_skip.get(key, 0)
        if tries:
            self._tries_to_skip[key] = tries - 1
        return tries > 0

    def note(self, key: int, *, is_long: bool) -> None:
        """Remembers whether a query took long."""
        if not is_long:
            self._tries_to_skip.pop(key, None)
            return
        if len(self._tries_to_skip) >= _MOST_QUERIES:
            self._tries_to_skip.clear()
        self._tries_to_skip[key] = _SKIPPED_TRIES
