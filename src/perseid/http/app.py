"""The application: receives a request, calls its handler, and always sends a response.

It uses RSGI, the native interface of its server. It was measured to serve 15 to 20 % more
requests than the same code on ASGI, which copies all headers.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from itertools import chain
from typing import Any, Final, Protocol

from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]

from perseid import charges
from perseid.documents import TOO_LARGE
from perseid.errors import (
    BadRequest,
    CosmosError,
    Forbidden,
    HeadersTooLarge,
    RequestEntityTooLarge,
    RetryWith,
    ServiceUnavailable,
    StaleCatalog,
)
from perseid.http import metering, portal_files, wire
from perseid.http.admin import routes as admin_routes
from perseid.http.admin.context import AdminContext
from perseid.http.headers import (
    ACTIVITY_ID,
    CHARGE,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    PARTITION_KEY,
    SIGNIFICANT_HEADERS,
    SUB_STATUS,
    TRAILER,
    TRANSFER_ENCODING,
    check_consistency,
    check_priority,
    check_triggers,
)
from perseid.http.request import Exchange, HeaderLookup, Request, Response
from perseid.http.resource_tokens import AccessRequest, check_resource_token
from perseid.http.responses import container_headers
from perseid.http.routes import route
from perseid.http.signatures import SignatureVerifier
from perseid.limits import MAX_BODY_BYTES
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.catalog import Catalog
from perseid.service.lifetimes.sweeper import Sweeper

log = logging.getLogger(__name__)

_STATUSES_WITHOUT_BODY: Final = (204, 304)
_LARGEST_HEADERS: Final = 64 * 1024
# A little above the largest item, so that the error for an item slightly too large is exact.
_LARGEST_READ: Final = MAX_BODY_BYTES + 64 * 1024
_BODY_INCOMPLETE: Final = "The request body ended before it was complete."
_LARGEST_DISCARD: Final = 64 * 1024 * 1024
_RETRIES: Final = 20  # of a request whose catalog was out of date
_CATALOG_CHANGING: Final = (
    "The account's metadata changed during every attempt; the request was not executed."
)
_UNEXPECTED: Final = "An unexpected error occurred; the server's log has the details."


class RsgiHeaders(Protocol):
    def get(self, key: str, default: Any = None) -> Any: ...
    def keys(self) -> Any: ...
    def items(self) -> Any: ...


class RsgiScope(Protocol):
    proto: str
    method: str
    path: str
    query_string: str
    scheme: str
    headers: RsgiHeaders


class App:
    """The callable that the server calls for each request; one for each account."""

    def __init__(self, account: Account, sweeper: Sweeper) -> None:
        self._account = account
        self._sweeper = sweeper
        self._verifier = SignatureVerifier(account.settings)
        self._running = 0
        self._idle: asyncio.Event | None = None
        # Activity ids must be unique, not secret: a random prefix and a counter suffice.
        self._activity = (
            f"{secrets.token_hex(4)}-{secrets.token_hex(2)}-4{secrets.token_hex(2)[1:]}"
        )
        self._counter = itertools.count(secrets.randbits(40))

    async def __rsgi__(self, scope: RsgiScope, protocol: Any) -> None:
        """Reads the request, answers it and sends the response.

        One coroutine, because each one around the body or the handler costs a microsecond.
        """
        activity_id = scope.headers.get(ACTIVITY_ID) or self._new_activity_id()
        self._account.requests += 1
        self._running += 1
        is_logged = log.isEnabledFor(logging.INFO)
        started = time.perf_counter() if is_logged else 0.0
        method = scope.method
        header: HeaderLookup = scope.headers.get
        body, gone, response = b"", None, None
        try:
            try:
                # The body first: a client that is still sending does not read an error response.
                if method not in ("GET", "DELETE") or _has_body(header):
                    if _has_short_body(header):
                        body = await protocol()
                    else:
                        body = await _read_chunks(header, protocol)
                    gone = protocol.client_disconnect
                # Point reads skip this check: they ignore unreadable headers, or miss the key.
                if method != "GET" or header(PARTITION_KEY) is None:
                    header = _header_lookup(scope.headers)
            except Exception as exc:
                response = _unreadable_request(exc, method, activity_id)
            if response is None:
                request = Request(
                    method, scope.path, scope.query_string, scope.scheme,
                    header, body, activity_id, self._account.clock.now(), gone,
                )  # fmt: skip
                exchange = Exchange()
                try:
                    response = await self._answer(request, exchange)
                except StaleCatalog:  # another server process has changed the metadata
                    response = await self._retry(request)
                except asyncio.CancelledError:
                    if not exchange.is_abandoned:
                        raise
            if response is not None:  # else the client has disconnected
                _send(response, activity_id, protocol)
                if is_logged:
                    _log_request(activity_id, scope, response.status, started)
        finally:
            self._running -= 1
            if self._idle is not None and not self._running:
                self._idle.set()

    async def idle(self) -> None:
        """Returns when no request is in progress."""
        if self._running:
            self._idle = asyncio.Event()
            await self._idle.wait()

    async def _retry(self, request: Request) -> Response | None:
        """Answers a request with the current catalog; None if the client disconnected."""
        for _ in range(_RETRIES):
            await self._account.reload()
            exchange = Exchange()
            try:
                request = request._replace(now=self._account.clock.now())
                return await self._answer(request, exchange)
            except StaleCatalog:
                continue
            except asyncio.CancelledError:
                if not exchange.is_abandoned:
                    raise
                return None
        return _build_error_response(RetryWith(_CATALOG_CHANGING), request.activity_id)

    async def _answer(self, request: Request, exchange: Exchange) -> Response:
        account = self._account
        catalog = account.catalog
        try:
            if request.path[:2] == "/_":  # Perseid's own, outside the service's URL space
                if request.path.startswith(admin_routes.PREFIX):
                    return await self._administer(request, exchange)
                if portal_files.is_portal(request.path):
                    return portal_files.serve(request)
            if request.now > account.durable_clock_limit:
                request = await self._persist_clock(request)
            matched_route, link = route(request, exchange)
            token = self._verifier.check(
                request, exchange, matched_route.kind, link, is_read=matched_route.is_read
            )
            if token is not None:
                access_request = AccessRequest(
                    matched_route.kind, link, matched_route.is_read, matched_route.is_keyed
                )
                await check_resource_token(account, request, exchange, token, access_request)
                if account.catalog is not catalog:
                    raise StaleCatalog
            exchange.consistency = check_consistency(request, account.settings.consistency)
            check_priority(request)
            if not matched_route.is_read:
                check_triggers(request)
            if matched_route.checks_catalog:
                request = await self._check_catalog_version(request)
            response = await matched_route.handler(account, request, exchange)
        except CosmosError as error:
            response = await self._error_response(request, exchange, error, catalog)
        except StaleCatalog:
            raise
        except Exception:
            response = _unexpected_error(request.method, request.activity_id)
        if account.budgets is not None:
            metering.bill(account, request, exchange, response)
        return response

    async def _persist_clock(self, request: Request) -> Request:
        """Makes the request's time durable. Returns the request with the time after that."""
        await self._account.persist_clock(request.now)
        return request._replace(now=self._account.clock.now())

    async def _check_catalog_version(self, request: Request) -> Request:
        """StaleCatalog unless the catalog is current. Returns the request with the time after."""
        await self._account.check_catalog_version()
        return request._replace(now=self._account.clock.now())

    async def _error_response(
        self, request: Request, exchange: Exchange, error: CosmosError, catalog: Catalog
    ) -> Response:
        """The response to an error; StaleCatalog if the error may come from outdated metadata.

        Every error below 500 may rest on the catalog, which other server processes can change.
        """
        response = _build_error_response(error, request.activity_id)
        try:
            if error.status < 500:
                await self._account.check_catalog(catalog)
            if exchange.container is not None and error.status != ServiceUnavailable.status:
                response.headers[:0] = await self._item_headers(exchange, exchange.container)
        except CosmosError as failure:
            return _build_error_response(failure, request.activity_id)
        return response

    async def _item_headers(
        self, exchange: Exchange, container: Container
    ) -> list[tuple[str, str]]:
        """The session headers of an error about items; clients record the position."""
        lsns = await self._account.lsns(container)
        headers = container_headers(container, exchange.range_index, lsns[exchange.range_index], 0)
        return [header for header in headers if header[0] != CHARGE]

    async def _administer(self, request: Request, exchange: Exchange) -> Response:
        context = AdminContext(self._account, self._sweeper)
        matched_route = admin_routes.route(context, request, exchange)
        if not matched_route.is_open:
            if request.now > self._account.durable_clock_limit:
                request = await self._persist_clock(request)
            link = request.path.strip("/")
            token = self._verifier.check(
                request, exchange, "_perseid", link, is_read=matched_route.is_read
            )
            if token is not None:
                raise Forbidden(
                    "Administration requires a key of the account, not a resource token."
                )
            request = await self._check_catalog_version(request)
        return await matched_route.handler(context, request, exchange)

    def _new_activity_id(self) -> str:
        number = next(self._counter) & 0xFFFF_FFFF_FFFF_FFFF
        return f"{self._activity}-8{number >> 48 & 0xFFF:03x}-{number & 0xFFFF_FFFF_FFFF:012x}"


def _send(response: Response, activity_id: str, protocol: Any) -> None:
    # Responses have few headers, because each takes about a microsecond to send.
    response.headers.append((ACTIVITY_ID, activity_id))
    response.headers.append((CONTENT_TYPE, response.content_type))
    if response.body and response.status not in _STATUSES_WITHOUT_BODY:
        protocol.response_bytes(response.status, response.headers, response.body)
    else:
        protocol.response_empty(response.status, response.headers)


def _log_request(activity_id: str, scope: RsgiScope, status: int, started: float) -> None:
    milliseconds = (time.perf_counter() - started) * 1000
    path = _printable_path(scope.path)
    log.info("%s %s %s %d %.1f ms", activity_id, scope.method, path, status, milliseconds)


def _build_error_response(error: CosmosError, activity_id: str) -> Response:
    charge = charges.REJECTED if error.charge is None else error.charge
    headers = [(CHARGE, charges.text(charge)), *error.headers]
    if error.sub_status:
        headers.append((SUB_STATUS, str(error.sub_status)))
    return Response(error.status, headers, wire.error_body(error, activity_id))


def _unreadable_request(exc: Exception, method: str, activity_id: str) -> Response:
    """The response to a request whose body or headers cannot be read."""
    if isinstance(exc, ProtocolClosed):
        exc = BadRequest(_BODY_INCOMPLETE)
    if isinstance(exc, CosmosError):
        return _build_error_response(exc, activity_id)
    return _unexpected_error(method, activity_id)


def _unexpected_error(method: str, activity_id: str) -> Response:
    """The response to an exception that is a bug; called where it is caught."""
    log.exception("%s %s failed", activity_id, method)
    return _build_error_response(CosmosError(_UNEXPECTED), activity_id)


def _printable_path(path: str) -> str:
    """A path for the log: a line feed or escape in an id must not look like a second entry."""
    return path if path.isprintable() else path.encode("unicode_escape").decode()


def _has_body(header: HeaderLookup) -> bool:
    return header(CONTENT_LENGTH) not in (None, "0") or header(TRANSFER_ENCODING) is not None


def _has_short_body(header: HeaderLookup) -> bool:
    """True if the length of the body is known and small enough to be read at once."""
    length = header(CONTENT_LENGTH)
    return length is not None and length.isdigit() and int(length) <= _LARGEST_READ


async def _read_chunks(header: HeaderLookup, protocol: Any) -> bytes:
    """A body of unknown length, or one that is too large: an error once enough is read."""
    length = header(CONTENT_LENGTH)
    known = length is not None and length.isdigit()
    if known and header(EXPECT) is not None:
        raise RequestEntityTooLarge(TOO_LARGE)  # before the client sends it
    chunks: list[bytes] = []
    size = end_marks = 0
    async for chunk in protocol:
        size += len(chunk)
        end_marks += not chunk
        if size <= _LARGEST_READ:
            chunks.append(chunk)
        elif size > _LARGEST_DISCARD:
            break
    # Read to the end, or to the limit: a client that is still sending reads no error response.
    if size > _LARGEST_READ:
        raise RequestEntityTooLarge(TOO_LARGE)
    # The server marks the end of the body with one empty chunk. A second one means that something
    # was not data: an interrupted transfer, or trailers, which the client announces in a header.
    if end_marks > 1 and header(TRAILER) is None:
        raise BadRequest(_BODY_INCOMPLETE)
    return b"".join(chunks)


def _header_lookup(headers: RsgiHeaders) -> HeaderLookup:
    """A function like `headers.get` that takes a quarter of its time."""
    pairs = headers.items()
    if len("".join(chain.from_iterable(pairs))) > _LARGEST_HEADERS:
        raise HeadersTooLarge("The headers of the request exceed 64 KB in total.")
    values = dict(pairs)
    if len(values) < len(pairs):  # of a repeated header the first counts
        pairs.reverse()
        values = dict(pairs)
    names = headers.keys()
    if len(names) > len(values):  # the server omits values it cannot decode
        for name in SIGNIFICANT_HEADERS.intersection(names):
            if name not in values:
                raise BadRequest(f"The header {name} may contain visible ASCII characters only.")
    return values.get
