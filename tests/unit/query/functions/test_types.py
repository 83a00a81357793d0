"""Type checks, which always return a boolean, and DOCUMENTID."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest

from perseid.query.functions import CallContext, lookup, typechecks
from perseid.query.values import UNDEFINED

CONTEXT = CallContext(now=0, random=lambda: 0.5)

# Each check with the values for which it is true; it must be false for all others.
VALUES: dict[str, Any] = {
    "undefined": UNDEFINED,
    "null": None,
    "false": False,
    "true": True,
    "zero": 0,
    "whole": 2.0,
    "half": 1.5,
    "huge": 2**64 - 1,
    "nan": math.nan,
    "infinity": math.inf,
    "empty": "",
    "text": "a",
    "date": "2024-02-03",
    "array": [],
    "items": [1],
    "object": {},
}
NUMBERS = {"zero", "whole", "half", "huge", "nan", "infinity"}
STRINGS = {"empty", "text", "date"}
CHECKS: dict[str, set[str]] = {
    "IS_ARRAY": {"array", "items"},
    "IS_BOOL": {"false", "true"},
    "IS_BOOLEAN": {"false", "true"},
    "IS_DATETIME": {"date"},
    "IS_DEFINED": set(VALUES) - {"undefined"},
    "IS_FINITE_NUMBER": NUMBERS - {"nan", "infinity"},
    "IS_INTEGER": {"zero", "whole"},
    "IS_NULL": {"null"},
    "IS_NUMBER": NUMBERS,
    "IS_OBJECT": {"object"},
    "IS_PRIMITIVE": {"null", "false", "true"} | NUMBERS | STRINGS,
    "IS_STRING": STRINGS,
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", CHECKS)
def test_type_checks(name: str, value: str) -> None:
    function = lookup(name)
    assert function is not None
    assert function.call(CONTEXT, [VALUES[value]]) is (value in CHECKS[name])


def test_every_type_check_is_in_the_matrix() -> None:
    names = {name for f in typechecks.FUNCTIONS for name in (f.name, *f.aliases)}
    assert names == set(CHECKS)


@pytest.mark.parametrize(("text", "result"), [
    ("2024-02-03", True), ("2024-02-03Z", True),
    ("2024-02-03T04:05:06Z", True), ("2024-02-03 04:05:06", True),
    ("2024-02-03T04:05:06.1", True), ("2024-02-03T04:05:06.1234567Z", True),
    ("2024/02/03", False), ("2024-02-03T20Z", False), ("2024-02-03T04:05Z", False),
    ("2024-02-03T04:05:06.Z", False), ("2024-02-03T04:05:06.12345678Z", False),
    ("2024-02-03T04:05:06+01:00", False), ("2024-02-03  04:05:06", False),
    ("2024-02-03T04:05:06z", False), ("2024-02-03\n", False), (" 2024-02-03", False),
    ("2024-02-30", False), ("2023-02-29", False), ("2024-13-01", False), ("0000-01-01", False),
    ("2024-02-03T24:00:00Z", False), ("2024-02-03T04:60:00Z", False),
    ("2024-02-03T04:05:60Z", False), ("٢٠٢٤-02-03", False), ("24-02-03", False),
])  # fmt: skip
def test_forms_of_a_date(text: str, result: bool) -> None:
    function = lookup("IS_DATETIME")
    assert function is not None
    assert function.call(CONTEXT, [text]) is result


def rid(document: bytes) -> str:
    return base64.b64encode(bytes(range(1, 9)) + document).decode().replace("/", "-")


@pytest.mark.parametrize(("item", "result"), [
    ({"_rid": rid((13).to_bytes(8, "little"))}, 13),
    ({"_rid": rid(b"\xff" * 8)}, 2**60 - 1),
    ({"_rid": rid(b"\x01" + b"\x00" * 6 + b"\x30")}, 1),
    ({"_rid": "AQIDBAUGBwg="}, UNDEFINED),  # the rid of a container
    ({"_rid": "not base64"}, UNDEFINED),
    ({"_rid": "é"}, UNDEFINED),
    ({"_rid": 13}, UNDEFINED),
    ({}, UNDEFINED),
    ("AQIDBAUGBwg=", UNDEFINED),
    (UNDEFINED, UNDEFINED),
])  # fmt: skip
def test_document_id(item: Any, result: Any) -> None:
    function = lookup("DOCUMENTID")
    assert function is not None
    number = function.call(CONTEXT, [item])
    assert number is result if result is UNDEFINED else number == result
