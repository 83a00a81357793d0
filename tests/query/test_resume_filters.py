"""Sorted queries that begin at a row the client names: `resumeFilter` in the body of the query.

Clients that merge ranges themselves send it when they continue from a token of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid.ids import decode
from perseid.query.values import UNDEFINED, sort_key
from tests.query.conftest import Fill
from tests.query.filled_containers import FilledContainer
from tests.support.raw import Reply

# Longer than what a continuation keeps of the keys of a row. If a page ends between two rows whose
# keys have equal starts, they are sorted by these starts only: so no two of them are equal.
LONG: Final = "long" * 200
LONG_VALUES: Final = ["1" + LONG, "2" + LONG, "short"]
VALUES: Final[list[Any]] = [
    UNDEFINED, None, False, True, -3, 0, 1.5, 7, "", "a", "b", "é",
]  # fmt: skip
COMPOSITE: Final = [
    [{"path": f"/{names[0]}", "order": first}, {"path": f"/{names[1]}", "order": second}]
    for names in ("ab", "ba")
    for first in ("ascending", "descending")
    for second in ("ascending", "descending")
]
POLICY: Final = {
    "indexingPolicy": {"includedPaths": [{"path": "/*"}], "compositeIndexes": COMPOSITE}
}
_REST: Final = "true"  # clients put it in place of the filter of a rewritten query


def document(number: int, a: Any, b: Any) -> dict[str, Any]:
    keys = {name: value for name, value in (("a", a), ("b", b)) if value is not UNDEFINED}
    return {"id": f"i{number}", "tags": [1, 2], "text": LONG_VALUES[number % 3], **keys}


DOCUMENTS: Final = [
    document(number, VALUES[number % 12], VALUES[number % 3 + 4]) for number in range(42)
]


class Sorting(NamedTuple):
    """The keys of ORDER BY, and which of them descend."""

    names: tuple[str, ...]
    descending: tuple[bool, ...]
    join: str = ""

    @property
    def text(self) -> str:
        keys = [
            f"c.{name}{' DESC' if backwards else ''}"
            for name, backwards in zip(self.names, self.descending, strict=True)
        ]
        items = ", ".join(f'{{"item": c.{name}}}' for name in self.names)
        return (
            f"SELECT c._rid, [{items}] AS orderByItems, c.id AS payload"
            f" FROM c{self.join} WHERE {_REST} ORDER BY {', '.join(keys)}"
        )


SORTINGS: Final = [
    Sorting(("a",), (False,)),
    Sorting(("a",), (True,)),
    Sorting(("a",), (False,), " JOIN t IN c.tags"),
    Sorting(("text",), (False,)),
    Sorting(("text",), (True,)),
    Sorting(("a", "b"), (False, False)),
    Sorting(("a", "b"), (False, True)),
    Sorting(("a", "b"), (True, False)),
    Sorting(("b", "a"), (True, True)),
]


def values_of(row: Any) -> list[Any]:
    return [item.get("item", UNDEFINED) for item in row["orderByItems"]]


def number_of(row: Any) -> int:
    raw = decode(row["_rid"])
    assert raw is not None
    return int.from_bytes(raw[8:], "little")


class _Reversed(NamedTuple):
    key: Any

    def __lt__(self, other: Any) -> bool:
        return bool(other.key < self.key)


def place(sorting: Sorting, values: Sequence[Any]) -> list[Any]:
    """Where rows with these values are in the order of the query."""
    return [
        _Reversed(sort_key(value)) if backwards else sort_key(value)
        for value, backwards in zip(values, sorting.descending, strict=True)
    ]


def encoded(values: Sequence[Any]) -> list[Any]:
    return [[] if value is UNDEFINED else value for value in values]


def send(
    container: FilledContainer, text: str, resume: Any, /, size: int = 1000, token: str = ""
) -> Reply:
    headers = {
        "content-type": "application/query+json",
        "x-ms-documentdb-isquery": "true",
        "x-ms-documentdb-partitionkeyrangeid": "0",
        "x-ms-max-item-count": str(size),
    }
    if token:
        headers["x-ms-continuation"] = token
    body = {"query": text, "parameters": [], "resumeFilter": resume}
    return container.raw.request("POST", f"{container.path}/docs", body, headers)


def drain(
    container: FilledContainer,
    text: str,
    resume: Any,
    size: int = 1000,
    *,
    later: Callable[[Any], Any] = lambda resume: resume,
) -> list[Any]:
    """The rows of all pages; `later` is the resume filter of the second page and the following."""
    rows: list[Any] = []
    token = ""
    while True:
        reply = send(container, text, later(resume) if token else resume, size, token)
        assert reply.status == 200, reply
        rows += reply.json["Documents"]
        token = reply.headers.get("x-ms-continuation", "")
        if not token:
            return rows


@pytest.fixture
def container(filled: Fill) -> FilledContainer:
    return filled("resumed", DOCUMENTS, 1, POLICY)


@pytest.mark.parametrize("sorting", SORTINGS, ids=str)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_equal_keys_are_in_the_order_of_resource_ids(
    container: FilledContainer, sorting: Sorting, size: int
) -> None:
    rows = drain(container, sorting.text, None, size)
    assert len(rows) == len(DOCUMENTS) * (2 if sorting.join else 1)
    step = -1 if sorting.descending[0] else 1
    assert rows == sorted(
        rows, key=lambda row: (*place(sorting, values_of(row)), number_of(row) * step)
    )


@pytest.mark.parametrize("top", [1, 10])
@pytest.mark.parametrize("direction", ["", " DESC"])
def test_equal_keys_of_whole_items(container: FilledContainer, direction: str, top: int) -> None:
    text = f"SELECT TOP {top} * FROM c ORDER BY c.b{direction}"
    rows = drain(container, text, None)
    step = -1 if direction else 1
    assert len({row["b"] for row in rows}) == 1
    assert rows == sorted(rows, key=lambda row: number_of(row) * step)


def expected(
    rows: list[Any], sorting: Sorting, values: Sequence[Any], rid: str | None, exclude: bool
) -> list[Any]:
    start, step = place(sorting, values), -1 if sorting.descending[0] else 1
    number = None if rid is None else number_of({"_rid": rid})

    def follows(row: Any) -> bool:
        own = place(sorting, values_of(row))
        if own != start:
            return start < own
        return not exclude and (number is None or number_of(row) * step >= number * step)

    return [row for row in rows if follows(row)]


@pytest.mark.parametrize("sorting", SORTINGS, ids=str)
def test_every_row_can_be_the_first(container: FilledContainer, sorting: Sorting) -> None:
    rows = drain(container, sorting.text, None)
    for row in rows[:: 1 if len(rows) < 50 else 5]:
        values = values_of(row)
        for rid, exclude in ((None, False), (row["_rid"], False), (None, True)):
            resume = {"value": encoded(values), "rid": rid, "exclude": exclude}
            found = drain(container, sorting.text, resume)
            assert found == expected(rows, sorting, values, rid, exclude), resume


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(choice=st.data())
def test_pages_neither_lose_nor_repeat_rows(container: FilledContainer, choice: Any) -> None:
    """From any values, in pages of any size, whether later pages repeat the filter or not."""
    sorting = choice.draw(st.sampled_from(SORTINGS))
    rows = drain(container, sorting.text, None)
    others = [4, "aa", "1" + LONG, "1" + LONG + "x", "2" + LONG, "2" + LONG[:-1]]
    values = [choice.draw(st.sampled_from(VALUES + others)) for _ in sorting.names]
    rid = choice.draw(st.sampled_from([None, *(row["_rid"] for row in rows[::7])]))
    exclude = choice.draw(st.booleans())
    resume = {"value": encoded(values), "rid": rid, "exclude": exclude}
    repeats = choice.draw(st.booleans())
    found = drain(
        container,
        sorting.text,
        resume,
        choice.draw(st.integers(1, 9)),
        later=lambda resume: resume if repeats else None,
    )
    assert found == expected(rows, sorting, values, rid, exclude)


def test_the_later_of_continuation_and_filter_counts(container: FilledContainer) -> None:
    sorting = SORTINGS[0]
    rows = drain(container, sorting.text, None)
    token = send(container, sorting.text, None, 20).headers["x-ms-continuation"]
    for at in (3, 19, 20, 30):
        resume = {"value": encoded(values_of(rows[at])), "rid": rows[at]["_rid"], "exclude": False}
        reply = send(container, sorting.text, resume, token=token)
        assert reply.json["Documents"] == rows[max(at, 20) :]


def test_offset_and_limit_count_from_the_first_row(container: FilledContainer) -> None:
    rows = drain(container, SORTINGS[0].text, None)
    resume = {"value": encoded(values_of(rows[9])), "rid": rows[9]["_rid"]}
    text = f"{SORTINGS[0].text} OFFSET 2 LIMIT 5"
    assert drain(container, text, resume, 2) == rows[11:16]
    text = "SELECT TOP 4 * FROM c ORDER BY c.a"
    ids = [row["id"] for row in drain(container, text, resume)]
    assert ids == [row["payload"] for row in rows[9:13]]


def test_a_deleted_row_keeps_its_place(filled: Fill) -> None:
    container = filled("resumed after a delete", [document(n, 1, n) for n in range(6)], 1, POLICY)
    sorting = SORTINGS[0]
    rows = drain(container, sorting.text, None)
    reply = container.raw.delete(f"{container.path}/docs/i2", pk='["filled-2"]')
    if reply.status == 204:
        resume = {"value": [1], "rid": rows[2]["_rid"], "exclude": False}
        assert drain(container, sorting.text, resume) == rows[3:]


SORTED: Final = "SELECT * FROM c ORDER BY c.a"


@pytest.mark.parametrize(
    ("text", "resume", "message"),
    [
        ("SELECT * FROM c", {"value": [1]}, "ORDER BY"),
        ("SELECT VALUE COUNT(1) FROM c", {"value": [1]}, "ORDER BY"),
        ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a", {"value": [1]}, "DISTINCT"),
        ("SELECT c.a FROM c GROUP BY c.a ORDER BY c.a", {"value": [1]}, "GROUP BY"),
        (SORTED, {"value": []}, "1 value"),
        (SORTED, {"value": [1, 2]}, "1 value"),
        ("SELECT * FROM c ORDER BY c.a, c.b", {"value": [1]}, "2 values"),
        (SORTED, {"value": [{"type": "array", "low": 1, "high": -2}]}, "array"),
        (SORTED, {"value": [{"type": "object", "low": 1, "high": -2}]}, "object"),
        (SORTED, {"value": [{}]}, "value"),
        (SORTED, {"value": [[1]]}, "value"),
        (SORTED, {"value": 1}, "value"),
        (SORTED, {}, "value"),
        (SORTED, [1], "resumeFilter"),
        (SORTED, "x", "resumeFilter"),
        (SORTED, {"value": [1], "rid": 5}, "rid"),
        (SORTED, {"value": [1], "rid": "x"}, "rid"),
        (SORTED, {"value": [1], "rid": "AAAAAAAAAAAAAAAAAAAAAA=="}, "rid"),
        (SORTED, {"value": [1], "exclude": "no"}, "exclude"),
    ],
    ids=str,
)
def test_filters_that_are_refused(
    container: FilledContainer, text: str, resume: Any, message: str
) -> None:
    reply = send(container, text, resume)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest"), reply
    assert message in json.dumps(reply.json["message"])
