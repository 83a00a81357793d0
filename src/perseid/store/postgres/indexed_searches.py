"""Statements that list and count items by the entries of a property index.

Each statement is about one range, so a Citus cluster sends it to one node. It also says whether the
index is still complete there; if not, it says nothing about the items, and IndexDropped is raised.
Items are looked up by number, one after the other, in the order of the entries: a join might read
the whole range instead, if the database expects few items in it.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from perseid.conditions import (
    ARRAY,
    NUMBER,
    STRING,
    Order,
    OrderPosition,
)
from perseid.store.postgres import searches
from perseid.store.postgres.conditions_sql import bindings, candidate_sql, entry_sql, mark
from perseid.store.postgres.indexes import IndexIds
from perseid.store.postgres.numbers import as_numeric, from_numeric
from perseid.store.postgres.query_target import QueryTarget
from perseid.store.postgres.remaining_conditions import remaining_condition
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.searches import (
    LIVE,
    bounded_sql,
    checked_sql,
    fill_by_scan,
    ranges_of,
)
from perseid.store.postgres.statements import COLUMNS
from perseid.store.sql import candidates, scope
from perseid.store.sql.candidates import IndexCandidate
from perseid.store.sql.pages import RowPageBuilder
from perseid.store.types import NOT_ORDERED, Search, SearchPage

_ENTRY: Final = "rank, measure, head, number"
_ENTRY_DESCENDING: Final = "rank DESC, measure DESC, head DESC, number DESC"
_OTHER_COLUMNS: Final = COLUMNS.removeprefix("number, ")
_IS_COMPLETE: Final = (
    f"COALESCE((SELECT state = 'ready' FROM property_indexes WHERE part = {mark('part')}"
    f" AND id = {mark('property')}), false)"
)
# The last entry is one whose order the index does not know, if there are any.
LAST_ENTRY: Final = (
    f"SELECT rank AS last_rank, measure AS last_measure FROM property_values"
    f" WHERE part = {mark('part')} AND property = {mark('property')}"
    f" ORDER BY {_ENTRY_DESCENDING} LIMIT 1"
)


class IndexDropped(Exception):
    """The index of a search was dropped, by this or another process."""


class IndexedSearch(NamedTuple):
    """A search, the index that it uses, and the part of its condition that the index answers."""

    target: QueryTarget
    search: Search
    ids: IndexIds
    candidate: IndexCandidate | None

    @property
    def is_decided(self) -> bool:
        """True if the entries alone say which items belong to the result."""
        return not scope.key_sql(self.search, {}, mark) and not self._remaining_sql()

    def ranges(self) -> Iterator[IndexedRange]:
        """What is searched in each range, in number order."""
        container = self.target.container
        for range_index in ranges_of(container, self.search):
            part = range_key(container.number, range_index)
            yield self._in_range(range_index, part)

    def _in_range(self, range_index: int, part: str) -> IndexedRange:
        search = self.search
        values: dict[str, Any] = {"part": part, "property": self.ids[part], "after": search.after}
        where = f"part = {mark('part')} AND property = {mark('property')}"
        if search.after >= 0:
            where += f" AND number > {mark('after')}"
        if self.candidate is not None:
            where += f" AND {candidate_sql(self.candidate)}"
        if not search.cutoff.expires_nothing:
            values["inherited"], values["own"] = search.cutoff.inherited, search.cutoff.own
            where += f" AND {LIVE}"
        keys = scope.key_sql(search, values, mark)
        values |= bindings(search.where)
        condition = f"{keys}{self._remaining_sql()}"
        return IndexedRange(self.target, range_index, where, keys, condition, values)

    def _remaining_sql(self) -> str:
        """The part of the condition that the entries do not decide, as the end of a condition."""
        if self.search.where is None:
            return ""
        remaining = remaining_condition(self.search.where, self.candidate)
        return "" if remaining is None else f" AND {checked_sql(remaining)}"


class IndexedRange(NamedTuple):
    """A search in one range as SQL: which entries, and which of their items."""

    target: QueryTarget
    range_index: int
    entries: str
    key_condition: str  # as the end of a condition over items, as is the next
    item_condition: str
    values: dict[str, Any]

    async def fetch(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement whose first column is never NULL."""
        return _complete(await searches.fetch(self.target, _with_state(sql), self.values | values))

    async def stream(self, sql: str) -> AsyncGenerator[list[tuple[Any, ...]], None]:
        async for batch in searches.stream(self.target, _with_state(sql), self.values):
            yield _complete(batch)

    async def count_items(self, most: int | None = None) -> int:
        source = f"FROM property_values WHERE {self.entries}"
        if self.item_condition:
            source = f"FROM {items_sql(self.entries, 'number', '1', self.item_condition)}"
        if most is not None:
            source = f"FROM (SELECT 1 {source} LIMIT {most:d}) AS first_items"
        ((counted,),) = await self.fetch(f"SELECT count(*) {source}")
        return int(counted)


def _with_state(sql: str) -> str:
    return f"SELECT {_IS_COMPLETE}, page.* FROM (SELECT 1) AS one LEFT JOIN ({sql}) AS page ON true"


def _complete(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if not rows[0][0]:
        raise IndexDropped
    return [row[1:] for row in rows] if rows[0][1] is not None else []


async def search_by_index(indexed: IndexedSearch) -> SearchPage:
    """A page of the items that meet the condition, in the order of their numbers."""
    page = RowPageBuilder(indexed.search)
    for each in indexed.ranges():
        if not await _fill(indexed, each, page):
            return SearchPage(page.rows, True)
    return SearchPage(page.rows, False)


async def _fill(indexed: IndexedSearch, each: IndexedRange, page: RowPageBuilder) -> bool:
    """Adds items of a range; False if the page is full and there is more."""
    assert indexed.candidate is not None  # noqa: S101
    limit = page.rows_to_fetch
    if indexed.candidate.selectivity == "value":  # its entries are in number order
        sql = _value_sql(each.entries, each.item_condition, limit)
        return not page.fill(await each.fetch(sql, room=page.room)).has_more
    most = candidates.MAX_INDEXED_ITEMS
    sql = _values_sql(each.entries, each.item_condition, limit, most + 1)
    rows = await each.fetch(sql, room=page.room)
    if rows[0][0] > most:
        return await fill_by_scan(indexed.target, indexed.search, each.range_index, page)
    found = (row[1:] for row in rows if row[1] is not None)
    return not page.fill(found).has_more


async def count(indexed: IndexedSearch) -> int:
    """How many live items meet the condition."""
    return sum([await each.count_items() for each in indexed.ranges()])


async def count_entries(indexed: IndexedSearch, most: int | None = None) -> int:
    """How many live items the candidate has, counted up to `most`; others may not be examined."""
    total = 0
    for each in indexed.ranges():
        rest = None if most is None else most - total
        if rest == 0:
            break
        total += await each._replace(item_condition=each.key_condition).count_items(rest)
    return total


async def ordered_search(indexed: IndexedSearch, order: Order) -> SearchPage:
    """The next items in the order of a property, if the index knows the order of all values."""
    start = indexed.search.start
    if start is not None and start.rank == STRING and "\0" in start.value:
        return NOT_ORDERED  # no item has it, and it cannot be bound
    page = RowPageBuilder(indexed.search)
    found: list[list[_OrderedRow]] = []
    for each in indexed.ranges():
        sql = _ordered_sql(
            f"{each.entries}{_from_sql(order, start)}",
            each.item_condition,
            order.is_descending,
            page.rows_to_fetch,
        )
        rows = await each.fetch(sql, room=page.room, **_start_values(start))
        if rows and is_nested(*rows[0][:2]):
            return NOT_ORDERED
        # Without a number the index has entries, but none for this page.
        found.append([_OrderedRow(row[-3:], row[2:-3]) for row in rows if row[2] is not None])
    return _merged(found, order, page)


class _OrderedRow(NamedTuple):
    entry: tuple[Any, ...]  # rank, measure, head
    columns: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        return (*self.entry, self.columns[0])


def _merged(found: Sequence[list[_OrderedRow]], order: Order, page: RowPageBuilder) -> SearchPage:
    """A page of the rows of all ranges, each of which has its own in order."""
    merged = heapq.merge(*found, key=_key_of, reverse=order.is_descending)
    for row in found[0] if len(found) == 1 else merged:
        if not page.add_columns(row.columns):
            rank, measure, head = row.entry
            value = from_numeric(measure) if rank == NUMBER else head
            position = OrderPosition(rank, value if rank >= NUMBER else None, row.columns[0])
            return SearchPage(page.rows, True, position, True)
    return SearchPage(page.rows, False, None, True)


def _key_of(row: _OrderedRow) -> tuple[Any, ...]:
    return row.key


def _start_values(start: OrderPosition | None) -> dict[str, Any]:
    if start is None:
        return {}
    value = as_numeric(start.value) if start.rank == NUMBER else start.value
    return {"start_value": value, "start_number": start.number}


def _from_sql(order: Order, start: OrderPosition | None) -> str:
    """The entries from `start` on, as the end of a condition."""
    if start is None:
        return ""
    comparison = "<=" if order.is_descending else ">="
    place = entry_sql(start.rank, mark("start_value"))
    return f" AND ({_ENTRY}) {comparison} ({place}, {mark('start_number')})"


def is_nested(rank: int, measure: Decimal) -> bool:
    """True for values whose order an index does not know: arrays, objects, and long texts, of which
    it holds a prefix."""
    return rank >= ARRAY or (rank == STRING and measure == 1)


def items_sql(entries: str, entry_columns: str, item_columns: str, condition: str) -> str:
    """The items of entries, as a part of FROM."""
    return (
        f"(SELECT {entry_columns} FROM property_values WHERE {entries}) AS entries"
        f" CROSS JOIN LATERAL (SELECT {item_columns} FROM items WHERE items.part = {mark('part')}"
        f" AND items.number = entries.number{condition} LIMIT 1) AS item"
    )


@lru_cache(maxsize=1024)
def _value_sql(entries: str, condition: str, limit: int) -> str:
    source = items_sql(entries, "number", _OTHER_COLUMNS, condition)
    return bounded_sql(f"SELECT entries.number, item.* FROM {source}", COLUMNS, "number", limit)


@lru_cache(maxsize=1024)
def _values_sql(entries: str, condition: str, limit: int, most: int) -> str:
    """The items of several values in number order, and how many entries these have, up to `most`.

    With that many, the rows are not the first ones.
    """
    source = (
        "(SELECT number FROM matches ORDER BY number) AS entries CROSS JOIN LATERAL"
        f" (SELECT {_OTHER_COLUMNS} FROM items WHERE items.part = {mark('part')}"
        f" AND items.number = entries.number{condition} LIMIT 1) AS item"
    )
    page = bounded_sql(f"SELECT entries.number, item.* FROM {source}", COLUMNS, "number", limit)
    return (
        f"WITH matches AS MATERIALIZED (SELECT number FROM property_values WHERE {entries}"
        f" LIMIT {most:d}) SELECT matched.*, page.*"
        f" FROM (SELECT count(*) FROM matches) AS matched LEFT JOIN ({page}) AS page ON true"
    )


@lru_cache(maxsize=1024)
def _ordered_sql(entries: str, condition: str, is_descending: bool, limit: int) -> str:
    """A page in the order of the entries; each row has the last entry of the index as well."""
    source = items_sql(entries, _ENTRY, _OTHER_COLUMNS, condition)
    page = bounded_sql(
        f"SELECT entries.number, item.*, rank, measure, head FROM {source}",
        f"{COLUMNS}, rank, measure, head",
        _ENTRY_DESCENDING if is_descending else _ENTRY,
        limit,
    )
    return f"SELECT last.*, page.* FROM ({LAST_ENTRY}) AS last LEFT JOIN ({page}) AS page ON true"
