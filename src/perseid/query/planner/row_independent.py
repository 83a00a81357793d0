"""The parts of a filter that are the same for all items, and so are known before one is looked at.

What literals and parameters say is known anyway; this is about what is worked out from them, and
from the time of the request: `c.at > GetCurrentTimestamp() - 3600000`.
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
    """The largest parts that have to be worked out, each once."""
    parts: list[Any] = []
    if where is not None and _is_row_independent(where, parts):
        parts.append(where)
    return tuple(dict.fromkeys(part for part in parts if not _is_literal_value(part)))


def depends_on_time(part: Node) -> bool:
    """Whether the next run may give another value for the same parameters."""
    return any(_reads_clock(node) for node in walk(part))


def _is_row_independent(node: Node, parts: list[Node]) -> bool:
    """Whether no item has a say in it; if one has, the parts below are found that are settled."""
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
    """False for chance, which is new in each row, and for what others would have to wait for."""
    if not isinstance(node, Call):
        return True
    function = lookup(node.name)
    return function is not None and not function.random and not function.expensive


def _is_literal_value(node: Node) -> bool:
    """True for what says its value itself, and for objects, which no store compares."""
    if isinstance(node, Unary):
        return node.op in "+-" and isinstance(node.operand, Literal)
    if isinstance(node, ArrayLiteral):
        return all(map(_is_literal_value, node.items))
    return isinstance(node, (*_CONSTANTS, ObjectLiteral))


def _reads_clock(node: Node) -> bool:
    function = lookup(node.name) if isinstance(node, Call) else None
    return function is not None and function.timed
