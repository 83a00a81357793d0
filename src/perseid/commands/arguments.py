"""How commands read their arguments: paths, partition keys and query parameters."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Final

import click

from perseid.commands.time_text import is_negative


class NamedPath(click.Path):
    """A path that must not be empty: an empty one would mean the current directory.

    With `must_be_file` an existing directory, device or pipe is refused.
    """

    def __init__(self, *, must_be_file: bool = False, **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._must_be_file = must_be_file

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("The path is empty.", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self._must_be_file and path.exists() and not path.is_file():
            self.fail(f"'{path}' is not a file.", param, ctx)
        return path


class NegativeArguments(click.Command):
    """A command whose only argument may be -5s or the like, which looks like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        negative = [each for each in args if is_negative(each)]
        if negative and "--" not in args:
            args = [*(each for each in args if each not in negative), "--", *negative]
        return super().parse_args(ctx, args)


parameter_option: Final = click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="@NAME=VALUE",
    help="Value of the parameter @NAME: JSON, otherwise a string. May be repeated.",
)


def parse_key(text: str) -> list[Any]:
    """A partition key from JSON: one value, or a list for a hierarchical key."""
    try:
        key = _decode(text)
    except ValueError:
        raise click.BadParameter(
            f"'{text}' is not JSON; put a string in double quotes: '\"{text}\"'.",
            param_hint="--partition-key",
        ) from None
    return key if isinstance(key, list) else [key]


def parse_parameter(text: str, option_name: str = "--parameter") -> tuple[str, Any]:
    """`@name=value`. The value is JSON if it is valid JSON, otherwise a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.lstrip("@"):
        raise click.BadParameter(
            f"'{text}' is not of the form @name=value.", param_hint=option_name
        )
    return f"@{name.lstrip('@')}", _value(value)


def _value(text: str) -> Any:
    try:
        return _decode(text)
    except ValueError:
        return text


def _decode(text: str) -> Any:
    """Strict JSON: Python would also accept NaN, and read 1e999 as infinity."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return number


def check_utf8(*texts: str | None) -> None:
    """UsageError if an argument holds bytes that are not UTF-8.

    Python turns such bytes into lone surrogates, which cannot be sent to the server.
    """
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise click.UsageError("The query or one of its values is not UTF-8.") from None
