"""Admin route that explains how a query runs."""

from __future__ import annotations

from perseid.documents import parse_object
from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.admin.context import AdminContext, json_response
from perseid.http.request import Exchange, Request, Response
from perseid.service.items.scope import search_container
from perseid.service.operation import begin
from perseid.service.queries.explain import analyze, explain
from perseid.service.queries.requests import parse_request


async def explain_query(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    """{"database", "container", "query", "parameters", "partitionKey", "analyze"}: the plan."""
    body = parse_object(request.body)
    names = [body.get("database"), body.get("container")]
    if not all(isinstance(name, str) for name in names):
        raise BadRequest('An explanation needs {"database": "…", "container": "…", "query": "…"}.')
    is_run = body.get("analyze", False)
    if not isinstance(is_run, bool):
        raise BadRequest('"analyze" is true, to run the first page and count, or false.')
    container = context.account.catalog.container(*map(str, names))
    op = begin(context.account, container, request.now)
    query = parse_request(wire.encode({**body, "parameters": body.get("parameters")}))
    key = body.get("partitionKey")
    if key is not None:
        key = wire.encode(key if isinstance(key, list) else [key]).decode()
    scope = search_container(op, key)
    return json_response(await (analyze if is_run else explain)(op, query, scope))
