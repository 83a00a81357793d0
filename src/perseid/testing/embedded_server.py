"""Runs a server in a thread of this process, for tests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from perseid.clock import Clock
from perseid.config import Settings
from perseid.listeners import PortInUse
from perseid.server import Server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    settings: Settings, clock: Clock | None = None, *, as_served: bool = False
) -> Iterator[Settings]:
    """Runs a server on a free port until the block ends; yields the settings with that port.

    It listens on one address with one protocol. With `as_served` it listens as `perseid serve`
    does: on both loopback addresses, and also for HTTPS, on another free port.
    """
    while True:
        settings = replace(settings, port=free_port())
        if not as_served:
            settings = replace(settings, host=settings.host or "127.0.0.1", https_port=0)
        elif settings.https_endpoint is not None:
            settings = replace(settings, https_port=free_port())
        server_thread = _ServerThread(Server(settings, clock))
        try:
            try:
                server_thread.start()
            except PortInUse:  # another process took it in the meantime
                continue
            yield settings
        finally:
            server_thread.stop()
        server_thread.raise_failure()
        return


class _ServerThread:
    """A server and the thread it runs in."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="perseid")

    def start(self) -> None:
        """Waits until the server accepts connections; raises its error if it failed."""
        self._thread.start()
        self._ready.wait()  # interrupted by Ctrl-C
        self.raise_failure()

    def stop(self) -> None:
        self._server.stop()
        self._thread.join()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as exc:
            self._failure = exc
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        listening = asyncio.Event()
        task = asyncio.create_task(self._server.run(listening))
        waiter = asyncio.create_task(listening.wait())
        await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if not task.done():  # if it failed, `_main` stores the failure before it sets the event
            self._ready.set()
        await task
