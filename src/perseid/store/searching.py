"""Finds the items that meet a condition, through an index where there is one.

A lead is a part of the condition that an index over one path can answer. Items come in the order
of their numbers all the same: an index has equal values in that order, and what a stretch of
values leads to is sorted, unless it is so much that a plain scan finds a page sooner.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import apsw
import orjson

from perseid.conditions import ARRAY, STRING, Condition, Order, Place, Typed, has_only_value
from perseid.store import leads
from perseid.store.leads import Lead
from perseid.store.pages import Filling
from perseid.store.predicates import (
    bindings,
    condition_sql,
    equality_sql,
    rank_sql,
    value_sql,
)
from perseid.store.property_indexes import indexed_by
from perseid.store.protocol import Page, Scan, Walk
from perseid.store.scanning import COLUMNS, run_scan, scope_sql
from perseid.store.schema import standing_sql


def lead_sql(lead: Lead) -> str:
    """The lead as SQL that its index serves."""
    if isinstance(lead.term, Typed) and len(lead.term.ranks) == 1:
        rank = lead.term.ranks[0]
        if has_only_value(rank):
            return equality_sql(lead.path, rank)
    return condition_sql(lead.term)


def count_up_to(
    db: apsw.Connection, number: int, scan: Scan, lead: Lead, index: str, most: int
) -> int:
    """How many items the lead has, as far as `most`."""
    scope, values = _conditions(number, scan)
    sql = (
        f"SELECT COUNT(*) FROM (SELECT 1 FROM items_{number} {indexed_by(index)}"
        f" WHERE {lead_sql(lead)} AND {scope} LIMIT {most})"
    )
    return int(db.execute(sql, values).get)


def follow(db: apsw.Connection, number: int, scan: Scan, lead: Lead, index: str) -> Page:
    """A page of the items that meet the condition, in the order of their numbers."""
    assert scan.where is not None  # noqa: S101  # there would be no lead
    condition = scan.where.condition
    if lead.strength == "value":
        scope, values = _conditions(number, scan)
        rest = None if condition is lead.term else condition
        sql = _follow_sql(COLUMNS, number, rest, lead, index, scope)
        return Filling(scan).fill(db.execute(sql, values))
    numbers = find(db, number, scan, lead, index)
    if numbers is None:
        return run_scan(db, number, scan)
    return _pick(db, number, scan, condition_sql(condition), numbers)


def find(
    db: apsw.Connection,
    number: int,
    scan: Scan,
    lead: Lead,
    index: str,
    *,
    has_graves: bool = True,
) -> list[int] | None:
    """The numbers of all live items that the lead leads to, or as many of the first as a page may
    need; None if there are so many that a scan is the shorter way."""
    scope, values = _conditions(number, scan, has_graves=has_graves)
    sql = _follow_sql("number", number, None, lead, index, scope)
    numbers = [each for (each,) in db.execute(sql, values)]
    if lead.strength != "value":
        if len(numbers) > leads.MOST_CANDIDATES:
            return None
        numbers.sort()
    return numbers


@lru_cache(maxsize=1024)
def _follow_sql(
    columns: str, number: int, condition: Condition | None, lead: Lead, index: str, scope: str
) -> str:
    """Items of one value come in the order of their numbers, those of several as they lie."""
    rest = "" if condition is None else f" AND {condition_sql(condition)}"
    order = (
        "ORDER BY number LIMIT :limit"
        if lead.strength == "value"
        else f"LIMIT {leads.MOST_CANDIDATES + 1}"
    )
    return (
        f"SELECT {columns} FROM items_{number} {indexed_by(index)}"
        f" WHERE {lead_sql(lead)}{rest} AND {scope} {order}"
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
    for step, settled, bound in _steps(order, start):
        sql = _walk_sql(COLUMNS, number, order, index, step, settled, condition, scope)
        for *columns, rank, value in db.execute(sql, values | bound):
            if not page.take(columns):
                return Walk(page.rows, Place(rank, value, columns[0]))
    return Walk(page.rows, None)


def find_first(
    db: apsw.Connection, number: int, scan: Scan, order: Order, index: str, *, has_graves: bool
) -> list[tuple[int, int, Any]]:
    """The numbers of the first live items in the order of a property, with rank and value."""
    scope, values = _conditions(number, scan, has_graves=has_graves)
    sql = _walk_sql("number", number, order, index, _whole(order), 0, None, scope)
    return list(db.execute(sql, values))


def first_numbers(
    db: apsw.Connection, number: int, scan: Scan, order: Order, index: str, *, has_graves: bool
) -> list[int]:
    """The numbers of the first live items in the order of a property, as many as a page takes."""
    scope, values = _conditions(number, scan, has_graves=has_graves)
    values["limit"] = scan.limit
    sql = _first_sql(number, order, index, scope)
    return [each for (each,) in db.execute(sql, values)]


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
    settled: int,
    condition: Condition | None,
    scope: str,
) -> str:
    where = "" if condition is None else f" AND {condition_sql(condition)}"
    columns = f"{columns}, {rank_sql(order.path)}, {value_sql(order.path)}"
    return _ordered_sql(columns, number, order, index, f"{step}{where} AND {scope}", settled)


@lru_cache(maxsize=1024)
def _first_sql(number: int, order: Order, index: str, scope: str) -> str:
    return _ordered_sql("number", number, order, index, f"{_whole(order)} AND {scope}")


def _ordered_sql(
    columns: str, number: int, order: Order, index: str, where: str, settled: int = 0
) -> str:
    """Items in the order of the index, of whose columns so many have one value there.

    Those are left out of ORDER BY: SQLite does not see that they need no sorting, where they are
    expressions, and would sort all the rest of the index for each page.
    """
    backwards = " DESC" if order.is_descending else ""
    keys = (rank_sql(order.path), value_sql(order.path), "number")[settled:]
    return (
        f"SELECT {columns} FROM items_{number} {indexed_by(index)} WHERE {where}"
        f" ORDER BY {', '.join(f'{key}{backwards}' for key in keys)} LIMIT :limit"
    )


@lru_cache(maxsize=1024)
def _whole(order: Order) -> str:
    """All of the index that is in the order of the language."""
    return f"{rank_sql(order.path)} <= {STRING}"


def _steps(order: Order, start: Place | None) -> list[tuple[str, int, dict[str, Any]]]:
    """The stretches of the index from `start` on, each as SQL, how many columns of the index have
    one value there, and what it binds."""
    if start is None:
        return [(_whole(order), 0, {})]
    rank, value = rank_sql(order.path), value_sql(order.path)
    on, behind = ("<=", "<") if order.is_descending else (">=", ">")
    here = f"{rank} = {start.rank}"
    others: tuple[str, int, dict[str, Any]] = (
        f"{rank} {behind} {start.rank} AND {rank} <= {STRING}",
        0,
        {},
    )
    at = {"start_number": start.number}
    if has_only_value(start.rank):
        only = equality_sql(order.path, start.rank)
        return [(f"{only} AND number {on} :start_number", 2, at), others]
    bound = {"start_value": start.value}
    return [
        (f"{here} AND {value} = :start_value AND number {on} :start_number", 2, bound | at),
        (f"{here} AND {value} {behind} :start_value", 1, bound),
        others,
    ]


def _conditions(number: int, scan: Scan, *, has_graves: bool = True) -> tuple[str, dict[str, Any]]:
    """What the scan asks besides its condition, and all values.

    Whether partitions were cleared is asked of the file, unless the caller knows that none were:
    then an index alone tells all, without a look at the table.
    """
    scope, values = scope_sql(scan)
    values.update(bindings(scan.where))
    return _standing(scope, number) if has_graves else scope, values


@lru_cache(maxsize=1024)
def _standing(scope: str, number: int) -> str:
    return f"{scope} AND {standing_sql(number)}"
