"""Batches and bulk requests on the wire: one array in, one array of results out."""

from __future__ import annotations

from collections.abc import Sequence

from perseid import charges
from perseid.http import metering, wire
from perseid.http.headers import (
    BATCH_ATOMIC,
    BATCH_GOES_ON,
    PARTITION_KEY,
    check_session,
    flag,
    is_indexed,
    range_index,
    wants_minimal,
)
from perseid.http.items import container_of
from perseid.http.request import Request, Response
from perseid.http.responses import container_headers
from perseid.service import batches, items
from perseid.service.account import Account
from perseid.service.operation import begin

_MULTI_STATUS = 207


async def run(account: Account, request: Request) -> Response:
    op = begin(account, container_of(account, request), request.now)
    container = op.container
    header = request.header(PARTITION_KEY)
    options = batches.Options(
        container, header, is_indexed(request), with_bodies=not wants_minimal(request)
    )
    factor = charges.consistency_factor(request.level)
    is_atomic = request.header(BATCH_ATOMIC) is None or flag(request, BATCH_ATOMIC)
    if is_atomic:
        place = items.place_of(container, header)
        part = request.range_index = place.range_index
        members = batches.parse(request.body, options)
        await _check_session(account, request, members, part)
        found = await batches.run_atomic(op, place, members, options, factor)
    else:
        given = range_index(request, container)
        members = batches.parse(request.body, options)
        part = request.range_index = batches.range_index_of(members, given)
        if account.budgets is not None:
            metering.touch(request, batches.ranges_of(members))
        await _check_session(account, request, members, part)
        goes_on = request.header(BATCH_GOES_ON) is None or flag(request, BATCH_GOES_ON)
        found = await batches.run_each(
            op,
            given,
            members,
            options,
            factor,
            goes_on=goes_on,
            reread=lambda container: batches.parse(
                request.body, options._replace(container=container)
            ),
        )
    headers = container_headers(container, part, found.lsn, found.charge)
    status = 200 if found.is_success else _MULTI_STATUS
    return Response(
        status, headers, wire.encode([wire.batch_entry(each) for each in found.results])
    )


async def _check_session(
    account: Account, request: Request, members: Sequence[batches.Member], part: int
) -> None:
    """What a batch reads must not be older than what the client has seen."""
    if request.container is not None and any(member.kind == "Read" for member in members):
        lsns = await account.store.lsns(request.container)
        check_session(request, {part: lsns[part]})
