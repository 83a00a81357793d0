"""Admin routes of TTL policies and expired items."""

from __future__ import annotations

from perseid import ttl
from perseid.documents import parse_object
from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.admin.context import (
    AdminContext,
    container_of,
    integer_option,
    json_response,
    query_options,
)
from perseid.http.headers import CONFIRM
from perseid.http.request import Exchange, Request, Response
from perseid.model import Container
from perseid.service.items import point_operations
from perseid.service.lifetimes.audit import audit_entries
from perseid.service.lifetimes.expiring_items import MOST_ITEMS, expiring_items
from perseid.service.lifetimes.forecast import BUCKET_SECONDS, MOST_BUCKETS
from perseid.service.lifetimes.forecast import forecast as forecast_expiry
from perseid.service.lifetimes.item_explanation import explain_item
from perseid.service.lifetimes.preview import preview as preview_change
from perseid.service.lifetimes.settings import configure as configure_container
from perseid.service.lifetimes.status import status
from perseid.service.lifetimes.undo import undo as undo_change
from perseid.service.operation import begin


async def read_lifetimes(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """The policy, the live items, and the items pending purge."""
    body = await status(context.account, container_of(context, exchange), request.now)
    return json_response(body)


async def preview(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"defaultTtl": n, -1 or null}: the effect of that change."""
    body = parse_object(request.body)
    if "defaultTtl" not in body:
        raise BadRequest('A preview needs {"defaultTtl": seconds, -1 or null}.')
    default_ttl = ttl.check_default_ttl(body["defaultTtl"])
    container = container_of(context, exchange)
    return json_response(await preview_change(context.account, container, default_ttl, request.now))


async def forecast(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?bucket=hour&count=24: when items expire under the current policy."""
    options = query_options(request, bucket="hour", count="24")
    width = BUCKET_SECONDS.get(options["bucket"])
    if width is None:
        raise BadRequest(f"bucket is one of {', '.join(BUCKET_SECONDS)}.")
    count = integer_option(options, "count", MOST_BUCKETS)
    container = container_of(context, exchange)
    body = await forecast_expiry(context.account, container, width, count, request.now)
    seconds = context.sweeper.drain_seconds(body["pendingPurge"]["items"])
    return json_response(body | {"drainSeconds": seconds})


async def expiring(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?count=100&continuation=…: the live items that will expire, soonest first."""
    options = query_options(request, count="100", continuation="")
    count = integer_option(options, "count", MOST_ITEMS)
    container = container_of(context, exchange)
    items, continuation = await expiring_items(
        context.account, container, count, options["continuation"], request.now
    )
    body = {
        "container": container.path,
        "asOf": int(request.now),
        "items": [wire.expiring_item(item, container.policy) for item in items],
        "continuation": continuation,
    }
    return json_response(body)


async def explain(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"id": …, "partitionKey": […], "ttl": optional}: when an item expires, and why."""
    body = parse_object(request.body)
    container = container_of(context, exchange)
    if not isinstance(body.get("id"), str) or not isinstance(body.get("partitionKey"), list):
        raise BadRequest('An explanation needs {"id": "…", "partitionKey": […]}.')
    logical_partition = point_operations.logical_partition_of(
        container, wire.encode(body["partitionKey"]).decode()
    )
    proposed = ttl.check_item_ttl(body["ttl"]) if "ttl" in body else None
    op = begin(context.account, container, request.now)
    return json_response(await explain_item(op, logical_partition, body["id"], proposed))


async def undo(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Reverts the last change of defaultTtl."""
    rid = container_of(context, exchange).rid
    confirmation = request.header(CONFIRM)
    return json_response(
        await undo_change(context.account, rid, exchange.caller, confirmation, request.now)
    )


async def configure(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"purgeHoldSeconds": n, "guard": "500" or "10%" or null}"""
    rid = container_of(context, exchange).rid
    settings = parse_object(request.body)
    changed = await configure_container(
        context.account, rid, settings, exchange.caller, request.now
    )
    return json_response(await status(context.account, changed, request.now))


async def drain(context: AdminContext, _request: Request, exchange: Exchange) -> Response:
    """Purges the expired items of one container now; the answer has their number."""
    return await _drain(context, container_of(context, exchange))


async def drain_all(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """Purges all expired items now; the answer has their number."""
    return await _drain(context, None)


async def _drain(context: AdminContext, container: Container | None) -> Response:
    counts = await context.sweeper.drain(container)
    return json_response({"purged": sum(counts.values()), "containers": counts})


async def audit(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?after=line&limit=100: the audit log of policy changes of one container."""
    return await _audit(context, request, container_of(context, exchange))


async def audit_all(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    """?after=line&limit=100: the audit log of policy changes of all containers."""
    return await _audit(context, request, None)


async def _audit(context: AdminContext, request: Request, container: Container | None) -> Response:
    options = query_options(request, after="0", limit="100")
    after = integer_option(options, "after", 2**62, least=0)
    limit = integer_option(options, "limit", 10_000)
    return json_response({"entries": await audit_entries(context.account, container, after, limit)})
