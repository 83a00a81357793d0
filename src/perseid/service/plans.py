"""How a query runs over a container: what the store does by itself, and what is left to do.

Planning depends on the query's text, on the types of its parameters and of what the filter makes
of them, and on the container's definition; it is done once for each of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from perseid.charges import IndexPaths
from perseid.conditions import Condition, Every, Filter, Not, Order, Path, Some
from perseid.model import Container
from perseid.partition import ABSENT, canonical
from perseid.query import CompiledQuery, compile_query, settle, window
from perseid.query.pins import pinned
from perseid.query.pushdown import Kind, Kinds, Pushdown, Values, kind_of, push, pushed_order
from perseid.query.uses import combined, is_light
from perseid.query.values import UNDEFINED
from perseid.service.operation import Operation
from perseid.service.patience import Patience, call_context

_REMEMBERED: Final = 2048
_SETTLING_SECONDS: Final = 1.0  # everybody waits for it, unless the request is long
# Indexed in every container, though no policy lists them; and those that cannot be searched for.
_ALWAYS_INDEXED: Final = frozenset({"id", "_ts"})
_NEVER_INDEXED: Final = frozenset({"_etag", "_rid", "_self", "_attachments"})


class Plan(NamedTuple):
    """A compiled query and the parts of it that a store can do."""

    compiled: CompiledQuery
    pushdown: Pushdown
    order: Order | None
    is_sorted: bool  # by that order alone, and else among those that are equal in it by others
    combined: tuple[Path, ...] | None  # enough of an item, where equal ones count as one
    indexable: frozenset[Path]
    may_pin: bool  # the filter may confine the query to one logical partition
    is_copied: bool  # the items that the store finds are the rows of the result, as they are
    is_unlimited: bool  # neither OFFSET nor LIMIT nor TOP
    is_light: bool  # an item takes as long as it is large, and no longer

    def window(self, parameters: Mapping[str, Any]) -> tuple[int, int | None]:
        """How many rows OFFSET leaves out, and how many TOP or LIMIT lets through after them."""
        return (0, None) if self.is_unlimited else window(self.compiled, parameters)

    def filter(self, parameters: Mapping[str, Any], now: float) -> Filter | None:
        return self.pushdown.filter(_values(self.compiled, parameters, now))


def compile_for(container: Container, text: str) -> CompiledQuery:
    computed = container.properties.get("computedProperties")
    if not computed:
        return compile_query(text)
    return compile_query(text, tuple((each["name"], each["query"]) for each in computed))


def plan_for(op: Operation, text: str, parameters: Mapping[str, Any]) -> Plan:
    container, plans = op.container, op.account.plans
    compiled = compile_for(container, text)
    kinds = kinds_of(compiled, parameters, op.now)
    key = (compiled, tuple(kinds.values()), container.rid, container.etag)
    plan: Plan | None = plans.get(key)
    if plan is None:
        if len(plans) >= _REMEMBERED:
            plans.clear()
        plan = plans[key] = _plan(container, compiled, kinds)
    return plan


def kinds_of(compiled: CompiledQuery, parameters: Mapping[str, Any], now: float) -> dict[Any, Kind]:
    """What a plan has to know of each value that the filter compares with."""
    values = _values(compiled, parameters, now)
    known = (*compiled.parameters, *compiled.settled)
    return {each: kind_of(values.get(each, UNDEFINED)) for each in known}


def _values(compiled: CompiledQuery, parameters: Mapping[str, Any], now: float) -> Values:
    """The parameters, and what the filter makes of them before it looks at an item."""
    if not compiled.settled:
        return parameters
    context = call_context(now, Patience(_SETTLING_SECONDS).check)
    return {**parameters, **settle(compiled, parameters, context)}


def _plan(container: Container, compiled: CompiledQuery, kinds: Kinds) -> Plan:
    bound = compiled.bound
    pushdown = push(bound, kinds)
    order = pushed_order(bound)
    is_sorted = order is not None and len(bound.order_by) == 1
    together = combined(bound, is_filtered=pushdown.is_exact)
    paths = paths_of(pushdown.condition)
    if order is not None:
        paths.add(order.path)
    if together is not None:
        paths.update(together)
    indexable = frozenset(path for path in paths if is_indexable(container, path))
    fixed = pinned(bound, dict.fromkeys(compiled.parameters, ""))
    may_pin = all(path in fixed for path in container.key.tokens)
    is_copied = (
        compiled.gives_items
        and pushdown.is_exact
        and not bound.has_joins
        and (compiled.paging == "STREAM" or (compiled.paging == "SORT" and is_sorted))
    )
    is_unlimited = bound.offset is None and bound.limit is None and bound.top is None
    return Plan(
        compiled,
        pushdown,
        order,
        is_sorted,
        together,
        indexable,
        may_pin,
        is_copied,
        is_unlimited,
        is_light(bound),
    )


def pinned_key(container: Container, plan: Plan, parameters: Mapping[str, Any]) -> bytes | None:
    """The logical partition outside of which the query's filter rejects everything."""
    if not plan.may_pin:
        return None
    fixed = pinned(plan.compiled.bound, parameters)
    values = [fixed.get(path, ABSENT) for path in container.key.tokens]
    if all(value is None or isinstance(value, str | int | float) for value in values):
        return canonical(tuple(values))
    return None


def is_indexable(container: Container, path: Path) -> bool:
    """Whether the indexing policy lets the values at a path be indexed."""
    policy = container.properties.get("indexingPolicy", {})
    if str(policy.get("indexingMode", "")).lower() == "none" or path[0] in _NEVER_INDEXED:
        return False
    if len(path) == 1 and path[0] in _ALWAYS_INDEXED:
        return True
    point: IndexPaths = container.index
    for step in path:
        point = point.child(step if isinstance(step, str) else None)
    return point.scalar


def paths_of(condition: Condition) -> set[Path]:
    """What a condition is about."""
    if isinstance(condition, Every | Some):
        return {path for term in condition.terms for path in paths_of(term)}
    if isinstance(condition, Not):
        return paths_of(condition.term)
    return {condition.path}
