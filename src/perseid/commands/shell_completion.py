"""Completion in the shell of `perseid query`: commands, names, properties, keywords, functions."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Final

import click

from perseid.commands.data_client import query_page
from perseid.commands.query import FORMATS, QuerySession
from perseid.commands.resource_client import container_names, database_names

_SAMPLE: Final = 50  # items whose properties are offered
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
_INDEX: Final = re.compile(r"\[[^\]]*\]")
# Not the minus sign: commands and names may contain it.
_DELIMITERS: Final = " \t\n(),=<>!+*/%|"
_WITH_BY: Final = ("GROUP", "ORDER")


@functools.cache
def query_words() -> tuple[str, ...]:
    """The keywords of the query language, then its functions with an opening parenthesis."""
    from perseid.query.functions import AGGREGATES, BUILTINS  # imported here because it is slow
    from perseid.query.lexer import KEYWORDS

    keywords = (f"{word} BY" if word in _WITH_BY else word for word in KEYWORDS - {"BY"})
    functions = {*AGGREGATES, *(function.name for function in BUILTINS.values())}
    return (*sorted(keywords), *sorted(f"{name}(" for name in functions))


class ShellCompleter:
    """What may follow on a line. It offers nothing where the server cannot be asked."""

    def __init__(self, session: QuerySession, commands: Iterable[str]) -> None:
        self._session = session
        self._commands = tuple(commands)
        self._samples: dict[tuple[str, str], list[Any]] = {}
        self._arguments: dict[str, Callable[[list[str]], Iterable[str]]] = {
            ".use": self._names,
            ".format": lambda before: () if before else FORMATS,
            ".unset": lambda before: () if before else session.parameters,
        }

    def candidates(self, before: str, word: str) -> list[str]:
        """The words that may replace `word`, which follows the text `before`."""
        command, _, rest = before.lstrip().partition(" ")
        try:
            if command in self._arguments:
                offered = self._arguments[command](shlex.split(rest))
                return [each for each in map(_quoted, offered) if each.startswith(word)]
            if command == "" and (word == "" or word.startswith(".")):
                return [each for each in self._commands if each.startswith(word)]
            if command.startswith(".") and command != ".explain":
                return []
            return list(self._query_words(word))
        except (click.ClickException, ValueError):  # a quote has no end
            return []

    def _names(self, before: list[str]) -> list[str]:
        connection = self._session.connection
        if not before:
            return database_names(connection)
        return container_names(connection, *before) if len(before) == 1 else []

    def _query_words(self, word: str) -> Iterator[str]:
        if not word:
            return
        if word.startswith("@"):
            yield from (name for name in self._session.parameters if name.startswith(word))
        elif "." in word:
            path, _, start = word.rpartition(".")
            names = _property_names(self._sample(), path.split(".")[1:])
            yield from (f"{path}.{name}" for name in names if name.startswith(start))
        else:
            yield from (each for each in query_words() if each.upper().startswith(word.upper()))

    def _sample(self) -> list[Any]:
        """Some items of the container; they are read once."""
        path = self._session.container_path
        if path not in self._samples:
            page = query_page(
                self._session.connection, *path, f"SELECT TOP {_SAMPLE} * FROM c", [],
                partition_key=None, page_size=_SAMPLE, continuation=None,
            )  # fmt: skip
            self._samples[path] = page.rows
        return self._samples[path]


def _quoted(text: str) -> str:
    """As `.use` reads it; parameters need no quotes."""
    return text if text.startswith("@") else shlex.quote(text)


def _property_names(values: Iterable[Any], path: list[str]) -> list[str]:
    """The names of properties under a path, sorted; only those that may follow a dot."""
    for name in path:
        key = _INDEX.sub("", name)
        values = [value[key] for value in values if isinstance(value, dict) and key in value]
        if key != name:  # with an index: the elements of an array
            values = [each for value in values if isinstance(value, list) for each in value]
    names = {name for value in values if isinstance(value, dict) for name in value}
    return sorted(name for name in names if _IDENTIFIER.fullmatch(name))


def complete_with(readline: ModuleType, completer: ShellCompleter) -> None:
    """Lets the Tab key of a terminal complete words."""
    offered: list[str] = []

    def complete(word: str, state: int) -> str | None:
        if state == 0:  # the first of several calls for one word
            before = readline.get_line_buffer()[: readline.get_begidx()]
            offered[:] = completer.candidates(before, word)
        return offered[state] if state < len(offered) else None

    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
