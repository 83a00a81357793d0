"""Resource tokens: 401 unless a token is valid, 403 unless its permission covers the request."""

from __future__ import annotations

from typing import Final, NamedTuple

from perseid.errors import Forbidden
from perseid.http.headers import PARTITION_KEY, epk_interval
from perseid.http.request import Exchange, Request
from perseid.partition import canonical, header_of, parse_header
from perseid.service import grants
from perseid.service.account import Account
from perseid.service.grants import Grant
from perseid.service.items import point_operations

_OTHER_RESOURCE: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " Please retry with another authorization header. The permission of the resource token is on"
    " another resource."
)
_READ_PERMISSION: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " Please retry with another authorization header. The permission of the resource token is for"
    " reading."
)
_OTHER_KEY: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " Please retry with another authorization header. The permission of the resource token is"
    " confined to the partition key {}, and the request must name that key."
)
_CONTAINER: Final = 4  # segments in the path of a container
_ITEM: Final = 6  # and of a resource in it
# Resource types that a token can give access to; all others require a key of the account.
_TOKEN_KINDS: Final = frozenset(
    ("colls", "docs", "pkranges", "sprocs", "triggers", "udfs", "conflicts")
)


class AccessRequest(NamedTuple):
    """What a resource token must allow for a request."""

    kind: str
    link: str
    is_read: bool
    is_keyed: bool  # it is about items: a token for a partition key allows it for that key


async def check_resource_token(
    account: Account,
    request: Request,
    exchange: Exchange,
    token: str,
    access_request: AccessRequest,
) -> None:
    """401 unless the token is valid now; 403 unless its permission covers the request."""
    grant = grants.open_token(account, token, request.now)
    exchange.caller = grant.caller
    if access_request.kind == "":
        return  # clients read the account first, with any token they have
    if access_request.kind in ("colls", "pkranges") and request.method == "GET":
        path = _path(account, access_request)
        # Clients need the definition and the ranges of a container to reach anything in it.
        if len(path) == _CONTAINER and grant.path[:_CONTAINER] == path:
            return
        raise Forbidden(_OTHER_RESOURCE)
    if access_request.kind not in _TOKEN_KINDS or not await _covers_resource(
        account, request, exchange, grant, access_request
    ):
        raise Forbidden(_OTHER_RESOURCE)
    if not access_request.is_read and not grant.may_write:
        raise Forbidden(_READ_PERMISSION)
    exchange.may_rename = len(grant.path) < _ITEM
    if grant.key is not None:
        _check_partition_key(account, request, exchange, grant.key, access_request)


def _path(account: Account, access_request: AccessRequest) -> tuple[str, ...]:
    # An id that a client did not escape may contain a slash.
    return grants.locate(account.catalog, access_request.link.split("/", _ITEM - 1))


async def _covers_resource(
    account: Account,
    request: Request,
    exchange: Exchange,
    grant: Grant,
    access_request: AccessRequest,
) -> bool:
    path = _path(account, access_request)
    if path[: len(grant.path)] == grant.path:
        return True
    if len(path) == len(grant.path) == _ITEM and path[:-1] == grant.path[:-1]:
        return path[-2] == "docs" and await _is_same_item(
            account, request, exchange, path[-1], grant.path[-1]
        )
    return False


async def _is_same_item(
    account: Account, request: Request, exchange: Exchange, asked: str, granted: str
) -> bool:
    """True if one name is the id and the other the rid of the same item.

    The request and the permission may name it differently. Handlers then get the id.
    """
    container = account.catalog.container_of_items(exchange.names[0], exchange.names[1])
    for rid, name in ((asked, granted), (granted, asked)):
        row = await point_operations.find_by_rid(account, container, rid)
        header = header_of(request.header(PARTITION_KEY), container.key)
        if row is not None and row.id == name and header is not None:
            exchange.names = (exchange.names[0], exchange.names[1], row.id)
            return canonical(parse_header(header, container.key.levels)) == row.pk
    return False


def _check_partition_key(
    account: Account,
    request: Request,
    exchange: Exchange,
    key: bytes,
    access_request: AccessRequest,
) -> None:
    """403 unless the request names the key, or an interval of effective keys within it.

    An interval is enough for reading only: a written item has the key that its body states.
    """
    if not access_request.is_keyed:
        if access_request.kind == "docs":
            return  # a query plan, which reads no items
        raise Forbidden(_OTHER_KEY.format(key.decode()))
    container = account.catalog.container_of_items(exchange.names[0], exchange.names[1])
    confined = grants.confined_key(key, container.key)
    header = request.header(PARTITION_KEY)
    is_inside = False
    if confined is not None and header is not None:
        is_inside = grants.covers_key(confined, parse_header(header, container.key.levels))
    elif confined is not None and access_request.is_read:
        start, end = epk_interval(request)
        if start is not None and end is not None:
            is_inside = grants.covers_interval(confined, container.key, start, end)
            exchange.confined_key = key.decode()
    if not is_inside:
        raise Forbidden(_OTHER_KEY.format(key.decode()))
