"""Where a server listens: its addresses and ports, their reservation, and a listener for each.

A listener has one address and one protocol. All of them call the same application, so there are up
to four: HTTP and HTTPS, on IPv4 and IPv6.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server as Listener

from perseid.config import DEFAULT_HTTPS_PORT, Settings
from perseid.errors import StartError
from perseid.http import wire_limits
from perseid.http.app import App

if TYPE_CHECKING:
    from perseid.certificates import ServerCertificate

_IPV4_LOOPBACK: Final = "127.0.0.1"
_IPV6_LOOPBACK: Final = "::1"
_NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_OTHER_DESCRIPTORS: Final = 128  # of database files, logs and libraries


class PortInUse(StartError):
    """Another process listens on the port or has reserved it."""


class ListenAddress(NamedTuple):
    """An IP address and a port, for HTTP or for HTTPS."""

    ip: str
    port: int
    scheme: str

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


def listen_addresses(settings: Settings) -> list[ListenAddress]:
    """Every address for every protocol. `localhost` may lead clients to either loopback address."""
    ips = [_IPV4_LOOPBACK, _IPV6_LOOPBACK] if settings.host is None else [resolve(settings.host)]
    ports = [(settings.port, "https" if settings.tls else "http")]
    if settings.https_endpoint is not None:
        ports.append((settings.https_port, "https"))
    return [ListenAddress(ip, port, scheme) for port, scheme in ports for ip in ips]


def resolve(host: str) -> str:
    """The IP address of a host name; StartError if it has none."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise StartError(f"cannot listen on '{host}': {exc.strerror}") from exc
    except UnicodeError as exc:  # a label of the name is empty or too long
        raise StartError(f"cannot listen on '{host}': not a valid host name") from exc
    # IPv4 first: most clients resolve "localhost" to it.
    return str(min(addresses, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


@contextlib.contextmanager
def reserved(settings: Settings) -> Iterator[list[ListenAddress]]:
    """Reserves all ports until the listeners have opened them; StartError if one is not available.

    On Linux a listener shares its port with any other listener that allows it, and Perseid does.
    Without the reservation two servers that start at the same time would share the requests.
    Yields the addresses that this machine has: not every machine has IPv6.
    """
    addresses = []
    with ExitStack() as reservations:
        for address in listen_addresses(settings):
            try:
                reservation = _bind(address)
            except OSError as exc:
                is_optional = settings.host is None and address.ip == _IPV6_LOOPBACK
                if is_optional and exc.errno in _NO_IPV6:
                    continue
                raise _refusal(settings, address, exc) from exc
            reservations.enter_context(reservation)
            addresses.append(address)
        yield addresses


def _bind(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
    reservation = socket.socket(family, socket.SOCK_STREAM)
    try:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((address.ip, address.port))
        if sys.platform == "linux":  # lets the listener share the port, but no other reservation
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:  # elsewhere the listener could not share the port with this socket
            reservation.close()
    except OSError:
        reservation.close()
        raise
    return reservation


def _refusal(settings: Settings, address: ListenAddress, exc: OSError) -> StartError:
    """Why the server does not listen there, and what to do."""
    is_second_port = not settings.tls and address.scheme == "https"
    flag = "--https-port" if is_second_port else "--port"
    failure = f"cannot listen on {address}{' for HTTPS' if is_second_port else ''}"
    if exc.errno == errno.EADDRNOTAVAIL:
        return StartError(
            f"{failure}: this machine does not have this address; choose another --host"
        )
    if exc.errno == errno.EACCES:
        return StartError(
            f"{failure}: permission denied; ports below 1024 often need special rights, so"
            f" choose another {flag}"
        )
    reason = f"{failure}: {exc.strerror}; choose another {flag}, or stop the program that uses it"
    if is_second_port:
        reason += ". With --https-port 0 the server has no HTTPS"
        if settings.https_port == DEFAULT_HTTPS_PORT:
            reason += "; a second server needs an --https-port of its own, as it needs a --port"
    elif settings.host is None:
        reason += (
            f". Clients of localhost may reach either of {_IPV4_LOOPBACK} and {_IPV6_LOOPBACK}, so"
            " the server needs both; with --host it listens on one address alone"
        )
    return PortInUse(reason)


def connection_limit(settings: Settings, listener_count: int) -> int:
    """The setting, for each listener, or less if the process may not open as many sockets."""
    try:
        import resource  # not on Windows
    except ImportError:
        return settings.max_connections
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return settings.max_connections
    available = (descriptors - _OTHER_DESCRIPTORS) // listener_count
    return max(1, min(settings.max_connections, available))


def allow_open_files(settings: Settings) -> None:
    """Lets the process open as many files as its listeners need, as far as the system allows.

    The usual limit, 1,024, is for programs that have one listener or none.
    """
    try:
        import resource  # not on Windows
    except ImportError:
        return
    needed = settings.max_connections * len(listen_addresses(settings)) + _OTHER_DESCRIPTORS
    current, largest = resource.getrlimit(resource.RLIMIT_NOFILE)
    if current == resource.RLIM_INFINITY or current >= needed:
        return
    if largest != resource.RLIM_INFINITY:
        needed = min(needed, largest)
    with contextlib.suppress(OSError, ValueError):  # then `connection_limit` is lower
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, largest))


class Listeners:
    """The listeners of a server, which start and stop together."""

    def __init__(
        self, app: App, addresses: Sequence[ListenAddress], certificate: ServerCertificate | None
    ) -> None:
        self._app = app
        self._addresses = addresses
        self._listeners = [_listener(app, address, certificate) for address in addresses]
        self._serving: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when all accept connections; raises the error of one that failed."""
        self._app.start(asyncio.get_running_loop())
        self._serving = [asyncio.create_task(each.serve()) for each in self._listeners]
        for address, task in zip(self._addresses, self._serving, strict=True):
            await _wait_listening(address, task)

    async def wait_until(self, stop: asyncio.Event) -> None:
        """Waits until the event is set, or one of the listeners has failed."""
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((*self._serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    async def stop(self, seconds: float) -> None:
        """Finishes the requests in progress, but takes no longer than `seconds`."""
        for listener in self._listeners:
            listener.stop()  # type: ignore[no-untyped-call]
        # Clients that send or read too slowly must not delay the shutdown.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._app.idle()
                await asyncio.shield(asyncio.gather(*self._serving))
        self._app.stop()


async def _wait_listening(address: ListenAddress, serving: asyncio.Task[None]) -> None:
    wildcards = {"0.0.0.0": _IPV4_LOOPBACK, "::": _IPV6_LOOPBACK}  # noqa: S104
    ip = wildcards.get(address.ip, address.ip)
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(ip, address.port)
        except OSError:
            await asyncio.sleep(0.005)
        else:
            writer.close()
            return
    await serving


def _listener(app: App, address: ListenAddress, certificate: ServerCertificate | None) -> Listener:
    limits = wire_limits.LIMITS
    if address.scheme == "http":
        certificate = None
    return Listener(
        app,
        address=address.ip,
        port=address.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.auto,
        websockets=False,
        backlog=1024,
        backpressure=app.max_connections,
        log_enabled=False,
        http1_settings=HTTP1Settings(
            header_read_timeout=int(limits.header_seconds * 1000),
            # Large enough that the application refuses headers that are slightly too long, small
            # enough that all connections together cannot fill the memory with headers.
            max_buffer_size=128 * 1024,
        ),
        http2_settings=_http2_settings(limits),
        ssl_cert=certificate and certificate.file,
        ssl_key=certificate and certificate.key,
        ssl_protocol_min=SSLProtocols.tls12,
    )


def _http2_settings(limits: wire_limits.WireLimits) -> HTTP2Settings:
    """A connection of HTTP/2 holds little more than one of HTTP/1.1, although it has streams."""
    return HTTP2Settings(
        # What a client may send before the application reads it, on all streams together.
        initial_connection_window_size=128 * 1024,
        initial_stream_window_size=128 * 1024,
        # As the application allows, and a little more: it refuses with a sentence.
        max_headers_size=72 * 1024,
        max_concurrent_streams=32,
        max_send_buffer_size=64 * 1024,
        # A client that does not respond within ten seconds is gone.
        keep_alive_interval=int(limits.header_seconds * 1000 * 2 / 3),
        keep_alive_timeout=10,
    )
