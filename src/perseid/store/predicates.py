"""Conditions as SQL over the stored JSON of one container's table.

SQL compares as the language does only between values of one type, so each comparison asks for the
type as well. The two expressions of a path, its type's rank and its value, are also what property
indexes are made of: they are written here once, because an index serves exactly its own text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from perseid.conditions import (
    ARRAY,
    FALSE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    UNDEFINED,
    Compared,
    Condition,
    Every,
    Filter,
    Holding,
    Matched,
    Not,
    Path,
    Some,
    Typed,
)

_JSON_TYPES: Final = {
    "null": NULL,
    "false": FALSE,
    "true": TRUE,
    "integer": NUMBER,
    "real": NUMBER,
    "text": STRING,
    "array": ARRAY,
    "object": OBJECT,
}
_RANKS: Final = " ".join(f"WHEN '{name}' THEN {rank}" for name, rank in _JSON_TYPES.items())
_NAMES: Final = {
    rank: ", ".join(f"'{name}'" for name, each in _JSON_TYPES.items() if each == rank)
    for rank in range(8)
}
# What `->>` gives for the types that have one value only.
_ONLY_VALUES: Final = {UNDEFINED: "IS NULL", NULL: "IS NULL", FALSE: "= 0", TRUE: "= 1"}


@lru_cache(maxsize=4096)
def rank_sql(path: Path) -> str:
    """The rank of the type of what the path leads to."""
    return f"(CASE json_type(body, {_literal(path)}) {_RANKS} ELSE {UNDEFINED} END)"


@lru_cache(maxsize=4096)
def value_sql(path: Path) -> str:
    """Its value; arrays and objects as JSON."""
    return f"(body ->> {_literal(path)})"


@lru_cache(maxsize=1024)
def condition_sql(condition: Condition) -> str:
    """SQL that is 0 or 1 of each row, never NULL; the values are bound as :v0, :v1, …"""
    return _WRITERS[type(condition)](condition)


def bindings(found: Filter | None) -> dict[str, Any]:
    """The values by the names the SQL has for them."""
    if found is None:
        return {}
    named = {f"v{place}": value for place, value in enumerate(found.values)}
    for place in _starts(found.condition):
        named[f"u{place}"] = _behind(found.values[place])
    return named


@lru_cache(maxsize=1024)
def _starts(condition: Condition) -> tuple[int, ...]:
    """The places of values that texts are to begin with."""
    if isinstance(condition, Matched):
        return (condition.value,) if condition.where == "start" else ()
    if isinstance(condition, Not):
        return _starts(condition.term)
    if isinstance(condition, Every | Some):
        return tuple(place for term in condition.terms for place in _starts(term))
    return ()


def _behind(start: str) -> str | bytes:
    """The first text behind all that begin so; SQLite has every blob behind every text."""
    for at in range(len(start) - 1, -1, -1):
        code = ord(start[at]) + 1
        if code <= 0x10FFFF:
            return start[:at] + chr(0xE000 if code == 0xD800 else code)
    return b""


def equality_sql(path: Path, rank: int) -> str:
    """That the path leads to the only value of a type, so that an index has it in one stretch."""
    return f"{rank_sql(path)} = {rank} AND {value_sql(path)} {_ONLY_VALUES[rank]}"


def has_only_value(rank: int) -> bool:
    return rank in _ONLY_VALUES


def _literal(path: Path) -> str:
    """The path as SQLite writes it; names have neither quotes nor backslashes."""
    steps = (f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in path)
    return "'$" + "".join(steps).replace("'", "''") + "'"


def _typed(term: Typed) -> str:
    if len(term.ranks) == 1:
        return f"{rank_sql(term.path)} = {term.ranks[0]}"
    return f"{rank_sql(term.path)} IN ({', '.join(map(str, term.ranks))})"


def _compared(term: Compared) -> str:
    rank, value = rank_sql(term.path), value_sql(term.path)
    return f"({rank} = {term.rank} AND {value} {term.operator} :v{term.value})"


def _matched(term: Matched) -> str:
    rank, value, wanted = rank_sql(term.path), value_sql(term.path), f":v{term.value}"
    if term.where == "start":
        # A range, since that is what an index can serve.
        return f"({rank} = {STRING} AND {value} >= {wanted} AND {value} < :u{term.value})"
    if term.where == "anywhere":
        return f"({rank} = {STRING} AND instr({value}, {wanted}) > 0)"
    # As bytes: counting characters from the end would stop at a NUL. Of none it gives NULL.
    blob = f"CAST({wanted} AS BLOB)"
    size = f"length({blob})"
    tail = f"coalesce(substr(CAST({value} AS BLOB), -{size}, {size}), x'')"
    return f"({rank} = {STRING} AND ({size} = 0 OR {tail} = {blob}))"


def _holding(term: Holding) -> str:
    path = _literal(term.path)
    match = f"each.type IN ({_NAMES[term.rank]})"
    if term.value is not None:
        match += f" AND each.value = :v{term.value}"
    return (
        f"({rank_sql(term.path)} = {ARRAY}"
        f" AND EXISTS (SELECT 1 FROM json_each(body, {path}) AS each WHERE {match}))"
    )


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    Typed: _typed,
    Compared: _compared,
    Matched: _matched,
    Holding: _holding,
    Not: lambda term: f"NOT {condition_sql(term.term)}",
    Every: lambda term: _joined(" AND ", [condition_sql(each) for each in term.terms]) or "1",
    Some: lambda term: _joined(" OR ", _alternatives(term.terms)) or "0",
}


def _alternatives(terms: tuple[Condition, ...]) -> list[str]:
    """The terms as SQL; values that one path is compared with become a list."""
    lists: dict[tuple[Path, int], list[int]] = {}
    others = []
    for term in terms:
        if isinstance(term, Compared) and term.operator == "=":
            lists.setdefault((term.path, term.rank), []).append(term.value)
        else:
            others.append(condition_sql(term))
    for (path, rank), places in lists.items():
        values = ", ".join(f":v{place}" for place in places)
        others.append(f"({rank_sql(path)} = {rank} AND {value_sql(path)} IN ({values}))")
    return others


def _joined(operator: str, parts: list[str]) -> str:
    """The parts in brackets of two: SQLite allows only so many levels, and a chain has one each."""
    while len(parts) > 1:
        parts = [
            f"({operator.join(parts[first : first + 2])})" for first in range(0, len(parts), 2)
        ]
    return "".join(parts)
