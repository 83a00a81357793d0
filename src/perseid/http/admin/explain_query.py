"""Admin route that explains how a query runs."""

from __future__ import annotations

from typing import Final

from perseid.documents import parse_object
from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.admin.context import AdminContext, json_response
from perseid.http.request import Exchange, Request, Response
from perseid.service.items.scope import search_container
from perseid.service.operation import begin
from perseid.service.queries import explanation, query_requests

_EXPLAINED_ROWS: Final = 100


async def explain_query(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    """{"database", "container", "query", "parameters", "partitionKey"}: how it would run."""
    body = parse_object(request.body)
    names = [body.get("database"), body.get("container")]
    if not all(isinstance(name, str) for name in names):
        raise BadRequest('An explanation needs {"database": "…", "container": "…", "query": "…"}.')
    container = context.account.catalog.container(*map(str, names))
    op = begin(context.account, container, request.now)
    encoded_query = wire.encode({**body, "parameters": body.get("parameters")})
    query = query_requests.parse_request(encoded_query)
    key = body.get("partitionKey")
    if key is not None:
        key = wire.encode(key if isinstance(key, list) else [key]).decode()
    scope = search_container(op, key)
    return json_response(await explanation.explain(op, query, scope, _EXPLAINED_ROWS))
