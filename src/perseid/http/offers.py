"""Handlers for offers."""

from __future__ import annotations

from perseid.documents import parse_object
from perseid.http import wire
from perseid.http.headers import (
    IF_MATCH,
    TO_AUTOSCALE,
    TO_MANUAL,
    flag,
)
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import (
    metadata_feed,
    metadata_query,
    metadata_read,
    metadata_written,
)
from perseid.service.account import Account
from perseid.service.resources import offers


async def read_feed(account: Account, request: Request, _exchange: Exchange) -> Response:
    entries = [(offer.number, wire.offer(offer)) for offer in offers.read_all(account)]
    return metadata_feed(account, request, "", "Offers", entries)


async def query(account: Account, request: Request, _exchange: Exchange) -> Response:
    bodies = [wire.offer(offer) for offer in offers.read_all(account)]
    return await metadata_query(account, request, "", "Offers", bodies)


async def read(account: Account, _request: Request, exchange: Exchange) -> Response:
    return metadata_read(wire.offer(offers.read(account, exchange.names[0])))


async def replace(account: Account, request: Request, exchange: Exchange) -> Response:
    changed = await offers.replace(
        account,
        exchange.names[0],
        parse_object(request.body),
        request.header(IF_MATCH),
        request.now,
        to_autoscale=flag(request, TO_AUTOSCALE),
        to_manual=flag(request, TO_MANUAL),
    )
    return metadata_written(200, wire.offer(changed))
