"""Conditions as SQL over `doc`, the jsonb copy of an item, and over entries of property indexes.

An entry has the rank of the type of a value; the number, or for a text whether it is cut off; the
beginning of the text. Missing parts are 0 and '', so one value is one range of the entries, and all
values are in the order of ORDER BY. Texts are cut because an entry must fit into a third of a page;
a search for texts compares the whole text as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal

from psycopg.types.json import Jsonb

from perseid.conditions import (
    ARRAY,
    FALSE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
    UNDEFINED,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Filter,
    HasType,
    PropertyPath,
    TextMatch,
    has_single_value,
)
from perseid.store.postgres.numbers import as_numeric
from perseid.store.sql.candidates import IndexCandidate
from perseid.store.sql.dialect import (
    Columns,
    ConditionWriter,
    ValueRows,
    equalities,
    prefix_indexes,
    tables,
    text_after_prefix,
    typed_sql,
)

# Characters of a text that an index holds: at most four bytes each.
INDEXED_CHARACTERS: Final = 200
_NO_VALUE: Final = {NULL: "null", FALSE: "false", TRUE: "true"}


def mark(name: str) -> str:
    return f"%({name})s"


@lru_cache(maxsize=4096)
def json_sql(path: PropertyPath) -> str:
    """The value at the path; NULL if there is none."""
    sql = "doc"
    for step in path:
        if isinstance(step, int):
            # A scalar would give itself as its element 0.
            sql = f"(CASE jsonb_typeof({sql}) WHEN 'array' THEN {sql} -> {step} END)"
        else:
            sql = f"({sql} -> {_literal(step)})"
    return sql


def rank_of_sql(value: str) -> str:
    """The rank of the type of a jsonb value."""
    return (
        f"(CASE jsonb_typeof({value}) WHEN 'number' THEN {NUMBER} WHEN 'string' THEN {STRING}"
        f" WHEN 'boolean' THEN CASE {value} WHEN 'true' THEN {TRUE} ELSE {FALSE} END"
        f" WHEN 'null' THEN {NULL} WHEN 'array' THEN {ARRAY} WHEN 'object' THEN {OBJECT}"
        f" ELSE {UNDEFINED} END)"
    )


def measure_of_sql(value: str) -> str:
    """The number itself; 1 for a text that an entry cuts off, 0 for everything else."""
    return (
        f"(CASE jsonb_typeof({value}) WHEN 'number' THEN {value}::numeric"
        f" WHEN 'string' THEN CASE WHEN length({value} #>> '{{}}') > {INDEXED_CHARACTERS}"
        " THEN 1 ELSE 0 END"
        " ELSE 0 END)"
    )


def head_of_sql(value: str) -> str:
    """The beginning of the text; '' for everything else."""
    text = f"CASE jsonb_typeof({value}) WHEN 'string' THEN {value} #>> '{{}}' ELSE '' END"
    return f'(left({text}, {INDEXED_CHARACTERS}) COLLATE "C")'


@lru_cache(maxsize=4096)
def rank_sql(path: PropertyPath) -> str:
    return rank_of_sql(json_sql(path))


@lru_cache(maxsize=4096)
def _number_sql(path: PropertyPath) -> str:
    return measure_of_sql(json_sql(path))


def bindings(where: Filter | None) -> dict[str, Any]:
    """The values by the names the SQL has for them; those of texts also as an index has them."""
    named: dict[str, Any] = {}
    if where is None:
        return named
    for value_index, value in enumerate(where.values):
        if isinstance(value, str):
            named[f"v{value_index}"] = value
            named[f"head{value_index}"] = value[:INDEXED_CHARACTERS]
            named[f"cut{value_index}"] = int(len(value) > INDEXED_CHARACTERS)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            named[f"v{value_index}"] = as_numeric(value)
    for rows in tables(where.condition):
        wanted = [[_json_text(where.values[value_index]) for value_index in row] for row in rows]
        named[f"rows{rows[0][0]}"] = [Jsonb(f"[{', '.join(row)}]", str) for row in wanted]
    for value_index in prefix_indexes(where):
        upper = text_after_prefix(where.values[value_index])
        assert upper is not None  # noqa: S101  # see filters.held
        named[f"u{value_index}"] = upper
        named[f"upper{value_index}"] = upper[:INDEXED_CHARACTERS]
    return named


def _json_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else str(as_numeric(value))


class _Postgres:
    """See dialect.Dialect."""

    true, false = "true", "false"

    def mark(self, name: str) -> str:
        return mark(name)

    def rank(self, path: PropertyPath) -> str:
        return rank_sql(path)

    def value(self, path: PropertyPath, rank: int) -> str:
        return _number_sql(path) if rank == NUMBER else _text_sql(path)

    def matches(
        self, path: PropertyPath, where: Literal["start", "end", "anywhere"], value_index: int
    ) -> str:
        text, wanted = _text_sql(path), mark(f"v{value_index}")
        holds = {
            "start": f"{text} >= {wanted} AND {text} < {mark(f'u{value_index}')}",
            "end": f"right({text}, length({wanted})) = {wanted}",
            "anywhere": f"strpos({text}, {wanted}) > 0",
        }
        return f"({rank_sql(path)} = {STRING} AND {holds[where]})"

    def holds(self, path: PropertyPath, rank: int, value_index: int | None) -> str:
        if value_index is None:
            element = f"'[{_NO_VALUE[rank]}]'"
        else:
            kind = "numeric" if rank == NUMBER else "text"
            element = f"jsonb_build_array({mark(f'v{value_index}')}::{kind})"
        return f"({rank_sql(path)} = {ARRAY} AND {json_sql(path)} @> {element})"

    def among(self, columns: Columns, rows: ValueRows) -> str:
        # One list of one value, which the database hashes. Equal in jsonb is equal with the type.
        values = ", ".join(json_sql(path) for path, _ in columns)
        return f"jsonb_build_array({values}) = ANY({mark(f'rows{rows[0][0]}')})"


condition_sql: Final = ConditionWriter(_Postgres()).write


@lru_cache(maxsize=1024)
def candidate_sql(candidate: IndexCandidate) -> str:
    """The range of entries with the items of a candidate, and perhaps a few others."""
    return _narrowed(candidate.term)


def entry_sql(rank: int, value: str) -> str:
    """The entry of a value: rank, measure and head, as far as the value is known."""
    measure = value if rank == NUMBER else "0"
    head = value if rank == STRING else "''"
    return f"{rank}, {measure}, {head}"


def _text_sql(path: PropertyPath) -> str:
    return f"""({json_sql(path)} #>> '{{}}' COLLATE "C")"""


def _literal(name: str) -> str:
    """A property's name in SQL that is to have values bound."""
    return "'" + name.replace("'", "''").replace("%", "%%") + "'"


def _narrowed(term: Condition) -> str:
    return _NARROWED[type(term)](term)


def _typed(term: HasType) -> str:
    has_type = typed_sql("rank", term.ranks)
    if len(term.ranks) == 1 and has_single_value(term.ranks[0]):
        return f"({has_type} AND measure = 0 AND head = '')"
    return has_type


def _compared(term: Comparison) -> str:
    value_index = term.value
    if term.rank == NUMBER:
        end = " AND head = ''" if term.operator == "=" else ""
        return f"(rank = {NUMBER} AND measure {term.operator} {mark(f'v{value_index}')}{end})"
    wanted = mark(f"head{value_index}")
    if term.operator == "=":
        is_cut = mark(f"cut{value_index}")
        return f"(rank = {STRING} AND measure = {is_cut} AND head = {wanted})"
    # What begins alike may be on either side.
    return f"({_TEXTS} AND head {term.operator[0]}= {wanted})"


def _matched(term: TextMatch) -> str:
    low, high = mark(f"head{term.value}"), mark(f"upper{term.value}")
    return f"({_TEXTS} AND head >= {low} AND head <= {high})"


def _some(term: AnyOf) -> str:
    lists, others = equalities(term.terms)
    parts = [*map(_narrowed, others)]
    for (_, rank), value_indexes in lists.items():
        if rank == NUMBER:
            values = ", ".join(mark(f"v{value_index}") for value_index in value_indexes)
            parts.append(f"(rank = {NUMBER} AND measure IN ({values}))")
        else:
            values = ", ".join(mark(f"head{value_index}") for value_index in value_indexes)
            parts.append(f"({_TEXTS} AND head IN ({values}))")
    return f"({' OR '.join(parts)})"


# Both measures are listed: an index then has its next column in order for each of them.
_TEXTS: Final = f"rank = {STRING} AND measure IN (0, 1)"

_NARROWED: Final[dict[type, Callable[[Any], str]]] = {
    HasType: _typed,
    Comparison: _compared,
    TextMatch: _matched,
    AnyOf: _some,
    AllOf: lambda term: f"({' AND '.join(map(_narrowed, term.terms))})",
}
