"""Statements that list and count the items of one container without a property index."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from psycopg import capabilities

from perseid.conditions import Condition, PropertyPath
from perseid.model import RANGE_SHIFT, Container
from perseid.store.postgres.catalog_version import VERSION_SQL
from perseid.store.postgres.conditions_sql import bindings, condition_sql, json_sql, mark
from perseid.store.postgres.placeholders import positional_marks
from perseid.store.postgres.pool import fetch_all, pooled_connection
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.statements import COLUMNS
from perseid.store.sql import candidates, scope
from perseid.store.sql.pages import RowPageBuilder
from perseid.store.types import Search, SearchPage
from perseid.ttl import LIVE_SQL

LIVE: Final = LIVE_SQL.replace(":inherited", mark("inherited")).replace(":own", mark("own"))
# Groups that are decoded together, and those that the driver fetches together if it can.
_BATCH: Final = 2000
_STREAMED: Final = _BATCH if capabilities.has_stream_chunked() else 1


# In the same snapshot as the items: a session token must not be ahead of them.
_LSN: Final = f"(SELECT positions.lsn FROM positions WHERE positions.part = {mark('part')})"
_NO_LSN: Final = "NULL::bigint"


class ScopeSql(NamedTuple):
    """The scope of a search as SQL, with the values of scope and condition."""

    sql: str
    values: dict[str, Any]


def scope_of(container: Container, search: Search) -> ScopeSql:
    """The scope of a scan: ranges, keys and numbers.

    One range is selected by equality with its part, which on a Citus cluster finds its node.
    """
    text, values = scope.scope_sql(search, mark, LIVE)
    if search.range_index is None:
        where = f"part = ANY({mark('parts')})"
        values["parts"] = [range_key(container.number, part.index) for part in container.ranges]
    else:
        where = f"part = {mark('part')}"
        values["part"] = range_key(container.number, search.range_index)
    values |= bindings(search.where)
    return ScopeSql(f"{where} AND {text}", values)


async def fetch(source: QueryTarget, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a statement whose first column is never NULL."""
    part = values.get("part")
    text = _with_version(sql, _NO_LSN if part is None else _LSN)
    rows = await fetch_all(source.pool, *positional_marks(text, values))
    if part is not None and rows[0][1] is not None:
        source.lsns.setdefault(part, rows[0][1])
    return _without_version(source, rows)


def _with_version(sql: str, lsn: str) -> str:
    """Joined to a row of its own, so that there is a version although there may be no rows."""
    return (
        f"SELECT {VERSION_SQL}, {lsn}, page.*"
        f" FROM (SELECT 1) AS one LEFT JOIN ({sql}) AS page ON true"
    )


def _without_version(source: QueryTarget, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    source.check_catalog_version(rows[0][0])
    return [row[2:] for row in rows] if rows[0][2] is not None else []


async def scan_items(source: QueryTarget, search: Search) -> SearchPage:
    """A page of live items in the order of their numbers, which is range after range."""
    page = RowPageBuilder(search)
    for part in ranges_of(source.container, search):
        if not await fill_by_scan(source, search, part, page):
            return SearchPage(page.rows, True)
    return SearchPage(page.rows, False)


async def fill_by_scan(
    source: QueryTarget, search: Search, range_index: int, page: RowPageBuilder
) -> bool:
    """Adds items of a range; False if the page is full and there is more."""
    where, values = scope_of(source.container, search._replace(range_index=range_index))
    sql = _listing_sql(_where(where, search), page.rows_to_fetch)
    return not page.fill(await fetch(source, sql, values | {"room": page.room})).has_more


async def count(source: QueryTarget, search: Search, most: int | None = None) -> int:
    """How many live items meet the condition, counted up to `most`."""
    sql, values = scope_of(source.container, search)
    source_sql = f"FROM items WHERE {_where(sql, search)}"
    if most is not None:
        source_sql = f"FROM (SELECT 1 {source_sql} LIMIT {most}) AS first_items"
    ((counted,),) = await fetch(source, f"SELECT count(*) {source_sql}", values)
    return int(counted)


def combinations(
    source: QueryTarget, search: Search, paths: Sequence[PropertyPath]
) -> AsyncGenerator[list[tuple[Any, ...]], None]:
    """The groups of `QueryStore.count_groups` in batches; the values are JSON text."""
    sql, values = scope_of(source.container, search)
    return stream(source, groups_sql(f"items WHERE {_where(sql, search)}", paths), values)


def groups_sql(items: str, paths: Sequence[PropertyPath]) -> str:
    columns = ", ".join(f"{json_sql(path)}::text" for path in paths)
    groups = ", ".join(json_sql(path) for path in paths)
    return f"SELECT count(*), min(number), {columns} FROM {items} GROUP BY {groups} ORDER BY 2"


async def stream(
    source: QueryTarget, sql: str, values: dict[str, Any]
) -> AsyncGenerator[list[tuple[Any, ...]], None]:
    """The rows of a statement in batches: there may be as many groups as items."""
    async with (
        pooled_connection(source.pool) as db,
        db.transaction(),
        db.cursor(binary=True) as cursor,
    ):
        # It expects a group for each item, and would sort whole items instead of hashing values.
        await db.execute("SET LOCAL enable_sort TO off")
        async for batch in _batches(
            cursor.stream(_with_version(sql, _NO_LSN), values, size=_STREAMED)
        ):
            yield _without_version(source, batch)


async def _batches(
    rows: AsyncIterator[tuple[Any, ...]],
) -> AsyncIterator[list[tuple[Any, ...]]]:
    batch = []
    async for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def ranges_of(container: Container, search: Search) -> Iterable[int]:
    """The ranges that may have items after the position of a search, in number order."""
    if search.range_index is not None:
        return (search.range_index,)
    first = max(search.after, 0) >> RANGE_SHIFT
    return (part.index for part in container.ranges if part.index >= first)


def _where(scope: str, search: Search) -> str:
    if search.where is None:
        return scope
    if ids := candidates.required_ids(search):  # the primary key finds them
        scope += f" AND id IN ({', '.join(mark(f'v{place}') for place in ids)})"
    return f"{scope} AND {checked_sql(search.where.condition)}"


def checked_sql(condition: Condition) -> str:
    """A condition over `doc`, wrapped in CASE: the database must not estimate that hardly any item
    meets it."""
    return f"CASE WHEN {condition_sql(condition)} THEN true ELSE false END"


@lru_cache(maxsize=1024)
def _listing_sql(where: str, limit: int) -> str:
    return bounded_sql(f"SELECT {COLUMNS} FROM items WHERE {where}", COLUMNS, "number", limit)


def bounded_sql(select: str, columns: str, order: str, limit: int) -> str:
    """The first rows of a statement, at most `limit`, that fit on a page.

    The limit is written into the statement, not bound: with a limit that it does not know, the
    database prepares for a tenth of all rows.

    Returns the first two rows in any case, and each row before which there is room: the last one
    may no longer fit, which shows that there are more. Computing sizes does not read bodies.
    """
    weight = "octet_length(body)"
    ordered = f"OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    return (
        f"SELECT {columns} FROM (SELECT *, sum({weight}) {ordered} - {weight} AS before,"
        f" row_number() {ordered} AS place"
        f" FROM ({select} ORDER BY {order} LIMIT {limit:d}) AS ordered) AS page"
        f" WHERE before <= {mark('room')} OR place <= 2 ORDER BY {order}"
    )
