"""Compares this checkout with another one: `make bench BEFORE=../before`.

Both servers run at the same time and take turns, so that both get the same noise. Each pair of runs
gives a ratio, and the median of the ratios is shown. So is the CPU time of each request, which
varies less than the rate on a shared machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from bench import servers
from bench.cpu_time import Operation, run, target_of
from bench.load import Driver, drivers, send_all
from bench.pairs import alternate
from bench.servers import Server
from bench.signing import Request, Target
from bench.storage import PostgresStorage, SqliteStorage, Storage
from bench.workload import PRELOADED, fresh_creates, point_reads, preload, setup
from tests.support.postgres import Postgres

_DOCUMENTS: Final = 20_000
_CONNECTIONS: Final = 32
_VARIANTS: Final = 500
_QUERY_HEADERS: Final = {
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
    "x-ms-documentdb-partitionkeyrangeid": "0",  # a query over all ranges is left to clients
}


def _queries(text: str, values: Callable[[int], dict[str, Any]]) -> Operation:
    def requests(target: Target, _documents: int) -> list[Request]:
        built = []
        for number in range(_VARIANTS):
            parameters = [{"name": k, "value": v} for k, v in values(number).items()]
            body = json.dumps({"query": text, "parameters": parameters}).encode()
            built.append(Request(target.request("POST", f"{PRELOADED}/docs", body, _QUERY_HEADERS)))
        return built

    return Operation(text, 200, requests)


OPERATIONS: Final = (
    Operation("point read", 200, point_reads),
    Operation("create", 201, fresh_creates),
    _queries(
        "SELECT * FROM c WHERE c.email = @email",
        lambda number: {"@email": f"customer{number * 7919 % _DOCUMENTS}@example.com"},
    )._replace(name="equality"),
    _queries("SELECT TOP 10 * FROM c ORDER BY c.score DESC", lambda _: {})._replace(
        name="ORDER BY, 10 rows"
    ),
    _queries(
        "SELECT VALUE COUNT(1) FROM c WHERE c.name = @name",
        lambda number: {"@name": f"customer {number * 7919 % _DOCUMENTS}"},
    )._replace(name="COUNT with a filter"),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pairs", type=click.IntRange(1, 99), default=9, help="Pairs of runs of each row.")
@click.option("--seconds", type=click.IntRange(1, 60), default=3, help="Length of a run.")
@click.option(
    "--store", type=click.Choice(("sqlite", "postgres")), default="sqlite", help="Database."
)
@click.option(
    "--only",
    type=click.Choice([each.name for each in OPERATIONS]),
    multiple=True,
    help="Measure only this row; can be given more than once.",
)
def main(*, other: Path, pairs: int, seconds: int, store: str, only: tuple[str, ...]) -> None:
    """Compare this checkout with the checkout in the directory OTHER.

    A ratio above 1 means that this checkout is better.
    """
    chosen = [each for each in OPERATIONS if not only or each.name in only]
    with ExitStack() as stack:
        scratch = stack.enter_context(servers.scratch_directory())
        storage: Storage = SqliteStorage()
        if store == "postgres":
            storage = PostgresStorage(stack.enter_context(Postgres(durable=True)))
        sources = {"before": other.absolute() / "src", "after": Path.cwd() / "src"}
        table = Table("", "before", "after", "ratio", "lowest", "CPU before", "CPU after", "ratio")
        _compare_starts(sources, storage, scratch, pairs, table)
        running = {
            name: stack.enter_context(servers.perseid(storage.make(scratch / name), source=source))
            for name, source in sources.items()
        }
        for server in running.values():
            _load(server)
        driver = next(iter(drivers(scratch).values()))
        for operation in chosen:
            _compare(operation, running, driver, pairs, seconds, table)
        sizes = {name: server.resident_bytes() / 2**20 for name, server in running.items()}
        table.add_row("memory afterwards, MB", *_cells(sizes["before"], sizes["after"]))
    Console().print(table)


def _compare_starts(
    sources: dict[str, Path], storage: Storage, scratch: Path, pairs: int, table: Table
) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    sizes: dict[str, list[float]] = {name: [] for name in sources}
    for number in range(pairs):
        for name, source in sources.items():
            server_data = storage.make(scratch / f"start-{name}-{number}")
            with servers.perseid(server_data, source=source) as server:
                seconds[name].append(server.start_seconds * 1000)
                sizes[name].append(server.resident_bytes() / 2**20)
    for title, figures in (("start, ms", seconds), ("memory after start, MB", sizes)):
        before, after = median(figures["before"]), median(figures["after"])
        table.add_row(title, *_cells(before, after))


def _cells(before: float, after: float) -> tuple[str, ...]:
    """Cells of figures of which less is better."""
    return f"{before:,.1f}", f"{after:,.1f}", f"{before / after:.3f}"


def _load(server: Server) -> None:
    target = target_of(server)
    send_all(server.port, setup(target), 201)
    send_all(server.port, preload(target, range(_DOCUMENTS)), 201, _CONNECTIONS)


def _compare(
    operation: Operation,
    running: dict[str, Server],
    driver: Driver,
    pairs: int,
    seconds: int,
    table: Table,
) -> None:
    for server in running.values():
        run(operation, server, driver, _DOCUMENTS, 1)  # indexes are built, caches filled
    runs = alternate(
        partial(run, operation, running["before"], driver, _DOCUMENTS, seconds),
        partial(run, operation, running["after"], driver, _DOCUMENTS, seconds),
        pairs,
    )
    ratios = sorted(after.rate / before.rate for before, after in runs)
    cpu = median(before.cpu_ms / after.cpu_ms for before, after in runs)
    table.add_row(
        operation.name,
        f"{median(before.rate for before, _ in runs):,.0f}/s",
        f"{median(after.rate for _, after in runs):,.0f}/s",
        f"{median(ratios):.3f}",
        f"{ratios[0]:.3f}",
        f"{median(before.cpu_ms for before, _ in runs):.3f} ms",
        f"{median(after.cpu_ms for _, after in runs):.3f} ms",
        f"{cpu:.3f}",
    )


if __name__ == "__main__":
    main(prog_name="python -m bench.revisions")
