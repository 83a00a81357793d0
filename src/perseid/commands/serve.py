"""`perseid serve`: runs a server until it is stopped."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import math
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import click
from click.core import ParameterSource

from perseid import __version__
from perseid.commands.arguments import NamedPath
from perseid.commands.time_text import instant_text
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import StartError

F = TypeVar("F", bound=Callable[..., Any])


class _Fraction(click.FloatRange):
    """A float range that refuses NaN, which no comparison with the limits excludes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        fraction = super().convert(value, param, ctx)
        if math.isnan(fraction):
            self.fail(f"'{value}' is not a number.", param, ctx)
        return fraction


def _settings_options(command: F) -> F:
    """Adds an option with an environment variable for each setting."""
    hints = get_type_hints(Settings)
    for setting in reversed(dataclasses.fields(Settings)):
        is_secret = setting.metadata.get("secret", False)
        has_default = setting.default is not None and setting.default is not False  # 0 is a default
        option: dict[str, Any] = {
            "default": setting.default,
            "help": setting.metadata["help"],
            "envvar": f"PERSEID_{setting.name.upper()}",
            "show_envvar": True,
            "show_default": not is_secret and has_default,
            **_option_type(hints[setting.name], setting.metadata),
        }
        flag = f"--{setting.name.replace('_', '-')}"
        command = click.option(flag, setting.name, **option)(command)
    return command


def _option_type(hint: Any, metadata: Any) -> dict[str, Any]:
    """What click needs to know about the values of a setting with this type hint."""
    if hint is bool:
        return {"is_flag": True}
    if choices := metadata.get("choices"):
        return {"type": click.Choice(choices, case_sensitive=False)}
    if hint in (Path, Path | None):
        return {"type": NamedPath()}
    if hint is int:
        return {"type": click.IntRange(metadata.get("minimum"), metadata.get("maximum"))}
    if hint is float:
        return {"type": _Fraction(0, 1, min_open=True)}
    return {"type": str}


@click.command()
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
    from perseid.listeners import allow_open_files
    from perseid.server import MEMORY_AND_DATA_CONFLICT, Server

    if settings.memory and is_data_named:  # even if --data names the default directory
        raise StartError(MEMORY_AND_DATA_CONFLICT)

    # A server creates few reference cycles and many short-lived objects. So the cycle collector
    # runs rarely, and never examines the objects that exist at the start.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    server = Server(settings)
    allow_open_files(settings)
    _stop_on_signals(server.stop)
    ready = asyncio.Event()
    running = asyncio.create_task(server.run(ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    if ready.is_set():
        click.echo(_banner(settings, server.held_until))
    waiting.cancel()
    await running
    click.echo("Stopped." if settings.memory else "Stopped; all acknowledged writes are stored.")


def _stop_on_signals(stop: Callable[[], None]) -> None:
    """Ctrl-C and a request of the system to stop let the server finish its requests."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):  # the last is Ctrl-Break, on Windows only
        if (number := getattr(signal, name, None)) is None:
            continue
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # on Windows
            signal.signal(number, lambda *_: stop())


def _banner(settings: Settings, held_until: float | None) -> str:
    location = "in memory; lost on exit" if settings.memory else str(settings.data.resolve())
    if settings.store is not None:
        from perseid.store.postgres.pool import dsn_without_secrets

        location = dsn_without_secrets(settings.store)
    key = settings.key if settings.key == WELL_KNOWN_KEY else "<your key>"
    endpoints = "".join(
        f"  {name:<17}  {endpoint}\n"
        f"  connection string  AccountEndpoint={endpoint};AccountKey={key};\n"
        for name, endpoint in (("endpoint", settings.endpoint), ("HTTPS", settings.https_endpoint))
        if endpoint is not None
    )
    return (
        f"Perseid {__version__} is ready.\n"
        f"{endpoints}"
        f"  portal             {settings.endpoint}_explorer/\n"
        f"{_certificate_text(settings)}"
        f"  data               {location}\n"
        f"{_held_text(held_until)}"
        "Press Ctrl-C to stop."
    )


def _certificate_text(settings: Settings) -> str:
    """How to trust the certificate that the server has created; empty if it has not."""
    if not settings.has_https or settings.cert is not None:
        return ""
    from perseid.certificates import has_data_directory

    option = f"--data {shlex.quote(str(settings.data))}"
    option = option if has_data_directory(settings) else "--memory"
    return f"  trust for HTTPS    perseid trust {option}\n"


def _held_text(held_until: float | None) -> str:
    if held_until is None:
        return ""
    return (
        f"  WARNING            The stored data is from {instant_text(held_until)}, later than the"
        " system's clock.\n"
        "                     The server's clock is stopped until then. Start with --test-clock"
        " to let it run.\n"
    )


def _run(coroutine: Any) -> None:
    """Runs on uvloop where it is available: it serves about 1.5 times as many requests."""
    if sys.platform == "win32":
        asyncio.run(coroutine)
    else:
        import uvloop

        uvloop.run(coroutine)
