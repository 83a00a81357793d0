"""What the way in which a client works costs: `python -m bench.clients`.

HTTP/2 is compared with HTTP/1.1 on one server; `h2load` of nghttp2 sends both. Queries that the
official Python client plans, because the service does not answer them directly, are compared with
the same queries on a server that answers them directly. Both ways take turns, each pair of runs
gives a ratio, and the median of the ratios is shown.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import click
import psutil  # type: ignore[import-untyped]
from azure.cosmos import ContainerProxy, CosmosClient
from rich.console import Console
from rich.table import Table

from bench import servers
from bench.errors import BenchError
from bench.load import send_all
from bench.pairs import alternate
from bench.servers import Server
from bench.signing import Target, sign
from bench.storage import SqliteStorage
from bench.workload import PRELOADED, id_of, partition_of, preload, setup
from perseid.config import WELL_KNOWN_KEY

_DOCUMENTS: Final = 2_000
_RATE: Final = re.compile(r"finished in ([0-9.]+)(s|ms), ([0-9.]+) req/s")
_STATUSES: Final = re.compile(r"status codes: ([0-9]+) 2xx, 0 3xx, 0 4xx, 0 5xx")
_QUERIES: Final = {
    "ORDER BY, 10 rows": "SELECT TOP 10 * FROM c ORDER BY c.score DESC",
    "ORDER BY, 2,000 rows": "SELECT c.id, c.score FROM c ORDER BY c.score",
    "COUNT": "SELECT VALUE COUNT(1) FROM c WHERE c.active = true",
    "DISTINCT": "SELECT DISTINCT VALUE c.address.city FROM c",
}


class Load(NamedTuple):
    """How `h2load` connects."""

    name: str
    flags: tuple[str, ...]


_HTTP_1: Final = Load("HTTP/1.1, 32 connections", ("--h1", "-c", "32"))
_HTTP_2: Final = (
    Load("HTTP/2, 32 connections", ("-c", "32", "-m", "1")),
    Load("HTTP/2, 4 connections with 8 streams", ("-c", "4", "-m", "8")),
)


class Run(NamedTuple):
    rate: float
    cpu_us: float  # of the server process, for each request


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--pairs", type=click.IntRange(1, 99), default=9, help="Pairs of runs of each row.")
@click.option("--seconds", type=click.IntRange(1, 60), default=2, help="Length of a run.")
def main(*, pairs: int, seconds: int) -> None:
    """Compare HTTP/2 with HTTP/1.1, and queries that a client plans with direct ones.

    A ratio above 1 means that HTTP/2 is faster, or the planned query.
    """
    directory = servers.bench_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory("", "run-", directory)))
        storage = SqliteStorage()
        strict, relaxed = (
            stack.enter_context(servers.perseid(storage.make(scratch / name), *flags))
            for name, flags in (("strict", ()), ("relaxed", ("--relaxed",)))
        )
        for server in (strict, relaxed):
            target = Target(server.port, formatdate(usegmt=True))
            send_all(server.port, setup(target), 201)
            send_all(server.port, preload(target, range(_DOCUMENTS)), 201, 32)
        Console().print(_compare_protocols(strict, pairs, seconds))
        Console().print(_compare_queries(strict, relaxed, pairs))


def _compare_protocols(server: Server, pairs: int, seconds: int) -> Table:
    table = Table("point read", "HTTP/1.1", "HTTP/2", "ratio", "CPU HTTP/1.1", "CPU HTTP/2")
    for load in _HTTP_2:
        baseline = partial(_point_reads, server, _HTTP_1, seconds)
        measured = partial(_point_reads, server, load, seconds)
        baseline(), measured()  # caches are filled
        runs = alternate(baseline, measured, pairs)
        table.add_row(
            load.name,
            f"{median(first.rate for first, _ in runs):,.0f}/s",
            f"{median(second.rate for _, second in runs):,.0f}/s",
            f"{median(second.rate / first.rate for first, second in runs):.2f}",
            f"{median(first.cpu_us for first, _ in runs):.0f} µs",
            f"{median(second.cpu_us for _, second in runs):.0f} µs",
        )
    return table


def _compare_queries(strict: Server, relaxed: Server, pairs: int) -> Table:
    table = Table("query, total time", "direct", "planned", "ratio")
    answered, planned = _container(relaxed), _container(strict)
    for name, text in _QUERIES.items():
        direct = partial(_query_seconds, answered, text)
        merged = partial(_query_seconds, planned, text)
        direct(), merged()  # indexes are built, caches filled
        runs = alternate(direct, merged, pairs)
        table.add_row(
            name,
            f"{median(first for first, _ in runs) * 1000:.1f} ms",
            f"{median(second for _, second in runs) * 1000:.1f} ms",
            f"{median(first / second for first, second in runs):.2f}",
        )
    return table


def _point_reads(server: Server, load: Load, seconds: int) -> Run:
    program = shutil.which("h2load")
    if program is None:
        raise BenchError("h2load is not installed; on Debian: apt install nghttp2-client")
    path, date = f"{PRELOADED}/docs/{id_of(7)}", formatdate(usegmt=True)
    headers = {
        "x-ms-version": "2020-07-15",
        "x-ms-date": date,
        "authorization": sign("GET", path, date),
        "x-ms-documentdb-partitionkey": f'["{partition_of(7)}"]',
    }
    command = [program, "-D", str(seconds), *load.flags]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    process = psutil.Process(server.pid)
    before = sum(process.cpu_times()[:2])
    command.append(f"http://127.0.0.1:{server.port}{path}")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    spent = sum(process.cpu_times()[:2]) - before
    rate, statuses = _RATE.search(done.stdout), _STATUSES.search(done.stdout)
    if rate is None or statuses is None:
        raise BenchError(f"h2load failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return Run(float(rate[3]), spent * 1e6 / int(statuses[1]))


def _container(server: Server) -> ContainerProxy:
    client = CosmosClient(f"http://127.0.0.1:{server.port}", WELL_KNOWN_KEY)
    _, _, database, _, container = PRELOADED.split("/")
    return client.get_database_client(database).get_container_client(container)


def _query_seconds(container: ContainerProxy, text: str) -> float:
    started = time.perf_counter()
    if not list(container.query_items(text, enable_cross_partition_query=True)):
        raise BenchError(f"no rows: {text}")
    return time.perf_counter() - started


if __name__ == "__main__":
    main(prog_name="python -m bench.clients")
