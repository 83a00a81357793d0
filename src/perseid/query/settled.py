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

_KNOWN: Final = (Literal, BoundParameter)
_MADE: Final = (
    ArrayLiteral, Between, Binary, Call, Chain, Conditional, In, Index, ObjectLiteral, Property,
    Unary,
)  # fmt: skip


def settled_parts(where: Expr | None) -> tuple[Expr, ...]:
    """The largest parts that have to be worked out, each once."""
    found: list[Any] = []
    if where is not None and _is_settled(where, found):
        found.append(where)
    return tuple(dict.fromkeys(part for part in found if not _is_plain(part)))


def is_timed(part: Node) -> bool:
    """Whether the next run may give another value for the same parameters."""
    return any(_asks_clock(node) for node in walk(part))


def _is_settled(node: Node, found: list[Node]) -> bool:
    """Whether no item has a say in it; if one has, the parts below are found that are settled."""
    if isinstance(node, _KNOWN):
        return True
    if not isinstance(node, _MADE):
        return False
    below = list(children(node))
    inner: list[Node] = []
    are_settled = [_is_settled(part, inner) for part in below]
    if all(are_settled) and _may_settle(node):
        return True
    found += inner
    found += [part for part, is_settled in zip(below, are_settled, strict=True) if is_settled]
    return False


def _may_settle(node: Node) -> bool:
    """False for chance, which is new in each row, and for what others would have to wait for."""
    if not isinstance(node, Call):
        return True
    function = lookup(node.name)
    return function is not None and not function.random and not function.heavy


def _is_plain(node: Node) -> bool:
    """True for what says its value itself, and for objects, which no store compares."""
    if isinstance(node, Unary):
        return node.op in "+-" and isinstance(node.operand, Literal)
    if isinstance(node, ArrayLiteral):
        return all(map(_is_plain, node.items))
    return isinstance(node, (*_KNOWN, ObjectLiteral))


def _asks_clock(node: Node) -> bool:
    function = lookup(node.name) if isinstance(node, Call) else None
    return function is not None and function.timed
