"""The worker's side: runs calls one after the other, with limited memory.

A worker ends when its connection to the server does, also while it is running a call.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from functools import cache
from typing import Any, Final

from perseid.errors import BadRequest, CosmosError, StaleCatalog
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

try:
    import resource
except ImportError:  # not on Windows, where there are no worker processes
    resource = None  # type: ignore[assignment]

_GRACE_SECONDS: Final = 5  # after the deadline: the server ends a late worker before that
_BUFFER_BYTES: Final = 1024 * 1024
_WATCH_MS: Final = 100  # between two looks at the memory, where the system does not limit it
_KEPT_BYTES: Final = 128 * 1024 * 1024  # a worker that has grown by more is replaced
# Errors that are meant for the caller; others are bugs.
_CALLERS_ERRORS: Final = (CosmosError, StaleCatalog)


class _Connection:
    """The connection to the server: messages one at a time."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        # Used again for each message: new memory for each one would have to be cleared first.
        self._buffer = bytearray(_BUFFER_BYTES)

    def send(self, message: Any) -> None:
        data = messages.encode(message)
        self._server.sendall(messages.LENGTH.pack(len(data)))
        self._server.sendall(data)

    def receive(self) -> memoryview:
        """The next message, valid until the one after it is received.

        Ends the process if the server has closed the connection.
        """
        return self._read(messages.LENGTH.unpack(self._read(messages.LENGTH.size))[0])

    def _read(self, length: int) -> memoryview:
        buffer = self._buffer if length <= _BUFFER_BYTES else bytearray(length)
        message = rest = memoryview(buffer)[:length]
        while rest:
            count = self._server.recv_into(rest)
            if count == 0:
                os._exit(0)
            rest = rest[count:]
        return message


_connection: _Connection | None = None


def ask(content: Any) -> Any:
    """The server's answer to a question of the call that runs; raises the server's error."""
    send_question(content)
    return receive_answer()


def send_question(content: Any) -> None:
    """Asks and goes on; the call must receive each answer before it returns."""
    assert _connection is not None, "only in a worker process"  # noqa: S101
    _connection.send(Question(content))


def receive_answer() -> Any:
    """The answer to the oldest question that has none yet."""
    assert _connection is not None, "only in a worker process"  # noqa: S101
    return messages.decode_answer(_connection.receive())


def main() -> None:
    """Runs calls until the server closes the connection. The argument is the memory in bytes."""
    global _connection  # noqa: PLW0603  # a process has one
    allowance = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its workers
    server = socket.socket(fileno=os.dup(0))
    _connection = _Connection(server)
    _prefer_for_killing()
    own_size = _size()
    counts_memory = not _limit_memory(own_size, allowance)
    most = own_size + allowance if counts_memory else None
    threading.Thread(target=_watch, args=(server, most), daemon=True).start()
    _collect_rarely()
    while True:
        _run(_connection, _connection.receive(), own_size + _KEPT_BYTES)


def _collect_rarely() -> None:
    """Evaluation makes many objects and few cycles, as in the server: see `commands.serve`."""
    gc.set_threshold(50_000, 20, 50)


@cache  # `gc.get_freeze_count` tells as well, but it takes milliseconds to count the objects
def _freeze_once() -> None:
    """Keeps the modules of the first function from being examined ever again."""
    gc.freeze()


def _run(connection: _Connection, call: memoryview, kept_size: int) -> None:
    """Runs one call and sends its reply."""
    try:
        try:
            content = _content(call)
        except MemoryError:  # what the call has built is freed with the exception
            content = messages.encode(OutOfMemory())
        connection.send(CallReply(content, is_last=_has_grown(kept_size)))
    except MemoryError:
        os._exit(messages.OUT_OF_MEMORY)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _content(data: memoryview) -> bytes:
    """The result or the error of a call, pickled."""
    try:
        call: WorkerCall = messages.decode(data)
        _freeze_once()
        # SIGALRM ends the process, whatever it is doing, should the server not do so.
        signal.setitimer(signal.ITIMER_REAL, call.seconds + _GRACE_SECONDS)
        content = messages.encode(Result(call.function(*call.arguments)))
    except _CALLERS_ERRORS as exc:
        return messages.encode(Failure(exc.with_traceback(None)))
    except MemoryError:
        raise
    except Exception:
        return messages.encode(Bug(traceback.format_exc()))
    size = len(content)
    if size > messages.LARGEST_RESULT:
        too_large = BadRequest(f"The result has {size:,} bytes: too many for one response.")
        return messages.encode(Failure(too_large))
    return content


def _has_grown(kept_size: int) -> bool:
    """True if the worker needs too much memory while it does nothing."""
    if _size() <= kept_size:
        return False
    gc.collect()
    return _size() > kept_size


def _limit_memory(own_size: int, allowance: int) -> bool:
    """Makes the system refuse memory above the limit; False if it cannot."""
    if sys.platform != "linux":
        return False
    limit = own_size + allowance
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (OSError, ValueError):  # a lower limit is in force already
        return False
    return True


def _size() -> int:
    """The memory of this process in bytes: its address space on Linux, else the most it had."""
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _prefer_for_killing() -> None:
    """If the machine runs out of memory, workers go before the server."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")


def _watch(server: socket.socket, most: int | None) -> None:
    """Ends the process when the server is gone, or when it has more memory than it may have."""
    poll = select.poll()
    poll.register(server, getattr(select, "POLLRDHUP", 0))  # POLLHUP is always reported
    while not poll.poll(None if most is None else _WATCH_MS):
        if most is not None and _size() > most:
            os._exit(messages.OUT_OF_MEMORY)
    os._exit(0)
