"""Conditions as SQL over `doc`, the jsonb copy of an item, and what property indexes are made of.

An index holds four expressions: the rank of the type; the number, or for a text whether it is cut
off; the beginning of the text; the item's number. What a value does not have is 0 and '', so one
value is one stretch of the index in the order of creation, and all values are in the order of
ORDER BY. Texts are cut because an index entry must fit into a third of a page: whoever asks an
index for texts asks for the whole text as well. An index serves exactly the expressions it was made
with, so they are written here and nowhere else.
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
    Compared,
    Condition,
    Every,
    Filter,
    Matched,
    Path,
    Some,
    Typed,
    has_only_value,
)
from perseid.store.dialect import (
    Columns,
    ConditionWriter,
    Rows,
    behind,
    equalities,
    starts,
    tables,
    typed_sql,
)
from perseid.store.leads import Lead
from perseid.store.postgres.documents import as_numeric

# Characters of a text that an index holds: at most four bytes each.
LONGEST: Final = 200
_NO_VALUE: Final = {NULL: "null", FALSE: "false", TRUE: "true"}


def mark(name: str) -> str:
    return f"%({name})s"


@lru_cache(maxsize=4096)
def json_sql(path: Path) -> str:
    """What the path leads to; NULL if that is nothing."""
    found = "doc"
    for step in path:
        if isinstance(step, int):
            # A scalar would give itself as its element 0.
            found = f"(CASE jsonb_typeof({found}) WHEN 'array' THEN {found} -> {step} END)"
        else:
            found = f"({found} -> {_literal(step)})"
    return found


@lru_cache(maxsize=4096)
def rank_sql(path: Path) -> str:
    """The rank of the type of what the path leads to."""
    found = json_sql(path)
    return (
        f"(CASE jsonb_typeof({found}) WHEN 'number' THEN {NUMBER} WHEN 'string' THEN {STRING}"
        f" WHEN 'boolean' THEN CASE {found} WHEN 'true' THEN {TRUE} ELSE {FALSE} END"
        f" WHEN 'null' THEN {NULL} WHEN 'array' THEN {ARRAY} WHEN 'object' THEN {OBJECT}"
        f" ELSE {UNDEFINED} END)"
    )


@lru_cache(maxsize=4096)
def measure_sql(path: Path) -> str:
    """The number there; 1 for a text that an index cuts off, 0 for everything else."""
    found = json_sql(path)
    return (
        f"(CASE jsonb_typeof({found}) WHEN 'number' THEN {found}::numeric"
        f" WHEN 'string' THEN CASE WHEN length({found} #>> '{{}}') > {LONGEST} THEN 1 ELSE 0 END"
        " ELSE 0 END)"
    )


@lru_cache(maxsize=4096)
def head_sql(path: Path) -> str:
    """The beginning of the text there; '' for everything else."""
    found = json_sql(path)
    text = f"CASE jsonb_typeof({found}) WHEN 'string' THEN {found} #>> '{{}}' ELSE '' END"
    return f'(left({text}, {LONGEST}) COLLATE "C")'


def index_parts(path: Path) -> tuple[str, str, str, str]:
    """What an index over the path holds, in its order."""
    return rank_sql(path), measure_sql(path), head_sql(path), "number"


def index_columns(path: Path) -> str:
    """The same as it is written to make the index, in a statement that has no values bound."""
    *expressions, number = index_parts(path)
    columns = ", ".join(f"({each})" for each in expressions)
    return f"{columns}, {number}".replace("%%", "%")


def bindings(found: Filter | None) -> dict[str, Any]:
    """The values by the names the SQL has for them; those of texts also as an index has them."""
    named: dict[str, Any] = {}
    if found is None:
        return named
    for place, value in enumerate(found.values):
        if isinstance(value, str):
            named[f"v{place}"] = value
            named[f"head{place}"] = value[:LONGEST]
            named[f"cut{place}"] = int(len(value) > LONGEST)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            named[f"v{place}"] = as_numeric(value)
    for rows in tables(found.condition):
        wanted = [[_json_text(found.values[place]) for place in row] for row in rows]
        named[f"rows{rows[0][0]}"] = [Jsonb(f"[{', '.join(row)}]", str) for row in wanted]
    for place in starts(found):
        upper = behind(found.values[place])
        assert upper is not None  # noqa: S101  # see filters.held
        named[f"u{place}"] = upper
        named[f"upper{place}"] = upper[:LONGEST]
    return named


def _json_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else str(as_numeric(value))


class _Postgres:
    """See dialect.Dialect."""

    true, false = "true", "false"

    def mark(self, name: str) -> str:
        return mark(name)

    def rank(self, path: Path) -> str:
        return rank_sql(path)

    def value(self, path: Path, rank: int) -> str:
        return measure_sql(path) if rank == NUMBER else _text_sql(path)

    def matches(self, path: Path, where: Literal["start", "end", "anywhere"], place: int) -> str:
        text, wanted = _text_sql(path), mark(f"v{place}")
        holds = {
            "start": f"{text} >= {wanted} AND {text} < {mark(f'u{place}')}",
            "end": f"right({text}, length({wanted})) = {wanted}",
            "anywhere": f"strpos({text}, {wanted}) > 0",
        }
        return f"({rank_sql(path)} = {STRING} AND {holds[where]})"

    def holds(self, path: Path, rank: int, place: int | None) -> str:
        if place is None:
            element = f"'[{_NO_VALUE[rank]}]'"
        else:
            kind = "numeric" if rank == NUMBER else "text"
            element = f"jsonb_build_array({mark(f'v{place}')}::{kind})"
        return f"({rank_sql(path)} = {ARRAY} AND {json_sql(path)} @> {element})"

    def among(self, columns: Columns, rows: Rows) -> str:
        # One list of one value, which the database hashes. Equal in jsonb is equal with the type.
        found = ", ".join(json_sql(path) for path, _ in columns)
        return f"jsonb_build_array({found}) = ANY({mark(f'rows{rows[0][0]}')})"


condition_sql: Final = ConditionWriter(_Postgres()).write


@lru_cache(maxsize=1024)
def lead_sql(lead: Lead) -> str:
    """Where an index over the path has the items of a lead, and perhaps a few others."""
    return _narrowed(lead.term)


def place_sql(rank: int, value: str) -> str:
    """Where an index has a value: rank, measure and head, as far as the value is known."""
    measure = value if rank == NUMBER else "0"
    head = value if rank == STRING else "''"
    return f"{rank}, {measure}, {head}"


def _text_sql(path: Path) -> str:
    return f"""({json_sql(path)} #>> '{{}}' COLLATE "C")"""


def _literal(name: str) -> str:
    """A property's name in SQL that is to have values bound."""
    return "'" + name.replace("'", "''").replace("%", "%%") + "'"


def _narrowed(term: Condition) -> str:
    return _NARROWED[type(term)](term)


def _typed(term: Typed) -> str:
    found = typed_sql(rank_sql(term.path), term.ranks)
    if len(term.ranks) == 1 and has_only_value(term.ranks[0]):
        return f"({found} AND {measure_sql(term.path)} = 0 AND {head_sql(term.path)} = '')"
    return found


def _compared(term: Compared) -> str:
    path, place = term.path, term.value
    rank, measure, head = rank_sql(path), measure_sql(path), head_sql(path)
    if term.rank == NUMBER:
        end = f" AND {head} = ''" if term.operator == "=" else ""
        return f"({rank} = {NUMBER} AND {measure} {term.operator} {mark(f'v{place}')}{end})"
    wanted = mark(f"head{place}")
    if term.operator == "=":
        is_cut = mark(f"cut{place}")
        return f"({rank} = {STRING} AND {measure} = {is_cut} AND {head} = {wanted})"
    # What begins alike may be on either side.
    return f"({_texts(path)} AND {head} {term.operator[0]}= {wanted})"


def _matched(term: Matched) -> str:
    head = head_sql(term.path)
    low, high = mark(f"head{term.value}"), mark(f"upper{term.value}")
    return f"({_texts(term.path)} AND {head} >= {low} AND {head} <= {high})"


def _some(term: Some) -> str:
    lists, others = equalities(term.terms)
    parts = [*map(_narrowed, others)]
    for (path, rank), places in lists.items():
        if rank == NUMBER:
            values = ", ".join(mark(f"v{place}") for place in places)
            parts.append(f"({rank_sql(path)} = {NUMBER} AND {measure_sql(path)} IN ({values}))")
        else:
            values = ", ".join(mark(f"head{place}") for place in places)
            parts.append(f"({_texts(path)} AND {head_sql(path)} IN ({values}))")
    return f"({' OR '.join(parts)})"


def _texts(path: Path) -> str:
    # Both values are listed: an index then has its next expression in order for each of them.
    return f"{rank_sql(path)} = {STRING} AND {measure_sql(path)} IN (0, 1)"


_NARROWED: Final[dict[type, Callable[[Any], str]]] = {
    Typed: _typed,
    Compared: _compared,
    Matched: _matched,
    Some: _some,
    Every: lambda term: f"({' AND '.join(map(_narrowed, term.terms))})",
}
