"""The physical ranges of containers from before their bounds were stored.

Frozen like the migrations, which use it: items lie in these ranges.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import orjson

_MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF
_MOST_RANGES: Final = 4096


def with_bounds(state: bytes | str) -> bytes | None:
    """The JSON state of a container with its ranges in the place of their number.

    None if it is damaged or has ranges already. Reading a damaged one reports it.
    """
    try:
        value = orjson.loads(state)
        ranges = ranges_of(value)
    except (ValueError, LookupError, TypeError):
        return None
    return None if ranges is None else orjson.dumps(value | {"ranges": ranges})


def ranges_of(state: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The ranges of a container, in the form of the first layout that stores them."""
    count, version = state["ranges"], state["properties"]["partitionKey"]["version"]
    if type(count) is not int or not 1 <= count <= _MOST_RANGES or version not in (1, 2):
        return None
    bound = _bound_v2 if version == 2 else _bound_v1
    bounds = ["", *(bound(index, count) for index in range(1, count)), "FF"]
    return [
        {
            "id": str(index),
            "index": index,
            "min": bounds[index],
            "max": bounds[index + 1],
            "parents": [],
        }
        for index in range(count)
    ]


def _bound_v2(index: int, count: int) -> str:
    return f"{((1 << 126) - 1) * index // count:032X}"


def _bound_v1(index: int, count: int) -> str:
    return _sortable(float((1 << 32) * index // count)).hex().upper()


def _sortable(number: float) -> bytes:
    """A number above zero as bytes that sort like numbers: eight bits, then groups of seven."""
    bits: int = struct.unpack(">Q", struct.pack(">d", number))[0] | 1 << 63
    encoded = bytearray((0x05, bits >> 56))
    rest = bits << 8 & _MASK64
    while True:
        group = rest >> 56 & 0xFE
        rest = rest << 7 & _MASK64
        if not rest:
            encoded.append(group)
            return bytes(encoded)
        encoded.append(group | 1)
