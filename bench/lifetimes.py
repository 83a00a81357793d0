"""What time to live costs: removing the dead, reading beside that, keeping them, changing policy.

Each row is a ratio of two figures taken side by side, so that it means the same on any machine,
and is held against a limit.
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

from bench import servers, stocking
from bench.errors import BenchError
from bench.homes import Home, Homes
from bench.load import Sample, run_bundled, send_all
from bench.report import Finding, Findings, Limit, Part
from bench.servers import Server
from bench.signing import Request, Target
from bench.stocking import Kept
from perseid.commands.admin_client import AdminClient
from perseid.config import WELL_KNOWN_KEY

# Three containers: the large one, the same living without the dead, and one of ten items.
_LARGE: Final = "large"
_PLAIN: Final = "plain"
_SMALL: Final = "small"

LIVING: Final = 10_000
CONNECTIONS: Final = 8
_FEW: Final = 10
_CHANGES: Final = 20
_TURNS: Final = 7  # in a run of queries: short turns, so that both meet the same weather
_PATIENCE: Final = 60.0

# Ages in seconds: the old are between one and two million, and their containers forgive three at
# first; the last policy kills all of them and none of the living.
_OLDEST: Final = 2_000_000
_SPREAD: Final = 1_000_000
_LONG: Final = 3_000_000
_SHORT: Final = 500_000

_QUERIES: Final = {
    "SELECT * FROM c WHERE c.n = 4242": lambda found: [each["id"] for each in found] == [_id(4242)],
    "SELECT VALUE COUNT(1) FROM c": lambda found: found == [LIVING],
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
            "living beside them": f"{LIVING:,}",
            "items to purge": f"{self.to_purge:,}",
            "runs": self.repeat,
            "connections": CONNECTIONS,
            "seconds": self.seconds,
            "policy changes": _CHANGES,
        }


class Outcome(NamedTuple):
    parts: list[Part]
    note: str | None = None


@dataclass(slots=True)
class Bench:
    """What the rows share."""

    plan: Plan
    scratch: Path
    homes: Homes
    log: Callable[[str], None]
    stack: ExitStack
    _crowd: Crowd | None = None

    def crowd(self) -> Crowd:
        """The large server; the first row that needs it waits for its loading."""
        if self._crowd is None:
            home = self.homes.make(self.scratch / "crowd")
            self.log(f"loading {self.plan.items:,} items")
            asyncio.run(_stock_crowd(home, self.homes, self.plan.items, int(time.time())))
            server = self.stack.enter_context(servers.perseid(home, "--no-sweeper"))
            self._crowd = Crowd(server, _admin(server))
        return self._crowd


class Row(NamedTuple):
    """A row of the table: its limit, and how it is measured."""

    name: str
    limit: Limit
    measure: Callable[[Bench], Outcome]


def measure(plan: Plan, scratch: Path, homes: Homes, log: Callable[[str], None]) -> Findings:
    """The findings of the plan's rows, in the order of ROWS."""
    with ExitStack() as stack:
        bench = Bench(plan, scratch, homes, log, stack)
        findings = [_measured(row, bench) for row in ROWS if row.name in plan.rows]
    return Findings("Time to live", plan.conditions(), findings)


def _measured(row: Row, bench: Bench) -> Finding:
    try:
        parts, note = row.measure(bench)
    except BenchError as exc:
        raise BenchError(f"{row.name}: {exc}") from exc
    finding = Finding(row.name, row.limit, parts, note)
    bench.log(f"{row.name}: {finding.verdict}")
    return finding


# Purge rate


def _purge_rate(bench: Bench) -> Outcome:
    """The sweeper beside one DELETE that a database administrator would write."""
    dead, now = bench.plan.to_purge, int(time.time())
    homes = bench.homes
    origin = homes.make(bench.scratch / "dead")
    bench.log(f"loading {dead:,} items to purge")
    container = asyncio.run(_stock_dead(origin, homes, dead, now))
    drained, deleted, vacuumed = [], [], []
    for run in range(bench.plan.repeat):
        with homes.copied(origin, bench.scratch / f"drain{run}") as home:
            drained.append(dead / _drain_seconds(home, dead))
        with homes.copied(origin, bench.scratch / f"delete{run}") as home:
            plain = homes.delete(home, container, _SHORT, now)
            if plain.removed != dead:
                raise BenchError(f"the plain DELETE removed {plain.removed:,} of {dead:,} items")
            deleted.append(dead / plain.seconds)
            vacuumed.append(dead / (plain.seconds + plain.tidying))
    note = (
        "A drain also gives the space back; a DELETE and a vacuum remove"
        f" {Part('', drained, vacuumed).beside:,.0f} items/s."
    )
    return Outcome([Part("items/s: one DELETE", drained, deleted)], note)


async def _stock_dead(home: Home, homes: Homes, dead: int, now: int) -> int:
    """Dead items of both kinds among living ones; the number of their container."""

    def buried(number: int) -> Kept:
        died = now - _SHORT - dead + number
        return Kept("d", number, died - _SHORT, None if number % 2 else _SHORT)

    async with stocking.stocked(home, homes) as account:
        container = await stocking.create(account, _LARGE, _SHORT)
        await stocking.fill(account, container, dead, buried)
        await stocking.fill(account, container, LIVING, lambda number: Kept("l", number, now))
        return container.number


def _drain_seconds(home: Home, dead: int) -> float:
    with servers.perseid(home, "--no-sweeper") as server:
        admin = _admin(server)
        started = time.perf_counter()
        purged = admin.post("ttl", stocking.DATABASE, _LARGE, "drain").value["purged"]
        took = time.perf_counter() - started
    if purged != dead:
        raise BenchError(f"{purged:,} of {dead:,} dead items were removed")
    return took


# The large server


@dataclass(slots=True)
class Crowd:
    """A server with many old items, its sweeper paused; they live until `bury` is called."""

    server: Server
    admin: AdminClient
    is_buried: bool = False

    @property
    def target(self) -> Target:
        return Target(self.server.port, formatdate(usegmt=True))

    def change(self, name: str, default_ttl: int) -> Sample:
        """Replaces a container; returns when the change is also counted for the audit log."""
        body = json.dumps(stocking.definition(name, default_ttl)).encode()
        request = self.target.request("PUT", _path(name), body)
        sample = send_all(self.server.port, [request], 200)
        deadline = time.monotonic() + _PATIENCE
        while self._last_event(name) != "figures":
            if time.monotonic() > deadline:
                raise BenchError(f"a change of {name} was not counted in {_PATIENCE:.0f} s")
            time.sleep(0.01)
        return sample

    def _last_event(self, name: str) -> str:
        entries = self.admin.get("ttl", stocking.DATABASE, name, "audit").value["entries"]
        return entries[-1]["event"] if entries else ""

    def bury(self) -> None:
        """Makes the policy so short that all the old are dead."""
        if not self.is_buried:
            for name in (_LARGE, _PLAIN):
                self.change(name, _SHORT)
            self.is_buried = True

    def purged(self) -> int:
        count: int = self.admin.get("sweeper").value["purgedItems"]
        return count


async def _stock_crowd(home: Home, homes: Homes, items: int, now: int) -> None:
    def old(count: int) -> Callable[[int], Kept]:
        return lambda number: Kept("d", number, now - _OLDEST + number * _SPREAD // count)

    async with stocking.stocked(home, homes) as account:
        for name, olds, living in ((_LARGE, items, LIVING), (_PLAIN, 0, LIVING), (_SMALL, _FEW, 0)):
            container = await stocking.create(account, name, _LONG)
            await stocking.fill(account, container, olds, old(olds))
            await stocking.fill(account, container, living, lambda number: Kept("l", number, now))


# Policy change


def _policy_change(bench: Bench) -> Outcome:
    """Each change kills one in forty, in the large container and in the one of ten items."""
    crowd = bench.crowd()
    taken: dict[str, list[float]] = {_LARGE: [], _SMALL: []}
    for number in range(1, _CHANGES + 1):
        default_ttl = _OLDEST - number * _SPREAD // (2 * _CHANGES)
        for name in _in_turn(number, _LARGE, _SMALL):
            taken[name].append(crowd.change(name, default_ttl).p50_ms)
    part = Part(f"ms: on {_FEW} items", taken[_LARGE], taken[_SMALL])
    return Outcome([part])


# Queries over the dead


def _queries(bench: Bench) -> Outcome:
    """The same living with the dead before them, and without."""
    crowd = bench.crowd()
    crowd.bury()
    for text, is_right in _QUERIES.items():
        for name in (_LARGE, _PLAIN):
            _check_query(crowd, name, text, is_right)

    def asked(text: str) -> Callable[[str, int], list[bytes]]:
        return lambda name, _turn: [_query(crowd, name, text)]

    parts = [_alternated(bench, f"ms: {text}", asked(text)) for text in _QUERIES]
    shuffled, turns = _shuffled(), bench.plan.repeat * _TURNS
    # Each item once: the second read of an item may be answered without a look at the tables.
    parts.append(
        _alternated(
            bench,
            "ms: point read",
            lambda name, turn: [_read(crowd, name, n) for n in shuffled[turn::turns]],
        )
    )
    return Outcome(parts)


def _alternated(bench: Bench, name: str, requests: Callable[[str, int], list[bytes]]) -> Part:
    """The median latency of each turn, on the large container and on the plain one."""
    crowd = bench.crowd()
    taken: dict[str, list[float]] = {_LARGE: [], _PLAIN: []}
    for turn in range(bench.plan.repeat * _TURNS):
        for container in _in_turn(turn, _LARGE, _PLAIN):
            sample = send_all(crowd.server.port, requests(container, turn), 200)
            taken[container].append(sample.p50_ms)
    return Part(name, taken[_LARGE], taken[_PLAIN])


def _check_query(crowd: Crowd, name: str, text: str, is_right: Callable[[list[Any]], bool]) -> None:
    """A figure for a wrong or a partial answer would be worthless."""
    with socket.create_connection(("127.0.0.1", crowd.server.port), _PATIENCE) as connection:
        connection.sendall(_query(crowd, name, text))
        with http.client.HTTPResponse(connection) as response:
            response.begin()
            body = json.loads(response.read())
            has_more = response.getheader("x-ms-continuation") is not None
    if response.status != 200 or has_more or not is_right(body["Documents"]):
        raise BenchError(f"'{text}' on {name} was answered with {str(body)[:300]}")


def _query(crowd: Crowd, name: str, text: str) -> bytes:
    headers = {
        "x-ms-documentdb-isquery": "true",
        "x-ms-documentdb-query-enablecrosspartition": "true",
    }
    body = json.dumps({"query": text}).encode()
    request = crowd.target.request("POST", f"{_path(name)}/docs", body, headers)
    return request.replace(
        b"content-type: application/json", b"content-type: application/query+json"
    )


# Reads during a purge


def _reads_during_purge(bench: Bench) -> Outcome:
    """Runs with the sweeper at work and runs with it paused take turns."""
    crowd, plan = bench.crowd(), bench.plan
    crowd.bury()

    def reads() -> list[Request]:
        return [Request(_read(crowd, _LARGE, number)) for number in _shuffled()]

    def p99_ms(requests: list[Request]) -> float:
        # Not wrk: it makes up the requests that a stall kept from being sent, so that one stall of
        # the machine decides its p99.
        return run_bundled(crowd.server.port, requests, 200, CONNECTIONS, plan.seconds).p99_ms

    # Each item once, so that every run finds the server's cache in the same state.
    send_all(crowd.server.port, [request.head for request in reads()], 200, CONNECTIONS)
    idle, busy = [], []
    for _ in range(plan.repeat):
        requests = reads()  # signed anew, and before the sweeper has the server to itself
        beside = p99_ms(requests)
        before = crowd.purged()
        crowd.admin.post("sweeper", "resume")
        during = p99_ms(requests)
        crowd.admin.post("sweeper", "pause")
        purged = crowd.purged()
        if purged == before:
            raise BenchError("the sweeper removed nothing during a run")
        if purged >= plan.items:  # it may have been idle for a part of the run
            break
        bench.log(f"{purged - before:,} items were removed during a run")
        idle.append(beside)
        busy.append(during)
    parts = [Part("p99 ms: sweeper paused", busy, idle)] if idle else []
    note = None if parts else "The purge ended before a run did; give more --items."
    return Outcome(parts, note)


# What they share


def _admin(server: Server) -> AdminClient:
    return AdminClient(f"http://127.0.0.1:{server.port}/", WELL_KNOWN_KEY)


def _path(name: str) -> str:
    return f"/dbs/{stocking.DATABASE}/colls/{name}"


def _id(number: int) -> str:
    return Kept("l", number, 0).id


def _read(crowd: Crowd, name: str, number: int) -> bytes:
    item = Kept("l", number, 0)
    headers = {"x-ms-documentdb-partitionkey": json.dumps([item.pk])}
    return crowd.target.request("GET", f"{_path(name)}/docs/{item.id}", None, headers)


def _shuffled() -> list[int]:
    return random.Random(LIVING).sample(range(LIVING), LIVING)


def _in_turn(turn: int, one: str, other: str) -> tuple[str, str]:
    """Neither is always the first: whoever comes second finds a warmer machine."""
    return (one, other) if turn % 2 else (other, one)


# In this order: a policy change wants the old alive, and a purge ends with none of them left.
ROWS: Final = (
    Row("purge rate", Limit(0.5, is_least=True), _purge_rate),
    Row("policy change", Limit(2.0), _policy_change),
    Row("queries over the dead", Limit(1.1), _queries),
    Row("reads during a purge", Limit(1.5), _reads_during_purge),
)
