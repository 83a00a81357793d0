"""Functions that check the type of a value. They always return a boolean: false for undefined."""

from __future__ import annotations

import math
from typing import Any, Final

from perseid.query.functions import instants
from perseid.query.functions.builtin import MAYBE, Builtin
from perseid.query.values import UNDEFINED, as_number, is_integer, is_number

_PRIMITIVES: Final = frozenset({type(None), bool, int, float, str})


def is_array(v: Any) -> bool:
    return type(v) is list


def is_bool(v: Any) -> bool:
    return type(v) is bool


def is_datetime(v: Any) -> bool:
    return type(v) is str and instants.parse(v) is not None


def is_defined(v: Any) -> bool:
    return v is not UNDEFINED


def is_finite_number(v: Any) -> bool:
    return is_number(v) and math.isfinite(as_number(v))


def is_null(v: Any) -> bool:
    return v is None


def is_object(v: Any) -> bool:
    return type(v) is dict


def is_primitive(v: Any) -> bool:
    return type(v) in _PRIMITIVES


def is_string(v: Any) -> bool:
    return type(v) is str


FUNCTIONS: Final = (
    Builtin("IS_ARRAY", (MAYBE,), is_array),
    Builtin("IS_BOOL", (MAYBE,), is_bool, aliases=("IS_BOOLEAN",)),
    Builtin("IS_DATETIME", (MAYBE,), is_datetime),
    Builtin("IS_DEFINED", (MAYBE,), is_defined),
    Builtin("IS_FINITE_NUMBER", (MAYBE,), is_finite_number),
    Builtin("IS_INTEGER", (MAYBE,), is_integer),
    Builtin("IS_NULL", (MAYBE,), is_null),
    Builtin("IS_NUMBER", (MAYBE,), is_number),
    Builtin("IS_OBJECT", (MAYBE,), is_object),
    Builtin("IS_PRIMITIVE", (MAYBE,), is_primitive),
    Builtin("IS_STRING", (MAYBE,), is_string),
)
