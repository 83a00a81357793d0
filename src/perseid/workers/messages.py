"""What a server and its worker processes send each other: messages, each after its length.

Calls, questions and replies are pickled. Answers, which may be many and large, are plain data
(numbers, texts, bytes, tuples, lists, dictionaries) and marshalled, in a tenth of the time.
Both ends are the same program of the same user, so pickle is as safe as calling the function.
"""

from __future__ import annotations

import marshal
import pickle
import struct
from collections.abc import Callable
from itertools import accumulate, pairwise
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


class AnswerWithParts(NamedTuple):
    """An answer with bytes that are sent as they are: copying them to one place takes longer."""

    value: Any
    parts: list[bytes]


class EncodedAnswer(NamedTuple):
    """An answer that another thread has encoded."""

    pieces: list[bytes]


class CallReply(NamedTuple):
    """To the server: how a call ended, pickled, and whether the worker has grown too large."""

    content: bytes
    is_last: bool


def encode(message: Any) -> bytes:
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def decode(data: bytes | bytearray | memoryview) -> Any:
    return pickle.loads(data)  # noqa: S301  # from the same program: see above


def encode_answer(answer: Any) -> list[bytes]:
    """The answer to a question, in pieces: plain data, of no other classes than those above."""
    if isinstance(answer, EncodedAnswer):
        return answer.pieces
    value, parts = answer if isinstance(answer, AnswerWithParts) else (answer, None)
    lengths = None if parts is None else [*map(len, parts)]
    head = marshal.dumps((value, lengths), _WITHOUT_REFERENCES)
    return [LENGTH.pack(len(head)), head, *(parts or ())]


def decode_answer(data: memoryview) -> Any:
    """The answer; one with parts is a tuple of its value and its parts."""
    end = LENGTH.size + LENGTH.unpack(data[: LENGTH.size])[0]
    value, lengths = marshal.loads(data[LENGTH.size : end])  # noqa: S302  # see above
    if lengths is None:
        return value
    places = [*accumulate(lengths, initial=end)]
    return value, [bytes(data[first:last]) for first, last in pairwise(places)]
