"""Runs queries over the live items of a container, page by page."""

from __future__ import annotations

import time
from math import inf
from typing import Any, Final, NamedTuple

from perseid.model import body_of, size_of
from perseid.service.operation import Operation
from perseid.service.queries import budget
from perseid.service.queries.continuations import seal_position, unseal_position
from perseid.service.queries.disconnects import DisconnectWatch, WaitForDisconnect
from perseid.service.queries.evaluation import LongEvaluation, ThreadEvaluator
from perseid.service.queries.page_server import build_in_worker
from perseid.service.queries.pages import builder
from perseid.service.queries.pages.build import build
from perseid.service.queries.pages.result import PageTimings, QueryResultPage
from perseid.service.queries.pages.task import PageTask
from perseid.service.queries.plan_cache import SHORT_BODY, BoundPlan
from perseid.service.queries.requests import LONG_TEXT, QueryRequest, compile_for, parse_request
from perseid.service.queries.store_source import StoreSource
from perseid.store.types import Search, SearchPage

_LARGE_BODY: Final = 32 * 1024  # decoded and checked in about a millisecond


class PageRequest(NamedTuple):
    """Which page of a query a client asks for."""

    limit: int
    token: str | None = None
    allowance: float = inf  # request units
    interval: str = ""  # of keys that the token is for; empty: not bound to one
    is_merged: bool = False  # by the client, with pages of other ranges


async def plan_request(op: Operation, body: bytes) -> tuple[BoundPlan, float]:
    """The plan of a request body, and the seconds it took."""
    started = time.perf_counter()
    if len(body) > _LARGE_BODY:
        request = await op.account.evaluation.plan(parse_request, body)
    else:
        request = parse_request(body)
    bound = await plan_query(op, request)
    op.account.plans.add(op.container, body, bound)
    return bound, time.perf_counter() - started


async def plan_query(op: Operation, request: QueryRequest) -> BoundPlan:
    """Plans a query, in a thread if that may take long."""
    plans = op.account.plans
    if _is_slow_to_plan(op, request):
        evaluation = op.account.evaluation
        return await evaluation.plan(plans.bind, op.container, request, op.now)
    return plans.bind(op.container, request, op.now)


def _is_slow_to_plan(op: Operation, request: QueryRequest) -> bool:
    """True if compiling the query, or evaluating its row-independent parts, may take long."""
    if len(request.text) > LONG_TEXT:
        return True
    if request.length <= SHORT_BODY:
        return False
    return bool(compile_for(op.container, request.text).row_independent)


async def run_page(
    op: Operation,
    bound: BoundPlan,
    scope: Search,
    page_request: PageRequest,
    wait_for_disconnect: WaitForDisconnect | None = None,
) -> QueryResultPage:
    """The page of any query; stops when the client disconnects."""
    with DisconnectWatch(op.account.disconnects, wait_for_disconnect):
        return await build_page(op, bound, scope, page_request)


def reads_lsn_with_page(op: Operation) -> bool:
    """True if one statement may give the first page of a query and the LSN of its container."""
    return op.account.stores.queries.is_remote and len(op.container.ranges) == 1


async def run_first_page(
    op: Operation,
    bound: BoundPlan,
    scope: Search,
    limit: int,
    is_merged: bool,
    wait_for_disconnect: WaitForDisconnect | None = None,
) -> QueryResultPage | None:
    """As `try_first_page`, with a database that cannot answer at once, and with the LSN."""
    search = _only_search(bound, scope, limit)
    if search is None:
        return None
    started = time.perf_counter()
    with DisconnectWatch(op.account.disconnects, wait_for_disconnect):
        page = await op.account.stores.queries.search(op.container, search)
    if page.lsn is None:
        return None
    page_request = PageRequest(limit, is_merged=is_merged)
    return _first_page(op, bound, search, page, started, page_request)


def confine(scope: Search, bound: BoundPlan) -> Search:
    """The only logical partition of the scope that can match, if WHERE names one."""
    if bound.partition_key is None or scope.pk_prefix is not None:
        return scope
    return scope._replace(pk_prefix=bound.partition_key)


def try_first_page(
    op: Operation, bound: BoundPlan, scope: Search, limit: int, interval: str, is_merged: bool
) -> QueryResultPage | None:
    """The first page of a query that returns items unchanged or counts them, if one quick search
    gives it.

    Most queries are like that, so this skips everything that other pages need. None says nothing
    about the page.
    """
    if bound.plan.counts_items:
        return _try_count(op, bound, scope)
    search = _only_search(bound, scope, limit)
    if search is None:
        return None
    started = time.perf_counter()
    page = op.account.stores.queries.try_search(op.container, search)
    if page is None:
        return None
    return _first_page(
        op, bound, search, page, started, PageRequest(limit, None, inf, interval, is_merged)
    )


def _only_search(bound: BoundPlan, scope: Search, limit: int) -> Search | None:
    """The search whose items are the first page; None if the page needs more than that."""
    plan, request, where, skip, left, _ = bound
    if not plan.copies_items:
        return None
    room = limit if left is None or left > limit else left
    if room == 0 or skip + room > builder.CHUNK:
        return None
    if plan.order is not None and (room != left or request.resume is not None):
        return None  # it begins at a position in the order, or a further page would
    return scope.with_filter(where, plan.indexable, skip + room, plan.order)


def _first_page(
    op: Operation,
    bound: BoundPlan,
    search: Search,
    page: SearchPage,
    started: float,
    page_request: PageRequest,
) -> QueryResultPage | None:
    """The page of the items of its only search; None if these do not suffice."""
    rows, has_more, _, is_ordered, lsn = page
    if search.order is not None and not is_ordered:
        return None
    has_more = has_more and not is_ordered  # an ordered page has all rows that LIMIT allows
    loading = time.perf_counter() - started
    if has_more and len(rows) < search.limit:
        return None  # the store's page holds too few items
    bodies = [*map(body_of, rows[bound.offset :])]
    continuation, left, limit = None, bound.limit, page_request.limit
    is_full = len(bodies) == limit and not page_request.is_merged
    if (has_more or is_full) and (left is None or left > limit):
        next_position: dict[str, Any] = {"item": rows[-1].number + 1, "given": 0}
        if left is not None:
            next_position["left"] = left - len(bodies)
        continuation = seal_position(op, bound.request, page_request.interval, next_position)
    ranges = {row.range_index for row in rows} if len(op.container.ranges) > 1 else set()
    times = PageTimings(loading=loading)
    sizes = [*map(size_of, rows)]
    return QueryResultPage(bodies, sizes, 0, len(rows), continuation, times, ranges, lsn)


def _try_count(op: Operation, bound: BoundPlan, scope: Search) -> QueryResultPage | None:
    search = scope.with_filter(bound.where, bound.plan.indexable, 0)
    started = time.perf_counter()
    count = op.account.stores.queries.try_count(op.container, search)
    if count is None:
        return None
    times = PageTimings(loading=time.perf_counter() - started)
    return QueryResultPage([b"%d" % count], [], count, 0, None, times, set())


async def build_page(
    op: Operation, bound: BoundPlan, scope: Search, page_request: PageRequest
) -> QueryResultPage:
    """The page of any query."""
    limit, token, allowance, interval, is_merged = page_request
    position = unseal_position(op, bound.request, interval, token) if token else None
    limits = budget.budget_of(op.account.settings)
    task = PageTask(op.container, bound.request, op.now, scope, limit, position, limits, allowance)
    task = task._replace(is_merged=is_merged)
    page, next_position = await _build(op, bound, task)
    if next_position is None:
        return page
    token = seal_position(op, bound.request, interval, next_position)
    return page._replace(continuation=token)


async def _build(
    op: Operation, bound: BoundPlan, task: PageTask
) -> tuple[QueryResultPage, dict[str, Any] | None]:
    """Builds a page in this process if that is short, and else in a worker process.

    How long it takes is unknown beforehand, so it is tried. A page depends on its position and the
    items only, so it can be started again.
    """
    account, source = op.account, StoreSource(op)
    if account.settings.query_workers == 0:
        return await build(task, bound, source, ThreadEvaluator())
    evaluation = account.evaluation
    key = hash((task.request.text, task.container.rid))
    if not evaluation.is_long(key) and not evaluation.is_planning:
        try:
            return await build(task, bound, source, evaluation.slice())
        except LongEvaluation:
            evaluation.note(key, is_long=True)
    page, next_position = await build_in_worker(account, task, source)
    if page.times.evaluating < budget.SLICE_SECONDS / 2:
        evaluation.note(key, is_long=False)
    return page, next_position
