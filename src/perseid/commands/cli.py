"""Flags in, exit code out."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import gc
import io
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import click
from click.core import ParameterSource

from perseid import __version__
from perseid.commands.check import check
from perseid.commands.clock import clock, instant_text
from perseid.commands.completion import completion
from perseid.commands.doctor import doctor
from perseid.commands.export_items import export_items
from perseid.commands.import_items import INTERRUPTED, import_items
from perseid.commands.path_type import NamedPath
from perseid.commands.portal import portal
from perseid.commands.query import query
from perseid.commands.ttl import ttl
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import StartError

F = TypeVar("F", bound=Callable[..., Any])


class _Commands(click.Group):
    """Whatever the system refuses, and Ctrl-C, end a command with a sentence and an exit code."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        _provide_streams()
        with _errors_as_messages():  # --help and --version print from here
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_as_messages():
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # now, while there is somebody who can tell that it fails


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OSError as exc:
        if exc.errno == errno.EPIPE:  # a reader that has seen enough: click ends quietly
            raise
        _discard_output()
        about = "" if exc.filename is None else f"{exc.filename}: "
        raise click.ClickException(f"{about}{exc.strerror or exc}.") from exc


def _provide_streams() -> None:
    """Stands in for streams that the caller has closed; a lacking character ends nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Drops what could not be written, or the interpreter would try once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perseid")
def main() -> None:
    """A document database that speaks the Cosmos DB wire protocol and forgets on time."""


for _command in (
    check,
    clock,
    completion,
    doctor,
    export_items,
    import_items,
    portal,
    query,
    ttl,
):
    main.add_command(_command)


class _Fraction(click.FloatRange):
    """A range that NaN is not within: it compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        fraction = super().convert(value, param, ctx)
        if math.isnan(fraction):
            self.fail(f"'{value}' is not a number.", param, ctx)
        return fraction


def _settings_options(command: F) -> F:
    """An option and an environment variable for each setting."""
    hints = get_type_hints(Settings)
    for setting in reversed(dataclasses.fields(Settings)):
        kind = hints[setting.name]
        choices = setting.metadata.get("choices")
        is_secret = setting.metadata.get("secret", False)
        has_default = setting.default is not None and setting.default is not False  # 0 is one
        option: dict[str, Any] = {
            "default": setting.default,
            "help": setting.metadata["help"],
            "envvar": f"PERSEID_{setting.name.upper()}",
            "show_envvar": True,
            "show_default": not is_secret and has_default,
        }
        if kind is bool:
            option["is_flag"] = True
        elif choices:
            option["type"] = click.Choice(choices, case_sensitive=False)
        elif kind in (Path, Path | None):
            option["type"] = NamedPath()
        elif kind is int:
            option["type"] = click.IntRange(
                setting.metadata.get("minimum"), setting.metadata.get("maximum")
            )
        elif kind is float:
            option["type"] = _Fraction(0, 1, min_open=True)
        else:
            option["type"] = str
        command = click.option(f"--{setting.name.replace('_', '-')}", setting.name, **option)(
            command
        )
    return command


@main.command()
@_settings_options
@click.pass_context
def serve(ctx: click.Context, /, **options: Any) -> None:
    """Run the server until Ctrl-C.

    \b
    Examples:
      perseid serve --data /var/lib/perseid --port 9000
      perseid serve --memory --test-clock --init start.yaml
    """
    settings = Settings(**options)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    is_data_option_given = ctx.get_parameter_source("data") is not ParameterSource.DEFAULT
    try:
        _run(_serve(settings, is_data_named=is_data_option_given))
    except StartError as exc:
        raise click.ClickException(str(exc)) from exc


async def _serve(settings: Settings, *, is_data_named: bool) -> None:
    from perseid.server import MEMORY_AND_DATA_CONFLICT, Server

    if settings.memory and is_data_named:  # be it as the directory that is the default
        raise StartError(MEMORY_AND_DATA_CONFLICT)

    # A server makes few cycles and many short-lived objects: look for cycles seldom, and never
    # among what was there from the start.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    server = Server(settings)
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM"):
        try:
            loop.add_signal_handler(getattr(signal, name), server.stop)
        except NotImplementedError:  # Windows: Ctrl-C arrives as KeyboardInterrupt
            break
    ready = asyncio.Event()
    running = asyncio.create_task(server.run(ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    if ready.is_set():
        click.echo(_banner(settings, server.held_until))
    waiting.cancel()
    await running
    click.echo("Stopped." if settings.memory else "Stopped; everything acknowledged is stored.")


def _banner(settings: Settings, held_until: float | None) -> str:
    where = "memory, gone at the end" if settings.memory else str(settings.data.resolve())
    if settings.store is not None:
        from perseid.store.postgres.pool import dsn_without_secrets

        where = dsn_without_secrets(settings.store)
    key = settings.key if settings.key == WELL_KNOWN_KEY else "<your key>"
    return (
        f"Perseid {__version__} is ready.\n"
        f"  endpoint           {settings.endpoint}\n"
        f"  connection string  AccountEndpoint={settings.endpoint};AccountKey={key};\n"
        f"  portal             {settings.endpoint}_explorer/\n"
        f"  data               {where}\n"
        f"{_held_text(held_until)}"
        "Press Ctrl-C to stop."
    )


def _held_text(held_until: float | None) -> str:
    if held_until is None:
        return ""
    return (
        f"  WARNING            this data has seen {instant_text(held_until)}; time stands still"
        " until then.\n"
        "                     Start with --test-clock to let it run on from there.\n"
    )


def _run(coroutine: Any) -> None:
    """Runs on uvloop where it exists: half as much again in requests per second."""
    if sys.platform == "win32":
        asyncio.run(coroutine)
    else:
        import uvloop

        uvloop.run(coroutine)
