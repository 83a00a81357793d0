"""The values that a filter compares with, and their types: all that a plan knows of them.

A value is a parameter, found by its name, or a row-independent part of WHERE, found by the
expression itself. Both are evaluated before planning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from perseid.conditions import NUMBER
from perseid.query.deadline import Deadline, call_context
from perseid.query.executor import CompiledQuery, evaluate_row_independent
from perseid.query.nodes import Expr
from perseid.query.values import UNDEFINED, type_rank

ValueKey: TypeAlias = "str | Expr"
Values: TypeAlias = Mapping[Any, Any]
# The type rank of a scalar; for a list, the ranks of its elements.
ParameterType: TypeAlias = "int | tuple[int, ...]"
ParameterTypes: TypeAlias = Mapping[Any, ParameterType]

# A value that no condition may hold: SQL would not compare it as the query language does.
UNSUPPORTED: Final = -1
UNSUPPORTED_LIST: Final = (UNSUPPORTED,)
MAX_CHOICES: Final = 1000
_NUMBER_LIMIT: Final = float(2**63)
_BINDING_SECONDS: Final = 1.0  # short requests are bound on the event loop


def bound_values(compiled: CompiledQuery, parameters: Mapping[str, Any], now: float) -> Values:
    """The parameters, and the values of the row-independent parts of WHERE."""
    if not compiled.row_independent:
        return parameters
    context = call_context(now, Deadline(_BINDING_SECONDS).check)
    return {**parameters, **evaluate_row_independent(compiled, parameters, context)}


def types_of(compiled: CompiledQuery, values: Values) -> dict[Any, ParameterType]:
    """The type of each value that the filter may compare with; missing ones are undefined."""
    keys = (*compiled.parameters, *compiled.row_independent)
    return {key: parameter_type_of(values.get(key, UNDEFINED)) for key in keys}


def parameter_type_of(value: Any) -> ParameterType:
    """The type of a value, as far as conditions depend on it."""
    if type(value) is not list:
        return scalar_type(value)
    if len(value) > MAX_CHOICES:
        return UNSUPPORTED_LIST
    element_types = tuple(map(scalar_type, value))
    return UNSUPPORTED_LIST if UNSUPPORTED in element_types else element_types


def scalar_type(value: Any) -> int:
    """The type rank of a scalar that a store can compare, else UNSUPPORTED."""
    value_type = type(value)
    if value_type is list or value_type is dict:
        return UNSUPPORTED
    if value_type is int or value_type is float:
        return NUMBER if -_NUMBER_LIMIT < value < _NUMBER_LIMIT else UNSUPPORTED
    if value_type is str and not value.isascii() and not _is_encodable(value):
        return UNSUPPORTED
    return type_rank(value)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair; only the text of a query can hold one
        return False
    return True
