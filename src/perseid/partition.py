"""Partition keys: how one is defined, read, stored and hashed, and which range it belongs to.

Covers the definition, the header, the stored form and the effective partition key. Callers decide
whether a prefix of a hierarchical key is allowed.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, final

import mmh3
import orjson

from perseid.errors import BadRequest, PartitionKeyMismatch
from perseid.paths import parse_path, unaccepted_position

MISMATCH: Final = (
    "Partition key provided either doesn't correspond to definition in the collection or doesn't "
    "match partition key field values specified in the document."
)
_INVALID_PATH: Final = (
    "The partition key component definition path '{}' could not be accepted, failed near position"
    " '{}'. Partition key paths must contain only valid characters and not contain a trailing slash"
    " or wildcard character."
)


@final
class Absent:
    """The type of `ABSENT`, the key component of a document without the property."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()

Component: TypeAlias = str | int | float | bool | Absent | None
PartitionKey: TypeAlias = tuple[Component, ...]
KeyKind: TypeAlias = Literal["Hash", "MultiHash"]
HashVersion: TypeAlias = Literal[1, 2]


# Definition -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """Which properties of an item are its partition key, and how the key is hashed."""

    paths: tuple[str, ...]
    kind: KeyKind
    version: HashVersion
    tokens: tuple[tuple[str, ...], ...]

    @property
    def levels(self) -> int:
        return len(self.paths)


# The definition of a container that was created without a partition key, as today's clients see it.
# All of its items have the empty key, `[]`; `_partitionKey` is a property like any other.
SYSTEM_KEY: Final[Mapping[str, Any]] = {
    "paths": ["/_partitionKey"],
    "kind": "Hash",
    "systemKey": True,
}
_NO_KEY: Final = KeyDefinition((), "Hash", 1, ())

MAX_LEVELS: Final = 3  # of a hierarchical key

_VERSIONS: Final[Mapping[object, HashVersion]] = {1: 1, 2: 2, "1": 1, "2": 2, "V1": 1, "V2": 2}

# For each kind: the largest number of paths, the allowed versions, and the default version.
# Clients that send Hash without a version use version 1.
_KINDS: Final[Mapping[str, tuple[KeyKind, int, tuple[HashVersion, ...], HashVersion]]] = {
    "Hash": ("Hash", 1, (1, 2), 1),
    "MultiHash": ("MultiHash", MAX_LEVELS, (2,), 2),
}


def parse_definition(value: Any) -> KeyDefinition:
    """The definition in a container's `partitionKey`, or a 400."""
    if value == SYSTEM_KEY:
        return _NO_KEY
    if not isinstance(value, dict):
        raise BadRequest("The partitionKey of a container must be an object.", listed=True)
    paths = value.get("paths")
    if not isinstance(paths, list) or not paths:
        raise BadRequest("The partitionKey must specify at least one path.", listed=True)
    name = value.get("kind", "Hash")
    if not isinstance(name, str) or name not in _KINDS:
        raise BadRequest(f"The partition key kind must be one of {_one_of(_KINDS)}.", listed=True)
    kind, most, versions, default = _KINDS[name]
    if len(paths) > most:
        raise BadRequest(
            f"Too many partition key paths ({len(paths)}) specified. "
            f"A maximum of {most} is allowed.",
            listed=True,
        )
    given = value.get("version")
    version = default if given is None else _version(given)
    if version is None or version not in versions:
        raise BadRequest(
            f"The partition key version of kind {kind} must be one of {_one_of(versions)}.",
            listed=True,
        )
    return KeyDefinition(tuple(paths), kind, version, tuple(map(_parse_key_path, paths)))


def _version(given: Any) -> HashVersion | None:
    """As a number, or as the name that Java writes."""
    if isinstance(given, str):
        return _VERSIONS.get(given.upper())
    return _VERSIONS.get(given) if type(given) is int else None


def _one_of(choices: Any) -> str:
    return ", ".join(map(str, choices))


def _parse_key_path(path: Any) -> tuple[str, ...]:
    try:
        if isinstance(path, str):
            return parse_path(path)
    except BadRequest:
        pass
    raise _invalid_path(path)


def check_characters(value: Any) -> None:
    """400 if an unquoted part of a path has a character that the service refuses.

    Only for new containers: Perseid itself can use any path that `parse_definition` reads.
    """
    paths = value.get("paths") if isinstance(value, dict) else None
    for path in paths if isinstance(paths, list) else ():
        if not isinstance(path, str) or unaccepted_position(path) is not None:
            raise _invalid_path(path)


def _invalid_path(path: Any) -> BadRequest:
    position = unaccepted_position(path) if isinstance(path, str) else 0
    return BadRequest(_INVALID_PATH.format(path, position), listed=True)


# Reading keys -----------------------------------------------------------------------------------

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def extract(definition: KeyDefinition, document: Mapping[str, Any]) -> PartitionKey:
    """The document's key, one component for each level of the definition."""
    tokens = definition.tokens
    if len(tokens) == 1 and len(tokens[0]) == 1:
        value = document.get(tokens[0][0], ABSENT)
        if type(value) is str:
            return (value,)
    return tuple([_extract_one(names, document) for names in tokens])


def _extract_one(names: tuple[str, ...], document: Mapping[str, Any]) -> Component:
    value: Any = document
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    # Arrays and objects count as absent: clients extract the key in the same way.
    return value if type(value) in _SCALARS else ABSENT


EMPTY_HEADER: Final = "[]"


def header_of(header: str | None, definition: KeyDefinition) -> str | None:
    """The header of a request; without a partition key to name, none means the empty key."""
    return EMPTY_HEADER if header is None and not definition.tokens else header


def parse_header(text: str | bytes, levels: int) -> PartitionKey:
    """The key in an `x-ms-documentdb-partitionkey` header; with fewer levels it is a prefix.

    `[]`, which clients send for containers without a partition key, is the empty tuple.
    """
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise BadRequest(f"The partition key header is not valid JSON: {exc}") from exc
    if type(values) is not list:
        raise BadRequest("The partition key header must be a JSON array.")
    if len(values) == 1 and type(values[0]) is str:
        return (values[0],)
    if len(values) > levels:
        raise PartitionKeyMismatch(MISMATCH)
    return tuple([_header_component(value) for value in values])


def _header_component(value: Any) -> Component:
    if value == {}:
        return ABSENT
    if type(value) not in _SCALARS:
        raise BadRequest(
            "The partition key header may hold strings, numbers, booleans, null and {} only."
        )
    component: Component = value
    return component


# For both hash versions. Version 1 hashes the first 101 bytes only, so longer keys may share a hash
# and a physical range; they are different logical partitions nevertheless.
_MAX_BYTES: Final = 2048


def check_size(key: PartitionKey) -> None:
    """400 if a component is too long."""
    limit = _MAX_BYTES
    for component in key:
        # a character has at most four bytes of UTF-8, so short texts need no encoding
        is_long = type(component) is str and len(component) * 4 > limit
        if is_long and len(str(component).encode()) > limit:
            raise BadRequest(f"The partition key value is longer than {limit} bytes.", listed=True)


# Stored form ------------------------------------------------------------------------------------

_UNDEFINED, _NULL, _FALSE, _TRUE, _NUMBER, _STRING = 0x00, 0x01, 0x02, 0x03, 0x05, 0x08
_END: Final = 0xFF  # not a byte of UTF-8, so it marks the end of a text without escapes
_DOUBLE: Final = struct.Struct("<Bd")
_CONSTANTS: Final[Mapping[int, Component]] = {
    _UNDEFINED: ABSENT,
    _NULL: None,
    _FALSE: False,
    _TRUE: True,
}


def _encode_string(value: str) -> bytes:
    return b"\x08%b\xff" % value.encode()


def _encode_number(value: float) -> bytes:
    return _DOUBLE.pack(_NUMBER, value + 0.0)  # adding zero turns -0.0 into 0.0


_ENCODERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: _encode_string,
    int: lambda value: _encode_number(float(value)),
    float: _encode_number,
    bool: lambda value: b"\x03" if value else b"\x02",
    type(None): lambda _: b"\x01",
    Absent: lambda _: b"\x00",
}


def canonical(key: PartitionKey) -> bytes:
    """The stored form of a key: equal bytes exactly for equal keys.

    Hash version 2 hashes these bytes. Each component marks its end, so the bytes of a key start
    with those of a prefix exactly if the key lies below that prefix.
    """
    if len(key) == 1:
        component = key[0]
        return _ENCODERS[type(component)](component)
    return b"".join([_ENCODERS[type(component)](component) for component in key])


def from_canonical(stored: bytes) -> PartitionKey:
    """The key that `canonical` stored; whole numbers come back as integers."""
    key: list[Component] = []
    position = 0
    while position < len(stored):
        kind = stored[position]
        if kind == _STRING:
            end = stored.index(_END, position)
            key.append(stored[position + 1 : end].decode())
            position = end + 1
        elif kind == _NUMBER:
            number: float = _DOUBLE.unpack_from(stored, position)[1]
            key.append(int(number) if number.is_integer() else number)
            position += _DOUBLE.size
        else:
            key.append(_CONSTANTS[kind])
            position += 1
    return tuple(key)


# Effective partition key ------------------------------------------------------------------------

_CACHED_KEYS: Final = 16_384
_MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF


def effective(key: PartitionKey, definition: KeyDefinition) -> str:
    """The effective partition key: the hash that orders keys between `""` and `FF`."""
    return effective_of(canonical(key), definition)


def effective_of(stored: bytes, definition: KeyDefinition) -> str:
    """The effective partition key of a key in its stored form."""
    if definition.kind == "MultiHash":
        return _multi_hash(stored)
    return _hash_v2(stored) if definition.version == 2 else _hash_v1(stored)


@lru_cache(maxsize=_CACHED_KEYS)
def _hash_v2(stored: bytes) -> str:
    if not stored:
        return ""
    low, high = mmh3.mmh3_x64_128_utupledigest(stored)
    return f"{high & 0x3FFF_FFFF_FFFF_FFFF:016X}{low:016X}"


@lru_cache(maxsize=_CACHED_KEYS)
def _multi_hash(stored: bytes) -> str:
    return "".join([_hash_v2(canonical((component,))) for component in from_canonical(stored)])


@lru_cache(maxsize=_CACHED_KEYS)
def _hash_v1(stored: bytes) -> str:
    if not stored:
        return ""
    key = [_cut_v1(component) for component in from_canonical(stored)]
    hashed = mmh3.mmh3_32_uintdigest(b"".join([_hash_input_v1(component) for component in key]))
    return b"".join([sortable(float(hashed)), *map(_encode_v1, key)]).hex().upper()


def _cut_v1(component: Component) -> Component:
    return component[:100] if isinstance(component, str) else component


def _hash_input_v1(component: Component) -> bytes:
    if isinstance(component, str):
        return b"\x08%b\x00" % component.encode()
    return canonical((component,))


def _encode_v1(component: Component) -> bytes:
    if isinstance(component, str):
        raw = component.encode()
        shifted = bytes([byte + 1 for byte in raw[:101]])  # UTF-8 stays below 0xFF
        return b"\x08" + shifted + (b"\x00" if len(raw) <= 100 else b"")
    if isinstance(component, int | float) and not isinstance(component, bool):
        return sortable(float(component))
    return canonical((component,))


def sortable(number: float) -> bytes:
    """A number as bytes that sort like numbers: eight bits, then groups of seven.

    The low bit of a group says whether another one follows, so the bytes of no number start with
    those of another.
    """
    bits: int = struct.unpack(">Q", struct.pack(">d", number))[0]
    bits = (-bits if bits >> 63 else bits ^ 1 << 63) & _MASK64
    encoded = bytearray((_NUMBER, bits >> 56))
    rest = bits << 8 & _MASK64
    while True:
        group = rest >> 56 & 0xFE
        rest = rest << 7 & _MASK64
        if not rest:
            encoded.append(group)
            return bytes(encoded)
        encoded.append(group | 1)


# Ranges -----------------------------------------------------------------------------------------

WHOLE: Final = ("", "FF")


@dataclass(frozen=True, slots=True)
class Range:
    """One physical range: effective keys from `min` up to, not including, `max`.

    Clients know it by its id, stored rows by its index. `parents` are the ids of the ranges that it
    was split from.
    """

    id: str
    index: int
    min: str
    max: str
    parents: tuple[str, ...] = ()


_by_min: Final = attrgetter("min")


def range_of(epk: str, ranges: tuple[Range, ...]) -> Range:
    """The range of an effective partition key."""
    if len(ranges) == 1:
        return ranges[0]
    return ranges[bisect_right(ranges, epk, key=_by_min) - 1]


def overlapping(ranges: tuple[Range, ...], low: str, high: str) -> list[int]:
    """The indexes of the ranges with effective keys from `low` up to, not including, `high`."""
    return [each.index for each in ranges if each.min < high and low < each.max]


def interval_text(epk_min: bytes | None, epk_max: bytes | None) -> tuple[str, str]:
    """An interval of effective keys as text; None leaves a side open."""
    return (
        WHOLE[0] if epk_min is None else epk_min.hex().upper(),
        WHOLE[1] if epk_max is None else epk_max.hex().upper(),
    )


def prefix_interval(prefix: PartitionKey, definition: KeyDefinition) -> tuple[str, str]:
    """From and up to, not including: the effective keys below a hierarchical prefix."""
    if not prefix:
        return WHOLE
    lowest = effective(prefix, definition)
    return lowest, lowest + "FF"


def point_interval(epk: str) -> tuple[str, str]:
    """From and up to, not including: only this effective key."""
    return epk, f"{int(epk, 16) + 1:0{len(epk)}X}" if epk else "00"
