"""An honest client in a process of its own: point reads, and now and then a create.

`python -m tests.hostile.probe ENDPOINT CONTAINER` answers each line on standard input with a line
of JSON: what it has measured since the line before.
"""

from __future__ import annotations

import http.client
import json
import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

from tests.support.processes import environment
from tests.support.raw import RawClient

HANG_SECONDS: Final = 5.0  # a request without an answer after that hangs
PAUSE: Final = 0.004  # between two requests
CREATE_EACH: Final = 25  # one request of so many is a create
ITEM: Final = {"id": "probe", "pk": "probe", "text": "x" * 500}


class Latencies(NamedTuple):
    """What an honest client saw, in milliseconds."""

    requests: int
    p50: float  # of point reads, as are the next two
    p99: float
    highest: float
    create_p99: float
    late_p99: float  # how late the probe itself was woken up: what the machine adds
    hangs: int
    statuses: dict[str, int]  # those that are not a success


class Measurements:
    """The latencies since the last report; two threads use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[bool, list[float]] = {False: [], True: []}  # by: is a create
        self._is_create = False
        self._late: list[float] = []
        self._hangs = 0
        self._statuses: Counter[str] = Counter()
        self._asked: float | None = None  # when the request under way was sent

    def begin(self, *, is_create: bool) -> None:
        with self._lock:
            self._is_create = is_create
            self._asked = time.perf_counter()

    def end(self, status: int | None) -> None:
        """None: there was no answer."""
        with self._lock:
            assert self._asked is not None
            taken = time.perf_counter() - self._asked
            self._asked = None
            self._times[self._is_create] += _with_missed(taken)
            if status is None:
                self._hangs += taken >= HANG_SECONDS
                self._statuses["timeout" if taken >= HANG_SECONDS else "closed"] += 1
            elif status >= 400:
                self._statuses[str(status)] += 1

    def pause(self) -> None:
        """Between two requests."""
        started = time.perf_counter()
        time.sleep(PAUSE)
        late = time.perf_counter() - started - PAUSE
        with self._lock:
            self._late += _with_missed(late)

    def report(self) -> Latencies:
        """Also counts the request that is still waiting."""
        with self._lock:
            if self._asked is not None:
                waiting = _with_missed(time.perf_counter() - self._asked)
                self._times[self._is_create] += waiting
            reads, creates = self._times[False], self._times[True]
            taken = Latencies(
                len(reads) + len(creates),
                percentile(reads, 0.5),
                percentile(reads, 0.99),
                percentile(reads, 1),
                percentile(creates, 0.99),
                percentile(self._late, 0.99),
                self._hangs,
                dict(self._statuses),
            )
            self._times, self._late, self._hangs = {False: [], True: []}, [], 0
            self._statuses.clear()
            return taken


def _with_missed(taken: float) -> Iterator[float]:
    """The latency, and those of the requests that would have been sent while this one waited.

    Otherwise a stall of a second would count as one slow request among hundreds of fast ones.
    """
    yield taken
    while taken > 10 * PAUSE:
        taken -= PAUSE
        yield taken


def percentile(times: Sequence[float], share: float) -> float:
    """In milliseconds; 0 if there are none."""
    if not times:
        return 0.0
    place = min(len(times) - 1, math.ceil(share * len(times)) - 1)
    return round(sorted(times)[place] * 1000, 3)


def _measure(endpoint: str, container: str, measured: Measurements) -> None:
    number = 0
    docs = f"{container}/docs"
    with closing(RawClient(endpoint, timeout=HANG_SECONDS)) as raw:
        while True:
            number += 1
            is_create = number % CREATE_EACH == 0
            measured.begin(is_create=is_create)
            status = None
            try:
                if is_create:
                    body = {"id": f"{time.time_ns()}", "pk": "made"}
                    reply = raw.post(docs, body, pk='["made"]')
                else:
                    reply = raw.get(f"{docs}/probe", pk='["probe"]')
                status = reply.status
            except (OSError, http.client.HTTPException):
                raw.close()
            measured.end(status)
            measured.pause()


def main() -> None:
    endpoint, container = sys.argv[1:]
    measured = Measurements()
    arguments = (endpoint, container, measured)
    threading.Thread(target=_measure, args=arguments, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(measured.report()._asdict()), flush=True)


class Probe:
    """The process, as the runner sees it."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def report(self) -> Latencies:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        found: dict[str, Any] = json.loads(self._child.stdout.readline())
        return Latencies(**found)


@contextmanager
def probing(endpoint: str, container: str) -> Iterator[Probe]:
    """A probe that runs until the block ends; the container has the key /pk and the item ITEM."""
    command = [sys.executable, "-m", "tests.hostile.probe", endpoint, container]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as child:
        try:
            yield Probe(child)
        finally:
            child.kill()


if __name__ == "__main__":
    main()
