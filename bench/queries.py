"""What queries cost: beside a peer, beside our own point reads, and as containers grow.

Each row is a ratio of two figures taken side by side. The peer is the npm package, or Perseid on
another database. The package needs seconds for a query over a
hundred thousand documents, so it is asked once, and given up on after a minute.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from bench import servers, stocking
from bench.errors import BenchError
from bench.homes import Home, Homes
from bench.load import Driver, send_all
from bench.report import Finding, Findings, Limit, Part
from bench.servers import Server
from bench.signing import Request, Target
from bench.workload import (
    PRELOADED,
    document,
    fresh_creates,
    id_of,
    point_reads,
    preload,
    setup,
)
from perseid import charges, ids, partition
from perseid.documents import seal
from perseid.model import LSN_SHIFT, item_number
from perseid.model import Row as ItemRow
from perseid.service import containers
from perseid.service.account import Account
from perseid.store.protocol import Decision, Put, View

_CONNECTIONS: Final = 32
_PATIENCE: Final = 60.0
_VARIANTS: Final = 500
_LONG: Final = 0.02  # seconds
_DRAINED: Final = 10_000
_BATCH: Final = 1 << LSN_SHIFT
_PARTITION_KEY: Final = {"paths": ["/pk"], "kind": "Hash", "version": 2}
_HEADERS: Final = {
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
}


class Query(NamedTuple):
    """A query of the table; `values` gives the parameters of its variants."""

    name: str
    text: str
    least_ratio: float  # to the package
    values: Callable[[int], dict[str, Any]] = lambda _: {}
    is_drained: bool = False


def _score(number: int) -> dict[str, Any]:
    low = number * 97 % 99_000 / 1000
    return {"@low": low, "@high": low + 0.02}


_CITIES: Final = ("Lisbon", "Oslo", "Turin", "Ghent", "Porto")
EQUALITY: Final = Query(
    "equality",
    "SELECT * FROM c WHERE c.email = @email",
    100,
    lambda number: {"@email": f"customer{number * 7919 % 100_000}@example.com"},
)
RANGE: Final = Query(
    "range", "SELECT * FROM c WHERE c.score > @low AND c.score <= @high", 100, _score
)
ORDERED: Final = Query("ORDER BY, 10 rows", "SELECT TOP 10 * FROM c ORDER BY c.score DESC", 100)
QUERIES: Final = (
    EQUALITY,
    RANGE,
    ORDERED,
    Query(
        "COUNT with a filter",
        "SELECT VALUE COUNT(1) FROM c WHERE c.name = @name",
        100,
        lambda number: {"@name": f"customer {number * 7919 % 100_000}"},
    ),
    Query("GROUP BY", "SELECT c.address.city, COUNT(1) AS n FROM c GROUP BY c.address.city", 1),
    Query("JOIN", "SELECT c.id, o.sku FROM c JOIN o IN c.orders WHERE o.count > 8", 1),
    Query("page drain", "SELECT * FROM c WHERE c.active = true", 1, is_drained=True),
    Query(
        "function that is not pushed",
        "SELECT * FROM c WHERE LOWER(c.note) = @note",
        1,
        lambda number: {"@note": f"none {number}"},
    ),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which rows, on how many documents, for how long."""

    rows: Sequence[str]
    documents: int
    many: int
    seconds: int
    repeat: int

    def conditions(self) -> dict[str, object]:
        return {
            "documents": f"{self.documents:,}",
            "grown to": f"{self.many:,}",
            "runs": self.repeat,
            "connections": _CONNECTIONS,
            "seconds": self.seconds,
            "patience with a package, seconds": int(_PATIENCE),
        }


@dataclass(slots=True)
class Bench:
    """What the rows share: servers that are started when a row first needs them."""

    plan: Plan
    scratch: Path
    homes: Homes
    log: Callable[[str], None]
    driver: Driver
    package: Path | None
    others: Homes | None  # where the peer is at home, if it is one of ours
    stack: ExitStack
    _stocked: dict[int, Server]
    _peer: Server | None = None
    _peer_life: ExitStack = field(default_factory=ExitStack)

    def perseid(self, documents: int) -> Server:
        if documents not in self._stocked:
            self._stocked[documents] = self._started(self.homes, documents, "queries")
        return self._stocked[documents]

    def _started(self, homes: Homes, documents: int, name: str) -> Server:
        home = homes.make(self.scratch / f"{name}{documents}")
        self.log(f"{home.server}: loading {documents:,} documents")
        asyncio.run(_stock(home, homes, documents))
        return self.stack.enter_context(servers.perseid(home))

    def peer(self) -> Server | None:
        if self._peer is None and self.others is not None:
            self._peer = self._started(self.others, self.plan.documents, "beside")
        if self._peer is None and self.package is not None:
            self.stack.callback(self.end_peer)
            server = self._peer_life.enter_context(
                servers.peer(self.package, self.scratch / "peerq")
            )
            target = _target(server)
            self.log(f"loading {self.plan.documents:,} documents into {server.name}")
            send_all(server.port, setup(target), 201)
            for first in range(0, self.plan.documents, 10_000):  # signatures grow old
                numbers = range(first, min(first + 10_000, self.plan.documents))
                send_all(server.port, preload(_target(server), numbers), 201, 16)
            self._peer = server
        return self._peer

    def end_peer(self) -> None:
        """Whoever asks for it again gets a new one: it may be at work on something for hours."""
        self._peer_life.close()
        self._peer = None


class Row(NamedTuple):
    name: str
    limit: Limit  # as far as it is beside a peer, that is the package
    measure: Callable[[Bench], tuple[list[Part], str | None]]
    is_beside_peer: bool = False


def measure(
    plan: Plan,
    scratch: Path,
    homes: Homes,
    log: Callable[[str], None],
    driver: Driver,
    peer: Path | Homes | None,
) -> Findings:
    """The findings of the plan's rows, in the order of ROWS."""
    with ExitStack() as stack:
        package, others = (peer, None) if isinstance(peer, Path | None) else (None, peer)
        bench = Bench(plan, scratch, homes, log, driver, package, others, stack, {})
        findings = []
        for row in ROWS:
            if row.name in plan.rows:
                try:
                    parts, note = row.measure(bench)
                except BenchError as exc:
                    raise BenchError(f"{row.name}: {exc}") from exc
                limit = None if others is not None and row.is_beside_peer else row.limit
                findings.append(Finding(row.name, limit, parts, note))
                log(f"{row.name}: {findings[-1].verdict}")
    return Findings("Queries", plan.conditions(), findings)


# The rows


def _first_use(bench: Bench) -> tuple[list[Part], str | None]:
    """The first query over a path makes its index; beside a query that cannot have one."""
    server = bench.perseid(bench.plan.documents)
    unpushed = QUERIES[-1]
    firsts, scans = [], []
    for query in (EQUALITY, RANGE, QUERIES[3]):
        firsts.append(_seconds(server, _request(_target(server), query, 0)))
        scans.append(_seconds(server, _request(_target(server), unpushed, 0)))
    note = "a figure, not a limit: what the first query over a path costs, once"
    return [Part("seconds: a query that scans", firsts, scans)], note


def _beside_peer(query: Query) -> Callable[[Bench], tuple[list[Part], str | None]]:
    def measured(bench: Bench) -> tuple[list[Part], str | None]:
        ours = bench.perseid(bench.plan.documents)
        runs = _rates(bench, ours, query)
        peer = bench.peer()
        if peer is None:
            return [], "there is no peer to compare with"
        if bench.others is not None:
            return [Part(f"a second: {peer.name}", runs, _rates(bench, peer, query))], None
        note = None
        try:
            if query.is_drained:
                theirs = 1 / _drain_seconds(peer, query, _PATIENCE)
            else:
                theirs = 1 / _seconds(peer, _request(_target(peer), query, 0), _PATIENCE)
        except TimeoutError:
            theirs = 1 / _PATIENCE
            note = f"the peer did not answer within {_PATIENCE:.0f} s; it counts as if it had"
            bench.end_peer()
        except BenchError as exc:
            return [], f"the peer refuses it ({exc}); Perseid does {runs[0]:,.1f} a second"
        return [Part("a second: the peer", runs, [theirs] * len(runs))], note

    return measured


def _beside_point_reads(bench: Bench) -> tuple[list[Part], str | None]:
    server = bench.perseid(bench.plan.documents)
    reads: dict[str, list[float]] = {EQUALITY.name: [], ORDERED.name: []}
    found: dict[str, list[float]] = {EQUALITY.name: [], ORDERED.name: []}
    for _ in range(bench.plan.repeat):
        for query in (EQUALITY, ORDERED):
            found[query.name].append(_rate(bench, server, query))
            requests = point_reads(_target(server), min(bench.plan.documents, 20_000))
            reads[query.name].append(_driven(bench, server, requests))
    parts = [Part(f"{name}: point reads", found[name], reads[name]) for name in found]
    return parts, None


def _growth(bench: Bench) -> tuple[list[Part], str | None]:
    """How many times longer a query takes when there are more documents."""
    small, large = bench.perseid(bench.plan.documents), bench.perseid(bench.plan.many)
    parts = []
    for query in (EQUALITY, RANGE, ORDERED):
        # The same answers: a range as much narrower as there are more documents.
        scale = bench.plan.documents / bench.plan.many
        few, many = [], []
        for server in (small, large):
            _rate(bench, server, query, scale if server is large else 1)
        for _ in range(bench.plan.repeat):
            few.append(1e6 / _rate(bench, small, query))
            many.append(1e6 / _rate(bench, large, query, scale))
        parts.append(Part(f"{query.name}, µs each: in the smaller one", many, few))
    return parts, None


def _indexed_writes(bench: Bench) -> tuple[list[Part], str | None]:
    """Creates in a container with three property indexes, and in one without any."""
    indexed: list[float] = []
    plain: list[float] = []
    home = bench.homes.make(bench.scratch / "writes")
    asyncio.run(_stock(home, bench.homes, 2000, ("items", "created")))
    with servers.perseid(home) as server:
        for path in ("email", "score", "name"):
            text = f"SELECT * FROM c WHERE c.{path} = 1"
            _seconds(server, _request(_target(server), Query(path, text, 0), 0))
        for _ in range(bench.plan.repeat):
            for rates, path in ((indexed, PRELOADED), (plain, "/dbs/bench/colls/created")):
                requests = fresh_creates(_target(server), 1000, path)
                rates.append(_driven(bench, server, requests, 201))
    return [Part("creates a second: without indexes", indexed, plain)], None


ROWS: Final = (
    Row("first use of a path", Limit(10.0), _first_use),
    *(
        Row(each.name, Limit(each.least_ratio, is_least=True), _beside_peer(each), True)
        for each in QUERIES
    ),
    Row("queries beside point reads", Limit(0.4, is_least=True), _beside_point_reads),
    Row("ten times the documents", Limit(1.5), _growth),
    Row("writes with three indexes", Limit(0.7, is_least=True), _indexed_writes),
)


# Requests


def _request(target: Target, query: Query, number: int, scale: float = 1) -> bytes:
    values = query.values(number)
    if scale != 1 and "@high" in values:
        values["@high"] = values["@low"] + (values["@high"] - values["@low"]) * scale
    parameters = [{"name": name, "value": value} for name, value in values.items()]
    body = json.dumps({"query": query.text, "parameters": parameters}).encode()
    return target.request("POST", f"{PRELOADED}/docs", body, _HEADERS).replace(
        b"content-type: application/json", b"content-type: application/query+json"
    )


def _rates(bench: Bench, server: Server, query: Query) -> list[float]:
    if query.is_drained:
        return [1 / _drain_seconds(server, query) for _ in range(bench.plan.repeat)]
    return [_rate(bench, server, query) for _ in range(bench.plan.repeat)]


def _rate(bench: Bench, server: Server, query: Query, scale: float = 1) -> float:
    """Queries a second; one after the other if each takes long, for then more only wait."""
    target = _target(server)
    requests = [Request(_request(target, query, each, scale)) for each in range(_VARIANTS)]
    alone = min(_seconds(server, requests[each].head) for each in range(2))
    return 1 / alone if alone > _LONG else _driven(bench, server, requests)


def _driven(bench: Bench, server: Server, requests: Sequence[Request], status: int = 200) -> float:
    sample = bench.driver(server.port, requests, status, _CONNECTIONS, bench.plan.seconds)
    server.settle()
    return sample.rate


def _seconds(server: Server, request: bytes, patience: float = 600.0) -> float:
    """How long one request takes; BenchError if it is refused."""
    started = time.perf_counter()
    _reply(server, request, patience)
    return time.perf_counter() - started


def _drain_seconds(server: Server, query: Query, patience: float = 600.0) -> float:
    """How long it takes to read ten thousand rows page by page."""
    started = time.perf_counter()
    rows, token = 0, ""
    while rows < _DRAINED:
        extra = f"x-ms-max-item-count: 1000\r\nx-ms-continuation: {token}\r\n".encode()
        request = _request(_target(server), query, 0).replace(
            b"accept:", (extra if token else extra.split(b"\r\n")[0] + b"\r\n") + b"accept:", 1
        )
        left = patience - (time.perf_counter() - started)
        if left <= 0:
            raise TimeoutError
        response, body = _reply(server, request, left)
        rows += orjson.loads(body)["_count"]
        token = response.getheader("x-ms-continuation") or ""
        if not token:
            break
    if rows < _DRAINED:
        raise BenchError(f"there were {rows:,} rows, not {_DRAINED:,}")
    return time.perf_counter() - started


def _reply(
    server: Server, request: bytes, patience: float
) -> tuple[http.client.HTTPResponse, bytes]:
    with socket.create_connection(("127.0.0.1", server.port), patience) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = response.read()
    if response.status != 200:
        raise BenchError(f"status {response.status}")
    return response, body


def _target(server: Server) -> Target:
    return Target(server.port, formatdate(usegmt=True))


# Stock


async def _stock(home: Home, homes: Homes, count: int, names: Sequence[str] = ("items",)) -> None:
    """The documents of the other tables, written without a server."""
    async with stocking.stocked(home, homes) as account:
        for name in names:
            await _fill(account, name, count)


async def _fill(account: Account, name: str, count: int) -> None:
    now = account.clock.now()
    body = {"id": name, "partitionKey": _PARTITION_KEY}
    container = await containers.create(account, stocking.DATABASE, body, None, now)
    terms = charges.count_terms(orjson.loads(_text(0)), container.index)

    def rows(first: int, view: View) -> Iterator[Put]:
        for place, number in enumerate(range(first, min(first + _BATCH, count))):
            text = _text(number)
            pk = partition.canonical((orjson.loads(text)["pk"],))
            epk = bytes.fromhex(partition.effective_of(pk, container.key))
            item = item_number(0, view.lsn, place)
            etag = ids.make_etag(int(now), container.number << 60 | item)
            rid = ids.child_rid(container.rid, "document", item)
            sealed = seal(text, rid, container.docs_link, etag, int(now))
            yield Put(
                ItemRow(item, pk, id_of(number), epk, int(now), None, view.lsn, etag,
                     len(sealed), terms, sealed)
            )  # fmt: skip

    for first in range(0, count, _BATCH):

        def decide(view: View, first: int = first) -> Decision[None]:
            return Decision([*rows(first, view)], None)

        await account.store.write(container, 0, (), decide)


def _text(number: int) -> bytes:
    return document.__wrapped__(number, id_of(number))
