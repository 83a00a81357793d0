"""The server's side: a few worker processes, started when they are needed.

A call that is cancelled or late ends its worker, because nothing else stops Python code for sure.
Another worker takes its place when it is needed. An idle worker ends after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from perseid.errors import BadRequest, RequestTimeout, ServiceUnavailable, TooManyRequests
from perseid.workers import messages
from perseid.workers.messages import (
    Bug,
    CallReply,
    Failure,
    OutOfMemory,
    Question,
    Result,
    WorkerCall,
)

T = TypeVar("T")
Responder = Callable[[Any], Awaitable[Any]]

log = logging.getLogger(__name__)

MEGABYTE: Final = 1024 * 1024
_NICE: Final = 10  # by how much the priority of workers is lower than the server's
_MOST_WAITING: Final = 64  # calls
_WAITING_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 60.0
_BUFFER_BYTES: Final = MEGABYTE  # of a reply that are received before they are read
_RETRY_AFTER: Final = ("x-ms-retry-after-ms", "1000")
_SIGKILL: Final = getattr(signal, "SIGKILL", 9)  # Windows has no such signal, and no workers
# A worker that ends this way has most likely asked for more memory than there is.
_MEMORY_EXITS: Final = (messages.OUT_OF_MEMORY, -signal.SIGABRT, -_SIGKILL)
# Settings of malloc in workers. A second arena, for the thread that watches, would take much of the
# address space that a worker may have. Memory for items is needed again for the next ones.
_MALLOC: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 * MEGABYTE),
    "MALLOC_TRIM_THRESHOLD_": str(16 * MEGABYTE),
}


class WorkerBug(Exception):
    """A function failed in a worker process; the text is the traceback."""


class _WorkerLost(Exception):
    """The worker has closed the connection."""


class WorkerPool:
    """Runs functions in worker processes, each call in one, at most `size` at a time.

    A size of 0 runs them in threads, which have no limits.
    """

    def __init__(self, size: int, memory: int) -> None:
        self.size = size if can_start_workers() else 0
        self._memory = memory  # bytes for each worker
        self._free = asyncio.Semaphore(self.size)
        self._waiting = 0
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def call(
        self,
        function: Callable[..., T],
        *arguments: Any,
        seconds: float,
        answer: Responder | None = None,
    ) -> T:
        """The result of a module-level function in a worker process.

        Arguments, results and errors are pickled. `answer` gets what the function asks the server
        by `host.ask`, and returns plain data: see `messages`. Errors that clients may see are
        raised here as they were raised there.
        """
        if self.size == 0:
            return await asyncio.to_thread(function, *arguments)
        await self._wait_for_turn()
        try:
            # Encoded now: a copy of the arguments for each call that waits would need much memory.
            call = messages.encode(WorkerCall(function, arguments, seconds))
            result: T = await self._run(call, seconds, answer)
            return result
        finally:
            self._free.release()

    async def close(self) -> None:
        """Ends all workers, also those that run a call."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*(self._end(worker) for worker in list(self._workers)))

    async def _wait_for_turn(self) -> None:
        if self._waiting >= _MOST_WAITING:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(_WAITING_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting -= 1

    async def _run(self, call: bytes, seconds: float, answer: Responder | None) -> Any:
        worker = self._take_idle() or await self._start()
        try:
            try:
                async with asyncio.timeout(seconds):
                    reply = await worker.exchange(call, answer)
            except TimeoutError:
                raise RequestTimeout(
                    f"The request was stopped after {seconds:g} seconds of evaluation."
                ) from None
        except _WorkerLost:
            raise _lost(await self._end(worker), self._memory) from None
        except BaseException:
            # Not awaited: the caller may be cancelled a second time.
            self._end_soon(worker)
            raise
        if reply.is_last:
            self._end_soon(worker)
        else:
            self._keep(worker)
        return self._value(messages.decode(reply.content))

    def _value(self, content: Result | Failure | Bug | OutOfMemory) -> Any:
        match content:
            case Result():
                return content.value
            case Failure():
                raise content.error
            case Bug():
                raise WorkerBug(content.traceback)
            case OutOfMemory():
                raise _out_of_memory(self._memory)

    def _take_idle(self) -> _Worker | None:
        """The idle worker that was used last; another process may have ended some of them."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_running:
                return worker
            self._end_soon(worker)
        return None

    async def _start(self) -> _Worker:
        try:
            worker = await _start_worker(self._memory)
        except OSError as exc:
            log.warning("a worker process could not be started: %s", exc)
            raise ServiceUnavailable("No worker process could be started.") from exc
        self._workers.add(worker)
        return worker

    def _keep(self, worker: _Worker) -> None:
        loop = asyncio.get_running_loop()
        worker.idle_since = loop.time()
        self._idle.append(worker)
        if self._timer is None:
            self._timer = loop.call_later(_IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        """Ends the workers that were idle for a while; the most recently used come last."""
        loop = asyncio.get_running_loop()
        while self._idle and loop.time() - self._idle[0].idle_since >= _IDLE_SECONDS:
            self._end_soon(self._idle.pop(0))
        self._timer = loop.call_later(_IDLE_SECONDS, self._end_idle) if self._workers else None

    def _end_soon(self, worker: _Worker) -> None:
        worker.ending = asyncio.ensure_future(self._end(worker))

    async def _end(self, worker: _Worker) -> int:
        """Ends a worker; its exit status."""
        if worker in self._idle:
            self._idle.remove(worker)
        status = await worker.end()
        self._workers.discard(worker)
        return status


class _Worker:
    """A worker process and the connection to it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.idle_since = 0.0
        self.ending: asyncio.Future[int] | None = None  # referred to, or it could be collected

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def exchange(self, call: bytes, answer: Responder | None) -> CallReply:
        """Sends a call, answers questions, and returns the reply."""
        try:
            await self._send([call])
            while isinstance(message := await self._receive(), Question):
                await self._send(await _answered(answer, message.content))
        except (EOFError, ConnectionError) as exc:
            raise _WorkerLost from exc
        assert isinstance(message, CallReply)  # noqa: S101
        return message

    async def end(self) -> int:
        """Kills the process and waits for it; its exit status."""
        # A worker that is ending by itself gets a moment, so that its status tells why.
        if self._reader.at_eof():
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, 1)
        self._process.kill()
        self._writer.close()
        return await asyncio.to_thread(self._process.wait)

    async def _send(self, pieces: list[bytes]) -> None:
        length = sum(map(len, pieces))
        self._writer.writelines([messages.LENGTH.pack(length), *pieces])
        await self._writer.drain()

    async def _receive(self) -> Any:
        header = await self._reader.readexactly(messages.LENGTH.size)
        return messages.decode(await self._reader.readexactly(messages.LENGTH.unpack(header)[0]))


async def _answered(answer: Responder | None, content: Any) -> list[bytes]:
    assert answer is not None, "the call has no answers"  # noqa: S101
    return messages.encode_answer(await answer(content))


async def _start_worker(memory: int) -> _Worker:
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: ASYNC220, S603  # takes a millisecond
                [sys.executable, "-P", "-m", "perseid.workers", str(memory)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=_environment(),
            )
        except BaseException:
            ours.close()
            raise
    with contextlib.suppress(OSError):
        # At once: while a worker starts it would take half a second of time from the server.
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, process.pid, min(own + _NICE, 19))
    ours.setblocking(False)
    # An answer should fit, so that the worker need not wait for the server in the middle of it.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MEGABYTE)
    reader, writer = await asyncio.open_connection(sock=ours, limit=_BUFFER_BYTES)
    return _Worker(process, reader, writer)


def _environment() -> dict[str, str]:
    """The environment, with the same search path for modules as this process has."""
    path = os.pathsep.join(filter(None, sys.path))
    return os.environ | _MALLOC | {"PYTHONPATH": path}


def can_start_workers() -> bool:
    """False where sockets cannot be handed to a child process, or the interpreter is unknown."""
    return os.name == "posix" and bool(sys.executable)


def _busy() -> TooManyRequests:
    return TooManyRequests(
        "Too many requests that take long to evaluate are waiting. Please retry later.",
        headers=(_RETRY_AFTER,),
    )


def _out_of_memory(memory: int) -> BadRequest:
    return BadRequest(
        f"The request needs more than {memory // MEGABYTE} MB of memory to evaluate. Please filter"
        " its arrays in subqueries, join fewer of them, or select less of each item."
    )


def _lost(status: int, memory: int) -> Exception:
    """The error of a call whose worker has ended."""
    if status in _MEMORY_EXITS:
        return _out_of_memory(memory)
    log.error("a worker process ended with status %d", status)
    return ServiceUnavailable("The worker process that evaluated the request has ended.")
