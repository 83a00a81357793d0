"""Binds names to slots of a row; the last stage that can reject a query before it runs.

Resolves aliases, parameters, functions and computed properties, checks the numbers of arguments and
of OFFSET, LIMIT and TOP, and separates values of a row from values of a group. A bound query has no
scopes: every name is an index into one flat row. Nothing is evaluated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, TypeVar

from perseid.query.functions import AGGREGATES, lookup
from perseid.query.lexer import reject
from perseid.query.nodes import (
    Aggregate,
    Alias,
    Binary,
    BoundItem,
    BoundParameter,
    BoundQuery,
    BoundSource,
    BoundSubquery,
    Call,
    ComputedProperty,
    Conditional,
    CountExpr,
    Expr,
    FromSource,
    Grouped,
    Identifier,
    Index,
    Literal,
    Node,
    OrderItem,
    Parameter,
    Property,
    Query,
    Select,
    SelectItem,
    Subquery,
    Unary,
    rebuilt,
    walk,
)
from perseid.query.parser import literal

# The first slots of every row; those of aliases, parameters and groups follow.
CONTEXT_SLOT: Final = 0
DOCUMENTS_SLOT: Final = 1
_FIRST_FREE_SLOT: Final = 2

MAX_COUNT: Final = 2**32 - 1

_T = TypeVar("_T")

_COUNT_LIMITS: Final = {
    "TOP": ("SC2060", "The count value provided for a TOP clause must be an integer."),
    "LIMIT": ("SC2061", "The LIMIT count value exceeds the maximum allowed value."),
    "OFFSET": ("SC2062", "The OFFSET count value exceeds the maximum allowed value."),
}
# Functions of the service that may be missing here: the error says so, not that they are unknown.
_SERVICE_PREFIXES: Final = ("ST_", "VECTORDISTANCE", "FULLTEXT", "_FULLTEXT", "UDF.")


@dataclass(frozen=True, slots=True)
class Program:
    """A bound query, the slots of its parameters by name, and the number of slots of a row."""

    query: BoundQuery
    parameters: Mapping[str, int]
    slots: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A computed property: an expression over the item, which it calls `alias`."""

    alias: str
    expr: Expr


def bind(query: Query, text: str, computed: Mapping[str, Definition]) -> Program:
    """`query` ready to compile; `text` is its source, which error messages quote."""
    binder = _Binder(text, computed)
    bound = binder.query(query, _Scope(None), owns_container=True)
    return Program(bound, binder.parameters, binder.slots)


def check_count(clause: str, value: Any, start: int, end: int) -> int:
    """`value` as the count of a TOP, OFFSET or LIMIT clause; rejects other values."""
    code, message = _COUNT_LIMITS[clause]
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        subject = f"a {clause}" if clause != "OFFSET" else "an OFFSET"
        message = f"The count value provided for {subject} clause must be an integer."
        reject("SC2060", message, start, end)
    if value > MAX_COUNT:
        reject(code, message, start, end)
    return int(value)


@dataclass(slots=True)
class _Scope:
    """The aliases of one FROM clause; `outer` is the scope of the enclosing query."""

    outer: _Scope | None
    slots: dict[str, int] = field(default_factory=dict)

    def find(self, name: str) -> int | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.slots:
                return scope.slots[name]
            scope = scope.outer
        return None


@dataclass(slots=True)
class _Binder:
    text: str
    computed: Mapping[str, Definition]
    parameters: dict[str, int] = field(default_factory=dict)
    slots: int = _FIRST_FREE_SLOT
    # Where the current expression is.
    scope: _Scope = field(default_factory=lambda: _Scope(None))
    clause: str = ""
    # The aggregates of the current query; None in clauses where they are not allowed.
    aggregates: list[Aggregate] | None = None
    in_aggregate: bool = False
    # Slots of whole items; only those have computed properties.
    items: set[int] = field(default_factory=set)

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    # --- queries

    def query(self, node: Query, outer: _Scope, *, owns_container: bool) -> BoundQuery:
        outer_state = (self.scope, self.clause, self.aggregates, self.in_aggregate)
        self.scope, self.in_aggregate = _Scope(outer), False
        self.check_clauses(node)
        sources, root = self.sources(node, owns_container=owns_container)
        own = frozenset(source.slot for source in sources)
        where = self.within("WHERE", lambda: self.maybe(node.where))
        keys = self.within("GROUP BY", lambda: tuple(self.expr(e) for e in node.group_by))
        aggregates: list[Aggregate] = []
        items = self.within("SELECT", lambda: self.select_items(node, sources), aggregates)
        order_by = self.within("ORDER BY", lambda: self.order_items(node), aggregates)
        grouping = _Grouping(
            self.text,
            own,
            [Grouped(self.new_slot(), key, start=key.start, end=key.end) for key in keys],
            {aggregate: self.new_slot() for aggregate in aggregates},
        )
        if grouping.keys or grouping.aggregates:
            items = tuple(
                BoundItem(i.name, grouping.lift(i.expr), start=i.start, end=i.end) for i in items
            )
            grouping.in_order_by = True
            # Without GROUP BY there is one row: it may be sorted by anything, to no effect.
            order_by = tuple(
                replace(o, expr=grouping.lift(o.expr)) for o in order_by if grouping.keys
            )
        bound = BoundQuery(
            shape=node.select.shape,
            items=items,
            distinct=node.select.distinct,
            top=self.count("TOP", node.select.top),
            sources=sources,
            where=where,
            group_by=tuple(grouping.keys),
            aggregates=tuple(
                Grouped(slot, aggregate) for aggregate, slot in grouping.aggregates.items()
            ),
            order_by=order_by,
            offset=self.count("OFFSET", node.offset),
            limit=self.count("LIMIT", node.limit),
            root=root,
            has_joins=len(node.sources) > 1,
            has_subqueries=False,
            start=node.start,
            end=node.end,
        )
        self.scope, self.clause, self.aggregates, self.in_aggregate = outer_state
        return replace(bound, has_subqueries=_has_subqueries(bound))

    def check_clauses(self, node: Query) -> None:
        select = node.select
        if node.rank:
            first = node.order_by[0]
            reject(
                "SC2005", "'ORDER BY RANK' is not supported yet by Perseid.", first.start, first.end
            )
        if select.shape != "STAR":
            return
        if node.group_by:
            code, message = "SC2041", "'SELECT *' is not allowed with GROUP BY."
        elif not node.sources:
            code, message = "SC2040", "'SELECT *' is not valid if FROM clause is omitted."
        elif len(node.sources) > 1:
            code, message = "SC2040", "'SELECT *' is only valid with a single input set."
        else:
            return
        reject(code, message, select.start, select.end)

    def within(
        self, clause: str, bind_clause: Callable[[], _T], aggregates: list[Aggregate] | None = None
    ) -> _T:
        self.clause, self.aggregates = clause, aggregates
        return bind_clause()

    def select_items(self, node: Query, sources: Sequence[BoundSource]) -> tuple[BoundItem, ...]:
        select = node.select
        span = {"start": select.start, "end": select.end}
        if select.shape == "STAR":
            whole = sources[-1]
            return (BoundItem("", Alias(whole.slot, whole.name or "", **span), **span),)
        if select.shape == "VALUE":
            return (BoundItem("", self.expr(select.items[0].expr), **span),)
        # A later item of the same name replaces an earlier one.
        items = {
            name: BoundItem(name, self.expr(item.expr), start=item.start, end=item.end)
            for name, item in named_items(select)
        }
        return tuple(items.values())

    def order_items(self, node: Query) -> tuple[OrderItem, ...]:
        return tuple(replace(item, expr=self.expr(item.expr)) for item in node.order_by)

    def count(self, clause: str, node: CountExpr | None) -> CountExpr | None:
        if isinstance(node, Parameter):
            return self.parameter(node)
        if isinstance(node, Literal):
            check_count(clause, node.value, node.start, node.end)
        return node

    # --- FROM

    def sources(
        self, node: Query, *, owns_container: bool
    ) -> tuple[tuple[BoundSource, ...], Alias | None]:
        self.clause, self.aggregates = "FROM", None
        bound: list[BoundSource] = []
        root: Alias | None = None
        for source in node.sources:
            first = owns_container and not bound
            collection = source.collection
            name = source.alias or (None if isinstance(collection, Query) else own_name(collection))
            head = None if isinstance(collection, Query) else _head(collection)
            if first and head is not None:
                item = Alias(self.new_slot(), name or "", start=source.start, end=source.end)
                self.items.add(item.slot)
                whole = isinstance(collection, Identifier) and not source.iterate
                bound.append(BoundSource(item.slot, name if whole else None, None, False))
                if whole:
                    root = item
                    self.declare(source, name, item.slot)
                    continue
                scope = self.scope
                self.scope = _Scope(None, {head.name: item.slot})
                bound.append(self.derived(source, name))
                self.scope = scope
            else:
                bound.append(self.derived(source, name, owns_container=first))
            self.declare(source, name, bound[-1].slot)
        return tuple(bound), root

    def derived(
        self, source: FromSource, name: str | None, *, owns_container: bool = False
    ) -> BoundSource:
        """An input that is evaluated for each row of the earlier ones."""
        collection: Expr | BoundQuery
        if isinstance(source.collection, Query):
            collection = self.query(source.collection, self.scope, owns_container=owns_container)
        else:
            collection = self.expr(source.collection)
        slot = self.new_slot()
        if isinstance(collection, Alias) and collection.slot in self.items and not source.iterate:
            self.items.add(slot)
        return BoundSource(
            slot, name, collection, source.iterate, start=source.start, end=source.end
        )

    def declare(self, source: FromSource, name: str | None, slot: int) -> None:
        if name is None:
            return
        if name in self.scope.slots:
            message = f"The input alias '{name}' is specified more than once in the FROM clause."
            reject("SC2011", message, source.start, source.end)
        self.scope.slots[name] = slot

    # --- expressions

    def maybe(self, node: Expr | None) -> Expr | None:
        return None if node is None else self.expr(node)

    def expr(self, node: Expr) -> Expr:
        special = _SPECIAL.get(type(node))
        return rebuilt(node, self.expr) if special is None else special(self, node)

    def identifier(self, node: Identifier) -> Expr:
        slot = self.scope.find(node.name)
        if slot is None:
            message = f"Identifier '{node.name}' could not be resolved."
            reject("SC2001", message, node.start, node.end)
        return Alias(slot, node.name, start=node.start, end=node.end)

    def parameter(self, node: Parameter) -> BoundParameter:
        if node.name not in self.parameters:
            self.parameters[node.name] = self.new_slot()
        return BoundParameter(self.parameters[node.name], node.name, start=node.start, end=node.end)

    def property(self, node: Property) -> Expr:
        target = self.expr(node.target)
        if isinstance(target, Alias) and target.slot in self.items:
            definition = self.computed.get(node.name)
            if definition is not None:
                return self.computed_property(node, node.name, target.slot, definition)
        return Property(target, node.name, start=node.start, end=node.end)

    def index(self, node: Index) -> Expr:
        """An element; the parameter of `c[@name]` may name a computed property."""
        target, index = self.expr(node.target), self.expr(node.index)
        element: Expr = Index(target, index, start=node.start, end=node.end)
        # Only parameters: the index is copied for each computed property, and a nested expression
        # would grow exponentially.
        if (
            isinstance(index, BoundParameter)
            and isinstance(target, Alias)
            and target.slot in self.items
        ):
            for name, definition in self.computed.items():
                computed = self.computed_property(node, name, target.slot, definition)
                is_named = Binary("=", index, literal(name), start=node.start, end=node.end)
                element = Conditional(is_named, computed, element, start=node.start, end=node.end)
        return element

    def computed_property(
        self, node: Property | Index, name: str, slot: int, definition: Definition
    ) -> Expr:
        scope, computed = self.scope, self.computed
        # A definition reads stored properties only, no other computed ones.
        self.scope, self.computed = _Scope(None, {definition.alias: slot}), {}
        expr = self.expr(definition.expr)
        self.scope, self.computed = scope, computed
        return ComputedProperty(slot, name, expr, start=node.start, end=node.end)

    def call(self, node: Call) -> Expr:
        if node.name.upper() in AGGREGATES:
            return self.aggregate(node)
        builtin = lookup(node.name)
        if builtin is None:
            _reject_function(node)
        _check_arity(node, builtin.name, builtin.min_args, builtin.max_args)
        return Call(
            builtin.name,
            tuple(map(self.expr, node.arguments)),
            start=node.start,
            end=node.end,
            name_end=node.name_end,
        )

    def aggregate(self, node: Call) -> Expr:
        name = node.name.upper()
        _check_arity(node, name, 1, 1)
        if self.in_aggregate:
            _reject_in_aggregate(node)
        if self.aggregates is None:
            message = f"An aggregate function is not allowed in the {self.clause} clause."
            reject("SC2101", message, node.start, node.end)
        self.in_aggregate = True
        bound = Aggregate(name, self.expr(node.arguments[0]), start=node.start, end=node.end)
        self.in_aggregate = False
        self.aggregates.append(bound)
        return bound

    def subquery(self, node: Subquery) -> Expr:
        if self.in_aggregate:
            _reject_in_aggregate(node)
        if node.kind != "ALL":
            query = self.query(node.query, self.scope, owns_container=False)
            return BoundSubquery(node.kind, query, start=node.start, end=node.end)
        # ALL is true if no row fails the condition.
        where = node.query.where
        refused = literal(False) if where is None else Unary("NOT", where)
        query = self.query(replace(node.query, where=refused), self.scope, owns_container=False)
        exists = BoundSubquery("EXISTS", query, start=node.start, end=node.end)
        return Unary("NOT", exists, start=node.start, end=node.end)


_SPECIAL: Final[dict[type, Callable[[_Binder, Any], Expr]]] = {
    Identifier: _Binder.identifier,
    Parameter: _Binder.parameter,
    Property: _Binder.property,
    Index: _Binder.index,
    Call: _Binder.call,
    Subquery: _Binder.subquery,
}


@dataclass(slots=True)
class _Grouping:
    """Rewrites expressions over rows for groups; rejects those that only a row can answer."""

    text: str
    own: frozenset[int]
    keys: list[Grouped]
    aggregates: dict[Aggregate, int]
    in_order_by: bool = False

    def lift(self, node: Expr) -> Expr:
        key = self.key(node)
        if key is not None:
            return key
        match node:
            case Aggregate():
                return Grouped(self.aggregates[node], node, start=node.start, end=node.end)
            case Property() | Index() | Alias() | ComputedProperty():
                return self.path(node)
            case Grouped():
                return self.inner(node)
            case BoundSubquery():
                query = self.query(node.query)
                return BoundSubquery(node.kind, query, start=node.start, end=node.end)
            case _:
                return rebuilt(node, self.lift)

    def key(self, node: Expr) -> Grouped | None:
        for key in self.keys:
            if key.expr == node:
                return key
        return None

    def path(self, node: Expr) -> Expr:
        """A path that begins at a GROUP BY key or outside this query's own inputs."""
        links: list[Property | Index] = []
        base: Expr = node
        while isinstance(base, Property | Index):
            links.append(base)
            base = base.target
            key = self.key(base)
            if key is not None:
                base = key
                break
        else:
            if isinstance(base, Alias | ComputedProperty):
                if base.slot in self.own:
                    self.reject_reference(node)
            else:
                base = self.lift(base)
        for link in reversed(links):
            span = {"start": link.start, "end": link.end}
            if isinstance(link, Property):
                base = Property(base, link.name, **span)
            else:
                base = Index(base, self.lift(link.index), **span)
        return base

    def query(self, query: BoundQuery) -> BoundQuery:
        """A subquery: its references to inputs of this query are rewritten, too."""
        return replace(
            query,
            items=tuple(replace(item, expr=self.lift(item.expr)) for item in query.items),
            sources=tuple(map(self.source, query.sources)),
            where=None if query.where is None else self.lift(query.where),
            group_by=tuple(map(self.inner, query.group_by)),
            aggregates=tuple(map(self.inner, query.aggregates)),
            order_by=tuple(replace(item, expr=self.lift(item.expr)) for item in query.order_by),
        )

    def inner(self, node: Grouped) -> Grouped:
        """A group value of a subquery; its aggregates do not belong to this query."""
        aggregate = isinstance(node.expr, Aggregate)
        expr = rebuilt(node.expr, self.lift) if aggregate else self.lift(node.expr)
        return Grouped(node.slot, expr, start=node.start, end=node.end)

    def source(self, source: BoundSource) -> BoundSource:
        collection = source.collection
        if collection is None:
            return source
        if isinstance(collection, BoundQuery):
            return replace(source, collection=self.query(collection))
        return replace(source, collection=self.lift(collection))

    def reject_reference(self, node: Node) -> NoReturn:
        code, place = (
            ("SC2103", "ORDER BY clause") if self.in_order_by else ("SC2102", "select list")
        )
        message = (
            f"Property reference '{self.text[node.start : node.end]}' is invalid in the {place} "
            "because it is not contained in either an aggregate function or the GROUP BY clause."
        )
        reject(code, message, node.start, node.end)


def named_items(select: Select) -> Iterator[tuple[str, SelectItem]]:
    """The items of a SELECT list with their names in the result; unnamed ones are numbered."""
    unnamed = 0
    for item in select.items:
        name = item.alias or own_name(item.expr)
        if name is None:
            unnamed += 1
            name = f"${unnamed}"
        yield name, item


def own_name(node: Expr) -> str | None:
    """The name of a property or identifier in the result if it has no alias."""
    return node.name if isinstance(node, Identifier | Property) else None


def _head(node: Expr) -> Identifier | None:
    """The identifier that a path begins with."""
    while isinstance(node, Property | Index):
        node = node.target
    return node if isinstance(node, Identifier) else None


def _has_subqueries(query: BoundQuery) -> bool:
    return any(isinstance(node, BoundQuery) and node is not query for node in walk(query))


def _check_arity(node: Call, name: str, least: int, most: int | None) -> None:
    given = len(node.arguments)
    if given >= least and (most is None or given <= most):
        return
    amount = f"at least {least}" if most is None else f"{least} to {most}"
    if least == most:
        amount = str(least)
    message = f"The {name} function requires {amount} argument(s)."
    reject("SC2050", message, node.start, node.end)


def _reject_function(node: Call) -> NoReturn:
    upper = node.name.upper()
    if upper == "FULLTEXTSCORE":
        message = "The FullTextScore function is only allowed in the ORDER BY RANK clause."
        reject("SC2240", message, node.start, node.end)
    if upper.startswith(_SERVICE_PREFIXES):
        message = f"'{node.name}' is not supported yet by Perseid."
    else:
        message = f"'{node.name}' is not a recognized built-in function name."
    reject("SC2005", message, node.start, node.name_end)


def _reject_in_aggregate(node: Node) -> NoReturn:
    message = (
        "Cannot perform an aggregate function on an expression containing an aggregate "
        "or a subquery."
    )
    reject("SC2101", message, node.start, node.end)
