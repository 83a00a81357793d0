"""Statements that list, count and combine the items of one container.

A container's number is written into them, not bound: only so can the database know that a property
index, which is about one container, has what is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from perseid.conditions import ARRAY, NUMBER, STRING, Order, Path, Place
from perseid.model import RANGE_SHIFT, Container
from perseid.store import leads, scoping
from perseid.store.leads import Lead
from perseid.store.pages import Filling
from perseid.store.postgres.connecting import Connection, borrowed
from perseid.store.postgres.documents import as_numeric, from_numeric
from perseid.store.postgres.freshness import VERSION_SQL
from perseid.store.postgres.predicates import (
    bindings,
    condition_sql,
    head_sql,
    index_parts,
    json_sql,
    lead_sql,
    mark,
    measure_sql,
    place_sql,
    rank_sql,
)
from perseid.store.postgres.schema import part_of
from perseid.store.postgres.source import Source
from perseid.store.postgres.statements import COLUMNS, VERSION
from perseid.store.protocol import Page, Scan, Walk
from perseid.ttl import LIVE_SQL

_LIVE: Final = LIVE_SQL.replace(":inherited", mark("inherited")).replace(":own", mark("own"))
# Combinations that are fetched, and given to whoever takes them, together.
_BATCH: Final = 2000


class Scope(NamedTuple):
    """What is asked of an item besides the condition, as SQL, and the values of both."""

    sql: str
    values: dict[str, Any]


def scope_of(container: Container, scan: Scan) -> Scope:
    """The scope of a scan by its ranges and whatever it says of keys and numbers.

    One range is told by equality with its part, which on a cluster finds its node.
    """
    text, values = scoping.scope_sql(scan, mark, _LIVE)
    if scan.range_index is None:
        where = f"part = ANY({mark('parts')})"
        values["parts"] = [part_of(container.number, part.index) for part in container.ranges]
    else:
        where = f"part = {mark('part')}"
        values["part"] = part_of(container.number, scan.range_index)
    values |= bindings(scan.where)
    return Scope(f"{where} AND {text}", values)


def led_scope(container: Container, scan: Scan, lead: str) -> Scope:
    """The scope of a scan for which one property index is to be used, by what it is asked for."""
    text, values = scoping.scope_sql(scan, mark, _LIVE)
    where = f"container = {container.number:d} AND {lead}"
    if scan.range_index is not None:
        where += f" AND part = {mark('part')}"
        values["part"] = part_of(container.number, scan.range_index)
    values |= bindings(scan.where)
    return Scope(f"{where} AND {text}", values)


async def fetch(source: Source, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    async with borrowed(source.pool) as db:
        cursor = db.cursor(binary=True)
        await cursor.execute(f"SELECT {VERSION_SQL}, found.* FROM ({sql}) AS found", values)
        rows = await cursor.fetchall()
        if rows:
            source.confirm(rows[0][0])
        else:
            await _confirm(source, db)
    return [row[1:] for row in rows]


async def _confirm(source: Source, db: Connection) -> None:
    ((version,),) = await (await db.execute(VERSION)).fetchall()
    source.confirm(version)


async def run_scan(source: Source, scan: Scan) -> Page:
    """A page of live items in the order of their numbers, which is range after range."""
    page = Filling(scan)
    for part in _parts(source.container, scan):
        sql, values = scope_of(source.container, scan._replace(range_index=part))
        if not await _fill(source, page, _listing_sql(_where(sql, scan)), values):
            return Page(page.rows, True)
    return Page(page.rows, False)


async def follow(source: Source, scan: Scan, lead: Lead) -> Page:
    """A page of the items that meet the condition, found by the index of a lead."""
    sql, values = led_scope(source.container, scan, lead_sql(lead))
    if lead.strength == "value":
        page = Filling(scan)
        listing = _listing_sql(_where(sql, scan))
        return Page(page.rows, not await _fill(source, page, listing, values))
    most = leads.MOST_CANDIDATES
    found = await fetch(
        source,
        f"SELECT number FROM items WHERE {_where(sql, scan)} LIMIT {most + 1}",
        values,
    )
    if len(found) > most:
        return await run_scan(source, scan)
    return await _pick(source, scan, sorted(number for (number,) in found))


async def count(
    source: Source,
    scan: Scan,
    lead: Lead | None = None,
    most: int | None = None,
) -> int:
    """How many live items meet the condition, as far as `most`."""
    sql, values = _scope(source.container, scan, lead)
    return await _count(source, _where(sql, scan), values, most)


async def count_lead(source: Source, scan: Scan, lead: Lead, most: int | None) -> int:
    """How many items the lead has."""
    sql, values = led_scope(source.container, scan, lead_sql(lead))
    return await _count(source, sql, values, most)


async def walk(source: Source, scan: Scan, order: Order, start: Place | None) -> Walk | None:
    """The next items in the order of a property, from `start` on, which is included.

    None if an index does not tell the order of all values.
    """
    if start is not None and start.rank == STRING and "\0" in start.value:
        return None  # no item has it, and it cannot be bound
    last = await fetch(source, _last_sql(source.container.number, order.path), {})
    if last and _is_nested(*last[0]):
        return None
    sql, values = led_scope(source.container, scan, _from_sql(order, start))
    if start is not None:
        is_number = start.rank == NUMBER
        values["start_value"] = as_numeric(start.value) if is_number else start.value
        values["start_number"] = start.number
    page = Filling(scan)
    values |= {"limit": page.wanted, "room": page.room}
    for *columns, rank, measure, head in await fetch(
        source, _walk_sql(order, _where(sql, scan)), values
    ):
        if _is_nested(rank, measure):
            return None  # it came a moment ago
        if not page.take(columns):
            value = from_numeric(measure) if rank == NUMBER else head
            return Walk(page.rows, Place(rank, value if rank >= NUMBER else None, columns[0]))
    return Walk(page.rows, None)


async def combinations(
    source: Source, scan: Scan, lead: Lead | None, paths: Sequence[Path]
) -> AsyncGenerator[list[tuple[Any, ...]], None]:
    """How many items have which values at the paths, as JSON, in lists; see Store.combine."""
    sql, values = _scope(source.container, scan, lead)
    columns = ", ".join(f"{json_sql(path)}::text" for path in paths)
    groups = ", ".join(json_sql(path) for path in paths)
    statement = (
        f"SELECT count(*), min(number), {columns} FROM items WHERE {_where(sql, scan)}"
        f" GROUP BY {groups} ORDER BY 2"
    )
    # A cursor of the server: there may be as many combinations as items.
    async with (
        borrowed(source.pool) as db,
        db.transaction(),
        db.cursor(name="combinations", binary=True) as cursor,
    ):
        await cursor.execute(statement, values)
        while found := await cursor.fetchmany(_BATCH):
            yield found
        await _confirm(source, db)


async def _fill(source: Source, page: Filling, sql: str, values: dict[str, Any]) -> bool:
    """False if the page is full and there is more."""
    rest = {"limit": page.wanted, "room": page.room}
    return not page.fill(await fetch(source, sql, values | rest)).has_more


async def _pick(source: Source, scan: Scan, numbers: Sequence[int]) -> Page:
    """The first of the numbered items that meet the condition."""
    page = Filling(scan)
    step = scan.limit + 1
    for part, members in itertools.groupby(numbers, lambda number: number >> RANGE_SHIFT):
        wanted = list(members)
        sql, values = scope_of(source.container, scan._replace(range_index=part))
        listing = _listing_sql(f"number = ANY({mark('numbers')}) AND {_where(sql, scan)}")
        for first in range(0, len(wanted), step):
            values["numbers"] = wanted[first : first + step]
            if not await _fill(source, page, listing, values):
                return Page(page.rows, True)
    return Page(page.rows, False)


async def _count(source: Source, where: str, values: dict[str, Any], most: int | None) -> int:
    found = f"FROM items WHERE {where}"
    if most is not None:
        found = f"FROM (SELECT 1 {found} LIMIT {most}) AS found"
    ((counted,),) = await fetch(source, f"SELECT count(*) {found}", values)
    return int(counted)


def _parts(container: Container, scan: Scan) -> Iterable[int]:
    """The ranges that have items behind the position of a scan; their order is that of numbers."""
    if scan.range_index is not None:
        return (scan.range_index,)
    first = max(scan.after, 0) >> RANGE_SHIFT
    return (part.index for part in container.ranges if part.index >= first)


def _scope(container: Container, scan: Scan, lead: Lead | None) -> Scope:
    return scope_of(container, scan) if lead is None else led_scope(container, scan, lead_sql(lead))


def _where(scope: str, scan: Scan) -> str:
    """The scope and the condition.

    The condition is wrapped: no index is to be chosen for its parts besides the one that leads,
    and the database is not to believe that hardly anything meets it, of which it knows nothing.
    """
    if scan.where is None:
        return scope
    if ids := leads.wanted_ids(scan):  # the primary key finds them
        scope += f" AND id IN ({', '.join(mark(f'v{place}') for place in ids)})"
    return f"{scope} AND CASE WHEN {condition_sql(scan.where.condition)} THEN true ELSE false END"


@lru_cache(maxsize=1024)
def _listing_sql(where: str) -> str:
    return _bounded_sql(f"SELECT {COLUMNS} FROM items WHERE {where}", COLUMNS, "number")


@lru_cache(maxsize=1024)
def _walk_sql(order: Order, where: str) -> str:
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


def _from_sql(order: Order, start: Place | None) -> str:
    """The stretch of the index from `start` on."""
    if start is None:
        return "true"
    found = ", ".join(index_parts(order.path))
    place = place_sql(start.rank, mark("start_value"))
    return f"({found}) {'<=' if order.is_descending else '>='} ({place}, {mark('start_number')})"


@lru_cache(maxsize=1024)
def _last_sql(number: int, path: Path) -> str:
    """The end of an index, where it has all values whose order it does not tell."""
    return (
        f"SELECT {rank_sql(path)}, {measure_sql(path)} FROM items WHERE container = {number:d}"
        f" ORDER BY {_ordered(index_parts(path), is_descending=True)} LIMIT 1"
    )


def _is_nested(rank: int, measure: Decimal) -> bool:
    """Arrays and objects have an order of their own; of long texts an index has the beginning."""
    return rank >= ARRAY or (rank == STRING and measure == 1)


def _ordered(columns: Sequence[str], is_descending: bool) -> str:
    return ", ".join(f"{each} DESC" if is_descending else each for each in columns)


def _bounded_sql(select: str, columns: str, order: str) -> str:
    """The first rows of a statement, `limit` of them, that have room on a page.

    That takes the first two, whatever they weigh, and all before which there is room: the last one
    may be that which no longer fits and tells that there is more. Weighing costs no look at bodies.
    """
    weight = "octet_length(body)"
    ordered = f"OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    return (
        f"SELECT {columns} FROM (SELECT *, sum({weight}) {ordered} - {weight} AS before,"
        f" row_number() {ordered} AS place"
        f" FROM ({select} ORDER BY {order} LIMIT {mark('limit')}) AS found) AS page"
        f" WHERE before <= {mark('room')} OR place <= 2 ORDER BY {order}"
    )
