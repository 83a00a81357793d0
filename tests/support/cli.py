"""The command line as a person uses it: arguments in, texts and exit code out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from perseid.commands.cli import main

Cli = Callable[..., Result]


def invoke(endpoint: str, *arguments: str, key: str | None = None, given: Any = None) -> Result:
    """Runs `perseid` with these arguments; `given` is what it finds on standard input."""
    environment = {
        "PERSEID_ENDPOINT": endpoint,
        "PERSEID_KEY": key,
        "PERSEID_CONNECTION_STRING": None,
        "COLUMNS": "120",
    }
    return CliRunner().invoke(main, arguments, env=environment, input=given)


def printed(result: Result) -> str:
    """What a successful command printed."""
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def printed_without_warnings(result: Result) -> str:
    """What a successful command printed, with nothing on standard error."""
    assert result.stderr == ""
    return printed(result)


def decoded(result: Result) -> Any:
    """What a successful command printed with --json."""
    return json.loads(printed(result))


def all_commands(
    command: click.Command = main, name: str = "perseid"
) -> Iterator[tuple[str, click.Command]]:
    """Every command and group, by the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            child = command.get_command(context, word)
            assert child is not None
            yield from all_commands(child, f"{name} {word}")
