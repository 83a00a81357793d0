"""Compiles bound expressions into Python closures over a row, once per query.

Constant expressions are folded here. Expressions that depend only on parameters and the time are
evaluated once per run and kept in a slot of their own. Subqueries are not compiled here but by the
function given to the compiler.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from perseid.query.arithmetic import BINARY, UNARY
from perseid.query.closures import (
    CHAINS,
    COMPARISONS,
    PREDICATES,
    SUBQUERIES,
    Fn,
    ResultIterator,
    SlotRow,
    array_of,
    between,
    binary_of,
    called,
    choice,
    choices_of,
    in_choices,
    in_values,
    indexed,
    like_of,
    object_of,
    path_below,
    slot_path,
    unary_of,
)
from perseid.query.functions import Builtin, CallContext, lookup
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

# The content of a slot that has not been written yet.
EMPTY: Final = object()

# When the value of an expression can be known.
_ALWAYS, _PER_RUN, _PER_ROW = 0, 1, 2

_FOLDING_ROW: Final[SlotRow] = [CallContext(0.0, lambda: 0.0)]


@dataclass(frozen=True, slots=True)
class _CompiledExpr:
    """A closure and when its value is known; a `cheap` one is not kept in a slot."""

    run: Fn
    known_at: int
    cheap: bool = False


@dataclass(slots=True)
class Compiler:
    """Compiles the expressions of one query; `slots` grows with the values to keep per run."""

    compile_query: Callable[[BoundQuery], ResultIterator]
    slots: int
    _parts: dict[type, Callable[[Any], _CompiledExpr]] = field(init=False)

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
        """A closure that returns the value of `node` in a row."""
        return self._once_per_run(self._code(node))

    def predicate(self, node: Expr) -> Fn:
        """A closure that returns `True` if `node` is true, and any other value otherwise.

        Cheaper than `value`: it need not distinguish false from undefined.
        """
        if isinstance(node, Chain) and node.op in PREDICATES:
            return PREDICATES[node.op]([self.predicate(operand) for operand in node.operands])
        return self.value(node)

    def _code(self, node: Expr) -> _CompiledExpr:
        return self._parts[type(node)](node)

    def _operator(
        self, make: Callable[..., Fn], *codes: _CompiledExpr, earliest: int = _ALWAYS
    ) -> _CompiledExpr:
        """The code of an operator, folded if all its operands are constant."""
        known_at = max((earliest, *(code.known_at for code in codes)))
        if known_at == _PER_ROW:
            return _CompiledExpr(make(*map(self._once_per_run, codes)), _PER_ROW)
        run = make(*(code.run for code in codes))
        return _constant(run(_FOLDING_ROW)) if known_at == _ALWAYS else _CompiledExpr(run, _PER_RUN)

    def _once_per_run(self, code: _CompiledExpr) -> Fn:
        """A closure for every row that evaluates a value known per run only once."""
        if code.known_at != _PER_RUN or code.cheap:
            return code.run
        return self._cached_in_slot(code.run)

    def _cached_in_slot(self, run: Fn) -> Fn:
        slot = self._new_slot()

        def cached(row: SlotRow) -> Any:
            value = row[slot]
            if value is EMPTY:
                value = row[slot] = run(row)
            return value

        return cached

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    # --- names and paths

    def _slot(self, node: Alias | Grouped) -> _CompiledExpr:
        return _CompiledExpr(operator.itemgetter(node.slot), _PER_ROW, cheap=True)

    def _parameter(self, node: BoundParameter) -> _CompiledExpr:
        return _CompiledExpr(operator.itemgetter(node.slot), _PER_RUN, cheap=True)

    def _property(self, node: Property) -> _CompiledExpr:
        names = [node.name]
        target = node.target
        while isinstance(target, Property):
            names.append(target.name)
            target = target.target
        names.reverse()
        if isinstance(target, Alias | Grouped):
            return _CompiledExpr(slot_path(target.slot, names), _PER_ROW)
        return self._operator(partial(path_below, names), self._code(target))

    def _index(self, node: Index) -> _CompiledExpr:
        return self._operator(indexed, self._code(node.target), self._code(node.index))

    # --- operators

    def _unary(self, node: Unary) -> _CompiledExpr:
        return self._operator(partial(unary_of, UNARY[node.op]), self._code(node.operand))

    def _binary(self, node: Binary) -> _CompiledExpr:
        left, right = self._code(node.left), self._code(node.right)
        compare = COMPARISONS.get(node.op)
        if compare is not None:
            return self._operator(compare, left, right)
        return self._operator(partial(binary_of, BINARY[node.op]), left, right)

    def _chain(self, node: Chain) -> _CompiledExpr:
        codes = map(self._code, node.operands)
        return self._operator(lambda *runs: CHAINS[node.op](runs), *codes)

    def _conditional(self, node: Conditional) -> _CompiledExpr:
        parts = (node.test, node.then, node.otherwise)
        return self._operator(choice, *map(self._code, parts))

    def _between(self, node: Between) -> _CompiledExpr:
        return self._operator(between, *map(self._code, (node.operand, node.low, node.high)))

    def _in(self, node: In) -> _CompiledExpr:
        operand = self._code(node.operand)
        items = [self._code(item) for item in node.items]
        if max(item.known_at for item in items) == _PER_ROW:
            return self._operator(lambda run, *runs: in_values(run, runs), operand, *items)
        # The list is the same for all rows: build a set, once.
        choices = self._operator(lambda *runs: choices_of(runs), *items)
        return self._operator(in_choices, operand, choices)

    def _like(self, node: Like) -> _CompiledExpr:
        make = partial(like_of, node.escape or "")
        return self._operator(make, self._code(node.operand), self._code(node.pattern))

    # --- constructors and calls

    def _call(self, node: Call) -> _CompiledExpr:
        builtin = lookup(node.name)
        assert builtin is not None  # noqa: S101  # the binder has checked it
        return self._operator(
            lambda *runs: called(builtin.call, runs),
            *map(self._code, node.arguments),
            earliest=_earliest(builtin),
        )

    def _array(self, node: ArrayLiteral) -> _CompiledExpr:
        return self._operator(lambda *runs: array_of(runs), *map(self._code, node.items))

    def _object(self, node: ObjectLiteral) -> _CompiledExpr:
        codes = map(self._code, node.values)
        return self._operator(lambda *runs: object_of(node.names, runs), *codes)

    def _subquery(self, node: BoundSubquery) -> _CompiledExpr:
        rows = self.compile_query(node.query)
        return _CompiledExpr(SUBQUERIES[node.kind](rows), _PER_ROW)


def _earliest(builtin: Builtin) -> int:
    """When a call can be evaluated; expensive ones not while compiling, which has no deadline."""
    if builtin.random:
        return _PER_ROW
    return _PER_RUN if builtin.timed or builtin.expensive else _ALWAYS


def _constant(value: Any) -> _CompiledExpr:
    return _CompiledExpr(lambda _row: value, _ALWAYS, cheap=True)
