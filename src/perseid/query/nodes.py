"""The syntax tree of a query, before and after binding: immutable data.

Positions in the text are ignored by equality, so two spellings of one expression are equal nodes;
grouping relies on it. The parser creates expressions and clauses (the first two sections below),
the binder creates the bound nodes of the third. Nothing here parses, checks or evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from typing import Literal as OneOf


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the query at a place in its text; `end` is exclusive."""

    start: int = field(default=0, compare=False, kw_only=True)
    end: int = field(default=0, compare=False, kw_only=True)


# --- expressions


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; nodes are compared by `key`, because 1 equals True in Python."""

    value: Any = field(compare=False)
    key: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Property(Node):
    """`target.name`, also when written `target["name"]`."""

    target: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`target[index]` where the index is not a string constant."""

    target: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is one of `+ - ~ NOT`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic, bit operations and comparisons; the parser turns `<>` into `!=`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """An associative operator over two or more operands: `AND`, `OR`, `??` or `||`.

    An operand is never a chain of the same operator, so a thousand terms are one level deep.
    """

    op: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class In(Node):
    operand: Expr
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    operand: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Like(Node):
    operand: Expr
    pattern: Expr
    escape: str | None


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    test: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function call; after binding, `name` is the one in the function table."""

    name: str
    arguments: tuple[Expr, ...]
    name_end: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ArrayLiteral(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ObjectLiteral(Node):
    names: tuple[str, ...]
    values: tuple[Expr, ...]


SubqueryKind: TypeAlias = OneOf["SCALAR", "EXISTS", "ARRAY", "ALL", "FIRST", "LAST"]


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    kind: SubqueryKind
    query: Query


# --- clauses

CountExpr: TypeAlias = "Literal | Parameter | BoundParameter"


@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    expr: Expr
    alias: str | None


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`items` is empty for `*` and has one member for `VALUE`."""

    shape: OneOf["STAR", "VALUE", "LIST"]
    items: tuple[SelectItem, ...]
    distinct: bool
    top: CountExpr | None


@dataclass(frozen=True, slots=True)
class FromSource(Node):
    """One input of FROM; `iterate` is true for `IN`, which iterates over an array."""

    collection: Expr | Query
    alias: str | None
    iterate: bool


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Query(Node):
    select: Select
    sources: tuple[FromSource, ...]
    where: Expr | None
    group_by: tuple[Expr, ...]
    order_by: tuple[OrderItem, ...]
    rank: bool
    offset: CountExpr | None
    limit: CountExpr | None


# --- bound nodes: every name is a slot of the row


@dataclass(frozen=True, slots=True)
class Alias(Node):
    """The value of an input of FROM in the current row."""

    slot: int
    name: str


@dataclass(frozen=True, slots=True)
class BoundParameter(Node):
    slot: int
    name: str


@dataclass(frozen=True, slots=True)
class ComputedProperty(Node):
    """A computed property of the container; `expr` reads the item from `slot`."""

    slot: int
    name: str
    expr: Expr = field(compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    function: str
    argument: Expr


@dataclass(frozen=True, slots=True)
class Grouped(Node):
    """A value of the group instead of the row: an aggregate or an expression of GROUP BY."""

    slot: int
    expr: Expr


@dataclass(frozen=True, slots=True)
class BoundSubquery(Node):
    """A bound subquery; never of kind `ALL`, which the binder turns into NOT EXISTS."""

    kind: SubqueryKind
    query: BoundQuery


@dataclass(frozen=True, slots=True)
class BoundItem(Node):
    """A property of the result; `name` is empty for `VALUE` and `*`."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class BoundSource(Node):
    """An input of FROM; without a collection it is the container itself."""

    slot: int
    name: str | None
    collection: Expr | BoundQuery | None
    iterate: bool


@dataclass(frozen=True, slots=True)
class BoundQuery(Node):
    """A query ready to compile, with the facts that the planner needs.

    `root` is the alias of whole items of the container, if the query names them. With `group_by` or
    `aggregates`, the clauses after WHERE read groups, not rows.
    """

    shape: OneOf["STAR", "VALUE", "LIST"]
    items: tuple[BoundItem, ...]
    distinct: bool
    top: CountExpr | None
    sources: tuple[BoundSource, ...]
    where: Expr | None
    group_by: tuple[Grouped, ...]
    aggregates: tuple[Grouped, ...]
    order_by: tuple[OrderItem, ...]
    offset: CountExpr | None
    limit: CountExpr | None
    root: Alias | None
    has_joins: bool
    has_subqueries: bool

    @property
    def is_grouped(self) -> bool:
        return bool(self.group_by or self.aggregates)

    @property
    def has_offset_or_limit(self) -> bool:
        """True with OFFSET, LIMIT or TOP."""
        return not (self.top is None and self.offset is None and self.limit is None)


Expr: TypeAlias = (
    Literal | Identifier | Parameter | Property | Index | Unary | Binary | Chain | In | Between
    | Like | Conditional | Call | ArrayLiteral | ObjectLiteral | Subquery
    | Alias | BoundParameter | ComputedProperty | Aggregate | Grouped | BoundSubquery
)  # fmt: skip


# --- traversal


def rebuilt(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`node` with `change` applied to each expression directly below it; leaves are unchanged."""
    build = _REBUILD.get(type(node))
    return node if build is None else build(node, change)


def children(node: Node) -> Iterable[Node]:
    """The nodes directly below `node`, clauses and subqueries included."""
    below = _CHILDREN.get(type(node))
    return () if below is None else below(node)


def walk(node: Node) -> Iterator[Node]:
    """`node` and all nodes below it, without recursion: trees can be deep."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children(node))


def _present(*nodes: Node | None) -> list[Node]:
    return [node for node in nodes if node is not None]


_Change: TypeAlias = Callable[[Expr], Expr]
_REBUILD: Final[dict[type, Callable[[Any, _Change], Expr]]] = {
    Property: lambda n, f: Property(f(n.target), n.name, start=n.start, end=n.end),
    Index: lambda n, f: Index(f(n.target), f(n.index), start=n.start, end=n.end),
    Unary: lambda n, f: Unary(n.op, f(n.operand), start=n.start, end=n.end),
    Binary: lambda n, f: Binary(n.op, f(n.left), f(n.right), start=n.start, end=n.end),
    Chain: lambda n, f: Chain(n.op, tuple(map(f, n.operands)), start=n.start, end=n.end),
    In: lambda n, f: In(f(n.operand), tuple(map(f, n.items)), start=n.start, end=n.end),
    Between: lambda n, f: Between(f(n.operand), f(n.low), f(n.high), start=n.start, end=n.end),
    Like: lambda n, f: Like(f(n.operand), f(n.pattern), n.escape, start=n.start, end=n.end),
    Conditional: lambda n, f: Conditional(
        f(n.test), f(n.then), f(n.otherwise), start=n.start, end=n.end
    ),
    Call: lambda n, f: Call(
        n.name, tuple(map(f, n.arguments)), start=n.start, end=n.end, name_end=n.name_end
    ),
    ArrayLiteral: lambda n, f: ArrayLiteral(tuple(map(f, n.items)), start=n.start, end=n.end),
    ObjectLiteral: lambda n, f: ObjectLiteral(
        n.names, tuple(map(f, n.values)), start=n.start, end=n.end
    ),
    Aggregate: lambda n, f: Aggregate(n.function, f(n.argument), start=n.start, end=n.end),
}

_CHILDREN: Final[dict[type, Callable[[Any], Iterable[Node]]]] = {
    Property: lambda n: (n.target,),
    Index: lambda n: (n.target, n.index),
    Unary: lambda n: (n.operand,),
    Binary: lambda n: (n.left, n.right),
    Chain: lambda n: n.operands,
    In: lambda n: (n.operand, *n.items),
    Between: lambda n: (n.operand, n.low, n.high),
    Like: lambda n: (n.operand, n.pattern),
    Conditional: lambda n: (n.test, n.then, n.otherwise),
    Call: lambda n: n.arguments,
    ArrayLiteral: lambda n: n.items,
    ObjectLiteral: lambda n: n.values,
    Subquery: lambda n: (n.query,),
    SelectItem: lambda n: (n.expr,),
    Select: lambda n: n.items,
    FromSource: lambda n: (n.collection,),
    OrderItem: lambda n: (n.expr,),
    Query: lambda n: (
        n.select, *n.sources, *_present(n.where), *n.group_by, *n.order_by,
    ),
    ComputedProperty: lambda n: (n.expr,),
    Aggregate: lambda n: (n.argument,),
    Grouped: lambda n: (n.expr,),
    BoundSubquery: lambda n: (n.query,),
    BoundItem: lambda n: (n.expr,),
    BoundSource: lambda n: _present(n.collection),
    BoundQuery: lambda n: (
        *n.items, *n.sources, *_present(n.where), *n.group_by, *n.aggregates, *n.order_by,
    ),
}  # fmt: skip
