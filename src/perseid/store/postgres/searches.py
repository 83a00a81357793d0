"""Statements that list and count the items of one container.

A container's number is written into them, not bound: otherwise the database could not know that a
property index, which covers one container, serves the statement.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from perseid.conditions import ARRAY, NUMBER, STRING, Order, OrderPosition, PropertyPath
from perseid.model import RANGE_SHIFT, Container
from perseid.store.postgres.catalog_version import VERSION_SQL
from perseid.store.postgres.conditions_sql import (
    bindings,
    candidate_sql,
    condition_sql,
    head_sql,
    index_key_sql,
    index_parts,
    json_sql,
    mark,
    measure_sql,
    rank_sql,
)
from perseid.store.postgres.numbers import as_numeric, from_numeric
from perseid.store.postgres.pool import DatabaseConnection, pooled_connection
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.statements import COLUMNS, VERSION
from perseid.store.sql import candidates, scope
from perseid.store.sql.candidates import IndexCandidate
from perseid.store.sql.pages import RowPageBuilder
from perseid.store.types import NOT_ORDERED, Search, SearchPage
from perseid.ttl import LIVE_SQL

_LIVE: Final = LIVE_SQL.replace(":inherited", mark("inherited")).replace(":own", mark("own"))
# Groups that are fetched together.
_BATCH: Final = 2000


class ScopeSql(NamedTuple):
    """The scope of a search as SQL, with the values of scope and condition."""

    sql: str
    values: dict[str, Any]


def scope_of(container: Container, search: Search) -> ScopeSql:
    """The scope of a scan: ranges, keys and numbers.

    One range is selected by equality with its part, which on a Citus cluster finds its node.
    """
    text, values = scope.scope_sql(search, mark, _LIVE)
    if search.range_index is None:
        where = f"part = ANY({mark('parts')})"
        values["parts"] = [range_key(container.number, part.index) for part in container.ranges]
    else:
        where = f"part = {mark('part')}"
        values["part"] = range_key(container.number, search.range_index)
    values |= bindings(search.where)
    return ScopeSql(f"{where} AND {text}", values)


def candidate_scope(container: Container, search: Search, candidate: str) -> ScopeSql:
    """The scope of a search that uses one property index."""
    text, values = scope.scope_sql(search, mark, _LIVE)
    where = f"container = {container.number:d} AND {candidate}"
    if search.range_index is not None:
        where += f" AND part = {mark('part')}"
        values["part"] = range_key(container.number, search.range_index)
    values |= bindings(search.where)
    return ScopeSql(f"{where} AND {text}", values)


async def fetch(source: QueryTarget, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    async with pooled_connection(source.pool) as db:
        cursor = db.cursor(binary=True)
        await cursor.execute(f"SELECT {VERSION_SQL}, page.* FROM ({sql}) AS page", values)
        rows = await cursor.fetchall()
        if rows:
            source.check_catalog_version(rows[0][0])
        else:
            await _check_catalog_version(source, db)
    return [row[1:] for row in rows]


async def _check_catalog_version(source: QueryTarget, db: DatabaseConnection) -> None:
    ((version,),) = await (await db.execute(VERSION)).fetchall()
    source.check_catalog_version(version)


async def scan_items(source: QueryTarget, search: Search) -> SearchPage:
    """A page of live items in the order of their numbers, which is range after range."""
    page = RowPageBuilder(search)
    for part in _parts(source.container, search):
        sql, values = scope_of(source.container, search._replace(range_index=part))
        if not await _fill(source, page, _listing_sql(_where(sql, search)), values):
            return SearchPage(page.rows, True)
    return SearchPage(page.rows, False)


async def search_by_index(
    source: QueryTarget, search: Search, candidate: IndexCandidate
) -> SearchPage:
    """A page of the items that meet the condition, found by the index of a candidate."""
    sql, values = candidate_scope(source.container, search, candidate_sql(candidate))
    if candidate.selectivity == "value":
        page = RowPageBuilder(search)
        listing = _listing_sql(_where(sql, search))
        return SearchPage(page.rows, not await _fill(source, page, listing, values))
    most = candidates.MAX_INDEXED_ITEMS
    numbers = await fetch(
        source,
        f"SELECT number FROM items WHERE {_where(sql, search)} LIMIT {most + 1}",
        values,
    )
    if len(numbers) > most:
        return await scan_items(source, search)
    return await _pick(source, search, sorted(number for (number,) in numbers))


async def count(
    source: QueryTarget,
    search: Search,
    candidate: IndexCandidate | None = None,
    most: int | None = None,
) -> int:
    """How many live items meet the condition, counted up to `most`."""
    sql, values = _scope(source.container, search, candidate)
    return await _count(source, _where(sql, search), values, most)


async def count_candidate(
    source: QueryTarget, search: Search, candidate: IndexCandidate, most: int | None
) -> int:
    """How many items the candidate has, counted up to `most`."""
    sql, values = candidate_scope(source.container, search, candidate_sql(candidate))
    return await _count(source, sql, values, most)


async def ordered_search(source: QueryTarget, search: Search, order: Order) -> SearchPage:
    """The next items in the order of a property, if the index knows the order of all values."""
    start = search.start
    if start is not None and start.rank == STRING and "\0" in start.value:
        return NOT_ORDERED  # no item has it, and it cannot be bound
    last = await fetch(source, _last_sql(source.container.number, order.path), {})
    if last and _is_nested(*last[0]):
        return NOT_ORDERED
    sql, values = candidate_scope(source.container, search, _from_sql(order, start))
    if start is not None:
        is_number = start.rank == NUMBER
        values["start_value"] = as_numeric(start.value) if is_number else start.value
        values["start_number"] = start.number
    page = RowPageBuilder(search)
    values |= {"limit": page.rows_to_fetch, "room": page.room}
    for *columns, rank, measure, head in await fetch(
        source, _ordered_search_sql(order, _where(sql, search)), values
    ):
        if _is_nested(rank, measure):
            return NOT_ORDERED  # written after the check
        if not page.add_columns(columns):
            value = from_numeric(measure) if rank == NUMBER else head
            position = OrderPosition(rank, value if rank >= NUMBER else None, columns[0])
            return SearchPage(page.rows, True, position, True)
    return SearchPage(page.rows, False, None, True)


async def combinations(
    source: QueryTarget,
    search: Search,
    candidate: IndexCandidate | None,
    paths: Sequence[PropertyPath],
) -> AsyncGenerator[list[tuple[Any, ...]], None]:
    """The groups of `QueryStore.count_groups` in batches; the values are JSON text."""
    sql, values = _scope(source.container, search, candidate)
    columns = ", ".join(f"{json_sql(path)}::text" for path in paths)
    groups = ", ".join(json_sql(path) for path in paths)
    statement = (
        f"SELECT count(*), min(number), {columns} FROM items WHERE {_where(sql, search)}"
        f" GROUP BY {groups} ORDER BY 2"
    )
    # A server-side cursor: there may be as many groups as items.
    async with (
        pooled_connection(source.pool) as db,
        db.transaction(),
        db.cursor(name="combinations", binary=True) as cursor,
    ):
        await cursor.execute(statement, values)
        while batch := await cursor.fetchmany(_BATCH):
            yield batch
        await _check_catalog_version(source, db)


async def _fill(
    source: QueryTarget, page: RowPageBuilder, sql: str, values: dict[str, Any]
) -> bool:
    """False if the page is full and there is more."""
    rest = {"limit": page.rows_to_fetch, "room": page.room}
    return not page.fill(await fetch(source, sql, values | rest)).has_more


async def _pick(source: QueryTarget, search: Search, numbers: Sequence[int]) -> SearchPage:
    """The first of the numbered items that meet the condition."""
    page = RowPageBuilder(search)
    step = search.limit + 1
    for part, members in itertools.groupby(numbers, lambda number: number >> RANGE_SHIFT):
        wanted = list(members)
        sql, values = scope_of(source.container, search._replace(range_index=part))
        listing = _listing_sql(f"number = ANY({mark('numbers')}) AND {_where(sql, search)}")
        for first in range(0, len(wanted), step):
            values["numbers"] = wanted[first : first + step]
            if not await _fill(source, page, listing, values):
                return SearchPage(page.rows, True)
    return SearchPage(page.rows, False)


async def _count(source: QueryTarget, where: str, values: dict[str, Any], most: int | None) -> int:
    source_sql = f"FROM items WHERE {where}"
    if most is not None:
        source_sql = f"FROM (SELECT 1 {source_sql} LIMIT {most}) AS first_items"
    ((counted,),) = await fetch(source, f"SELECT count(*) {source_sql}", values)
    return int(counted)


def _parts(container: Container, search: Search) -> Iterable[int]:
    """The ranges that may have items after the position of a search, in number order."""
    if search.range_index is not None:
        return (search.range_index,)
    first = max(search.after, 0) >> RANGE_SHIFT
    return (part.index for part in container.ranges if part.index >= first)


def _scope(container: Container, search: Search, candidate: IndexCandidate | None) -> ScopeSql:
    return (
        scope_of(container, search)
        if candidate is None
        else candidate_scope(container, search, candidate_sql(candidate))
    )


def _where(scope: str, search: Search) -> str:
    """The scope and the condition.

    The condition is wrapped in CASE: the database must not choose another index for its parts, nor
    estimate that hardly any item meets it.
    """
    if search.where is None:
        return scope
    if ids := candidates.required_ids(search):  # the primary key finds them
        scope += f" AND id IN ({', '.join(mark(f'v{place}') for place in ids)})"
    return f"{scope} AND CASE WHEN {condition_sql(search.where.condition)} THEN true ELSE false END"


@lru_cache(maxsize=1024)
def _listing_sql(where: str) -> str:
    return _bounded_sql(f"SELECT {COLUMNS} FROM items WHERE {where}", COLUMNS, "number")


@lru_cache(maxsize=1024)
def _ordered_search_sql(order: Order, where: str) -> str:
    path = order.path
    columns = (
        f"{rank_sql(path)} AS found_rank, {measure_sql(path)} AS found_measure,"
        f" {head_sql(path)} AS found_head"
    )
    return _bounded_sql(
        f"SELECT {COLUMNS}, {columns} FROM items WHERE {where}",
        f"{COLUMNS}, found_rank, found_measure, found_head",
        _ordered(("found_rank", "found_measure", "found_head", "number"), order.is_descending),
    )


def _from_sql(order: Order, start: OrderPosition | None) -> str:
    """The range of the index from `start` on."""
    if start is None:
        return "true"
    index_columns = ", ".join(index_parts(order.path))
    place = index_key_sql(start.rank, mark("start_value"))
    comparison = "<=" if order.is_descending else ">="
    return f"({index_columns}) {comparison} ({place}, {mark('start_number')})"


@lru_cache(maxsize=1024)
def _last_sql(number: int, path: PropertyPath) -> str:
    """The last entry of an index, which is one whose order it does not know, if there are any."""
    return (
        f"SELECT {rank_sql(path)}, {measure_sql(path)} FROM items WHERE container = {number:d}"
        f" ORDER BY {_ordered(index_parts(path), is_descending=True)} LIMIT 1"
    )


def _is_nested(rank: int, measure: Decimal) -> bool:
    """True for values whose order an index does not know: arrays, objects, and long texts, of which
    it holds a prefix."""
    return rank >= ARRAY or (rank == STRING and measure == 1)


def _ordered(columns: Sequence[str], is_descending: bool) -> str:
    return ", ".join(f"{each} DESC" if is_descending else each for each in columns)


def _bounded_sql(select: str, columns: str, order: str) -> str:
    """The first rows of a statement, at most `limit`, that fit on a page.

    Returns the first two rows in any case, and each row before which there is room: the last one
    may no longer fit, which shows that there are more. Computing sizes does not read bodies.
    """
    weight = "octet_length(body)"
    ordered = f"OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    return (
        f"SELECT {columns} FROM (SELECT *, sum({weight}) {ordered} - {weight} AS before,"
        f" row_number() {ordered} AS place"
        f" FROM ({select} ORDER BY {order} LIMIT {mark('limit')}) AS ordered) AS page"
        f" WHERE before <= {mark('room')} OR place <= 2 ORDER BY {order}"
    )
