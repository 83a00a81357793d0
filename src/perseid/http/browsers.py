"""Keeps pages of other sites from using a server that this browser can reach.

A page may send requests to any address, and with a name of its own that resolves to this machine
(DNS rebinding) it may read the responses, too. Neither needs a secret on a server with the
well-known key or without authorization. Clients that are no browsers are not affected.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from perseid.config import Settings
from perseid.errors import Forbidden
from perseid.http.headers import FETCH_SITE, HOST, ORIGIN
from perseid.http.request import Request

_METHODS_THAT_READ: Final = ("GET", "HEAD", "OPTIONS")
_SAME_SITE: Final = ("same-origin", "none")  # none: the user has entered the address
# `host.docker.internal` is how containers reach a server on the loopback address of their host.
_OWN_NAMES: Final = frozenset(("localhost", "host.docker.internal"))
_MOST_ACCEPTED: Final = 1000
_OTHER_HOST: Final = (
    "The host '{}' of the request is not a name of this server, which accepts localhost and IP"
    " addresses. If the name is yours, start the server with --allowed-host and the name."
)
_OTHER_ORIGIN: Final = (
    "A page of another origin ('{}') may not write to this server, which runs with --no-auth. If"
    " the page is yours, start the server with --allowed-host and the host of the page."
)


def browser_rules(settings: Settings) -> BrowserRules | None:
    """The rules of a server; None if a secret protects it anyway."""
    return BrowserRules(settings) if settings.no_auth or settings.has_well_known_key else None


class BrowserRules:
    """Which names of the server and which pages a browser may use."""

    def __init__(self, settings: Settings) -> None:
        self._checks_origins = settings.no_auth
        self._checks_hosts = settings.is_loopback
        # Host headers that have been checked; every request asks, so the answer is remembered.
        self._accepted_hosts: set[str | None] = {None}
        allowed = (settings.allowed_host or "").split(",")
        self._names = {_name_of(text) for text in allowed if text.strip()}

    def check(self, request: Request) -> None:
        """403 if a page of another site may have sent the request."""
        if self._checks_hosts and (host := request.header(HOST)) not in self._accepted_hosts:
            self._check_host(host or "")
        if self._checks_origins:
            self._check_origin(request)

    def _check_host(self, host: str) -> None:
        """403 unless the request names this server by a name that no other site can have."""
        if not self._is_own(_name_of(host)):
            raise Forbidden(_OTHER_HOST.format(host[:100]))
        if len(self._accepted_hosts) < _MOST_ACCEPTED:
            self._accepted_hosts.add(host)

    def _check_origin(self, request: Request) -> None:
        """403 if a browser sends this write for a page of another origin."""
        if request.method in _METHODS_THAT_READ:
            return
        site, origin = request.header(FETCH_SITE), request.header(ORIGIN)
        if site in _SAME_SITE or (site is None and origin is None):
            return
        if origin is None or not self._is_page_of_server(origin, request.header(HOST)):
            raise Forbidden(_OTHER_ORIGIN.format((origin or "unknown")[:100]))

    def _is_own(self, name: str) -> bool:
        if name in _OWN_NAMES or name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _is_page_of_server(self, origin: str, host: str | None) -> bool:
        try:
            authority = urlsplit(origin).netloc
        except ValueError:
            return False
        is_same = host is not None and authority.lower() == host.lower()
        return bool(authority) and (is_same or _name_of(authority) in self._names)


def _name_of(authority: str) -> str:
    """The host of `host:port`, in lower case and without brackets."""
    authority = authority.strip().lower()
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0].removesuffix(".")
