"""Runs that also measure the CPU time of servers, database and load generator, per request.

It varies less than the rate on a shared machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]

from bench.load import Driver, Sample, run_spread
from bench.pairs import alternate
from bench.servers import Server
from bench.signing import Request, Target


class Operation(NamedTuple):
    """One row of a table."""

    name: str
    status: int
    requests: Callable[[Target, int], list[Request]]
    connections: int = 32


class Run(NamedTuple):
    rate: float
    cpu_ms: float  # of the server processes and their workers, for each request
    database_cpu_ms: float  # of PostgreSQL; 0 without it
    client_cpu_ms: float  # of the load generator
    busy_percent: float  # of all cores, by any process of the machine


class ComparedRuns(NamedTuple):
    """Runs of one operation on two sides that took turns."""

    operation: Operation
    baseline_runs: Sequence[Run]  # empty if there is no baseline
    runs: Sequence[Run]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.operation.name,
            "connections": self.operation.connections,
            "baseline": _runs_as_json(self.baseline_runs) if self.baseline_runs else None,
            "measured": _runs_as_json(self.runs),
        }


def medians(runs: Sequence[Run]) -> Run:
    """The median of each figure."""
    return Run(*map(median, zip(*runs, strict=True)))


def compare(
    operation: Operation, baseline: Callable[[], Run] | None, ours: Callable[[], Run], pairs: int
) -> ComparedRuns:
    """Both sides in turns, after a run of each that builds indexes and fills caches."""
    ours()
    if baseline is None:
        return ComparedRuns(operation, [], [ours() for _ in range(pairs)])
    baseline()
    baseline_runs, runs = zip(*alternate(baseline, ours, pairs), strict=True)
    return ComparedRuns(operation, baseline_runs, runs)


def _runs_as_json(runs: Sequence[Run]) -> dict[str, Any]:
    return {"median": medians(runs)._asdict(), "runs": [each._asdict() for each in runs]}


def run(
    operation: Operation,
    server: Server,
    driver: Driver,
    documents: int,
    seconds: float,
    postmaster: int | None = None,
) -> Run:
    """Sends the requests of an operation for a while."""
    send = partial(driver, server.port)
    return _run(operation, [server], send, documents, seconds, postmaster)


def run_on_all(
    operation: Operation,
    servers: Sequence[Server],
    documents: int,
    seconds: float,
    postmaster: int,
) -> Run:
    """Likewise, with connections to each of the servers; the figures are those of all together."""
    send = partial(run_spread, [each.port for each in servers])
    return _run(operation, servers, send, documents, seconds, postmaster)


def _run(
    operation: Operation,
    servers: Sequence[Server],
    send: Callable[[Sequence[Request], int, int, float], Sample],
    documents: int,
    seconds: float,
    postmaster: int | None,
) -> Run:
    requests = operation.requests(target_of(servers[0]), documents)
    before = _server_seconds(servers), _database_seconds(postmaster)
    psutil.cpu_percent()  # the next call measures from here
    # Innermost, since looking at the other processes takes CPU time, too.
    client_before = _own_seconds()
    sample = send(requests, operation.status, operation.connections, seconds)
    by_client = _own_seconds() - client_before
    busy_percent = psutil.cpu_percent()
    after = _server_seconds(servers), _database_seconds(postmaster)
    for server in servers:
        server.wait_until_idle()
    used = (after[0] - before[0], after[1] - before[1], by_client)
    by_servers, by_database, by_client = (each * 1000 / sample.requests for each in used)
    return Run(sample.rate, by_servers, by_database, by_client, busy_percent)


def target_of(server: Server) -> Target:
    return Target(server.port, formatdate(usegmt=True))


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, including those that have ended."""
    process = psutil.Process(pid)
    seconds = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _server_seconds(servers: Sequence[Server]) -> float:
    return sum(cpu_seconds(each.pid) for each in servers)


def _database_seconds(postmaster: int | None) -> float:
    return 0.0 if postmaster is None else cpu_seconds(postmaster)


def _own_seconds() -> float:
    """CPU time of this process and of the load generators that it has started and that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
