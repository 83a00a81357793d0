"""Translates one expression of WHERE into a condition on stored items.

For every expression there are two conditions: one for the items where it is true, one for those
where it is false; undefined is neither. A condition is exact, or it matches too many items, never
too few: parts that a store cannot check are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from perseid import conditions
from perseid.conditions import (
    ALWAYS,
    ARRAY,
    DEFINED,
    FALSE,
    NEVER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    ArrayContains,
    Comparison,
    Condition,
    HasType,
    Not,
    Operator,
    PropertyPath,
    TextMatch,
)
from perseid.query.nodes import (
    ArrayLiteral,
    Between,
    Binary,
    BoundParameter,
    Call,
    Chain,
    Expr,
    In,
    Index,
    Like,
    Literal,
    Property,
    Unary,
)
from perseid.query.planner.bound_values import (
    MAX_CHOICES,
    UNSUPPORTED,
    UNSUPPORTED_LIST,
    ParameterType,
    ParameterTypes,
    ValueKey,
    Values,
    parameter_type_of,
    scalar_type,
)
from perseid.query.planner.paths import searchable_path

# Databases limit the number of bound values, and parse statements with many comparisons slowly.
_MAX_TERMS: Final = 2000
_MAX_VALUES: Final = 10_000
_SWAPPED: Final[dict[str, str]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_OPPOSITE: Final[dict[str, Operator]] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TYPE_CHECKS: Final = {
    "IS_ARRAY": (ARRAY,),
    "IS_BOOL": (FALSE, TRUE),
    "IS_DEFINED": DEFINED,
    "IS_FINITE_NUMBER": (NUMBER,),  # every stored number is finite
    "IS_NULL": (NULL,),
    "IS_NUMBER": (NUMBER,),
    "IS_OBJECT": (OBJECT,),
    "IS_PRIMITIVE": (NULL, FALSE, TRUE, NUMBER, STRING),
    "IS_STRING": (STRING,),
}
_TEXT_SEARCHES: Final = {"STARTSWITH": "start", "ENDSWITH": "end", "CONTAINS": "anywhere"}
_BOOLEAN_FUNCTIONS: Final = frozenset(
    (*_TYPE_CHECKS, *_TEXT_SEARCHES, "STRINGEQUALS", "ARRAY_CONTAINS")
)


class Translated(NamedTuple):
    """A condition, and whether it matches exactly the items that the expression selects."""

    condition: Condition
    is_exact: bool = True


_UNKNOWN: Final = Translated(ALWAYS, is_exact=False)
_IMPOSSIBLE: Final = Translated(NEVER)


class _Constant(NamedTuple):
    """A value that is the same for all items."""

    value_type: ParameterType
    getter: Callable[[Values], Any]


class ConditionTranslator:
    """Translates the expressions of one WHERE and collects the values they compare with."""

    def __init__(self, slot: int, parameter_types: ParameterTypes) -> None:
        self._slot = slot
        self._parameter_types = parameter_types
        self._has_row_independent = not all(
            isinstance(value_key, str) for value_key in parameter_types
        )
        self.value_getters: list[Callable[[Values], Any]] = []
        self._terms = 0
        self._rules: dict[type, Callable[[Any, bool], Translated]] = {
            Literal: self._literal,
            BoundParameter: self._parameter,
            Property: self._path,
            Index: self._path,
            Unary: self._unary,
            Chain: self._chain,
            Binary: self._binary,
            In: self._in,
            Between: self._between,
            Like: self._like,
            Call: self._call,
        }

    def condition_for(self, expr: Expr, expected: bool = True) -> Translated:
        """Where `expr` is true; where it is false if `expected` is False."""
        self._terms += 1
        if self._terms > _MAX_TERMS or len(self.value_getters) > _MAX_VALUES:
            return _UNKNOWN
        if self.is_row_independent(expr):
            return self._constant_condition(expr, expected)
        rule = self._rules.get(type(expr))
        return _UNKNOWN if rule is None else rule(expr, expected)

    def _literal(self, expr: Literal, expected: bool) -> Translated:
        return Translated(ALWAYS) if expr.value is expected else _IMPOSSIBLE

    def _parameter(self, expr: BoundParameter, expected: bool) -> Translated:
        return self._constant_condition(expr.name, expected)

    def _constant_condition(self, value_key: ValueKey, expected: bool) -> Translated:
        value_type = self._parameter_types[value_key]
        return Translated(ALWAYS) if value_type == (TRUE if expected else FALSE) else _IMPOSSIBLE

    def is_row_independent(self, expr: Expr) -> bool:
        return self._has_row_independent and expr in self._parameter_types

    def _path(self, expr: Expr, expected: bool) -> Translated:
        path = searchable_path(expr, self._slot)
        return Translated(HasType(path, (TRUE if expected else FALSE,))) if path else _UNKNOWN

    def _unary(self, expr: Unary, expected: bool) -> Translated:
        return self.condition_for(expr.operand, not expected) if expr.op == "NOT" else _IMPOSSIBLE

    def _chain(self, expr: Chain, expected: bool) -> Translated:
        if expr.op not in ("AND", "OR"):
            return _UNKNOWN
        before = self._terms
        terms = [self.condition_for(operand, expected) for operand in expr.operands]
        if (expr.op == "AND") is not expected:
            return _any(terms)
        if all(conditions.is_equality(term.condition) for term in terms):
            self._terms = before  # a store compares them together, as one row of values
        return all_terms(terms)

    def _binary(self, expr: Binary, expected: bool) -> Translated:
        if expr.op not in _SWAPPED:
            return _IMPOSSIBLE  # the result of arithmetic is never a boolean
        for side, other, op in (
            (expr.left, expr.right, expr.op),
            (expr.right, expr.left, _SWAPPED[expr.op]),
        ):
            path, value = searchable_path(side, self._slot), self._constant(other)
            if path and value is not None:
                return self._compared(path, op, value, expected)
            # `(x < 1) = true` is the same as `x < 1`, and `= false` the same as NOT.
            is_boolean_test = (
                value is not None and value.value_type in (FALSE, TRUE) and op in ("=", "!=")
            )
            if value is not None and is_boolean_test and _is_boolean(side):
                return self.condition_for(
                    side, expected is ((value.value_type == TRUE) is (op == "="))
                )
        return _UNKNOWN

    def _between(self, expr: Between, expected: bool) -> Translated:
        path = searchable_path(expr.operand, self._slot)
        low, high = self._constant(expr.low), self._constant(expr.high)
        if not path or low is None or high is None:
            return _UNKNOWN
        bounds = [
            self._compared(path, ">=", low, expected),
            self._compared(path, "<=", high, expected),
        ]
        return all_terms(bounds) if expected else _any(bounds)

    def _in(self, expr: In, expected: bool) -> Translated:
        path = searchable_path(expr.operand, self._slot)
        values = [self._constant(item) for item in expr.items]
        if not path or len(values) > MAX_CHOICES:
            return _UNKNOWN
        return self._one_of(path, values, expected)

    def _one_of(
        self, path: PropertyPath, values: list[_Constant | None], expected: bool
    ) -> Translated:
        self._terms += len(values)
        terms = [
            _UNKNOWN if value is None else self._compared(path, "=", value, expected)
            for value in values
        ]
        if expected:
            return _any(terms)
        return all_terms([Translated(HasType(path, DEFINED)), *terms])

    def _like(self, expr: Like, expected: bool) -> Translated:
        path = searchable_path(expr.operand, self._slot)
        pattern = expr.pattern.value if isinstance(expr.pattern, Literal) else None
        if (
            not path
            or type(pattern) is not str
            or expr.escape
            or scalar_type(pattern) == UNSUPPORTED
        ):
            return _UNKNOWN
        at_start, at_end = pattern.startswith("%"), pattern.endswith("%")
        text = pattern[at_start : len(pattern) - (at_end and len(pattern) > 1)]
        if any(special in text for special in "%_[\\"):
            return _UNKNOWN
        value = _Constant(STRING, lambda _: text)
        if not at_start and not at_end:
            return self._compared(path, "=", value, expected, strings_only=True)
        where = "anywhere" if at_start and at_end else "end" if at_start else "start"
        return self._matched(path, where, value, expected)

    def _call(self, expr: Call, expected: bool) -> Translated:
        name, arguments = expr.name, expr.arguments
        path = searchable_path(arguments[0], self._slot) if arguments else None
        if name in _TYPE_CHECKS:
            if not path:
                return _UNKNOWN
            ranks = _TYPE_CHECKS[name]
            others = tuple(rank for rank in range(8) if rank not in ranks)
            return Translated(HasType(path, ranks if expected else others))
        if name in _TEXT_SEARCHES and len(arguments) == 2 and path:
            value = self._constant(arguments[1])
            return (
                _UNKNOWN
                if value is None
                else self._matched(path, _TEXT_SEARCHES[name], value, expected)
            )
        if name == "STRINGEQUALS" and len(arguments) == 2:
            return self._same_text(arguments[0], arguments[1], expected)
        if name == "ARRAY_CONTAINS" and len(arguments) == 2:
            return self._contains(arguments[0], arguments[1], expected)
        return _UNKNOWN

    def _same_text(self, text: Expr, other: Expr, expected: bool) -> Translated:
        path = searchable_path(text, self._slot)
        if not path:
            path, other = searchable_path(other, self._slot), text
        value = self._constant(other)
        if not path or value is None or value.value_type == UNSUPPORTED:
            return _UNKNOWN
        if value.value_type != STRING:
            return _IMPOSSIBLE
        return self._compared(path, "=", value, expected, strings_only=True)

    def _contains(self, array: Expr, element_expr: Expr, expected: bool) -> Translated:
        path = searchable_path(array, self._slot)
        if path:
            value = self._constant(element_expr)
            if (
                value is None
                or type(value.value_type) is not int
                or value.value_type == UNSUPPORTED
            ):
                return _UNKNOWN
            if value.value_type == conditions.UNDEFINED:
                return _IMPOSSIBLE
            has_value = value.value_type in (NUMBER, STRING)
            value_index = self._add_value(value.getter) if has_value else None
            condition: Condition = ArrayContains(path, value.value_type, value_index)
            if not expected:
                condition = conditions.all_of([HasType(path, (ARRAY,)), Not(condition)])
            return Translated(condition)
        path = searchable_path(element_expr, self._slot)
        values = self._elements(array)
        if not path or values is None:
            return _UNKNOWN
        return self._one_of(path, list(values), expected)

    def _matched(
        self, path: PropertyPath, where: str, value: _Constant, expected: bool
    ) -> Translated:
        if value.value_type == UNSUPPORTED:
            return _UNKNOWN
        if value.value_type != STRING:
            return _IMPOSSIBLE
        condition: Condition = TextMatch(path, where, self._add_value(value.getter))  # type: ignore[arg-type]
        if not expected:
            condition = conditions.all_of([HasType(path, (STRING,)), Not(condition)])
        return Translated(condition)

    def _compared(
        self,
        path: PropertyPath,
        op: str,
        value: _Constant,
        expected: bool,
        *,
        strings_only: bool = False,
    ) -> Translated:
        if type(value.value_type) is not int or value.value_type == UNSUPPORTED:
            return _UNKNOWN
        if value.value_type == conditions.UNDEFINED:
            return _IMPOSSIBLE
        if op == "!=":
            op, expected = "=", not expected
        if value.value_type in (NUMBER, STRING):
            return self._compared_value(path, op, value, expected, strings_only)
        return _compared_rank(path, op, value.value_type, expected)

    def _compared_value(
        self, path: PropertyPath, op: str, value: _Constant, expected: bool, strings_only: bool
    ) -> Translated:
        rank, value_index = int(value.value_type), self._add_value(value.getter)  # type: ignore[arg-type]
        if op != "=":
            operator: Operator = op if expected else _OPPOSITE[op]  # type: ignore[assignment]
            return Translated(Comparison(path, rank, operator, value_index))
        equal = Comparison(path, rank, "=", value_index)
        if expected:
            return Translated(equal)
        types = (STRING,) if strings_only else DEFINED
        return Translated(conditions.all_of([HasType(path, types), Not(equal)]))

    def _add_value(self, getter: Callable[[Values], Any]) -> int:
        self.value_getters.append(getter)
        return len(self.value_getters) - 1

    def _constant(self, expr: Expr) -> _Constant | None:
        if isinstance(expr, Literal):
            value = expr.value
            return _Constant(parameter_type_of(value), lambda _: value)
        if isinstance(expr, BoundParameter):
            name = expr.name
            return _Constant(self._parameter_types[name], lambda values: values[name])
        if self.is_row_independent(expr):
            return _Constant(self._parameter_types[expr], lambda values: values[expr])
        if isinstance(expr, Unary) and expr.op in "+-" and isinstance(expr.operand, Literal):
            number = expr.operand.value
            if type(number) is int or type(number) is float:
                signed = -number if expr.op == "-" else number
                return _Constant(parameter_type_of(signed), lambda _: signed)
        return None

    def _elements(self, expr: Expr) -> list[_Constant | None] | None:
        """The elements of a constant array."""
        if isinstance(expr, ArrayLiteral) and len(expr.items) <= MAX_CHOICES:
            elements = [self._constant(item) for item in expr.items]
            # Undefined elements are left out when an array is made.
            return [
                element
                for element in elements
                if element is None or element.value_type != conditions.UNDEFINED
            ]
        value_key = expr.name if isinstance(expr, BoundParameter) else expr
        parameter_types = self._parameter_types.get(value_key)
        if type(parameter_types) is tuple and parameter_types != UNSUPPORTED_LIST:
            return [
                _Constant(value_type, _element(value_key, at))
                for at, value_type in enumerate(parameter_types)
            ]
        return None


def _is_boolean(expr: Expr) -> bool:
    """True if the value is true, false or undefined."""
    if isinstance(expr, Call):
        return expr.name in _BOOLEAN_FUNCTIONS
    if isinstance(expr, Binary):
        return expr.op in _SWAPPED
    if isinstance(expr, Unary | Chain):
        return expr.op in ("NOT", "AND", "OR")
    return isinstance(expr, In | Between | Like)


def _element(value_key: ValueKey, at: int) -> Callable[[Values], Any]:
    return lambda values: values[value_key][at]


# The types that compare with null, false and true.
_GROUPS: Final = {NULL: (NULL,), FALSE: (FALSE, TRUE), TRUE: (FALSE, TRUE)}
_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compared_rank(path: PropertyPath, op: str, rank: int, expected: bool) -> Translated:
    """Null, false and true have a type rank each, so comparing with them compares ranks."""
    group = DEFINED if op == "=" else _GROUPS[rank]
    holds = _HOLDS[op]
    ranks = tuple(other for other in group if holds(other, rank) is expected)
    return Translated(HasType(path, ranks)) if ranks else _IMPOSSIBLE


def all_terms(terms: list[Translated]) -> Translated:
    condition = conditions.all_of([term.condition for term in terms])
    is_exact = conditions.is_never(condition) or all(term.is_exact for term in terms)
    return Translated(condition, is_exact)


def _any(terms: list[Translated]) -> Translated:
    condition = conditions.any_of([term.condition for term in terms])
    is_exact = all(term.is_exact for term in terms)
    return Translated(condition, is_exact)
