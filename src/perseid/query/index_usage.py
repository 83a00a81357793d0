"""Finds the indexes that a query could use: single paths for each filter, composite for the query.

Looks at the query only. The caller compares the result with the indexes of a container.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from typing import Literal as OneOf

from perseid.query.nodes import (
    Alias,
    Between,
    Binary,
    BoundParameter,
    BoundQuery,
    BoundSource,
    BoundSubquery,
    Call,
    Chain,
    ComputedProperty,
    Expr,
    Grouped,
    Identifier,
    In,
    Index,
    Like,
    Literal,
    Parameter,
    Property,
    Unary,
    rebuilt,
    walk,
)
from perseid.query.parser import literal
from perseid.query.printer import print_expr
from perseid.query.values import UNDEFINED

# Property names from the item down; None stands for all elements of an array.
IndexPath: TypeAlias = tuple[str | None, ...]
# How an index serves a filter: a lookup, a range of its order, or a scan of all its values.
IndexAccess: TypeAlias = OneOf["SEEK", "RANGE", "SCAN"]

_COMPARISONS: Final[Mapping[str, IndexAccess]] = {
    "=": "SEEK", "!=": "RANGE", "<": "RANGE", "<=": "RANGE", ">": "RANGE", ">=": "RANGE",
}  # fmt: skip
_PREDICATES: Final[Mapping[str, IndexAccess]] = {
    "CONTAINS": "SCAN",
    "ENDSWITH": "SCAN",
    "RegexMatch": "SCAN",
    "STARTSWITH": "RANGE",
    "STRINGEQUALS": "SEEK",
    **dict.fromkeys(
        (
            "IS_ARRAY", "IS_BOOL", "IS_DEFINED", "IS_FINITE_NUMBER", "IS_INTEGER", "IS_NULL",
            "IS_NUMBER", "IS_OBJECT", "IS_PRIMITIVE", "IS_STRING",
        ),
        "RANGE",
    ),
}  # fmt: skip
# Functions whose results are in the order of their argument, or nearly so.
_MONOTONIC: Final = frozenset({"ABS", "CEILING", "FLOOR", "LEFT", "ROUND", "TRUNC", "YEAR"})
_WILDCARDS: Final = frozenset("%_[")
_MAX_COMPOSITE_PATHS: Final = 8


class SinglePathFilter(NamedTuple):
    """A filter or a sort key on one path; in the text of the filter the item is called ROOT."""

    path: IndexPath
    is_computed: bool
    service: IndexAccess
    filter: str


CompositeIndex: TypeAlias = tuple[tuple[IndexPath, bool], ...]  # paths, and whether descending


class CompositeFilter(NamedTuple):
    """Filters that must all be true: equalities, in any order, and at most one other, the last."""

    equal: tuple[IndexPath, ...]
    last: IndexPath | None

    @property
    def composite(self) -> CompositeIndex:
        last = () if self.last is None else (self.last,)
        return tuple((path, False) for path in (*self.equal, *last))


class IndexUsage(NamedTuple):
    """The indexes that a query could use; `sorting` serves its ORDER BY."""

    singles: tuple[SinglePathFilter, ...]
    filters: tuple[CompositeFilter, ...]
    sorting: CompositeIndex | None


def index_usage_of(query: BoundQuery, parameters: Mapping[str, Any]) -> IndexUsage:
    """The indexes that a bound query could use when it runs with `parameters`."""
    finder = _FilterFinder(parameters)
    singles = list(finder.query(query))
    sorting = finder.sorting(query)
    if len(sorting) == 1:
        singles.append(finder.single(query.order_by[0].expr, "RANGE", None))
    return IndexUsage(
        tuple(dict.fromkeys(singles)),
        tuple(_filters(query, finder)),
        sorting if len(sorting) > 1 else None,
    )


def sorting_index_of(query: BoundQuery) -> CompositeIndex:
    """The composite index that serves ORDER BY; empty if a sort key is not a path of the item."""
    finder = _FilterFinder({})
    deque(finder.query(query), maxlen=0)  # declares the aliases
    return finder.sorting(query)


def _filters(query: BoundQuery, finder: _FilterFinder) -> Iterator[CompositeFilter]:
    where = query.where
    terms = where.operands if isinstance(where, Chain) and where.op == "AND" else (where,)
    needed = [
        t for t in terms if t is not None and not isinstance(t, Chain | Unary | BoundSubquery)
    ]
    singles = [single for term in needed for single in finder.predicate(term)]
    plain = [single for single in singles if None not in single.path and not single.is_computed]
    equal = tuple(dict.fromkeys(single.path for single in plain if single.service == "SEEK"))
    others = dict.fromkeys(single.path for single in plain if single.service == "RANGE")
    ranges = [path for path in others if path not in equal]
    for last in ranges if equal and ranges else [None]:
        if 1 < len(equal) + (last is not None) <= _MAX_COMPOSITE_PATHS:
            yield CompositeFilter(equal, last)


@dataclass(slots=True)
class _FilterFinder:
    """Finds the filters of a query and its subqueries; `aliases` has the path of each slot."""

    parameters: Mapping[str, Any]
    aliases: dict[int, IndexPath] = field(default_factory=dict)

    def query(self, query: BoundQuery) -> Iterator[SinglePathFilter]:
        for source in query.sources:
            yield from self.source(source)
        if query.where is not None:
            yield from self.predicate(query.where)

    def sorting(self, query: BoundQuery) -> CompositeIndex:
        """The sort keys; empty if one of them is not a path."""
        keys = [(self.path(item.expr), item.descending) for item in query.order_by]
        paths = [(path, descending) for path, descending in keys if path is not None]
        return tuple(paths) if len(paths) == len(keys) else ()

    def source(self, source: BoundSource) -> Iterator[SinglePathFilter]:
        collection = source.collection
        if collection is None:
            self.aliases[source.slot] = ()
        elif isinstance(collection, BoundQuery):
            yield from self.query(collection)
            selected = collection.items[0].expr
            if collection.shape != "LIST":
                self.declare(source.slot, selected, iterate=source.iterate)
        else:
            self.declare(source.slot, collection, iterate=source.iterate)

    def declare(self, slot: int, expr: Expr, *, iterate: bool) -> None:
        path = self.path(expr)
        if path is not None:
            self.aliases[slot] = (*path, None) if iterate else path

    def predicate(self, expr: Expr) -> Iterator[SinglePathFilter]:
        """The filters on single paths that a condition consists of."""
        match expr:
            case Chain(op="AND" | "OR", operands=terms):
                for term in terms:
                    yield from self.predicate(term)
            case Unary(op="NOT", operand=operand):
                yield from self.predicate(operand)
            case BoundSubquery(kind="EXISTS", query=query):
                yield from self.query(query)
            case Binary(op=op, left=left, right=right) if op in _COMPARISONS:
                service = _COMPARISONS[op]
                yield from self.compared(left, [right], service, expr)
                yield from self.compared(right, [left], service, expr)
            case In(operand=operand, items=items):
                yield from self.compared(operand, items, "SEEK", expr)
            case Between(operand=operand, low=low, high=high):
                yield from self.compared(operand, [low, high], "RANGE", expr)
            case Like(operand=operand, pattern=pattern):
                yield from self.compared(operand, [pattern], self.pattern(pattern), expr)
            case Call(name="ARRAY_CONTAINS", arguments=(array, value, *_)):
                yield from self.compared(array, [value], "SEEK", expr, into=True)
                yield from self.compared(value, [array], "SEEK", expr)
            case Call(name=name, arguments=(subject, *others)) if name in _PREDICATES:
                yield from self.compared(subject, others, _PREDICATES[name], expr)
            case Property() | Index() | ComputedProperty():
                yield from self.compared(expr, (), "SEEK", expr)

    def compared(
        self,
        subject: Expr,
        others: Iterable[Expr],
        service: IndexAccess,
        whole: Expr,
        *,
        into: bool = False,
    ) -> Iterator[SinglePathFilter]:
        """The filter, if it compares a path with constants."""
        if isinstance(subject, Call) and subject.name in _MONOTONIC:
            subject = subject.arguments[0]
            service = "RANGE"
        if self.path(subject) is None or not all(map(_is_constant, others)):
            return
        single = self.single(subject, service, whole)
        yield single._replace(path=(*single.path, None)) if into else single

    def single(self, subject: Expr, service: IndexAccess, whole: Expr | None) -> SinglePathFilter:
        path = self.path(subject)
        assert path is not None  # noqa: S101  # the callers have checked
        text = "" if whole is None else print_expr(self.unbound(whole))
        return SinglePathFilter(path, isinstance(subject, ComputedProperty), service, text)

    def pattern(self, pattern: Expr) -> IndexAccess:
        text = self.constant(pattern)
        has_start = isinstance(text, str) and text[:1] not in _WILDCARDS
        return "RANGE" if has_start else "SCAN"

    def constant(self, expr: Expr) -> Any:
        if isinstance(expr, BoundParameter):
            return self.parameters.get(expr.name, UNDEFINED)
        return expr.value if isinstance(expr, Literal) else UNDEFINED

    def path(self, expr: Expr) -> IndexPath | None:
        """The path of the item that an expression reads, if it is a path."""
        names: list[str | None] = []
        while isinstance(expr, Property | Index):
            names.append(expr.name if isinstance(expr, Property) else None)
            expr = expr.target
        if isinstance(expr, ComputedProperty):
            names.append(expr.name)
            base = self.aliases.get(expr.slot)
        elif isinstance(expr, Grouped):
            base = self.path(expr.expr)
        else:
            base = self.aliases.get(expr.slot) if isinstance(expr, Alias) else None
        path = None if base is None else (*base, *reversed(names))
        return path or None

    def unbound(self, expr: Expr) -> Expr:
        """The expression for printing: items are called ROOT, parameters are replaced by values."""
        if isinstance(expr, BoundParameter):
            value = self.parameters.get(expr.name, UNDEFINED)
            is_scalar = value is not UNDEFINED and not isinstance(value, list | dict)
            return literal(value) if is_scalar else Parameter(expr.name)
        if isinstance(expr, Alias):
            return Identifier("ROOT" if self.aliases.get(expr.slot) == () else expr.name)
        if isinstance(expr, ComputedProperty):
            return Property(Identifier("ROOT"), expr.name)
        return rebuilt(expr, self.unbound)


def _is_constant(expr: Expr) -> bool:
    return not any(isinstance(node, Alias | ComputedProperty | BoundQuery) for node in walk(expr))
