"""Binary JSON, which some clients send instead of text: decoded to the text that means the same.

The first byte, 80, is the only sign of it: no JSON text begins with that byte. Each value is a
marker byte and what the marker requires; `_READERS` has one row for each marker. Responses are
always text, which these clients accept.

The input is never trusted: nothing recurses, every length is checked against the end of the
container around it before it is used, and the text is limited while it is written, because a
reference of two bytes can stand for a string of two megabytes.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeAlias
from uuid import UUID

import orjson

from perseid.documents import MAX_NESTING, TOO_LARGE
from perseid.errors import BadRequest, RequestEntityTooLarge
from perseid.limits import MAX_BODY_BYTES

FIRST_BYTE: Final = b"\x80"
# Bytes that are decoded in at most a few milliseconds, whatever they mean.
FEW_BYTES: Final = 4 * 1024

# A little above the largest item, so that the error for an item slightly too large is exact.
_LARGEST_TEXT: Final = MAX_BODY_BYTES + 64 * 1024
_SYSTEM_STRINGS: Final = (
    b'"$s"', b'"$t"', b'"$v"', b'"_attachments"', b'"_etag"', b'"_rid"', b'"_self"', b'"_ts"',
    b'"attachments/"', b'"coordinates"', b'"geometry"', b'"GeometryCollection"', b'"id"', b'"url"',
    b'"Value"', b'"label"', b'"LineString"', b'"link"', b'"MultiLineString"', b'"MultiPoint"',
    b'"MultiPolygon"', b'"name"', b'"Name"', b'"Type"', b'"Point"', b'"Polygon"', b'"properties"',
    b'"type"', b'"value"', b'"Feature"', b'"FeatureCollection"', b'"_id"',
)  # fmt: skip
_TOO_DEEP: Final = f"The request body is nested deeper than {MAX_NESTING} levels."


def decode(data: bytes) -> bytes:
    """The JSON text of a body that begins with `FIRST_BYTE`.

    400 if the bytes mean nothing or are nested too deep, 413 if the text would be too large. Names
    that occur twice and the type of the value are checked when the text is parsed.
    """
    return _Reader(data).read()


class _OpenContainer:
    """An array or object that is being read."""

    __slots__ = ("count", "end", "expected", "is_object", "is_single")

    def __init__(self, *, is_object: bool, end: int, expected: int | None = None) -> None:
        self.is_object = is_object
        self.end = end  # no byte of the content is at or after it
        self.expected = expected  # how many items or members its header announces
        self.is_single = False  # it has one item or member, and no length
        self.count = 0


class _Reader:
    """The bytes, how far they are read, and the text written so far."""

    __slots__ = ("data", "end", "marker_position", "open", "position", "starts", "text")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 1
        self.end = len(data)  # of the innermost container
        self.marker_position = 1
        self.open: list[_OpenContainer] = []
        self.text = bytearray()
        self.starts = bytearray(len(data))  # 1 where a string begins: what references may name

    def read(self) -> bytes:
        self._read_value()
        while self.open:
            container = self.open[-1]
            is_complete = container.count if container.is_single else self.position == container.end
            if is_complete:
                self._close(container)
                continue
            if container.count:
                self.text += b","
            container.count += 1
            if container.is_object:
                self.text += self._read_name()
                self.text += b":"
            self._read_value()
        if self.position != len(self.data):
            self.refuse("there are bytes after the value", self.position)
        return bytes(self.text)

    def _read_value(self) -> None:
        start = self.marker_position = self.take(1)
        marker = self.data[start]
        piece = _READERS[marker](self, marker)
        if len(self.text) + len(piece) > _LARGEST_TEXT:
            raise RequestEntityTooLarge(TOO_LARGE)
        self.text += piece

    def _read_name(self) -> bytes:
        start = self.marker_position = self.take(1)
        marker = self.data[start]
        if marker not in _STRING_MARKERS:
            self.refuse("the name of a property is not a string")
        return _READERS[marker](self, marker)

    def _close(self, container: _OpenContainer) -> None:
        if container.expected is not None and container.expected != container.count:
            self.refuse(
                f"a container announces {container.expected} entries and has {container.count}",
                self.position,
            )
        self.text += b"}" if container.is_object else b"]"
        self.open.pop()
        self.end = self.open[-1].end if self.open else len(self.data)

    # For the readers of single values

    def take(self, size: int) -> int:
        """Where the next `size` bytes begin; they count as read."""
        start = self.position
        if size > self.end - start:
            if start == self.end:
                self.refuse("a value is missing", start)
            self.refuse(f"{size} bytes are announced and {self.end - start} are left", start)
        self.position = start + size
        return start

    def take_bytes(self, size: int) -> bytes:
        start = self.take(size)
        return self.data[start : start + size]

    def take_number(self, width: int) -> int:
        return int.from_bytes(self.take_bytes(width), "little")

    def begin(self, container: _OpenContainer) -> None:
        if len(self.open) == MAX_NESTING:
            raise BadRequest(_TOO_DEEP)
        self.open.append(container)
        self.end = container.end

    def refuse(self, what: str, position: int | None = None) -> NoReturn:
        if position is None:
            position = self.marker_position
        raise BadRequest(f"The request body is not valid binary JSON: {what} at byte {position}.")


_ValueReader: TypeAlias = Callable[[_Reader, int], bytes]


def _refuse_marker(reader: _Reader, marker: int) -> bytes:
    reader.refuse(f"the marker {marker:02X} is not one of a value")


def _refuse_dictionary(reader: _Reader, marker: int) -> bytes:
    reader.refuse(f"the marker {marker:02X} names a string of a dictionary that no request has")


# Numbers and constants --------------------------------------------------------------------------

_CONSTANTS: Final = {
    **{number: b"%d" % number for number in range(0x20)},
    0xD0: b"null",
    0xD1: b"false",
    0xD2: b"true",
    0xE0: b"[]",
    0xE8: b"{}",
}
_NUMBERS: Final = {
    0xC7: "Q", 0xC8: "B", 0xC9: "h", 0xCA: "i", 0xCB: "q", 0xCC: "d", 0xCD: "f", 0xCE: "d",
    0xD7: "B", 0xD8: "b", 0xD9: "h", 0xDA: "i", 0xDB: "q", 0xDC: "I",
}  # fmt: skip
_NOT_FINITE: Final = "NaN or infinity, which JSON does not have,"
_IN_ARRAYS: Final = frozenset((0xCD, 0xCE, *range(0xD7, 0xDD)))
_FORMS: Final = {marker: struct.Struct(f"<{form}") for marker, form in _NUMBERS.items()}


def _constant(_reader: _Reader, marker: int) -> bytes:
    return _CONSTANTS[marker]


def _number(reader: _Reader, marker: int) -> bytes:
    form = _FORMS[marker]
    (value,) = form.unpack_from(reader.data, reader.take(form.size))
    if not math.isfinite(value):
        reader.refuse(_NOT_FINITE)
    return repr(value).encode()


def _numbers(reader: _Reader, count: int, form: str) -> list[str]:
    """Numbers without markers."""
    packed = struct.Struct(f"<{count}{form}")
    texts = [*map(repr, packed.unpack_from(reader.data, reader.take(packed.size)))]
    if "nan" in texts or "inf" in texts or "-inf" in texts:
        reader.refuse(_NOT_FINITE)
    return texts


def _number_form(reader: _Reader) -> str:
    marker = reader.take_number(1)
    if marker not in _IN_ARRAYS:
        reader.refuse(f"{marker:02X} is not a type of the numbers of an array")
    return _NUMBERS[marker]


def _number_array(reader: _Reader, marker: int) -> bytes:
    form = _number_form(reader)
    count = reader.take_number(1 if marker == 0xF0 else 2)
    return f"[{','.join(_numbers(reader, count, form))}]".encode()


def _number_table(reader: _Reader, marker: int) -> bytes:
    """An array of arrays of equally many numbers."""
    if reader.take_number(1) != marker - 2:
        reader.refuse("an array of arrays does not contain arrays of numbers")
    form = _number_form(reader)
    width = 1 if marker == 0xF2 else 2
    columns, rows = reader.take_number(width), reader.take_number(width)
    # The size is checked first: a few bytes can announce gigabytes.
    if rows * columns > reader.end - reader.position:
        reader.refuse(f"{rows * columns} numbers are announced for an array of arrays")
    if columns == 0:  # seven bytes can mean 65,535 rows
        return b"[%b]" % b",".join((b"[]",) * rows)
    texts = _numbers(reader, rows * columns, form)
    lines = (",".join(texts[row * columns : (row + 1) * columns]) for row in range(rows))
    return f"[{','.join(f'[{line}]' for line in lines)}]".encode()


# Strings ----------------------------------------------------------------------------------------

_SWAPPED: Final = bytes((each & 15) << 4 | each >> 4 for each in range(256))
_HEX_DIGITS: Final = "0123456789abcdef"
_ALPHABETS: Final = {
    0x78: str.maketrans("", ""),
    0x79: str.maketrans(_HEX_DIGITS, "0123456789ABCDEF"),
    0x7A: str.maketrans(_HEX_DIGITS, " 0123456789:-.TZ"),
}


class _Packing(NamedTuple):
    bits: int  # of each character
    count_width: int  # bytes of the number of characters
    has_base: bool  # a byte says which character 0 means


_PACKINGS: Final = {
    0x7B: _Packing(4, 1, True),
    0x7C: _Packing(5, 1, True),
    0x7D: _Packing(6, 1, True),
    0x7E: _Packing(7, 1, False),
    0x7F: _Packing(7, 2, False),
}


def _quoted(text: str) -> bytes:
    return orjson.dumps(text)


def _system_string(reader: _Reader, marker: int) -> bytes:
    reader.starts[reader.marker_position] = 1
    return _SYSTEM_STRINGS[marker - 0x20]


def _short_string(reader: _Reader, marker: int) -> bytes:
    return _utf8(reader, marker - 0x80)


def _long_string(reader: _Reader, marker: int) -> bytes:
    return _utf8(reader, reader.take_number((1, 2, 4)[marker - 0xC0]))


def _utf8(reader: _Reader, size: int) -> bytes:
    reader.starts[reader.marker_position] = 1
    try:
        return orjson.dumps(reader.take_bytes(size).decode())
    except UnicodeDecodeError:
        reader.refuse("a string is not valid UTF-8")


def _guid(reader: _Reader, marker: int) -> bytes:
    reader.starts[reader.marker_position] = 1
    text = str(UUID(bytes=reader.take_bytes(16).translate(_SWAPPED)))
    if marker == 0x76:
        text = text.upper()
    return _quoted(f'"{text}"' if marker == 0x77 else text)


def _guid_value(reader: _Reader, _marker: int) -> bytes:
    return _quoted(str(UUID(bytes_le=reader.take_bytes(16))))


def _four_bits(reader: _Reader, marker: int) -> bytes:
    """Two characters of an alphabet of sixteen in each byte, the first in the low bits."""
    reader.starts[reader.marker_position] = 1
    count = reader.take_number(1)
    digits = reader.take_bytes((count + 1) // 2).translate(_SWAPPED).hex()
    if count % 2 and digits[-1] != "0":
        reader.refuse("bits are set after the last character of a string")
    return _quoted(digits[:count].translate(_ALPHABETS[marker]))


def _packed(reader: _Reader, marker: int) -> bytes:
    """Characters of a few bits, the first in the lowest bits; what is left over means nothing."""
    reader.starts[reader.marker_position] = 1
    bits, count_width, has_base = _PACKINGS[marker]
    count = reader.take_number(count_width)
    base = reader.take_number(1) if has_base else 0
    packed = reader.take_bytes((count * bits + 7) // 8)
    mask = (1 << bits) - 1
    shifts = range(0, 8 * bits, bits)
    codes = [
        base + (group >> shift & mask)
        # Eight characters fill `bits` bytes. Shifting all bytes at once would take quadratic time.
        for group in (
            int.from_bytes(packed[start : start + bits], "little")
            for start in range(0, len(packed), bits)
        )
        for shift in shifts
    ][:count]
    if codes and max(codes) > 0x7F:
        reader.refuse("a packed string has a character that is not ASCII")
    return _quoted(bytes(codes).decode("ascii"))


def _base64(reader: _Reader, marker: int) -> bytes:
    """A string that is base64: the bytes are what it means."""
    reader.starts[reader.marker_position] = 1
    groups = reader.take_number(1 if marker in (0x71, 0x73) else 2)
    pad = reader.take_number(1)
    is_cut = pad >= 0xFD  # the text has no `=` although it needs some
    missing = 0xFF - pad if is_cut else pad
    if missing > 2 or (is_cut and not missing) or (missing and not groups):
        reader.refuse(f"{pad:02X} is not a padding of base64")
    raw = reader.take_bytes((4 * groups - missing) * 3 // 4)
    text = b64encode(raw, b"+/" if marker < 0x73 else b"-_")
    return b'"%b"' % (text[:-missing] if is_cut else text)


def _bytes(reader: _Reader, marker: int) -> bytes:
    size = reader.take_number((1, 2, 4)[marker - 0xDD])
    return b'"%b"' % b64encode(reader.take_bytes(size))


def _reference(reader: _Reader, marker: int) -> bytes:
    """A string that is written earlier; never another reference, so it takes one step.

    It is decoded again, which takes no longer than copying its text and needs no memory.
    """
    target = reader.take_number(marker - 0xC2)
    if target >= len(reader.starts) or not reader.starts[target]:
        reader.refuse(f"a reference to byte {target}, where no earlier string begins,")
    position, end = reader.position, reader.end
    reader.position, reader.end = target + 1, len(reader.data)
    reader.marker_position, referring = target, reader.marker_position
    marker = reader.data[target]
    piece = _READERS[marker](reader, marker)
    reader.position, reader.end, reader.marker_position = position, end, referring
    return piece


# Containers -------------------------------------------------------------------------------------


def _single(reader: _Reader, marker: int) -> bytes:
    """One item or member, without a length."""
    container = _OpenContainer(is_object=marker == 0xE9, end=reader.end)
    container.is_single = True
    reader.begin(container)
    return b"{" if container.is_object else b"["


def _container(reader: _Reader, marker: int) -> bytes:
    is_object = marker > 0xE8
    form = marker - (0xEA if is_object else 0xE2)
    width = (1, 2, 4)[form % 3]
    size = reader.take_number(width)
    expected = reader.take_number(width) if form > 2 else None
    end = reader.position + size
    if end > reader.end:
        reader.refuse(f"{size} bytes are announced and {reader.end - reader.position} are left")
    reader.begin(_OpenContainer(is_object=is_object, end=end, expected=expected))
    return b"{" if is_object else b"["


# Which reader each marker has -------------------------------------------------------------------

_STRING_MARKERS: Final = frozenset((*range(0x20, 0x40), *range(0x71, 0xC7)))


def _readers() -> list[_ValueReader]:
    readers: list[_ValueReader] = [_refuse_marker] * 256
    for markers, reader in (
        (_CONSTANTS, _constant),
        (range(0x20, 0x40), _system_string),
        (range(0x40, 0x68), _refuse_dictionary),
        (range(0x71, 0x75), _base64),
        (range(0x75, 0x78), _guid),
        (_ALPHABETS, _four_bits),
        (_PACKINGS, _packed),
        (range(0x80, 0xC0), _short_string),
        (range(0xC0, 0xC3), _long_string),
        (range(0xC3, 0xC7), _reference),
        (_NUMBERS, _number),
        ((0xD3,), _guid_value),
        (range(0xDD, 0xE0), _bytes),
        ((0xE1, 0xE9), _single),
        ((*range(0xE2, 0xE8), *range(0xEA, 0xF0)), _container),
        ((0xF0, 0xF1), _number_array),
        ((0xF2, 0xF3), _number_table),
    ):
        for marker in markers:
            readers[marker] = reader
    return readers


_READERS: Final = _readers()
