"""The bounds of a container's physical ranges: chosen when it is created, then stored with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from perseid.partition import WHOLE, KeyDefinition, Range, sortable

MAX_RANGES: Final = 4096  # the numbers of items have twelve bits for their range

# The highest hash of each version. The two top bits of a hash of version 2 are clear.
_HIGHEST_V1: Final = (1 << 32) - 1
_HIGHEST_V2: Final = (1 << 126) - 1


def equal_ranges(count: int, definition: KeyDefinition) -> tuple[Range, ...]:
    """`count` ranges that cover all effective keys, each with an equal share of the hashes.

    The bounds are those of the service, where the step is rounded down before it is multiplied.
    """
    if not 1 <= count <= MAX_RANGES:
        raise ValueError(f"a container has 1 to {MAX_RANGES} physical ranges, not {count}")
    if definition.version == 2:
        bounds = [f"{index * (_HIGHEST_V2 // count):032X}" for index in range(1, count)]
    else:
        step = _HIGHEST_V1 // count
        bounds = [sortable(float(index * step)).hex().upper() for index in range(1, count)]
    lows, highs = [WHOLE[0], *bounds], [*bounds, WHOLE[1]]
    return tuple(
        Range(str(index), index, low, high)
        for index, (low, high) in enumerate(zip(lows, highs, strict=True))
    )


def stored_form(ranges: Sequence[Range]) -> list[dict[str, Any]]:
    """The ranges as they are kept in the container's metadata."""
    return [
        {
            "id": each.id,
            "index": each.index,
            "min": each.min,
            "max": each.max,
            "parents": [*each.parents],
        }
        for each in ranges
    ]


def from_stored(stored: Any) -> tuple[Range, ...]:
    """The ranges that `stored_form` wrote; ValueError if they do not cover all effective keys."""
    ranges = tuple(
        Range(each["id"], each["index"], each["min"], each["max"], tuple(each["parents"]))
        for each in stored
    )
    # Everything that has an index of a range finds the range, and its LSN, at that position.
    is_in_order = [each.index for each in ranges] == [*range(len(ranges))]
    is_gapless = all(one.min < one.max == two.min for one, two in pairwise(ranges))
    if not (ranges and is_in_order and is_gapless and (ranges[0].min, ranges[-1].max) == WHOLE):
        raise ValueError("its physical ranges do not cover all partition keys")
    return ranges
