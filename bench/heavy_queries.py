"""Compares long queries in worker processes with the same in threads of the server process:
`python -m bench.heavy_queries`.

Two servers on copies of the same data take turns. A query is read to its last page. Each pair of
runs gives a ratio, and the median of the ratios is shown; the CPU time is that of the server and
its workers together. A worker starts at the first long query, which is a row of its own.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from statistics import median
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from bench import prefill, queries, servers
from bench.cpu_time import cpu_seconds
from bench.errors import BenchError
from bench.load import send_all
from bench.pairs import alternate
from bench.servers import Server
from bench.signing import Target, sign
from bench.storage import ServerData, SqliteStorage

_SMALL, _LARGE, _ARRAYS = "small", "large", "arrays"  # containers
_COUNTS: Final = {_SMALL: 10_000, _LARGE: 100_000}
_ARRAY_LENGTHS: Final = (60, 70, 80)
_PAGE: Final = "1000"
_TARGET_RATIO: Final = 0.9
_TIMEOUT: Final = 300.0


class HeavyQuery(NamedTuple):
    """One row of the table."""

    name: str
    container: str
    text: str
    page: str = _PAGE  # rows of a page


QUERIES: Final = (
    HeavyQuery(
        "three JOINs",
        _ARRAYS,
        "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a"
        " WHERE x + y + z = -1",
    ),
    HeavyQuery("rows of two JOINs", _ARRAYS, "SELECT x, y FROM c JOIN x IN c.a JOIN y IN c.a"),
    HeavyQuery("filter, 10,000 items", _SMALL, "SELECT * FROM c WHERE LOWER(c.note) = 'none'"),
    HeavyQuery("filter, 100,000 items", _LARGE, "SELECT * FROM c WHERE LOWER(c.note) = 'none'"),
    HeavyQuery("filter, all pass", _SMALL, "SELECT * FROM c WHERE LENGTH(c.note) >= 0"),
    HeavyQuery(
        "ORDER BY, 10,000 rows",
        _SMALL,
        "SELECT c.id, c.score FROM c WHERE LENGTH(c.note) >= 0 ORDER BY c.score + 1",
    ),
    HeavyQuery(
        "groups of the store",
        _SMALL,
        "SELECT c.name, COUNT(1) AS n FROM c GROUP BY c.name",
    ),
    HeavyQuery(
        "groups on one page",
        _SMALL,
        "SELECT c.name, COUNT(1) AS n FROM c GROUP BY c.name",
        "20000",
    ),
    HeavyQuery("DISTINCT, 10,000 rows", _SMALL, "SELECT DISTINCT VALUE LOWER(c.name) FROM c"),
    HeavyQuery("DISTINCT, few rows", _SMALL, "SELECT DISTINCT VALUE UPPER(c.address.city) FROM c"),
    HeavyQuery(
        "aggregates",
        _SMALL,
        "SELECT SUM(c.score * 2) AS total, MAX(LENGTH(c.note)) AS longest FROM c",
    ),
)


class Run(NamedTuple):
    """One query, read to its last page."""

    seconds: float
    cpu_seconds: float
    pages: int
    rows: int


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--pairs", type=click.IntRange(1, 99), default=9, help="Pairs of runs of each row.")
@click.option(
    "--only",
    type=click.Choice([each.name for each in QUERIES]),
    multiple=True,
    help="Measure only this row; can be given more than once.",
)
def main(*, pairs: int, only: tuple[str, ...]) -> None:
    """Compare long queries in worker processes with threads of the server process.

    A ratio is the time in a thread divided by the time in a worker process: above 1, workers are
    faster.
    """
    chosen = [each for each in QUERIES if not only or each.name in only]
    containers = {each.container for each in chosen}
    with ExitStack() as stack:
        scratch = stack.enter_context(servers.scratch_directory())
        storage = SqliteStorage()
        original = storage.make(scratch / "original")
        asyncio.run(_prefill(original, storage, containers))
        running = {
            workers: stack.enter_context(
                servers.perseid(
                    stack.enter_context(storage.copy_of(original, scratch / f"workers{workers}")),
                    "--query-workers",
                    workers,
                )
            )
            for workers in ("0", "4")
        }
        for server in running.values():
            _load_arrays(server)
        _report(chosen, running["0"], running["4"], pairs)


def _report(chosen: Sequence[HeavyQuery], thread: Server, worker: Server, pairs: int) -> None:
    progress = Console(stderr=True, log_path=False)
    table = Table(
        "", "pages", "thread", "worker", "ratio", "lowest", "CPU thread", "CPU worker", "ratio"
    )
    first = {server.pid: _run(QUERIES[0], server) for server in (thread, worker)}
    table.add_row("first long query", "1", *_cells([(first[thread.pid], first[worker.pid])]))
    table.add_section()
    for query in chosen:
        runs = _pairs_of_runs(query, thread, worker, pairs)
        cells = (query.name, str(runs[0][0].pages), *_cells(runs))
        progress.log(", ".join(cells))
        table.add_row(*cells)
    Console().print(table)


def _cells(runs: Sequence[tuple[Run, Run]]) -> tuple[str, ...]:
    ratios = sorted(thread.seconds / worker.seconds for thread, worker in runs)
    ratio = median(ratios)
    missed = " missed" if len(runs) > 1 and ratio < _TARGET_RATIO else ""
    cpu = median(thread.cpu_seconds / max(worker.cpu_seconds, 0.01) for thread, worker in runs)
    return (
        _milliseconds(median(thread.seconds for thread, _ in runs)),
        _milliseconds(median(worker.seconds for _, worker in runs)),
        f"{ratio:.2f}{missed}",
        f"{ratios[0]:.2f}",
        _milliseconds(median(thread.cpu_seconds for thread, _ in runs)),
        _milliseconds(median(worker.cpu_seconds for _, worker in runs)),
        f"{cpu:.2f}",
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _pairs_of_runs(
    query: HeavyQuery, thread: Server, worker: Server, pairs: int
) -> list[tuple[Run, Run]]:
    """Runs of both servers; each is the first of a pair as often as the other."""
    for server in (thread, worker):
        _run(query, server)  # plans are made, caches filled
    runs = alternate(partial(_run, query, thread), partial(_run, query, worker), pairs)
    if any(in_thread.rows != in_worker.rows for in_thread, in_worker in runs):
        raise BenchError(f"{query.name}: the servers return different results")
    return runs


def _run(query: HeavyQuery, server: Server) -> Run:
    path = f"/dbs/{prefill.DATABASE}/colls/{query.container}/docs"
    body = json.dumps({"query": query.text}).encode()
    headers = {
        "content-type": "application/query+json",
        "x-ms-documentdb-isquery": "True",
        "x-ms-documentdb-query-enablecrosspartition": "True",
        "x-perseid-direct": "true",
        "x-ms-max-item-count": query.page,
        "x-ms-version": "2020-07-15",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT)
    pages = rows = 0
    token: str | None = None
    cpu_before, started = cpu_seconds(server.pid), time.perf_counter()
    try:
        while pages == 0 or token:
            date = formatdate(usegmt=True)
            signed = {"x-ms-date": date, "authorization": sign("POST", path, date)}
            more = {"x-ms-continuation": token} if token else {}
            connection.request("POST", path, body, headers | signed | more)
            reply = connection.getresponse()
            text = reply.read()
            if reply.status != 200:
                raise BenchError(f"{query.name}: status {reply.status}, {text[:200]!r}")
            token = reply.getheader("x-ms-continuation")
            pages += 1
            rows += int(reply.headers["x-ms-item-count"])
    finally:
        connection.close()
    seconds = time.perf_counter() - started
    return Run(seconds, cpu_seconds(server.pid) - cpu_before, pages, rows)


async def _prefill(server_data: ServerData, storage: SqliteStorage, containers: set[str]) -> None:
    async with prefill.new_account(server_data, storage) as account:
        for name, count in _COUNTS.items():
            if name in containers:
                await queries.fill(account, name, count)


def _load_arrays(server: Server) -> None:
    target = Target(server.port, formatdate(usegmt=True))
    database = f"/dbs/{prefill.DATABASE}"
    definition = {"id": _ARRAYS, "partitionKey": prefill.PARTITION_KEY}
    requests = [target.request("POST", f"{database}/colls", json.dumps(definition).encode())]
    for length in _ARRAY_LENGTHS:
        item = {"id": str(length), "pk": "p", "a": [*range(length)]}
        requests.append(
            target.request(
                "POST",
                f"{database}/colls/{_ARRAYS}/docs",
                json.dumps(item).encode(),
                {"x-ms-documentdb-partitionkey": '["p"]'},
            )
        )
    send_all(server.port, requests, 201)


if __name__ == "__main__":
    main(prog_name="python -m bench.heavy_queries")
