"""Functions that convert values to strings, and strings to values."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from perseid.query.functions.builtin import ANY, STRING, Builtin
from perseid.query.values import INT64_MAX, INT64_MIN, UNDEFINED, is_number, to_json_text
from perseid.query.values import to_number_text as number_text

# The whitespace of JSON; `str.strip` removes more.
_BLANK: Final = " \t\n\r"
_JSON_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONGEST_INT64: Final = len(str(INT64_MIN))
MAX_LEVELS: Final = 128
_BOOLEANS: Final = {"true": True, "false": False}


def to_string(v: Any) -> str:
    if type(v) is str:
        return v
    return number_text(v) if is_number(v) else to_json_text(v)


def string_to_array(text: str) -> Any:
    return _parsed(text, list)


def string_to_object(text: str) -> Any:
    return _parsed(text, dict)


def string_to_boolean(text: str) -> Any:
    return _BOOLEANS.get(text.strip(_BLANK), UNDEFINED)


def string_to_null(text: str) -> Any:
    return None if text.strip(_BLANK) == "null" else UNDEFINED


def string_to_number(text: str) -> Any:
    match = _JSON_NUMBER.fullmatch(text.strip(_BLANK))
    if match is None:
        return UNDEFINED
    whole, fraction, exponent = match.groups()
    # Python rejects very long integers; the language has doubles for them.
    if fraction is None and exponent is None and len(whole) <= _LONGEST_INT64:
        n = int(whole)
        return n if INT64_MIN <= n <= INT64_MAX else float(n)
    return float(match[0])


def _parsed(text: str, kind: type) -> Any:
    try:
        v = orjson.loads(text)
    except orjson.JSONDecodeError:
        return UNDEFINED
    return v if type(v) is kind and not _is_too_deep(v) else UNDEFINED


def _is_too_deep(v: Any) -> bool:
    """True for more levels than an item or a parameter can have."""
    level = [v]
    for _ in range(MAX_LEVELS):
        level = [
            part
            for inner in level
            for part in (inner.values() if type(inner) is dict else inner)
            if type(part) is list or type(part) is dict
        ]
        if not level:
            return False
    return True


FUNCTIONS: Final = (
    Builtin("StringToArray", (STRING,), string_to_array),
    Builtin("StringToBoolean", (STRING,), string_to_boolean),
    Builtin("StringToNull", (STRING,), string_to_null),
    Builtin("StringToNumber", (STRING,), string_to_number),
    Builtin("StringToObject", (STRING,), string_to_object),
    Builtin("ToString", (ANY,), to_string, expensive=True),
)
