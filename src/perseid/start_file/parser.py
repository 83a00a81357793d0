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

from perseid.errors import StartError

_MAX_DEPTH: Final = 100
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
            raise self._problem(f"values are nested deeper than {_MAX_DEPTH} levels")
        if next_character == "{":
            return LocatedValue(dict(self._members(path, depth)), line, path)
        if next_character == "[":
            return LocatedValue(list(self._elements(path, depth)), line, path)
        if next_character == '"':
            return LocatedValue(self._string(), line, path)
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return LocatedValue(json.loads(number[0]), line, path)
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
        return text

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
    try:
        import yaml
    except ImportError:
        raise StartError(
            "a start file in YAML needs PyYAML: pip install 'perseid[yaml]', or write it in JSON"
        ) from None
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as exc:
        next_character = exc.problem_mark or exc.context_mark
        raise _SyntaxProblem(
            next_character.line + 1 if next_character else 1, f"not YAML: {exc.problem}"
        ) from None
    except yaml.YAMLError as exc:
        raise _SyntaxProblem(1, f"not YAML: {exc}") from None
    if root is None:
        return LocatedValue({}, 1)
    return _from_yaml(root, "", 0)


def _from_yaml(node: Any, path: str, depth: int) -> LocatedValue:
    line = node.start_mark.line + 1
    if depth > _MAX_DEPTH:  # also stops an alias that contains itself
        raise _SyntaxProblem(line, f"values are nested deeper than {_MAX_DEPTH} levels")
    if node.id == "mapping":
        members: dict[str, LocatedValue] = {}
        for key, value in node.value:
            name = key.value
            if key.id != "scalar":
                raise _SyntaxProblem(key.start_mark.line + 1, "a name must be a string")
            if name == "<<" and key.style is None:
                raise _SyntaxProblem(
                    line, "merge keys (<<) are not supported; write out the members"
                )
            if name in members:
                raise _SyntaxProblem(
                    key.start_mark.line + 1, f"'{name}' is defined twice in one object"
                )
            members[name] = _from_yaml(value, joined_path(path, name), depth + 1)
        return LocatedValue(members, line, path)
    if node.id == "sequence":
        elements = [
            _from_yaml(each, f"{path}[{index}]", depth + 1) for index, each in enumerate(node.value)
        ]
        return LocatedValue(elements, line, path)
    return LocatedValue(_scalar(node.value, is_plain=node.style is None), line, path)


def _scalar(text: str, *, is_plain: bool) -> Any:
    if not is_plain:
        return text
    if text in _EMPTY:
        return None
    if text in _WORDS:
        return _WORDS[text]
    return json.loads(text) if _NUMBER.fullmatch(text) else text
