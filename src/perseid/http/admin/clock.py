"""Admin routes of the clock. Those that move it exist only with --test-clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perseid.clock import MovableClock
from perseid.documents import parse_object
from perseid.errors import BadRequest, NotFound
from perseid.http.admin.context import AdminContext, body_number, json_response
from perseid.http.request import Exchange, Request, Response


async def read_clock(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    clock = context.account.clock
    body: dict[str, Any] = {
        "now": clock.now(),
        "movable": isinstance(clock, MovableClock),
        "heldUntil": clock.held_until(),
        "alarm": context.sweeper.alarm,
    }
    if isinstance(clock, MovableClock):
        body["frozen"] = clock.is_frozen
    return json_response(body)


async def freeze_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Stops the clock."""
    return await _change_clock(context, request, exchange, MovableClock.freeze)


async def resume_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Lets the clock run on from its current time."""
    return await _change_clock(context, request, exchange, MovableClock.resume)


async def advance_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"seconds": n}: moves the clock forward."""
    seconds = body_number(parse_object(request.body), "seconds")
    return await _change_clock(context, request, exchange, lambda clock: clock.advance(seconds))


async def set_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"to": epoch seconds}: moves the clock forward to that instant."""
    instant = body_number(parse_object(request.body), "to")
    return await _change_clock(context, request, exchange, lambda clock: clock.set(instant))


async def _change_clock(
    context: AdminContext,
    request: Request,
    exchange: Exchange,
    change: Callable[[MovableClock], float],
) -> Response:
    """Moves the clock of every server process on the database."""
    account, clock = context.account, _require_movable_clock(context)
    async with account.metadata_lock:
        trial = clock.trial()
        try:
            change(trial)
        except ValueError as exc:
            raise BadRequest(f"The clock was not moved: {exc}.") from None
        await account.publish_clock(trial.setting)
        clock.adopt(trial.setting)
    # The new time is durable before the answer, so a restart does not go back.
    await account.persist_clock(clock.now(), ahead=0)
    context.sweeper.wake()
    return await read_clock(context, request, exchange)


def _require_movable_clock(context: AdminContext) -> MovableClock:
    clock = context.account.clock
    if not isinstance(clock, MovableClock):
        raise NotFound("The clock of this server cannot be moved; start it with --test-clock.")
    return clock
