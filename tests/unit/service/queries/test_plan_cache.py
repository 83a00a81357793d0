"""Both levels of the plan cache: request bodies, and queries with the types of their values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from perseid.model import Container
from perseid.partition import canonical
from perseid.service.catalog import build_container
from perseid.service.queries import plan_cache
from perseid.service.queries.plan_cache import BoundPlan, PlanCache
from tests.support.rows import DATABASE, container_resource

NOW = 1_900_000_000.0


@pytest.fixture
def container() -> Container:
    return build_container(container_resource(7), DATABASE)


def body_of(text: str, **values: Any) -> bytes:
    parameters = [{"name": f"@{name}", "value": value} for name, value in values.items()]
    return json.dumps({"query": text, "parameters": parameters}).encode()


def bind(plans: PlanCache, container: Container, body: bytes, now: float = NOW) -> BoundPlan:
    return plans.find_or_bind(container, body, now)


def test_a_repeated_request_is_not_bound_again(container: Container) -> None:
    plans = PlanCache()
    body = body_of("SELECT * FROM c WHERE c.pk = @a", a="x")
    bound = bind(plans, container, body)
    assert bind(plans, container, body, NOW + 1) is bound
    assert bound.partition_key == canonical(("x",))


def test_values_of_the_same_types_share_a_plan(container: Container) -> None:
    plans = PlanCache()
    text = "SELECT * FROM c WHERE c.n = @n"
    one, two, other = (bind(plans, container, body_of(text, n=n)) for n in (1, 2.5, "x"))
    assert one.plan is two.plan
    assert one.plan is not other.plan
    assert [each.where and each.where.values for each in (one, two, other)] == [
        (1,),
        (2.5,),
        ("x",),
    ]


def test_a_plan_that_depends_on_the_time_is_bound_for_each_request(container: Container) -> None:
    plans = PlanCache()
    body = body_of("SELECT * FROM c WHERE c.at < GetCurrentTimestamp()")
    one, two = bind(plans, container, body), bind(plans, container, body, NOW + 1)
    assert one.plan is two.plan
    assert one.where is not None and two.where is not None  # noqa: PT018
    assert two.where.values[0] - one.where.values[0] == 1000


def test_a_new_definition_needs_a_new_plan(container: Container) -> None:
    plans = PlanCache()
    body = body_of("SELECT * FROM c WHERE c.n = 1")
    bound = bind(plans, container, body)
    changed = replace(container, etag='"changed"')
    assert bind(plans, changed, body).plan is not bound.plan


def test_the_oldest_plans_are_dropped(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "_MAX_BODIES", 3)
    plans = PlanCache()
    bodies = [body_of("SELECT * FROM c WHERE c.n = @n", n=n) for n in range(5)]
    for body in bodies:
        bind(plans, container, body)
    kept = [plans.find(container, body, NOW) is not None for body in bodies]
    assert kept == [False, False, True, True, True]


def test_long_requests_are_not_kept(container: Container) -> None:
    plans = PlanCache()
    body = body_of("SELECT * FROM c WHERE c.n = @n", n="x" * plan_cache.SHORT_BODY)
    bind(plans, container, body)
    assert plans.find(container, body, NOW) is None
