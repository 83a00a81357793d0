"""The closures that compiled expressions consist of: each takes a row and returns a value.

They are built from other closures; nothing here knows the nodes of the syntax tree. They run
once per row, so the comparisons are written out where a shared helper would cost a call.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from perseid.errors import BadRequest
from perseid.query import like
from perseid.query.arithmetic import NUMBERS
from perseid.query.binder import CONTEXT_SLOT
from perseid.query.functions import CallContext
from perseid.query.functions.logic import Truth, conjunction, disjunction
from perseid.query.values import (
    INT64_MAX,
    LONGEST_TEXT,
    UNDEFINED,
    canonical,
    equals,
    less,
    less_equal,
)
from perseid.query.work_limit import EXPENSIVE_STEPS

# The call context, the documents, then a slot for every alias, parameter, group value and value
# kept per run.
SlotRow: TypeAlias = list[Any]
Fn: TypeAlias = Callable[[SlotRow], Any]
ResultIterator: TypeAlias = Callable[[SlotRow], Iterator[Any]]

# Types that `==` compares as the language does, if both sides have the same type. So do integers of
# 64 bits; longer ones are doubles.
_PLAIN: Final = frozenset({str, bool, type(None)})
_NESTED: Final = frozenset({list, dict})
# 2**14 characters of the text times characters of a LIKE pattern are one step.
_LIKE_SHIFT: Final = 14


# --- paths


def slot_path(slot: int, names: list[str]) -> Fn:
    """A path below an alias; a single name, the most frequent path, needs no loop."""
    if len(names) == 1:
        (name,) = names

        def one(row: SlotRow) -> Any:
            value = row[slot]
            return value.get(name, UNDEFINED) if type(value) is dict else UNDEFINED

        return one
    return path_below(names, operator.itemgetter(slot))


def path_below(names: list[str], run: Fn) -> Fn:
    def follow(row: SlotRow) -> Any:
        value = run(row)
        for name in names:
            if type(value) is not dict:
                return UNDEFINED
            value = value.get(name, UNDEFINED)
        return value

    return follow


def indexed(target: Fn, index: Fn) -> Fn:
    def pick(row: SlotRow) -> Any:
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
    def compare(row: SlotRow) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
            return a == b
        if kind in _NESTED:
            row[CONTEXT_SLOT].work_limit.spend(EXPENSIVE_STEPS)
        return equals(a, b)

    return compare


def _unequal(left: Fn, right: Fn) -> Fn:
    def compare(row: SlotRow) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind in _PLAIN or (kind is int and a <= INT64_MAX)):
            return a != b
        if kind in _NESTED:
            row[CONTEXT_SLOT].work_limit.spend(EXPENSIVE_STEPS)
        same = equals(a, b)
        return same if same is UNDEFINED else not same

    return compare


def _less(left: Fn, right: Fn) -> Fn:
    def compare(row: SlotRow) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind is str or (kind is int and a <= INT64_MAX)):
            return a < b
        return less(a, b)

    return compare


def _less_equal(left: Fn, right: Fn) -> Fn:
    def compare(row: SlotRow) -> Any:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and (kind is str or (kind is int and a <= INT64_MAX)):
            return a <= b
        return less_equal(a, b)

    return compare


COMPARISONS: Final[dict[str, Callable[[Fn, Fn], Fn]]] = {
    "=": _equal,
    "!=": _unequal,
    "<": _less,
    "<=": _less_equal,
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: _less_equal(right, left),
}


def between(operand: Fn, low: Fn, high: Fn) -> Fn:
    def compare(row: SlotRow) -> Any:
        value = operand(row)
        return conjunction((less_equal(low(row), value), less_equal(value, high(row))))

    return compare


@dataclass(slots=True)
class Choices:
    """The items of IN (…), prepared for lookup."""

    values: list[Any]
    keys: frozenset[Any]
    strings: frozenset[str] = field(init=False)
    otherwise: Any = field(init=False)

    def __post_init__(self) -> None:
        self.strings = frozenset(value for value in self.values if type(value) is str)
        # If an item is undefined, a value that equals no item gives undefined, not false.
        self.otherwise = UNDEFINED if canonical(UNDEFINED) in self.keys else False

    def holds(self, value: Any) -> Any:
        if type(value) is str:
            return True if value in self.strings else self.otherwise
        if type(value) in NUMBERS and (_NAN_KEY in self.keys or canonical(value) == _NAN_KEY):
            return _any_equal(value, self.values)
        if value is UNDEFINED:
            return UNDEFINED
        return True if canonical(value) in self.keys else self.otherwise


_NAN_KEY: Final = canonical(math.nan)


def choices_of(runs: Sequence[Fn]) -> Fn:
    def make(row: SlotRow) -> Choices:
        values, keys = [], set()
        for run in runs:
            value = run(row)
            if type(value) in _NESTED:
                row[CONTEXT_SLOT].work_limit.spend(EXPENSIVE_STEPS)
            values.append(value)
            keys.add(canonical(value))
        return Choices(values, frozenset(keys))

    return make


def in_choices(operand: Fn, choices: Fn) -> Fn:
    return lambda row: choices(row).holds(operand(row))


def in_values(operand: Fn, items: Sequence[Fn]) -> Fn:
    return lambda row: _any_equal(operand(row), (item(row) for item in items))


def _any_equal(value: Any, items: Iterable[Any]) -> Truth:
    return disjunction(equals(value, item) for item in items)


# --- logic


def _decided_by(decisive: bool, runs: Sequence[Fn]) -> Fn:
    """AND, which false decides, or OR, which true decides; other values count as undefined."""
    otherwise = not decisive

    def decide(row: SlotRow) -> Any:
        result: Any = otherwise
        for run in runs:
            value = run(row)
            if value is decisive:
                return decisive
            if value is not otherwise:
                result = UNDEFINED
        return result

    return decide


def _first_defined(runs: Sequence[Fn]) -> Fn:
    def first(row: SlotRow) -> Any:
        for run in runs:
            value = run(row)
            if value is not UNDEFINED:
                return value
        return UNDEFINED

    return first


def _concatenation(runs: Sequence[Fn]) -> Fn:
    def concatenate(row: SlotRow) -> Any:
        parts = [run(row) for run in runs]
        if not all(type(part) is str for part in parts):
            return UNDEFINED
        return "".join(parts) if sum(map(len, parts)) <= LONGEST_TEXT else UNDEFINED

    return concatenate


CHAINS: Final[dict[str, Callable[[Sequence[Fn]], Fn]]] = {
    "AND": partial(_decided_by, False),
    "OR": partial(_decided_by, True),
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


PREDICATES: Final = {"AND": _every, "OR": _some}


def choice(test: Fn, then: Fn, otherwise: Fn) -> Fn:
    return lambda row: then(row) if test(row) is True else otherwise(row)


# --- operators on values


def unary_of(apply: Callable[[Any], Any], run: Fn) -> Fn:
    return lambda row: apply(run(row))


def binary_of(apply: Callable[[Any, Any], Any], left: Fn, right: Fn) -> Fn:
    def calculate(row: SlotRow) -> Any:
        a, b = left(row), right(row)
        if type(a) in NUMBERS and type(b) in NUMBERS:
            return apply(a, b)
        return UNDEFINED

    return calculate


def like_of(escape: str, operand: Fn, pattern: Fn) -> Fn:
    def match(row: SlotRow) -> Any:
        text, pattern_text = operand(row), pattern(row)
        if type(text) is not str or type(pattern_text) is not str:
            return UNDEFINED
        steps = len(text) * len(pattern_text) >> _LIKE_SHIFT
        if steps:
            row[CONTEXT_SLOT].work_limit.spend(steps)
        return like.matcher(pattern_text, escape)(text)

    return match


# --- constructors, calls and subqueries


def object_of(names: Sequence[str], runs: Sequence[Fn]) -> Fn:
    """A closure that builds an object of the defined values; the last of equal names counts."""
    members = tuple(dict(zip(names, runs, strict=True)).items())

    def make(row: SlotRow) -> dict[str, Any]:
        built = {}
        for name, run in members:
            value = run(row)
            if value is not UNDEFINED:
                built[name] = value
        return built

    return make


def called(call: Callable[[CallContext, Sequence[Any]], Any], runs: Sequence[Fn]) -> Fn:
    if len(runs) == 1:
        (only,) = runs
        return lambda row: call(row[CONTEXT_SLOT], (only(row),))
    if len(runs) == 2:
        first, second = runs
        return lambda row: call(row[CONTEXT_SLOT], (first(row), second(row)))
    return lambda row: call(row[CONTEXT_SLOT], [run(row) for run in runs])


def array_of(runs: Sequence[Fn]) -> Fn:
    def make(row: SlotRow) -> list[Any]:
        values = [run(row) for run in runs]
        return [value for value in values if value is not UNDEFINED]

    return make


def _scalar(rows: ResultIterator) -> Fn:
    def only(row: SlotRow) -> Any:
        results = rows(row)
        value = next(results, UNDEFINED)
        if value is not UNDEFINED and next(results, UNDEFINED) is not UNDEFINED:
            raise BadRequest(
                "The cardinality of a scalar subquery result set cannot be greater than one.",
                listed=True,
            )
        return value

    return only


def _exists(rows: ResultIterator) -> Fn:
    return lambda row: next(rows(row), UNDEFINED) is not UNDEFINED


def _first(rows: ResultIterator) -> Fn:
    return lambda row: next(rows(row), UNDEFINED)


def _last(rows: ResultIterator) -> Fn:
    def last(row: SlotRow) -> Any:
        value: Any = UNDEFINED
        for value in rows(row):  # noqa: B007  # only the last value is needed
            pass
        return value

    return last


SUBQUERIES: Final[dict[str, Callable[[ResultIterator], Fn]]] = {
    "SCALAR": _scalar,
    "EXISTS": _exists,
    "ARRAY": lambda rows: lambda row: list(rows(row)),
    "FIRST": _first,
    "LAST": _last,
}
