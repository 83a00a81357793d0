"""A server in a thread of this process, for tests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from perseid.clock import Clock
from perseid.config import Settings
from perseid.server import Server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(settings: Settings, clock: Clock | None = None) -> Iterator[Settings]:
    """Runs a server on a free port until the block ends; yields the settings with that port."""
    settings = replace(settings, port=free_port())
    server = Server(settings, clock)
    ready = threading.Event()
    failures: list[BaseException] = []

    async def serve() -> None:
        listening = asyncio.Event()
        task = asyncio.create_task(server.run(listening))
        waiter = asyncio.create_task(listening.wait())
        await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if not task.done():  # else it failed, and the caller hears of that first
            ready.set()
        await task

    def main() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:
            failures.append(exc)
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="perseid")
    thread.start()
    try:
        ready.wait()  # Ctrl-C may come here, too: a server that nobody stops would run for ever
        if not failures:
            yield settings
    finally:
        server.stop()
        thread.join()
    if failures:
        raise failures[0]
