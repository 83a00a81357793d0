"""Builds and runs a server: data directory, store, clock, account, application, listener."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server as Listener

from perseid import private_files
from perseid.clock import (
    Clock,
    FollowingClock,
    MovableClock,
    SharedClock,
    SystemClock,
    readings,
)
from perseid.config import Settings
from perseid.errors import BadRequest, CosmosError, StartError
from perseid.http import wire_limits
from perseid.http.app import App
from perseid.http.signatures import decode_key
from perseid.service.account import Account, open_account
from perseid.service.lifetimes.preview import parse_guard
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.protocol import Stores
from perseid.store.sqlite import store as sqlite
from perseid.store.sqlite.disk_reserve import FROM_SIZE_IN_MEMORY, LARGEST_RESERVE
from perseid.store.sqlite.files import DataDirectory, memory_directory
from perseid.store.types import StoreError

if TYPE_CHECKING:
    from perseid.certificates import ServerCertificate
    from perseid.start_file import Declaration

log = logging.getLogger(__name__)

_GRACE_SECONDS = 10.0
_OTHER_DESCRIPTORS: Final = 128  # of database files, logs and libraries
MEMORY_AND_DATA_CONFLICT: Final = (
    "--memory and --data are mutually exclusive: --memory does not use a data directory"
)
_SHORTEST_PUBLIC_KEY: Final = 32  # bytes; as many as the signatures have
_KEYS = ("key", "secondary_key", "read_only_key", "secondary_read_only_key")


def check_settings(settings: Settings) -> None:
    """StartError for settings that are invalid, unsafe or contradict each other."""
    for name in _KEYS:
        value = getattr(settings, name)
        if value is not None:
            try:
                if not decode_key(value):
                    raise ValueError
            except ValueError:
                flag = name.replace("_", "-")
                raise StartError(f"--{flag} must be base64, like all Cosmos DB keys") from None
    if (settings.cert is None) != (settings.key_file is None):
        raise StartError("--cert and --key-file must be used together: give both or neither")
    if settings.cert is not None and not settings.tls:
        raise StartError("--cert requires HTTPS: add --tls")
    if settings.cert is not None and settings.key_file is not None:
        _check_certificate(settings.cert, settings.key_file)
    if settings.expiry_guard is not None:
        try:
            parse_guard(settings.expiry_guard, 0)
        except BadRequest as exc:
            raise StartError(f"--expiry-guard: {exc.message}") from None
    if settings.store is not None:
        _check_store(settings, settings.store)
    if settings.memory and settings.data != Settings().data:
        raise StartError(MEMORY_AND_DATA_CONFLICT)
    is_public = not settings.is_loopback
    if is_public and not settings.no_auth:
        _check_key_lengths(settings)
    if is_public and not settings.allow_well_known_key:
        if settings.no_auth:
            raise StartError(
                f"refusing to listen on {settings.host} without authorization;"
                " add --allow-well-known-key if everyone who can reach it may use it"
            )
        if settings.has_well_known_key:
            raise StartError(
                f"refusing to listen on {settings.host} with the well-known key; give --key,"
                " or add --allow-well-known-key if everyone who can reach it may use it"
            )


def _check_key_lengths(settings: Settings) -> None:
    """A short key can be found by trying keys against one request that somebody has recorded."""
    for name in _KEYS:
        value = getattr(settings, name)
        if value is not None and (size := len(decode_key(value))) < _SHORTEST_PUBLIC_KEY:
            raise StartError(
                f"refusing to listen on {settings.host}: --{name.replace('_', '-')} has {size}"
                f" byte{'s' * (size > 1)}, and outside of loopback a key needs at least"
                f" {_SHORTEST_PUBLIC_KEY}; make one with `openssl rand -base64 48`"
            )


def _check_certificate(cert: Path, key_file: Path) -> None:
    for flag, path in (("--cert", cert), ("--key-file", key_file)):
        try:
            path.read_bytes()
        except OSError as exc:
            raise StartError(f"{flag} {path}: {exc.strerror}") from exc
    from perseid import certificates  # imported here because it is slow

    private_files.warn_if_open(key_file)
    if (problem := certificates.pair_problem(cert, key_file)) is not None:
        raise StartError(f"--cert {cert} and --key-file {key_file} cannot be used: {problem}")


def _check_store(settings: Settings, dsn: str) -> None:
    if settings.memory:
        raise StartError("--memory and --store are mutually exclusive: give one of them")
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise StartError(
            "--store is not a PostgreSQL address; it looks like"
            " postgresql://user:password@host:5432/database"
        )


@asynccontextmanager
async def opened(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Account]:
    """Opens the account of a data directory, which stays locked, or of a shared database."""
    needs_certificate = settings.tls and settings.cert is None
    with ExitStack() as resources:
        if settings.store is None or needs_certificate:
            directory = memory_directory() if settings.memory else DataDirectory(settings.data)
            resources.enter_context(directory)
        if settings.store is not None:
            stores, clock = await _open_database(settings, settings.store, clock)
        else:
            durability = "off" if settings.memory else settings.durability
            if clock is None:
                clock = MovableClock() if settings.test_clock else SystemClock()
            stores = sqlite.open_stores(
                directory.database,
                durability=durability,
                now=clock.now,
                reserve_size=LARGEST_RESERVE,
                reserve_from=FROM_SIZE_IN_MEMORY if settings.memory else 0,
            )
        try:
            if needs_certificate:
                certificate = _certificate(settings, directory.path)
                settings = replace(settings, cert=certificate.file, key_file=certificate.file)
            try:
                account = await open_account(settings, stores, clock)
                if needs_certificate:
                    account.trusted_certificate = certificate.trusted
            except CosmosError as exc:
                raise StoreError(exc.message) from exc
            if isinstance(clock, SharedClock | FollowingClock):
                account.durable_clock_limit = inf  # the database persists this clock
            try:
                yield account
            finally:
                await account.close_workers()
        finally:
            await stores.close()


def _certificate(settings: Settings, directory: Path) -> ServerCertificate:
    from perseid import certificates  # imported here because it is slow

    if settings.memory:
        return certificates.user_certificate(settings.host, fallback=directory)
    return certificates.ensure_certificate(directory, settings.host)


async def _open_database(settings: Settings, dsn: str, clock: Clock | None) -> tuple[Stores, Clock]:
    """The PostgreSQL store, and the clock that all its server processes share."""
    try:
        from perseid.store.postgres import store as postgres
    except ImportError as exc:
        raise StartError(
            f"--store needs `pip install 'perseid[postgres]'` ({exc.name} is missing)"
        ) from exc
    now = None if clock is None else clock.now
    stores, shared = await postgres.open_stores(dsn, durability=settings.durability, now=now)
    if clock is None:
        clock = shared if settings.test_clock else FollowingClock(shared)
    return stores, clock


class Server:
    """A listening server; `stop` may be called from any thread."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.held_until: float | None = None  # set if the clock was held at the start: see `Clock`
        self._clock = clock
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, on_ready: asyncio.Event | None = None) -> None:
        """Serves until `stop` is called, then finishes the requests in progress."""
        self._loop = asyncio.get_running_loop()
        with reserve_port(self.settings):
            await self._run(on_ready)

    async def _run(self, on_ready: asyncio.Event | None) -> None:
        declaration = _read_start_file(self.settings)
        async with opened(self.settings, self._clock) as account:
            self.held_until = account.clock.held_until()
            clock = account.clock
            sweeper = Sweeper(
                account,
                clock.readings if isinstance(clock, SharedClock | FollowingClock) else readings,
                is_paused=account.settings.no_sweeper,
            )
            await sweeper.load_alarm()
            if declaration is not None:
                await _apply_start_file(account, declaration)
            app = App(account, sweeper, connection_limit(account.settings))
            sweeping = asyncio.create_task(sweeper.run())
            listener = _listener(app, account.settings)
            serving = asyncio.create_task(listener.serve())
            try:
                await wait_listening(self.settings, serving)
                if on_ready is not None:
                    on_ready.set()
                stopping = asyncio.create_task(self._stop.wait())
                await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
            finally:
                listener.stop()  # type: ignore[no-untyped-call]
                # Clients that send or read too slowly must not delay the shutdown.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE_SECONDS):
                        await app.idle()
                        await asyncio.shield(serving)
                sweeping.cancel()
                await _wait_for_tasks(sweeping, seconds=_GRACE_SECONDS / 2)
                await _wait_for_tasks(*account.background, seconds=_GRACE_SECONDS * 3)
                await sweeper.free_disk_space(_GRACE_SECONDS / 5)
                try:
                    await account.persist_clock(account.clock.now(), ahead=0)
                except CosmosError as exc:  # the durable clock limit stored earlier is sufficient
                    log.warning("the clock could not be persisted: %s", exc.message)

    def stop(self) -> None:
        if self._loop is None:
            self._stop.set()  # not started yet: it will stop as soon as it is ready
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped
                self._loop.call_soon_threadsafe(self._stop.set)


async def _wait_for_tasks(*tasks: asyncio.Task[None], seconds: float) -> None:
    """Waits until the tasks are done or failed, but at most `seconds`.

    Tasks that still wait for a database then end when the store is closed.
    """
    all_done = asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait((all_done,), timeout=seconds)


async def _apply_start_file(account: Account, declaration: Declaration) -> None:
    from perseid import start_file

    # Retried if another server process creates the same resources at the same time.
    await account.retry_if_stale(lambda: start_file.apply(account, declaration))


def _read_start_file(settings: Settings) -> Declaration | None:
    """The declaration in the start file; None if there is no start file."""
    if settings.init is None:
        return None
    from perseid import start_file  # imported here because most servers start without one

    root = start_file.read(settings.init)
    return start_file.declare(settings.init, root, is_lenient=settings.relaxed)


def _listener(app: App, settings: Settings) -> Listener:
    limits = wire_limits.LIMITS
    return Listener(
        app,
        address=resolve(settings.host),
        port=settings.port,
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
        ssl_cert=settings.cert,
        ssl_key=settings.key_file,
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


def connection_limit(settings: Settings) -> int:
    """The setting, or less if the process may not open as many files and sockets."""
    try:
        import resource  # not on Windows
    except ImportError:
        return settings.max_connections
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return settings.max_connections
    return max(1, min(settings.max_connections, descriptors - _OTHER_DESCRIPTORS))


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


class PortInUse(StartError):
    """Another process listens on the port or has reserved it."""


def reserve_port(settings: Settings) -> socket.socket:
    """Reserves the port until the listener has opened it; StartError if it is not available.

    On Linux the listener shares its port with any other listener that allows it, and Perseid does.
    Without the reservation two servers that start at the same time would share the requests.
    """
    address = resolve(settings.host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reservation = socket.socket(family, socket.SOCK_STREAM)
    try:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((address, settings.port))
        if sys.platform == "linux":  # lets the listener share the port, but no other reservation
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:  # elsewhere the listener could not share the port with this socket
            reservation.close()
    except OSError as exc:
        reservation.close()
        failure = f"cannot listen on {settings.host}:{settings.port}"
        if exc.errno == errno.EADDRNOTAVAIL:
            raise StartError(
                f"{failure}: this machine does not have this address; choose another --host"
            ) from exc
        if exc.errno == errno.EACCES:
            raise StartError(
                f"{failure}: permission denied; ports below 1024 often need special rights, so"
                " choose another --port"
            ) from exc
        reason = f"{exc.strerror}; choose another --port, or stop the program that uses it"
        raise PortInUse(f"{failure}: {reason}") from exc
    return reservation


async def wait_listening(settings: Settings, serving: asyncio.Task[None]) -> None:
    """Waits until the listener accepts connections; raises the error of a listener that failed."""
    address = resolve(settings.host)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(host, settings.port)
        except OSError:
            await asyncio.sleep(0.005)
        else:
            writer.close()
            return
    await serving
