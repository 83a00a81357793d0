"""Prints a plan as a tree: the result at the top, the access to the items at the bottom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from perseid.conditions import PropertyPath
from perseid.query.nodes import Node
from perseid.query.planner.paths import path_text

if TYPE_CHECKING:
    from perseid.query.planner.plan import Plan


class AccessStep(NamedTuple):
    """How the store finds the items, and what else is known about it."""

    method: Literal["key", "index", "order", "scan"]
    path: PropertyPath | None
    note: str = ""


def print_plan(plan: Plan, access: AccessStep | None = None, heading: str | None = None) -> str:
    """The tree of a plan. Without an access path, it shows what the plan allows the store to do."""
    lines = [] if heading is None else [heading]
    lines += _steps(plan, _with_order(plan, access or _planned_access(plan)))
    return "\n".join(
        line if depth == 0 else f"{'   ' * (depth - 1)}└─ {line}"
        for depth, line in enumerate(lines)
    )


def _planned_access(plan: Plan) -> AccessStep:
    if plan.partition_key is not None:
        return AccessStep("key", None)
    return AccessStep("scan", None) if plan.order is None else AccessStep("order", None)


def _with_order(plan: Plan, access: AccessStep) -> AccessStep:
    """An index that narrows the search by the path of the order serves the order, too."""
    if access.method == "index" and plan.order is not None and access.path == plan.order.path:
        return access._replace(method="order")
    return access


def _steps(plan: Plan, access: AccessStep) -> Iterator[str]:
    yield from _evaluator_steps(plan, access)
    if plan.group_paths is not None:
        paths = ", ".join(map(path_text, plan.group_paths))
        yield f"Group counts  {paths}" if paths else "Count"
    yield _access_step(plan, access)
    if plan.filter.pushed:
        yield f"Filter (store)  {_joined(plan, plan.filter.pushed, ' AND ')}"


def _evaluator_steps(plan: Plan, access: AccessStep) -> Iterator[str]:
    query = plan.compiled.bound
    limit = query.limit or query.top
    if limit is not None:
        yield f"Limit {plan.text_of(limit)}"
    if query.offset is not None:
        yield f"Offset {plan.text_of(query.offset)}"
    if query.distinct:
        yield "Distinct"
    if query.order_by and not (access.method == "order" and plan.is_fully_ordered):
        name = "Sort ties" if access.method == "order" else "Sort"
        yield f"{name}  {_joined(plan, query.order_by)}"
    if query.is_grouped:
        yield f"Group by  {_joined(plan, query.group_by)}" if query.group_by else "Aggregate"
    if plan.filter.evaluated:
        yield f"Filter (evaluated)  {_joined(plan, plan.filter.evaluated, ' AND ')}"
    if query.has_joins:
        yield "Join"


def _access_step(plan: Plan, access: AccessStep) -> str:
    if access.method == "order" and plan.order is not None:
        direction = "descending" if plan.order.is_descending else "ascending"
        name = "Ordered scan"
        details = [f"{path_text(plan.order.path)} {direction}"]
        if access.path is not None:
            details.append(f"index on {path_text(access.path)}")
    elif access.method == "index" and access.path is not None:
        name, details = "Index scan", [f"index on {path_text(access.path)}"]
    else:
        name, details = "Scan", ["one partition key" if access.method == "key" else "all items"]
    if access.note:
        details.append(access.note)
    return f"{name}  {', '.join(details)}"


def _joined(plan: Plan, nodes: Iterable[Node], separator: str = ", ") -> str:
    return separator.join(map(plan.text_of, nodes))
