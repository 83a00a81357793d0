"""Reads items from files: JSON lines, objects on several lines, arrays; plain or gzipped.

Reads item by item, never a whole file. Each item keeps its text exactly as it is in the file, so
numbers and escapes do not change.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast

import click

from perseid.commands.output import printable
from perseid.limits import MAX_BODY_BYTES

_CHUNK: Final = 1024 * 1024
# Room for the largest item with a lot of white space. A longer value cannot be an item.
LARGEST_ITEM: Final = 4 * MAX_BODY_BYTES
# A line that is longer is rejected for its length, so that its value is not needed.
_LARGEST_DECODED: Final = MAX_BODY_BYTES + 64 * 1024
_SPACE: Final = " \t\r\n"
_NOT_SPACE: Final = re.compile(rf"[^{_SPACE}]")
_MAX_SHOWN: Final = 20  # characters of an invalid line in an error message
# Numbers stay text: they are not needed as numbers, and Python refuses very long ones.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)


class Record(NamedTuple):
    """The text of an item on one line, its position, and its value with numbers as strings.

    `value` is None if the text is not JSON. `problem` says why the item cannot be sent at all.
    """

    number: int  # of the items in the file, from 1
    line: int  # of the file, from 1
    text: bytes
    value: Any
    problem: str | None = None


class ItemFile:
    """A file or standard input that is read once, from its beginning."""

    def __init__(self, path: Path | None, stdin: IO[bytes] | None = None) -> None:
        self._raw: IO[bytes]
        if path is None:
            self._raw = stdin or sys.stdin.buffer
            self.name = "standard input"
            self.size: int | None = None
        else:
            try:
                self._raw = open(path, "rb")  # noqa: SIM115
                self.size = path.stat().st_size if self._raw.seekable() else None
            except OSError as exc:
                raise click.ClickException(f"Cannot read {path}: {exc.strerror}.") from exc
            self.name = str(path)
        self._is_seekable = path is not None and self._raw.seekable()
        start = self._peek(2)
        # gzip is detected by its first bytes, not by the name of the file.
        self._stream = (
            cast(IO[bytes], gzip.GzipFile(fileobj=self._with_start(start)))
            if start == b"\x1f\x8b"
            else self._with_start(start)
        )

    def position(self) -> int | None:
        """The number of bytes read from the file, before decompression."""
        return self._raw.tell() if self._is_seekable else None

    def records(self, read_items: ItemReader | None = None) -> Iterator[Record]:
        """Every item; click.ClickException if the file is cut off or its format is unknown.

        `read_items` reads another format than JSON.
        """
        try:
            yield from (read_items or json_records)(TextReader(self._stream), self.name)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise click.ClickException(f"{self.name} is damaged or cut off: {exc}.") from exc
        except InvalidUtf8 as exc:
            raise file_error(
                self.name, exc.args[0], f"contains invalid UTF-8: {exc.args[1]}"
            ) from exc
        except OSError as exc:
            raise click.ClickException(f"Cannot read {self.name}: {exc.strerror or exc}.") from exc

    def close(self) -> None:
        self._raw.close()

    def _peek(self, count: int) -> bytes:
        start = self._raw.read(count)
        if self._is_seekable:
            self._raw.seek(0)
        return start

    def _with_start(self, start: bytes) -> IO[bytes]:
        return (
            self._raw if self._is_seekable else cast(IO[bytes], _PrefixedStream(start, self._raw))
        )


class _PrefixedStream:
    """A stream with the bytes that were already read put back at its start."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start = start
        self._rest = rest

    def read(self, count: int = -1) -> bytes:
        if self._start:
            start, self._start = self._start, b""
            return start
        return self._rest.read(count)


class InvalidUtf8(Exception):
    """The file is not UTF-8; the arguments are line and reason."""


class TextReader:
    """Decodes a stream in chunks and drops text that was consumed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self.buffer = ""
        self.at = 0
        self.line = 1
        self._is_at_end = False

    def read_chunk(self) -> bool:
        """Appends the next chunk to the buffer; False at the end of the stream."""
        if self._is_at_end:
            return False
        chunk = self._stream.read(_CHUNK)
        self._is_at_end = not chunk
        try:
            decoded = self._decode(chunk, not chunk)
        except UnicodeDecodeError as exc:
            before = self.buffer.count("\n", self.at) + exc.object.count(b"\n", 0, exc.start)
            raise InvalidUtf8(self.line + before, exc.reason) from exc
        self.buffer = self.buffer[self.at :] + decoded
        self.at = 0
        return True

    def move(self, to: int) -> None:
        self.line += self.buffer.count("\n", self.at, to)
        self.at = to

    def skip_space(self) -> str:
        """The next character that is not white space, without consuming it; "" at the end."""
        while True:
            match = _NOT_SPACE.search(self.buffer, self.at)
            self.move(len(self.buffer) if match is None else match.start())
            if match is not None:
                return match[0]
            if not self.read_chunk():
                return ""

    def take_line(self) -> str:
        """Consumes the rest of the line; returns only its start if it is too long for an item."""
        start = ""
        while (end := self.buffer.find("\n", self.at)) < 0:
            if start or len(self.buffer) - self.at > LARGEST_ITEM:
                start = start or self.buffer[self.at :]
                self.at = len(self.buffer)
            if not self.read_chunk():
                end = len(self.buffer)
                break
        line_text = start or self.buffer[self.at : end + 1]
        self.move(min(end + 1, len(self.buffer)))
        return line_text


ItemReader: TypeAlias = Callable[[TextReader, str], Iterator[Record]]


def json_records(text: TextReader, name: str) -> Iterator[Record]:
    """The items of a file with JSON lines, JSON objects or one JSON array."""
    start = text.skip_space()
    if start == "[":
        yield from array_records(text, name)
    elif start == "{" and _spans_several_lines(text):
        yield from _objects(text, name)
    elif start in ("{", ""):
        yield from _lines(text)
    else:
        raise file_error(name, text.line, _not_an_item(text.take_line()))


def _lines(text: TextReader) -> Iterator[Record]:
    number = 0
    while text.skip_space():
        number += 1
        line = text.line
        line_text = text.take_line().rstrip(_SPACE)
        value = _decoded(line_text) if len(line_text) <= _LARGEST_DECODED else None
        yield Record(number, line, line_text.encode(), value)


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _spans_several_lines(text: TextReader) -> bool:
    """True if the next object is complete and contains line breaks (pretty-printed)."""
    while True:
        try:
            end = _DECODER.raw_decode(text.buffer, text.at)[1]
        except (ValueError, RecursionError):
            if len(text.buffer) - text.at > LARGEST_ITEM or not text.read_chunk():
                return False
        else:
            return "\n" in text.buffer[text.at : end]


def _objects(text: TextReader, name: str) -> Iterator[Record]:
    """Objects that follow each other, each on one or several lines."""
    number = 0
    while text.skip_space():
        number += 1
        yield _take_object(text, name, number)


def _not_an_item(line: str) -> str:
    line = line.rstrip(_SPACE)
    start = printable(line[:_MAX_SHOWN]) + "…" * (len(line) > _MAX_SHOWN)
    return (
        f"this starts with '{start}', which is not an item; items are JSON objects, one per line"
        " or all in one array; for CSV give --format csv"
    )


def array_records(text: TextReader, name: str, *, is_whole: bool = True) -> Iterator[Record]:
    """The elements of an array, from its opening bracket.

    With `is_whole` nothing may follow the array.
    """
    text.move(text.at + 1)
    number = 0
    next_character = text.skip_space()
    while next_character != "]":
        number += 1
        yield _take_object(text, name, number)
        next_character = text.skip_space()
        if next_character == ",":
            text.move(text.at + 1)
            next_character = text.skip_space()
            if next_character == "]":
                raise file_error(name, text.line, "the array ends after a comma")
        elif next_character != "]":
            raise file_error(name, text.line, f"a comma or ] is missing after item {number}")
    text.move(text.at + 1)
    if is_whole and text.skip_space():
        raise file_error(name, text.line, "there is text after the end of the array")


def _take_object(text: TextReader, name: str, number: int) -> Record:
    """Consumes the next object."""
    line = text.line
    value, end = _element(text, name, number)
    # JSON allows line breaks only in the white space between tokens.
    item_text = text.buffer[text.at : end].replace("\n", " ").replace("\r", " ")
    text.move(end)
    return Record(number, line, item_text.encode(), value)


def _element(text: TextReader, name: str, number: int) -> tuple[Any, int]:
    if text.buffer[text.at : text.at + 1] not in ("{", ""):
        raise file_error(name, text.line, f"item {number} is not an object")
    while True:
        try:
            return _DECODER.raw_decode(text.buffer, text.at)
        except (ValueError, RecursionError) as exc:
            # The rest of the object may not have been read yet.
            if len(text.buffer) - text.at > LARGEST_ITEM:
                raise file_error(name, text.line, f"item {number} is too large") from None
            if not text.read_chunk():
                reason = exc.msg if isinstance(exc, json.JSONDecodeError) else "nested too deeply"
                raise file_error(
                    name, text.line, f"item {number} is not valid JSON or is cut off: {reason}"
                ) from None


def file_error(name: str, line: int, reason: str) -> click.ClickException:
    return click.ClickException(f"{name}, line {line}: {reason}.")


def page_records(body: bytes) -> Iterator[Record]:
    """The items in the body of a feed response."""
    text = TextReader(io.BytesIO(body[body.index(b"[") :]))
    text.skip_space()
    yield from array_records(text, "the response", is_whole=False)
