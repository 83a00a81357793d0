"""Functions that tests run in worker processes."""

from __future__ import annotations

import os
from typing import Any

from perseid.errors import QueryError, QueryProblem, ResourceNotFound, StaleCatalog, TooManyRequests
from perseid.workers.host import ask


def add(left: int, right: int) -> int:
    return left + right


def process_id() -> int:
    return os.getpid()


def priority() -> int:
    return os.nice(0)


def run_forever() -> None:
    while True:
        pass


def ask_and_run_forever() -> None:
    ask("started")
    run_forever()


def allocate(megabytes: int) -> int:
    return len([bytes(1024 * 1024) for _ in range(megabytes)])


_kept: list[bytes] = []


def keep(megabytes: int) -> None:
    _kept.append(bytes(megabytes * 1024 * 1024))


def end_process(status: int) -> None:
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


def ask_twice(first: Any, second: Any) -> list[Any]:
    return [ask(first), ask(second)]


def result_of(size: int) -> bytes:
    return bytes(size)


def fail(kind: str) -> None:
    match kind:
        case "missing":
            raise ResourceNotFound
        case "busy":
            raise TooManyRequests("Busy.", headers=[("a", "b")], charge=2.5, details={"more": 1})
        case "query":
            raise QueryError([QueryProblem("SC1", "bad", 1, 2)])
        case "stale":
            raise StaleCatalog
    raise ZeroDivisionError("a bug")
