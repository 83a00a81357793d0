"""What a server and its worker processes send each other: pickled messages, each after its length.

Both ends are the same program of the same user, so pickle is as safe as calling the function.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

LENGTH: Final = struct.Struct("<Q")
# Of a result. The server keeps it in memory until the client has read it.
LARGEST_RESULT: Final = 64 * 1024 * 1024
# Exit status of a worker that needs more memory than it may have.
OUT_OF_MEMORY: Final = 86


class WorkerCall(NamedTuple):
    """To a worker: run the function. The worker ends itself some time after the deadline."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float


class Question(NamedTuple):
    """To the server, while a call runs: answer this and go on."""

    content: Any


class Result(NamedTuple):
    """The value of a call, or of a question."""

    value: Any


class Failure(NamedTuple):
    """The exception of a call, or of a question."""

    error: BaseException


class Bug(NamedTuple):
    """An exception of a call that no client should see, as text for the log."""

    traceback: str


class OutOfMemory(NamedTuple):
    """The call needed more memory than the worker may have."""


class CallReply(NamedTuple):
    """To the server: how a call ended, pickled, and whether the worker has grown too large."""

    content: bytes
    is_last: bool


def encode(message: Any) -> bytes:
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def decode(data: bytes | bytearray) -> Any:
    return pickle.loads(data)  # noqa: S301  # from the same program: see above
