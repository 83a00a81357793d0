"""Lists of keys as arrays in the database's binary form.

The driver would write them as text, character by character, which costs both sides more than the
look-up of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD: Final = Struct("!iiIii")  # dimensions, has NULLs, type of an element, length, first index
_SIZE: Final = Struct("!i")
BYTEA, TEXT = 17, 25  # types, by the numbers that are the same on all servers
BYTEA_ARRAY, TEXT_ARRAY = 1001, 1009


class BytesArray(bytes):
    """The binary form of a `bytea[]`."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Iterable[bytes]) -> BytesArray:
        return cls(_packed(BYTEA, [*values]))


class TextArray(bytes):
    """The binary form of a `text[]`."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Iterable[str]) -> TextArray:
        return cls(_packed(TEXT, [value.encode() for value in values]))


def _packed(element_type: int, values: list[bytes]) -> bytes:
    pack = _SIZE.pack
    head = _HEAD.pack(1, 0, element_type, len(values), 1)
    return head + b"".join([part for value in values for part in (pack(len(value)), value)])


class _BytesArrayDumper(Dumper):
    format = Format.BINARY
    oid = BYTEA_ARRAY

    def dump(self, obj: Any) -> bytes:
        return bytes(obj)


class _TextArrayDumper(_BytesArrayDumper):
    oid = TEXT_ARRAY


def register(context: AdaptContext) -> None:
    """Lets a connection send these arrays."""
    adapters = context.adapters
    assert adapters is not None  # noqa: S101 -- every connection has them
    adapters.register_dumper(BytesArray, _BytesArrayDumper)
    adapters.register_dumper(TextArray, _TextArrayDumper)
