"""What of a query a store can check by itself, as conditions on stored items.

For every expression there are two conditions: one for the items where it is true, one for those
where it is false; undefined is neither. They are exact, or else hold for some items too many,
never for one too few: a part that cannot be told is left out, and the query's own evaluator looks
at the candidates again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

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
    Filter,
    HasType,
    Not,
    Operator,
    Order,
    PropertyPath,
    TextMatch,
)
from perseid.query.nodes import (
    Alias,
    ArrayLiteral,
    Between,
    Binary,
    BoundParameter,
    BoundQuery,
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
from perseid.query.values import type_rank

# What is known before an item is looked at: parameters by name, and parts of the filter by
# themselves; see `settled`.
ValueKey: TypeAlias = "str | Expr"
Values: TypeAlias = Mapping[Any, Any]
# What a value is as far as a condition depends on it; a list is known by those of its elements.
ParameterType: TypeAlias = "int | tuple[int, ...]"
ParameterTypes: TypeAlias = Mapping[Any, ParameterType]

# A value that no condition may hold: SQL would not compare it as the language does.
_UNSUPPORTED: Final = -1
_MAX_CHOICES: Final = 1000
# Databases bind only so many values, and take long to read a statement with more comparisons.
_MAX_TERMS: Final = 2000
_MAX_VALUES: Final = 10_000
_NUMBER_LIMIT: Final = float(2**63)
_SWAPPED: Final[dict[str, str]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_OPPOSITE: Final[dict[str, Operator]] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TYPE_CHECKS: Final = {
    "IS_ARRAY": (ARRAY,),
    "IS_BOOL": (FALSE, TRUE),
    "IS_DEFINED": DEFINED,
    "IS_FINITE_NUMBER": (NUMBER,),  # no stored number is anything else
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


class PushedFilter(NamedTuple):
    """The condition that items of the result meet, and whether they alone do."""

    condition: Condition
    is_exact: bool
    value_getters: tuple[Callable[[Values], Any], ...]

    def filter(self, values: Values) -> Filter | None:
        """The condition with its values; None if it leaves nothing out."""
        if conditions.is_always(self.condition):
            return None
        return Filter(
            self.condition,
            tuple([getter_of_value(values) for getter_of_value in self.value_getters]),
        )


def push_filter(query: BoundQuery, parameter_types: ParameterTypes) -> PushedFilter:
    """What WHERE asks of the item, for values of these kinds."""
    if query.where is None:
        return PushedFilter(ALWAYS, query.root is not None, ())
    if query.root is None:
        return PushedFilter(ALWAYS, False, ())
    builder = _FilterBuilder(query.root.slot, parameter_types)
    truth = builder.condition_for(query.where)
    return PushedFilter(truth.condition, truth.is_exact, tuple(builder.value_getters))


def store_order(query: BoundQuery) -> Order | None:
    """The order of the result by its first key, if that is a path of the item."""
    if not query.order_by or query.root is None or query.is_grouped or query.distinct:
        return None
    item = query.order_by[0]
    path = item_path(item.expr, query.root.slot)
    return Order(path, item.descending) if path else None


def parameter_type_of(value: Any) -> ParameterType:
    """What a condition needs to know of a value beforehand."""
    if type(value) is list:
        parameter_types = (
            tuple(map(_scalar_type, value)) if len(value) <= _MAX_CHOICES else (_UNSUPPORTED,)
        )
        return (_UNSUPPORTED,) if _UNSUPPORTED in parameter_types else parameter_types
    return _scalar_type(value)


def item_path(expr: Expr, slot: int) -> PropertyPath | None:
    """The steps from the item in `slot` down to the expression, if all of them are constant."""
    steps: list[str | int] = []
    while True:
        if isinstance(expr, Property):
            steps.append(expr.name)
            expr = expr.target
        elif isinstance(expr, Index):
            at = expr.index.value if isinstance(expr.index, Literal) else None
            if type(at) is not int or at < 0:
                return None
            steps.append(at)
            expr = expr.target
        elif isinstance(expr, Alias) and expr.slot == slot:
            path = tuple(reversed(steps))
            return path if all(map(_is_portable_step, path)) else None
        else:
            return None


def _is_portable_step(step: str | int) -> bool:
    """True for what every store can write into a path without doubt."""
    if type(step) is int:
        return step < 2**31
    name = str(step)
    return bool(name) and name.isprintable() and '"' not in name and "\\" not in name


def _scalar_type(value: Any) -> int:
    value_type = type(value)
    if value_type is list or value_type is dict:
        return _UNSUPPORTED
    if value_type is int or value_type is float:
        return NUMBER if -_NUMBER_LIMIT < value < _NUMBER_LIMIT else _UNSUPPORTED
    if value_type is str and not value.isascii() and not _is_encodable(value):
        return _UNSUPPORTED
    return type_rank(value)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair; only a query's own text can have one
        return False
    return True


class _PushedCondition(NamedTuple):
    condition: Condition
    is_exact: bool = True


_UNKNOWN: Final = _PushedCondition(ALWAYS, is_exact=False)
_IMPOSSIBLE: Final = _PushedCondition(NEVER)


class _Constant(NamedTuple):
    """A value that is the same for all items of a run."""

    value_type: ParameterType
    getter: Callable[[Values], Any]


class _FilterBuilder:
    """Turns the WHERE of one query into a condition, collecting the values on the way."""

    def __init__(self, slot: int, parameter_types: ParameterTypes) -> None:
        self._slot = slot
        self._parameter_types = parameter_types
        self._has_row_independent = not all(
            isinstance(value_key, str) for value_key in parameter_types
        )
        self.value_getters: list[Callable[[Values], Any]] = []
        self._terms = 0
        self._rules: dict[type, Callable[[Any, bool], _PushedCondition]] = {
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

    def condition_for(self, expr: Expr, expected: bool = True) -> _PushedCondition:
        """Where `expr` is true, or with `wanted` False where it is false."""
        self._terms += 1
        if self._terms > _MAX_TERMS or len(self.value_getters) > _MAX_VALUES:
            return _UNKNOWN
        if self._is_row_independent(expr):
            return self._constant_condition(expr, expected)
        rule = self._rules.get(type(expr))
        return _UNKNOWN if rule is None else rule(expr, expected)

    def _literal(self, expr: Literal, expected: bool) -> _PushedCondition:
        return _PushedCondition(ALWAYS) if expr.value is expected else _IMPOSSIBLE

    def _parameter(self, expr: BoundParameter, expected: bool) -> _PushedCondition:
        return self._constant_condition(expr.name, expected)

    def _constant_condition(self, value_key: ValueKey, expected: bool) -> _PushedCondition:
        value_type = self._parameter_types[value_key]
        return (
            _PushedCondition(ALWAYS) if value_type == (TRUE if expected else FALSE) else _IMPOSSIBLE
        )

    def _is_row_independent(self, expr: Expr) -> bool:
        return self._has_row_independent and expr in self._parameter_types

    def _path(self, expr: Expr, expected: bool) -> _PushedCondition:
        path = item_path(expr, self._slot)
        return _PushedCondition(HasType(path, (TRUE if expected else FALSE,))) if path else _UNKNOWN

    def _unary(self, expr: Unary, expected: bool) -> _PushedCondition:
        return self.condition_for(expr.operand, not expected) if expr.op == "NOT" else _IMPOSSIBLE

    def _chain(self, expr: Chain, expected: bool) -> _PushedCondition:
        if expr.op not in ("AND", "OR"):
            return _UNKNOWN
        before = self._terms
        terms = [self.condition_for(operand, expected) for operand in expr.operands]
        if (expr.op == "AND") is not expected:
            return _any(terms)
        if all(conditions.is_equality(term.condition) for term in terms):
            self._terms = before  # among others, all of them are one row of values
        return _all(terms)

    def _binary(self, expr: Binary, expected: bool) -> _PushedCondition:
        if expr.op not in _SWAPPED:
            return _IMPOSSIBLE  # arithmetic gives no boolean
        for side, other, op in (
            (expr.left, expr.right, expr.op),
            (expr.right, expr.left, _SWAPPED[expr.op]),
        ):
            path, value = item_path(side, self._slot), self._constant(other)
            if path and value is not None:
                return self._compared(path, op, value, expected)
            # What is true, false or undefined says the same by itself, or with NOT.
            is_boolean_test = (
                value is not None and value.value_type in (FALSE, TRUE) and op in ("=", "!=")
            )
            if value is not None and is_boolean_test and _is_boolean(side):
                return self.condition_for(
                    side, expected is ((value.value_type == TRUE) is (op == "="))
                )
        return _UNKNOWN

    def _between(self, expr: Between, expected: bool) -> _PushedCondition:
        path = item_path(expr.operand, self._slot)
        low, high = self._constant(expr.low), self._constant(expr.high)
        if not path or low is None or high is None:
            return _UNKNOWN
        bounds = [
            self._compared(path, ">=", low, expected),
            self._compared(path, "<=", high, expected),
        ]
        return _all(bounds) if expected else _any(bounds)

    def _in(self, expr: In, expected: bool) -> _PushedCondition:
        path = item_path(expr.operand, self._slot)
        values = [self._constant(item) for item in expr.items]
        if not path or len(values) > _MAX_CHOICES:
            return _UNKNOWN
        return self._one_of(path, values, expected)

    def _one_of(
        self, path: PropertyPath, values: list[_Constant | None], expected: bool
    ) -> _PushedCondition:
        self._terms += len(values)
        terms = [
            _UNKNOWN if value is None else self._compared(path, "=", value, expected)
            for value in values
        ]
        if expected:
            return _any(terms)
        return _all([_PushedCondition(HasType(path, DEFINED)), *terms])

    def _like(self, expr: Like, expected: bool) -> _PushedCondition:
        path = item_path(expr.operand, self._slot)
        pattern = expr.pattern.value if isinstance(expr.pattern, Literal) else None
        if (
            not path
            or type(pattern) is not str
            or expr.escape
            or _scalar_type(pattern) == _UNSUPPORTED
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

    def _call(self, expr: Call, expected: bool) -> _PushedCondition:
        name, arguments = expr.name, expr.arguments
        path = item_path(arguments[0], self._slot) if arguments else None
        if name in _TYPE_CHECKS:
            if not path:
                return _UNKNOWN
            ranks = _TYPE_CHECKS[name]
            others = tuple(rank for rank in range(8) if rank not in ranks)
            return _PushedCondition(HasType(path, ranks if expected else others))
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

    def _same_text(self, text: Expr, other: Expr, expected: bool) -> _PushedCondition:
        path = item_path(text, self._slot)
        if not path:
            path, other = item_path(other, self._slot), text
        value = self._constant(other)
        if not path or value is None or value.value_type == _UNSUPPORTED:
            return _UNKNOWN
        if value.value_type != STRING:
            return _IMPOSSIBLE
        return self._compared(path, "=", value, expected, strings_only=True)

    def _contains(self, array: Expr, element_expr: Expr, expected: bool) -> _PushedCondition:
        path = item_path(array, self._slot)
        if path:
            value = self._constant(element_expr)
            if (
                value is None
                or type(value.value_type) is not int
                or value.value_type == _UNSUPPORTED
            ):
                return _UNKNOWN
            if value.value_type == conditions.UNDEFINED:
                return _IMPOSSIBLE
            has_value = value.value_type in (NUMBER, STRING)
            value_index = self._add_value(value.getter) if has_value else None
            found: Condition = ArrayContains(path, value.value_type, value_index)
            if not expected:
                found = conditions.all_of([HasType(path, (ARRAY,)), Not(found)])
            return _PushedCondition(found)
        path = item_path(element_expr, self._slot)
        values = self._elements(array)
        if not path or values is None:
            return _UNKNOWN
        return self._one_of(path, list(values), expected)

    def _matched(
        self, path: PropertyPath, where: str, value: _Constant, expected: bool
    ) -> _PushedCondition:
        if value.value_type == _UNSUPPORTED:
            return _UNKNOWN
        if value.value_type != STRING:
            return _IMPOSSIBLE
        found: Condition = TextMatch(path, where, self._add_value(value.getter))  # type: ignore[arg-type]
        if not expected:
            found = conditions.all_of([HasType(path, (STRING,)), Not(found)])
        return _PushedCondition(found)

    def _compared(
        self,
        path: PropertyPath,
        op: str,
        value: _Constant,
        expected: bool,
        *,
        strings_only: bool = False,
    ) -> _PushedCondition:
        if type(value.value_type) is not int or value.value_type == _UNSUPPORTED:
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
    ) -> _PushedCondition:
        rank, value_index = int(value.value_type), self._add_value(value.getter)  # type: ignore[arg-type]
        if op != "=":
            operator: Operator = op if expected else _OPPOSITE[op]  # type: ignore[assignment]
            return _PushedCondition(Comparison(path, rank, operator, value_index))
        equal = Comparison(path, rank, "=", value_index)
        if expected:
            return _PushedCondition(equal)
        types = (STRING,) if strings_only else DEFINED
        return _PushedCondition(conditions.all_of([HasType(path, types), Not(equal)]))

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
        if self._is_row_independent(expr):
            return _Constant(self._parameter_types[expr], lambda values: values[expr])
        if isinstance(expr, Unary) and expr.op in "+-" and isinstance(expr.operand, Literal):
            number = expr.operand.value
            if type(number) is int or type(number) is float:
                signed = -number if expr.op == "-" else number
                return _Constant(parameter_type_of(signed), lambda _: signed)
        return None

    def _elements(self, expr: Expr) -> list[_Constant | None] | None:
        """The elements of a constant array."""
        if isinstance(expr, ArrayLiteral) and len(expr.items) <= _MAX_CHOICES:
            found = [self._constant(item) for item in expr.items]
            # An array has no undefined elements: they are left out when it is made.
            return [
                each for each in found if each is None or each.value_type != conditions.UNDEFINED
            ]
        value_key = expr.name if isinstance(expr, BoundParameter) else expr
        parameter_types = self._parameter_types.get(value_key)
        if type(parameter_types) is tuple and parameter_types != (_UNSUPPORTED,):
            return [
                _Constant(value_type, _element(value_key, at))
                for at, value_type in enumerate(parameter_types)
            ]
        return None


def _is_boolean(expr: Expr) -> bool:
    """True for what has no value but true and false."""
    if isinstance(expr, Call):
        return expr.name in _BOOLEAN_FUNCTIONS
    if isinstance(expr, Binary):
        return expr.op in _SWAPPED
    if isinstance(expr, Unary | Chain):
        return expr.op in ("NOT", "AND", "OR")
    return isinstance(expr, In | Between | Like)


def _element(value_key: ValueKey, at: int) -> Callable[[Values], Any]:
    return lambda values: values[value_key][at]


# Where a comparison with null, false or true is true: all members of a group of types.
_GROUPS: Final = {NULL: (NULL,), FALSE: (FALSE, TRUE), TRUE: (FALSE, TRUE)}
_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compared_rank(path: PropertyPath, op: str, rank: int, expected: bool) -> _PushedCondition:
    """Null, false and true are types of their own, so comparing with them asks for the type."""
    group = DEFINED if op == "=" else _GROUPS[rank]
    holds = _HOLDS[op]
    ranks = tuple(each for each in group if holds(each, rank) is expected)
    return _PushedCondition(HasType(path, ranks)) if ranks else _IMPOSSIBLE


def _all(terms: list[_PushedCondition]) -> _PushedCondition:
    condition = conditions.all_of([term.condition for term in terms])
    is_exact = conditions.is_never(condition) or all(term.is_exact for term in terms)
    return _PushedCondition(condition, is_exact)


def _any(terms: list[_PushedCondition]) -> _PushedCondition:
    condition = conditions.any_of([term.condition for term in terms])
    is_exact = all(term.is_exact for term in terms)
    return _PushedCondition(condition, is_exact)
