"""The shell of `perseid query`: a line is a query, or a command that starts with a dot."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from perseid.commands.connection import Refused
from perseid.commands.data_client import (
    QueryPage,
    container_names,
    database_names,
    read_container,
)
from perseid.commands.output import json_text, print_json, printable
from perseid.commands.query import (
    FORMATS,
    PRINTERS,
    QuerySession,
    parse_key,
    parse_parameter,
    show_plan,
    show_results,
)

_HISTORY_LINES: Final = 2000
_WITHOUT_DOT: Final = {"exit": "quit", "quit": "quit", "help": "help"}
_KEYWORDS: Final = (
    "SELECT", "VALUE", "DISTINCT", "TOP", "FROM", "JOIN", "IN", "WHERE", "AND", "OR", "NOT",
    "BETWEEN", "LIKE", "EXISTS", "ARRAY", "GROUP BY", "ORDER BY", "ASC", "DESC", "OFFSET", "LIMIT",
    "COUNT", "SUM", "MIN", "MAX", "AVG", "CONTAINS", "STARTSWITH", "ARRAY_CONTAINS", "IS_DEFINED",
)  # fmt: skip


class Shell:
    """One conversation; `tell` prints, failures are told and end nothing."""

    def __init__(self, session: QuerySession) -> None:
        self.session = session
        self._rest: Iterator[QueryPage] | None = None
        self.is_finished = False

    @property
    def prompt(self) -> str:
        session = self.session
        container_name = (
            "/".join(filter(None, (session.database, session.container))) or "no container"
        )
        return f"{printable(container_name)}> "

    def enter(self, line: str) -> None:
        """Does what a line says."""
        line = line.strip().rstrip(";").strip()
        if not line:
            return
        try:
            if line.startswith("."):
                self._command(line)
            elif line.lower() in _WITHOUT_DOT:
                raise click.ClickException(f"Say .{_WITHOUT_DOT[line.lower()]}.")
            else:
                self._rest = self.session.pages(line)
                self._more()
        except click.ClickException as exc:
            click.echo(exc.format_message(), err=True)

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise click.ClickException(f"There is no {printable(name)}; .help lists what there is.")
        command(self, rest.strip())

    def _more(self, _rest: str = "") -> None:
        """shows the next page of the last query"""
        page = None if self._rest is None else next(self._rest, None)
        if page is None:
            raise click.ClickException("There are no more results.")
        output_format = self.session.output_format
        if output_format == "lines":
            for row in page.rows:
                print_json(row)
        print_page = show_results if output_format == "lines" else PRINTERS[output_format]
        print_page([] if output_format == "lines" else page.rows, len(page.rows), page.charge, 1)
        if page.continuation is not None:
            click.echo("There is more: .more", err=True)
        else:
            self._rest = None

    def _use(self, rest: str) -> None:
        """DATABASE CONTAINER: asks that container from now on"""
        try:
            names = shlex.split(rest)  # names may hold spaces
        except ValueError:  # or one lone quote
            names = rest.split()
        if len(names) not in (1, 2):
            raise click.ClickException("Say .use DATABASE CONTAINER.")
        try:
            if len(names) == 2:
                read_container(self.session.connection, *names)
            else:
                container_names(self.session.connection, *names)
        except Refused as exc:
            if exc.status != 404:
                raise
            kind = "container" if len(names) == 2 else "database"
            raise click.ClickException(f"There is no {kind} {printable('/'.join(names))}.") from exc
        self.session.database = names[0]
        self.session.container = names[1] if len(names) == 2 else None

    def _databases(self, _rest: str) -> None:
        """lists the databases"""
        self._list(database_names(self.session.connection))

    def _containers(self, _rest: str) -> None:
        """lists the containers of the database in use"""
        if self.session.database is None:
            raise click.ClickException("Say .use DATABASE first.")
        self._list(container_names(self.session.connection, self.session.database))

    def _list(self, names: list[str]) -> None:
        for name in names:
            click.echo(printable(name))

    def _set(self, rest: str) -> None:
        """@NAME=VALUE: a parameter for all queries that follow; alone: shows them"""
        if rest:
            name, value = parse_parameter(rest, ".set")
            self.session.parameters[name] = value
        for name, value in self.session.parameters.items():
            click.echo(f"{printable(name)} = {json_text(value)}")

    def _unset(self, rest: str) -> None:
        """@NAME: forgets a parameter"""
        if self.session.parameters.pop(f"@{rest.lstrip('@')}", None) is None:
            raise click.ClickException(f"There is no parameter {printable(rest)}.")

    def _partition_key(self, rest: str) -> None:
        """JSON: asks one partition only; alone: all"""
        self.session.partition_key = parse_key(rest) if rest else None

    def _format(self, rest: str) -> None:
        """table, json or lines: how results are shown"""
        if rest not in FORMATS:
            raise click.ClickException(f"Say .format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
        self.session.output_format = rest

    def _page(self, rest: str) -> None:
        """N: the most results in a page"""
        if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest) <= 1000:
            raise click.ClickException("Say .page with a number from 1 to 1000.")
        self.session.page_size = int(rest)

    def _explain(self, rest: str) -> None:
        """QUERY: shows how it would be answered"""
        if not rest:
            raise click.ClickException("Say .explain with a query behind it.")
        show_plan(self.session.explain(rest), self.session.output_format)

    def _help(self, _rest: str) -> None:
        """lists all this"""
        click.echo("A line is a query; one that ends with \\ goes on in the next line.")
        for name, command in COMMANDS.items():
            click.echo(f"  {name:<16}{command.__doc__}")

    def _quit(self, _rest: str) -> None:
        """ends the shell, as Ctrl-D does"""
        self.is_finished = True


COMMANDS: Final[dict[str, Callable[[Shell, str], None]]] = {
    ".use": Shell._use,
    ".databases": Shell._databases,
    ".containers": Shell._containers,
    ".more": Shell._more,
    ".set": Shell._set,
    ".unset": Shell._unset,
    ".partition-key": Shell._partition_key,
    ".format": Shell._format,
    ".page": Shell._page,
    ".explain": Shell._explain,
    ".help": Shell._help,
    ".quit": Shell._quit,
}


def run_shell(session: QuerySession) -> None:
    """Reads lines from the terminal until Ctrl-D or .quit."""
    shell = Shell(session)
    click.echo("Queries, or .help; Ctrl-D ends.", err=True)
    with _history():
        while not shell.is_finished:
            try:
                shell.enter(_read(shell.prompt))
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:  # forgets the line, as shells do
                click.echo()


def _read(prompt: str) -> str:
    line = input(prompt)
    while line.endswith("\\"):
        line = f"{line[:-1]} {input('... ')}"
    return line


def history_file() -> Path:
    """PERSEID_HISTORY, else where the system keeps such things."""
    if configured := os.environ.get("PERSEID_HISTORY"):
        return Path(configured)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "perseid" / "history"


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Line editing, completion and the lines of earlier days, where the system has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    _complete_words(readline)
    try:
        yield
    finally:
        readline.set_history_length(_HISTORY_LINES)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
            path.chmod(0o600)  # queries may hold what others should not read


def _complete_words(readline: ModuleType) -> None:
    def complete(start: str, state: int) -> str | None:
        candidates = [
            *(name for name in COMMANDS if name.startswith(start)),
            *(word for word in _KEYWORDS if start and word.startswith(start.upper())),
        ]
        return candidates[state] if state < len(candidates) else None

    readline.set_completer_delims(" \t\n(),=")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
