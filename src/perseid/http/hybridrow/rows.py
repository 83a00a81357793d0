"""Rows: columns at fixed places, columns of variable length, sparse fields.

A row begins with a version and the number of its schema. Presence bits follow, one for each fixed
and variable column; then the fixed columns, whose space is always there; then the variable columns
that are present, each behind its length; then sparse fields until the row ends. There is no null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from perseid.http.hybridrow.byte_reader import ByteReader

VERSION: Final = b"\x81"
_HEADER: Final = struct.Struct("<ci")
HEADER_BYTES: Final = _HEADER.size
_END_OF_SCOPE: Final = 0x46
_FALSE, _TRUE = 0x02, 0x03
_UTF8, _BINARY = 0x14, 0x15
_VARINTS: Final = (0x0D, 0x0E)
# The sizes of sparse values by their type code. Nested values have none: no batch contains them.
_SPARSE_SIZES: Final = {
    0x01: 0, _FALSE: 0, _TRUE: 0,  # null, booleans
    0x05: 1, 0x06: 2, 0x07: 4, 0x08: 8,  # signed integers
    0x09: 1, 0x0A: 2, 0x0B: 4, 0x0C: 8,  # unsigned integers
    0x0F: 4, 0x10: 8, 0x11: 16,  # floating-point numbers, decimal
    0x12: 8, 0x13: 16, 0x16: 16, 0x17: 8, 0x18: 12,  # dates, identifiers, the longest float
}  # fmt: skip


class ValueType(Enum):
    """Types of the columns of batches: the type codes of sparse fields, and the layout."""

    INT32 = (b"\x07", "<i")
    UINT32 = (b"\x0b", "<I")
    FLOAT64 = (b"\x10", "<d")
    BOOLEAN = (bytes((_FALSE, _TRUE)), None)
    TEXT = (bytes((_UTF8,)), None)
    BINARY = (bytes((_BINARY,)), None)

    def __init__(self, codes: bytes, layout: str | None) -> None:
        self.codes = codes
        self.struct = None if layout is None else struct.Struct(layout)


class RowSchema(NamedTuple):
    """The columns of a row, in the order of their presence bits and of their numbers."""

    number: int
    fixed: dict[str, ValueType]
    variable: dict[str, ValueType]
    sparse: dict[str, ValueType]

    @property
    def names(self) -> tuple[str, ...]:
        """The table in which sparse fields look up names by number; the first is not used."""
        return ("", *self.fixed, *self.variable, *self.sparse)


# Reading ----------------------------------------------------------------------------------------


def read_header(reader: ByteReader) -> int:
    """The number of the schema of the row that follows."""
    start = reader.position
    version, number = _HEADER.unpack(reader.take(HEADER_BYTES))
    if version != VERSION:
        reader.fail(f"a row has the version {version.hex()}, not {VERSION.hex()},", start)
    return int(number)


def read_row(reader: ByteReader, schema: RowSchema) -> dict[str, Any]:
    """The columns and known sparse fields that are present; the reader ends with the row."""
    start = reader.position
    number = read_header(reader)
    if number != schema.number:
        reader.fail(f"a row has the schema {number}, not {schema.number},", start)
    presence = reader.byte()
    if presence >> len(schema.fixed) + len(schema.variable):
        reader.fail("a row announces a column that does not exist", reader.position - 1)
    values: dict[str, Any] = {}
    for name, kind in schema.fixed.items():
        content = reader.take(kind.struct.size if kind.struct else 0)
        if presence & 1:
            values[name] = _value(reader, name, kind, content)
        presence >>= 1
    for name, kind in schema.variable.items():
        if presence & 1:
            values[name] = _value(reader, name, kind, reader.prefixed())
        presence >>= 1
    names = schema.names
    while reader.left:
        _read_sparse(reader, schema.sparse, names, values)
    return values


def _read_sparse(
    reader: ByteReader,
    fields: Mapping[str, ValueType],
    names: tuple[str, ...],
    values: dict[str, Any],
) -> None:
    """Adds one sparse field to the values; unknown ones are skipped."""
    start = reader.position
    code = reader.byte()
    if code == _END_OF_SCOPE:
        if reader.left:
            reader.fail("bytes follow the end of a row")
        return
    token = reader.varuint()
    # A number behind the table is the length of a name that is spelled out.
    name = names[token] if token < len(names) else _spelled(reader, token - len(names))
    content = _take_sparse(reader, code, start)
    kind = fields.get(name)
    if kind is None:
        return
    if code not in kind.codes:
        reader.fail(f"'{name}' has the type {code:02x}", start)
    if name in values:
        reader.fail(f"'{name}' is given twice", start)
    is_boolean = kind is ValueType.BOOLEAN
    values[name] = code == _TRUE if is_boolean else _value(reader, name, kind, content)


def _spelled(reader: ByteReader, length: int) -> str:
    return reader.text(reader.take(length), "the name of a field")


def _take_sparse(reader: ByteReader, code: int, start: int) -> bytes:
    if code in (_UTF8, _BINARY):
        return reader.prefixed()
    if code in _VARINTS:
        reader.varuint()
        return b""
    size = _SPARSE_SIZES.get(code)
    if size is None:
        reader.fail(f"a field has the type {code:02x}, which no batch contains,", start)
    return reader.take(size)


def _value(reader: ByteReader, name: str, kind: ValueType, content: bytes) -> Any:
    if kind.struct is not None:
        return kind.struct.unpack(content)[0]
    return reader.text(content, name) if kind is ValueType.TEXT else content


# Writing ----------------------------------------------------------------------------------------


def write_row(values: Mapping[str, Any], schema: RowSchema) -> bytes:
    """The row with these columns and fields; what is None is left out."""
    presence, bit = 0, 1
    parts = [_HEADER.pack(VERSION, schema.number), b""]
    for name, kind in (schema.fixed | schema.variable).items():
        value = values.get(name)
        if value is not None:
            presence |= bit
        if kind.struct is not None:
            parts.append(kind.struct.pack(value or 0))
        elif value is not None:
            parts.append(_prefixed(value))
        bit <<= 1
    parts[1] = presence.to_bytes(1, "little")
    first_sparse = 1 + len(schema.fixed) + len(schema.variable)
    for token, (name, kind) in enumerate(schema.sparse.items(), first_sparse):
        value = values.get(name)
        if value is None:
            continue
        code = kind.codes[-1]
        if kind is ValueType.BOOLEAN:
            code, content = (_TRUE if value else _FALSE), b""
        else:
            content = _prefixed(value) if kind.struct is None else kind.struct.pack(value)
        parts.append(bytes((code, token)) + content)
    return b"".join(parts)


def _prefixed(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varuint(len(content)) + content


def _varuint(number: int) -> bytes:
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
