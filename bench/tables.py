"""Tables of text: on the console, and as Markdown; they know nothing about what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table


class Line(NamedTuple):
    cells: tuple[str, ...]
    style: str | None = None  # on the console
    is_last: bool = False  # of a section


class TextTable(NamedTuple):
    """A table, the conditions under which it was measured, and further facts."""

    title: str
    headings: tuple[str, ...]
    lines: Sequence[Line]
    caption: str
    facts: Sequence[str] = ()
    labels: int = 2  # columns on the left that are no figures


def show(table: TextTable, console: Console) -> None:
    shown = Table(title=table.title, caption=table.caption, caption_justify="left")
    for number, heading in enumerate(table.headings):
        shown.add_column(heading, justify="left" if number < table.labels else "right")
    for cells, style, is_last in table.lines:
        shown.add_row(*cells, style=style, end_section=is_last)
    console.print(shown)
    for fact in table.facts:
        console.print(fact, highlight=False, soft_wrap=True)


def markdown(table: TextTable) -> str:
    figures = len(table.headings) - table.labels
    rule = ("---",) * table.labels + ("---:",) * figures
    rows = (table.headings, rule, *(line.cells for line in table.lines))
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    listed = "\n".join(f"- {fact}" for fact in (table.caption, *table.facts))
    return f"{text}\n\n{listed}\n"


def conditions_text(conditions: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in conditions.items())


def figure_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def publish(
    table: TextTable, value: dict[str, Any], json_file: Path | None, markdown_file: Path | None
) -> None:
    """Shows a table, and writes it and its figures to the files that were named."""
    if json_file is not None:
        write_json(value, json_file)
    if markdown_file is not None:
        markdown_file.write_text(markdown(table))
    show(table, Console())


def write_json(value: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
