"""A query as a client sent it: text, parameters, and what was made of them last time."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from perseid.conditions import Filter
from perseid.documents import parse_named
from perseid.errors import BadRequest
from perseid.model import Container
from perseid.query.distribution import without_resume_filter
from perseid.service.operation import Operation
from perseid.service.queries.plans import Plan, compile_for, plan_for

_SHORT_BODY: Final = 4096
_LEVELS: Final = 3  # around the value of a parameter: {"parameters": [{"value": …}]}


class BoundPlan(NamedTuple):
    """The filter of a query, how many rows OFFSET leaves out, and how many it gives at most."""

    where: Filter | None
    skip: int
    left: int | None


class QueryRequest:
    """A query and its parameters as a client sent them; nobody changes either."""

    __slots__ = ("_bound", "length", "parameters", "plan", "text")

    def __init__(self, text: str, parameters: dict[str, Any], length: int) -> None:
        self.text = text
        self.length = length  # of all of it, in bytes
        self.parameters = parameters
        # How it ran last, and over which version of which container.
        self.plan: tuple[Container, Plan] | None = None
        self._bound: tuple[Plan, float, BoundPlan] | None = None

    def bind(self, plan: Plan, now: float) -> BoundPlan:
        """What the parameters make of the plan; found at once if it ran like that before."""
        known = self._bound
        if known is not None and known[0] is plan:
            _, then, bound = known
            if then == now or not plan.compiled.depends_on_time:
                return bound
        bound = BoundPlan(plan.filter(self.parameters, now), *plan.offset_limit(self.parameters))
        self._bound = plan, now, bound
        return bound

    @property
    def digest(self) -> str:
        """A token continues the query it was made for, and no other."""
        named = orjson.dumps([without_resume_filter(self.text), list(self.parameters.items())])
        return hashlib.blake2b(named, digest_size=8).hexdigest()


def parse_request(body: bytes) -> QueryRequest:
    """`{"query": …, "parameters": […]}`, or the bare query text as a JSON string."""
    # The same few questions are asked again and again.
    return _parse_short(body) if len(body) <= _SHORT_BODY else _parse(body)


def _parse(body: bytes) -> QueryRequest:
    value = parse_named(body, around=_LEVELS)
    if isinstance(value, str):
        value = {"query": value}
    if not isinstance(value, dict) or not isinstance(value.get("query"), str):
        raise BadRequest('A query request is {"query": "SELECT …", "parameters": […]}.')
    given = value.get("parameters")
    if given is None:
        given = []
    if not isinstance(given, list):
        raise BadRequest("The parameters of a query are an array.")
    parameters = {}
    for parameter in given:
        if not isinstance(parameter, dict) or not isinstance(parameter.get("name"), str):
            raise BadRequest('A query parameter is {"name": "@name", "value": …}.')
        name = parameter["name"]
        if not name.startswith("@"):
            raise BadRequest(f"The name of a query parameter starts with '@': '{name}' does not.")
        if "value" in parameter:  # else undefined, as JavaScript writes it
            parameters[name] = parameter["value"]
    return QueryRequest(value["query"], parameters, len(body))


_parse_short = lru_cache(maxsize=1024)(_parse)


def cached_plan(op: Operation, query: QueryRequest) -> Plan | None:
    """How the query ran when the same request was there before."""
    known = query.plan
    return known[1] if known is not None and known[0] is op.container else None


def is_slow_to_bind(op: Operation, query: QueryRequest) -> bool:
    """Whether it may take long to find out what the filter makes of the parameters."""
    return query.length > _SHORT_BODY and bool(
        compile_for(op.container, query.text).row_independent
    )


def plan_query(op: Operation, query: QueryRequest) -> Plan:
    """How the query runs."""
    plan = cached_plan(op, query)
    if plan is None:
        plan = plan_for(op, query.text, query.parameters)
        if plan.compiled.row_independent:
            query.bind(plan, op.now)  # here, so that who waits for the plan waits for all
        if not plan.compiled.depends_on_time:  # else the filter is another one each time
            query.plan = op.container, plan
    return plan
