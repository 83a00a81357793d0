"""Aggregates: a table of inputs and results."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perseid.query.functions import AGGREGATES
from perseid.query.values import INT64_MAX, UNDEFINED, canonical

EMPTY: list[Any] = []
ABSENT = [UNDEFINED, UNDEFINED]
NUMBERS = [2, UNDEFINED, 4, 3]
MIXED = [2, "a", UNDEFINED, None, True]
NESTED = [2, [1]]
OBJECTS = [{}, 2]

ROWS: list[tuple[str, list[Any], Any]] = [
    ("COUNT", EMPTY, 0),
    ("COUNT", ABSENT, 0),
    ("COUNT", NUMBERS, 3),
    ("COUNT", MIXED, 4),
    ("COUNT", NESTED, 2),
    ("SUM", EMPTY, 0),
    ("SUM", ABSENT, 0),
    ("SUM", NUMBERS, 9),
    ("SUM", [1, 0.5], 1.5),
    ("SUM", [INT64_MAX, 1], 2.0**63),
    ("SUM", [1e308, 1e308], math.inf),
    ("SUM", MIXED, UNDEFINED),
    ("SUM", [None], UNDEFINED),
    ("SUM", [1, True], UNDEFINED),
    ("SUM", ["a", 1, 2], UNDEFINED),
    ("SUM", NESTED, UNDEFINED),
    ("AVG", EMPTY, UNDEFINED),
    ("AVG", ABSENT, UNDEFINED),
    ("AVG", NUMBERS, 3),
    ("AVG", [1, 2], 1.5),
    ("AVG", MIXED, UNDEFINED),
    ("AVG", OBJECTS, UNDEFINED),
    ("MIN", EMPTY, UNDEFINED),
    ("MIN", ABSENT, UNDEFINED),
    ("MIN", NUMBERS, 2),
    ("MIN", [1, "a"], 1),
    ("MIN", MIXED, None),
    ("MIN", [True, 0, "a"], True),
    ("MIN", [True, False], False),
    ("MIN", ["b", "B"], "B"),
    ("MIN", NESTED, UNDEFINED),
    ("MIN", OBJECTS, UNDEFINED),
    ("MAX", EMPTY, UNDEFINED),
    ("MAX", ABSENT, UNDEFINED),
    ("MAX", NUMBERS, 4),
    ("MAX", [1, "a"], "a"),
    ("MAX", MIXED, "a"),
    ("MAX", [None, False], False),
    ("MAX", NESTED, UNDEFINED),
    ("MAX", OBJECTS, UNDEFINED),
    ("COUNTIF", EMPTY, 0),
    ("COUNTIF", [True, False, True, UNDEFINED, 1, "true", None], 2),
    ("MAKELIST", EMPTY, []),
    ("MAKELIST", [1, 1, UNDEFINED, 2, None], [1, 1, 2, None]),
    ("MAKESET", EMPTY, []),
    ("MAKESET", [1, 1.0, UNDEFINED, 2, True, [1], [1]], [1, 2, True, [1]]),
]


@pytest.mark.parametrize(("name", "values", "result"), ROWS)
def test_aggregates(name: str, values: list[Any], result: Any) -> None:
    aggregate = AGGREGATES[name]()
    for value in values:
        aggregate.add(value)
    assert canonical(aggregate.result()) == canonical(result)
    assert canonical(aggregate.result()) == canonical(
        result
    )  # the second call gives the same result


def test_every_aggregate_has_a_row() -> None:
    assert set(AGGREGATES) == {name for name, _, _ in ROWS}
