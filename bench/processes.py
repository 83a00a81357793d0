"""Compares several server processes on one PostgreSQL database with one process:
`make bench STORE=postgres PROCESSES=2`.

Both sides take turns and get the same load; its connections are spread over the servers. On a
machine without idle cores more processes cannot answer more requests, so compare the CPU time of a
request. The load generator runs on the same machine, so its CPU time is shown, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import click
from rich.console import Console

from bench import options, servers, tables
from bench.cpu_time import ComparedRuns, Run, compare, run_on_all
from bench.errors import BenchError
from bench.operations import OPERATIONS, Plan, load
from bench.report import Comparison, TargetRatio
from bench.servers import Server
from bench.storage import PostgresStorage, Storage
from bench.tables import Line, TextTable, figure_text
from tests.support.postgres import Postgres

# A single connection would use one of the servers only.
_OPERATIONS: Final = tuple(each for each in OPERATIONS if each.connections > 1)


class Figure(NamedTuple):
    """A figure of each run."""

    name: str
    value: Callable[[Run], float]
    target_ratio: TargetRatio | None = None  # of several processes compared with one


_FIGURES: Final = (
    Figure("requests/s", lambda run: run.rate),
    Figure("CPU servers, µs", lambda run: run.cpu_ms * 1000),
    Figure("CPU PostgreSQL, µs", lambda run: run.database_cpu_ms * 1000),
    Figure(
        "CPU of both, µs",
        lambda run: (run.cpu_ms + run.database_cpu_ms) * 1000,
        TargetRatio(1.1),
    ),
    Figure("CPU load generator, µs", lambda run: run.client_cpu_ms * 1000),
    Figure("machine busy, %", lambda run: run.busy_percent),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("processes", type=click.IntRange(2, 8))
@click.option(
    "--store",
    type=click.Choice(("postgres",)),
    default="postgres",
    expose_value=False,
    help="Server processes can share a PostgreSQL database only.",
)
@options.PAIRS
@options.SECONDS
@options.DOCUMENTS
@click.option(
    "--only",
    type=click.Choice([each.name for each in _OPERATIONS]),
    multiple=True,
    help="Measure only this row; can be given more than once.",
)
@click.option(
    "--more-load",
    is_flag=True,
    help="Open as many connections to each server as to the one process.",
)
@options.JSON_FILE
@options.MARKDOWN_FILE
def main(
    *,
    processes: int,
    pairs: int,
    seconds: int,
    documents: int,
    only: tuple[str, ...],
    more_load: bool,
    json_file: Path | None,
    markdown_file: Path | None,
) -> None:
    """Compare that many server PROCESSES on one PostgreSQL database with one process.

    Each side has the same number of connections, so that each of several servers has fewer waiting
    requests that can share a statement. With --more-load each server has as many as the one.
    """
    chosen = [each for each in _OPERATIONS if not only or each.name in only]
    plan = Plan(chosen, pairs, seconds, documents)
    log = Console(stderr=True, log_path=False).log
    servers.stop_on_sigterm()
    try:
        results = _measure(plan, processes, processes if more_load else 1, log)
    except BenchError as exc:
        raise click.ClickException(str(exc)) from exc
    spread = f"as many to {'each server' if more_load else 'all servers'} as to one"
    conditions = {"processes": processes, "connections": spread}
    conditions |= plan.conditions("bundled")
    rows = [each.as_json() | {"figures": _figures_as_json(each)} for each in results]
    value = {"conditions": conditions, "rows": rows}
    tables.publish(_table(conditions, results), value, json_file, markdown_file)


def _measure(
    plan: Plan, processes: int, load_factor: int, log: Callable[[str], None]
) -> list[ComparedRuns]:
    """`load_factor`: connections to the several servers for each connection to the one."""
    with ExitStack() as stack:
        scratch = stack.enter_context(servers.scratch_directory())
        postgres = stack.enter_context(Postgres(durable=True))
        storage = PostgresStorage(postgres)
        # The one process has its own database: on a shared one, idle servers could slow it down.
        running = []
        for count in (1, processes):
            log(f"{count} of {PostgresStorage.SERVER}: loading {plan.documents:,} documents")
            directory = scratch / f"processes{count}"
            running.append(_start(storage, directory, count, plan.documents, stack))
        results = []
        for operation in plan.operations:
            log(operation.name)
            common = (plan.documents, plan.seconds, postgres.postmaster())
            larger = operation._replace(connections=operation.connections * load_factor)
            one = partial(run_on_all, operation, running[0], *common)
            several = partial(run_on_all, larger, running[1], *common)
            results.append(compare(operation, one, several, plan.pairs))
    return results


def _start(
    storage: Storage, directory: Path, count: int, documents: int, stack: ExitStack
) -> list[Server]:
    """Server processes that share a database with documents."""
    server_data = storage.make(directory)
    running = [
        stack.enter_context(
            servers.perseid(server_data._replace(directory=directory / f"server{number}"))
        )
        for number in range(count)
    ]
    load(running[0], documents)
    storage.flush(server_data)
    return running


def _comparisons(compared: ComparedRuns) -> Iterator[tuple[Figure, Comparison]]:
    """Without figures that are zero, such as the CPU time of a database that was not used."""
    for figure in _FIGURES:
        baseline_runs = [*map(figure.value, compared.baseline_runs)]
        if median(baseline_runs) > 0:
            runs = [*map(figure.value, compared.runs)]
            yield figure, Comparison(figure.name, runs, baseline_runs)


def _figures_as_json(compared: ComparedRuns) -> list[dict[str, Any]]:
    return [
        {
            "name": figure.name,
            "measured": each.measured_value,
            "baseline": each.baseline,
            "ratio": each.ratio,
            "target": figure.target_ratio and figure.target_ratio.ratio,
        }
        for figure, each in _comparisons(compared)
    ]


def _table(conditions: dict[str, Any], results: Sequence[ComparedRuns]) -> TextTable:
    measured = f"{conditions['processes']} processes"
    headings = ("row", "figure", measured, "one process", "ratio", "target")
    caption = (
        f"{tables.conditions_text(conditions)}. Medians of the runs; CPU for each request; ratio:"
        f" {measured} divided by one."
    )
    lines = [line for each in results for line in _lines(each)]
    return TextTable("Server processes", headings, lines, caption)


def _lines(compared: ComparedRuns) -> Iterator[Line]:
    for number, (figure, each) in enumerate(_comparisons(compared)):
        target, style = "", None
        if figure.target_ratio is not None:
            is_met = figure.target_ratio.is_met_by(each.ratio)
            target = f"{figure.target_ratio}{'' if is_met else ': missed'}"
            style = "bold" if is_met else "bold red"
        label = compared.operation.name if number == 0 else ""
        measured, baseline = figure_text(each.measured_value), figure_text(each.baseline)
        cells = label, figure.name, measured, baseline, f"{each.ratio:.2f}", target
        yield Line(cells, style, is_last=figure is _FIGURES[-1])


if __name__ == "__main__":
    main(prog_name="python -m bench.processes")
