"""Starts both servers, sends both the same load and prints the results."""

from __future__ import annotations

import math
import platform
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from statistics import median

import click
from rich.console import Console

from bench import lifetimes, queries, raw_statements, servers
from bench import report as reports
from bench.errors import BenchError, PeerUnavailable
from bench.load import Driver, Sample, drivers, run_bundled, send_all
from bench.options import JSON_FILE
from bench.report import MeasurementTable, Process, Report, Results
from bench.servers import Server
from bench.signing import Target
from bench.storage import PostgresStorage, ServerData, SqliteStorage, Storage
from bench.workload import PAGE, ROWS, Row, document, id_of, preload, setup
from tests.support.postgres import Postgres

_NAMES = [
    *(row.name for row in ROWS),
    *(row.name for row in queries.ROWS),
    *(row.name for row in lifetimes.ROWS),
]
_WARM_UP_SECONDS = 1.0
_MIN_REPLIES = 2  # on each connection of a run
_MAX_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """How the load is driven."""

    rows: Sequence[Row]
    connections: int
    seconds: int
    documents: int
    repeat: int
    lifetimes: lifetimes.Plan
    queries: queries.Plan


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--connections", type=click.IntRange(1, 1000), default=32, help="Connections.")
# Requests are signed once for a run, and a signature is valid for fifteen minutes.
@click.option(
    "--seconds",
    type=click.IntRange(1, 600),
    default=5,
    help="Length of a run; slow servers get more.",
)
@click.option(
    "--documents", type=click.IntRange(100, 200_000), default=20_000, help="Documents to load."
)
@click.option(
    "--repeat", type=click.IntRange(1, 99), default=3, help="Runs of each row; the median is shown."
)
@click.option(
    "--only",
    type=click.Choice(_NAMES),
    multiple=True,
    help="Measure only this row; can be given more than once.",
)
@click.option(
    "--client",
    type=click.Choice(("auto", "wrk", "bundled")),
    default="auto",
    help="Program that sends the requests; auto: wrk if it is installed, else our own.",
)
@click.option(
    "--items",
    type=click.IntRange(1000, 10_000_000),
    default=1_000_000,
    help="Items in the time-to-live rows.",
)
@click.option(
    "--queried",
    type=click.IntRange(1000, 10_000_000),
    default=100_000,
    help="Documents in the query rows; one row compares with ten times as many.",
)
@click.option(
    "--store",
    type=click.Choice(("sqlite", "postgres")),
    default="sqlite",
    help="postgres: run Perseid on a private PostgreSQL; the baseline is Perseid on SQLite.",
)
@click.option("--no-queries", is_flag=True, help="Skip the query rows.")
@click.option("--no-ttl", is_flag=True, help="Skip the time-to-live rows.")
@click.option("--no-peer", is_flag=True, help="Measure Perseid without a baseline server.")
@click.option("--markdown", is_flag=True, help="Print Markdown instead of a table.")
@JSON_FILE
def main(
    *,
    connections: int,
    seconds: int,
    documents: int,
    repeat: int,
    only: tuple[str, ...],
    client: str,
    items: int,
    queried: int,
    store: str,
    no_queries: bool,
    no_ttl: bool,
    no_peer: bool,
    markdown: bool,
    json_file: Path | None,
) -> None:
    """Compare Perseid with the npm package @vercel/cosmosdb-server, on loopback.

    Further tables measure queries, and time to live against the same work without it.

    With --store postgres the baseline is Perseid on SQLite, and point reads and creates are also
    compared with the same SQL statements without Perseid.

    To compare two checkouts of Perseid: python -m bench.revisions --help. PostgreSQL with SQLite,
    run by run: python -m bench.databases --help. Several server processes with one: python -m
    bench.processes --help.
    """
    rows = [row for row in ROWS if not only or row.name in only]
    lifetime_rows = [row.name for row in lifetimes.ROWS if not only or row.name in only]
    lifetime_plan = lifetimes.Plan([] if no_ttl else lifetime_rows, items, seconds, repeat)
    query_rows = [row.name for row in queries.ROWS if not only or row.name in only]
    query_plan = queries.Plan(
        [] if no_queries else query_rows, queried, 10 * queried, seconds, repeat
    )
    plan = Plan(rows, connections, seconds, documents, repeat, lifetime_plan, query_plan)
    if not plan.rows and not plan.lifetimes.rows and not plan.queries.rows:
        raise click.UsageError("no rows left: another option skips every row that --only names.")
    servers.stop_on_sigterm()
    try:
        results = benchmark(plan, client, store, with_peer=not no_peer)
    except BenchError as exc:
        raise click.ClickException(str(exc)) from exc
    if json_file is not None:
        reports.write_json(results, json_file)
    if markdown:
        click.echo(reports.markdown(results))
    else:
        reports.show(results, Console())


def benchmark(plan: Plan, client: str, store: str, *, with_peer: bool) -> Results:
    """Runs the whole plan, one table after the other."""
    console = Console(stderr=True, log_path=False)
    directory = servers.bench_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(console.status("starting"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory("", "run-", directory)))
        name, driver = _driver(client, scratch)
        operations = None
        measurements = []
        bench_setup = _bench_setup(store, directory, stack, with_peer=with_peer)
        if with_peer and bench_setup.note is not None:
            console.print(f"No baseline server: {bench_setup.note}", soft_wrap=True)
        if plan.rows:
            server_data = bench_setup.storage.make(scratch / "perseid")
            operations = _compare(plan, server_data, bench_setup, scratch, (name, driver), console)
            if store == "postgres":
                measurements.append(
                    _compare_with_statements(plan, server_data, operations, console)
                )
        if plan.queries.rows:
            measurements.append(
                queries.measure(
                    plan.queries,
                    scratch,
                    bench_setup.storage,
                    console.log,
                    driver,
                    bench_setup.peer,
                )
            )
        if plan.lifetimes.rows:
            measurements.append(
                lifetimes.measure(plan.lifetimes, scratch, bench_setup.storage, console.log)
            )
    return Results(operations, measurements)


@dataclass(frozen=True, slots=True)
class BenchSetup:
    """The storage of Perseid, and the server it is compared with."""

    storage: Storage
    peer: Path | Storage | None  # the npm package, or Perseid on another storage
    note: str | None = None  # why there is no peer
    remark: str = "Perseid forces each commit to disk; the other keeps everything in memory"


def _bench_setup(store: str, directory: Path, stack: ExitStack, *, with_peer: bool) -> BenchSetup:
    no_peer_reason = None if with_peer else "--no-peer was given"
    if store == "postgres":
        postgres = stack.enter_context(Postgres(durable=True))
        baseline = SqliteStorage("Perseid on SQLite") if with_peer else None
        remark = "Both force each commit to disk"
        return BenchSetup(PostgresStorage(postgres), baseline, no_peer_reason, remark)
    package, note = _peer_package(directory) if with_peer else (None, no_peer_reason)
    return BenchSetup(SqliteStorage(), package, note)


def _compare(
    plan: Plan,
    server_data: ServerData,
    bench_setup: BenchSetup,
    scratch: Path,
    client: tuple[str, Driver],
    console: Console,
) -> Report:
    """Both servers, or only Perseid if there is no peer; its data is kept for later tables."""
    name, driver = client
    with ExitStack() as stack:
        # Several starts: the first one may compile, and a single figure says little.
        starts = [
            _start_seconds(bench_setup.storage.make(scratch / f"start{each}"))
            for each in range(1, plan.repeat)
        ]
        ours = stack.enter_context(servers.perseid(server_data))
        running = [ours]
        if isinstance(bench_setup.peer, Path):
            running.append(stack.enter_context(servers.peer(bench_setup.peer, scratch / "peer")))
        elif bench_setup.peer is not None:
            running.append(
                stack.enter_context(servers.perseid(bench_setup.peer.make(scratch / "baseline")))
            )
        after_start = {each.name: each.resident_bytes() for each in running}
        for server in running:
            _prepare(server, plan, console)
        samples = {row.name: _measure(row, running, plan, driver, console) for row in plan.rows}
        start_seconds = {ours.name: median([*starts, ours.start_seconds])}
        processes = [
            Process(
                each.name,
                each.version,
                start_seconds.get(each.name, each.start_seconds),
                after_start[each.name],
                each.resident_bytes(),
            )
            for each in running
        ]
    return Report(_conditions(plan, name), processes, samples, bench_setup.note, bench_setup.remark)


def _compare_with_statements(
    plan: Plan, server_data: ServerData, report: Report, console: Console
) -> MeasurementTable:
    ours = {name: runs[server_data.server] for name, runs in report.samples.items()}
    return raw_statements.measure(server_data, ours, plan.connections, plan.seconds, console.log)


def _driver(client: str, scratch: Path) -> tuple[str, Driver]:
    installed = drivers(scratch)
    name = next(iter(installed)) if client == "auto" else client
    if name not in installed:
        raise BenchError(f"'{name}' is not on the PATH; try --client bundled")
    return name, installed[name]


def _peer_package(directory: Path) -> tuple[Path | None, str | None]:
    """The directory of the peer, or why it cannot be used."""
    try:
        return servers.install_peer(directory), None
    except PeerUnavailable as exc:
        return None, f"{servers.PEER_PACKAGE} cannot be run, {exc}"


def _start_seconds(server_data: ServerData) -> float:
    with servers.perseid(server_data) as server:
        return server.start_seconds


def _prepare(server: Server, plan: Plan, console: Console) -> None:
    console.log(f"{server.name}: loading {plan.documents:,} documents")
    target = _target(server)
    try:
        send_all(server.port, setup(target), 201)
        send_all(server.port, preload(target, range(plan.documents)), 201, plan.connections)
    except BenchError as exc:
        raise BenchError(f"loading {server.name}: {exc}") from exc


def _measure(
    row: Row, running: Sequence[Server], plan: Plan, driver: Driver, console: Console
) -> dict[str, list[Sample]]:
    """The runs of one row; the servers take turns, so that both get the same noise."""
    samples: dict[str, list[Sample]] = {each.name: [] for each in running}
    seconds = {}
    for server in reversed(running):
        # Our own client checks the exact status, which wrk cannot, and waits for the last reply.
        probe = _sample(row, server, plan, run_bundled, _WARM_UP_SECONDS)
        seconds[server.name] = _run_seconds(probe, row, plan)
    for _ in range(plan.repeat):
        for server in reversed(running):
            sample = _sample(row, server, plan, driver, seconds[server.name])
            samples[server.name].append(sample)
            console.log(f"{row.name}: {server.name} {reports.rate_text(sample.rate)} req/s")
    return samples


def _run_seconds(probe: Sample, row: Row, plan: Plan) -> float:
    """Long enough for a few replies on each connection, however slow the server is."""
    needed_seconds = _MIN_REPLIES * _connections(row, plan) / probe.rate
    return max(plan.seconds, min(math.ceil(needed_seconds), _MAX_SECONDS))


def _connections(row: Row, plan: Plan) -> int:
    return min(plan.connections, row.max_connections)


def _sample(
    row: Row,
    server: Server,
    plan: Plan,
    driver: Driver,
    seconds: float,
) -> Sample:
    requests = row.requests(_target(server), plan.documents)
    try:
        sample = driver(server.port, requests, row.status, _connections(row, plan), seconds)
        server.wait_until_idle()
        if sample.received < row.min_reply_bytes * sample.requests:
            raise BenchError("replies were too small to contain their documents")
    except BenchError as exc:
        raise BenchError(f"{row.name} on {server.name}: {exc}") from exc
    return sample


def _target(server: Server) -> Target:
    return Target(server.port, formatdate(usegmt=True))


def _conditions(plan: Plan, client: str) -> dict[str, object]:
    fewer = {
        f"{row.name} connections": row.max_connections
        for row in plan.rows
        if row.max_connections < plan.connections
    }
    return {
        "python": platform.python_version(),
        "client": client,
        "connections": plan.connections,
        **fewer,
        "seconds": plan.seconds,
        "runs": plan.repeat,
        "documents": plan.documents,
        "bytes each": len(document(0, id_of(0))),
        "feed page": PAGE,
    }


if __name__ == "__main__":
    main(prog_name="python -m bench")
