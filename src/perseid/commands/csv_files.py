"""Items as CSV: a header with the names of properties, then a row for each item.

Cells and JSON values correspond one to one, so that an export can be imported without changes:
`value_text` reads a cell, and `_cell` writes one that `value_text` reads as the same value.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

from perseid.commands.item_files import LARGEST_ITEM, Record, TextReader, file_error
from perseid.commands.output import plural
from perseid.documents import SYSTEM_PROPERTIES, member_texts

_ID: Final = "id"  # always a string, also if it looks like a number
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Final = {word: word.lower() for word in ("true", "false", "null", "TRUE", "FALSE", "NULL")}
_STRUCTURED: Final = ('"', "[", "{")
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^\s|\s$')


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


# Numbers stay text: they are not needed as numbers, and Python refuses very long ones.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def value_text(cell: str) -> str | None:
    """The JSON text of the value that a cell holds; None for an empty cell, which holds none."""
    if not cell:
        return None
    if cell in _WORDS:
        return _WORDS[cell]
    if _NUMBER.fullmatch(cell) or _is_structured(cell):
        return cell
    return _string(cell)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _is_structured(cell: str) -> bool:
    """True for the JSON text of a string, array or object."""
    if not cell.startswith(_STRUCTURED):
        return False
    try:
        _DECODER.decode(cell)
    except ValueError:
        return False
    except RecursionError:  # the server refuses it with a message
        return True
    return True


# Reading


def csv_records(text: TextReader, name: str) -> Iterator[Record]:
    """An item for each row. A row that does not fit the header is a record with a problem."""
    csv.field_size_limit(LARGEST_ITEM)
    rows = csv.reader(iter(text.take_line, ""), strict=True)
    names: list[str] | None = None
    number = 0
    while True:
        line = text.line
        cells: list[str] = []
        problem = None
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as exc:
            problem = _problem(exc, name, line)
        if problem is None and not any(cells):  # an empty line, or a row of empty cells
            continue
        if names is None:
            names = _header(cells, problem, name, line)
            continue
        number += 1
        yield _record(number, line, names, cells, problem)


def _problem(error: csv.Error, name: str, line: int) -> str:
    """What is wrong with a row; click.ClickException if it is unknown where the next row starts."""
    if "unexpected end" in str(error):
        raise file_error(name, line, "a value that starts with a quote in this row has no end")
    if "field limit" in str(error):
        raise file_error(
            name, line, "a value in this row is too long; check that its quotes are closed"
        )
    if "new-line" in str(error):
        return "The row is not CSV: put a value with line breaks in quotes."
    return "The row is not CSV: after the quote at the end of a value a comma is missing."


def _header(cells: list[str], problem: str | None, name: str, line: int) -> list[str]:
    if problem is not None:
        raise file_error(name, line, problem.rstrip("."))
    for column, each in enumerate(cells, 1):
        if not each:
            raise file_error(name, line, f"column {column} of the header has no name")
        if each in cells[: column - 1]:
            raise file_error(name, line, f"the header has two columns '{each}'")
    if _ID not in cells:
        raise file_error(
            name, line, "the header has no column 'id'; the first row names the properties,"
            " separated by commas",
        )  # fmt: skip
    return cells


def _record(
    number: int, line: int, names: list[str], cells: list[str], problem: str | None
) -> Record:
    if problem is None and len(cells) != len(names):
        problem = f"The row has {plural(len(cells), 'value')}, the header {len(names)}."
    if problem is not None:
        return Record(number, line, b"", None, problem)
    members = []
    for name, cell in zip(names, cells, strict=True):
        value = _string(cell) if name == _ID and cell else value_text(cell)
        if value is not None:
            members.append(f"{_string(name)}:{value}")
    # JSON allows line breaks only in the white space between tokens.
    item_text = "{" + ",".join(members).replace("\n", " ").replace("\r", " ") + "}"
    return Record(number, line, item_text.encode(), {_ID: cells[names.index(_ID)]})


# Writing


def write_csv(items: IO[bytes], stream: IO[bytes]) -> None:
    """Writes a file of JSON lines as CSV; reads it twice, since the header names all properties."""
    names: dict[str, None] = {}
    for members in _items(items):
        names.update(dict.fromkeys(members))
    # System properties last; otherwise in the order in which items have them.
    columns = sorted(names, key=lambda name: name in SYSTEM_PROPERTIES) or [_ID]
    stream.write(_row(columns))
    for members in _items(items):
        stream.write(_row(_cell(name, members.get(name)) for name in columns))


def _items(items: IO[bytes]) -> Iterator[dict[str, str]]:
    """The members of each item, with the text of their values."""
    items.seek(0)
    for line in items:
        yield dict(member_texts(line.decode()))


def _cell(name: str, value: str | None) -> str:
    """The cell from which `value_text` gets this JSON text back."""
    if value is None:
        return ""
    if not value.startswith('"'):
        return value
    text: str = json.loads(value)
    is_plain = name == _ID or value_text(text) == _string(text)
    return text if is_plain else value


def _row(cells: Iterable[str]) -> bytes:
    """A row; a value is in quotes only if it needs them."""
    return (",".join(map(_quoted, cells)) + "\n").encode()


def _quoted(cell: str) -> str:
    if not _NEEDS_QUOTES.search(cell):
        return cell
    return '"' + cell.replace('"', '""') + '"'
