"""Searches that use a property index, as SQL.

Without an order, items come by number: an index has equal values in that order, and the items of a
range of values are sorted, unless there are so many that a plain scan finds a page sooner.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import apsw
import orjson

from perseid.conditions import (
    ARRAY,
    STRING,
    Condition,
    HasType,
    Order,
    OrderPosition,
    has_single_value,
)
from perseid.store.sql import candidates
from perseid.store.sql.candidates import IndexCandidate
from perseid.store.sql.pages import RowPageBuilder
from perseid.store.sqlite.conditions_sql import (
    bindings,
    condition_sql,
    equality_sql,
    rank_sql,
    value_sql,
)
from perseid.store.sqlite.indexes import indexed_by
from perseid.store.sqlite.scans import COLUMNS, scan_items, scope_sql
from perseid.store.sqlite.schema import visible_sql
from perseid.store.types import Search, SearchPage


def candidate_sql(candidate: IndexCandidate) -> str:
    """The candidate as SQL that its index serves."""
    if isinstance(candidate.term, HasType) and len(candidate.term.ranks) == 1:
        rank = candidate.term.ranks[0]
        if has_single_value(rank):
            return equality_sql(candidate.path, rank)
    return condition_sql(candidate.term)


def count_up_to(
    db: apsw.Connection,
    number: int,
    search: Search,
    candidate: IndexCandidate,
    index: str,
    most: int,
) -> int:
    """How many items the candidate has, counted up to `most`."""
    scope, values = _conditions(number, search)
    sql = (
        f"SELECT COUNT(*) FROM (SELECT 1 FROM items_{number} {indexed_by(index)}"
        f" WHERE {candidate_sql(candidate)} AND {scope} LIMIT {most})"
    )
    return int(db.execute(sql, values).get)


def search_by_index(
    db: apsw.Connection, number: int, search: Search, candidate: IndexCandidate, index: str
) -> SearchPage:
    """A page of the items that meet the condition, in the order of their numbers."""
    assert search.where is not None  # noqa: S101  # else there is no candidate
    condition = search.where.condition
    if candidate.selectivity == "value":
        scope, values = _conditions(number, search)
        rest = None if condition is candidate.term else condition
        sql = _search_by_index_sql(COLUMNS, number, rest, candidate, index, scope)
        return RowPageBuilder(search).fill(db.execute(sql, values))
    numbers = find(db, number, search, candidate, index)
    if numbers is None:
        return scan_items(db, number, search)
    return _pick(db, number, search, condition_sql(condition), numbers)


def find(
    db: apsw.Connection,
    number: int,
    search: Search,
    candidate: IndexCandidate,
    index: str,
    *,
    has_tombstones: bool = True,
) -> list[int] | None:
    """The numbers of the live items of a candidate, all or as many as a page needs; None if there
    are so many that a scan is faster."""
    scope, values = _conditions(number, search, has_tombstones=has_tombstones)
    sql = _search_by_index_sql("number", number, None, candidate, index, scope)
    numbers = [each for (each,) in db.execute(sql, values)]
    if candidate.selectivity != "value":
        if len(numbers) > candidates.MAX_INDEXED_ITEMS:
            return None
        numbers.sort()
    return numbers


@lru_cache(maxsize=1024)
def _search_by_index_sql(
    columns: str,
    number: int,
    condition: Condition | None,
    candidate: IndexCandidate,
    index: str,
    scope: str,
) -> str:
    """Items of one value come by number, those of several values in the order of the index."""
    rest = "" if condition is None else f" AND {condition_sql(condition)}"
    order = (
        "ORDER BY number LIMIT :limit"
        if candidate.selectivity == "value"
        else f"LIMIT {candidates.MAX_INDEXED_ITEMS + 1}"
    )
    return (
        f"SELECT {columns} FROM items_{number} {indexed_by(index)}"
        f" WHERE {candidate_sql(candidate)}{rest} AND {scope} {order}"
    )


def _pick(
    db: apsw.Connection, number: int, search: Search, where: str, numbers: list[int]
) -> SearchPage:
    """The first of the numbered items that meet the condition."""
    sql = (
        f"SELECT {COLUMNS} FROM (SELECT value AS wanted FROM json_each(:numbers))"
        f" CROSS JOIN visible_{number} ON number = wanted WHERE {where}"
    )
    values = bindings(search.where)
    page = RowPageBuilder(search)
    step = search.limit + 1
    for first in range(0, len(numbers), step):
        values["numbers"] = orjson.dumps(numbers[first : first + step]).decode()
        if page.fill(db.execute(sql, values)).has_more:
            return SearchPage(page.rows, True)
    return SearchPage(page.rows, False)


def ordered_search(
    db: apsw.Connection,
    number: int,
    search: Search,
    order: Order,
    index: str,
) -> SearchPage:
    """The next items in the order of a property."""
    scope, values = _conditions(number, search)
    condition = None if search.where is None else search.where.condition
    page = RowPageBuilder(search)
    for step, fixed_columns, bound in _index_ranges(order, search.start):
        sql = _ordered_search_sql(
            COLUMNS, number, order, index, step, fixed_columns, condition, scope
        )
        for *columns, rank, value in db.execute(sql, values | bound):
            if not page.add_columns(columns):
                position = OrderPosition(rank, value, columns[0])
                return SearchPage(page.rows, True, position, True)
    return SearchPage(page.rows, False, None, True)


def find_first(
    db: apsw.Connection,
    number: int,
    search: Search,
    order: Order,
    index: str,
    *,
    has_tombstones: bool,
) -> list[tuple[int, int, Any]]:
    """The numbers of the first live items in the order of a property, with rank and value."""
    scope, values = _conditions(number, search, has_tombstones=has_tombstones)
    sql = _ordered_search_sql("number", number, order, index, _sortable_sql(order), 0, None, scope)
    return list(db.execute(sql, values))


def first_numbers(
    db: apsw.Connection,
    number: int,
    search: Search,
    order: Order,
    index: str,
    *,
    has_tombstones: bool,
) -> list[int]:
    """The numbers of the first live items in the order of a property, as many as a page takes."""
    scope, values = _conditions(number, search, has_tombstones=has_tombstones)
    values["limit"] = search.limit
    sql = _first_sql(number, order, index, scope)
    return [each for (each,) in db.execute(sql, values)]


def has_nested(db: apsw.Connection, number: int, order: Order, index: str) -> bool:
    """True if arrays or objects are among the values: their order is not that of their texts."""
    return bool(db.execute(_nested_sql(number, order, index)).get)


@lru_cache(maxsize=1024)
def _nested_sql(number: int, order: Order, index: str) -> str:
    source = f"items_{number} {indexed_by(index)}"
    return f"SELECT EXISTS (SELECT 1 FROM {source} WHERE {rank_sql(order.path)} >= {ARRAY})"


@lru_cache(maxsize=1024)
def _ordered_search_sql(
    columns: str,
    number: int,
    order: Order,
    index: str,
    step: str,
    fixed_columns: int,
    condition: Condition | None,
    scope: str,
) -> str:
    where = "" if condition is None else f" AND {condition_sql(condition)}"
    columns = f"{columns}, {rank_sql(order.path)}, {value_sql(order.path)}"
    return _ordered_sql(columns, number, order, index, f"{step}{where} AND {scope}", fixed_columns)


@lru_cache(maxsize=1024)
def _first_sql(number: int, order: Order, index: str, scope: str) -> str:
    return _ordered_sql("number", number, order, index, f"{_sortable_sql(order)} AND {scope}")


def _ordered_sql(
    columns: str, number: int, order: Order, index: str, where: str, fixed_columns: int = 0
) -> str:
    """Items in the order of the index. `fixed_columns` of its columns have one value in `where`.

    Those are left out of ORDER BY: they are expressions, so SQLite does not see that they need no
    sorting, and would sort the rest of the index for each page.
    """
    backwards = " DESC" if order.is_descending else ""
    keys = (rank_sql(order.path), value_sql(order.path), "number")[fixed_columns:]
    return (
        f"SELECT {columns} FROM items_{number} {indexed_by(index)} WHERE {where}"
        f" ORDER BY {', '.join(f'{key}{backwards}' for key in keys)} LIMIT :limit"
    )


@lru_cache(maxsize=1024)
def _sortable_sql(order: Order) -> str:
    """The part of the index whose order is that of the query language."""
    return f"{rank_sql(order.path)} <= {STRING}"


def _index_ranges(
    order: Order, start: OrderPosition | None
) -> list[tuple[str, int, dict[str, Any]]]:
    """The ranges of the index from `start` on: SQL, how many columns of the index have one value in
    it, and the values it binds."""
    if start is None:
        return [(_sortable_sql(order), 0, {})]
    rank, value = rank_sql(order.path), value_sql(order.path)
    on, beyond = ("<=", "<") if order.is_descending else (">=", ">")
    same_rank = f"{rank} = {start.rank}"
    others: tuple[str, int, dict[str, Any]] = (
        f"{rank} {beyond} {start.rank} AND {rank} <= {STRING}",
        0,
        {},
    )
    at = {"start_number": start.number}
    if has_single_value(start.rank):
        only = equality_sql(order.path, start.rank)
        return [(f"{only} AND number {on} :start_number", 2, at), others]
    bound = {"start_value": start.value}
    return [
        (f"{same_rank} AND {value} = :start_value AND number {on} :start_number", 2, bound | at),
        (f"{same_rank} AND {value} {beyond} :start_value", 1, bound),
        others,
    ]


def _conditions(
    number: int, search: Search, *, has_tombstones: bool = True
) -> tuple[str, dict[str, Any]]:
    """The scope of the search, and all values.

    Without tombstones the index alone answers the search; with them SQLite reads the table, too.
    """
    scope, values = scope_sql(search)
    values.update(bindings(search.where))
    return _with_visible(scope, number) if has_tombstones else scope, values


@lru_cache(maxsize=1024)
def _with_visible(scope: str, number: int) -> str:
    return f"{scope} AND {visible_sql(number)}"
