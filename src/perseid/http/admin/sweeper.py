"""Admin routes of the sweeper."""

from __future__ import annotations

from perseid import ttl
from perseid.documents import parse_object
from perseid.errors import BadRequest
from perseid.http.admin.context import AdminContext, body_number, json_response
from perseid.http.request import Exchange, Request, Response
from perseid.service.throughput import enforcement


async def read_sweeper(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    sweeper, account = context.sweeper, context.account
    usages = [
        await account.usage(container, ttl.NOTHING_EXPIRED)
        for container in account.catalog.containers()
    ]
    return json_response(
        {
            "paused": sweeper.is_paused,
            "alarm": sweeper.alarm,
            "pace": account.settings.sweep_pace if sweeper.pace is None else sweeper.pace,
            "purgedItems": sum(usage.purged_items for usage in usages),
            "purgedBytes": sum(usage.purged_size for usage in usages),
            "purgeCharge": round(sum(sweeper.charges.values()), 2),
            "verifiedItems": sweeper.verification.checked,
            "damagedItems": sweeper.verification.damaged,
            "diskFull": sweeper.is_disk_full,
            "exhaustedSeconds": enforcement.exhausted_seconds_total(account, request.now),
        }
    )


async def pause_sweeper(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Stops purging; reads are not affected."""
    context.sweeper.pause()
    return await read_sweeper(context, request, exchange)


async def resume_sweeper(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    context.sweeper.resume()
    return await read_sweeper(context, request, exchange)


async def pace_sweeper(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"pace": share of the time, above 0 and at most 1}"""
    pace = body_number(parse_object(request.body), "pace")
    if not 0 < pace <= 1:
        raise BadRequest("pace is a share of the time: above 0 and at most 1.")
    context.sweeper.pace = pace
    return await read_sweeper(context, request, exchange)


async def confirm_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Confirms a clock jump, so that purging goes on."""
    await context.sweeper.confirm_clock()
    return await read_sweeper(context, request, exchange)


async def reject_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Rejects a clock jump, so that time goes on from the corrected system clock."""
    await context.sweeper.reject_clock(exchange.caller)
    return await read_sweeper(context, request, exchange)
