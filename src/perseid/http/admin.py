"""What Perseid adds beside the service's own URL space, under /_perseid/."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from perseid import __version__
from perseid.errors import MethodNotAllowed, NotFound
from perseid.http import wire
from perseid.http.request import Request, Response
from perseid.service.account import Account

PREFIX: Final = "/_perseid/"


async def health(_account: Account, _request: Request) -> Response:
    """The process answers."""
    return Response(200, [], wire.encode({"status": "ok", "version": __version__}))


async def ready(account: Account, _request: Request) -> Response:
    """The data can be read."""
    await account.store.get_meta("token_secret")
    return Response(200, [], wire.encode({"status": "ready", "version": __version__}))


async def certificate(account: Account, _request: Request) -> Response:
    """The certificate to trust, when the server speaks HTTPS."""
    path = account.settings.cert
    if path is None:
        raise NotFound("This server speaks plain HTTP; there is no certificate.")
    return Response(200, [("content-type", "application/x-pem-file")], path.read_bytes())


# path below the prefix -> method -> handler; those in OPEN need no signature
ROUTES: Final[dict[str, dict[str, Callable[[Account, Request], Awaitable[Response]]]]] = {
    "certificate.pem": {"GET": certificate},
    "health": {"GET": health},
    "ready": {"GET": ready},
}
OPEN: Final = frozenset(("certificate.pem", "health", "ready"))


def route(request: Request) -> tuple[Callable[[Account, Request], Awaitable[Response]], bool]:
    """The handler, and whether anyone may call it."""
    name = request.path[len(PREFIX) :].rstrip("/")
    methods = ROUTES.get(name)
    if methods is None:
        raise NotFound(f"There is no administration route '{request.path[:200]}'.")
    handler = methods.get(request.method)
    if handler is None:
        raise MethodNotAllowed(
            f"'{request.path}' does not take {request.method}; it takes {', '.join(methods)}."
        )
    return handler, name in OPEN
