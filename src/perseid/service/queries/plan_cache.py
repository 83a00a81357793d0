"""Plans queries and remembers the plans, on two levels.

The first level maps a request body to its bound plan, so that a repeated request is neither parsed
nor planned. The second level maps a query and the types of its values to a plan, so that a query
with other parameters is parsed and bound, but not planned. Both depend on the definition of the
container. A plan that depends on the time of the request is bound again for each request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from perseid.conditions import Filter
from perseid.index_paths import is_indexable
from perseid.model import Container
from perseid.partition import canonical
from perseid.query.planner.bound_values import bound_values, types_of
from perseid.query.planner.plan import Plan
from perseid.query.planner.rules import PlanInputs, make_plan
from perseid.service.queries import resume_filters
from perseid.service.queries.index_metrics import can_sort
from perseid.service.queries.requests import QueryRequest, compile_for, parse_request

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SHORT_BODY: Final = 4096  # longer bodies are rarely repeated
_MAX_BODIES: Final = 1024
_MAX_PLANS: Final = 2048


class BoundPlan(NamedTuple):
    """A plan with the values of one request."""

    plan: Plan
    request: QueryRequest
    where: Filter | None
    offset: int  # rows that OFFSET skips
    limit: int | None  # rows that TOP or LIMIT allows after them
    partition_key: bytes | None  # of the only logical partition that can match


class PlanCache:
    """The plans of one account."""

    def __init__(self) -> None:
        self._bound_plans: OrderedDict[tuple[str, bytes], tuple[Container, BoundPlan]]
        self._bound_plans = OrderedDict()
        self._plans: OrderedDict[Hashable, Plan] = OrderedDict()

    def find(self, container: Container, body: bytes, now: float) -> BoundPlan | None:
        """The bound plan of an earlier request with this body, if it is still valid."""
        entry = self._bound_plans.get((container.rid, body))
        # Each change of the container's definition makes a new object.
        if entry is None or entry[0] is not container:
            return None
        bound = entry[1]
        if bound.plan.compiled.depends_on_time:
            return self.bind(container, bound.request, now)
        return bound

    def add(self, container: Container, body: bytes, bound: BoundPlan) -> None:
        """Remembers the bound plan of a request."""
        if len(body) <= SHORT_BODY:
            _put(self._bound_plans, (container.rid, body), (container, bound), _MAX_BODIES)

    def find_or_bind(self, container: Container, body: bytes, now: float) -> BoundPlan:
        """The bound plan of a request. This may take long for long requests."""
        bound = self.find(container, body, now)
        if bound is None:
            bound = self.bind(container, parse_request(body), now)
            self.add(container, body, bound)
        return bound

    def bind(self, container: Container, request: QueryRequest, now: float) -> BoundPlan:
        """Plans a query, unless its plan is known, and binds its values. Safe in any thread."""
        compiled = compile_for(container, request.text)
        values = bound_values(compiled, request.parameters, now)
        types = types_of(compiled, values)
        key = (compiled, tuple(types.values()), container.rid, container.etag)
        plan = self._plans.get(key)
        if plan is None:
            inputs = PlanInputs(
                types,
                container.key.tokens,
                partial(is_indexable, container),
                partial(can_sort, container),
            )
            plan = make_plan(compiled, inputs)
            _put(self._plans, key, plan, _MAX_PLANS)
        if request.resume is not None:
            resume_filters.check(request.resume, plan, container)
        key_values = plan.partition_key and plan.partition_key.values(request.parameters)
        return BoundPlan(
            plan,
            request,
            plan.filter.filter(values),
            *plan.offset_limit(request.parameters),
            canonical(key_values) if key_values else None,
        )


def _put(entries: OrderedDict[K, V], key: K, value: V, capacity: int) -> None:
    """Adds an entry and drops the oldest ones. Reordering at each hit would cost more than the
    few plans that it saves; without it, several threads may use a cache at the same time."""
    entries[key] = value
    while len(entries) > capacity:
        entries.popitem(last=False)
