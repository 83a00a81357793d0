"""Finds the items that meet a condition, through an index where there is one.

A lead is a part of the condition that an index over one path can answer. Items come in the order
of their numbers all the same: an index has equal values in that order, and what a stretch of
values leads to is sorted, unless it is so much that a plain scan finds a page sooner.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import apsw
import orjson

from perseid.conditions import (
    ARRAY,
    STRING,
    Compared,
    Condition,
    Matched,
    Order,
    Path,
    Place,
    Some,
    Typed,
    conjuncts,
    every,
    some,
)
from perseid.store.predicates import (
    bindings,
    condition_sql,
    equality_sql,
    has_only_value,
    rank_sql,
    value_sql,
)
from perseid.store.property_indexes import indexed_by
from perseid.store.protocol import Page, Scan, Walk
from perseid.store.scanning import COLUMNS, Filling, run_scan, scope_sql
from perseid.store.schema import standing_sql

# More candidates than this are dense enough for a scan to meet a page of them soon.
_MOST_CANDIDATES: Final = 20_000
# Up to so many are sorted rather than looked for along the order of another property.
FEW: Final = 1000


# How much an index narrows a search down: to one value, some, a stretch of them, …
Strength: TypeAlias = Literal["value", "values", "stretch", "side", "type"]
_STRENGTHS: Final[tuple[Strength, ...]] = ("value", "values", "stretch", "side", "type")


class Lead(NamedTuple):
    """A part of a condition that is about one path."""

    path: Path
    term: Condition
    strength: Strength

    @property
    def sql(self) -> str:
        if isinstance(self.term, Typed) and len(self.term.ranks) == 1:
            rank = self.term.ranks[0]
            if has_only_value(rank):
                return equality_sql(self.path, rank)
        return condition_sql(self.term)


@lru_cache(maxsize=1024)
def leads(condition: Condition) -> tuple[Lead, ...]:
    """What indexes could answer, the most promising first."""
    by_path: dict[Path, list[Lead]] = {}
    for term in conjuncts(condition):
        for lead in _leads_of(term):
            by_path.setdefault(lead.path, []).append(lead)
    result = []
    for path, parts in by_path.items():
        strength = min((each.strength for each in parts), key=_STRENGTHS.index)
        if strength == "side" and sum(each.strength == "side" for each in parts) > 1:
            strength = "stretch"
        result.append(Lead(path, every([each.term for each in parts]), strength))
    return tuple(sorted(result, key=lambda lead: _STRENGTHS.index(lead.strength)))


def _leads_of(term: Condition) -> list[Lead]:
    if isinstance(term, Compared):
        return [Lead(term.path, term, "value" if term.operator == "=" else "side")]
    if isinstance(term, Matched):
        return [Lead(term.path, term, "stretch")] if term.where == "start" else []
    if isinstance(term, Typed):
        is_one = len(term.ranks) == 1 and has_only_value(term.ranks[0])
        return [Lead(term.path, term, "value" if is_one else "type")]
    if isinstance(term, Some):
        return _common_leads(term.terms)
    return []


def _common_leads(terms: tuple[Condition, ...]) -> list[Lead]:
    """What alternatives have in common: a path that each of them wants a value of."""
    found: dict[Path, list[Condition]] | None = None
    for term in terms:
        values = {
            lead.path: lead.term
            for part in conjuncts(term)
            for lead in _leads_of(part)
            if lead.strength == "value"
        }
        if found is None:
            found = {path: [each] for path, each in values.items()}
        else:
            found = {path: [*found[path], values[path]] for path in found if path in values}
    return [Lead(path, some(parts), "values") for path, parts in (found or {}).items()]


def count_up_to(
    db: apsw.Connection, number: int, scan: Scan, lead: Lead, index: str, most: int
) -> int:
    """How many items the lead has, as far as `most`."""
    scope, values = _conditions(number, scan)
    sql = (
        f"SELECT COUNT(*) FROM (SELECT 1 FROM items_{number} {indexed_by(index)}"
        f" WHERE {lead.sql} AND {scope} LIMIT {most})"
    )
    return int(db.execute(sql, values).get)


def follow(db: apsw.Connection, number: int, scan: Scan, lead: Lead, index: str) -> Page:
    """A page of the items that meet the condition, in the order of their numbers."""
    assert scan.where is not None  # noqa: S101  # there would be no lead
    condition = scan.where.condition
    if lead.strength == "value":
        scope, values = _conditions(number, scan)
        sql = _follow_sql(COLUMNS, number, condition, lead, index, scope)
        return Filling(scan).fill(db.execute(sql, values))
    numbers = find(db, number, scan, lead, index)
    if numbers is None:
        return run_scan(db, number, scan)
    return _pick(db, number, scan, condition_sql(condition), numbers)


def find(db: apsw.Connection, number: int, scan: Scan, lead: Lead, index: str) -> list[int] | None:
    """The numbers of all live items that the lead leads to, or as many of the first as a page may
    need; None if there are so many that a scan is the shorter way."""
    scope, values = _conditions(number, scan)
    sql = _follow_sql("number", number, lead.term, lead, index, scope)
    numbers = [each for (each,) in db.execute(sql, values)]
    if lead.strength != "value":
        if len(numbers) > _MOST_CANDIDATES:
            return None
        numbers.sort()
    return numbers


@lru_cache(maxsize=1024)
def _follow_sql(
    columns: str, number: int, condition: Condition, lead: Lead, index: str, scope: str
) -> str:
    """Items of one value come in the order of their numbers, those of several as they lie."""
    rest = "" if condition is lead.term else f" AND {condition_sql(condition)}"
    order = (
        "ORDER BY number LIMIT :limit"
        if lead.strength == "value"
        else f"LIMIT {_MOST_CANDIDATES + 1}"
    )
    return (
        f"SELECT {columns} FROM items_{number} {indexed_by(index)}"
        f" WHERE {lead.sql}{rest} AND {scope} {order}"
    )


def _pick(db: apsw.Connection, number: int, scan: Scan, where: str, numbers: list[int]) -> Page:
    """The first of the numbered items that meet the condition."""
    sql = (
        f"SELECT {COLUMNS} FROM (SELECT value AS wanted FROM json_each(:numbers))"
        f" CROSS JOIN standing_{number} ON number = wanted WHERE {where}"
    )
    values = bindings(scan.where)
    page = Filling(scan)
    step = scan.limit + 1
    for first in range(0, len(numbers), step):
        values["numbers"] = orjson.dumps(numbers[first : first + step]).decode()
        _, has_more = page.fill(db.execute(sql, values))
        if has_more:
            return Page(page.rows, True)
    return Page(page.rows, False)


def walk(
    db: apsw.Connection, number: int, scan: Scan, order: Order, index: str, start: Place | None
) -> Walk:
    """The next items in the order of a property, from `start` on, which is included."""
    scope, values = _conditions(number, scan)
    condition = None if scan.where is None else scan.where.condition
    page = Filling(scan)
    for step, bound in _steps(order, start):
        sql = _walk_sql(COLUMNS, number, order, index, step, condition, scope)
        for *columns, rank, value in db.execute(sql, values | bound):
            if not page.take(columns):
                return Walk(page.rows, Place(rank, value, columns[0]))
    return Walk(page.rows, None)


def find_first(
    db: apsw.Connection, number: int, scan: Scan, order: Order, index: str
) -> list[tuple[int, int, Any]]:
    """The numbers of the first live items in the order of a property, with rank and value."""
    scope, values = _conditions(number, scan)
    ((step, bound),) = _steps(order, None)
    sql = _walk_sql("number", number, order, index, step, None, scope)
    return list(db.execute(sql, values | bound))


def has_nested(db: apsw.Connection, number: int, order: Order, index: str) -> bool:
    """Whether arrays or objects are among the values: their order is not that of their texts."""
    return bool(db.execute(_nested_sql(number, order, index)).get)


@lru_cache(maxsize=1024)
def _nested_sql(number: int, order: Order, index: str) -> str:
    source = f"items_{number} {indexed_by(index)}"
    return f"SELECT EXISTS (SELECT 1 FROM {source} WHERE {rank_sql(order.path)} >= {ARRAY})"


@lru_cache(maxsize=1024)
def _walk_sql(
    columns: str,
    number: int,
    order: Order,
    index: str,
    step: str,
    condition: Condition | None,
    scope: str,
) -> str:
    rank, value = rank_sql(order.path), value_sql(order.path)
    backwards = " DESC" if order.is_descending else ""
    where = "" if condition is None else f" AND {condition_sql(condition)}"
    return (
        f"SELECT {columns}, {rank}, {value} FROM items_{number} {indexed_by(index)}"
        f" WHERE {step}{where} AND {scope}"
        f" ORDER BY {rank}{backwards}, {value}{backwards}, number{backwards} LIMIT :limit"
    )


def _steps(order: Order, start: Place | None) -> list[tuple[str, dict[str, Any]]]:
    """The stretches of the index from `start` on, each as SQL and what it binds."""
    rank, value = rank_sql(order.path), value_sql(order.path)
    if start is None:
        return [(f"{rank} <= {STRING}", {})]
    on, behind = ("<=", "<") if order.is_descending else (">=", ">")
    here = f"{rank} = {start.rank}"
    others: tuple[str, dict[str, Any]] = (
        f"{rank} {behind} {start.rank} AND {rank} <= {STRING}",
        {},
    )
    at = {"start_number": start.number}
    if has_only_value(start.rank):
        return [(f"{here} AND number {on} :start_number", at), others]
    bound = {"start_value": start.value}
    return [
        (f"{here} AND {value} = :start_value AND number {on} :start_number", bound | at),
        (f"{here} AND {value} {behind} :start_value", bound),
        others,
    ]


def _conditions(number: int, scan: Scan) -> tuple[str, dict[str, Any]]:
    """What the scan asks besides its condition, and all values."""
    scope, values = scope_sql(scan)
    values.update(bindings(scan.where))
    return f"{scope} AND {standing_sql(number)}", values
