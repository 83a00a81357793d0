"""Explains a query: its plan, how the store would find the items, and what running it takes."""

from __future__ import annotations

from typing import Any, Final

from perseid.conditions import paths_of
from perseid.errors import IndivisibleQuery, UnmergedQuery
from perseid.query.planner.paths import path_text
from perseid.query.planner.plan import Plan
from perseid.query.planner.tree import AccessStep, print_plan
from perseid.service.operation import Operation
from perseid.service.queries.client_plans import query_plan
from perseid.service.queries.pages.result import QueryResultPage
from perseid.service.queries.plan_cache import BoundPlan
from perseid.service.queries.refusals import refusal_of
from perseid.service.queries.requests import QueryRequest
from perseid.service.queries.run import PageRequest, build_page, confine, plan_query
from perseid.store.types import AccessPath, Search

_PAGE_ROWS: Final = 100


async def explain(op: Operation, request: QueryRequest, scope: Search) -> dict[str, Any]:
    """The plan and the access path. The query does not run, so no index is created for it."""
    bound = await plan_query(op, request)
    access_path = await _access_path(op, bound, confine(scope, bound))
    tree = print_plan(bound.plan, AccessStep(access_path.method, access_path.path))
    return _description(bound.plan, access_path, tree) | _refusal(op, bound, scope)


async def analyze(op: Operation, request: QueryRequest, scope: Search) -> dict[str, Any]:
    """The same after running the first page, with counts; indexes that it needs exist by then."""
    bound = await plan_query(op, request)
    refusal = _refusal(op, bound, scope)
    scope = confine(scope, bound)
    page = await build_page(op, bound, scope, PageRequest(_PAGE_ROWS))
    access_path = await _access_path(op, bound, scope)
    examined = _examined(op, bound.plan, access_path, page)
    has_more = page.continuation is not None
    note = f"{_counted(examined, 'item')} examined"
    heading = f"Result  {_counted(len(page.rows), 'row')}{', more to come' if has_more else ''}"
    access = AccessStep(access_path.method, access_path.path, note)
    tree = print_plan(bound.plan, access, heading)
    return (
        _description(bound.plan, access_path, tree)
        | refusal
        | {
            "examined": examined,
            "loaded": len(page.loaded),
            "returned": len(page.rows),
            "hasMore": has_more,
            "charge": page.charge,
            "milliseconds": round(page.times.total * 1000, 3),
        }
    )


def _refusal(op: Operation, bound: BoundPlan, scope: Search) -> dict[str, Any]:
    """The error that the service returns for the query, or None; `scope` is that of the request."""
    error = refusal_of(bound.plan, is_confined=scope.pk_prefix is not None)
    if isinstance(error, UnmergedQuery):
        try:
            query_plan(op.container, bound.request, None, is_relaxed=False)
        except IndivisibleQuery as indivisible:
            error = indivisible
    if error is None:
        return {"refusal": None}
    return {
        "refusal": {
            "status": error.status,
            "subStatus": error.sub_status,
            "message": error.message,
        }
    }


async def _access_path(op: Operation, bound: BoundPlan, scope: Search) -> AccessPath:
    plan = bound.plan
    search = scope._replace(where=bound.where, indexable=plan.indexable, order=plan.order)
    return await op.stores.queries.access_path(op.container, search, plan.group_paths)


def _description(plan: Plan, access_path: AccessPath, tree: str) -> dict[str, Any]:
    return {
        "tree": tree,
        "access": access_path.method,
        "index": None if access_path.path is None else f"{path_text(access_path.path)}/?",
        "pushed": [*map(plan.text_of, plan.filter.pushed)],
        "evaluated": [*map(plan.text_of, plan.filter.evaluated)],
        "obstacle": _obstacle(plan, access_path),
        "candidates": [f"{path_text(path)}/?" for path in access_path.candidates],
        "building": {f"{path_text(path)}/?": round(part, 3) for path, part in access_path.building},
    }


def _obstacle(plan: Plan, access_path: AccessPath) -> str | None:
    """Why every item is examined; None if an index or a partition key finds the items.

    `filter`: the query has no condition and no order; `small`: so few items are scanned sooner;
    `terms`: no index can serve its conditions; `policy`: the indexing policy excludes the paths;
    `missing`: an index is allowed, but does not exist (yet).
    """
    if access_path.method != "scan":
        return None
    is_filtered = bool(plan.filter.pushed or plan.filter.evaluated)
    if not is_filtered and not access_path.candidates:
        return "filter"
    if access_path.is_small:
        return "small"
    if not access_path.candidates:
        return "terms"
    is_allowed = not plan.indexable.isdisjoint(access_path.candidates)
    return "missing" if is_allowed else "policy"


def _examined(op: Operation, plan: Plan, access_path: AccessPath, page: QueryResultPage) -> int:
    """How many items were examined for the page; of a search that reads them all, the estimate."""
    if access_path.method == "order" and not plan.is_fully_ordered:
        return page.examined or access_path.examined
    if access_path.method == "order" or _loads_every_examined_item(op, plan, access_path):
        return len(page.loaded)  # the page may have ended early
    return access_path.examined


def _loads_every_examined_item(op: Operation, plan: Plan, access_path: AccessPath) -> bool:
    """True if every examined item gives a row: neither the store nor the evaluator rejects one."""
    bound = plan.compiled.bound
    gives_rows = plan.compiled.gives_items or (bound.shape != "VALUE" and bound.root is not None)
    if plan.paging not in ("copy", "stream") or bound.has_joins or not gives_rows:
        return False
    checked_by_access = (
        set(op.container.key.tokens) if access_path.method == "key" else {access_path.path}
    )
    return plan.filter.is_exact and paths_of(plan.filter.condition) <= checked_by_access


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
