"""Has query pages built by worker processes, and answers their questions about items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from perseid.conditions import PropertyPath
from perseid.service.account import Account
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.pages.sent import SentGroups, pack, pack_groups
from perseid.service.queries.pages.task import PageTask
from perseid.service.queries.store_source import StoreSource
from perseid.store.types import GroupCount, Search
from perseid.workers.messages import AnswerWithParts

_GROUPS: Final = 1000  # in one answer


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
        # One waits while the worker evaluates another: the store goes on when it is taken.
        self._batches: asyncio.Queue[SentGroups] = asyncio.Queue(1)
        self._counting: asyncio.Task[None] | None = None
        self._is_closed = False

    async def answer(self, question: Any) -> Any:
        name, *arguments = question
        return await self._by_name[name](*arguments)

    async def close(self) -> None:
        """Stops a count that the worker has not read to its end."""
        self._is_closed = True
        if self._counting is None:
            return
        self._counting.cancel()
        while not self._batches.empty():  # the thread may be waiting for room
            self._batches.get_nowait()
        await asyncio.gather(self._counting, return_exceptions=True)

    async def _put(self, batch: SentGroups) -> None:
        if self._is_closed:
            raise _Closed
        await self._batches.put(batch)

    async def _search(self, search: Search) -> AnswerWithParts:
        return pack(await self._source.search(search))

    async def _first_groups(
        self, search: Search, paths: Sequence[PropertyPath]
    ) -> SentGroups | None:
        self._counting = asyncio.create_task(self._count_groups(search, paths))
        return await self._next_groups()

    async def _next_groups(self) -> SentGroups | None:
        """The next groups; None after the last one."""
        assert self._counting is not None  # noqa: S101
        batch = asyncio.ensure_future(self._batches.get())
        try:
            await asyncio.wait((batch, self._counting), return_when=asyncio.FIRST_COMPLETED)
            if batch.done():
                return batch.result()
        finally:
            batch.cancel()
        await self._counting  # raises its error
        return None if self._batches.empty() else self._batches.get_nowait()

    async def _count_groups(self, search: Search, paths: Sequence[PropertyPath]) -> None:
        loop = asyncio.get_running_loop()

        def on_groups(groups: Iterable[GroupCount]) -> None:
            """Called on another thread."""
            remaining = iter(groups)
            while batch := [*islice(remaining, _GROUPS)]:
                sent = pack_groups(batch)
                asyncio.run_coroutine_threadsafe(self._put(sent), loop).result()

        await self._source.count_groups(search, paths, on_groups)
