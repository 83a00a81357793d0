"""Tokens: kinds, values and positions, and text that is not a token."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perseid.errors import QueryError
from perseid.query.lexer import (
    END,
    IDENTIFIER,
    MAX_QUERY_CHARACTERS,
    NUMBER,
    PARAMETER,
    STRING,
    tokenize,
)


def kinds(text: str) -> list[str]:
    return [token.kind for token in tokenize(text)][:-1]


def test_tokens_have_positions() -> None:
    text = "SELECT c.x -- why\n FROM c"
    spans = [(token.text, token.start, token.end) for token in tokenize(text)]
    assert spans == [
        ("SELECT", 0, 6), ("c", 7, 8), (".", 8, 9), ("x", 9, 10),
        ("FROM", 19, 23), ("c", 24, 25), ("", 25, 25),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [
    ("", []),
    (" \t\r\n", []),
    ("SeLeCt", ["SELECT"]),
    ("selector", [IDENTIFIER]),
    ("All First LAST", [IDENTIFIER] * 3),
    ("_a1 ärger 名前", [IDENTIFIER] * 3),
    ("ſELECT lıke", [IDENTIFIER] * 2),  # `upper` would turn these into keywords
    ("@p @__p_0 @0", [PARAMETER] * 3),
    ("a--b\nc", [IDENTIFIER, IDENTIFIER]),
    ("a/* b\n* / */c", [IDENTIFIER, IDENTIFIER]),
    ("a>>>b>>c<<d", [IDENTIFIER, ">>>", IDENTIFIER, ">>", IDENTIFIER, "<<", IDENTIFIER]),
    ("<=>=<>!=||??", ["<=", ">=", "<>", "!=", "||", "??"]),
    ("? ??", ["?", "??"]),
    ("c.5", [IDENTIFIER, NUMBER]),
    ("a[0].b", [IDENTIFIER, "[", NUMBER, "]", ".", IDENTIFIER]),
    ("({documentdb-formattableorderbyquery-filter})", ["(", "TRUE", ")"]),
])  # fmt: skip
def test_kinds(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(("text", "value"), [
    ("0", 0), ("42", 42), ("007", 7), ("5.", 5.0), (".5", 0.5), ("1.25", 1.25),
    ("1e3", 1000.0), ("1E-2", 0.01), ("2.5e+1", 25.0), ("0x1F", 31), ("0Xff", 255),
    ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", float(2**63)),
    ("0xFFFFFFFFFFFFFFFF", float(2**64 - 1)),
    ("1e999", math.inf),
    ("9" * 5000, math.inf),
    ("0x" + "F" * 5000, math.inf),
])  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    token, end = tokenize(text)
    assert (token.kind, token.value, type(token.value)) == (NUMBER, value, type(value))
    assert end.kind == END


@pytest.mark.parametrize(("text", "value"), [
    ("'a'", "a"), ('"a"', "a"), ("''", ""), ("'say \"hi\"'", 'say "hi"'), ('"it\'s"', "it's"),
    (r"'it\'s'", "it's"), (r"'\b\f\n\r\t\/\\'", "\b\f\n\r\t/\\"), (r"'\u00e9'", "é"),
    (r"'\ud83d\ude00'", "😀"), ("'😀'", "😀"), (r"'\\d'", r"\d"),
])  # fmt: skip
def test_strings(text: str, value: str) -> None:
    (token, _) = tokenize(text)
    assert (token.kind, token.value, token.text) == (STRING, value, text)


def test_doubled_quotes_are_two_strings() -> None:
    assert kinds("'it''s'") == [STRING, STRING]


@pytest.mark.parametrize(("text", "code", "start", "end"), [
    ("a $b", "SC1010", 2, 3),
    ("a ! b", "SC1010", 2, 3),
    ("a\u00a0b", "SC1010", 1, 2),
    ("x = 'abc", "SC1012", 4, 8),
    ('x = "\\"', "SC1012", 4, 7),
    ("'a\nb'", "SC1012", 0, 2),
    (r"  'a\x'", "SC1012", 2, 7),
    (r"'\u12'", "SC1012", 0, 6),
    (r"'\ud83d'", "SC1012", 0, 8),
    ("1a", "SC1011", 0, 2),
    ("x = 12e", "SC1011", 4, 7),
    ("0x", "SC1011", 0, 2),
])  # fmt: skip
def test_problems(text: str, code: str, start: int, end: int) -> None:
    with pytest.raises(QueryError) as caught:
        tokenize(text)
    (problem,) = caught.value.problems
    assert (problem.code, problem.start, problem.end) == (code, start, end)
    assert f"'{text[start:end]}'" in problem.message


def test_the_length_of_a_query_has_a_limit() -> None:
    fitting: Any = " " * MAX_QUERY_CHARACTERS
    assert kinds(fitting) == []
    with pytest.raises(QueryError) as caught:
        tokenize(fitting + " ")
    assert caught.value.problems[0].code == "SC3020"
