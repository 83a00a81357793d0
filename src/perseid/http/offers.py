"""Handlers for offers."""

from __future__ import annotations

from perseid.documents import parse_object
from perseid.http import wire
from perseid.http.headers import (
    IF_MATCH,
    MIN_THROUGHPUT,
    OFFER_PENDING,
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
from perseid.model import Offer
from perseid.service.account import Account
from perseid.service.resources import offers


async def read_feed(account: Account, request: Request, _exchange: Exchange) -> Response:
    entries = [(offer.number, wire.offer(offer)) for offer in offers.read_all(account)]
    return metadata_feed(account, request, "", "Offers", entries)


async def query(account: Account, request: Request, _exchange: Exchange) -> Response:
    bodies = [wire.offer(offer) for offer in offers.read_all(account)]
    return await metadata_query(account, request, "", "Offers", bodies)


async def read(account: Account, request: Request, exchange: Exchange) -> Response:
    offer = offers.read(account, exchange.names[0])
    return metadata_read(wire.offer(offer), *await _limits(account, offer, request.now))


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
    return metadata_written(200, wire.offer(changed), *await _limits(account, changed, request.now))


async def _limits(account: Account, offer: Offer, now: float) -> tuple[tuple[str, str], ...]:
    """What may be set next. A change is in force with its response, so none is ever pending."""
    least = await offers.least_throughput(account, offer.rid, now)
    return (MIN_THROUGHPUT, str(least)), (OFFER_PENDING, "false")
