"""Measures time to live: purge, reads during a purge, expired items on disk, policy changes.

Each row is a ratio of two figures from the same run, so that machines can be compared, and has a
target.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import prefill, servers
from bench.errors import BenchError
from bench.load import Sample, run_bundled, send_all
from bench.prefill import StoredItem
from bench.report import Comparison, Measurement, MeasurementTable, TargetRatio
from bench.servers import Server
from bench.signing import Request, Target
from bench.storage import ServerData, Storage
from perseid.commands.admin_client import AdminClient
from perseid.config import WELL_KNOWN_KEY

# Three containers: many expired and some live items, the same live items only, and ten items.
_LARGE: Final = "large"
_PLAIN: Final = "plain"
_SMALL: Final = "small"

LIVE_ITEMS: Final = 10_000
CONNECTIONS: Final = 8
_SMALL_COUNT: Final = 10
_CHANGES: Final = 20
_ROUNDS: Final = 7  # in a run of queries: short turns, so that both get the same noise
_TIMEOUT: Final = 60.0

# Ages in seconds: old items are between one and two million seconds old, and live under the first
# policy. The last policy expires all of them and no others.
_OLDEST: Final = 2_000_000
_SPREAD: Final = 1_000_000
_LONG_TTL: Final = 3_000_000
_SHORT_TTL: Final = 500_000

_QUERIES: Final = {
    "SELECT * FROM c WHERE c.n = 4242": lambda rows: [each["id"] for each in rows] == [_id(4242)],
    "SELECT VALUE COUNT(1) FROM c": lambda rows: rows == [LIVE_ITEMS],
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which rows, on how many items, for how long."""

    rows: Sequence[str]
    items: int
    seconds: int
    repeat: int

    @property
    def to_purge(self) -> int:
        return self.items // 5

    def conditions(self) -> dict[str, object]:
        return {
            "items": f"{self.items:,}",
            "live items": f"{LIVE_ITEMS:,}",
            "items to purge": f"{self.to_purge:,}",
            "runs": self.repeat,
            "connections": CONNECTIONS,
            "seconds": self.seconds,
            "policy changes": _CHANGES,
        }


class Outcome(NamedTuple):
    parts: list[Comparison]
    note: str | None = None


@dataclass(slots=True)
class Bench:
    """The server that the rows share."""

    plan: Plan
    scratch: Path
    storage: Storage
    log: Callable[[str], None]
    stack: ExitStack
    _large_server: LargeServer | None = None

    def large_server(self) -> LargeServer:
        """The large server; the first row that needs it loads it."""
        if self._large_server is None:
            server_data = self.storage.make(self.scratch / "large")
            self.log(f"loading {self.plan.items:,} items")
            asyncio.run(
                _prefill_large_server(server_data, self.storage, self.plan.items, int(time.time()))
            )
            server = self.stack.enter_context(servers.perseid(server_data, "--no-sweeper"))
            self._large_server = LargeServer(server, _admin(server))
        return self._large_server


class Row(NamedTuple):
    """A row of the table: its target, and how it is measured."""

    name: str
    target_ratio: TargetRatio
    measure: Callable[[Bench], Outcome]


def measure(
    plan: Plan, scratch: Path, storage: Storage, log: Callable[[str], None]
) -> MeasurementTable:
    """Measures the rows of the plan, in the order of ROWS."""
    with ExitStack() as stack:
        bench = Bench(plan, scratch, storage, log, stack)
        measurements = [_measured(row, bench) for row in ROWS if row.name in plan.rows]
    return MeasurementTable("Time to live", plan.conditions(), measurements)


def _measured(row: Row, bench: Bench) -> Measurement:
    try:
        parts, note = row.measure(bench)
    except BenchError as exc:
        raise BenchError(f"{row.name}: {exc}") from exc
    measurement = Measurement(row.name, row.target_ratio, parts, note)
    bench.log(f"{row.name}: {measurement.verdict}")
    return measurement


# Purge rate


def _purge_rate(bench: Bench) -> Outcome:
    """The sweeper compared with one DELETE that a database administrator would write."""
    expired_count, now = bench.plan.to_purge, int(time.time())
    storage = bench.storage
    original = storage.make(bench.scratch / "expired")
    bench.log(f"loading {expired_count:,} items to purge")
    container = asyncio.run(_prefill_expired(original, storage, expired_count, now))
    drained, deleted, vacuumed = [], [], []
    for run in range(bench.plan.repeat):
        with storage.copy_of(original, bench.scratch / f"drain{run}") as server_data:
            drained.append(expired_count / _drain_seconds(server_data, expired_count))
        with storage.copy_of(original, bench.scratch / f"delete{run}") as server_data:
            plain = storage.delete(server_data, container, _SHORT_TTL, now)
            if plain.removed != expired_count:
                raise BenchError(
                    f"the plain DELETE removed {plain.removed:,} of {expired_count:,} items"
                )
            deleted.append(expired_count / plain.seconds)
            vacuumed.append(expired_count / (plain.seconds + plain.vacuum_seconds))
    note = (
        "A drain also frees disk space; a DELETE and a vacuum remove"
        f" {Comparison('', drained, vacuumed).baseline:,.0f} items/s."
    )
    return Outcome([Comparison("items/s: one DELETE", drained, deleted)], note)


async def _prefill_expired(
    server_data: ServerData, storage: Storage, expired_count: int, now: int
) -> int:
    """Expired items with and without a `ttl` and live items; returns the container's number."""

    def expired_item(number: int) -> StoredItem:
        expired_at = now - _SHORT_TTL - expired_count + number
        return StoredItem("d", number, expired_at - _SHORT_TTL, None if number % 2 else _SHORT_TTL)

    async with prefill.new_account(server_data, storage) as account:
        container = await prefill.create(account, _LARGE, _SHORT_TTL)
        await prefill.fill(account, container, expired_count, expired_item)
        await prefill.fill(
            account, container, LIVE_ITEMS, lambda number: StoredItem("l", number, now)
        )
        return container.number


def _drain_seconds(server_data: ServerData, expired_count: int) -> float:
    with servers.perseid(server_data, "--no-sweeper") as server:
        admin = _admin(server)
        started = time.perf_counter()
        purged = admin.post("ttl", prefill.DATABASE, _LARGE, "drain").value["purged"]
        took = time.perf_counter() - started
    if purged != expired_count:
        raise BenchError(f"{purged:,} of {expired_count:,} expired items were purged")
    return took


# The large server


@dataclass(slots=True)
class LargeServer:
    """A server with many old items and a paused sweeper; `expire_old_items` expires them."""

    server: Server
    admin: AdminClient
    has_expired: bool = False

    @property
    def target(self) -> Target:
        return Target(self.server.port, formatdate(usegmt=True))

    def change(self, name: str, default_ttl: int) -> Sample:
        """Changes a policy; returns when the audit log has the counts of the change."""
        body = json.dumps(prefill.definition(name, default_ttl)).encode()
        request = self.target.request("PUT", _path(name), body)
        sample = send_all(self.server.port, [request], 200)
        deadline = time.monotonic() + _TIMEOUT
        while self._last_event(name) != "counts":
            if time.monotonic() > deadline:
                raise BenchError(
                    f"the counts of a change of {name} were missing after {_TIMEOUT:.0f} s"
                )
            time.sleep(0.01)
        return sample

    def _last_event(self, name: str) -> str:
        entries = self.admin.get("ttl", prefill.DATABASE, name, "audit").value["entries"]
        return entries[-1]["event"] if entries else ""

    def expire_old_items(self) -> None:
        """Sets a policy under which all old items have expired."""
        if not self.has_expired:
            for name in (_LARGE, _PLAIN):
                self.change(name, _SHORT_TTL)
            self.has_expired = True

    def purged(self) -> int:
        count: int = self.admin.get("sweeper").value["purgedItems"]
        return count


async def _prefill_large_server(
    server_data: ServerData, storage: Storage, items: int, now: int
) -> None:
    def old_item(count: int) -> Callable[[int], StoredItem]:
        return lambda number: StoredItem("d", number, now - _OLDEST + number * _SPREAD // count)

    async with prefill.new_account(server_data, storage) as account:
        for name, old_count, live_count in (
            (_LARGE, items, LIVE_ITEMS),
            (_PLAIN, 0, LIVE_ITEMS),
            (_SMALL, _SMALL_COUNT, 0),
        ):
            container = await prefill.create(account, name, _LONG_TTL)
            await prefill.fill(account, container, old_count, old_item(old_count))
            await prefill.fill(
                account, container, live_count, lambda number: StoredItem("l", number, now)
            )


# Policy change


def _policy_change(bench: Bench) -> Outcome:
    """Each change expires one item in forty, in the large container and in the small one."""
    large_server = bench.large_server()
    latencies: dict[str, list[float]] = {_LARGE: [], _SMALL: []}
    for number in range(1, _CHANGES + 1):
        default_ttl = _OLDEST - number * _SPREAD // (2 * _CHANGES)
        for name in _alternating_order(number, _LARGE, _SMALL):
            latencies[name].append(large_server.change(name, default_ttl).p50_ms)
    part = Comparison(f"ms: on {_SMALL_COUNT} items", latencies[_LARGE], latencies[_SMALL])
    return Outcome([part])


# Queries over expired items


def _queries(bench: Bench) -> Outcome:
    """The same live items with expired items before them, and without."""
    large_server = bench.large_server()
    large_server.expire_old_items()
    for text, is_right in _QUERIES.items():
        for name in (_LARGE, _PLAIN):
            _check_query(large_server, name, text, is_right)

    def requests_of(text: str) -> Callable[[str, int], list[bytes]]:
        return lambda name, _turn: [_query(large_server, name, text)]

    parts = [_alternated(bench, f"ms: {text}", requests_of(text)) for text in _QUERIES]
    shuffled, rounds = _shuffled(), bench.plan.repeat * _ROUNDS
    # Each item once: the second read of an item may be answered from the cache.
    parts.append(
        _alternated(
            bench,
            "ms: point read",
            lambda name, round_number: [
                _read(large_server, name, n) for n in shuffled[round_number::rounds]
            ],
        )
    )
    return Outcome(parts)


def _alternated(bench: Bench, name: str, requests: Callable[[str, int], list[bytes]]) -> Comparison:
    """The median latency of each turn, on the large container and on the plain one."""
    large_server = bench.large_server()
    latencies: dict[str, list[float]] = {_LARGE: [], _PLAIN: []}
    for round_number in range(bench.plan.repeat * _ROUNDS):
        for container in _alternating_order(round_number, _LARGE, _PLAIN):
            sample = send_all(large_server.server.port, requests(container, round_number), 200)
            latencies[container].append(sample.p50_ms)
    return Comparison(name, latencies[_LARGE], latencies[_PLAIN])


def _check_query(
    large_server: LargeServer, name: str, text: str, is_right: Callable[[list[Any]], bool]
) -> None:
    """Figures for a wrong or partial answer would be meaningless."""
    with socket.create_connection(("127.0.0.1", large_server.server.port), _TIMEOUT) as connection:
        connection.sendall(_query(large_server, name, text))
        with http.client.HTTPResponse(connection) as response:
            response.begin()
            body = json.loads(response.read())
            has_more = response.getheader("x-ms-continuation") is not None
    if response.status != 200 or has_more or not is_right(body["Documents"]):
        raise BenchError(f"'{text}' on {name} was answered with {str(body)[:300]}")


def _query(large_server: LargeServer, name: str, text: str) -> bytes:
    headers = {
        "x-ms-documentdb-isquery": "true",
        "x-ms-documentdb-query-enablecrosspartition": "true",
        "x-perseid-direct": "true",
    }
    body = json.dumps({"query": text}).encode()
    request = large_server.target.request("POST", f"{_path(name)}/docs", body, headers)
    return request.replace(
        b"content-type: application/json", b"content-type: application/query+json"
    )


# Reads during a purge


def _reads_during_purge(bench: Bench) -> Outcome:
    """Runs with a working sweeper and with a paused one take turns."""
    large_server, plan = bench.large_server(), bench.plan
    large_server.expire_old_items()

    def reads() -> list[Request]:
        return [Request(_read(large_server, _LARGE, number)) for number in _shuffled()]

    def p99_ms(requests: list[Request]) -> float:
        # Not wrk: it adds the requests that it could not send during a stall, so that one stall
        # of the machine decides its p99.
        return run_bundled(
            large_server.server.port, requests, 200, CONNECTIONS, plan.seconds
        ).p99_ms

    # Each item once, so that every run starts with the same cache.
    send_all(large_server.server.port, [request.head for request in reads()], 200, CONNECTIONS)
    idle, busy = [], []
    for _ in range(plan.repeat):
        requests = reads()  # signed again, and before the sweeper starts
        baseline = p99_ms(requests)
        before = large_server.purged()
        large_server.admin.post("sweeper", "resume")
        p99_during = p99_ms(requests)
        large_server.admin.post("sweeper", "pause")
        purged = large_server.purged()
        if purged == before:
            raise BenchError("the sweeper purged nothing during a run")
        if purged >= plan.items:  # the sweeper may have been idle for a part of the run
            break
        bench.log(f"{purged - before:,} items were purged during a run")
        idle.append(baseline)
        busy.append(p99_during)
    parts = [Comparison("p99 ms: sweeper paused", busy, idle)] if idle else []
    note = None if parts else "The purge ended before the run; increase --items."
    return Outcome(parts, note)


# Shared helpers


def _admin(server: Server) -> AdminClient:
    return AdminClient(f"http://127.0.0.1:{server.port}/", WELL_KNOWN_KEY)


def _path(name: str) -> str:
    return f"/dbs/{prefill.DATABASE}/colls/{name}"


def _id(number: int) -> str:
    return StoredItem("l", number, 0).id


def _read(large_server: LargeServer, name: str, number: int) -> bytes:
    item = StoredItem("l", number, 0)
    headers = {"x-ms-documentdb-partitionkey": json.dumps([item.pk])}
    return large_server.target.request("GET", f"{_path(name)}/docs/{item.id}", None, headers)


def _shuffled() -> list[int]:
    return random.Random(LIVE_ITEMS).sample(range(LIVE_ITEMS), LIVE_ITEMS)


def _alternating_order(round_number: int, one: str, other: str) -> tuple[str, str]:
    """The order alternates, because the second run finds a warmer machine."""
    return (one, other) if round_number % 2 else (other, one)


# In this order: a policy change needs live old items, and the purge removes all of them.
ROWS: Final = (
    Row("purge rate", TargetRatio(0.5, is_minimum=True), _purge_rate),
    Row("policy change", TargetRatio(2.0), _policy_change),
    Row("queries over expired items", TargetRatio(1.1), _queries),
    Row("reads during a purge", TargetRatio(1.5), _reads_during_purge),
)
