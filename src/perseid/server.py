"""Builds and runs a server: data directory, store, clock, account, application, listener."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perseid import certificates, private_files
from perseid.clock import (
    Clock,
    FollowingClock,
    MovableClock,
    SharedClock,
    SystemClock,
    readings,
)
from perseid.config import DEFAULT_HTTPS_PORT, Settings
from perseid.errors import BadRequest, CosmosError, StartError
from perseid.http.app import App
from perseid.http.signatures import decode_key
from perseid.listeners import ListenAddress, Listeners, connection_limit, reserved
from perseid.service.account import Account, open_account
from perseid.service.lifetimes.preview import parse_guard
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.protocol import Stores
from perseid.store.sqlite import store as sqlite
from perseid.store.sqlite.disk_reserve import FROM_SIZE_IN_MEMORY, LARGEST_RESERVE
from perseid.store.sqlite.files import DataDirectory, memory_directory
from perseid.store.types import StoreError

if TYPE_CHECKING:
    from perseid.start_file import Declaration

log = logging.getLogger(__name__)

_GRACE_SECONDS = 10.0
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
    if settings.cert is not None and not settings.has_https:
        raise StartError("--cert requires HTTPS: remove --https-port 0, or add --tls")
    if settings.tls and settings.https_port not in (0, DEFAULT_HTTPS_PORT):
        raise StartError(
            "--tls and --https-port are mutually exclusive: --tls serves HTTPS on --port instead of"
            " HTTP. Remove --tls to serve HTTP on --port and HTTPS on --https-port"
        )
    if settings.https_port == settings.port and not settings.tls:
        raise StartError(
            f"--port and --https-port are both {settings.port}: choose another --https-port, or"
            " --tls to serve HTTPS alone"
        )
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
    with ExitStack() as resources:
        if settings.store is None:
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
            try:
                account = await open_account(settings, stores, clock)
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
        with reserved(self.settings) as addresses:
            await self._run(addresses, on_ready)

    async def _run(self, addresses: list[ListenAddress], on_ready: asyncio.Event | None) -> None:
        declaration = _read_start_file(self.settings)
        async with opened(self.settings, self._clock) as account:
            with ExitStack() as files:  # which the listeners need until they have started
                certificate = files.enter_context(certificates.server_certificate(self.settings))
                account.trusted_certificate = certificate and certificate.trusted
                self.held_until = account.clock.held_until()
                sweeper = await _sweeper(account)
                if declaration is not None:
                    await _apply_start_file(account, declaration)
                limit = connection_limit(account.settings, len(addresses))
                schemes = {address.port: address.scheme for address in addresses}
                app = App(account, sweeper, limit, schemes)
                listeners = Listeners(app, addresses, certificate)
                sweeping = asyncio.create_task(sweeper.run())
                try:
                    await listeners.start()
                    files.close()
                    if on_ready is not None:
                        on_ready.set()
                    await listeners.wait_until(self._stop)
                finally:
                    await listeners.stop(_GRACE_SECONDS)
                    sweeping.cancel()
                    await _wait_for_tasks(sweeping, seconds=_GRACE_SECONDS / 2)
                    await _finish(account, sweeper)

    def stop(self) -> None:
        if self._loop is None:
            self._stop.set()  # not started yet: it will stop as soon as it is ready
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped
                self._loop.call_soon_threadsafe(self._stop.set)


async def _sweeper(account: Account) -> Sweeper:
    clock = account.clock
    sweeper = Sweeper(
        account,
        clock.readings if isinstance(clock, SharedClock | FollowingClock) else readings,
        is_paused=account.settings.no_sweeper,
    )
    await sweeper.load_alarm()
    return sweeper


async def _finish(account: Account, sweeper: Sweeper) -> None:
    """The last work of a server before its store is closed."""
    await _wait_for_tasks(*account.background, seconds=_GRACE_SECONDS * 3)
    await sweeper.free_disk_space(_GRACE_SECONDS / 5)
    try:
        await account.persist_clock(account.clock.now(), ahead=0)
    except CosmosError as exc:  # the durable clock limit stored earlier is sufficient
        log.warning("the clock could not be persisted: %s", exc.message)


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
