"""Which hashes of keys a query is about."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.partition import KeyDefinition, effective, parse_definition
from perseid.service.queries.client_plans import ALL_KEYS, ANY_RANGE, KeyInterval, key_intervals

A, B = ("a",), ("b",)
HASH = parse_definition({"paths": ["/a"], "version": 2})
OLD = parse_definition({"paths": ["/a"]})
TREE = parse_definition({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2})


def point(definition: KeyDefinition, *key: Any) -> KeyInterval:
    epk = effective(key, definition)
    return KeyInterval(epk, epk, is_closed=True)


def below(*prefix: Any) -> KeyInterval:
    start = effective(prefix, TREE)
    return KeyInterval(start, f"{start}FF", is_closed=False)


@pytest.mark.parametrize(("definition", "alternatives", "intervals"), [
    (HASH, [{}], [ALL_KEYS]),
    (HASH, [], [ANY_RANGE]),
    (HASH, [{A: "redmond"}], [point(HASH, "redmond")]),
    (OLD, [{A: "redmond"}], [point(OLD, "redmond")]),
    (HASH, [{A: None}], [point(HASH, None)]),
    (HASH, [{A: 1}, {A: 1.0}, {A: True}], [point(HASH, 1), point(HASH, True)]),
    (HASH, [{A: 1}, {}], [ALL_KEYS]),
    (TREE, [{A: 1, B: 2}], [point(TREE, 1, 2)]),
    (TREE, [{A: 1}], [below(1)]),
    (TREE, [{B: 1}], [ALL_KEYS]),
    (TREE, [{A: 1, B: 2}, {A: 1}], [below(1)]),
    (TREE, [{A: 1, B: 2}, {A: 2}], [point(TREE, 1, 2), below(2)]),
])  # fmt: skip
def test_intervals(
    definition: KeyDefinition, alternatives: list[Any], intervals: list[KeyInterval]
) -> None:
    found = key_intervals(definition, alternatives)
    assert set(found) == set(intervals)
    assert list(found) == sorted(found)


def test_the_published_hash() -> None:
    assert key_intervals(HASH, [{A: "redmond"}])[0].min == "22E342F38A486A088463DFF7838A5963"
