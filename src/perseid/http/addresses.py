"""The address that a client used for this server, and the addresses that responses contain."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from perseid.config import Settings
from perseid.http.headers import CONTENT_LOCATION, FORWARDED_SCHEME, HOST
from perseid.http.request import Request

_SCHEMES: Final = ("http", "https")
_LONGEST_HOST: Final = 262  # a name of 255 characters, a colon and a port
_LOCALHOST: Final = re.compile(r"localhost(:[0-9]*)?", re.IGNORECASE)
_NEEDS_NO_ESCAPE: Final = re.compile(r"[A-Za-z0-9._~-]+").fullmatch


def host_of(request: Request, settings: Settings) -> str:
    """Host and port that the client used; the server's own if it named none."""
    host = request.header(HOST)
    if not host or len(host) > _LONGEST_HOST:
        https = settings.https_endpoint if request.scheme == "https" else None
        return urlsplit(https or settings.endpoint).netloc
    return host


def scheme_of(request: Request) -> str:
    """The scheme that the client used; a proxy that terminates TLS forwards it."""
    forwarded = request.header(FORWARDED_SCHEME)
    if forwarded is None:
        return request.scheme
    scheme = forwarded.partition(",")[0].strip().lower()
    return scheme if scheme in _SCHEMES else request.scheme


def advertised_endpoint(request: Request, settings: Settings) -> str:
    """Where clients send all later requests: the address they used, since they can reach it.

    For `localhost` it is 127.0.0.1, as of the emulators: the service never names the address that
    was dialled but that of a region, and clients distinguish the two.
    """
    host = host_of(request, settings)
    if _LOCALHOST.fullmatch(host) and not _is_ipv6_only(settings):
        host = f"127.0.0.1{host[len('localhost') :]}"
    return f"{scheme_of(request)}://{host}/"


def item_location(
    request: Request, settings: Settings, container_path: str, item_id: str
) -> tuple[str, str]:
    """The header with the address of an item.

    Point reads send it, so it is a cached prefix with the id, and usual requests call no function
    for the prefix.
    """
    header = request.header
    host = header(HOST)
    if host and len(host) <= _LONGEST_HOST and header(FORWARDED_SCHEME) is None:
        items = _items_url(request.scheme, host, container_path)
    else:
        items = _items_url(scheme_of(request), host_of(request, settings), container_path)
    return CONTENT_LOCATION, items + (item_id if _NEEDS_NO_ESCAPE(item_id) else quote(item_id))


@lru_cache(maxsize=256)
def _items_url(scheme: str, host: str, container_path: str) -> str:
    return f"{scheme}://{host}/{container_path}/docs/"


def _is_ipv6_only(settings: Settings) -> bool:
    return settings.host is not None and ":" in settings.host and settings.host != "::"
