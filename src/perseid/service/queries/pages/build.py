"""Builds a page with the builder that its plan needs."""

from __future__ import annotations

from typing import Any, Final

from perseid.query.planner.plan import Paging
from perseid.service.queries.evaluation import Evaluator
from perseid.service.queries.pages.builder import PageBuilder
from perseid.service.queries.pages.collected import CollectedPageBuilder
from perseid.service.queries.pages.copied import CopiedPageBuilder
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.pages.sorted import SortedPageBuilder
from perseid.service.queries.pages.source import ItemSource
from perseid.service.queries.pages.streamed import StreamedPageBuilder
from perseid.service.queries.pages.task import PageTask
from perseid.service.queries.plan_cache import BoundPlan

_PAGE_BUILDERS: Final[dict[Paging, type[PageBuilder]]] = {
    "copy": CopiedPageBuilder,
    "stream": StreamedPageBuilder,
    "sort": SortedPageBuilder,
    "collect": CollectedPageBuilder,
}


async def build(
    task: PageTask, bound: BoundPlan, source: ItemSource, evaluator: Evaluator
) -> tuple[QueryResultPage, dict[str, Any] | None]:
    """The page, without a continuation, and the position of the next one, if there is one.

    `bound` is the plan of the task.
    """
    page_builder = _PAGE_BUILDERS[bound.plan.paging](task, bound, source, evaluator)
    next_position = await page_builder.build()
    page = QueryResultPage(
        page_builder.rows,
        page_builder.loaded,
        page_builder.counted,
        page_builder.examined,
        None,
        page_builder.times,
        page_builder.ranges,
    )
    return page, next_position
