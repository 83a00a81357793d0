"""Has query pages built by worker processes, and answers their questions about items."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from perseid.conditions import PropertyPath
from perseid.service.account import Account
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.pages.sent import pack, pack_groups
from perseid.service.queries.pages.task import PageTask
from perseid.service.queries.store_source import StoreSource
from perseid.store.types import GroupCount, Search
from perseid.workers.messages import AnswerWithParts, EncodedAnswer, encode_answer

# In one answer. The first ones are small, so that the worker begins to evaluate early.
_FIRST_GROUPS: Final = 125
_MOST_GROUPS: Final = 1000
_BATCHES: Final = 4  # that wait for the worker


async def build_in_worker(
    account: Account, task: PageTask, source: StoreSource
) -> tuple[QueryResultPage, dict[str, Any] | None]:
    """The page of the task, built by a worker process with the items of `source`."""
    from perseid.service.queries import page_worker  # imported here because few queries need it

    answers = _Answers(source)
    request = task.request._replace(parameters=dict(task.request.parameters))
    try:
        return await account.workers.call(
            page_worker.build_page,
            task._replace(request=request),
            seconds=task.budget.worker_seconds,
            answer=answers.answer,
        )
    finally:
        await answers.close()


class _Closed(Exception):
    """Ends the thread of a count whose groups nothing reads any more."""


class _Answers:
    """Answers the questions of one page. A question is a tuple of a name and arguments."""

    def __init__(self, source: StoreSource) -> None:
        self._by_name: dict[str, Callable[..., Awaitable[Any]]] = {
            "search": self._search,
            "count": source.count,
            "check_catalog_version": source.check_catalog_version,
            "first_groups": self._first_groups,
            "next_groups": self._next_groups,
        }
        self._source = source
        self._batches = _Batches()
        self._counting: asyncio.Task[None] | None = None

    async def answer(self, question: Any) -> Any:
        name, *arguments = question
        return await self._by_name[name](*arguments)

    async def close(self) -> None:
        """Stops a count that the worker has not read to its end."""
        if self._counting is None:
            return
        self._batches.close()
        self._counting.cancel()
        await asyncio.gather(self._counting, return_exceptions=True)

    async def _search(self, search: Search) -> AnswerWithParts:
        return pack(await self._source.search(search))

    async def _first_groups(
        self, search: Search, paths: Sequence[PropertyPath]
    ) -> EncodedAnswer | None:
        self._counting = asyncio.create_task(self._count_groups(search, paths))
        self._counting.add_done_callback(self._batches.end)
        return await self._next_groups()

    async def _next_groups(self) -> EncodedAnswer | None:
        """The next groups; None after the last one."""
        assert self._counting is not None  # noqa: S101
        batch = await self._batches.take()
        if batch is None:
            await self._counting  # raises its error
        return batch

    async def _count_groups(self, search: Search, paths: Sequence[PropertyPath]) -> None:
        loop = asyncio.get_running_loop()

        def on_groups(groups: Iterable[GroupCount]) -> None:
            """Called on another thread."""
            remaining, size = iter(groups), _FIRST_GROUPS
            while batch := [*islice(remaining, size)]:
                # Encoded here, not on the event loop: other requests wait for that.
                self._batches.put(loop, EncodedAnswer(encode_answer(pack_groups(batch))))
                size = min(2 * size, _MOST_GROUPS)

        await self._source.count_groups(search, paths, on_groups)


class _Batches:
    """Batches of groups from the thread of the store to the event loop: a few at a time."""

    def __init__(self) -> None:
        self._room = threading.Semaphore(_BATCHES)
        self._waiting: deque[EncodedAnswer] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._has_ended = False
        self._is_closed = False

    def put(self, loop: asyncio.AbstractEventLoop, batch: EncodedAnswer) -> None:
        """Called on the thread of the store; waits for room."""
        self._room.acquire()
        if self._is_closed:
            raise _Closed
        loop.call_soon_threadsafe(self._add, batch)

    def _add(self, batch: EncodedAnswer) -> None:
        self._waiting.append(batch)
        self._wake()

    def end(self, _: object) -> None:
        """No further batch comes."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def take(self) -> EncodedAnswer | None:
        """The next batch; None after the last one."""
        while not self._waiting:
            if self._has_ended:
                return None
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        self._room.release()
        return self._waiting.popleft()

    def close(self) -> None:
        """Ends the thread at its next batch."""
        self._is_closed = True
        self._room.release()
