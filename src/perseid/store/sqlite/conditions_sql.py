"""Conditions as SQL over the stored JSON of one container's SQLite table.

The two expressions of a path, its type's rank and its value, are also what property indexes are
made of: they are written here once, because an index serves exactly its own text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal

from perseid.conditions import (
    ARRAY,
    FALSE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    UNDEFINED,
    Filter,
    PropertyPath,
)
from perseid.store.sql.dialect import (
    Columns,
    ConditionWriter,
    ValueRows,
    prefix_indexes,
    text_after_prefix,
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
def rank_sql(path: PropertyPath) -> str:
    """The rank of the type of the value at the path."""
    return f"(CASE json_type(body, {_literal(path)}) {_RANKS} ELSE {UNDEFINED} END)"


@lru_cache(maxsize=4096)
def value_sql(path: PropertyPath) -> str:
    """Its value; arrays and objects as JSON."""
    return f"(body ->> {_literal(path)})"


def bindings(where: Filter | None) -> dict[str, Any]:
    """The values by the names the SQL has for them."""
    if where is None:
        return {}
    named = dict(zip(_names(len(where.values)), where.values, strict=True))
    for value_index in prefix_indexes(where):
        upper = text_after_prefix(where.values[value_index])
        # SQLite sorts every blob after every text.
        named[f"u{value_index}"] = b"" if upper is None else upper
    return named


@lru_cache(maxsize=1024)
def _names(count: int) -> tuple[str, ...]:
    return tuple([f"v{value_index}" for value_index in range(count)])


def equality_sql(path: PropertyPath, rank: int) -> str:
    """The condition that the path has the only value of a type, as one range of an index."""
    return f"{rank_sql(path)} = {rank} AND {value_sql(path)} {_ONLY_VALUES[rank]}"


def _literal(path: PropertyPath) -> str:
    """The path as SQLite writes it; names have neither quotes nor backslashes."""
    steps = (f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in path)
    return "'$" + "".join(steps).replace("'", "''") + "'"


class _Sqlite:
    """See dialect.Dialect."""

    true, false = "1", "0"

    def mark(self, name: str) -> str:
        return f":{name}"

    def rank(self, path: PropertyPath) -> str:
        return rank_sql(path)

    def value(self, path: PropertyPath, _rank: int) -> str:
        return value_sql(path)

    def matches(
        self, path: PropertyPath, where: Literal["start", "end", "anywhere"], value_index: int
    ) -> str:
        rank, value, wanted = rank_sql(path), value_sql(path), f":v{value_index}"
        if where == "start":
            # A range, since that is what an index can serve.
            return f"({rank} = {STRING} AND {value} >= {wanted} AND {value} < :u{value_index})"
        if where == "anywhere":
            return f"({rank} = {STRING} AND instr({value}, {wanted}) > 0)"
        # As bytes: counting characters from the end would stop at a NUL. Of none it gives NULL.
        blob = f"CAST({wanted} AS BLOB)"
        size = f"length({blob})"
        tail = f"coalesce(substr(CAST({value} AS BLOB), -{size}, {size}), x'')"
        return f"({rank} = {STRING} AND ({size} = 0 OR {tail} = {blob}))"

    def holds(self, path: PropertyPath, rank: int, value_index: int | None) -> str:
        match = f"each.type IN ({_NAMES[rank]})"
        if value_index is not None:
            match += f" AND each.value = :v{value_index}"
        return (
            f"({rank_sql(path)} = {ARRAY}"
            f" AND EXISTS (SELECT 1 FROM json_each(body, {_literal(path)}) AS each WHERE {match}))"
        )

    def among(self, columns: Columns, rows: ValueRows) -> str:
        columns_sql = ", ".join(value_sql(path) for path, _ in columns)
        wanted = (", ".join(f":v{value_index}" for value_index in row) for row in rows)
        return f"({columns_sql}) IN (VALUES {', '.join(f'({row})' for row in wanted)})"


condition_sql: Final = ConditionWriter(_Sqlite()).write
