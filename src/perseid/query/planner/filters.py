"""The part of WHERE that a store checks, and the part that is left to the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from perseid import conditions
from perseid.conditions import ALWAYS, Condition, Filter
from perseid.query.nodes import BoundQuery, Chain, Expr
from perseid.query.planner.bound_values import ParameterTypes, Values
from perseid.query.planner.condition_translator import ConditionTranslator, all_terms


class PushedFilter(NamedTuple):
    """The part of WHERE that the store checks.

    `is_exact`: the items that meet the condition are exactly those that meet WHERE. The terms of
    WHERE, which AND connects, are divided into `pushed`, which the store checks exactly, and
    `evaluated`, which the evaluator has to check.
    """

    condition: Condition
    is_exact: bool
    value_getters: tuple[Callable[[Values], Any], ...]
    pushed: tuple[Expr, ...] = ()
    evaluated: tuple[Expr, ...] = ()

    def filter(self, values: Values) -> Filter | None:
        """The condition with its values; None if every item meets it."""
        if conditions.is_always(self.condition):
            return None
        return Filter(
            self.condition,
            tuple([getter_of_value(values) for getter_of_value in self.value_getters]),
        )


def nothing_pushed(query: BoundQuery) -> PushedFilter:
    """The store checks nothing; the evaluator checks WHERE."""
    evaluated = () if query.where is None else _conjuncts(query.where)
    return PushedFilter(ALWAYS, False, (), (), evaluated)


def push_filter(query: BoundQuery, parameter_types: ParameterTypes) -> PushedFilter:
    """The conditions that follow from WHERE, for values of these types."""
    if query.root is None:
        return nothing_pushed(query)
    if query.where is None:
        return PushedFilter(ALWAYS, True, ())
    translator = ConditionTranslator(query.root.slot, parameter_types)
    # A row-independent WHERE was evaluated as a whole, so it is one term.
    is_constant = translator.is_row_independent(query.where)
    terms = (query.where,) if is_constant else _conjuncts(query.where)
    translated = [translator.condition_for(term) for term in terms]
    whole = all_terms(translated)
    pairs = [*zip(terms, translated, strict=True)]
    return PushedFilter(
        whole.condition,
        whole.is_exact,
        tuple(translator.value_getters),
        tuple(term for term, pushed in pairs if pushed.is_exact),
        tuple(term for term, pushed in pairs if not pushed.is_exact),
    )


def _conjuncts(where: Expr) -> tuple[Expr, ...]:
    """The terms that must all be true."""
    return where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)
