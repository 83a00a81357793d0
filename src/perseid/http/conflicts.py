"""Handlers for conflicts. Only one region writes, so the list is always empty."""

from __future__ import annotations

from typing import Final

from perseid.errors import ResourceNotFound
from perseid.http.headers import (
    ALT_CONTENT_PATH,
    CONTENT_PATH,
    check_cross_partition,
    is_relaxed,
)
from perseid.http.items import container_of
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import metadata_feed, metadata_query
from perseid.model import Container
from perseid.service.account import Account

_PLURAL: Final = "Conflicts"


async def read_feed(account: Account, request: Request, exchange: Exchange) -> Response:
    owner = container_of(account, request, exchange)
    return metadata_feed(account, request, owner.rid, _PLURAL, [], *_headers(owner))


async def query(account: Account, request: Request, exchange: Exchange) -> Response:
    owner = container_of(account, request, exchange)
    if not is_relaxed(request, account.settings):
        check_cross_partition(request)
    return await metadata_query(account, request, owner.rid, _PLURAL, [], *_headers(owner))


async def read(account: Account, request: Request, exchange: Exchange) -> Response:
    """Reading or deleting one: always 404."""
    container_of(account, request, exchange)
    raise ResourceNotFound


def _headers(owner: Container) -> tuple[tuple[str, str], ...]:
    return (ALT_CONTENT_PATH, owner.path), (CONTENT_PATH, owner.rid)
