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
from perseid.model import Row
from perseid.store import leads
from perseid.store.leads import Lead
from perseid.store.pages import Filling, collect
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
    scope, values = _conditions(number, scan)
    sql = _follow_sql(number, scan.where.condition, lead, index, scope)
    if lead.strength == "value":
        values["limit"] = scan.limit + 1
        return collect(db.execute(sql, values), scan)
    numbers = [each for (each,) in db.execute(sql, values)]
    if len(numbers) > leads.MOST_CANDIDATES:
        return run_scan(db, number, scan)
    numbers.sort()
    return _pick(db, number, scan, condition_sql(scan.where.condition), numbers)


@lru_cache(maxsize=1024)
def _follow_sql(number: int, condition: Condition, lead: Lead, index: str, scope: str) -> str:
    """The items of one value, or the numbers of the items of several."""
    source = f"FROM items_{number} {indexed_by(index)}"
    if lead.strength == "value":
        rest = "" if condition is lead.term else f" AND {condition_sql(condition)}"
        return (
            f"SELECT {COLUMNS} {source} WHERE {lead_sql(lead)}{rest} AND {scope}"
            " ORDER BY number LIMIT :limit"
        )
    most = leads.MOST_CANDIDATES + 1
    return f"SELECT number {source} WHERE {lead_sql(lead)} AND {scope} LIMIT {most}"


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
        for columns in db.execute(sql, values):
            if not page.take(Row._make(columns)):
                return Page(page.rows, True)
    return Page(page.rows, False)


def walk(
    db: apsw.Connection, number: int, scan: Scan, order: Order, index: str, start: Place | None
) -> Walk | None:
    """The next items in the order of a property, from `start` on, which is included.

    None if arrays or objects are among the values: their order is not that of their texts.
    """
    if db.execute(_nested_sql(number, order, index)).get:
        return None
    scope, values = _conditions(number, scan)
    condition = None if scan.where is None else scan.where.condition
    page = Filling(scan)
    for step, bound in _steps(order, start):
        sql = _walk_sql(number, order, index, step, condition, scope)
        values |= bound
        values["limit"] = page.wanted
        for *columns, found_rank, found_value in db.execute(sql, values):
            row = Row._make(columns)
            if not page.take(row):
                return Walk(page.rows, Place(found_rank, found_value, row.number))
    return Walk(page.rows, None)


@lru_cache(maxsize=1024)
def _nested_sql(number: int, order: Order, index: str) -> str:
    source = f"items_{number} {indexed_by(index)}"
    return f"SELECT EXISTS (SELECT 1 FROM {source} WHERE {rank_sql(order.path)} >= {ARRAY})"


@lru_cache(maxsize=1024)
def _walk_sql(
    number: int, order: Order, index: str, step: str, condition: Condition | None, scope: str
) -> str:
    rank, value = rank_sql(order.path), value_sql(order.path)
    backwards = " DESC" if order.is_descending else ""
    where = "" if condition is None else f" AND {condition_sql(condition)}"
    return (
        f"SELECT {COLUMNS}, {rank}, {value} FROM items_{number} {indexed_by(index)}"
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
