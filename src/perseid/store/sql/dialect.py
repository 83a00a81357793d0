"""Conditions as SQL for either database; a dialect supplies the parts that differ.

SQL compares values like the query language only if they have the same type, so each comparison
checks the type as well.
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

# Paths with the ranks of their types, and the positions of the values they are compared with.
Columns: TypeAlias = tuple[tuple[PropertyPath, int], ...]
ValueRows: TypeAlias = list[tuple[int, ...]]


class Dialect(Protocol):
    """The parts of SQL that differ between databases."""

    true: str
    false: str

    def mark(self, name: str) -> str:
        """The placeholder for the value of a name."""
        ...

    def rank(self, path: PropertyPath) -> str:
        """The rank of the type of the value at the path."""
        ...

    def value(self, path: PropertyPath, rank: int) -> str:
        """The value at the path if the rank says number or string; undefined otherwise."""
        ...

    def matches(
        self, path: PropertyPath, where: Literal["start", "end", "anywhere"], value_index: int
    ) -> str: ...
    def holds(self, path: PropertyPath, rank: int, value_index: int | None) -> str: ...
    def among(self, columns: Columns, rows: ValueRows) -> str:
        """The condition that the values at the paths are one of the rows of values."""
        ...


class ConditionWriter:
    """Writes conditions as SQL that is true or false for each row, never NULL.

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
        """The terms as SQL. Values compared with one path become a list, and so do rows of values
        compared with several paths."""
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
            value_sql = self._dialect.value(path, rank)
            parts.append(f"({self._dialect.rank(path)} = {rank} AND {value_sql} IN ({values}))")
        return parts


def typed_sql(rank: str, ranks: tuple[int, ...]) -> str:
    """The condition that the rank is one of these."""
    if len(ranks) == 1:
        return f"{rank} = {ranks[0]}"
    return f"{rank} IN ({', '.join(map(str, ranks))})"


def equalities(
    terms: tuple[Condition, ...],
) -> tuple[dict[tuple[PropertyPath, int], list[int]], list[Condition]]:
    """The positions of values that a path is compared with for equality, and the other terms."""
    lists: dict[tuple[PropertyPath, int], list[int]] = {}
    others = []
    for term in terms:
        if is_equality(term):
            lists.setdefault((term.path, term.rank), []).append(term.value)
        else:
            others.append(term)
    return lists, others


def combinations(terms: list[Condition]) -> tuple[dict[Columns, ValueRows], list[Condition]]:
    """The positions of values that several paths are compared with together, as rows, and the other
    terms."""
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
    """The parts as a balanced tree of brackets: databases limit the depth of expressions."""
    while len(parts) > 1:
        parts = [
            f"({operator.join(parts[first : first + 2])})" for first in range(0, len(parts), 2)
        ]
    return "".join(parts)


def prefix_indexes(where: Filter) -> tuple[int, ...]:
    """The positions of values that texts are compared with as a prefix."""
    return _prefix_indexes(where.condition)


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
    """All rows of positions that are written as tables."""
    if isinstance(condition, Not):
        return tables(condition.term)
    if not isinstance(condition, AllOf | AnyOf):
        return ()
    own = []
    if isinstance(condition, AnyOf):
        own = [*combinations([*condition.terms])[0].values()]
    return (*own, *(rows for term in condition.terms for rows in tables(term)))


def text_after_prefix(start: str) -> str | None:
    """The first text after all texts with this prefix; None if there is none."""
    for at in range(len(start) - 1, -1, -1):
        code = ord(start[at]) + 1
        if code <= 0x10FFFF:
            return start[:at] + chr(0xE000 if code == 0xD800 else code)
    return None
