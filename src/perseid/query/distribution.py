"""The client's part of a query over several physical ranges: which query it sends, how it merges.

A client sends the rewritten query to each range and combines the rows as the rest of the query info
says. It can merge sorted rows, remove duplicates, add up aggregates, and apply OFFSET, LIMIT and
TOP, in this order. Queries that need more are rejected here. Which ranges exist is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from typing import Literal as OneOf

from perseid.errors import IndivisibleQuery, QueryError
from perseid.query.binder import MAX_COUNT, check_count, named_items, own_name
from perseid.query.executor import reads_documents
from perseid.query.lexer import FILTER_PLACEHOLDER
from perseid.query.nodes import (
    ArrayLiteral,
    BoundParameter,
    BoundQuery,
    Call,
    Chain,
    CountExpr,
    Expr,
    FromSource,
    Identifier,
    Index,
    Literal,
    Node,
    ObjectLiteral,
    Property,
    Query,
    Select,
    SelectItem,
    Subquery,
    children,
    rebuilt,
    walk,
)
from perseid.query.parser import literal, parse
from perseid.query.printer import is_word, print_expr, print_query
from perseid.query.values import UNDEFINED

DistinctType: TypeAlias = OneOf["None", "Ordered", "Unordered"]

# The names of aggregates in the query info.
_AGGREGATES: Final = {
    "AVG": "Average",
    "COUNT": "Count",
    "COUNTIF": "CountIf",
    "MAKELIST": "MakeList",
    "MAKESET": "MakeSet",
    "MAX": "Max",
    "MIN": "Min",
    "SUM": "Sum",
}
_COMPOSITION: Final = "Compositions of aggregates and other expressions are not allowed."
# Clients replace the placeholder by a condition that skips the rows they have already.
_FILTER: Final = Identifier(f"({FILTER_PLACEHOLDER})")
_ALWAYS_DEFINED: Final = (Identifier, ArrayLiteral, ObjectLiteral)


@dataclass(frozen=True, slots=True)
class Distribution:
    """The query info of a client; an empty `rewritten` means the original query."""

    has_select_value: bool
    rewritten: str = ""
    distinct: DistinctType = "None"
    top: int | None = None
    offset: int | None = None
    limit: int | None = None
    order_by: tuple[str, ...] = ()
    order_by_expressions: tuple[str, ...] = ()
    group_by_expressions: tuple[str, ...] = ()
    # Aggregates of SELECT VALUE; those of a SELECT list are in `alias_aggregates`, by name.
    aggregates: tuple[str, ...] = ()
    alias_aggregates: Mapping[str, str | None] = field(default_factory=dict)
    # The name of the count of distinct rows in the result; empty for SELECT VALUE.
    count_alias: str | None = None

    def features(self) -> list[str]:
        """The features that a client must support, by the names that clients send."""
        named = [name for name in self.alias_aggregates.values() if name is not None]
        functions = {*self.aggregates, *named}
        needed = {
            "Aggregate": bool(functions),
            "CountIf": "CountIf" in functions,
            "DCount": self.count_alias is not None,
            "Distinct": self.distinct != "None",
            "GroupBy": bool(self.group_by_expressions),
            "ListAndSetAggregate": bool(functions & {"MakeList", "MakeSet"}),
            "MultipleAggregates": len(named) > 1,
            "MultipleOrderBy": len(self.order_by) > 1,
            "NonValueAggregate": bool(named) and not self.group_by_expressions,
            "OffsetAndLimit": self.limit is not None,
            "OrderBy": bool(self.order_by),
            "Top": self.top is not None,
        }
        return [name for name, is_needed in needed.items() if is_needed]


def distribute(
    query: Query, bound: BoundQuery, parameters: Mapping[str, Any], *, has_one_key: bool
) -> Distribution:
    """How to divide a query among ranges; raises IndivisibleQuery if that is impossible.

    `bound` is the same query after binding. `has_one_key`: its filter allows a single value of the
    partition key.
    """
    offset_limit = _OffsetLimit.of(bound, parameters)
    unchanged = Distribution(has_select_value=bound.shape == "VALUE")
    if not query.sources:
        return unchanged
    if _counts_distinct(query, bound):
        return _count_of_distinct(query, unchanged)
    if not reads_documents(bound):
        raise IndivisibleQuery(
            "A query over the complete result of a subquery cannot be divided among ranges."
        )
    if bound.is_grouped:
        return _grouped(query, bound, unchanged, offset_limit)
    if query.order_by:
        return _sorted(query, unchanged, offset_limit)
    if query.select.distinct:
        rewritten = print_query(_without_offset_limit(query)) if offset_limit.is_set else ""
        return offset_limit.for_client(
            replace(unchanged, rewritten=rewritten, distinct="Unordered")
        )
    if offset_limit.limit is not None:
        if has_one_key:
            return unchanged
        return offset_limit.for_client(
            replace(
                unchanged,
                rewritten=print_query(offset_limit.applied_to(_without_offset_limit(query))),
            )
        )
    return offset_limit.for_client(unchanged)


def without_resume_filter(text: str) -> str:
    """The part of a rewritten sorted query that stays the same while a client continues it.

    The client keeps the continuation token but replaces the condition of the resume filter.
    """
    if "orderByItems" not in text:
        return text
    try:
        query = parse(text)
    except QueryError:
        return text
    if [item.alias for item in query.select.items] != [None, "orderByItems", "payload"]:
        return text
    return print_query(replace(query, where=None))


@dataclass(frozen=True, slots=True)
class _OffsetLimit:
    """OFFSET, LIMIT and TOP as numbers; with both LIMIT and TOP, the smaller one as LIMIT."""

    offset: int | None
    limit: int | None
    top: int | None

    @classmethod
    def of(cls, bound: BoundQuery, parameters: Mapping[str, Any]) -> _OffsetLimit:
        offset = _count("OFFSET", bound.offset, parameters)
        limit = _count("LIMIT", bound.limit, parameters)
        top = _count("TOP", bound.top, parameters)
        if top is None or limit is None:
            return cls(offset, limit, top)
        # Clients differ in whether they apply TOP first or last.
        return cls(offset, min(limit, top), None)

    @property
    def is_set(self) -> bool:
        return self.limit is not None or self.top is not None

    def for_client(self, plan: Distribution) -> Distribution:
        """The plan of a client that applies OFFSET, LIMIT and TOP to the merged rows."""
        return replace(plan, offset=self.offset, limit=self.limit, top=self.top)

    def applied_to(self, query: Query) -> Query:
        """The query of one range; all rows of the result may be in this range."""
        if self.limit is not None:
            most = min((self.offset or 0) + self.limit, MAX_COUNT)
            return replace(query, offset=literal(0), limit=literal(most))
        top = None if self.top is None else literal(self.top)
        return replace(query, select=replace(query.select, top=top))


def _count(clause: str, node: CountExpr | None, parameters: Mapping[str, Any]) -> int | None:
    if isinstance(node, Literal):
        return int(node.value)
    if isinstance(node, BoundParameter):
        value = parameters.get(node.name, UNDEFINED)
        return check_count(clause, value, node.start, node.end)
    return None


def _without_offset_limit(query: Query) -> Query:
    """The query without OFFSET, LIMIT and TOP."""
    return replace(query, select=replace(query.select, top=None), offset=None, limit=None)


def _selected(query: Query, *items: SelectItem) -> Query:
    """The query with another SELECT list, without ORDER BY, OFFSET, LIMIT and TOP."""
    select = Select("LIST", items, distinct=False, top=None)
    return replace(_without_offset_limit(query), select=select, order_by=())


def _item(value: Expr) -> ObjectLiteral:
    return ObjectLiteral(("item",), (value,))


# --- ORDER BY


def _sorted(query: Query, plan: Distribution, offset_limit: _OffsetLimit) -> Distribution:
    query, root = _with_root(query)
    payload = _payload(query)
    keys = tuple(item.expr for item in query.order_by)
    rewritten = _selected(
        query,
        SelectItem(Property(root, "_rid"), None),
        SelectItem(ArrayLiteral(tuple(map(_item, keys))), "orderByItems"),
        SelectItem(payload, "payload"),
    )
    rewritten = replace(rewritten, where=_resume_filter(query, payload), order_by=query.order_by)
    distinct: DistinctType = "None"
    if query.select.distinct:
        distinct = "Ordered" if _sorts_by_value(query) else "Unordered"
    else:
        rewritten = offset_limit.applied_to(rewritten)
    directions = ("Descending" if item.descending else "Ascending" for item in query.order_by)
    return offset_limit.for_client(
        replace(
            plan,
            rewritten=print_query(rewritten),
            distinct=distinct,
            order_by=tuple(directions),
            order_by_expressions=tuple(map(print_expr, keys)),
        )
    )


def _resume_filter(query: Query, payload: Expr) -> Expr:
    """The filter of a range: that of the query, that of the client, and that the row is defined."""
    terms: list[Expr] = [_FILTER]
    if query.where is not None:
        terms.insert(0, query.where)
    if query.select.shape == "VALUE" and not isinstance(payload, _ALWAYS_DEFINED):
        terms.append(Call("IS_DEFINED", (payload,)))
    return Chain("AND", tuple(terms)) if len(terms) > 1 else terms[0]


def _payload(query: Query) -> Expr:
    """A result row as an expression."""
    select = query.select
    if select.shape == "VALUE":
        return select.items[0].expr
    if select.shape == "LIST":
        items = dict(named_items(select))
        return ObjectLiteral(tuple(items), tuple(item.expr for item in items.values()))
    return Identifier(_name(query.sources[-1]) or "")


def _with_root(query: Query) -> tuple[Query, Identifier]:
    """The query with an alias for the items, whose resource ids distinguish their rows.

    A first input that is part of an item becomes a join with the item.
    """
    first, *others = query.sources
    collection = first.collection
    if isinstance(collection, Query):
        raise IndivisibleQuery("The rows of a query in FROM cannot be sorted across ranges.")
    if isinstance(collection, Identifier) and not first.iterate:
        return query, Identifier(_name(first) or "")
    used_names = {node.name for node in walk(query) if isinstance(node, Identifier)}
    used_names |= {source.alias or "" for node in walk(query) for source in _sources(node)}
    root = Identifier(_unused_name("root", used_names))
    name = _name(first)
    alias = name if name is not None and is_word(name) else _unused_name("element", used_names)
    inner = replace(first, collection=_below_root(collection, root), alias=alias)
    return replace(query, sources=(FromSource(root, None, iterate=False), inner, *others)), root


def _sources(node: Node) -> tuple[FromSource, ...]:
    return node.sources if isinstance(node, Query) else ()


def _name(source: FromSource) -> str | None:
    if source.alias is not None or isinstance(source.collection, Query):
        return source.alias
    return own_name(source.collection)


def _unused_name(name: str, used_names: set[str]) -> str:
    while name in used_names:
        name += "_"
    return name


def _below_root(path: Expr, root: Identifier) -> Expr:
    """The same path with `root` as its first name; indexes in brackets are constants and stay."""
    return root if isinstance(path, Identifier) else rebuilt(path, lambda node: _step(node, root))


def _step(node: Expr, root: Identifier) -> Expr:
    return _below_root(node, root) if isinstance(node, Identifier | Property | Index) else node


def _sorts_by_value(query: Query) -> bool:
    """True if the rows are single values, sorted by themselves.

    Equal objects are adjacent as well, but clients that continue from their own token repeat them.
    """
    keys = [item.expr for item in query.order_by]
    return query.select.shape == "VALUE" and keys == [query.select.items[0].expr]


# --- GROUP BY and aggregates


def _grouped(
    query: Query, bound: BoundQuery, plan: Distribution, offset_limit: _OffsetLimit
) -> Distribution:
    if query.order_by and query.group_by:
        raise IndivisibleQuery("Groups cannot be sorted across ranges.")
    # Without GROUP BY there is one row, so DISTINCT and ORDER BY change nothing.
    distinct: DistinctType = "Unordered" if bound.distinct and query.group_by else "None"
    plan = replace(
        plan, distinct=distinct, group_by_expressions=tuple(map(print_expr, query.group_by))
    )
    plan, payload = _partial_row(query, plan)
    if query.group_by:
        keys = ArrayLiteral(tuple(map(_item, query.group_by)))
        rewritten = _selected(
            query, SelectItem(keys, "groupByItems"), SelectItem(payload, "payload")
        )
    elif plan.has_select_value:
        value = Select("VALUE", (SelectItem(payload, None),), distinct=False, top=None)
        rewritten = replace(_selected(query), select=value)
    else:
        rewritten = _selected(query, SelectItem(payload, "payload"))
    if not query.group_by:
        rewritten = replace(rewritten, order_by=query.order_by)
    return offset_limit.for_client(replace(plan, rewritten=print_query(rewritten)))


def _partial_row(query: Query, plan: Distribution) -> tuple[Distribution, Expr]:
    """The row that a range returns for a group, with aggregates in a form that can be merged."""
    select = query.select
    if select.shape == "VALUE":
        expr = select.items[0].expr
        function = _aggregate(expr)
        if function is None:
            if not query.group_by:
                raise IndivisibleQuery(_COMPOSITION, listed=True)
            return plan, expr
        return replace(plan, aggregates=(function,)), ArrayLiteral((_partial(expr),))
    items = {name: item.expr for name, item in named_items(select)}
    functions = {name: _aggregate(expr) for name, expr in items.items()}
    if not query.group_by and not any(functions.values()):
        raise IndivisibleQuery(_COMPOSITION, listed=True)
    values = [_partial(expr) if functions[name] else expr for name, expr in items.items()]
    return replace(plan, alias_aggregates=functions), ObjectLiteral(tuple(items), tuple(values))


def _aggregate(expr: Expr) -> str | None:
    """The aggregate's name if the expression is an aggregate; None if it contains none."""
    if isinstance(expr, Call) and expr.name.upper() in _AGGREGATES:
        return _AGGREGATES[expr.name.upper()]
    if any(
        isinstance(node, Call) and node.name.upper() in _AGGREGATES
        for node in _outside_subqueries(expr)
    ):
        raise IndivisibleQuery(_COMPOSITION, listed=True)
    return None


def _outside_subqueries(node: Node) -> Iterator[Node]:
    """The nodes of an expression outside its subqueries, which have their own aggregates."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, Subquery):
            pending.extend(children(node))


def _partial(expr: Expr) -> Expr:
    """An aggregate as clients merge it: averages as sum and count, extremes with a count."""
    assert isinstance(expr, Call)  # noqa: S101  # called with aggregates only
    name, arguments = expr.name.upper(), expr.arguments

    def of(function: str) -> Call:
        return Call(function, arguments)

    if name == "AVG":
        return _item(ObjectLiteral(("sum", "count"), (of("SUM"), of("COUNT"))))
    if name in ("MIN", "MAX"):
        extreme = ObjectLiteral((name.lower(), "count"), (of(name), of("COUNT")))
        return ObjectLiteral(("item", "item2"), (of(name), extreme))
    return _item(of(name))


# --- the number of distinct rows


def _counts_distinct(query: Query, bound: BoundQuery) -> bool:
    """True for SELECT COUNT(1) FROM (SELECT DISTINCT …): the client counts the rows."""
    inner = bound.sources[0].collection
    if len(query.sources) > 1 or not isinstance(inner, BoundQuery) or query.sources[0].iterate:
        return False
    has_more = query.where or query.group_by or query.order_by or bound.has_offset_or_limit
    inner_has_more = inner.is_grouped or inner.order_by or inner.has_offset_or_limit
    return (
        not has_more
        and not inner_has_more
        and inner.distinct
        and reads_documents(inner)
        and len(query.select.items) == 1
        and _counts_rows(query.select.items[0].expr, query.sources[0].alias)
    )


def _counts_rows(expr: Expr, alias: str | None) -> bool:
    if not isinstance(expr, Call) or expr.name.upper() != "COUNT":
        return False
    counted = expr.arguments[0]
    if isinstance(counted, Literal):
        return counted.value is not UNDEFINED
    return isinstance(counted, Identifier) and counted.name == alias


def _count_of_distinct(query: Query, plan: Distribution) -> Distribution:
    inner = query.sources[0].collection
    assert isinstance(inner, Query)  # noqa: S101  # checked by `_counts_distinct`
    ((name, _),) = named_items(query.select)
    return replace(
        plan,
        rewritten=print_query(inner),
        distinct="Unordered",
        count_alias="" if plan.has_select_value else name,
    )
