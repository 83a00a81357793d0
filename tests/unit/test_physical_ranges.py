"""The bounds of physical ranges, as the service chooses them, and their stored form."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perseid import partition
from perseid.partition import KeyDefinition, Range
from perseid.physical_ranges import MAX_RANGES, equal_ranges, from_stored, stored_form

V1 = partition.parse_definition({"paths": ["/pk"], "kind": "Hash", "version": 1})
V2 = partition.parse_definition({"paths": ["/pk"], "kind": "Hash", "version": 2})
MULTI = partition.parse_definition({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2})


@pytest.mark.parametrize(
    ("definition", "bounds"),
    [
        (V2, ["1" + "F" * 31]),
        (MULTI, ["1" + "F" * 31]),
        (V2, ["0F" + "F" * 30, "1F" + "F" * 29 + "E", "2F" + "F" * 29 + "D"]),
        (V2, ["0" + "C" * 31, "1" + "9" * 30 + "8", "2" + "6" * 30 + "4", "3" * 31 + "0"]),
        (MULTI, ["0" + "C" * 31, "1" + "9" * 30 + "8", "2" + "6" * 30 + "4", "3" * 31 + "0"]),
        (V1, ["05C1DFFFFFFFFC"]),
        (V1, ["05C1D5AB55AB54", "05C1E5AB55AB54"]),
        (V1, ["05C1CFFFFFFFF8", "05C1DFFFFFFFF8", "05C1E7FFFFFFFA"]),
        (V1, ["05C1C9CD673398", "05C1D9CD673398", "05C1E399CD6732", "05C1E9CD673398"]),
    ],
)
def test_the_step_is_rounded_before_it_is_multiplied(
    definition: KeyDefinition, bounds: list[str]
) -> None:
    ranges = equal_ranges(len(bounds) + 1, definition)
    assert [each.max for each in ranges] == [*bounds, "FF"]


@pytest.mark.parametrize("definition", [V1, V2, MULTI])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 167])
def test_ranges_tile_the_key_space(count: int, definition: KeyDefinition) -> None:
    ranges = equal_ranges(count, definition)
    assert [(each.id, each.index) for each in ranges] == [(str(i), i) for i in range(count)]
    assert (ranges[0].min, ranges[-1].max) == ("", "FF")
    assert [each.max for each in ranges[:-1]] == [each.min for each in ranges[1:]]
    assert all(each.min < each.max for each in ranges)


@pytest.mark.parametrize("count", [0, -1, MAX_RANGES + 1])
def test_other_numbers_of_ranges_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"not {count}"):
        equal_ranges(count, V2)


@pytest.mark.parametrize("definition", [V1, V2, MULTI])
def test_keys_spread_evenly(definition: KeyDefinition) -> None:
    ranges = equal_ranges(4, definition)
    shares = Counter(
        partition.range_of(partition.effective((f"key-{n}",), definition), ranges).id
        for n in range(2000)
    )
    assert all(400 < shares[each.id] < 600 for each in ranges)


@pytest.mark.parametrize("definition", [V1, V2])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_range_of_agrees_with_the_bounds(count: int, definition: KeyDefinition) -> None:
    ranges = equal_ranges(count, definition)
    bounds = [bound for each in ranges for bound in (each.min, each.min + "0")]
    for epk in [*bounds, *(partition.effective((n,), definition) for n in range(50))]:
        found = partition.range_of(epk, ranges)
        assert found.min <= epk < found.max


# The stored form


@pytest.mark.parametrize("definition", [V1, V2, MULTI])
def test_stored_ranges_are_read_back(definition: KeyDefinition) -> None:
    ranges = equal_ranges(5, definition)
    assert from_stored(stored_form(ranges)) == ranges


def test_ids_and_parents_are_stored_and_not_derived() -> None:
    ranges = (Range("3", 0, "", "20", ("0", "1")), Range("2", 1, "20", "FF", ("0",)))
    assert from_stored(stored_form(ranges)) == ranges


def _stored(*changes: tuple[int, str, Any]) -> list[dict[str, Any]]:
    stored = stored_form(equal_ranges(3, V2))
    for position, name, value in changes:
        stored[position][name] = value
    return stored


@pytest.mark.parametrize(
    "stored",
    [
        [],
        _stored((0, "min", "05")),
        _stored((2, "max", "3F")),
        _stored((1, "min", "20")),
        _stored((1, "max", "20")),
        _stored((1, "index", 2), (2, "index", 1)),
        _stored()[1:],
        _stored()[:2],
    ],
)
def test_damaged_ranges_are_noticed(stored: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="do not cover all partition keys"):
        from_stored(stored)
