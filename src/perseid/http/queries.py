"""Queries over items: headers in, headers out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from perseid import charges
from perseid.errors import BadRequest, UnmergedQuery
from perseid.http import index_metrics, metering, wire
from perseid.http.headers import (
    CONTINUATION,
    ITEM_COUNT,
    KEY_TYPE,
    SESSION_TOKEN,
    check_cross_partition,
    check_session,
    flag,
    is_relaxed,
    page_size,
    scope_of,
)
from perseid.http.items import container_of, partition_key
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items.scope import Scope, search_of
from perseid.service.operation import Operation, begin
from perseid.service.queries import client_plans, refusals, run, visits
from perseid.service.queries.continuations import is_of_service
from perseid.service.queries.disconnects import ClientDisconnected
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.plan_cache import BoundPlan
from perseid.service.queries.requests import parse_request
from perseid.service.queries.run import PageRequest
from perseid.service.queries.visits import Visit


async def query(account: Account, request: Request, exchange: Exchange) -> Response:
    op = begin(account, container_of(account, request, exchange), request.now)
    container = op.container
    bound, planning_seconds = account.plans.find(container, request.body, request.now), 0.0
    if bound is None:
        bound, planning_seconds = await run.plan_request(op, request.body)
    if bound.partition_key is None and container.key.tokens:
        check_cross_partition(request)
    scope = scope_of(request, container, partition_key(request, exchange))
    plan = bound.plan
    if plan.needs_client_plan and (plan.lacks_composite_index or not scope.is_confined):
        await _check_refusals(request, op, bound, scope)
    limit = page_size(request)
    search = run.confine(search_of(op, scope, after=-1, limit=limit), bound)
    token, visit, interval, page = request.header(CONTINUATION), None, "", None
    is_merged = scope.range_index is not None
    if token is None and exchange.allowance == inf and run.reads_lsn_with_page(op):
        with _abandoned_if_gone(exchange):
            page = await run.run_first_page(op, bound, search, limit, is_merged, request.gone)
    lsns = await account.lsns(container) if page is None else (page.lsn or 0,)
    if request.header(SESSION_TOKEN) is not None:
        check_session(request, dict(enumerate(lsns)))
    # Most requests are about one range and have no token: they need none of this.
    if token is not None or len(container.ranges) > 1:
        if not scope.is_confined:
            visit = _visit(request, op, bound, token)
            search, token, interval = visit.confine(container, search), visit.token, visit.name
        elif token is not None and is_merged and is_of_service(token):
            token = None  # a position in other data: the range is read from its beginning
    if page is None and token is None and exchange.allowance == inf:
        # Most pages are at hand; a coroutine for them would cost as much as finding them.
        page = run.try_first_page(op, bound, search, limit, interval, is_merged)
    if page is None:
        page_request = PageRequest(limit, token, exchange.allowance, interval, is_merged)
        with _abandoned_if_gone(exchange):
            page = await run.run_page(op, bound, search, page_request, request.gone)
    if page.ranges:
        metering.narrow_ranges(exchange, page.ranges)
    if visit is not None and search.range_index is not None:
        metering.narrow_ranges(exchange, (search.range_index,))
    continuation = page.continuation
    if visit is not None or (continuation is not None and not scope.is_confined):
        continuation = (visit or visits.WHOLE).continuation(continuation)
    range_index = search.range_index or 0
    headers = _headers(exchange, container, page, range_index, lsns[range_index])
    headers += _metrics_headers(request, page, planning_seconds)
    headers += index_metrics.headers(request, container, bound.request)
    if continuation is not None:
        headers.append((CONTINUATION, continuation))
    return Response(200, headers, wire.feed(container.rid, "Documents", page.rows))


def _headers(
    exchange: Exchange, container: Container, page: QueryResultPage, range_index: int, lsn: int
) -> list[tuple[str, str]]:
    charge = page.charge * charges.consistency_factor(exchange.consistency)
    headers = container_headers(container, range_index, lsn, charge)
    headers.append((ITEM_COUNT, str(len(page.rows))))
    return headers


@contextmanager
def _abandoned_if_gone(exchange: Exchange) -> Iterator[None]:
    """Ends the request without a response if the client disconnects."""
    try:
        yield
    except ClientDisconnected as exc:
        raise exchange.abandon() from exc


async def _check_refusals(request: Request, op: Operation, bound: BoundPlan, scope: Scope) -> None:
    """400 for a query that the service refuses, unless relaxed."""
    if is_relaxed(request, op.account.settings):
        return
    # A container without a partition key is one partition.
    is_confined = (
        scope.is_confined or request.header(KEY_TYPE) is not None or not op.container.key.tokens
    )
    error = refusals.refusal_of(bound.plan, is_confined=is_confined)
    if error is None:
        return
    if isinstance(error, UnmergedQuery):
        # The client can go on with this plan; one that no client can merge has no plan.
        plan = await client_plans.prepare(op, bound.request, None, is_relaxed=False)
        error.details = {"additionalErrorInfo": wire.query_plan(plan).decode()}
    raise error


def _visit(request: Request, op: Operation, bound: BoundPlan, token: str | None) -> Visit:
    """The part of a query over all partitions that the response is about."""
    container = op.container
    if token:
        return visits.resumed_visit(container, bound, token)
    if is_relaxed(request, op.account.settings):
        return visits.WHOLE
    return visits.first_visit(container, bound)


async def query_plan(account: Account, request: Request, exchange: Exchange) -> Response:
    """How a client queries each range itself and merges the results."""
    container = container_of(account, request, exchange)
    op = begin(account, container, request.now)
    try:
        client_plan = await client_plans.prepare(
            op,
            parse_request(request.body),
            _features(request),
            is_relaxed=is_relaxed(request, account.settings),
        )
    except BadRequest as problem:
        problem.context = "Gateway Failed to Retrieve Query Plan: "
        raise
    lsns = await account.lsns(container)
    headers = container_headers(container, 0, lsns[0], charges.METADATA_READ)
    return Response(200, headers, wire.query_plan(client_plan))


def _features(request: Request) -> frozenset[str] | None:
    """The features that the client can merge; None if it does not say, which stands for all."""
    header = request.header("x-ms-cosmos-supported-query-features")
    return None if header is None else frozenset(map(str.strip, header.split(",")))


def _metrics_headers(
    request: Request, page: QueryResultPage, planning_seconds: float
) -> list[tuple[str, str]]:
    if not flag(request, "x-ms-documentdb-populatequerymetrics"):
        return []
    return [("x-ms-documentdb-query-metrics", _metrics(page, planning_seconds))]


def _metrics(page: QueryResultPage, planning_seconds: float) -> str:
    """The counts and times of a page as clients parse them; phases Perseid does not have are 0."""
    times = page.times
    total = planning_seconds + times.loading + times.evaluating
    loaded, returned = len(page.loaded), len(page.rows)
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
        "retrievedDocumentCount": loaded,
        "retrievedDocumentSize": sum(page.loaded),
        "outputDocumentCount": returned,
        "outputDocumentSize": sum(map(len, page.rows)),
        "writeOutputTimeInMs": 0.0,
        # 1 if all loaded items are in the result; joins make several rows of one item
        "indexUtilizationRatio": min(returned / loaded, 1.0) if loaded else 1.0,
    }
    return ";".join(
        f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )
