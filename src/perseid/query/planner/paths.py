"""Paths of the item that expressions read."""

from __future__ import annotations

from perseid.conditions import PropertyPath
from perseid.query.nodes import Alias, Index, Literal, Node, Property


def item_path(expr: Node, slot: int) -> PropertyPath | None:
    """The steps from the item in `slot` down to the expression, if all of them are constant."""
    steps: list[str | int] = []
    while True:
        if isinstance(expr, Property):
            steps.append(expr.name)
            expr = expr.target
        elif isinstance(expr, Index):
            at = expr.index.value if isinstance(expr.index, Literal) else None
            if type(at) is not int or at < 0:
                return None
            steps.append(at)
            expr = expr.target
        elif isinstance(expr, Alias) and expr.slot == slot:
            return tuple(reversed(steps))
        else:
            return None


def searchable_path(expr: Node, slot: int) -> PropertyPath | None:
    """The path of the expression, if every store can search for it."""
    path = item_path(expr, slot)
    return None if path is None or not all(map(_is_searchable_step, path)) else path


def path_text(path: PropertyPath) -> str:
    """The path as indexing policies write it, without the final `/?`."""
    return "".join(f"/{_step_text(step)}" for step in path)


def _is_searchable_step(step: str | int) -> bool:
    """False for names that need escaping in the path syntax of some database."""
    if type(step) is int:
        return step < 2**31
    name = str(step)
    return bool(name) and name.isprintable() and '"' not in name and "\\" not in name


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return "[]"
    return step if step.replace("_", "a").isalnum() and step.isascii() else f'"{step}"'
