"""Measures queries: against a peer, against our own point reads, and as containers grow.

Each row is a ratio of two figures from the same run. The peer is the npm package, or Perseid on
another database. The package needs seconds for a query over a hundred thousand documents, so each
query is sent to it once, with a time limit of a minute.
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

from bench import prefill, servers
from bench.errors import BenchError
from bench.load import Driver, send_all
from bench.report import Comparison, Measurement, MeasurementTable, TargetRatio
from bench.servers import Server
from bench.signing import Request, Target
from bench.storage import ServerData, Storage
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
from perseid.service.account import Account
from perseid.service.resources import containers
from perseid.store.types import Decision, Put, View

_CONNECTIONS: Final = 32
_TIMEOUT: Final = 60.0
_VARIANTS: Final = 500
_SLOW_SECONDS: Final = 0.02
_DRAINED_ROWS: Final = 10_000
_BATCH: Final = 1 << LSN_SHIFT
_PARTITION_KEY: Final = {"paths": ["/pk"], "kind": "Hash", "version": 2}
_HEADERS: Final = {
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
    "x-perseid-direct": "true",  # the service leaves some of them to its clients
}


class Query(NamedTuple):
    """A query of the table; `values` gives the parameters of its variants."""

    name: str
    text: str
    min_ratio: float  # compared with the npm package
    values: Callable[[int], dict[str, Any]] = lambda _: {}
    reads_all_pages: bool = False


def _score(number: int) -> dict[str, Any]:
    low = number * 97 % 99_000 / 1000
    return {"@low": low, "@high": low + 0.02}


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
GROUPED: Final = Query(
    "GROUP BY", "SELECT c.address.city, COUNT(1) AS n FROM c GROUP BY c.address.city", 1
)
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
    GROUPED,
    Query("JOIN", "SELECT c.id, o.sku FROM c JOIN o IN c.orders WHERE o.count > 8", 1),
    Query("page drain", "SELECT * FROM c WHERE c.active = true", 1, reads_all_pages=True),
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
            "peer time limit, seconds": int(_TIMEOUT),
        }


@dataclass(slots=True)
class Bench:
    """Servers that the rows share; each is started when a row first needs it."""

    plan: Plan
    scratch: Path
    storage: Storage
    log: Callable[[str], None]
    driver: Driver
    package: Path | None
    peer_storage: Storage | None  # of the peer, if it is Perseid
    stack: ExitStack
    _loaded_servers: dict[int, Server]
    _peer: Server | None = None
    _peer_stack: ExitStack = field(default_factory=ExitStack)

    def perseid(self, documents: int) -> Server:
        if documents not in self._loaded_servers:
            self._loaded_servers[documents] = self._started(self.storage, documents, "queries")
        return self._loaded_servers[documents]

    def _started(self, storage: Storage, documents: int, name: str) -> Server:
        server_data = storage.make(self.scratch / f"{name}{documents}")
        self.log(f"{server_data.server}: loading {documents:,} documents")
        asyncio.run(_prefill(server_data, storage, documents))
        return self.stack.enter_context(servers.perseid(server_data))

    def peer(self) -> Server | None:
        if self._peer is None and self.peer_storage is not None:
            self._peer = self._started(self.peer_storage, self.plan.documents, "baseline")
        if self._peer is None and self.package is not None:
            self.stack.callback(self.stop_peer)
            server = self._peer_stack.enter_context(
                servers.peer(self.package, self.scratch / "peerq")
            )
            target = _target(server)
            self.log(f"loading {self.plan.documents:,} documents into {server.name}")
            send_all(server.port, setup(target), 201)
            for first in range(0, self.plan.documents, 10_000):  # signatures expire
                numbers = range(first, min(first + 10_000, self.plan.documents))
                send_all(server.port, preload(_target(server), numbers), 201, 16)
            self._peer = server
        return self._peer

    def stop_peer(self) -> None:
        """The next row gets a new peer: this one may be busy with its last query for hours."""
        self._peer_stack.close()
        self._peer = None


class Row(NamedTuple):
    name: str
    target_ratio: TargetRatio  # in peer comparisons for the npm package only
    measure: Callable[[Bench], tuple[list[Comparison], str | None]]
    is_peer_comparison: bool = False


def measure(
    plan: Plan,
    scratch: Path,
    storage: Storage,
    log: Callable[[str], None],
    driver: Driver,
    peer: Path | Storage | None,
) -> MeasurementTable:
    """Measures the rows of the plan, in the order of ROWS."""
    with ExitStack() as stack:
        package, peer_storage = (peer, None) if isinstance(peer, Path | None) else (None, peer)
        bench = Bench(plan, scratch, storage, log, driver, package, peer_storage, stack, {})
        measurements = []
        for row in ROWS:
            if row.name in plan.rows:
                try:
                    parts, note = row.measure(bench)
                except BenchError as exc:
                    raise BenchError(f"{row.name}: {exc}") from exc
                target_ratio = (
                    None
                    if peer_storage is not None and row.is_peer_comparison
                    else row.target_ratio
                )
                measurements.append(Measurement(row.name, target_ratio, parts, note))
                log(f"{row.name}: {measurements[-1].verdict}")
    return MeasurementTable("Queries", plan.conditions(), measurements)


# The rows


def _first_use(bench: Bench) -> tuple[list[Comparison], str | None]:
    """The first query over a path builds its index; compared with a query that scans."""
    server = bench.perseid(bench.plan.documents)
    scan_query = QUERIES[-1]
    firsts, scans = [], []
    for query in (EQUALITY, RANGE, QUERIES[3]):
        firsts.append(_seconds(server, _request(_target(server), query, 0)))
        scans.append(_seconds(server, _request(_target(server), scan_query, 0)))
    note = "the first query over a path builds its index, once"
    return [Comparison("seconds: a query that scans", firsts, scans)], note


def _compare_with_peer(query: Query) -> Callable[[Bench], tuple[list[Comparison], str | None]]:
    def measured(bench: Bench) -> tuple[list[Comparison], str | None]:
        ours = bench.perseid(bench.plan.documents)
        runs = _rates(bench, ours, query)
        peer = bench.peer()
        if peer is None:
            return [], "no peer to compare with"
        if bench.peer_storage is not None:
            return [Comparison(f"requests/s: {peer.name}", runs, _rates(bench, peer, query))], None
        note = None
        try:
            if query.reads_all_pages:
                theirs = 1 / _drain_seconds(peer, query, _TIMEOUT)
            else:
                theirs = 1 / _seconds(peer, _request(_target(peer), query, 0), _TIMEOUT)
        except TimeoutError:
            theirs = 1 / _TIMEOUT
            note = f"the peer did not answer within {_TIMEOUT:.0f} s, which counts as its time"
            bench.stop_peer()
        except BenchError as exc:
            return [], f"the peer refuses it ({exc}); Perseid: {runs[0]:,.1f} requests/s"
        return [Comparison("requests/s: the peer", runs, [theirs] * len(runs))], note

    return measured


def _compare_with_point_reads(bench: Bench) -> tuple[list[Comparison], str | None]:
    server = bench.perseid(bench.plan.documents)
    reads: dict[str, list[float]] = {EQUALITY.name: [], ORDERED.name: []}
    query_rates: dict[str, list[float]] = {EQUALITY.name: [], ORDERED.name: []}
    for _ in range(bench.plan.repeat):
        for query in (EQUALITY, ORDERED):
            query_rates[query.name].append(_rate(bench, server, query))
            requests = point_reads(_target(server), min(bench.plan.documents, 20_000))
            reads[query.name].append(_driven_rate(bench, server, requests))
    parts = [
        Comparison(f"{name}: point reads", query_rates[name], reads[name]) for name in query_rates
    ]
    return parts, None


def _growth(bench: Bench) -> tuple[list[Comparison], str | None]:
    """How many times longer a query takes with more documents."""
    small, large = bench.perseid(bench.plan.documents), bench.perseid(bench.plan.many)
    parts = []
    for query in (EQUALITY, RANGE, ORDERED):
        # Narrower ranges, so that the results have the same size.
        scale = bench.plan.documents / bench.plan.many
        few, many = [], []
        for server in (small, large):
            _rate(bench, server, query, scale if server is large else 1)
        for _ in range(bench.plan.repeat):
            few.append(1e6 / _rate(bench, small, query))
            many.append(1e6 / _rate(bench, large, query, scale))
        parts.append(Comparison(f"{query.name}, µs each: fewer documents", many, few))
    return parts, None


def _indexed_writes(bench: Bench) -> tuple[list[Comparison], str | None]:
    """Creates in a container with three property indexes, compared with one without any."""
    indexed: list[float] = []
    plain: list[float] = []
    server_data = bench.storage.make(bench.scratch / "writes")
    asyncio.run(_prefill(server_data, bench.storage, 2000, ("items", "created")))
    with servers.perseid(server_data) as server:
        for path in ("email", "score", "name"):
            text = f"SELECT * FROM c WHERE c.{path} = 1"
            _seconds(server, _request(_target(server), Query(path, text, 0), 0))
        for _ in range(bench.plan.repeat):
            for rates, path in ((indexed, PRELOADED), (plain, "/dbs/bench/colls/created")):
                requests = fresh_creates(_target(server), 1000, path)
                rates.append(_driven_rate(bench, server, requests, 201))
    return [Comparison("creates/s: without indexes", indexed, plain)], None


ROWS: Final = (
    Row("first use of a path", TargetRatio(10.0), _first_use),
    *(
        Row(
            each.name,
            TargetRatio(each.min_ratio, is_minimum=True),
            _compare_with_peer(each),
            True,
        )
        for each in QUERIES
    ),
    Row("queries vs. point reads", TargetRatio(0.4, is_minimum=True), _compare_with_point_reads),
    Row("ten times the documents", TargetRatio(1.5), _growth),
    Row("writes with three indexes", TargetRatio(0.7, is_minimum=True), _indexed_writes),
)


# Requests


def variants(target: Target, query: Query, scale: float = 1) -> list[Request]:
    """Requests of a query with different parameters, if it has any."""
    return [Request(_request(target, query, each, scale)) for each in range(_VARIANTS)]


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
    if query.reads_all_pages:
        return [1 / _drain_seconds(server, query) for _ in range(bench.plan.repeat)]
    return [_rate(bench, server, query) for _ in range(bench.plan.repeat)]


def _rate(bench: Bench, server: Server, query: Query, scale: float = 1) -> float:
    """Queries per second. Slow ones run one after the other: more would only wait."""
    requests = variants(_target(server), query, scale)
    single_seconds = min(_seconds(server, requests[each].head) for each in range(2))
    return (
        1 / single_seconds
        if single_seconds > _SLOW_SECONDS
        else _driven_rate(bench, server, requests)
    )


def _driven_rate(
    bench: Bench, server: Server, requests: Sequence[Request], status: int = 200
) -> float:
    sample = bench.driver(server.port, requests, status, _CONNECTIONS, bench.plan.seconds)
    server.wait_until_idle()
    return sample.rate


def _seconds(server: Server, request: bytes, timeout_seconds: float = 600.0) -> float:
    """Seconds that one request takes; BenchError if it fails."""
    started = time.perf_counter()
    _reply(server, request, timeout_seconds)
    return time.perf_counter() - started


def _drain_seconds(server: Server, query: Query, timeout_seconds: float = 600.0) -> float:
    """Seconds to read ten thousand rows page by page."""
    started = time.perf_counter()
    rows, token = 0, ""
    while rows < _DRAINED_ROWS:
        extra = f"x-ms-max-item-count: 1000\r\nx-ms-continuation: {token}\r\n".encode()
        request = _request(_target(server), query, 0).replace(
            b"accept:", (extra if token else extra.split(b"\r\n")[0] + b"\r\n") + b"accept:", 1
        )
        left = timeout_seconds - (time.perf_counter() - started)
        if left <= 0:
            raise TimeoutError
        response, body = _reply(server, request, left)
        rows += orjson.loads(body)["_count"]
        token = response.getheader("x-ms-continuation") or ""
        if not token:
            break
    if rows < _DRAINED_ROWS:
        raise BenchError(f"there were {rows:,} rows, not {_DRAINED_ROWS:,}")
    return time.perf_counter() - started


def _reply(
    server: Server, request: bytes, timeout_seconds: float
) -> tuple[http.client.HTTPResponse, bytes]:
    with socket.create_connection(("127.0.0.1", server.port), timeout_seconds) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = response.read()
    if response.status != 200:
        raise BenchError(f"status {response.status}")
    return response, body


def _target(server: Server) -> Target:
    return Target(server.port, formatdate(usegmt=True))


# Prefilled data


async def _prefill(
    server_data: ServerData, storage: Storage, count: int, names: Sequence[str] = ("items",)
) -> None:
    """Writes the documents of the other tables without a server."""
    async with prefill.new_account(server_data, storage) as account:
        for name in names:
            await fill(account, name, count)


async def fill(account: Account, name: str, count: int) -> None:
    now = account.clock.now()
    body = {"id": name, "partitionKey": _PARTITION_KEY}
    container = await containers.create(account, prefill.DATABASE, body, None, now)
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

        await account.stores.items.write(container, 0, (), decide)


def _text(number: int) -> bytes:
    return document.__wrapped__(number, id_of(number))
