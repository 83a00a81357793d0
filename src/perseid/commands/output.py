"""How commands print results: JSON, tables, sizes, and text without control characters."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from perseid.commands.admin_client import Answer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_BYTES: Final = ("bytes", "KB", "MB", "GB", "TB")


def print_if_json(answer: Answer, as_json: bool) -> bool:
    """Prints the response unchanged and returns True if --json was given."""
    if as_json:
        click.echo(answer.text)
    return as_json


def print_json(value: Any) -> None:
    """Prints one line, with escapes if the output's encoding lacks a character."""
    text = json_text(value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    click.echo(text)


def console(*, stderr: bool = False) -> Console:
    """A console that prints markup in names and ids as it is."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):  # whose encoding may lack characters
        stream.reconfigure(errors="replace")
    # Some terminals report a width of 0, with which rich would print nothing.
    width = 80 if os.environ.get("COLUMNS") == "0" else None
    return Console(markup=False, highlight=False, emoji=False, stderr=stderr, width=width)


def show(table: RenderableType) -> None:
    console().print(table)


def show_table(title: str | None, rows: Iterable[tuple[str, object]]) -> None:
    """Prints names on the left and their values on the right."""
    from rich.table import Table

    table = Table(
        show_header=False,
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(printable(name), printable(str(value)))
    if title is not None:  # a separate line: the title of a table wraps at its width
        console().print(printable(title), style="bold", soft_wrap=True)
    show(table)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def bytes_text(size: float) -> str:
    for unit in _BYTES:
        if size < 1024 or unit == _BYTES[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """The text without control characters, which could move the cursor: ids may hold any."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
