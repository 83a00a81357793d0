"""Which hashes of keys a query is about."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.partition import KeyDefinition, effective, parse_definition
from perseid.service.query_plans import ANYWHERE, EVERYWHERE, Interval, key_intervals

A, B = ("a",), ("b",)
HASH = parse_definition({"paths": ["/a"], "version": 2})
OLD = parse_definition({"paths": ["/a"]})
TREE = parse_definition({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2})


def point(definition: KeyDefinition, *key: Any) -> Interval:
    epk = effective(key, definition)
    return Interval(epk, epk, is_closed=True)


def below(*prefix: Any) -> Interval:
    start = effective(prefix, TREE)
    return Interval(start, f"{start}FF", is_closed=False)


@pytest.mark.parametrize(("definition", "ways", "intervals"), [
    (HASH, [{}], [EVERYWHERE]),
    (HASH, [], [ANYWHERE]),
    (HASH, [{A: "redmond"}], [point(HASH, "redmond")]),
    (OLD, [{A: "redmond"}], [point(OLD, "redmond")]),
    (HASH, [{A: None}], [point(HASH, None)]),
    (HASH, [{A: 1}, {A: 1.0}, {A: True}], [point(HASH, 1), point(HASH, True)]),
    (HASH, [{A: 1}, {}], [EVERYWHERE]),
    (TREE, [{A: 1, B: 2}], [point(TREE, 1, 2)]),
    (TREE, [{A: 1}], [below(1)]),
    (TREE, [{B: 1}], [EVERYWHERE]),
    (TREE, [{A: 1, B: 2}, {A: 1}], [below(1)]),
    (TREE, [{A: 1, B: 2}, {A: 2}], [point(TREE, 1, 2), below(2)]),
])  # fmt: skip
def test_intervals(definition: KeyDefinition, ways: list[Any], intervals: list[Interval]) -> None:
    found = key_intervals(definition, ways)
    assert set(found) == set(intervals)
    assert list(found) == sorted(found)


def test_the_published_hash() -> None:
    assert key_intervals(HASH, [{A: "redmond"}])[0].min == "22E342F38A486A088463DFF7838A5963"
