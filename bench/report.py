"""Shows the figures as a table, as Markdown or as JSON; measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console

from bench import tables
from bench.load import Sample
from bench.tables import Line, TextTable, conditions_text, figure_text

_MIB = 1024 * 1024
_HEADINGS = ("operation", "server", "req/s", "p50 ms", "p99 ms")
_MEASUREMENT_HEADINGS = ("figure: baseline", "measured", "baseline", "ratio", "target")


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
    """The result of one benchmark; samples by operation, then by server."""

    conditions: dict[str, Any]
    processes: Sequence[Process]  # Perseid first, then the peer if there was one
    samples: dict[str, dict[str, list[Sample]]]
    note: str | None  # why there is no peer
    remark: str  # how the peer differs


@dataclass(frozen=True, slots=True)
class TargetRatio:
    """The ratio to reach."""

    ratio: float
    is_minimum: bool = False

    def __str__(self) -> str:
        return f"{'at least' if self.is_minimum else 'at most'} {self.ratio:.2f}"

    def is_met_by(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.is_minimum else ratio <= self.ratio


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure and its baseline, run by run."""

    name: str
    runs: Sequence[float]
    baseline_runs: Sequence[float]

    @property
    def measured_value(self) -> float:
        return median(self.runs)

    @property
    def baseline(self) -> float:
        return median(self.baseline_runs)

    @property
    def ratio(self) -> float:
        return self.measured_value / self.baseline


@dataclass(frozen=True, slots=True)
class Measurement:
    """A row of a table; its ratio is the worst of its parts. Without parts it was not measured.

    Without a target the row is for information, and a higher ratio is better.
    """

    name: str
    target_ratio: TargetRatio | None
    parts: Sequence[Comparison]
    note: str | None = None

    @property
    def ratio(self) -> float | None:
        worst = min if self.target_ratio is None or self.target_ratio.is_minimum else max
        return worst((part.ratio for part in self.parts), default=None)

    @property
    def is_met(self) -> bool | None:
        if self.ratio is None or self.target_ratio is None:
            return None
        return self.target_ratio.is_met_by(self.ratio)

    @property
    def verdict(self) -> str:
        """The ratio and its target in words."""
        if self.ratio is None:
            return "not measured"
        if self.target_ratio is None:
            return f"ratio {self.ratio:.2f}"
        return f"ratio {self.ratio:.2f}, {self.target_ratio}{'' if self.is_met else ': missed'}"


@dataclass(frozen=True, slots=True)
class MeasurementTable:
    """The rows about one subject."""

    title: str
    conditions: dict[str, Any]
    measurements: Sequence[Measurement]


class Results(NamedTuple):
    """All tables; None for one that was not requested."""

    operations: Report | None
    measurements: Sequence[MeasurementTable]


def figures(samples: Sequence[Sample]) -> Figures:
    return Figures(
        median(sample.rate for sample in samples),
        median(sample.p50_ms for sample in samples),
        median(sample.p99_ms for sample in samples),
    )


def ratios(ours: Figures, theirs: Figures) -> Figures:
    """Our figures divided by theirs: above 1 is better for the rate, below 1 for latencies."""
    return Figures(
        ours.rate / theirs.rate, ours.p50_ms / theirs.p50_ms, ours.p99_ms / theirs.p99_ms
    )


def rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}"


def show(results: Results, console: Console) -> None:
    for table in _tables(results):
        tables.show(table, console)


def markdown(results: Results) -> str:
    return "\n".join(map(tables.markdown, _tables(results)))


def _tables(results: Results) -> Iterator[TextTable]:
    if (report := results.operations) is not None:
        yield TextTable(
            "Perseid benchmark", _HEADINGS, [*_lines(report)], _caption(report), [*_facts(report)]
        )
    for subject in results.measurements:
        yield TextTable(
            subject.title,
            (subject.title.lower(), *_MEASUREMENT_HEADINGS),
            [line for each in subject.measurements for line in _measurement_lines(each)],
            _measurements_caption(subject),
            [*_notes(subject)],
        )


def write_json(results: Results, path: Path) -> None:
    value: dict[str, Any] = {}
    if (report := results.operations) is not None:
        value |= {
            "conditions": report.conditions,
            "note": report.note,
            "servers": [asdict(process) for process in report.processes],
            "operations": {name: _operation(report, name) for name in report.samples},
        }
    for subject in results.measurements:
        value[subject.title] = {
            "conditions": subject.conditions,
            "rows": [
                asdict(measurement) | {"ratio": measurement.ratio, "isMet": measurement.is_met}
                for measurement in subject.measurements
            ],
        }
    tables.write_json(value, path)


def _operation(report: Report, name: str) -> dict[str, Any]:
    servers = {
        server: {
            "median": figures(samples)._asdict(),
            "runs": [sample._asdict() for sample in samples],
        }
        for server, samples in report.samples[name].items()
    }
    ratio = _ratios_of(report, name)
    return {"servers": servers, "ratio": ratio and ratio._asdict()}


def _ratios_of(report: Report, operation: str) -> Figures | None:
    if len(report.processes) == 1:
        return None
    ours, theirs = (figures(report.samples[operation][each.name]) for each in report.processes)
    return ratios(ours, theirs)


def _lines(report: Report) -> Iterator[Line]:
    """The rows of the table: each server, then the ratio."""
    for operation, servers in report.samples.items():
        operation_ratios = _ratios_of(report, operation)
        for number, process in enumerate(report.processes):
            rate, p50, p99 = figures(servers[process.name])
            label = operation if number == 0 else ""
            cells = label, process.name, rate_text(rate), f"{p50:.2f}", f"{p99:.2f}"
            yield Line(cells, is_last=operation_ratios is None)
        if operation_ratios is not None:
            yield Line(("", "ratio", *map(figure_text, operation_ratios)), "bold", is_last=True)


def _caption(report: Report) -> str:
    conditions = conditions_text(report.conditions)
    if len(report.processes) == 1:
        return f"{conditions}."
    ours, theirs = (process.name for process in report.processes)
    return (
        f"{conditions}. Ratio: {ours} divided by {theirs};"
        " above 1 is better for req/s, below 1 for ms."
    )


def _facts(report: Report) -> Iterator[str]:
    for each in report.processes:
        yield (
            f"{each.name} {each.version}: started in {each.start_seconds * 1000:.0f} ms,"
            f" memory {each.memory_after_start / _MIB:.0f} MiB after start,"
            f" {each.memory_after_run / _MIB:.0f} MiB after the run"
        )
    if len(report.processes) > 1:
        yield report.remark
    if report.note is not None:
        yield f"No baseline: {report.note}"


def _measurement_lines(measurement: Measurement) -> Iterator[Line]:
    style = "bold red" if measurement.is_met is False else None
    *first, last = _measurement_cells(measurement)
    yield from (Line(cells, style) for cells in first)
    yield Line(last, style, is_last=True)


def _measurement_cells(measurement: Measurement) -> Iterator[tuple[str, ...]]:
    """Those of each part, then the worst ratio if there are several."""
    target_ratio = "" if measurement.target_ratio is None else str(measurement.target_ratio)
    if measurement.ratio is None:
        yield measurement.name, "not measured", "", "", "", target_ratio
        return
    is_one = len(measurement.parts) == 1
    target_text = f"{target_ratio}: missed" if measurement.is_met is False else target_ratio
    for number, part in enumerate(measurement.parts):
        label = measurement.name if number == 0 else ""
        measured_value, baseline, ratio = (
            figure_text(part.measured_value),
            figure_text(part.baseline),
            f"{part.ratio:.2f}",
        )
        yield label, part.name, measured_value, baseline, ratio, target_text if is_one else ""
    if not is_one:
        yield "", "worst of these", "", "", f"{measurement.ratio:.2f}", target_text


def _measurements_caption(subject: MeasurementTable) -> str:
    conditions = conditions_text(subject.conditions)
    return f"{conditions}. Medians of the runs; ratio: measured divided by baseline."


def _notes(subject: MeasurementTable) -> Iterator[str]:
    for measurement in subject.measurements:
        if measurement.note is not None:
            yield f"{measurement.name}: {measurement.note}"
