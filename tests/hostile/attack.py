"""What a scenario is, and what its attackers work with."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.support.raw import RawClient, Reply

ANSWER_SECONDS: Final = 30.0  # an attacker waits so long for an answer
PK: Final = {"x-ms-documentdb-partitionkey": '["a"]'}
QUERY: Final = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "true",
    "x-ms-documentdb-query-enablecrosspartition": "true",
}
MEGABYTES_2: Final = 2 * 1024 * 1024
READ_ONLY_KEY: Final = "cmVhZC1vbmx5LWtleS1vZi10aGUtaG9zdGlsZS1zY2VuYXJpb3M="


class Tally:
    """What the attackers were answered."""

    def __init__(self, allowed: frozenset[int] = frozenset({503})) -> None:
        self._lock = threading.Lock()
        self._allowed = allowed  # of the statuses from 500 on
        self.statuses: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()  # what must not happen, by description
        self.examples: dict[str, str] = {}  # for each failure one request that shows it

    def add(self, what: str, reply: Reply) -> None:
        """Counts an answer to `what`, and checks that a refusal has a sentence."""
        with self._lock:
            self.statuses[str(reply.status)] += 1
            if reply.status >= 500 and reply.status not in self._allowed:
                self._fail(f"status {reply.status}", f"{what}: {reply.body[:200]!r}")
            elif reply.status >= 400 and not _has_sentence(reply) and not what.startswith("HEAD"):
                self._fail(f"{reply.status} without a sentence", f"{what}: {reply.body[:200]!r}")

    def add_closed(self) -> None:
        """The connection was closed without an answer."""
        self.add_all("closed", 1)

    def add_all(self, outcome: str, count: int) -> None:
        """Counts requests that have no status, such as those that still wait at the end."""
        if count:
            with self._lock:
                self.statuses[outcome] += count

    def add_hang(self, what: str) -> None:
        with self._lock:
            self.statuses["unanswered"] += 1
            self._fail("unanswered", what)

    def fail(self, failure: str, example: str) -> None:
        with self._lock:
            self._fail(failure, example)

    def _fail(self, failure: str, example: str) -> None:
        self.failures[failure] += 1
        self.examples.setdefault(failure, example)

    @property
    def requests(self) -> int:
        return sum(self.statuses.values())


def _has_sentence(reply: Reply) -> bool:
    try:
        body = json.loads(reply.body)
    except ValueError:
        return False
    if isinstance(body, list):  # the operations of a batch have statuses of their own
        return True
    message = body.get("message") if isinstance(body, dict) else None
    return isinstance(message, str) and len(message.split()) >= 3


class Attack:
    """One run of a scenario: where the server is, until when, and what was answered."""

    def __init__(self, endpoint: str, container: str, seconds: float, seed: int) -> None:
        self.endpoint = endpoint
        self.container = container
        self.docs = f"{container}/docs"
        self.tally = Tally()
        self.seed = seed
        self.stop = threading.Event()
        self._end = time.monotonic() + seconds
        self._threads: list[threading.Thread] = []

    @property
    def is_over(self) -> bool:
        return self.stop.is_set() or time.monotonic() >= self._end

    def rest(self) -> None:
        """Waits for the end."""
        self.stop.wait(max(0.0, self._end - time.monotonic()))

    def chance(self, number: int) -> Random:
        """The random numbers of one attacker."""
        return Random(f"{self.seed} {number}")

    @contextmanager
    def client(self, timeout: float = ANSWER_SECONDS) -> Iterator[Attacker]:
        with closing(RawClient(self.endpoint, timeout=timeout)) as raw:
            yield Attacker(raw, self)

    def swarm(self, count: int, work: Callable[[Attacker, int], None]) -> None:
        """Lets so many clients repeat `work` until the end."""

        def repeat(number: int) -> None:
            calm()
            with self.client() as attacker:
                while not self.is_over:
                    work(attacker, number)

        self.parallel(count, repeat)

    def parallel(self, count: int, work: Callable[[int], None]) -> None:
        """Runs `work` once in each of so many threads.

        Returns when all have ended, or a little after the end of the attack: the server is killed
        then, and with it every request that still waits.
        """
        threads = [
            threading.Thread(target=self._guarded, args=(work, number), daemon=True)
            for number in range(count)
        ]
        self._threads += threads
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and time.monotonic() < self._end + 2 and not self.stop.is_set():
                thread.join(0.1)
        self.tally.add_all("waiting", sum(thread.is_alive() for thread in threads))

    def finish(self) -> None:
        """Waits for the attackers; the server is gone."""
        self.stop.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS)

    def _guarded(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except OSError:
            if not self.is_over:
                self.tally.add_closed()
        except Exception as exc:  # a mistake in the scenario must not look like a pass
            self.tally.fail("the attack itself", f"{type(exc).__name__}: {exc}")


class Attacker:
    """A client that counts its answers; a connection that breaks is made again."""

    def __init__(self, raw: RawClient, attack: Attack) -> None:
        self.raw = raw
        self.attack = attack

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Reply | None:
        """The answer, or None if there was none."""
        what = f"{method} {path[:200]} {dict(headers or {})}"[:500]
        try:
            reply = self.raw.request(method, path, body, headers, **options)
        except TimeoutError:
            self.attack.tally.add_hang(what)
            return None
        except (OSError, http.client.HTTPException):
            if not self.attack.is_over:
                self.attack.tally.add_closed()
                time.sleep(0.01)  # a server that closes at once is not asked without pause
            return None
        self.attack.tally.add(what, reply)
        return reply

    def query(self, path: str, text: str, **options: Any) -> Reply | None:
        return self.send("POST", path, {"query": text, "parameters": []}, QUERY, **options)


def calm() -> None:
    """Lowers the priority of this thread, so that the attacker's own work takes no processor.

    What is measured is what the server does to others, not two programs on two cores.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def nothing(_raw: RawClient, _container: str) -> None:
    """A scenario that needs no data of its own."""


@dataclass(frozen=True)
class Limits:
    """What other clients may notice at most."""

    p99_ms: float = 50.0  # of point reads
    create_p99_ms: float = 500.0  # a write waits for writes that have begun before it
    server_megabytes: int = 512
    worker_megabytes: int = 2048  # of all workers together


@dataclass(frozen=True)
class Scenario:
    """An attack: what it does, how much of the time it gets, and its limits."""

    name: str
    description: str
    run: Callable[[Attack], None]
    prepare: Callable[[RawClient, str], None] = nothing  # gets the path of the container
    share: float = 1.0
    options: tuple[str, ...] = ()  # flags of the server
    limits: Limits = Limits()
    least_seconds: float = 3.0
    is_met: bool = True  # False: the limits are known to be missed; it is run by name only
