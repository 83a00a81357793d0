"""Group counts by the entries of a property index: see `QueryStore.count_groups`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from perseid.conditions import FALSE, NULL, NUMBER, STRING, TRUE, PropertyPath
from perseid.store.postgres import searches
from perseid.store.postgres.indexed_searches import (
    LAST_ENTRY,
    IndexDropped,
    IndexedRange,
    IndexedSearch,
    is_nested,
    items_sql,
)
from perseid.store.postgres.numbers import from_numeric
from perseid.store.postgres.searches import groups_sql
from perseid.store.sql.group_documents import put_value
from perseid.store.types import GroupCount

# So many groups are fetched at once; if there are more, they are streamed.
_AT_ONCE: Final = 1000
_GROUPS: Final = (
    "SELECT count(*), min(number), rank, measure, head FROM property_values"
    " WHERE {entries} GROUP BY rank, measure, head ORDER BY 2"
)
_VALUES: Final = {NULL: None, FALSE: False, TRUE: True}

Batches: TypeAlias = AsyncGenerator[list[GroupCount], None]


async def value_groups(indexed: IndexedSearch, path: PropertyPath) -> Batches | None:
    """The groups by the value of the index's path, without reading items.

    None if some values are not in the entries as a whole, or the entries do not suffice.
    """
    if not indexed.is_decided:
        return None
    first: list[list[GroupCount]] = []
    for each in indexed.ranges():
        groups = _GROUPS.format(entries=each.entries)
        rows = await each.fetch(
            f"SELECT last.*, page.* FROM ({LAST_ENTRY}) AS last"
            f" LEFT JOIN ({groups} LIMIT {_AT_ONCE + 1}) AS page ON true"
        )
        if rows and is_nested(*rows[0][:2]):
            return None
        if len(rows) > _AT_ONCE:
            return _streamed(indexed, path)
        first.append([_group(path, row[2:]) for row in rows if row[2] is not None])
    return _batches(first)


async def _batches(batches: Sequence[list[GroupCount]]) -> Batches:
    for batch in batches:
        yield batch


async def _streamed(indexed: IndexedSearch, path: PropertyPath) -> Batches:
    for each in indexed.ranges():
        try:
            async for rows in each.stream(_GROUPS.format(entries=each.entries)):
                yield [_group(path, row) for row in rows]
        except IndexDropped:
            async for batch in _scanned(indexed, each, (path,)):
                yield batch


async def item_groups(indexed: IndexedSearch, paths: Sequence[PropertyPath]) -> Batches:
    """The groups of the items that an index finds."""
    for each in indexed.ranges():
        items = items_sql(each.entries, "number", "doc", each.item_condition)
        matching = f"(SELECT entries.number, item.doc FROM {items}) AS matching"
        try:
            async for rows in each.stream(groups_sql(matching, paths)):
                yield await asyncio.to_thread(json_groups, paths, rows)
        except IndexDropped:
            async for batch in _scanned(indexed, each, paths):
                yield batch


async def _scanned(
    indexed: IndexedSearch, each: IndexedRange, paths: Sequence[PropertyPath]
) -> Batches:
    """The groups of a range whose index was dropped, which its statement says before any group.

    The groups of earlier ranges have been passed on, so the search cannot begin again.
    """
    search = indexed.search._replace(range_index=each.range_index)
    async for rows in searches.combinations(indexed.target, search, paths):
        yield await asyncio.to_thread(json_groups, paths, rows)


def json_groups(paths: Sequence[PropertyPath], rows: list[tuple[Any, ...]]) -> list[GroupCount]:
    """The groups of rows that have the values as JSON text."""
    groups = []
    for count, _first, *values in rows:
        document: dict[str, Any] = {}
        for path, value in zip(paths, values, strict=True):
            if value is not None:
                put_value(document, path, orjson.loads(value))
        groups.append(GroupCount(count, document))
    return groups


def _group(path: PropertyPath, row: Sequence[Any]) -> GroupCount:
    count, _first, rank, measure, head = row
    document: dict[str, Any] = {}
    if rank == NUMBER:
        put_value(document, path, from_numeric(measure))
    elif rank == STRING:
        put_value(document, path, head)
    elif rank in _VALUES:
        put_value(document, path, _VALUES[rank])
    return GroupCount(count, document)
