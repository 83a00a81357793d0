"""Prints a syntax tree as query text that parses into an equal tree.

Every operator is printed in parentheses, so the text does not depend on precedence. Property names
that are not words are printed in brackets. Bound trees cannot be printed: their names are slots.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from perseid.query.lexer import KEYWORDS
from perseid.query.nodes import (
    ArrayLiteral,
    Between,
    Binary,
    Call,
    Chain,
    Conditional,
    Expr,
    FromSource,
    Identifier,
    In,
    Index,
    Like,
    Literal,
    ObjectLiteral,
    OrderItem,
    Parameter,
    Property,
    Query,
    Select,
    SelectItem,
    Subquery,
    Unary,
)
from perseid.query.values import UNDEFINED, is_number

_WORD: Final = re.compile(r"[^\W\d]\w*")
_CONSTANTS: Final = {None: "null", True: "true", False: "false", UNDEFINED: "undefined"}


def print_query(query: Query) -> str:
    """The text of a whole query."""
    clauses = ["SELECT", *_select(query.select)]
    if query.sources:
        clauses += ["FROM", " JOIN ".join(map(_source, query.sources))]
    if query.where is not None:
        clauses += ["WHERE", print_expr(query.where)]
    if query.group_by:
        clauses += ["GROUP BY", _listed(query.group_by)]
    if query.order_by:
        keys = ", ".join(map(_order_item, query.order_by))
        clauses += ["ORDER BY RANK" if query.rank else "ORDER BY", keys]
    if query.offset is not None and query.limit is not None:
        clauses += ["OFFSET", print_expr(query.offset), "LIMIT", print_expr(query.limit)]
    return " ".join(clauses)


def print_expr(node: Expr) -> str:
    """The text of an expression, in parentheses if it is an operator."""
    return _PRINTERS[type(node)](node)


def is_word(name: str) -> bool:
    """True for names that need no brackets around them."""
    return _WORD.fullmatch(name) is not None and name.upper() not in KEYWORDS


def _select(select: Select) -> list[str]:
    words = ["DISTINCT"] if select.distinct else []
    if select.top is not None:
        words += ["TOP", print_expr(select.top)]
    if select.shape == "STAR":
        return [*words, "*"]
    if select.shape == "VALUE":
        words.append("VALUE")
    return [*words, ", ".join(map(_select_item, select.items))]


def _select_item(item: SelectItem) -> str:
    text = print_expr(item.expr)
    return text if item.alias is None else f"{text} AS {item.alias}"


def _source(source: FromSource) -> str:
    collection = source.collection
    if isinstance(collection, Query):
        text = f"({print_query(collection)})"
    else:
        text = print_expr(collection)
    if source.alias is None:
        return text
    return f"{source.alias} IN {text}" if source.iterate else f"{text} AS {source.alias}"


def _order_item(item: OrderItem) -> str:
    return print_expr(item.expr) + (" DESC" if item.descending else "")


def _listed(nodes: Iterable[Expr]) -> str:
    return ", ".join(map(print_expr, nodes))


def _literal(node: Literal) -> str:
    value = node.value
    if type(value) is str:
        return _quoted(value)
    if type(value) is int:
        return str(value)
    if type(value) is float:
        if math.isfinite(value):
            return repr(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _CONSTANTS[value]


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _target(node: Expr) -> str:
    """The text in front of `.name` or `[index]`; `1.name` would be read as the number `1.`."""
    text = print_expr(node)
    return f"({text})" if isinstance(node, Literal) and is_number(node.value) else text


def _property(node: Property) -> str:
    member = f".{node.name}" if is_word(node.name) else f"[{_quoted(node.name)}]"
    return _target(node.target) + member


def _unary(node: Unary) -> str:
    gap = " " if node.op == "NOT" else ""
    return f"({node.op}{gap}{print_expr(node.operand)})"


def _chain(node: Chain) -> str:
    return f"({f' {node.op} '.join(map(print_expr, node.operands))})"


def _between(node: Between) -> str:
    operand, low, high = map(print_expr, (node.operand, node.low, node.high))
    return f"({operand} BETWEEN {low} AND {high})"


def _like(node: Like) -> str:
    escape = "" if node.escape is None else f" ESCAPE {_quoted(node.escape)}"
    return f"({print_expr(node.operand)} LIKE {print_expr(node.pattern)}{escape})"


def _conditional(node: Conditional) -> str:
    test, then, otherwise = map(print_expr, (node.test, node.then, node.otherwise))
    return f"({test} ? {then} : {otherwise})"


def _object(node: ObjectLiteral) -> str:
    members = zip(node.names, node.values, strict=True)
    return f"{{{', '.join(f'{_quoted(name)}: {print_expr(value)}' for name, value in members)}}}"


def _subquery(node: Subquery) -> str:
    return f"{'' if node.kind == 'SCALAR' else node.kind}({print_query(node.query)})"


_PRINTERS: Final[dict[type, Callable[[Any], str]]] = {
    Literal: _literal,
    Identifier: lambda node: node.name,
    Parameter: lambda node: node.name,
    Property: _property,
    Index: lambda node: f"{_target(node.target)}[{print_expr(node.index)}]",
    Unary: _unary,
    Binary: lambda node: f"({print_expr(node.left)} {node.op} {print_expr(node.right)})",
    Chain: _chain,
    In: lambda node: f"({print_expr(node.operand)} IN ({_listed(node.items)}))",
    Between: _between,
    Like: _like,
    Conditional: _conditional,
    Call: lambda node: f"{node.name}({_listed(node.arguments)})",
    ArrayLiteral: lambda node: f"[{_listed(node.items)}]",
    ObjectLiteral: _object,
    Subquery: _subquery,
}
