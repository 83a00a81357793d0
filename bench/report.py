"""The figures as a table for people, as Markdown and as JSON; measures nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.load import Sample

_MIB = 1024 * 1024
_HEADINGS = ("operation", "server", "req/s", "p50 ms", "p99 ms")


class Figures(NamedTuple):
    """Medians of the runs of one operation on one server."""

    rate: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Process:
    """A server as a process."""

    name: str
    version: str
    start_seconds: float
    memory_after_start: int  # bytes
    memory_after_run: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one benchmark found; samples are kept by operation, then by server."""

    conditions: dict[str, Any]
    processes: Sequence[Process]  # Perseid first, then the peer if there was one
    samples: dict[str, dict[str, list[Sample]]]
    note: str | None  # why there is no peer


def figures(samples: Sequence[Sample]) -> Figures:
    return Figures(
        median(sample.rate for sample in samples),
        median(sample.p50_ms for sample in samples),
        median(sample.p99_ms for sample in samples),
    )


def ratios(ours: Figures, theirs: Figures) -> Figures:
    """How many times better we are; above 1 is in our favour, latencies included."""
    return Figures(
        ours.rate / theirs.rate, theirs.p50_ms / ours.p50_ms, theirs.p99_ms / ours.p99_ms
    )


def rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}"


def show(report: Report, console: Console) -> None:
    table = Table(title="Perseid benchmark", caption=_caption(report), caption_justify="left")
    for number, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for line in _lines(report):
        is_last = line[1] == "ratio" or len(report.processes) == 1
        table.add_row(*line, style="bold" if line[1] == "ratio" else None, end_section=is_last)
    console.print(table)
    for fact in _facts(report):
        console.print(fact, highlight=False, soft_wrap=True)


def markdown(report: Report) -> str:
    rows = [_HEADINGS, ("---", "---", "---:", "---:", "---:"), *_lines(report)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    facts = "\n".join(f"- {fact}" for fact in (_caption(report), *_facts(report)))
    return f"{table}\n\n{facts}\n"


def write_json(report: Report, path: Path) -> None:
    value = {
        "conditions": report.conditions,
        "note": report.note,
        "servers": [asdict(process) for process in report.processes],
        "operations": {name: _operation(report, name) for name in report.samples},
    }
    path.write_text(json.dumps(value, indent=2) + "\n")


def _operation(report: Report, name: str) -> dict[str, Any]:
    servers = {
        server: {
            "median": figures(samples)._asdict(),
            "runs": [sample._asdict() for sample in samples],
        }
        for server, samples in report.samples[name].items()
    }
    found = _ratios_of(report, name)
    return {"servers": servers, "ratio": found and found._asdict()}


def _ratios_of(report: Report, operation: str) -> Figures | None:
    if len(report.processes) == 1:
        return None
    ours, theirs = (figures(report.samples[operation][each.name]) for each in report.processes)
    return ratios(ours, theirs)


def _lines(report: Report) -> Iterator[tuple[str, ...]]:
    """The rows of the table: each server, then the ratio."""
    for operation, servers in report.samples.items():
        for number, process in enumerate(report.processes):
            rate, p50, p99 = figures(servers[process.name])
            label = operation if number == 0 else ""
            yield label, process.name, rate_text(rate), f"{p50:.2f}", f"{p99:.2f}"
        found = _ratios_of(report, operation)
        if found is not None:
            yield ("", "ratio", *(f"{ratio:.2f}" for ratio in found))


def _caption(report: Report) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in report.conditions.items())
    if len(report.processes) == 1:
        return f"{shown}."
    return f"{shown}. Ratio: above 1.00 Perseid is the better one."


def _facts(report: Report) -> Iterator[str]:
    for each in report.processes:
        yield (
            f"{each.name} {each.version}: started in {each.start_seconds * 1000:.0f} ms,"
            f" memory {each.memory_after_start / _MIB:.0f} MiB after start,"
            f" {each.memory_after_run / _MIB:.0f} MiB after the run"
        )
    if len(report.processes) > 1:
        yield "Perseid forces each commit to disk; the other keeps everything in memory"
    if report.note is not None:
        yield f"No comparison: {report.note}"
