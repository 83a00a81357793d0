"""What a server and its worker processes send each other: messages, each after its length.

Calls, questions and replies are pickled. Answers, which may be many and large, are plain data
(numbers, texts, bytes, tuples, lists, dictionaries) and marshalled, which takes a tenth of the time.
Both ends are the same program of the same user, so pickle is as safe as calling the function.
"""

from __future__ import annotations

import marshal
import pickle
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

LENGTH: Final = struct.Struct("<Q")
# Of a result. The server keeps it in memory until the client has read it.
LARGEST_RESULT: Final = 64 * 1024 * 1024
# Exit status of a worker that needs more memory than it may have.
OUT_OF_MEMORY: Final = 86
_WITHOUT_REFERENCES: Final = 2  # the version of the format that does not look for equal objects


class WorkerCall(NamedTuple):
    """To a worker: run the function. The worker ends itself some time after the deadline."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float


class Question(NamedTuple):
    """To the server, while a call runs: answer this and go on."""

    content: Any


class Result(NamedTuple):
    """The value of a call."""

    value: Any


class Failure(NamedTuple):
    """The exception of a call."""

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


def decode(data: bytes | bytearray | memoryview) -> Any:
    return pickle.loads(data)  # noqa: S301  # from the same program: see above


def encode_answer(value: Any) -> bytes:
    """The answer to a question: plain data, of no other classes than those above."""
    return marshal.dumps(value, _WITHOUT_REFERENCES)


def decode_answer(data: bytes | bytearray | memoryview) -> Any:
    return marshal.loads(data)  # noqa: S302  # from the same program: see above
