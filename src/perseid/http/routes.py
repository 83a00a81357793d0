"""The table of routes: path and method, and for POST the intent, determine the handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from perseid.errors import BadRequest, MethodNotAllowed, NotFound
from perseid.http import (
    batches,
    change_feed,
    conflicts,
    containers,
    databases,
    items,
    offers,
    partition_key_delete,
    queries,
    registry,
)
from perseid.http.headers import IS_BATCH, IS_PLAN, IS_UPSERT, flag, is_query
from perseid.http.request import Exchange, Request, Response
from perseid.service.account import Account

Handler = Callable[[Account, Request, Exchange], Awaitable[Response]]


class Route(NamedTuple):
    """A handler, and what its requests need to be allowed and current."""

    handler: Handler
    kind: str  # resource type of the signature
    is_read: bool  # a read-only key may use it
    is_keyed: bool  # it is about items: a token for a partition key allows it for that key
    checks_catalog: bool = False  # the catalog must be current before it runs


def _routes(kind: str, **handlers: Handler) -> dict[str, Route]:
    return {
        verb: Route(
            handler,
            kind,
            # Reading a permission returns a token, which may be for writing.
            is_read=verb in ("GET", "query", "plan") and kind != "permissions",
            # POST to a resource is running a script or deleting by partition key.
            is_keyed=verb == "POST" or (kind in ("docs", "conflicts") and verb != "plan"),
            # The store checks the version itself whenever it reads or writes items.
            checks_catalog=kind != "docs" or verb == "plan",
        )
        for verb, handler in handlers.items()
    }


def _registry_routes(
    kind: str, register: registry.RegistryHandlers
) -> dict[bool, dict[str, Route]]:
    """The routes of a list of registered resources (False) and of one of them (True)."""
    return {
        False: _routes(
            kind,
            GET=register.read_feed,
            create=register.create,
            upsert=register.upsert,
            query=register.query,
        ),
        True: _routes(
            kind,
            GET=register.read,
            PUT=register.replace,
            DELETE=register.delete,
        ),
    }


_USERS: Final = _registry_routes("users", registry.USERS)
_PERMISSIONS: Final = _registry_routes("permissions", registry.PERMISSIONS)
_PROCEDURES: Final = _registry_routes("sprocs", registry.PROCEDURES)
_TRIGGERS: Final = _registry_routes("triggers", registry.TRIGGERS)
_FUNCTIONS: Final = _registry_routes("udfs", registry.FUNCTIONS)
_EXECUTE: Final = _routes("sprocs", POST=registry.execute)


# By the fixed names of a path, and whether it ends with an id. A POST to a list is listed under the
# intent that its headers state.
ROUTES: Final[dict[tuple[tuple[str, ...], bool], dict[str, Route]]] = {
    (("dbs",), False): _routes(
        "dbs",
        GET=databases.read_feed,
        create=databases.create,
        query=databases.query,
    ),
    (("dbs",), True): _routes(
        "dbs",
        GET=databases.read,
        DELETE=databases.delete,
    ),
    (("dbs", "colls"), False): _routes(
        "colls",
        GET=containers.read_feed,
        create=containers.create,
        query=containers.query,
    ),
    (("dbs", "colls"), True): _routes(
        "colls",
        GET=containers.read,
        PUT=containers.replace,
        DELETE=containers.delete,
    ),
    (("dbs", "colls", "docs"), False): _routes(
        "docs",
        GET=change_feed.read_feed,
        create=items.create,
        upsert=items.upsert,
        batch=batches.run,
        query=queries.query,
        plan=queries.query_plan,
    ),
    (("dbs", "colls", "docs"), True): _routes(
        "docs",
        GET=items.read,
        PUT=items.replace,
        PATCH=items.patch,
        DELETE=items.delete,
    ),
    (("dbs", "colls", "pkranges"), False): _routes("pkranges", GET=containers.read_ranges),
    (("dbs", "colls", "operations"), True): _routes("colls", POST=partition_key_delete.delete),
    (("dbs", "colls", "sprocs"), False): _PROCEDURES[False],
    (("dbs", "colls", "sprocs"), True): _PROCEDURES[True] | _EXECUTE,
    (("dbs", "colls", "triggers"), False): _TRIGGERS[False],
    (("dbs", "colls", "triggers"), True): _TRIGGERS[True],
    (("dbs", "colls", "udfs"), False): _FUNCTIONS[False],
    (("dbs", "colls", "udfs"), True): _FUNCTIONS[True],
    (("dbs", "colls", "conflicts"), False): _routes(
        "conflicts",
        GET=conflicts.read_feed,
        query=conflicts.query,
    ),
    (("dbs", "colls", "conflicts"), True): _routes(
        "conflicts",
        GET=conflicts.read,
        DELETE=conflicts.read,
    ),
    (("dbs", "users"), False): _USERS[False],
    (("dbs", "users"), True): _USERS[True],
    (("dbs", "users", "permissions"), False): _PERMISSIONS[False],
    (("dbs", "users", "permissions"), True): _PERMISSIONS[True],
    # Rewrapped, but never deleted: what they encrypt would be lost.
    (("dbs", "clientencryptionkeys"), False): _routes(
        "clientencryptionkeys",
        GET=registry.CLIENT_ENCRYPTION_KEYS.read_feed,
        create=registry.CLIENT_ENCRYPTION_KEYS.create,
        query=registry.CLIENT_ENCRYPTION_KEYS.query,
    ),
    (("dbs", "clientencryptionkeys"), True): _routes(
        "clientencryptionkeys",
        GET=registry.CLIENT_ENCRYPTION_KEYS.read,
        PUT=registry.CLIENT_ENCRYPTION_KEYS.replace,
    ),
    (("offers",), False): _routes("offers", GET=offers.read_feed, query=offers.query),
    (("offers",), True): _routes("offers", GET=offers.read, PUT=offers.replace),
}
_ITEM: Final = ROUTES[("dbs", "colls", "docs"), True]
_ITEMS: Final = ROUTES[("dbs", "colls", "docs"), False]
ACCOUNT: Final = Route(databases.read_account, "", is_read=True, is_keyed=False)
_LIST_OF_ITEMS: Final = ["", "dbs", "colls", "docs"]
_SHORT_PATH: Final = 1024  # longer ones are not cached
_PARTITION_DELETE: Final = ["operations", "partitionkeydelete"]

_NO_DIRECT_MODE: Final = (
    "Perseid does not support direct (TCP) mode: set the connection mode of the client to gateway."
)

# The intent of a POST to a feed, if it is not a query, by the header that states it.
_WRITES: Final = ((IS_BATCH, "batch"), (IS_UPSERT, "upsert"))
_INTENT_NAMES: Final = {
    "plan": "query plan requests",
    "batch": "batches",
    "query": "queries",
    "upsert": "upserts",
    "create": "POST",
}


def route(request: Request, exchange: Exchange) -> tuple[Route, str]:
    """The route of a request and the link its signature covers; sets the names on the exchange."""
    path = request.path
    # Fast paths for frequent requests: POST to the items of a container, and requests for an item.
    if request.method == "POST" and not request.query_string and len(path) <= _SHORT_PATH:
        items_of = _container_of_items(path)
        if items_of is not None:
            exchange.names, link = items_of
            return _ITEMS[_intent(request)], link
    parts = path[1:-1].split("/") if path[-1:] == "/" else path[1:].split("/")
    if (
        len(parts) == 6
        and parts[0::2] == ["dbs", "colls", "docs"]
        and not request.query_string
        and (matched_route := _ITEM.get(request.method)) is not None
    ):
        exchange.names = (parts[1], parts[3], parts[5])
        return matched_route, path[1:-1] if path[-1:] == "/" else path[1:]
    if parts == [""]:
        if request.method != "GET":
            raise MethodNotAllowed("The account at / can only be read.")
        return ACCOUNT, ""
    if request.query_string and parts[0::2] == ["dbs", "colls", "docs"]:
        _rejoin_item_id(parts, request.query_string)
    matched_route = _look_up(request, parts)
    exchange.names = parts[1::2]
    return matched_route, _link(parts)


def _rejoin_item_id(parts: list[str], query_string: str) -> None:
    """Adds the query string to the id: JavaScript clients leave a `?` in an id unescaped."""
    if len(parts) == 5:  # the id begins with the `?`
        parts.append("")
    parts[5] = f"{parts[5]}?{unquote(query_string)}"


def _look_up(request: Request, parts: list[str]) -> Route:
    path = request.path
    is_item = len(parts) % 2 == 0
    routes = ROUTES.get((tuple(parts[0::2]), is_item))
    if routes is None or (parts[4:5] == ["operations"] and parts[4:] != _PARTITION_DELETE):
        if path.strip("/") == "addresses":
            # Clients would take a 404 for a missing item, so this is a 400.
            raise BadRequest(_NO_DIRECT_MODE)
        if parts[0] == "offers":  # as of a client that was given a link where it needs an id
            raise BadRequest(
                f"'{path[:200]}' is not the path of an offer, which is /offers/{{rid}}."
            )
        raise NotFound(f"There is no resource at '{path[:200]}'.")
    verb = _intent(request) if request.method == "POST" and not is_item else request.method
    matched_route = routes.get(verb)
    if matched_route is None:
        allowed = ", ".join(sorted(set(routes)))
        raise MethodNotAllowed(
            f"'{path[:200]}' does not take {_INTENT_NAMES.get(verb, verb[:32])};"
            f" it takes {allowed}."
        )
    return matched_route


def _link(parts: list[str]) -> str:
    """What a signature covers: the resource, or the owner of a list."""
    if len(parts) % 2:
        return "/".join(parts[:-1])
    if parts[0] == "offers":
        return parts[1].lower()
    if parts[4:] == _PARTITION_DELETE:
        return "/".join(parts[:4])  # signed as an operation on the container
    return "/".join(parts)


@lru_cache(maxsize=1024)
def _container_of_items(path: str) -> tuple[tuple[str, str], str] | None:
    """The names and the link of a container, if this is the path of its items."""
    parts = path.removesuffix("/").split("/")
    if len(parts) != 6 or parts[:2] + parts[3::2] != _LIST_OF_ITEMS:
        return None
    return (parts[2], parts[4]), "/".join(parts[1:5])


def _intent(request: Request) -> str:
    """What a POST to a feed means. The order of the checks is that of the service."""
    header = request.header
    if header(IS_PLAN) is not None and flag(request, IS_PLAN):
        return "plan"
    if is_query(request):
        return "query"
    for name, intent in _WRITES:
        if header(name) is not None and flag(request, name):
            return intent
    return "create"
