"""Puts the parts together: data directory, store, clock, account, application, listener."""

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
from typing import Final

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server as Listener

from perseid import start_file
from perseid.clock import Clock, FollowingClock, MovableClock, SharedClock, SystemClock
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import BadRequest, CosmosError, StartError
from perseid.http.app import App
from perseid.http.signatures import decode_key
from perseid.service.account import Account, open_account
from perseid.service.lifetimes.preview import parse_guard
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.protocol import Store, Stores
from perseid.store.sqlite.files import DataDirectory, memory_directory
from perseid.store.sqlite.store import SqliteStore
from perseid.store.types import StoreError

log = logging.getLogger(__name__)

_GRACE_SECONDS = 10.0
MEMORY_AND_DATA_CONFLICT: Final = (
    "--memory keeps nothing, and --data names where to: give one of them"
)
_KEYS = ("key", "secondary_key", "read_only_key", "secondary_read_only_key")


def check_settings(settings: Settings) -> None:
    """StartError with what to do, for combinations that would be unsafe or make no sense."""
    for name in _KEYS:
        value = getattr(settings, name)
        if value is not None:
            try:
                if not decode_key(value):
                    raise ValueError
            except ValueError:
                flag = name.replace("_", "-")
                raise StartError(f"--{flag} must be base64, as Cosmos DB keys are") from None
    if (settings.cert is None) != (settings.key_file is None):
        raise StartError("--cert and --key-file belong together: give both or neither")
    if settings.cert is not None and not settings.tls:
        raise StartError("--cert is for HTTPS: add --tls")
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
    if is_public and not settings.allow_well_known_key:
        if settings.no_auth:
            raise StartError(
                f"refusing to listen on {settings.host} without authorization;"
                " add --allow-well-known-key if everyone who can reach it may use it"
            )
        keys = (getattr(settings, name) for name in _KEYS)
        if WELL_KNOWN_KEY in keys:
            raise StartError(
                f"refusing to listen on {settings.host} with the key everyone knows; give --key,"
                " or add --allow-well-known-key if everyone who can reach it may use it"
            )


def _check_certificate(cert: Path, key_file: Path) -> None:
    for flag, path in (("--cert", cert), ("--key-file", key_file)):
        try:
            path.read_bytes()
        except OSError as exc:
            raise StartError(f"{flag} {path}: {exc.strerror}") from exc
    from perseid import certificates  # only now: it takes long to import

    if (problem := certificates.pair_problem(cert, key_file)) is not None:
        raise StartError(f"--cert {cert} and --key-file {key_file} cannot be used: {problem}")


def _check_store(settings: Settings, dsn: str) -> None:
    if settings.memory:
        raise StartError("--memory and --store are two places for the data: give one of them")
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise StartError(
            "--store is not a PostgreSQL address; it looks like"
            " postgresql://user:password@host:5432/database"
        )


@asynccontextmanager
async def opened(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Account]:
    """The account of a data directory, which is held until the end, or of a shared database."""
    needs_certificate = settings.tls and settings.cert is None
    with ExitStack() as resources:
        if settings.store is None or needs_certificate:
            directory = memory_directory() if settings.memory else DataDirectory(settings.data)
            resources.enter_context(directory)
        store: Store
        if settings.store is not None:
            store, clock = await _open_database(settings, settings.store, clock)
        else:
            durability = "off" if settings.memory else settings.durability
            if clock is None:
                clock = MovableClock() if settings.test_clock else SystemClock()
            store = SqliteStore(directory.database, durability=durability, now=clock.now)
        try:
            if needs_certificate:
                from perseid import certificates

                cert, key = certificates.ensure_certificate(directory.path, settings.host)
                settings = replace(settings, cert=cert, key_file=key)
            try:
                account = await open_account(settings, Stores.of(store), clock)
            except CosmosError as exc:
                raise StoreError(exc.message) from exc
            if isinstance(clock, SharedClock | FollowingClock):
                account.durable_clock_limit = inf  # its store remembers what it has shown
            yield account
        finally:
            await store.close()


async def _open_database(settings: Settings, dsn: str, clock: Clock | None) -> tuple[Store, Clock]:
    """The store on PostgreSQL, whose clock is that of all its front ends."""
    try:
        from perseid.store.postgres.store import PostgresStore
    except ImportError as exc:
        raise StartError(
            f"--store needs what `pip install 'perseid[postgres]'` brings ({exc.name} is missing)"
        ) from exc
    now = None if clock is None else clock.now
    store = await PostgresStore.open(dsn, durability=settings.durability, now=now)
    if clock is None:
        clock = store.clock if settings.test_clock else FollowingClock(store.clock)
    return store, clock


class Server:
    """A listening server; `stop` may be called from any thread."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.held_until: float | None = None  # the clock, when it was started: see `Clock`
        self._clock = clock
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, on_ready: asyncio.Event | None = None) -> None:
        """Serves until told to stop; finishes the requests it has taken."""
        self._loop = asyncio.get_running_loop()
        with reserve_port(self.settings):
            await self._run(on_ready)

    async def _run(self, on_ready: asyncio.Event | None) -> None:
        declaration = _read_start_file(self.settings)
        async with opened(self.settings, self._clock) as account:
            self.held_until = account.clock.held_until()
            if declaration is not None:
                await _apply_start_file(account, declaration)
            sweeper = Sweeper(account, is_paused=account.settings.no_sweeper)
            if isinstance(account.clock, SharedClock | FollowingClock):
                sweeper.readings = account.clock.readings
            await sweeper.load_alarm()
            app = App(account, sweeper)
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
                # Whoever sends or reads its data too slowly, or not at all, does not hold us up.
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
                except CosmosError as exc:  # the mark ahead of it, stored before, will do
                    log.warning("the clock could not be stored: %s", exc.message)

    def stop(self) -> None:
        if self._loop is None:
            self._stop.set()  # it has not begun; it will end as soon as it could serve
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so has the server
                self._loop.call_soon_threadsafe(self._stop.set)


async def _wait_for_tasks(*tasks: asyncio.Task[None], seconds: float) -> None:
    """Returns when the tasks have ended, however; or after so many seconds, if a database does not
    answer them: closing the store ends them then."""
    ending = asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait((ending,), timeout=seconds)


async def _apply_start_file(account: Account, declaration: start_file.Declaration) -> None:
    # Planned anew if another front end makes the same things at the same moment.
    await account.retry_if_stale(lambda: start_file.apply(account, declaration))


def _read_start_file(settings: Settings) -> start_file.Declaration | None:
    """What the start file says; read before anything is opened."""
    if settings.init is None:
        return None
    return start_file.declare(settings.init, start_file.read(settings.init))


def _listener(app: App, settings: Settings) -> Listener:
    return Listener(
        app,
        address=resolve(settings.host),
        port=settings.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=1024,
        log_enabled=False,
        # Room for the longest headers the application can refuse in its own words.
        http1_settings=HTTP1Settings(max_buffer_size=512 * 1024),
        ssl_cert=settings.cert,
        ssl_key=settings.key_file,
        ssl_protocol_min=SSLProtocols.tls12,
    )


def resolve(host: str) -> str:
    """The address of a host name; StartError if it has none."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise StartError(f"cannot listen on '{host}': {exc.strerror}") from exc
    except UnicodeError as exc:  # an empty part, or one that is too long
        raise StartError(f"cannot listen on '{host}': that can be no name of a host") from exc
    # IPv4 first: that is where clients look for "localhost".
    return str(min(addresses, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


class PortInUse(StartError):
    """Somebody else listens there, or is about to."""


def reserve_port(settings: Settings) -> socket.socket:
    """Keeps others off the port until the listener has it; StartError if it cannot be had.

    On Linux the listener would share a port with whoever allows it, as every other server of ours
    does: two that start at the same moment would each get some of the requests.
    """
    address = resolve(settings.host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reservation = socket.socket(family, socket.SOCK_STREAM)
    try:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((address, settings.port))
        if sys.platform == "linux":  # from now on it gives way to the listener, and to no claim
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:  # where the listener shares with nobody, not even with this
            reservation.close()
    except OSError as exc:
        reservation.close()
        where = f"cannot listen on {settings.host}:{settings.port}"
        if exc.errno == errno.EADDRNOTAVAIL:
            raise StartError(
                f"{where}: that is not an address of this machine; choose another --host"
            ) from exc
        if exc.errno == errno.EACCES:
            raise StartError(
                f"{where}: this user may not; ports below 1024 are often kept for the system's own"
                " services, so choose another --port"
            ) from exc
        reason = f"{exc.strerror}; choose another --port, or stop what is using it"
        raise PortInUse(f"{where}: {reason}") from exc
    return reservation


async def wait_listening(settings: Settings, serving: asyncio.Task[None]) -> None:
    """Returns when the listener accepts connections."""
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
