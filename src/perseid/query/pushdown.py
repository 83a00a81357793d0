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
    Compared,
    Condition,
    Filter,
    Holding,
    Matched,
    Not,
    Operator,
    Order,
    Path,
    Typed,
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
Known: TypeAlias = "str | Expr"
Values: TypeAlias = Mapping[Any, Any]
# What a value is as far as a condition depends on it; a list is known by those of its elements.
Kind: TypeAlias = "int | tuple[int, ...]"
Kinds: TypeAlias = Mapping[Any, Kind]

# A value that no condition may hold: SQL would not compare it as the language does.
_ODD: Final = -1
_MOST_CHOICES: Final = 1000
# Databases bind only so many values, and take long to read a statement with more comparisons.
_MOST_TERMS: Final = 2000
_MOST_VALUES: Final = 10_000
_LARGEST: Final = float(2**63)
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
_SEARCHES: Final = {"STARTSWITH": "start", "ENDSWITH": "end", "CONTAINS": "anywhere"}
_TRUTHS: Final = frozenset((*_TYPE_CHECKS, *_SEARCHES, "STRINGEQUALS", "ARRAY_CONTAINS"))


class Pushdown(NamedTuple):
    """The condition that items of the result meet, and whether they alone do."""

    condition: Condition
    is_exact: bool
    sources: tuple[Callable[[Values], Any], ...]

    def filter(self, values: Values) -> Filter | None:
        """The condition with its values; None if it leaves nothing out."""
        if conditions.is_always(self.condition):
            return None
        return Filter(self.condition, tuple([source(values) for source in self.sources]))


def push(query: BoundQuery, kinds: Kinds) -> Pushdown:
    """What WHERE asks of the item, for values of these kinds."""
    if query.where is None:
        return Pushdown(ALWAYS, query.root is not None, ())
    if query.root is None:
        return Pushdown(ALWAYS, False, ())
    maker = _Maker(query.root.slot, kinds)
    truth = maker.true(query.where)
    return Pushdown(truth.condition, truth.is_exact, tuple(maker.sources))


def pushed_order(query: BoundQuery) -> Order | None:
    """The order of the result by its first key, if that is a path of the item."""
    if not query.order_by or query.root is None or query.is_grouped or query.distinct:
        return None
    item = query.order_by[0]
    path = path_of(item.expr, query.root.slot)
    return Order(path, item.descending) if path else None


def kind_of(value: Any) -> Kind:
    """What a condition needs to know of a value beforehand."""
    if type(value) is list:
        kinds = tuple(map(_scalar_kind, value)) if len(value) <= _MOST_CHOICES else (_ODD,)
        return (_ODD,) if _ODD in kinds else kinds
    return _scalar_kind(value)


def path_of(expr: Expr, slot: int) -> Path | None:
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
            return path if all(map(_is_plain, path)) else None
        else:
            return None


def _is_plain(step: str | int) -> bool:
    """True for what every store can write into a path without doubt."""
    if type(step) is int:
        return step < 2**31
    name = str(step)
    return bool(name) and name.isprintable() and '"' not in name and "\\" not in name


def _scalar_kind(value: Any) -> int:
    kind = type(value)
    if kind is list or kind is dict:
        return _ODD
    if kind is int or kind is float:
        return NUMBER if -_LARGEST < value < _LARGEST else _ODD
    if kind is str and not value.isascii() and not _is_whole(value):
        return _ODD
    return type_rank(value)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair; only a query's own text can have one
        return False
    return True


class _Truth(NamedTuple):
    condition: Condition
    is_exact: bool = True


_UNKNOWN: Final = _Truth(ALWAYS, is_exact=False)
_IMPOSSIBLE: Final = _Truth(NEVER)


class _Constant(NamedTuple):
    """A value that is the same for all items of a run."""

    kind: Kind
    of: Callable[[Values], Any]


class _Maker:
    """Turns the WHERE of one query into a condition, collecting the values on the way."""

    def __init__(self, slot: int, kinds: Kinds) -> None:
        self._slot = slot
        self._kinds = kinds
        self._has_settled = not all(isinstance(known, str) for known in kinds)
        self.sources: list[Callable[[Values], Any]] = []
        self._terms = 0
        self._rules: dict[type, Callable[[Any, bool], _Truth]] = {
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

    def true(self, expr: Expr, wanted: bool = True) -> _Truth:
        """Where `expr` is true, or with `wanted` False where it is false."""
        self._terms += 1
        if self._terms > _MOST_TERMS or len(self.sources) > _MOST_VALUES:
            return _UNKNOWN
        if self._is_settled(expr):
            return self._known(expr, wanted)
        rule = self._rules.get(type(expr))
        return _UNKNOWN if rule is None else rule(expr, wanted)

    def _literal(self, expr: Literal, wanted: bool) -> _Truth:
        return _Truth(ALWAYS) if expr.value is wanted else _IMPOSSIBLE

    def _parameter(self, expr: BoundParameter, wanted: bool) -> _Truth:
        return self._known(expr.name, wanted)

    def _known(self, known: Known, wanted: bool) -> _Truth:
        kind = self._kinds[known]
        return _Truth(ALWAYS) if kind == (TRUE if wanted else FALSE) else _IMPOSSIBLE

    def _is_settled(self, expr: Expr) -> bool:
        return self._has_settled and expr in self._kinds

    def _path(self, expr: Expr, wanted: bool) -> _Truth:
        path = path_of(expr, self._slot)
        return _Truth(Typed(path, (TRUE if wanted else FALSE,))) if path else _UNKNOWN

    def _unary(self, expr: Unary, wanted: bool) -> _Truth:
        return self.true(expr.operand, not wanted) if expr.op == "NOT" else _IMPOSSIBLE

    def _chain(self, expr: Chain, wanted: bool) -> _Truth:
        if expr.op not in ("AND", "OR"):
            return _UNKNOWN
        before = self._terms
        terms = [self.true(operand, wanted) for operand in expr.operands]
        if (expr.op == "AND") is not wanted:
            return _any(terms)
        if all(conditions.is_equality(term.condition) for term in terms):
            self._terms = before  # among others, all of them are one row of values
        return _all(terms)

    def _binary(self, expr: Binary, wanted: bool) -> _Truth:
        if expr.op not in _SWAPPED:
            return _IMPOSSIBLE  # arithmetic gives no boolean
        for side, other, op in (
            (expr.left, expr.right, expr.op),
            (expr.right, expr.left, _SWAPPED[expr.op]),
        ):
            path, value = path_of(side, self._slot), self._constant(other)
            if path and value is not None:
                return self._compared(path, op, value, wanted)
            # What is true, false or undefined says the same by itself, or with NOT.
            is_asked = value is not None and value.kind in (FALSE, TRUE) and op in ("=", "!=")
            if value is not None and is_asked and _is_truth(side):
                return self.true(side, wanted is ((value.kind == TRUE) is (op == "=")))
        return _UNKNOWN

    def _between(self, expr: Between, wanted: bool) -> _Truth:
        path = path_of(expr.operand, self._slot)
        low, high = self._constant(expr.low), self._constant(expr.high)
        if not path or low is None or high is None:
            return _UNKNOWN
        bounds = [
            self._compared(path, ">=", low, wanted),
            self._compared(path, "<=", high, wanted),
        ]
        return _all(bounds) if wanted else _any(bounds)

    def _in(self, expr: In, wanted: bool) -> _Truth:
        path = path_of(expr.operand, self._slot)
        values = [self._constant(item) for item in expr.items]
        if not path or len(values) > _MOST_CHOICES:
            return _UNKNOWN
        return self._one_of(path, values, wanted)

    def _one_of(self, path: Path, values: list[_Constant | None], wanted: bool) -> _Truth:
        self._terms += len(values)
        terms = [
            _UNKNOWN if value is None else self._compared(path, "=", value, wanted)
            for value in values
        ]
        if wanted:
            return _any(terms)
        return _all([_Truth(Typed(path, DEFINED)), *terms])

    def _like(self, expr: Like, wanted: bool) -> _Truth:
        path = path_of(expr.operand, self._slot)
        pattern = expr.pattern.value if isinstance(expr.pattern, Literal) else None
        if not path or type(pattern) is not str or expr.escape or _scalar_kind(pattern) == _ODD:
            return _UNKNOWN
        at_start, at_end = pattern.startswith("%"), pattern.endswith("%")
        text = pattern[at_start : len(pattern) - (at_end and len(pattern) > 1)]
        if any(special in text for special in "%_[\\"):
            return _UNKNOWN
        value = _Constant(STRING, lambda _: text)
        if not at_start and not at_end:
            return self._compared(path, "=", value, wanted, strings_only=True)
        where = "anywhere" if at_start and at_end else "end" if at_start else "start"
        return self._matched(path, where, value, wanted)

    def _call(self, expr: Call, wanted: bool) -> _Truth:
        name, arguments = expr.name, expr.arguments
        path = path_of(arguments[0], self._slot) if arguments else None
        if name in _TYPE_CHECKS:
            if not path:
                return _UNKNOWN
            ranks = _TYPE_CHECKS[name]
            others = tuple(rank for rank in range(8) if rank not in ranks)
            return _Truth(Typed(path, ranks if wanted else others))
        if name in _SEARCHES and len(arguments) == 2 and path:
            value = self._constant(arguments[1])
            return (
                _UNKNOWN if value is None else self._matched(path, _SEARCHES[name], value, wanted)
            )
        if name == "STRINGEQUALS" and len(arguments) == 2:
            return self._same_text(arguments[0], arguments[1], wanted)
        if name == "ARRAY_CONTAINS" and len(arguments) == 2:
            return self._contains(arguments[0], arguments[1], wanted)
        return _UNKNOWN

    def _same_text(self, text: Expr, other: Expr, wanted: bool) -> _Truth:
        path = path_of(text, self._slot)
        if not path:
            path, other = path_of(other, self._slot), text
        value = self._constant(other)
        if not path or value is None or value.kind == _ODD:
            return _UNKNOWN
        if value.kind != STRING:
            return _IMPOSSIBLE
        return self._compared(path, "=", value, wanted, strings_only=True)

    def _contains(self, array: Expr, wanted_in_it: Expr, wanted: bool) -> _Truth:
        path = path_of(array, self._slot)
        if path:
            value = self._constant(wanted_in_it)
            if value is None or type(value.kind) is not int or value.kind == _ODD:
                return _UNKNOWN
            if value.kind == conditions.UNDEFINED:
                return _IMPOSSIBLE
            has_value = value.kind in (NUMBER, STRING)
            place = self._place(value.of) if has_value else None
            found: Condition = Holding(path, value.kind, place)
            if not wanted:
                found = conditions.every([Typed(path, (ARRAY,)), Not(found)])
            return _Truth(found)
        path = path_of(wanted_in_it, self._slot)
        values = self._elements(array)
        if not path or values is None:
            return _UNKNOWN
        return self._one_of(path, list(values), wanted)

    def _matched(self, path: Path, where: str, value: _Constant, wanted: bool) -> _Truth:
        if value.kind == _ODD:
            return _UNKNOWN
        if value.kind != STRING:
            return _IMPOSSIBLE
        found: Condition = Matched(path, where, self._place(value.of))  # type: ignore[arg-type]
        if not wanted:
            found = conditions.every([Typed(path, (STRING,)), Not(found)])
        return _Truth(found)

    def _compared(
        self,
        path: Path,
        op: str,
        value: _Constant,
        wanted: bool,
        *,
        strings_only: bool = False,
    ) -> _Truth:
        if type(value.kind) is not int or value.kind == _ODD:
            return _UNKNOWN
        if value.kind == conditions.UNDEFINED:
            return _IMPOSSIBLE
        if op == "!=":
            op, wanted = "=", not wanted
        if value.kind in (NUMBER, STRING):
            return self._compared_value(path, op, value, wanted, strings_only)
        return _compared_rank(path, op, value.kind, wanted)

    def _compared_value(
        self, path: Path, op: str, value: _Constant, wanted: bool, strings_only: bool
    ) -> _Truth:
        rank, place = int(value.kind), self._place(value.of)  # type: ignore[arg-type]
        if op != "=":
            operator: Operator = op if wanted else _OPPOSITE[op]  # type: ignore[assignment]
            return _Truth(Compared(path, rank, operator, place))
        equal = Compared(path, rank, "=", place)
        if wanted:
            return _Truth(equal)
        types = (STRING,) if strings_only else DEFINED
        return _Truth(conditions.every([Typed(path, types), Not(equal)]))

    def _place(self, of: Callable[[Values], Any]) -> int:
        self.sources.append(of)
        return len(self.sources) - 1

    def _constant(self, expr: Expr) -> _Constant | None:
        if isinstance(expr, Literal):
            value = expr.value
            return _Constant(kind_of(value), lambda _: value)
        if isinstance(expr, BoundParameter):
            name = expr.name
            return _Constant(self._kinds[name], lambda values: values[name])
        if self._is_settled(expr):
            return _Constant(self._kinds[expr], lambda values: values[expr])
        if isinstance(expr, Unary) and expr.op in "+-" and isinstance(expr.operand, Literal):
            number = expr.operand.value
            if type(number) is int or type(number) is float:
                signed = -number if expr.op == "-" else number
                return _Constant(kind_of(signed), lambda _: signed)
        return None

    def _elements(self, expr: Expr) -> list[_Constant | None] | None:
        """The elements of a constant array."""
        if isinstance(expr, ArrayLiteral) and len(expr.items) <= _MOST_CHOICES:
            found = [self._constant(item) for item in expr.items]
            # An array has no undefined elements: they are left out when it is made.
            return [each for each in found if each is None or each.kind != conditions.UNDEFINED]
        known = expr.name if isinstance(expr, BoundParameter) else expr
        kinds = self._kinds.get(known)
        if type(kinds) is tuple and kinds != (_ODD,):
            return [_Constant(kind, _element(known, at)) for at, kind in enumerate(kinds)]
        return None


def _is_truth(expr: Expr) -> bool:
    """True for what has no value but true and false."""
    if isinstance(expr, Call):
        return expr.name in _TRUTHS
    if isinstance(expr, Binary):
        return expr.op in _SWAPPED
    if isinstance(expr, Unary | Chain):
        return expr.op in ("NOT", "AND", "OR")
    return isinstance(expr, In | Between | Like)


def _element(known: Known, at: int) -> Callable[[Values], Any]:
    return lambda values: values[known][at]


# Where a comparison with null, false or true is true: all members of a group of types.
_GROUPS: Final = {NULL: (NULL,), FALSE: (FALSE, TRUE), TRUE: (FALSE, TRUE)}
_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compared_rank(path: Path, op: str, rank: int, wanted: bool) -> _Truth:
    """Null, false and true are types of their own, so comparing with them asks for the type."""
    group = DEFINED if op == "=" else _GROUPS[rank]
    holds = _HOLDS[op]
    ranks = tuple(each for each in group if holds(each, rank) is wanted)
    return _Truth(Typed(path, ranks)) if ranks else _IMPOSSIBLE


def _all(terms: list[_Truth]) -> _Truth:
    condition = conditions.every([term.condition for term in terms])
    is_exact = conditions.is_never(condition) or all(term.is_exact for term in terms)
    return _Truth(condition, is_exact)


def _any(terms: list[_Truth]) -> _Truth:
    condition = conditions.some([term.condition for term in terms])
    is_exact = all(term.is_exact for term in terms)
    return _Truth(condition, is_exact)
