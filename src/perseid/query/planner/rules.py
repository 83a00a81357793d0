"""Makes a plan: each rule looks at the query and the plan so far, and returns a better plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from perseid.conditions import PropertyPath, paths_of
from perseid.query.executor import CompiledQuery
from perseid.query.index_usage import CompositeIndex
from perseid.query.planner import filters, grouping, key_filters, order, refusals
from perseid.query.planner.bound_values import ParameterTypes
from perseid.query.planner.plan import PAGING, Plan


class PlanInputs(NamedTuple):
    """What a plan depends on besides the query: types of the bound values, and the container."""

    parameter_types: ParameterTypes
    key_paths: tuple[PropertyPath, ...]  # of the partition key
    is_indexable: Callable[[PropertyPath], bool]
    can_sort: Callable[[CompositeIndex], bool]  # the container has this composite index


Rule: TypeAlias = Callable[[Plan, PlanInputs], Plan]


def make_plan(compiled: CompiledQuery, inputs: PlanInputs) -> Plan:
    """The plan that all rules lead to."""
    plan = Plan(
        compiled,
        filters.nothing_pushed(compiled.bound),
        partition_key=None,
        order=None,
        group_paths=None,
        counts_items=False,
        indexable=frozenset(),
        paging=PAGING[compiled.paging],
        copies_items=False,
        is_linear=grouping.is_linear(compiled.bound),
        needs_client_plan=refusals.needs_client_plan(compiled.bound),
        lacks_composite_index=refusals.lacks_composite_index(compiled.bound, inputs.can_sort),
    )
    for rule in RULES:
        plan = rule(plan, inputs)
    return plan


def filter_by_partition_key(plan: Plan, inputs: PlanInputs) -> Plan:
    """Reads one logical partition if WHERE requires the whole partition key to equal constants."""
    query = plan.compiled.bound
    key_filter = key_filters.key_filter(query, inputs.parameter_types, inputs.key_paths)
    return plan._replace(partition_key=key_filter)


def push_filter(plan: Plan, inputs: PlanInputs) -> Plan:
    """Lets the store check the terms of WHERE that it can check."""
    pushed = filters.push_filter(plan.compiled.bound, inputs.parameter_types)
    return plan._replace(filter=pushed)


def use_index_order(plan: Plan, _inputs: PlanInputs) -> Plan:
    """Reads items in the order of an index if ORDER BY begins with a path of the item."""
    return plan._replace(order=order.store_order(plan.compiled.bound))


def count_groups_in_store(plan: Plan, _inputs: PlanInputs) -> Plan:
    """Lets the store count combinations of values if nothing else of the items is needed."""
    query, is_filtered = plan.compiled.bound, plan.filter.is_exact
    paths = grouping.group_paths(query, is_filtered=is_filtered)
    counts_items = is_filtered and paths == () and grouping.is_plain_count(query)
    return plan._replace(group_paths=paths, counts_items=counts_items)


def copy_items_unchanged(plan: Plan, _inputs: PlanInputs) -> Plan:
    """Skips the evaluator if the rows are exactly the items that the store finds."""
    query = plan.compiled.bound
    if not plan.compiled.gives_items or not plan.filter.is_exact or query.has_joins:
        return plan
    if plan.paging == "stream":
        return plan._replace(paging="copy", copies_items=True)
    return plan._replace(copies_items=plan.paging == "sort" and plan.is_fully_ordered)


def allow_indexes(plan: Plan, inputs: PlanInputs) -> Plan:
    """Names the paths that the store may create indexes on, as the indexing policy allows."""
    paths = paths_of(plan.filter.condition)
    if plan.order is not None:
        paths.add(plan.order.path)
    if plan.group_paths is not None:
        paths.update(plan.group_paths)
    return plan._replace(indexable=frozenset(filter(inputs.is_indexable, paths)))


# In this order: grouping and copying depend on the pushed filter, indexes on everything before.
RULES: Final[tuple[Rule, ...]] = (
    filter_by_partition_key,
    push_filter,
    use_index_order,
    count_groups_in_store,
    copy_items_unchanged,
    allow_indexes,
)
