"""Every golden file over one range and over four, in pages of several sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from perseid.query import lexer
from tests.query.conftest import Fill, Storable, only
from tests.query.engines import PUSHED
from tests.query.filled_containers import FilledContainer, normalized, problems
from tests.query.golden import FILES, Golden, is_ordered
from tests.support.stores import SQLITE, Stores

SIZES: Final = (1000, 3, 1)
RANGES: Final = (1, 4)
# Results of functions that a C library may round one way or the other.
DIGITS: Final = 14

CASES: Final = [
    pytest.param(ranges, golden, case, id=f"{golden.name}, {ranges}: {case['query']}")
    for golden in FILES
    for case in golden.cases
    for ranges in case.get("ranges", RANGES)
]
VALUES: Final = [
    pytest.param(golden, at, id=f"{golden.name}: {golden.values[at][0]}")
    for golden in FILES
    for at in range(len(golden.values))
]
TEXTS: Final = [
    pytest.param(expression, text, id=expression)
    for golden in FILES
    for expression, text in golden.texts
]


@pytest.mark.parametrize(("ranges", "golden", "case"), CASES)
def test_case(
    stores: Stores,
    filled: Fill,
    storable: Storable,
    golden: Golden,
    case: dict[str, Any],
    ranges: int,
) -> None:
    case = storable(case)
    container = filled(golden.name, storable(golden.documents), ranges, golden.container)
    text, parameters = case["query"], case.get("parameters")
    if "error" in case or "status" in case:
        check_refusal(container, case)
        return
    expected = storable(golden.expected(case))
    for size in SIZES if stores is SQLITE else SIZES[:2]:
        rows = container.drain(text, parameters, size)
        if isinstance(expected, int):
            assert len(rows) == expected
            continue
        found, wanted = ([normalized(row, DIGITS) for row in each] for each in (rows, expected))
        if not is_ordered(case) or (case.get("tied") and ranges > 1):
            found.sort()
            wanted.sort()
        assert found == wanted, f"pages of {size}"
    plan = case.get("plan", {}).get(container.engine.name)
    if plan is not None:
        assert explained(container, text, parameters) == plan


def check_refusal(container: FilledContainer, case: dict[str, Any]) -> None:
    """400 with the code, the sentence and the place that the case names."""
    reply = container.query(case["query"], case.get("parameters"))
    assert (reply.status, reply.json["code"]) == (case.get("status", 400), "BadRequest"), reply
    assert case.get("text", "") in reply.json["message"]
    if "error" not in case:
        return
    (problem,) = problems(reply)
    assert problem.code == case["error"], problem
    assert 0 <= problem.start <= problem.end <= len(case["query"])
    if "at" in case:
        assert [problem.start, problem.end] == case["at"], problem
    if "near" in case:
        assert f"'{case['near']}'" in problem.message
        assert case["query"][problem.start : problem.end] == case["near"]


@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize(
    ("golden", "case"),
    [
        pytest.param(golden, case, id=f"{golden.name}: {case['query']}")
        for golden in FILES
        if golden.name == "top60"
        for case in golden.cases
        if "error" not in case
    ],
)
def test_without_documents(filled: Fill, golden: Golden, case: dict[str, Any], ranges: int) -> None:
    container = filled("nothing", [], ranges)
    for size in SIZES:
        assert container.drain(case["query"], case.get("parameters"), size) == case.get("empty", [])


@only(PUSHED)
@pytest.mark.parametrize(("golden", "at"), VALUES)
def test_value(filled: Fill, storable: Storable, golden: Golden, at: int) -> None:
    """As a constant, of parameters, of properties, and in a filter."""
    container = filled(f"{golden.name} values", storable([literals_of(golden)]), at % 2 * 3 + 1)
    expression, *expected = golden.values[at]
    stored = storable(expected)
    parameters, by_parameter, by_path = spelt(expression, at)
    forms = [
        (f"SELECT VALUE {expression}", {}, expected),
        (f"SELECT VALUE {by_parameter} FROM c", parameters, expected),
        (f"SELECT VALUE {by_path} FROM c", {}, stored),
    ]
    for text, given, wanted in forms:
        rows = container.drain(text, given)
        assert [normalized(row, DIGITS) for row in rows] == [
            normalized(row, DIGITS) for row in wanted
        ], text
    for test, given in filters(by_path, stored):
        assert container.drain(f"SELECT VALUE 1 FROM c WHERE {test}", given) == [1], test


def filters(expression: str, expected: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Conditions that are true when the expression has the value."""
    if not expected:
        yield f"NOT IS_DEFINED({expression})", {}
    for value in expected:
        if isinstance(value, float) and not value.is_integer():
            yield f"ABS(({expression}) - @value) < 1e-12", {"@value": value}
        elif isinstance(value, bool):
            yield f"({expression}) {'=' if value else '!='} true", {}
        elif value not in ("NaN", "Infinity", "-Infinity"):
            yield f"({expression}) = @value", {"@value": value}


@only(PUSHED)
@pytest.mark.parametrize(("expression", "text"), TEXTS)
def test_text(filled: Fill, expression: str, text: str) -> None:
    reply = filled("nothing", []).query(f"SELECT VALUE {expression}")
    assert f'"Documents":[{text}]'.encode() in reply.body


def spelt(expression: str, number: int) -> tuple[dict[str, Any], str, str]:
    """The literals of an expression by parameter name, and it with those and with properties."""
    values: dict[str, Any] = {}
    by_parameter, by_path, done = "", "", 0
    for token in literal_tokens(expression):
        name = f"v{number}_{len(values)}"
        values[f"@{name}"] = token.value
        between = expression[done : token.start]
        by_parameter += f"{between}@{name}"
        by_path += f"{between}c.{name}"
        done = token.end
    rest = expression[done:]
    return values, by_parameter + rest, by_path + rest


def literal_tokens(expression: str) -> Iterator[lexer.Token]:
    """Literals that any expression could stand for."""
    tokens = lexer.tokenize(expression)
    open_brackets: list[str] = []
    before = ""
    for token in tokens:
        if token.kind in ("(", "[", "{"):
            open_brackets.append(token.kind)
        elif token.kind in (")", "]", "}"):
            open_brackets.pop()
        is_name = before in ("{", ",") and open_brackets[-1:] == ["{"]
        if (
            token.kind in (lexer.NUMBER, lexer.STRING, "TRUE", "FALSE", "NULL")
            and before not in ("ESCAPE", "TOP", "OFFSET", "LIMIT")
            and not is_name
            and not (isinstance(token.value, float) and math.isinf(token.value))
        ):
            yield token._replace(value=_CONSTANTS.get(token.kind, token.value))
        before = token.kind


_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


@cache
def literals_of(golden: Golden) -> dict[str, Any]:
    """A document whose properties are all literals of the file's expressions."""
    document = {"id": "values"}
    for number, (expression, *_) in enumerate(golden.values):
        parameters, _, _ = spelt(expression, number)
        document |= {name.removeprefix("@"): value for name, value in parameters.items()}
    return document


def explained(
    container: FilledContainer, text: str, parameters: dict[str, Any] | None
) -> list[str]:
    """The lines of the tree that explains a query."""
    _, _, database, _, name = container.path.split("/")
    given = (parameters or {}).items()
    body = {
        "database": database,
        "container": name,
        "query": text,
        "parameters": [{"name": name, "value": value} for name, value in given],
        "analyze": True,
    }
    reply = container.raw.post("/_perseid/explain", body)
    assert reply.status == 200, reply
    tree: str = reply.json["tree"]
    return tree.splitlines()
