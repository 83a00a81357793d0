"""Expressions into Python closures over a row, once per query.

A row is a list: the call context, the documents, then a slot for every alias, parameter, group
value and remembered result. Constants are folded here; what depends on parameters alone is worked
out once per run and remembered in a slot of its own. Queries inside expressions are not compiled
here but by the function given to the compiler.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from perseid.errors import BadRequest
from perseid.query.binder import CONTEXT_SLOT
from perseid.query.functions import CallContext, lookup
from perseid.query.nodes import (
    Alias,
    ArrayLiteral,
    Between,
    Binary,
    BoundParameter,
    BoundQuery,
    BoundSubquery,
    Call,
    Chain,
    ComputedProperty,
    Conditional,
    Expr,
    Grouped,
    In,
    Index,
    Like,
    Literal,
    ObjectLiteral,
    Property,
    Unary,
)
from perseid.query.values import (
    INT64_MAX,
    LONGEST_TEXT,
    UNDEFINED,
    canonical,
    equals,
    less,
    less_equal,
)

Row: TypeAlias = list[Any]
Fn: TypeAlias = Callable[[Row], Any]
Rows: TypeAlias = Callable[[Row], Iterator[Any]]

# In a slot that nothing has been written to yet.
EMPTY: Final = object()

# When the value of an expression can be known.
_ALWAYS, _PER_RUN, _PER_ROW = 0, 1, 2

_FOLDING_ROW: Final[Row] = [CallContext(0.0, lambda: 0.0)]
_NUMBERS: Final = frozenset({int, float})
# Types whose members `==` compares as the language does, when both sides have the same one; among
# integers those of 64 bits, since longer ones are doubles.
_PLAIN: Final = frozenset({str, bool, type(None)})
# Whole numbers up to here are exact as doubles, so integer arithmetic gives the same answer.
_EXACT: Final = 2**53


@dataclass(frozen=True, slots=True)
class _Code:
    """A closure and when its value is known; `cheap` ones are not worth remembering."""

    run: Fn
    when: int
    cheap: bool = False


@dataclass(slots=True)
class Compiler:
    """Compiles the expressions of one query; `slots` grows with what they must remember."""

    compile_query: Callable[[BoundQuery], Rows]
    slots: int
    _parts: dict[type, Callable[[Any], _Code]] = field(init=False)

    def __post_init__(self) -> None:
        self._parts = {
            Literal: lambda node: _constant(node.value),
            Alias: self._slot,
            Grouped: self._slot,
            BoundParameter: self._parameter,
            ComputedProperty: lambda node: self._code(node.expr),
            Property: self._property,
            Index: self._index,
            Unary: self._unary,
            Binary: self._binary,
            Chain: self._chain,
            In: self._in,
            Between: self._between,
            Like: self._like,
            Conditional: self._conditional,
            Call: self._call,
            ArrayLiteral: self._array,
            ObjectLiteral: self._object,
            BoundSubquery: self._subquery,
        }

    def value(self, node: Expr) -> Fn:
        """A closure that gives the value of `node` in a row."""
        return self._settled(self._code(node))

    def predicate(self, node: Expr) -> Fn:
        """A closure whose answer is `True` where `node` is true and anything else elsewhere.

        Cheaper than the value: false and undefined need not be told apart.
        """
        if isinstance(node, Chain) and node.op in _PREDICATES:
            return _PREDICATES[node.op]([self.predicate(operand) for operand in node.operands])
        return self.value(node)

    def _code(self, node: Expr) -> _Code:
        return self._parts[type(node)](node)

    def _built(self, make: Callable[..., Fn], *codes: _Code, pure: bool = True) -> _Code:
        """The code of an operator over operands, folded if they are all constant."""
        when = max((code.when for code in codes), default=_ALWAYS) if pure else _PER_ROW
        if when == _PER_ROW:
            return _Code(make(*map(self._settled, codes)), _PER_ROW)
        run = make(*(code.run for code in codes))
        return _constant(run(_FOLDING_ROW)) if when == _ALWAYS else _Code(run, _PER_RUN)

    def _settled(self, code: _Code) -> Fn:
        """A closure for use in every row, which does not repeat the work of the whole run."""
        if code.when != _PER_RUN or code.cheap:
            return code.run
        return self._remembered(code.run)

    def _remembered(self, run: Fn) -> Fn:
        slot = self._new_slot()

        def remembered(row: Row) -> Any:
            value = row[slot]
            if value is EMPTY:
                value = row[slot] = run(row)
            return value

        return remembered

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    # --- names and paths

    def _slot(self, node: Alias | Grouped) -> _Code:
        return _Code(operator.itemgetter(node.slot), _PER_ROW, cheap=True)

    def _parameter(self, node: BoundParameter) -> _Code:
        return _Code(operator.itemgetter(node.slot), _PER_RUN, cheap=True)

    def _property(self, node: Property) -> _Code:
        names = [node.name]
        target = node.target
        while isinstance(target, Property):
            names.append(target.name)
            target = target.target
        names.reverse()
        if isinstance(target, Alias | Grouped):
            return _Code(_slot_path(target.slot, names), _PER_ROW)
        return self._built(partial(_path, names), self._code(target))

    def _index(self, node: Index) -> _Code:
        return self._built(_indexed, self._code(node.target), self._code(node.index))

    # --- operators

    def _unary(self, node: Unary) -> _Code:
        return self._built(partial(_unary_of, _UNARY[node.op]), self._code(node.operand))

    def _binary(self, node: Binary) -> _Code:
        left, right = self._code(node.left), self._code(node.right)
        compare = _COMPARISONS.get(node.op)
        if compare is not None:
            return self._built(compare, left, right)
        return self._built(partial(_binary_of, _BINARY[node.op]), left, right)

    def _chain(self, node: Chain) -> _Code:
        codes = map(self._code, node.operands)
        return self._built(lambda *runs: _CHAINS[node.op](runs), *codes)

    def _conditional(self, node: Conditional) -> _Code:
        parts = (node.test, node.then, node.otherwise)
        return self._built(_choice, *map(self._code, parts))

    def _between(self, node: Between) -> _Code:
        return self._built(_between, *map(self._code, (node.operand, node.low, node.high)))

    def _in(self, node: In) -> _Code:
        operand = self._code(node.operand)
        items = [self._code(item) for item in node.items]
        if max(item.when for item in items) == _PER_ROW:
            return self._built(lambda run, *runs: _in_values(run, runs), operand, *items)
        # The same list for all rows: a set, made once.
        runs = [item.run for item in items]
        choices = self._built(lambda *_: lambda row: _Choices([run(row) for run in runs]), *items)
        return self._built(_in_choices, operand, choices)

    def _like(self, node: Like) -> _Code:
        make = partial(_like, node.escape or "")
        return self._built(make, self._code(node.operand), self._code(node.pattern))

    # --- constructors and calls

    def _call(self, node: Call) -> _Code:
        builtin = lookup(node.name)
        assert builtin is not None  # noqa: S101  # the binder has found it before
        return self._built(
            lambda *runs: _called(builtin.call, runs),
            *map(self._code, node.arguments),
            pure=builtin.deterministic,
        )

    def _array(self, node: ArrayLiteral) -> _Code:
        return self._built(lambda *runs: _array_of(runs), *map(self._code, node.items))

    def _object(self, node: ObjectLiteral) -> _Code:
        codes = map(self._code, node.values)
        return self._built(lambda *runs: object_of(node.names, runs), *codes)

    def _subquery(self, node: BoundSubquery) -> _Code:
        rows = self.compile_query(node.query)
        return _Code(_SUBQUERIES[node.kind](rows), _PER_ROW)


def object_of(names: Sequence[str], runs: Sequence[Fn]) -> Fn:
    """A closure that makes an object of what is defined; a repeated name has its last value."""
    members = tuple(dict(zip(names, runs, strict=True)).items())

    def make(row: Row) -> dict[str, Any]:
        made = {}
        for name, run in members:
            value = run(row)
            if value is not UNDEFINED:
                made[name] = value
        return made

    return make


def _constant(value: Any) -> _Code:
    return _Code(lambda _row: value, _ALWAYS, cheap=True)


# --- paths


def _slot_path(slot: int, names: list[str]) -> Fn:
    """A path below an alias; the short ones that fill most queries do without a loop."""
    if len(names) == 1:
        (name,) = names

        def one(row: Row) -> Any:
            value = row[slot]
            return value.get(name, UNDEFINED) if type(value) is dict else UNDEFINED

        return one
    return _path(names, operator.itemgetter(slot))


def _path(names: list[str], run: Fn) -> Fn:
    def follow(row: Row) -> Any:
        value = run(row)
        for name in names:
            if type(value) is not dict:
                return UNDEFINED
            value = value.get(name, UNDEFINED)
        return value

    return follow


def _indexed(target: Fn, index: Fn) -> Fn:
    def pick(row: Row) -> Any:
        value, at = target(row), index(row)
        if type(value) is dict:
            return value.get(at, UNDEFINED) if type(at) is str else UNDEFINED
        if type(value) is list:
            if type(at) is float and at.is_integer():
                at = int(at)
            if type(at) is int and 0 <= at < len(value):
                return value[at]
        return UNDEFINED

    return pick


# --- comparison


def _equal(left: Fn, right: Fn) -> Fn:
    def compare(row: Row) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
            return a == b
        return equals(a, b)

    return compare


def _unequal(left: Fn, right: Fn) -> Fn:
    def compare(row: Row) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
            return a != b
        same = equals(a, b)
        return same if same is UNDEFINED else not same

    return compare


def _less(left: Fn, right: Fn) -> Fn:
    def compare(row: Row) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind is str or (kind is int and a <= INT64_MAX)):
            return a < b
        return less(a, b)

    return compare


def _less_equal(left: Fn, right: Fn) -> Fn:
    def compare(row: Row) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind is str or (kind is int and a <= INT64_MAX)):
            return a <= b
        return less_equal(a, b)

    return compare


_COMPARISONS: Final[dict[str, Callable[[Fn, Fn], Fn]]] = {
    "=": _equal,
    "!=": _unequal,
    "<": _less,
    "<=": _less_equal,
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: _less_equal(right, left),
}


def _between(operand: Fn, low: Fn, high: Fn) -> Fn:
    def compare(row: Row) -> Any:
        value = operand(row)
        return _both(less_equal(low(row), value), less_equal(value, high(row)))

    return compare


def _both(a: Any, b: Any) -> Any:
    if a is False or b is False:
        return False
    return True if a is True and b is True else UNDEFINED


@dataclass(slots=True)
class _Choices:
    """The items of an IN, ready to be looked up."""

    values: list[Any]
    keys: frozenset[Any] = field(init=False)
    strings: frozenset[str] = field(init=False)
    otherwise: Any = field(init=False)

    def __post_init__(self) -> None:
        self.keys = frozenset(map(canonical, self.values))
        self.strings = frozenset(value for value in self.values if type(value) is str)
        # Comparing with undefined is undefined, and so is not finding a value next to one.
        self.otherwise = UNDEFINED if canonical(UNDEFINED) in self.keys else False

    def holds(self, value: Any) -> Any:
        if type(value) is str:
            return True if value in self.strings else self.otherwise
        if type(value) in _NUMBERS and (_NAN_KEY in self.keys or canonical(value) == _NAN_KEY):
            return _any_equal(value, self.values)
        if value is UNDEFINED:
            return UNDEFINED
        return True if canonical(value) in self.keys else self.otherwise


_NAN_KEY: Final = canonical(math.nan)


def _in_choices(operand: Fn, choices: Fn) -> Fn:
    return lambda row: choices(row).holds(operand(row))


def _in_values(operand: Fn, items: Sequence[Fn]) -> Fn:
    return lambda row: _any_equal(operand(row), (item(row) for item in items))


def _any_equal(value: Any, items: Any) -> Any:
    found: Any = False
    for item in items:
        same = equals(value, item)
        if same is True:
            return True
        if same is UNDEFINED:
            found = UNDEFINED
    return found


# --- logic


def _conjunction(runs: Sequence[Fn]) -> Fn:
    def all_of(row: Row) -> Any:
        result: Any = True
        for run in runs:
            value = run(row)
            if value is False:
                return False
            if value is not True:
                result = UNDEFINED
        return result

    return all_of


def _disjunction(runs: Sequence[Fn]) -> Fn:
    def any_of(row: Row) -> Any:
        result: Any = False
        for run in runs:
            value = run(row)
            if value is True:
                return True
            if value is not False:
                result = UNDEFINED
        return result

    return any_of


def _first_defined(runs: Sequence[Fn]) -> Fn:
    def first(row: Row) -> Any:
        for run in runs:
            value = run(row)
            if value is not UNDEFINED:
                return value
        return UNDEFINED

    return first


def _concatenation(runs: Sequence[Fn]) -> Fn:
    def concatenate(row: Row) -> Any:
        parts = [run(row) for run in runs]
        if not all(type(part) is str for part in parts):
            return UNDEFINED
        return "".join(parts) if sum(map(len, parts)) <= LONGEST_TEXT else UNDEFINED

    return concatenate


_CHAINS: Final[dict[str, Callable[[Sequence[Fn]], Fn]]] = {
    "AND": _conjunction,
    "OR": _disjunction,
    "??": _first_defined,
    "||": _concatenation,
}


def _every(runs: Sequence[Fn]) -> Fn:
    if len(runs) == 2:
        first, second = runs
        return lambda row: first(row) is True and second(row) is True
    return lambda row: all(run(row) is True for run in runs)


def _some(runs: Sequence[Fn]) -> Fn:
    if len(runs) == 2:
        first, second = runs
        return lambda row: first(row) is True or second(row) is True
    return lambda row: any(run(row) is True for run in runs)


_PREDICATES: Final = {"AND": _every, "OR": _some}


def _choice(test: Fn, then: Fn, otherwise: Fn) -> Fn:
    return lambda row: then(row) if test(row) is True else otherwise(row)


# --- arithmetic and bits


def _unary_of(apply: Callable[[Any], Any], run: Fn) -> Fn:
    return lambda row: apply(run(row))


def _binary_of(apply: Callable[[Any, Any], Any], left: Fn, right: Fn) -> Fn:
    def calculate(row: Row) -> Any:
        a, b = left(row), right(row)
        if type(a) in _NUMBERS and type(b) in _NUMBERS:
            return apply(a, b)
        return UNDEFINED

    return calculate


def _not(value: Any) -> Any:
    return False if value is True else True if value is False else UNDEFINED


def _on_number(apply: Callable[[Any], Any], value: Any) -> Any:
    return apply(value) if type(value) in _NUMBERS else UNDEFINED


def _as_doubles(apply: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    result = apply(a, b)
    if type(result) is float or -_EXACT <= result <= _EXACT:
        return result
    return apply(float(a), float(b))


def _divide(a: Any, b: Any) -> float:
    if b:
        return float(a) / float(b)
    if not a or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder(a: Any, b: Any) -> float:
    """What is left with the sign of the dividend, as in C."""
    if not b or math.isinf(a):
        return math.nan
    return math.fmod(a, b)


def _int32(x: Any) -> int:
    """`x` as JavaScript takes it for bits: whole, wrapped to 32 bits, 0 if there is no such."""
    if type(x) is float:
        if not math.isfinite(x):
            return 0
        x = int(x)
    return int((x + 0x80000000 & 0xFFFFFFFF) - 0x80000000)


def _shift_left(a: Any, b: Any) -> int:
    return _int32(_int32(a) << (_int32(b) & 31))


def _shift_right(a: Any, b: Any) -> int:
    return _int32(a) >> (_int32(b) & 31)


def _shift_right_unsigned(a: Any, b: Any) -> int:
    return (_int32(a) & 0xFFFFFFFF) >> (_int32(b) & 31)


_UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "NOT": _not,
    "+": partial(_on_number, operator.pos),
    "-": partial(_on_number, operator.neg),
    "~": partial(_on_number, lambda x: ~_int32(x)),
}
_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": partial(_as_doubles, operator.add),
    "-": partial(_as_doubles, operator.sub),
    "*": partial(_as_doubles, operator.mul),
    "/": _divide,
    "%": _remainder,
    "&": lambda a, b: _int32(a) & _int32(b),
    "|": lambda a, b: _int32(a) | _int32(b),
    "^": lambda a, b: _int32(a) ^ _int32(b),
    "<<": _shift_left,
    ">>": _shift_right,
    ">>>": _shift_right_unsigned,
}


# --- LIKE


def _like(escape: str, operand: Fn, pattern: Fn) -> Fn:
    def match(row: Row) -> Any:
        text, wanted = operand(row), pattern(row)
        if type(text) is not str or type(wanted) is not str:
            return UNDEFINED
        return _like_matcher(wanted, escape)(text)

    return match


@lru_cache(maxsize=256)
def _like_matcher(pattern: str, escape: str) -> Callable[[str], Any]:
    """A test of whole texts against a LIKE pattern; undefined where it would take too long.

    The stretches between the `%` are looked for one after the other, each at the first place it
    fits: as exact as a regular expression with `.*` between them, without its backtracking.
    """
    stretches = _like_stretches(pattern, escape)
    head, *middle = [re.compile("".join(parts), re.DOTALL) for parts in stretches]
    if not middle:
        return lambda text: head.fullmatch(text) is not None
    tail, tail_length = middle.pop(), len(stretches[-1])
    # Where a stretch may fit is tried place by place, unless it is plain text.
    work = max((len(parts) for parts in stretches[1:-1] if not _is_plain(parts)), default=0)

    def matches(text: str) -> Any:
        if work * len(text) > _MOST_LIKE_WORK:
            return UNDEFINED
        found = head.match(text)
        for part in middle:
            if found is None:
                return False
            found = part.search(text, found.end())
        start = len(text) - tail_length
        return found is not None and start >= found.end() and bool(tail.match(text, start))

    return matches


# Places in a text times parts of a stretch; a second or so.
_MOST_LIKE_WORK: Final = 300_000_000
_NO_CHARACTER: Final = r"[^\x00-\U0010ffff]"
_LIKE_PIECE: Final = re.compile(r"\[\^?[^\]]+\]|.", re.DOTALL)


def _is_plain(parts: list[str]) -> bool:
    return all((len(part) == 1 and part != ".") or part[0] == "\\" for part in parts)


def _like_stretches(pattern: str, escape: str) -> list[list[str]]:
    """What stands between the `%` of a pattern: a regular expression for each character."""
    stretches: list[list[str]] = [[]]
    position = 0
    while position < len(pattern):
        if pattern[position] == escape and position + 1 < len(pattern):
            stretches[-1].append(re.escape(pattern[position + 1]))
            position += 2
            continue
        piece = _LIKE_PIECE.match(pattern, position)
        assert piece is not None  # noqa: S101  # the last alternative takes any character
        position = piece.end()
        if piece[0] == "%":
            stretches.append([])
        else:
            stretches[-1].append(_like_piece(piece[0]))
    return stretches


def _like_piece(piece: str) -> str:
    if piece == "_":
        return "."
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece.startswith("[^") and piece != "[^]"
    members = _like_members(piece[1 + negated : -1])
    if not members:
        return "." if negated else _NO_CHARACTER
    return f"[{'^' if negated else ''}{members}]"


def _like_members(members: str) -> str:
    """The inside of a bracket; a range that runs backwards holds nothing and is left out."""
    parts = []
    position = 0
    while position < len(members):
        first = members[position]
        if members[position + 1 : position + 2] == "-" and position + 2 < len(members):
            last = members[position + 2]
            if first <= last:
                parts.append(f"{re.escape(first)}-{re.escape(last)}")
            position += 3
        else:
            parts.append(re.escape(first))
            position += 1
    return "".join(parts)


# --- constructors, calls and subqueries


def _called(call: Callable[[CallContext, Sequence[Any]], Any], runs: Sequence[Fn]) -> Fn:
    if len(runs) == 1:
        (only,) = runs
        return lambda row: call(row[CONTEXT_SLOT], (only(row),))
    if len(runs) == 2:
        first, second = runs
        return lambda row: call(row[CONTEXT_SLOT], (first(row), second(row)))
    return lambda row: call(row[CONTEXT_SLOT], [run(row) for run in runs])


def _array_of(runs: Sequence[Fn]) -> Fn:
    def make(row: Row) -> list[Any]:
        values = [run(row) for run in runs]
        return [value for value in values if value is not UNDEFINED]

    return make


def _scalar(rows: Rows) -> Fn:
    def only(row: Row) -> Any:
        found = rows(row)
        value = next(found, UNDEFINED)
        if value is not UNDEFINED and next(found, UNDEFINED) is not UNDEFINED:
            raise BadRequest(
                "The cardinality of a scalar subquery result set cannot be greater than one."
            )
        return value

    return only


def _exists(rows: Rows) -> Fn:
    return lambda row: next(rows(row), UNDEFINED) is not UNDEFINED


def _first(rows: Rows) -> Fn:
    return lambda row: next(rows(row), UNDEFINED)


def _last(rows: Rows) -> Fn:
    def last(row: Row) -> Any:
        value: Any = UNDEFINED
        for value in rows(row):  # noqa: B007  # the last one is the answer
            pass
        return value

    return last


_SUBQUERIES: Final[dict[str, Callable[[Rows], Fn]]] = {
    "SCALAR": _scalar,
    "EXISTS": _exists,
    "ARRAY": lambda rows: lambda row: list(rows(row)),
    "FIRST": _first,
    "LAST": _last,
}
