"""Item queries on the wire."""

from __future__ import annotations

import dataclasses

from perseid import charges
from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.headers import (
    CONTINUATION,
    PARTITION_KEY,
    RANGE_ID,
    check_session,
    flag,
    page_size,
)
from perseid.http.items import container_of, scope
from perseid.http.request import Request, Response
from perseid.http.responses import container_headers
from perseid.model import Container
from perseid.service import queries
from perseid.service.account import Account
from perseid.service.operation import begin

_CROSS_PARTITION = (
    "Cross partition query is required but disabled. Please set"
    " x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey,"
    " or revise your query to avoid this exception."
)


async def query(account: Account, request: Request) -> Response:
    op = begin(account, container_of(account, request), request.now)
    container = op.container
    wanted = queries.parse_request(request.body)
    _check_scope(request, container, wanted)
    lsns = await account.store.lsns(container)
    check_session(request, dict(enumerate(lsns)))
    limit = page_size(request)
    scan = scope(op, request, after=-1, limit=limit)
    if scan.pk_prefix is None:
        scan = dataclasses.replace(scan, pk_prefix=queries.pinned_key(container, wanted))
    token = request.header(CONTINUATION)
    page = await queries.run_page(op, wanted, scan, token, limit)
    charge = charges.query_page(page.loaded, page.counted) * charges.consistency_factor(
        request.level
    )
    part = scan.range_index or 0
    headers = container_headers(container, part, lsns[part], charge)
    headers.append(("x-ms-item-count", str(len(page.rows))))
    if flag(request, "x-ms-documentdb-populatequerymetrics"):
        headers.append(("x-ms-documentdb-query-metrics", _metrics(page)))
    if page.continuation is not None:
        headers.append((CONTINUATION, page.continuation))
    return Response(200, headers, wire.feed(container.rid, "Documents", page.rows))


def _check_scope(request: Request, container: Container, wanted: queries.QueryRequest) -> None:
    """A query that may touch several partitions must say that it means to."""
    header = request.header(PARTITION_KEY)
    if (
        (header is None or not header.strip("[] "))
        and request.header(RANGE_ID) is None
        and not flag(request, "x-ms-documentdb-query-enablecrosspartition")
        and queries.pinned_key(container, wanted) is None
    ):
        raise BadRequest(_CROSS_PARTITION)


def _metrics(page: queries.QueryPage) -> str:
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
