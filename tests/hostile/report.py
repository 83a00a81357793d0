"""The table of `make hostile`: one row for each scenario."""

from __future__ import annotations

from typing import Final

from tests.hostile.play import Result

COLUMNS: Final = (
    ("scenario", 20),
    ("requests", 8),
    ("idle p50/p99", 13),
    ("p50", 7),
    ("p99", 8),
    ("max ms", 8),
    ("ratio", 6),
    ("create", 7),
    ("late", 5),
    ("server", 7),
    ("workers", 10),
    ("hangs", 5),
)


def header() -> str:
    names = " ".join(name.ljust(width) for name, width in COLUMNS[:1])
    rest = " ".join(name.rjust(width) for name, width in COLUMNS[1:])
    return f"{names} {rest}  verdict"


def row(result: Result) -> str:
    idle, during = result.idle, result.during
    ratio = during.p99 / idle.p99 if idle.p99 else 0.0
    cells = (
        result.scenario.name,
        f"{result.tally.requests}",
        f"{idle.p50:.1f}/{idle.p99:.1f}",
        f"{during.p50:.1f}",
        f"{during.p99:.1f}",
        f"{during.highest:.0f}",
        f"{ratio:.1f}",
        f"{during.create_p99:.0f}",
        f"{during.late_p99:.0f}",
        f"{result.server_megabytes}",
        f"{result.worker_megabytes}/{result.worker_count}",
        f"{result.hangs}",
    )
    widths = [width for _, width in COLUMNS]
    text = " ".join(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    verdict = f"FAILED: {'; '.join(result.failures)}" if result.failures else "passed"
    return f"{cells[0].ljust(widths[0])} {text}  {verdict}"


def details(result: Result) -> list[str]:
    """Statuses, and one example of each failure."""
    statuses = ", ".join(
        f"{name}: {count}" for name, count in sorted(result.tally.statuses.items())
    )
    lines = [f"    {result.scenario.description}", f"    answers {statuses or 'none'}"]
    lines += [f"    {failure}: {text}" for failure, text in result.tally.examples.items()]
    return lines


LEGEND: Final = (
    "Times in milliseconds, point reads of an honest client; ratio: p99 compared with idle."
    " create: p99 of its creates. late: p99 of its own wake-ups,"
    " which a busy machine delays. Memory: highest MB of the server, and of its workers together"
    " with their number."
)
