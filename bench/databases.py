"""Compares Perseid on PostgreSQL with Perseid on SQLite: `make bench STORE=both`.

Both servers run at the same time and take turns, so that both get the same noise. The ratio is that
of the medians. The CPU time of PostgreSQL is that of all its processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import click
from rich.console import Console

from bench import options, raw_statements, servers, tables
from bench.cpu_time import ComparedRuns, compare, medians, run
from bench.errors import BenchError
from bench.load import drivers
from bench.operations import OPERATIONS, Plan, load
from bench.servers import Server
from bench.storage import PostgresStorage, ServerData, SqliteStorage, Storage
from bench.tables import Line, TextTable, figure_text
from tests.support.postgres import Postgres

_HEADINGS: Final = (
    "row",
    "SQLite /s",
    "PostgreSQL /s",
    "ratio",
    "CPU SQLite",
    "CPU server",
    "CPU PostgreSQL",
    "statements /s",
)
_FACTS: Final = (
    "Ratio: requests per second on PostgreSQL divided by those on SQLite; medians of the runs.",
    "CPU: µs for each request, of the server on SQLite, of the server on PostgreSQL, and of"
    " PostgreSQL.",
    "Statements: those of the row, sent to PostgreSQL without Perseid.",
)


class Result(NamedTuple):
    """One row of the table."""

    compared: ComparedRuns
    statement_rates: Sequence[float]  # without Perseid; empty where that is not measured

    @property
    def ratio(self) -> float | None:
        if not self.compared.baseline_runs:
            return None
        return medians(self.compared.runs).rate / medians(self.compared.baseline_runs).rate

    def as_json(self) -> dict[str, Any]:
        rates = {"ratio": self.ratio, "statementRates": [*self.statement_rates]}
        return self.compared.as_json() | rates


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@options.PAIRS
@options.SECONDS
@options.DOCUMENTS
@click.option(
    "--only",
    type=click.Choice([each.name for each in OPERATIONS]),
    multiple=True,
    help="Measure only this row; can be given more than once.",
)
@click.option("--no-sqlite", is_flag=True, help="Measure PostgreSQL alone.")
@options.JSON_FILE
@options.MARKDOWN_FILE
def main(
    *,
    pairs: int,
    seconds: int,
    documents: int,
    only: tuple[str, ...],
    no_sqlite: bool,
    json_file: Path | None,
    markdown_file: Path | None,
) -> None:
    """Compare Perseid on PostgreSQL with Perseid on SQLite; every commit is forced to disk."""
    chosen = [each for each in OPERATIONS if not only or each.name in only]
    plan = Plan(chosen, pairs, seconds, documents)
    log = Console(stderr=True, log_path=False).log
    servers.stop_on_sigterm()
    try:
        conditions, results = _measure(plan, has_baseline=not no_sqlite, log=log)
    except BenchError as exc:
        raise click.ClickException(str(exc)) from exc
    value = {"conditions": conditions, "rows": [each.as_json() for each in results]}
    tables.publish(_table(conditions, results), value, json_file, markdown_file)


def _measure(
    plan: Plan, *, has_baseline: bool, log: Callable[[str], None]
) -> tuple[dict[str, Any], list[Result]]:
    """The conditions, and a result for each row."""
    with ExitStack() as stack:
        scratch = stack.enter_context(servers.scratch_directory())
        postgres = stack.enter_context(Postgres(durable=True))
        storage, sqlite = PostgresStorage(postgres), SqliteStorage("Perseid on SQLite")
        server_data = storage.make(scratch / "postgres")
        ours = _start(storage, server_data, plan, stack, log)
        baseline = None
        if has_baseline:
            baseline = _start(sqlite, sqlite.make(scratch / "sqlite"), plan, stack, log)
        client, driver = next(iter(drivers(scratch).items()))
        compared = []
        for operation in plan.operations:
            common = (driver, plan.documents, plan.seconds, postgres.postmaster())
            measure = partial(run, operation, ours, *common)
            measure_baseline = baseline and partial(run, operation, baseline, *common)
            compared.append(compare(operation, measure_baseline, measure, plan.pairs))
            log(_summary(compared[-1]))
        # After all other rows: these creates make the table larger.
        results = [Result(each, _statement_rates(each, server_data, plan)) for each in compared]
    return plan.conditions(client), results


def _start(
    storage: Storage,
    server_data: ServerData,
    plan: Plan,
    stack: ExitStack,
    log: Callable[[str], None],
) -> Server:
    server = stack.enter_context(servers.perseid(server_data))
    log(f"{server.name}: loading {plan.documents:,} documents")
    load(server, plan.documents)
    storage.flush(server_data)
    return server


def _statement_rates(compared: ComparedRuns, server_data: ServerData, plan: Plan) -> list[float]:
    name, _, _ = compared.operation.name.partition(", 1 connection")
    if not raw_statements.is_known(name):
        return []
    connections = compared.operation.connections
    return [
        raw_statements.rate(server_data, name, connections, plan.seconds) for _ in range(plan.pairs)
    ]


def _summary(compared: ComparedRuns) -> str:
    rates = [
        figure_text(medians(runs).rate) for runs in (compared.baseline_runs, compared.runs) if runs
    ]
    return f"{compared.operation.name}: {' and '.join(rates)} req/s"


def _table(conditions: dict[str, Any], results: Sequence[Result]) -> TextTable:
    caption = f"{tables.conditions_text(conditions)}."
    lines = [Line(_cells(each)) for each in results]
    title = "PostgreSQL compared with SQLite"
    return TextTable(title, _HEADINGS, lines, caption, _FACTS, labels=1)


def _cells(result: Result) -> tuple[str, ...]:
    runs = medians(result.compared.runs)
    ours = figure_text(runs.rate)
    cpu = _microseconds(runs.cpu_ms), _microseconds(runs.database_cpu_ms)
    rates = result.statement_rates
    statements = figure_text(median(rates)) if rates else ""
    name = result.compared.operation.name
    if result.ratio is None:
        return name, "", ours, "", "", *cpu, statements
    baseline = medians(result.compared.baseline_runs)
    rate, baseline_cpu = figure_text(baseline.rate), _microseconds(baseline.cpu_ms)
    return name, rate, ours, f"{result.ratio:.2f}", baseline_cpu, *cpu, statements


def _microseconds(milliseconds: float) -> str:
    return f"{milliseconds * 1000:,.0f}"


if __name__ == "__main__":
    main(prog_name="python -m bench.databases")
