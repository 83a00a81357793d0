"""The command line: all commands, and how failures become a message and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click

from perseid import __version__
from perseid.commands.interruption import INTERRUPTED

# Each command and its module, which has a function of the same name as itself. A command is
# imported when it is used: a server starts faster without the others.
_COMMANDS: Final = {
    "check": "check",
    "clock": "clock",
    "completion": "completion",
    "container": "container",
    "db": "db",
    "delete": "delete_items",
    "doctor": "doctor",
    "export": "export_items",
    "import": "import_items",
    "portal": "portal",
    "query": "query",
    "serve": "serve",
    "trust": "trust",
    "ttl": "ttl",
}


class _Commands(click.Group):
    """Loads commands by name; turns operating system errors and Ctrl-C into a message and an exit
    code."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"perseid.commands.{module}"), module)
        return command

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        _replace_closed_streams()
        with _errors_as_messages():  # --help and --version print from here
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_as_messages():
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # here, where a failure can still be reported


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OSError as exc:
        if exc.errno == errno.EPIPE:  # the reader of a pipe closed it; click exits silently
            raise
        _discard_output()
        file_name = "" if exc.filename is None else f"{exc.filename}: "
        raise click.ClickException(f"{file_name}{exc.strerror or exc}.") from exc


def _replace_closed_streams() -> None:
    """Opens the null device for closed streams; prints "?" for characters an encoding lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Drops output that could not be written: the interpreter would try again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)


def _print_version(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    """Prints what a report of a problem needs, and exits; the release is on the first line."""
    if not is_given or ctx.resilient_parsing:
        return
    import platform

    from perseid.store.sqlite.version import sqlite_version  # loads the driver

    click.echo(f"perseid {__version__}")
    click.echo(f"{platform.python_implementation()} {platform.python_version()}")
    click.echo(f"SQLite {sqlite_version()}")
    click.echo(platform.platform())
    ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the versions of Perseid, Python, SQLite and the system, and exit.",
)
def main() -> None:
    """A document database with the Cosmos DB wire protocol and exact expiry."""
