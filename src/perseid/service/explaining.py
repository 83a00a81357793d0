"""Why a query is fast or slow: its plan as a tree, from the result down to the items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from perseid import charges
from perseid.conditions import Path
from perseid.query import CompiledQuery
from perseid.query.nodes import Chain, Expr, Node
from perseid.query.pushdown import Kinds, push
from perseid.service.operation import Operation
from perseid.service.plans import Plan, kinds_of, paths_of, pinned_key, plan_for
from perseid.service.queries import QueryPage, run_page
from perseid.service.query_requests import QueryRequest
from perseid.store.protocol import Access, Scan


async def explain(op: Operation, query: QueryRequest, scope: Scan, limit: int) -> dict[str, Any]:
    """Runs the first page and tells how; indexes that it needed are there by then."""
    plan = plan_for(op, query.text, query.parameters)
    if scope.pk_prefix is None:
        scope = scope._replace(pk_prefix=pinned_key(op.container, plan, query.parameters))
    page = await run_page(op, plan, query, scope, None, limit)
    scan = scope._replace(where=query.bound_to(plan, op.now).where, indexable=plan.indexable)
    access = await op.store.access(op.container, scan, plan.order, plan.combined)
    if access.way == "order" and not plan.is_sorted:
        access = access._replace(looked=page.looked or access.looked)
    elif access.way == "order" or _loads_what_it_looks_at(op, plan, access):
        access = access._replace(looked=len(page.loaded))  # the page may have ended early
    pushed, evaluated = _divided(plan.compiled, kinds_of(plan.compiled, query.parameters, op.now))
    return {
        "tree": "\n".join(_tree(op, plan, access, page, pushed, evaluated)),
        "access": access.way,
        "index": None if access.path is None else spec(access.path),
        "pushed": pushed,
        "evaluated": evaluated,
        "looked": access.looked,
        "loaded": len(page.loaded),
        "returned": len(page.rows),
        "hasMore": page.continuation is not None,
        "charge": charges.query_page(page.loaded, page.counted),
        "milliseconds": round(
            (page.times.compiling + page.times.loading + page.times.evaluating) * 1000, 3
        ),
    }


def _loads_what_it_looks_at(op: Operation, plan: Plan, access: Access) -> bool:
    """Whether every item on the way gives a row: nothing passes one over, here or in the store."""
    bound = plan.compiled.bound
    gives_rows = plan.compiled.gives_items or (bound.shape != "VALUE" and bound.root is not None)
    if plan.compiled.paging != "STREAM" or bound.has_joins or not gives_rows:
        return False
    settled = set(op.container.key.tokens) if access.way == "key" else {access.path}
    return plan.pushdown.is_exact and paths_of(plan.pushdown.condition) <= settled


def spec(path: Path) -> str:
    """A path as indexing policies write it."""
    steps = ("[]" if isinstance(step, int) else _step(step) for step in path)
    return f"/{'/'.join(steps)}/?"


def _step(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and name.isascii() else f'"{name}"'


def _divided(compiled: CompiledQuery, kinds: Kinds) -> tuple[list[str], list[str]]:
    """The terms of WHERE that the store settles, and those it leaves to the evaluator."""
    pushed: list[str] = []
    evaluated: list[str] = []
    for term in _terms(compiled):
        alone = replace(compiled.bound, where=term)
        (pushed if push(alone, kinds).is_exact else evaluated).append(_text(compiled, term))
    return pushed, evaluated


def _terms(compiled: CompiledQuery) -> tuple[Expr, ...]:
    where = compiled.bound.where
    if where is None:
        return ()
    if where in compiled.settled:  # no item has a say in it, so it was worked out as a whole
        return (where,)
    return where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)


def _text(compiled: CompiledQuery, node: Node) -> str:
    return " ".join(compiled.text[node.start : node.end].split())


def _tree(
    op: Operation,
    plan: Plan,
    access: Access,
    page: QueryPage,
    pushed: list[str],
    evaluated: list[str],
) -> Iterator[str]:
    more = ", more to come" if page.continuation is not None else ""
    lines = [f"result: {_counted(len(page.rows), 'row')}{more}"]
    lines += _stages(plan, access)
    if evaluated:
        lines.append(f"evaluate: {' AND '.join(evaluated)}")
    if plan.compiled.bound.has_joins:
        lines.append("JOIN")
    if pushed:
        lines.append(f"filter in the store: {' AND '.join(pushed)}")
    lines.append(f"items of {op.container.path}: {_way(access)}")
    for depth, line in enumerate(lines):
        yield line if depth == 0 else f"{'   ' * (depth - 1)}└─ {line}"


def _stages(plan: Plan, access: Access) -> Iterator[str]:
    compiled = plan.compiled
    query = compiled.bound
    if query.top is not None or query.limit is not None or query.offset is not None:
        words = (("OFFSET", query.offset), ("LIMIT", query.limit), ("TOP", query.top))
        yield " ".join(f"{word} {_text(compiled, node)}" for word, node in words if node)
    if query.distinct:
        yield "DISTINCT"
    if query.order_by:
        keys = ", ".join(_text(compiled, item) for item in query.order_by)
        how = "in the order of the index" if access.way == "order" else "sorted here"
        if access.way == "order" and not plan.is_sorted:
            how += ", equal ones sorted here"
        yield f"ORDER BY {keys}: {how}"
    if query.is_grouped:
        keys = ", ".join(_text(compiled, key) for key in query.group_by)
        yield f"GROUP BY {keys}" if keys else "aggregate"
    if plan.combined is not None:
        paths = ", ".join(map(spec, plan.combined))
        yield f"combinations of {paths}, counted in the store" if paths else "counted in the store"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _way(access: Access) -> str:
    looked = f"{_counted(access.looked, 'item')} looked at"
    if access.way == "index" and access.path is not None:
        return f"index {spec(access.path)}, {looked}"
    if access.way == "order" and access.path is not None:
        return f"index {spec(access.path)} in its order, {looked}"
    if access.way == "key":
        return f"one partition key, {looked}"
    return f"scan, {looked}"
