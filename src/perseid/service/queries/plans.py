"""How a query runs over a container: what the store does by itself, and what is left to do.

Planning depends on the query's text, on the types of its parameters and of what the filter makes
of them, and on the container's definition; it is done once for each of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from perseid.conditions import Filter, Order, PropertyPath
from perseid.index_paths import is_indexable, paths_of
from perseid.model import Container
from perseid.partition import ABSENT, canonical
from perseid.query import CompiledQuery, compile_query, evaluate_row_independent, offset_limit
from perseid.query.deadline import Deadline, call_context
from perseid.query.planner.filters import (
    ParameterType,
    ParameterTypes,
    PushedFilter,
    Values,
    parameter_type_of,
    push_filter,
    store_order,
)
from perseid.query.planner.grouping import group_paths, is_linear
from perseid.query.planner.key_filters import key_filters
from perseid.query.values import UNDEFINED
from perseid.service.operation import Operation

_CACHED_PLANS: Final = 2048
_BINDING_SECONDS: Final = 1.0  # everybody waits for it, unless the request is long


class Plan(NamedTuple):
    """A compiled query and the parts of it that a store can do."""

    compiled: CompiledQuery
    pushed_filter: PushedFilter
    order: Order | None
    is_sorted: bool  # by that order alone, and else among those that are equal in it by others
    group_paths: tuple[PropertyPath, ...] | None  # enough of an item, where equal ones count as one
    indexable: frozenset[PropertyPath]
    may_filter_key: bool  # the filter may confine the query to one logical partition
    is_copied: bool  # the items that the store finds are the rows of the result, as they are
    is_unlimited: bool  # neither OFFSET nor LIMIT nor TOP
    is_linear: bool  # an item takes as long as it is large, and no longer

    def offset_limit(self, parameters: Mapping[str, Any]) -> tuple[int, int | None]:
        """How many rows OFFSET leaves out, and how many TOP or LIMIT lets through after them."""
        return (0, None) if self.is_unlimited else offset_limit(self.compiled, parameters)

    def filter(self, parameters: Mapping[str, Any], now: float) -> Filter | None:
        return self.pushed_filter.filter(_values(self.compiled, parameters, now))


def compile_for(container: Container, text: str) -> CompiledQuery:
    computed = container.properties.get("computedProperties")
    if not computed:
        return compile_query(text)
    return compile_query(text, tuple((entry["name"], entry["query"]) for entry in computed))


def plan_for(op: Operation, text: str, parameters: Mapping[str, Any]) -> Plan:
    container, plans = op.container, op.account.plans
    compiled = compile_for(container, text)
    parameter_types = parameter_types_of(compiled, parameters, op.now)
    key = (compiled, tuple(parameter_types.values()), container.rid, container.etag)
    plan: Plan | None = plans.get(key)
    if plan is None:
        if len(plans) >= _CACHED_PLANS:
            plans.clear()
        plan = plans[key] = _plan(container, compiled, parameter_types)
    return plan


def parameter_types_of(
    compiled: CompiledQuery, parameters: Mapping[str, Any], now: float
) -> dict[Any, ParameterType]:
    """What a plan has to know of each value that the filter compares with."""
    values = _values(compiled, parameters, now)
    known = (*compiled.parameters, *compiled.row_independent)
    return {entry: parameter_type_of(values.get(entry, UNDEFINED)) for entry in known}


def _values(compiled: CompiledQuery, parameters: Mapping[str, Any], now: float) -> Values:
    """The parameters, and what the filter makes of them before it looks at an item."""
    if not compiled.row_independent:
        return parameters
    context = call_context(now, Deadline(_BINDING_SECONDS).check)
    return {**parameters, **evaluate_row_independent(compiled, parameters, context)}


def _plan(container: Container, compiled: CompiledQuery, parameter_types: ParameterTypes) -> Plan:
    bound = compiled.bound
    pushed_filter = push_filter(bound, parameter_types)
    order = store_order(bound)
    is_sorted = order is not None and len(bound.order_by) == 1
    grouped_paths = group_paths(bound, is_filtered=pushed_filter.is_exact)
    paths = paths_of(pushed_filter.condition)
    if order is not None:
        paths.add(order.path)
    if grouped_paths is not None:
        paths.update(grouped_paths)
    indexable = frozenset(path for path in paths if is_indexable(container, path))
    key_values = key_filters(bound, dict.fromkeys(compiled.parameters, ""))
    may_filter_key = all(path in key_values for path in container.key.tokens)
    is_copied = (
        compiled.gives_items
        and pushed_filter.is_exact
        and not bound.has_joins
        and (compiled.paging == "STREAM" or (compiled.paging == "SORT" and is_sorted))
    )
    is_unlimited = bound.offset is None and bound.limit is None and bound.top is None
    return Plan(
        compiled,
        pushed_filter,
        order,
        is_sorted,
        grouped_paths,
        indexable,
        may_filter_key,
        is_copied,
        is_unlimited,
        is_linear(bound),
    )


def partition_key_filter(
    container: Container, plan: Plan, parameters: Mapping[str, Any]
) -> bytes | None:
    """The logical partition outside of which the query's filter rejects everything."""
    if not plan.may_filter_key:
        return None
    key_values = key_filters(plan.compiled.bound, parameters)
    values = [key_values.get(path, ABSENT) for path in container.key.tokens]
    if all(value is None or isinstance(value, str | int | float) for value in values):
        return canonical(tuple(values))
    return None
