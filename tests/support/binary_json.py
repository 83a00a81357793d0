"""Writes binary JSON in every form a client may choose, and known bytes with their JSON.

Independent of the server's own reader. The vectors were recorded from clients.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

SYSTEM_STRINGS: Final = (
    "$s", "$t", "$v", "_attachments", "_etag", "_rid", "_self", "_ts",
    "attachments/", "coordinates", "geometry", "GeometryCollection", "id", "url", "Value", "label",
    "LineString", "link", "MultiLineString", "MultiPoint", "MultiPolygon", "name", "Name", "Type",
    "Point", "Polygon", "properties", "type", "value", "Feature", "FeatureCollection", "_id",
)  # fmt: skip

_SHORT_TEXT: Final = 63  # bytes of a string whose length is in its marker
_DIGITS: Final = {  # four bits for each character
    0x78: "0123456789abcdef",
    0x79: "0123456789ABCDEF",
    0x7A: " 0123456789:-.TZ",
}
_INTEGERS: Final = (
    (0xC7, "Q"), (0xC8, "B"), (0xC9, "h"), (0xCA, "i"), (0xCB, "q"),
    (0xD7, "B"), (0xD8, "b"), (0xD9, "h"), (0xDA, "i"), (0xDB, "q"), (0xDC, "I"),
)  # fmt: skip
_SIZES: Final = ((1, 0xFF), (2, 0xFFFF), (4, 0xFFFF_FFFF))


class BinaryWriter:
    """Chooses at random among the forms that can hold a value."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._offsets: dict[str, int] = {}  # where a string was written

    def write(self, value: Any) -> bytes:
        return b"\x80" + self._value(value, 1)

    def _value(self, value: Any, offset: int) -> bytes:
        """The bytes of a value that begins at `offset` of the body."""
        match value:
            case None:
                return b"\xd0"
            case bool():
                return b"\xd2" if value else b"\xd1"
            case str():
                return self._string(value, offset)
            case int():
                return self._integer(value)
            case float():
                return bytes((self._chance.choice((0xCC, 0xCE)),)) + struct.pack("<d", value)
            case list():
                return self._array(value, offset)
            case _:
                return self._object(value, offset)

    def _integer(self, value: int) -> bytes:
        forms = [bytes((value,))] if 0 <= value < 32 else []
        for marker, form in _INTEGERS:
            try:
                forms.append(bytes((marker,)) + struct.pack(f"<{form}", value))
            except struct.error:
                continue
        return self._chance.choice(forms)

    # Strings

    def _string(self, text: str, offset: int) -> bytes:
        forms = [_plain(text)] * 2
        if text in SYSTEM_STRINGS:
            forms.append(bytes((0x20 + SYSTEM_STRINGS.index(text),)))
        for encode in (_guid, _four_bits, _packed, _base64):
            forms += encode(text)
        known = self._offsets.get(text)
        if known is not None:
            forms += 2 * _references(known)
        chosen = self._chance.choice(forms)
        if chosen[0] not in range(0xC3, 0xC7):
            self._offsets[text] = offset
        return chosen

    # Containers

    def _array(self, values: list[Any], offset: int) -> bytes:
        if not values and self._chance.random() < 0.5:
            return b"\xe0"
        if self._chance.random() < 0.3:
            numbers = _numbers(values)
            if numbers is not None:
                return numbers
        return self._container(0xE1, values, offset, self._value)

    def _object(self, members: dict[str, Any], offset: int) -> bytes:
        if not members and self._chance.random() < 0.5:
            return b"\xe8"
        pairs = list(members.items())
        return self._container(0xE9, pairs, offset, self._member)

    def _member(self, pair: tuple[str, Any], offset: int) -> bytes:
        name = self._string(pair[0], offset)
        return name + self._value(pair[1], offset + len(name))

    def _container(
        self, marker: int, values: list[Any], offset: int, write: Callable[[Any, int], bytes]
    ) -> bytes:
        if len(values) == 1 and self._chance.random() < 0.5:
            return bytes((marker,)) + write(values[0], offset + 1)
        with_count = self._chance.random() < 0.5
        # The length of the header is chosen before the content, since references name offsets.
        step = self._chance.choice((1, 2)) if len(values) < 8 else 2
        while True:
            width = _SIZES[step][0]
            header = 1 + width * (1 + with_count)
            known = dict(self._offsets)
            content = b""
            for value in values:
                content += write(value, offset + header + len(content))
            if len(content) <= _SIZES[step][1]:
                break
            self._offsets, step = known, step + 1
        first = marker + 1 + step + 3 * with_count
        count = len(values).to_bytes(width, "little") if with_count else b""
        return bytes((first,)) + len(content).to_bytes(width, "little") + count + content


def _plain(text: str) -> bytes:
    raw = text.encode()
    if len(raw) <= _SHORT_TEXT:
        return bytes((0x80 + len(raw),)) + raw
    for step, (width, largest) in enumerate(_SIZES):
        if len(raw) <= largest:
            return bytes((0xC0 + step,)) + len(raw).to_bytes(width, "little") + raw
    raise ValueError("too long")


def _references(target: int) -> list[bytes]:
    return [
        bytes((0xC2 + width,)) + target.to_bytes(width, "little")
        for width in (1, 2, 3, 4)
        if target < 1 << 8 * width
    ]


def _guid(text: str) -> list[bytes]:
    bare = text.strip('"')
    try:
        digits = UUID(bare).hex
    except ValueError:
        return []
    raw = bytes(int(digits[at : at + 2][::-1], 16) for at in range(0, 32, 2))
    forms = []
    if text == str(UUID(bare)):
        forms.append(b"\x75" + raw)
    if text == str(UUID(bare)).upper():
        forms.append(b"\x76" + raw)
    if text == f'"{UUID(bare)}"':
        forms.append(b"\x77" + raw)
    return forms


def _four_bits(text: str) -> list[bytes]:
    forms = []
    for marker, digits in _DIGITS.items():
        if 0 < len(text) < 256 and set(text) <= set(digits):
            values = [digits.index(each) for each in text] + [0] * (len(text) % 2)
            pairs = zip(values[::2], values[1::2], strict=True)
            forms.append(bytes((marker, len(text), *(low | high << 4 for low, high in pairs))))
    return forms


def _packed(text: str) -> list[bytes]:
    if not text or not text.isascii() or len(text) > 0xFFFF:
        return []
    forms = []
    codes = text.encode()
    lowest = min(codes)
    for bits, marker in ((4, 0x7B), (5, 0x7C), (6, 0x7D)):
        if len(codes) < 256 and max(codes) - lowest < 1 << bits:
            packed = _pack([code - lowest for code in codes], bits)
            # What is left of the last byte is not always zero.
            spare = 8 * len(packed) - bits * len(codes)
            packed = packed[:-1] + bytes((packed[-1] | 0xFF << 8 - spare & 0xFF,))
            forms.append(bytes((marker, len(codes), lowest)) + packed)
    if len(codes) < 256:
        forms.append(bytes((0x7E, len(codes))) + _pack(list(codes), 7))
    forms.append(b"\x7f" + len(codes).to_bytes(2, "little") + _pack(list(codes), 7))
    return forms


def _pack(values: list[int], bits: int) -> bytes:
    number = sum(value << bits * place for place, value in enumerate(values))
    return number.to_bytes((len(values) * bits + 7) // 8, "little")


def _base64(text: str) -> list[bytes]:
    forms = []
    for marker, characters in ((0x71, b"+/"), (0x73, b"-_")):
        bare = text.rstrip("=")
        try:
            raw = base64.b64decode(bare + "=" * (-len(bare) % 4), characters, validate=True)
        except ValueError:
            continue
        whole = base64.b64encode(raw, characters).decode()
        missing = whole.count("=")
        if not 0 < len(text) <= 0xFFFF or text not in (whole, whole.rstrip("=")):
            continue
        pad = missing if text == whole else 255 - missing
        groups = len(whole) // 4
        if groups < 256:
            forms.append(bytes((marker, groups, pad)) + raw)
        forms.append(bytes((marker + 1, *groups.to_bytes(2, "little"), pad)) + raw)
    return forms


def _numbers(values: list[Any]) -> bytes | None:
    """An array of numbers, or of arrays of equally many numbers, without markers."""
    if len(values) > 255:
        return None
    if values and all(type(each) is list for each in values):
        inner = len(values[0])
        flat = [each for row in values for each in row]
        if inner > 255 or any(len(row) != inner for row in values):
            return None
        kind = _kind(flat)
        if kind is None:
            return None
        head = bytes((0xF2, 0xF0, kind[0], inner, len(values)))
        return head + struct.pack(f"<{len(flat)}{kind[1]}", *flat)
    kind = _kind(values)
    if kind is None:
        return None
    packed = struct.pack(f"<{len(values)}{kind[1]}", *values)
    return b"\xf1" + bytes((kind[0],)) + len(values).to_bytes(2, "little") + packed


def _kind(values: list[Any]) -> tuple[int, str] | None:
    if all(type(each) is float for each in values):
        return 0xCE, "d"
    if all(type(each) is int and -(1 << 63) <= each < 1 << 63 for each in values):
        return 0xDB, "q"
    return None


# Bytes of clients, and the JSON they mean
VECTORS: Final = (
    (
        "80e92c8131",
        '{"id":"1"}',
    ),
    (
        "80ea382c81318176e231001fc820c8ffc90001c9ffffca00800000caff7fffffcb00000080000000"
        "00cb0100000000002000cb0000000000000080",
        '{"id":"1","v":[0,31,32,255,256,-1,32768,-32769,2147483648,9007199254740993,-9223'
        "372036854775808]}",
    ),
    (
        "80ea222c81318176e21bcc000000000000e03fcca0c8eb85f3cce17fcc00000000000002c0",
        '{"id":"1","v":[0.5,1e308,-2.25]}',
    ),
    (
        "80ea132c81318176e20cd0d2d180e0e8e1e0e98161e8",
        '{"id":"1","v":[null,true,false,"",[],{},[[]],{"a":{}}]}',
    ),
    (
        "80ea3a2c81318176e23375f0f8dab59dbc64f91a560768778259e076f0f8dab59dbc64f91a560768"
        "778259e077f0f8dab59dbc64f91a560768778259e0",
        '{"id":"1","v":["0f8fad5b-d9cb-469f-a165-70867728950e","0F8FAD5B-D9CB-469F-A165-7'
        '0867728950E","\\"0f8fad5b-d9cb-469f-a165-70867728950e\\""]}',
    ),
    (
        "80ea1c2c81318176e2157811eddaebfeeddaebfe017910eddaebfeeddaebfe",
        '{"id":"1","v":["deadbeefdeadbeef1","DEADBEEFDEADBEEF"]}',
    ),
    (
        "80ea212c81318176e21a7a1413531cc2311eb4511bf67a1713531cc23110b4511bd63204",
        '{"id":"1","v":["2024-01-02T03:04:05Z","2024-01-02 03:04:05.123"]}',
    ),
    (
        "80ea152c813181767b19611032547698badcfe10325476f8",
        '{"id":"1","v":"abcdefghijklmnopabcdefghi"}',
    ),
    (
        "80ea1e2c813181767c2361f310489150213adb8abb89b2275d25711eb240c6c399",
        '{"id":"1","v":"thequickbrownfoxjumpsoverthelazydog"}',
    ),
    (
        "80ea272c813181767d294292393ef319a600dcd62cd1dac8bcba71438fb0648eca87df425b36ec28d5ad",
        '{"id":"1","v":"TheQuickBrownFoxJumpsOverTheLazyDogOneTwo"}',
    ),
    (
        "80ea582c813181767e5c54741914afa7c76b9058febebb41e6371ea4aeb7e173d0db5e9683e8e832"
        "881dd6e741e4f77907a2a3cb2076589f0791df67d09c5d2ec3e72e504c36a3d56c375c0e06a2a7db"
        "e53928ed068541f2f73d04",
        '{"id":"1","v":"The quick brown fox jumps over the lazy dog; the lazy dog sleeps.'
        ' 1234567890 times in a row!"}',
    ),
    (
        "80ea1a2c81318176e213e986636f6c6f757283726564e9c30bc312c30b",
        '{"id":"1","v":[{"colour":"red"},{"colour":"red"},"colour"]}',
    ),
    (
        "80ea182c81318176ea113b3829e20ccc0000000000803f40c9fcff",
        '{"id":"1","v":{"type":"Point","coordinates":[31.5,-4]}}',
    ),
    (
        "80ea0f2c8131817689c3a9e4b896f09f9880",
        '{"id":"1","v":"é世😀"}',
    ),
    (
        "80ea192c81318176e511110101010101010101010101010101010101",
        '{"id":"1","v":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}',
    ),
    (
        "80ed3c078161e500008165ed00008269648131816ecc000000000000f83f836e6567cbfbffffffff"
        "ffffff8175c7ffffffffffffffff8176e50504018178d0d2",
        '{"a":[],"e":{},"id":"1","n":1.5,"neg":-5,"u":18446744073709551615,"v":[1,"x",null,true]}',
    ),
    (
        "80f0d805fffefd0405",
        "[-1,-2,-3,4,5]",
    ),
    (
        "80f2f0ce0202000000000000f83f00000000000004400000000000000c400000000000001240",
        "[[1.5,2.5],[3.5,4.5]]",
    ),
)

# Bytes that mean nothing, with what is wrong about them
REFUSED: Final = (
    ("80", "no value"),
    ("800000", "bytes after the value"),
    ("8040", "a string of a dictionary"),
    ("806000", "a string of a dictionary, two bytes"),
    ("8068", "a reserved marker"),
    ("80cf0000", "a half float"),
    ("80c300", "a reference to the first byte of the body"),
    ("80c301", "a reference to itself"),
    ("8082b569", "invalid UTF-8"),
    ("8083eda080", "a lone surrogate"),
    ("80e2058268", "a length beyond the end"),
    ("80e5030200d001", "more items than the count says"),
    ("80e5010200", "fewer items than the count says"),
    ("807801f0", "bits after an odd number of digits"),
    ("80e90001", "a name that is a number"),
    ("80e9816100d0", "bytes after the only member"),
    ("80ea02816100", "a member beyond the end of its object"),
    ("80cc000000000000f87f", "not a number"),
    ("80cc000000000000f07f", "infinity"),
    ("80cd0000807f", "infinity of a float"),
    ("80f00000", "an array of no known type"),
    ("80f0c80101", "an array of a type that arrays do not have"),
    ("80f0ce01000000000000f87f", "an array with not a number"),
    ("80f3f1daffffffff", "an array far beyond the end"),
    ("80f2f1d70101", "an array whose inner arrays are longer than it may have"),
    ("80f4", "a reserved marker for containers"),
    ("80ff", "the invalid marker"),
    ("807b0178ff", "a packed character above ASCII"),
    ("80710003616263", "an unknown padding"),
    ("80710001", "padding without groups"),
    ("80e2048161c302", "a reference into the middle of a string"),
    ("80e2068161c303c305", "a reference to a reference"),
    ("80e204c3058161", "a reference to a string that comes later"),
    ("80ea162c8131816ecc000000000000f8ff816170", "a truncated object"),
)
