"""Why a query is fast or slow: its plan as a tree, from the result down to the items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from perseid import charges
from perseid.conditions import PropertyPath
from perseid.index_paths import paths_of
from perseid.query import CompiledQuery
from perseid.query.nodes import Chain, Expr, Node
from perseid.query.planner.filters import ParameterTypes, push_filter
from perseid.service.operation import Operation
from perseid.service.queries.pages import QueryResultPage, run_page
from perseid.service.queries.plans import (
    Plan,
    parameter_types_of,
    partition_key_filter,
    plan_for,
)
from perseid.service.queries.query_requests import QueryRequest
from perseid.store.types import AccessPath, Search


async def explain(op: Operation, query: QueryRequest, scope: Search, limit: int) -> dict[str, Any]:
    """Runs the first page and tells how; indexes that it needed are there by then."""
    plan = plan_for(op, query.text, query.parameters)
    if scope.pk_prefix is None:
        scope = scope._replace(pk_prefix=partition_key_filter(op.container, plan, query.parameters))
    page = await run_page(op, plan, query, scope, None, limit)
    search = scope._replace(
        where=query.bind(plan, op.now).where, indexable=plan.indexable, order=plan.order
    )
    access_path = await op.stores.queries.access_path(op.container, search, plan.group_paths)
    if access_path.method == "order" and not plan.is_sorted:
        access_path = access_path._replace(examined=page.examined or access_path.examined)
    elif access_path.method == "order" or _loads_every_examined_item(op, plan, access_path):
        access_path = access_path._replace(
            examined=len(page.loaded)
        )  # the page may have ended early
    pushed, evaluated = _split_filter(
        plan.compiled, parameter_types_of(plan.compiled, query.parameters, op.now)
    )
    return {
        "tree": "\n".join(_tree(op, plan, access_path, page, pushed, evaluated)),
        "access": access_path.method,
        "index": None if access_path.path is None else spec(access_path.path),
        "pushed": pushed,
        "evaluated": evaluated,
        "looked": access_path.examined,
        "loaded": len(page.loaded),
        "returned": len(page.rows),
        "hasMore": page.continuation is not None,
        "charge": charges.query_page(page.loaded, page.counted),
        "milliseconds": round(
            (page.times.compiling + page.times.loading + page.times.evaluating) * 1000, 3
        ),
    }


def _loads_every_examined_item(op: Operation, plan: Plan, access_path: AccessPath) -> bool:
    """Whether every item on the way gives a row: nothing passes one over, here or in the store."""
    bound = plan.compiled.bound
    gives_rows = plan.compiled.gives_items or (bound.shape != "VALUE" and bound.root is not None)
    if plan.compiled.paging != "STREAM" or bound.has_joins or not gives_rows:
        return False
    row_independent = (
        set(op.container.key.tokens) if access_path.method == "key" else {access_path.path}
    )
    return plan.pushed_filter.is_exact and paths_of(plan.pushed_filter.condition) <= row_independent


def spec(path: PropertyPath) -> str:
    """A path as indexing policies write it."""
    steps = ("[]" if isinstance(step, int) else _step(step) for step in path)
    return f"/{'/'.join(steps)}/?"


def _step(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and name.isascii() else f'"{name}"'


def _split_filter(
    compiled: CompiledQuery, parameter_types: ParameterTypes
) -> tuple[list[str], list[str]]:
    """The terms of WHERE that the store settles, and those it leaves to the evaluator."""
    pushed: list[str] = []
    evaluated: list[str] = []
    for term in _terms(compiled):
        alone = replace(compiled.bound, where=term)
        (pushed if push_filter(alone, parameter_types).is_exact else evaluated).append(
            _text(compiled, term)
        )
    return pushed, evaluated


def _terms(compiled: CompiledQuery) -> tuple[Expr, ...]:
    where = compiled.bound.where
    if where is None:
        return ()
    if (
        where in compiled.row_independent
    ):  # no item has a say in it, so it was worked out as a whole
        return (where,)
    return where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)


def _text(compiled: CompiledQuery, node: Node) -> str:
    return " ".join(compiled.text[node.start : node.end].split())


def _tree(
    op: Operation,
    plan: Plan,
    access_path: AccessPath,
    page: QueryResultPage,
    pushed: list[str],
    evaluated: list[str],
) -> Iterator[str]:
    more = ", more to come" if page.continuation is not None else ""
    lines = [f"result: {_counted(len(page.rows), 'row')}{more}"]
    lines += _stages(plan, access_path)
    if evaluated:
        lines.append(f"evaluate: {' AND '.join(evaluated)}")
    if plan.compiled.bound.has_joins:
        lines.append("JOIN")
    if pushed:
        lines.append(f"filter in the store: {' AND '.join(pushed)}")
    lines.append(f"items of {op.container.path}: {_way(access_path)}")
    for depth, line in enumerate(lines):
        yield line if depth == 0 else f"{'   ' * (depth - 1)}└─ {line}"


def _stages(plan: Plan, access_path: AccessPath) -> Iterator[str]:
    compiled = plan.compiled
    query = compiled.bound
    if query.top is not None or query.limit is not None or query.offset is not None:
        words = (("OFFSET", query.offset), ("LIMIT", query.limit), ("TOP", query.top))
        yield " ".join(f"{word} {_text(compiled, node)}" for word, node in words if node)
    if query.distinct:
        yield "DISTINCT"
    if query.order_by:
        keys = ", ".join(_text(compiled, item) for item in query.order_by)
        how = "in the order of the index" if access_path.method == "order" else "sorted here"
        if access_path.method == "order" and not plan.is_sorted:
            how += ", equal ones sorted here"
        yield f"ORDER BY {keys}: {how}"
    if query.is_grouped:
        keys = ", ".join(_text(compiled, key) for key in query.group_by)
        yield f"GROUP BY {keys}" if keys else "aggregate"
    if plan.group_paths is not None:
        paths = ", ".join(map(spec, plan.group_paths))
        yield f"combinations of {paths}, counted in the store" if paths else "counted in the store"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _way(access_path: AccessPath) -> str:
    examined = f"{_counted(access_path.examined, 'item')} looked at"
    if access_path.method == "index" and access_path.path is not None:
        return f"index {spec(access_path.path)}, {examined}"
    if access_path.method == "order" and access_path.path is not None:
        return f"index {spec(access_path.path)} in its order, {examined}"
    if access_path.method == "key":
        return f"one partition key, {examined}"
    return f"scan, {examined}"
