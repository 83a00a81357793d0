"""One table: the shape of a path and the method, and for POST the intent, name the handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final, NamedTuple

from perseid.errors import BadRequest, MethodNotAllowed, NotFound, StaleCatalog
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
from perseid.http.request import Request, Response
from perseid.service.account import Account

Handler = Callable[[Account, Request], Awaitable[Response]]


class Route(NamedTuple):
    """A handler, and what its requests are signed for."""

    handler: Handler
    kind: str  # resource type of the signature
    is_read: bool  # a read-only key may use it
    is_keyed: bool  # it is about items, so a token for one partition key may use it for that key


async def check_catalog_version(account: Account, request: Request) -> None:
    """Makes sure of the metadata for a request that looks at nothing else."""
    catalog_generation = account.stores.metadata.generation
    await account.stores.metadata.check_catalog_version()
    if (
        account.stores.metadata.generation != catalog_generation
    ):  # what it was admitted by has been read again since
        raise StaleCatalog
    request.now = account.clock.now()


def _with_current_catalog(handler: Handler) -> Handler:
    async def handle(account: Account, request: Request) -> Response:
        await check_catalog_version(account, request)
        return await handler(account, request)

    return handle


def _routes(kind: str, **handlers: Handler) -> dict[str, Route]:
    return {
        verb: Route(
            # Whatever looks at items finds out by itself.
            handler if kind == "docs" and verb != "plan" else _with_current_catalog(handler),
            kind,
            # Who reads a permission gets a token, which may be for writing.
            is_read=verb in ("GET", "query", "plan") and kind != "permissions",
            # Besides items and conflicts: running a script, deleting by partition key.
            is_keyed=verb == "POST" or (kind in ("docs", "conflicts") and verb != "plan"),
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


# The fixed names of a path, and whether it ends with an id. A POST to a list stands here as what
# its headers say it is.
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
    (("offers",), False): _routes("offers", GET=offers.read_feed, query=offers.query),
    (("offers",), True): _routes("offers", GET=offers.read, PUT=offers.replace),
}
_ITEM: Final = ROUTES[("dbs", "colls", "docs"), True]
_ITEMS: Final = ROUTES[("dbs", "colls", "docs"), False]
ACCOUNT: Final = Route(databases.read_account, "", is_read=True, is_keyed=False)
_LIST_OF_ITEMS: Final = ["", "dbs", "colls", "docs"]
_SHORT_PATH: Final = 1024  # that of a container is remembered
_PARTITION_DELETE: Final = ["operations", "partitionkeydelete"]

_NO_DIRECT_MODE: Final = (
    "Perseid has no direct (TCP) connections: set the connection mode of the client to gateway."
)

# What a POST to a feed that is no question means, by the header that says so.
_WRITES: Final = ((IS_BATCH, "batch"), (IS_UPSERT, "upsert"))
_INTENT_NAMES: Final = {
    "plan": "query plan requests",
    "batch": "batches",
    "query": "queries",
    "upsert": "upserts",
    "create": "POST",
}


def route(request: Request) -> tuple[Route, str]:
    """The route of a request and the link its signature covers; sets the request's names."""
    path = request.path
    # What matters for speed: what is written to a container or asked of it, and an item.
    if request.method == "POST" and not request.query_string and len(path) <= _SHORT_PATH:
        items_of = _container_of_items(path)
        if items_of is not None:
            request.names, link = items_of
            return _ITEMS[_intent(request)], link
    parts = path[1:-1].split("/") if path[-1:] == "/" else path[1:].split("/")
    if (
        len(parts) == 6
        and parts[0::2] == ["dbs", "colls", "docs"]
        and not request.query_string
        and (matched_route := _ITEM.get(request.method)) is not None
    ):
        request.names = (parts[1], parts[3], parts[5])
        return matched_route, path[1:-1] if path[-1:] == "/" else path[1:]
    if parts == [""]:
        if request.method != "GET":
            raise MethodNotAllowed("The account at / can only be read.")
        return ACCOUNT, ""
    if request.query_string and parts[-1] == "docs" and len(parts) == 5:
        parts.append("")  # an id that begins with `?`, left unescaped by a JavaScript client
    is_item = len(parts) % 2 == 0
    routes = ROUTES.get((tuple(parts[0::2]), is_item))
    if routes is None or (parts[4:5] == ["operations"] and parts[4:] != _PARTITION_DELETE):
        if path.strip("/") == "addresses":
            # A 404 would pass for that of the item which the client wants to reach.
            raise BadRequest(_NO_DIRECT_MODE)
        raise NotFound(f"There is no resource at '{path[:200]}'.")
    request.names = parts[1::2]
    verb = _intent(request) if request.method == "POST" and not is_item else request.method
    matched_route = routes.get(verb)
    if matched_route is None:
        allowed = ", ".join(sorted(set(routes)))
        raise MethodNotAllowed(
            f"'{path[:200]}' does not take {_INTENT_NAMES.get(verb, verb)}; it takes {allowed}."
        )
    if is_item:
        link = "/".join(parts)
        if request.query_string and parts[0::2][-1] == "docs":
            link = "/".join((*parts[:-1], items.item_name(request)))
        elif parts[0] == "offers":
            link = parts[1].lower()
        elif parts[4:] == _PARTITION_DELETE:
            link = "/".join(parts[:4])  # signed as an operation on the container
    else:
        link = "/".join(parts[:-1])
    return matched_route, link


@lru_cache(maxsize=1024)
def _container_of_items(path: str) -> tuple[tuple[str, str], str] | None:
    """The names and the link of the container whose list of items this is the path of."""
    parts = path.removesuffix("/").split("/")
    if len(parts) != 6 or parts[:2] + parts[3::2] != _LIST_OF_ITEMS:
        return None
    return (parts[2], parts[4]), "/".join(parts[1:5])


def _intent(request: Request) -> str:
    """What a POST to a feed means, asked in the order in which the service tells it apart."""
    header = request.header
    if header(IS_PLAN) is not None and flag(request, IS_PLAN):
        return "plan"
    if is_query(request):
        return "query"
    for name, intent in _WRITES:
        if header(name) is not None and flag(request, name):
            return intent
    return "create"
