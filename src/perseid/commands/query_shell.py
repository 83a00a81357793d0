"""The shell of `perseid query`: each line is a query or a command that starts with a dot."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from perseid import private_files
from perseid.commands.arguments import parse_key, parse_parameter
from perseid.commands.connection import Refused
from perseid.commands.data_client import QueryPage
from perseid.commands.output import json_text, print_json, printable
from perseid.commands.query import (
    FORMATS,
    PRINTERS,
    QuerySession,
    show_plan,
    show_results,
)
from perseid.commands.resource_client import (
    ResourcePath,
    container_names,
    database_names,
    read_resource,
)
from perseid.commands.shell_completion import ShellCompleter, complete_with

_HISTORY_LINES: Final = 2000
_WITHOUT_DOT: Final = {"exit": ".exit", "quit": ".quit", "help": ".help"}


class Shell:
    """Executes lines; a line that fails prints a message and the shell continues."""

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
        """Executes one line."""
        line = line.strip().rstrip(";").strip()
        if not line:
            return
        try:
            if line.startswith("."):
                self._command(line)
            elif line.lower() in _WITHOUT_DOT:  # as in other shells
                self._command(_WITHOUT_DOT[line.lower()])
            else:
                self._rest = self.session.pages(line)
                self._more()
        except click.ClickException as exc:
            click.echo(exc.format_message(), err=True)

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise click.ClickException(
                f"Unknown command {printable(name)}; .help lists the commands."
            )
        command(self, rest.strip())

    def _more(self, _rest: str = "") -> None:
        """show the next page of the last query"""
        page = None if self._rest is None else next(self._rest, None)
        if page is None:
            raise click.ClickException("No more results.")
        output_format = self.session.output_format
        if output_format == "lines":
            for row in page.rows:
                print_json(row)
        print_page = show_results if output_format == "lines" else PRINTERS[output_format]
        print_page([] if output_format == "lines" else page.rows, len(page.rows), page.charge, 1)
        if page.continuation is not None:
            click.echo("More results: .more", err=True)
        else:
            self._rest = None

    def _use(self, rest: str) -> None:
        """DATABASE CONTAINER: query this container from now on"""
        try:
            names = shlex.split(rest)  # names may contain spaces
        except ValueError:  # or a single quote
            names = rest.split()
        if len(names) not in (1, 2):
            raise click.ClickException("Usage: .use DATABASE CONTAINER")
        try:
            if len(names) == 2:
                read_resource(self.session.connection, ResourcePath(*names))
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
        """list the databases"""
        self._list(database_names(self.session.connection))

    def _containers(self, _rest: str) -> None:
        """list the containers of the current database"""
        if self.session.database is None:
            raise click.ClickException("No database selected; use .use DATABASE first.")
        self._list(container_names(self.session.connection, self.session.database))

    def _list(self, names: list[str]) -> None:
        for name in names:
            click.echo(printable(name))

    def _set(self, rest: str) -> None:
        """@NAME=VALUE: set a parameter for all following queries; alone: show all"""
        if rest:
            name, value = parse_parameter(rest, ".set")
            self.session.parameters[name] = value
        for name, value in self.session.parameters.items():
            click.echo(f"{printable(name)} = {json_text(value)}")

    def _unset(self, rest: str) -> None:
        """@NAME: remove a parameter"""
        if self.session.parameters.pop(f"@{rest.lstrip('@')}", None) is None:
            raise click.ClickException(f"There is no parameter {printable(rest)}.")

    def _partition_key(self, rest: str) -> None:
        """JSON: query one partition only; alone: all partitions"""
        self.session.partition_key = parse_key(rest) if rest else None

    def _format(self, rest: str) -> None:
        """table, json or lines: choose the output format"""
        if rest not in FORMATS:
            raise click.ClickException(f"Usage: .format {'|'.join(FORMATS)}")
        self.session.output_format = rest

    def _page(self, rest: str) -> None:
        """N: set the maximum number of results per page"""
        if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest) <= 1000:
            raise click.ClickException("Usage: .page N, with N from 1 to 1000")
        self.session.page_size = int(rest)

    def _explain(self, rest: str) -> None:
        """QUERY: show how the query is executed"""
        if not rest:
            raise click.ClickException("Usage: .explain QUERY")
        show_plan(self.session.explain(rest), self.session.output_format)

    def _help(self, _rest: str) -> None:
        """list all commands"""
        click.echo("Each line is a query. A line that ends with \\ continues on the next line.")
        click.echo("Tab completes commands, names, properties (c.n), keywords and functions.")
        for name, command in COMMANDS.items():
            click.echo(f"  {name:<16}{command.__doc__}")

    def _quit(self, _rest: str) -> None:
        """leave the shell, like Ctrl-D"""
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
    ".exit": Shell._quit,
    ".quit": Shell._quit,
}


def run_shell(session: QuerySession) -> None:
    """Executes lines from the terminal until Ctrl-D or .exit."""
    shell = Shell(session)
    click.echo("Enter a query, or .help for help. Tab completes; exit or Ctrl-D exits.", err=True)
    with _history(ShellCompleter(session, COMMANDS)):
        while not shell.is_finished:
            try:
                shell.enter(_read(shell.prompt))
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:  # drops the line, as other shells do
                click.echo()


def _read(prompt: str) -> str:
    line = input(prompt)
    while line.endswith("\\"):
        line = f"{line[:-1]} {input('... ')}"
    return line


def history_file() -> Path:
    """PERSEID_HISTORY, otherwise a file in the XDG state directory."""
    if configured := os.environ.get("PERSEID_HISTORY"):
        return Path(configured)
    return private_files.user_path() / "history"


@contextlib.contextmanager
def _history(completer: ShellCompleter) -> Iterator[None]:
    """Line editing, completion and saved history, if the system has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    complete_with(readline, completer)
    try:
        yield
    finally:
        readline.set_history_length(_HISTORY_LINES)
        with contextlib.suppress(OSError):
            path.parent.mkdir(0o700, parents=True, exist_ok=True)
            private_files.open_file(path, "a+").close()  # queries may contain private data
            readline.write_history_file(path)
