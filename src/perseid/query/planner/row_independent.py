"""Finds the parts of a filter whose value does not depend on the item.

They are computed from literals, parameters and the time of the request, once per request, before
the query is planned: `GetCurrentTimestamp() - 3600000` in `c.at > GetCurrentTimestamp() - 3600000`.
"""

from __future__ import annotations

from typing import Any, Final

from perseid.query.functions import lookup
from perseid.query.nodes import (
    ArrayLiteral,
    Between,
    Binary,
    BoundParameter,
    Call,
    Chain,
    Conditional,
    Expr,
    In,
    Index,
    Literal,
    Node,
    ObjectLiteral,
    Property,
    Unary,
    children,
    walk,
)

_CONSTANTS: Final = (Literal, BoundParameter)
_COMPUTED: Final = (
    ArrayLiteral, Between, Binary, Call, Chain, Conditional, In, Index, ObjectLiteral, Property,
    Unary,
)  # fmt: skip


def row_independent_parts(where: Expr | None) -> tuple[Expr, ...]:
    """The largest row-independent parts that have to be computed, without duplicates."""
    parts: list[Any] = []
    if where is not None and _is_row_independent(where, parts):
        parts.append(where)
    return tuple(dict.fromkeys(part for part in parts if not _is_literal_value(part)))


def depends_on_time(part: Node) -> bool:
    """True if a later request may get another value for the same parameters."""
    return any(_reads_clock(node) for node in walk(part))


def _is_row_independent(node: Node, parts: list[Node]) -> bool:
    """True if the value does not depend on the item; if it does, adds the parts that do not."""
    if isinstance(node, _CONSTANTS):
        return True
    if not isinstance(node, _COMPUTED):
        return False
    operands = list(children(node))
    inner: list[Node] = []
    are_row_independent = [_is_row_independent(part, inner) for part in operands]
    if all(are_row_independent) and _may_be_row_independent(node):
        return True
    parts += inner
    parts += [
        part
        for part, is_row_independent in zip(operands, are_row_independent, strict=True)
        if is_row_independent
    ]
    return False


def _may_be_row_independent(node: Node) -> bool:
    """False for random values, which differ in each row, and for expensive functions."""
    if not isinstance(node, Call):
        return True
    function = lookup(node.name)
    return function is not None and not function.random and not function.expensive


def _is_literal_value(node: Node) -> bool:
    """True for values that need no computation, and for objects, which no store compares."""
    if isinstance(node, Unary):
        return node.op in "+-" and isinstance(node.operand, Literal)
    if isinstance(node, ArrayLiteral):
        return all(map(_is_literal_value, node.items))
    return isinstance(node, (*_CONSTANTS, ObjectLiteral))


def _reads_clock(node: Node) -> bool:
    function = lookup(node.name) if isinstance(node, Call) else None
    return function is not None and function.timed
