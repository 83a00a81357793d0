"""Conditions as SQL, for any database: what they are made of, each dialect spells itself.

SQL compares as the language does only between values of one type, so each comparison asks for the
type as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

from perseid.conditions import (
    AllOf,
    AnyOf,
    ArrayContains,
    Comparison,
    Condition,
    Filter,
    HasType,
    Not,
    PropertyPath,
    TextMatch,
    is_equality,
)

# Paths with the ranks of their types, and the places of the values that they are to have.
Columns: TypeAlias = tuple[tuple[PropertyPath, int], ...]
ValueRows: TypeAlias = list[tuple[int, ...]]


class Dialect(Protocol):
    """The parts of SQL that databases spell differently. `place` is that of a bound value."""

    true: str
    false: str

    def mark(self, name: str) -> str:
        """Where the value of that name is bound."""
        ...

    def rank(self, path: PropertyPath) -> str:
        """The rank of the type of what the path leads to."""
        ...

    def value(self, path: PropertyPath, rank: int) -> str:
        """Its value, if that is a number or a string as the rank says; else whatever."""
        ...

    def matches(
        self, path: PropertyPath, where: Literal["start", "end", "anywhere"], value_index: int
    ) -> str: ...
    def holds(self, path: PropertyPath, rank: int, value_index: int | None) -> str: ...
    def among(self, columns: Columns, rows: ValueRows) -> str:
        """That what the paths lead to, of these types, is one of the rows of values."""
        ...


class ConditionWriter:
    """Writes conditions as SQL that is true or false of each row, never NULL.

    The values are bound as v0, v1, …
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._rules: dict[type, Callable[[Any], str]] = {
            HasType: self._typed,
            Comparison: self._compared,
            TextMatch: lambda term: dialect.matches(term.path, term.where, term.value),
            ArrayContains: lambda term: dialect.holds(term.path, term.rank, term.value),
            Not: lambda term: f"NOT {self.write(term.term)}",
            AllOf: lambda term: joined(" AND ", [*map(self.write, term.terms)]) or dialect.true,
            AnyOf: lambda term: joined(" OR ", self._alternatives(term.terms)) or dialect.false,
        }
        self.write: Callable[[Condition], str] = lru_cache(maxsize=1024)(self._write)

    def _write(self, condition: Condition) -> str:
        return self._rules[type(condition)](condition)

    def _typed(self, term: HasType) -> str:
        return typed_sql(self._dialect.rank(term.path), term.ranks)

    def _compared(self, term: Comparison) -> str:
        rank = self._dialect.rank(term.path)
        value = self._dialect.value(term.path, term.rank)
        wanted = self._dialect.mark(f"v{term.value}")
        return f"({rank} = {term.rank} AND {value} {term.operator} {wanted})"

    def _alternatives(self, terms: tuple[Condition, ...]) -> list[str]:
        """The terms as SQL; values that one path is compared with become a list, and so do the
        rows of values that several are."""
        lists, others = equalities(terms)
        tables, others = combinations(others)
        parts = [self.write(term) for term in others]
        for columns, rows in tables.items():
            ranks = " AND ".join(f"{self._dialect.rank(path)} = {rank}" for path, rank in columns)
            parts.append(f"({ranks} AND {self._dialect.among(columns, rows)})")
        for (path, rank), value_indexes in lists.items():
            values = ", ".join(
                self._dialect.mark(f"v{value_index}") for value_index in value_indexes
            )
            found = self._dialect.value(path, rank)
            parts.append(f"({self._dialect.rank(path)} = {rank} AND {found} IN ({values}))")
        return parts


def typed_sql(rank: str, ranks: tuple[int, ...]) -> str:
    """That the rank is one of these."""
    if len(ranks) == 1:
        return f"{rank} = {ranks[0]}"
    return f"{rank} IN ({', '.join(map(str, ranks))})"


def equalities(
    terms: tuple[Condition, ...],
) -> tuple[dict[tuple[PropertyPath, int], list[int]], list[Condition]]:
    """The places of values that a path of a type is to equal, and the other terms."""
    lists: dict[tuple[PropertyPath, int], list[int]] = {}
    others = []
    for term in terms:
        if is_equality(term):
            lists.setdefault((term.path, term.rank), []).append(term.value)
        else:
            others.append(term)
    return lists, others


def combinations(terms: list[Condition]) -> tuple[dict[Columns, ValueRows], list[Condition]]:
    """The places of values that several paths of a type are to equal together, where there is a
    choice of such rows, and the other terms."""
    tables: dict[Columns, ValueRows] = {}
    others = []
    for term in terms:
        parts = term.terms if isinstance(term, AllOf) else ()
        row = list(filter(is_equality, parts))
        if row and len(row) == len(parts):
            columns = tuple([(part.path, part.rank) for part in row])
            tables.setdefault(columns, []).append(tuple([part.value for part in row]))
        else:
            others.append(term)
    return tables, others


def joined(operator: str, parts: list[str]) -> str:
    """The parts in brackets of two: there may only be so many levels, and a chain has one each."""
    while len(parts) > 1:
        parts = [
            f"({operator.join(parts[first : first + 2])})" for first in range(0, len(parts), 2)
        ]
    return "".join(parts)


def prefix_indexes(found: Filter) -> tuple[int, ...]:
    """The places of values that texts are to begin with."""
    return _prefix_indexes(found.condition)


@lru_cache(maxsize=1024)
def _prefix_indexes(condition: Condition) -> tuple[int, ...]:
    if isinstance(condition, TextMatch):
        return (condition.value,) if condition.where == "start" else ()
    if isinstance(condition, Not):
        return _prefix_indexes(condition.term)
    if isinstance(condition, AllOf | AnyOf):
        return tuple(
            value_index for term in condition.terms for value_index in _prefix_indexes(term)
        )
    return ()


@lru_cache(maxsize=1024)
def tables(condition: Condition) -> tuple[ValueRows, ...]:
    """All rows of places that are written as tables."""
    if isinstance(condition, Not):
        return tables(condition.term)
    if not isinstance(condition, AllOf | AnyOf):
        return ()
    own = []
    if isinstance(condition, AnyOf):
        own = [*combinations([*condition.terms])[0].values()]
    return (*own, *(rows for term in condition.terms for rows in tables(term)))


def text_after_prefix(start: str) -> str | None:
    """The first text behind all that begin so; None if there is none."""
    for at in range(len(start) - 1, -1, -1):
        code = ord(start[at]) + 1
        if code <= 0x10FFFF:
            return start[:at] + chr(0xE000 if code == 0xD800 else code)
    return None
