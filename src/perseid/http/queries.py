"""Queries over items: headers in, headers out."""

from __future__ import annotations

from math import inf
from typing import Final

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
from perseid.service.operation import begin
from perseid.service.queries import client_plans, run
from perseid.service.queries.disconnects import ClientDisconnected
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.run import PageRequest

_CROSS_PARTITION: Final = (
    "Cross partition query is required but disabled. Please set"
    " x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey,"
    " or revise your query to avoid this exception."
)


async def query(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    bound, planning_seconds = account.plans.find(container, request.body, request.now), 0.0
    if bound is None:
        bound, planning_seconds = await run.plan_request(op, request.body)
    if bound.partition_key is None and container.key.tokens:
        _check_scope(request)
    lsns = await account.lsns(container)
    if request.header(SESSION_TOKEN) is not None:
        check_session(request, dict(enumerate(lsns)))
    limit = page_size(request)
    scope = scope_of(request, container, partition_key(request, exchange))
    search = run.confine(search_of(op, scope, after=-1, limit=limit), bound)
    token, page = request.header(CONTINUATION), None
    if token is None and exchange.allowance == inf:
        # Most pages are at hand; a coroutine for them would cost as much as finding them.
        page = run.try_first_page(op, bound, search, limit)
    if page is None:
        page_request = PageRequest(limit, token, exchange.allowance)
        try:
            page = await run.run_page(op, bound, search, page_request, request.gone)
        except ClientDisconnected as exc:
            raise exchange.abandon() from exc
    if page.ranges:
        metering.narrow_ranges(exchange, page.ranges)
    charge = page.charge * charges.consistency_factor(exchange.consistency)
    range_index = search.range_index or 0
    headers = container_headers(container, range_index, lsns[range_index], charge)
    headers.append((ITEM_COUNT, str(len(page.rows))))
    if flag(request, "x-ms-documentdb-populatequerymetrics"):
        headers.append(("x-ms-documentdb-query-metrics", _metrics(page, planning_seconds)))
    headers += index_metrics.headers(request, container, bound.request)
    if page.continuation is not None:
        headers.append((CONTINUATION, page.continuation))
    return Response(200, headers, wire.feed(container.rid, "Documents", page.rows))


async def query_plan(account: Account, request: Request, exchange: Exchange) -> Response:
    """How a client queries each range itself and merges the results."""
    container = container_of(account, request, exchange)
    try:
        client_plan, lsns = await client_plans.prepare(
            begin(account, container, request.now), request.body, _features(request)
        )
    except BadRequest as problem:
        problem.context = "Gateway Failed to Retrieve Query Plan: "
        raise
    headers = container_headers(container, 0, lsns[0], charges.METADATA_READ)
    return Response(200, headers, wire.query_plan(client_plan))


def _features(request: Request) -> frozenset[str] | None:
    """The features that the client can merge; None if it does not say, which stands for all."""
    header = request.header("x-ms-cosmos-supported-query-features")
    return None if header is None else frozenset(map(str.strip, header.split(",")))


def _check_scope(request: Request) -> None:
    """A query that may read several logical partitions must allow that explicitly."""
    if flag(request, "x-ms-documentdb-query-enablecrosspartition"):
        return
    header = request.header(PARTITION_KEY)
    if (
        (header is None or not header.strip("[] "))
        and request.header(RANGE_ID) is None
        and request.header(KEY_TYPE) is None
    ):
        raise BadRequest(_CROSS_PARTITION)


def _metrics(page: QueryResultPage, planning_seconds: float) -> str:
    """The counts and times of a page as clients parse them; phases Perseid does not have are 0."""
    times = page.times
    total = planning_seconds + times.loading + times.evaluating
    values = {
        "totalExecutionTimeInMs": total * 1000,
        "queryCompileTimeInMs": planning_seconds * 1000,
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
        for name, value in values.items()
    )
