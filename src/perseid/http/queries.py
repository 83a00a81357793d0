"""Item queries on the wire."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Coroutine, Generator
from math import inf
from typing import Any, Final, TypeVar

from perseid import charges
from perseid.errors import BadRequest
from perseid.http import index_metrics, metering, wire
from perseid.http.headers import (
    CONTINUATION,
    ITEM_COUNT,
    KEY_TYPE,
    PARTITION_KEY,
    RANGE_ID,
    SESSION_TOKEN,
    check_session,
    flag,
    page_size,
    scope_of,
)
from perseid.http.items import container_of, partition_key
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.service.account import Account
from perseid.service.items.scope import search_of
from perseid.service.operation import Operation, begin
from perseid.service.queries import client_plans, pages, query_requests
from perseid.service.queries.plans import Plan, partition_key_filter
from perseid.service.queries.query_requests import QueryRequest

T = TypeVar("T")

_WATCH_AFTER_SECONDS: Final = 0.05
_LONG_TEXT: Final = 16 * 1024
_CROSS_PARTITION = (
    "Cross partition query is required but disabled. Please set"
    " x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey,"
    " or revise your query to avoid this exception."
)


async def query(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    query_request = query_requests.parse_request(request.body)
    compiling = 0.0
    plan = query_requests.cached_plan(op, query_request)
    if plan is None:
        plan, compiling = await _plan_and_time(op, query_request)
    filtered_key = partition_key_filter(container, plan, query_request.parameters)
    if filtered_key is None:
        _check_scope(request)
    lsns = await account.lsns(container)
    if request.header(SESSION_TOKEN) is not None:
        check_session(request, dict(enumerate(lsns)))
    limit = page_size(request)
    scope = scope_of(request, container, partition_key(request, exchange))
    search = search_of(op, scope, after=-1, limit=limit)
    if filtered_key is not None and search.pk_prefix is None:
        search = search._replace(pk_prefix=filtered_key)
    token = request.header(CONTINUATION)
    page = None
    if token is None and exchange.allowance == inf:
        page = pages.try_first_page(op, plan, query_request, search, limit)
    if page is None:
        work = pages.run_page(
            op, plan, query_request, search, token, limit, allowance=exchange.allowance
        )
        page = await _until_disconnect(request, exchange, work)
    page.times.compiling = compiling
    if page.ranges:
        metering.narrow_ranges(exchange, page.ranges)
    charge = charges.query_page(page.loaded, page.counted) * charges.consistency_factor(
        exchange.consistency
    )
    range_index = search.range_index or 0
    headers = container_headers(container, range_index, lsns[range_index], charge)
    headers.append((ITEM_COUNT, str(len(page.rows))))
    if flag(request, "x-ms-documentdb-populatequerymetrics"):
        headers.append(("x-ms-documentdb-query-metrics", _metrics(page)))
    headers += index_metrics.headers(request, container, query_request)
    if page.continuation is not None:
        headers.append((CONTINUATION, page.continuation))
    return Response(200, headers, wire.feed(container.rid, "Documents", page.rows))


async def _plan_and_time(op: Operation, query_request: QueryRequest) -> tuple[Plan, float]:
    """How the query runs, and how long it took to find out."""
    started = time.perf_counter()
    if len(query_request.text) <= _LONG_TEXT and not query_requests.is_slow_to_bind(
        op, query_request
    ):
        plan = query_requests.plan_query(op, query_request)
    else:  # reading it, or working it out, takes so long that others would wait
        plan = await asyncio.to_thread(query_requests.plan_query, op, query_request)
    return plan, time.perf_counter() - started


async def query_plan(account: Account, request: Request, exchange: Exchange) -> Response:
    """How the client can run a query on each range by itself and merge what it gets."""
    container = container_of(account, request, exchange)
    try:
        query_request = query_requests.parse_request(request.body)
        arguments = (container, query_request, _features(request))
        if len(query_request.text) <= _LONG_TEXT:
            client_plan = client_plans.query_plan(*arguments)
        else:
            client_plan = await asyncio.to_thread(client_plans.query_plan, *arguments)
    except BadRequest as problem:
        problem.context = "Gateway Failed to Retrieve Query Plan: "
        raise
    lsns = await account.lsns(container)
    headers = container_headers(container, 0, lsns[0], charges.METADATA_READ)
    return Response(200, headers, wire.query_plan(client_plan))


def _features(request: Request) -> frozenset[str] | None:
    """What the client says it can merge; one that says nothing is taken to be able to."""
    header = request.header("x-ms-cosmos-supported-query-features")
    return None if header is None else frozenset(map(str.strip, header.split(",")))


@types.coroutine
def _until_disconnect(
    request: Request, exchange: Exchange, work: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    """Does the work, and ends it if the client goes; most is done before there is time to look."""
    try:
        wait = work.send(None)
        with _DisconnectWatch(request, exchange):
            while True:
                try:
                    sent = yield wait
                except GeneratorExit:
                    work.close()
                    raise
                except BaseException as exc:
                    wait = work.throw(exc)
                else:
                    wait = work.send(sent)
    except StopIteration as done:
        result: T = done.value
        return result


class _DisconnectWatch:
    """Ends a query whose client has gone; looks only when it has taken a while."""

    def __init__(self, request: Request, exchange: Exchange) -> None:
        self._request = request
        self._exchange = exchange
        self._task = asyncio.current_task()
        self._watch: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_WATCH_AFTER_SECONDS, self._begin)

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._watch is not None:
            self._watch.remove_done_callback(self._end)
            self._watch.cancel()

    def _begin(self) -> None:
        if self._request.gone is not None:
            self._watch = asyncio.ensure_future(self._request.gone())
            self._watch.add_done_callback(self._end)

    def _end(self, watch: asyncio.Future[None]) -> None:
        if self._task is not None and not watch.cancelled():
            self._exchange.is_abandoned = True
            self._task.cancel()


def _check_scope(request: Request) -> None:
    """A query that may touch several partitions must say that it means to."""
    if flag(request, "x-ms-documentdb-query-enablecrosspartition"):
        return
    header = request.header(PARTITION_KEY)
    if (
        (header is None or not header.strip("[] "))
        and request.header(RANGE_ID) is None
        and request.header(KEY_TYPE) is None
    ):
        raise BadRequest(_CROSS_PARTITION)


def _metrics(page: pages.QueryResultPage) -> str:
    """The figures of a page as clients parse them; phases this engine does not have are zero."""
    times = page.times
    total = times.compiling + times.loading + times.evaluating
    figures = {
        "totalExecutionTimeInMs": total * 1000,
        "queryCompileTimeInMs": times.compiling * 1000,
        "queryLogicalPlanBuildTimeInMs": 0.0,
        "queryPhysicalPlanBuildTimeInMs": 0.0,
        "queryOptimizationTimeInMs": 0.0,
        "VMExecutionTimeInMs": times.evaluating * 1000,
        "indexLookupTimeInMs": 0.0,
        "instructionCount": 0,
        "documentLoadTimeInMs": times.loading * 1000,
        "systemFunctionExecuteTimeInMs": 0.0,
        "userFunctionExecuteTimeInMs": 0.0,
        "retrievedDocumentCount": len(page.loaded),
        "retrievedDocumentSize": sum(page.loaded),
        "outputDocumentCount": len(page.rows),
        "outputDocumentSize": sum(map(len, page.rows)),
        "writeOutputTimeInMs": 0.0,
        "indexUtilizationRatio": 0.0,
    }
    return ";".join(
        f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}"
        for name, value in figures.items()
    )
