"""RecordIO: a stream of rows, each behind its length and checksum.

A stream begins with a segment; each record, and any further segment, follows without a gap. There
is neither a count nor an end mark.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from perseid.http.hybridrow.byte_reader import ByteReader
from perseid.http.hybridrow.rows import HEADER_BYTES, VERSION, read_header

_SEGMENT: Final = 2147473648
_RECORD: Final = 2147473649
_LENGTH_IS_PRESENT: Final = 0x01
_SEGMENT_LENGTH: Final = struct.Struct("<ci")  # behind the header: presence, length
_RECORD_FIELDS: Final = struct.Struct("<iI")  # behind the header: length, checksum
_SEGMENT_BYTES: Final = HEADER_BYTES + _SEGMENT_LENGTH.size
_WRITTEN_SEGMENT: Final = struct.pack("<cici", VERSION, _SEGMENT, b"\x01", _SEGMENT_BYTES)
_WRITTEN_RECORD: Final = struct.Struct("<ciiI")


def is_stream(body: bytes) -> bool:
    """True if a body is such a stream. JSON begins with another byte."""
    return body.startswith(VERSION)


def records(body: bytes) -> Iterator[ByteReader]:
    """A reader for the row of each record."""
    reader = ByteReader(body, 0, len(body))
    _skip_segment(reader, read_header(reader))
    while reader.left:
        start = reader.position
        schema = read_header(reader)
        if schema == _RECORD:
            yield _record(reader, body)
        elif schema == _SEGMENT:
            _skip_segment(reader, schema)
        else:
            reader.fail(f"the schema {schema} is neither a record nor a segment", start)


def _record(reader: ByteReader, body: bytes) -> ByteReader:
    length, checksum = _RECORD_FIELDS.unpack(reader.take(_RECORD_FIELDS.size))
    row = reader.part(length)
    if zlib.crc32(memoryview(body)[row.position : reader.position]) != checksum:
        reader.fail("a record has a wrong checksum", row.position)
    return row


def _skip_segment(reader: ByteReader, schema: int) -> None:
    start = reader.position - HEADER_BYTES
    if schema != _SEGMENT:
        reader.fail(f"a stream begins with the schema {_SEGMENT}, not {schema},", start)
    presence, length = _SEGMENT_LENGTH.unpack(reader.take(_SEGMENT_LENGTH.size))
    if not presence[0] & _LENGTH_IS_PRESENT or length < _SEGMENT_BYTES:
        reader.fail("a segment has no valid length", start)
    reader.skip(length - _SEGMENT_BYTES)


def write_stream(rows: Iterable[bytes]) -> bytes:
    """A stream of one segment with these rows."""
    parts = [_WRITTEN_SEGMENT]
    for row in rows:
        parts.append(_WRITTEN_RECORD.pack(VERSION, _RECORD, len(row), zlib.crc32(row)))
        parts.append(row)
    return b"".join(parts)
