"""Builds query pages in a worker process, with the items that the server process sends it.

A worker has no connection to the database: the server reads for it, with the checks, tombstones,
indexes and caches that all its reads have.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from perseid.conditions import PropertyPath
from perseid.service.queries.evaluation import InlineEvaluator
from perseid.service.queries.pages.build import build
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.pages.sent import SentPage, unpack_groups
from perseid.service.queries.pages.task import PageTask
from perseid.service.queries.plan_cache import PlanCache
from perseid.store.types import OnGroups, Search, SearchPage
from perseid.workers.host import ask, receive_answer, send_question

T = TypeVar("T")

_plans: Final = PlanCache()


def build_page(task: PageTask) -> tuple[QueryResultPage, dict[str, Any] | None]:
    """The page, without a continuation, and the position of the next one, if there is one."""
    bound = _plans.bind(task.container, task.request, task.now)
    source = _ServerSource()
    try:
        return _result(build(task, bound, source, InlineEvaluator()))
    finally:
        source.finish()


def _result(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that never waits: questions to the server block this process.

    So it needs no event loop, which would take half a millisecond to make.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise RuntimeError("The work waits for something.")


def _is_start_of(asked: Search, search: Search) -> bool:
    """True if the answer to one search has the first items, or all items, of the other."""
    return asked.limit <= search.limit and asked._replace(limit=search.limit) == search


class _ServerSource:
    """See `ItemSource`: the items as the server sends them; `page_server` answers."""

    def __init__(self) -> None:
        self._asked_ahead: Search | None = None

    async def search(self, search: Search, *, reads_on: bool = False) -> SearchPage:
        if self._asked_ahead is not None and _is_start_of(self._asked_ahead, search):
            self._asked_ahead = None
            fields, bodies = receive_answer()
        else:
            self.finish()
            fields, bodies = ask(("search", search))
        sent = SentPage._make(fields)
        if reads_on and sent.has_more:
            self._ask_ahead(search._replace(after=sent.numbers[-1]))
        return sent.page(bodies)

    def _ask_ahead(self, search: Search) -> None:
        """Lets the server read the next items while others are evaluated."""
        self._asked_ahead = search
        send_question(("search", search))

    def finish(self) -> None:
        """Receives the answer that nothing needs any more."""
        if self._asked_ahead is not None:
            self._asked_ahead = None
            receive_answer()

    async def count(self, search: Search) -> int:
        self.finish()
        count: int = ask(("count", search))
        return count

    async def count_groups(
        self, search: Search, paths: Sequence[PropertyPath], on_groups: OnGroups
    ) -> None:
        self.finish()
        groups = ask(("first_groups", search, paths))
        while groups is not None:
            send_question(("next_groups",))  # the server prepares them meanwhile
            try:
                on_groups(unpack_groups(groups))
            finally:
                groups = receive_answer()

    async def check_catalog_version(self) -> None:
        self.finish()
        ask(("check_catalog_version",))
