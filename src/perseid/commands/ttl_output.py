"""How `perseid ttl` prints counts, policies, histograms and audit entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from perseid.commands.output import bytes_text, console, json_text, plural, printable, show
from perseid.commands.time_text import duration_text, instant_text

_BAR_WIDTH: Final = 24


def show_histogram(title: str, bars: Sequence[Mapping[str, Any]]) -> None:
    """Prints a line for each bucket, with a bar whose length shows the number of items."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(
        title=printable(title),
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("from")
    table.add_column("items", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    rows = [
        (instant_text(bar["from"]), str(bar["items"]), bytes_text(bar["bytes"])) for bar in bars
    ]
    if not _has_room_for_bars(rows):  # the numbers matter more than the bars
        for row in rows:
            table.add_row(*row)
        show(table)
        return
    table.add_column(no_wrap=True)
    most = max((bar["items"] for bar in bars), default=0) or 1
    least = most / (2 * _BAR_WIDTH)  # half a cell, so that every bucket with items shows a bar
    for bar, row in zip(bars, rows, strict=True):
        items = bar["items"]
        length = max(items, least) if items else 0
        bar_cell = ProgressBar(
            total=most, completed=length, width=_BAR_WIDTH, finished_style="bar.complete"
        )
        table.add_row(*row, bar_cell)
    show(table)


def _has_room_for_bars(rows: Sequence[tuple[str, ...]]) -> bool:
    widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return sum(max(width, 5) + 2 for width in widths) + _BAR_WIDTH <= console().width


def container_name(value: Mapping[str, Any]) -> str:
    """`database/container` from the path in a response."""
    _, database, _, container = value["container"].split("/")
    return f"{unquote(database)}/{unquote(container)}"


def policy_text(default_ttl: float | None) -> str:
    if default_ttl is None:
        return "off"
    if default_ttl == -1:
        return "on, no default"
    return f"{default_ttl} s ({duration_text(default_ttl)})"


def count_text(count: Mapping[str, int]) -> str:
    return f"{plural(count['items'], 'item')}, {bytes_text(count['bytes'])}"


def sample_text(sample: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['id']} {json_text(each['partitionKey'])}" for each in sample)


def entry_text(entry: Mapping[str, Any]) -> str:
    """What an audit entry says besides time, container, event and caller."""
    parts = []
    if "defaultTtl" in entry:
        old, new = (policy_text(entry["defaultTtl"][side]) for side in ("old", "new"))
        parts.append(f"{old} -> {new}")
    if "clock" in entry:
        old, new = (instant_text(entry["clock"][side]) for side in ("old", "new"))
        parts.append(f"{old} -> {new}")
    for name, text in (("expiredImmediately", "expired immediately"), ("restored", "restored")):
        if name in entry:
            parts.append(f"{text}: {count_text(entry[name])}")
    for name, text in _SETTINGS.items():
        if name in entry:
            parts.append(f"{text}: {entry[name]}")
    return printable("; ".join(parts))


_SETTINGS: Final = {
    "alreadyPurged": "already purged",
    "purgeHoldSeconds": "purge hold",
    "guard": "guard",
}
