"""Reads a start file, JSON or YAML, into values with their line and path.

Plain YAML scalars are read as JSON does: numbers, `true`, `false` and `null` are values, all others
are strings. So `off`, `no` and dates stay strings.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from perseid.errors import StartError

_MAX_DEPTH: Final = 100
_MAX_REPEATED: Final = 100_000
_MAX_SHOWN: Final = 20
_TOO_DEEP: Final = f"values are nested deeper than {_MAX_DEPTH} levels"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS: Final = {"true": True, "false": False, "null": None}
_EMPTY: Final = ("", "~")


class StartFileError(StartError):
    """The start file has problems, each with its line and path. Nothing was changed."""

    def __init__(self, file: Path, problems: list[str]) -> None:
        many = "" if len(problems) == 1 else f"{len(problems)} problems in "
        super().__init__(f"{many}{file}, nothing was changed:\n  " + "\n  ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value with its line and its path; members and elements are LocatedValues, too."""

    value: Any
    line: int
    path: str = ""

    def plain(self) -> Any:
        """The value without lines and paths, as JSON decodes it."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, problem: str) -> str:
        """The problem, prefixed with line and path."""
        where = f" ({self.path})" if self.path else ""
        return f"line {self.line}{where}: {problem}"


def read(path: Path) -> LocatedValue:
    """The content of the file; StartFileError if it is not valid."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as exc:
        raise StartError(f"cannot read the start file {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise StartFileError(path, [f"the file is not UTF-8: {exc.reason}"]) from exc
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            return _read_yaml(text)
        return _JsonReader(text).read()
    except _SyntaxProblem as exc:
        raise StartFileError(path, [f"line {exc.line}: {exc}"]) from None


class _SyntaxProblem(Exception):
    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class _JsonReader:
    """A small JSON reader that keeps line numbers, unlike the one in the standard library."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> LocatedValue:
        root_value = self._value("", 0)
        if self._next():
            raise self._problem("there is text after the end of the value")
        return root_value

    def _value(self, path: str, depth: int) -> LocatedValue:
        next_character, line = self._next(), self._line()
        if depth > _MAX_DEPTH:
            raise self._problem(_TOO_DEEP)
        if next_character == "{":
            return LocatedValue(dict(self._members(path, depth)), line, path)
        if next_character == "[":
            return LocatedValue(list(self._elements(path, depth)), line, path)
        if next_character == '"':
            return LocatedValue(self._string(), line, path)
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return LocatedValue(_number(number[0], line), line, path)
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return LocatedValue(value, line, path)
        raise self._problem(
            "a JSON value is expected here" if next_character else "the file ends too early"
        )

    def _members(self, path: str, depth: int) -> Iterator[tuple[str, LocatedValue]]:
        names: set[str] = set()
        for _ in self._separated("}"):
            if self._next() != '"':
                raise self._problem("a name in double quotes is expected here")
            name = self._string()
            if name in names:
                raise self._problem(f"'{name}' is defined twice in one object")
            names.add(name)
            if self._next() != ":":
                raise self._problem(f"a colon is expected after '{name}'")
            self._at += 1
            yield name, self._value(joined_path(path, name), depth + 1)

    def _elements(self, path: str, depth: int) -> Iterator[LocatedValue]:
        for index in self._separated("]"):
            yield self._value(f"{path}[{index}]", depth + 1)

    def _separated(self, end: str) -> Iterator[int]:
        """Yields once per member, from the opening to the closing bracket."""
        self._at += 1
        if self._next() != end:
            for index in itertools.count():
                yield index
                next_character = self._next()
                if next_character == end:
                    break
                if next_character != ",":
                    raise self._problem(f"a comma or {end} is expected here")
                self._at += 1
        self._at += 1

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._problem("a string is not closed, or contains a line break")
        try:
            text: str = json.loads(match[0])
        except json.JSONDecodeError as exc:
            raise self._problem(exc.msg) from None
        self._at = match.end()
        return _text(text, self._line())

    def _next(self) -> str:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _problem(self, problem: str) -> _SyntaxProblem:
        return _SyntaxProblem(self._line(), problem)


def joined_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _read_yaml(text: str) -> LocatedValue:
    import yaml  # imported here because most servers start without a file in YAML

    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as exc:
        next_character = exc.problem_mark or exc.context_mark
        raise _SyntaxProblem(
            next_character.line + 1 if next_character else 1, f"not YAML: {exc.problem}"
        ) from None
    except yaml.YAMLError as exc:
        raise _SyntaxProblem(1, f"not YAML: {exc}") from None
    except RecursionError:  # in the library, before the depth can be checked
        raise _SyntaxProblem(1, _TOO_DEEP) from None
    if root is None:
        return LocatedValue({}, 1)
    return _YamlReader().value(root, "", 0)


class _YamlReader:
    """Turns the nodes of a YAML file into values, each alias into a copy of what it names."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._repeated = 0  # values and kilobytes that aliases have added

    def value(self, node: Any, path: str, depth: int) -> LocatedValue:
        line = node.start_mark.line + 1
        if depth > _MAX_DEPTH:  # also stops an alias that contains itself
            raise _SyntaxProblem(line, _TOO_DEEP)
        self._count(node, line)
        if node.id == "mapping":
            return LocatedValue(self._members(node, line, path, depth), line, path)
        if node.id == "sequence":
            elements = [
                self.value(element, f"{path}[{index}]", depth + 1)
                for index, element in enumerate(node.value)
            ]
            return LocatedValue(elements, line, path)
        return LocatedValue(_scalar(node.value, line, is_plain=node.style is None), line, path)

    def _members(self, node: Any, line: int, path: str, depth: int) -> dict[str, LocatedValue]:
        members: dict[str, LocatedValue] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise _SyntaxProblem(key.start_mark.line + 1, "a name must be a string")
            name = _text(key.value, key.start_mark.line + 1)
            if name == "<<" and key.style is None:
                raise _SyntaxProblem(
                    line, "merge keys (<<) are not supported; write out the members"
                )
            if name in members:
                raise _SyntaxProblem(
                    key.start_mark.line + 1, f"'{name}' is defined twice in one object"
                )
            members[name] = self.value(value, joined_path(path, name), depth + 1)
        return members

    def _count(self, node: Any, line: int) -> None:
        """A few nested aliases are enough to describe more values than fit into memory."""
        if id(node) not in self._seen:
            self._seen.add(id(node))
            return
        self._repeated += 1 + (len(node.value) >> 10 if node.id == "scalar" else 0)
        if self._repeated > _MAX_REPEATED:
            raise _SyntaxProblem(
                line,
                f"aliases repeat values more than {_MAX_REPEATED:,} times; write fewer of them",
            )


def _scalar(text: str, line: int, *, is_plain: bool) -> Any:
    if not is_plain:
        return _text(text, line)
    if text in _EMPTY:
        return None
    if text in _WORDS:
        return _WORDS[text]
    return _number(text, line) if _NUMBER.fullmatch(text) else text


def _text(text: str, line: int) -> str:
    """The same text; escapes can spell what is not Unicode, and requests refuse it, too."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _SyntaxProblem(line, "a string contains half of a surrogate pair")
    return text


def _number(text: str, line: int) -> int | float:
    """The number as requests have it: a double if 64 bits do not hold it."""
    try:
        number: int | float = orjson.loads(text)
    except orjson.JSONDecodeError:
        shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
        raise _SyntaxProblem(line, f"the number {shown} is too large") from None
    return number
