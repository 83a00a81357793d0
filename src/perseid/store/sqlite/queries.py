"""Items by condition in SQLite: chooses the access path and the thread, and builds pages."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, TypeAlias, cast

import apsw

from perseid.conditions import Order, OrderPosition, PropertyPath
from perseid.model import Container, Row
from perseid.store.sql.candidates import IndexCandidate, required_ids
from perseid.store.sql.choose_access import Access, choose_access, only_candidate
from perseid.store.sql.pages import RowPageBuilder, complete_page
from perseid.store.sql.range_state import RangeState, container_state
from perseid.store.sqlite import group_counts, searches
from perseid.store.sqlite.checksums import CHECKED_COLUMNS, DamagedItems, checked_row
from perseid.store.sqlite.indexes import IndexDropped, PropertyIndexes
from perseid.store.sqlite.readers import Readers, Work
from perseid.store.sqlite.row_cache import RowCache
from perseid.store.sqlite.scans import scan_items
from perseid.store.types import (
    NOT_ORDERED,
    AccessPath,
    GroupCount,
    IndexBuilds,
    OnGroups,
    Search,
    SearchPage,
)

# The shape of a query, by which its time is predicted, and the work.
_ShapedWork: TypeAlias = tuple[Hashable, Work[SearchPage]]

_NO_PATHS: Final[frozenset[PropertyPath]] = frozenset()
_NO_LIMIT: Final = 2**31
_MAX_ROW_LOOKUPS: Final = 128  # rows, one by one
_MOST_ORDERS: Final = 4096


class SqliteQueries:
    """See `store.protocol.QueryStore`."""

    is_remote = False

    def __init__(
        self,
        readers: Readers,
        indexes: PropertyIndexes,
        range_states: Mapping[tuple[int, int], RangeState],
        tombstones: Mapping[int, object],  # by container
        cache: RowCache,
        damaged: DamagedItems,
    ) -> None:
        self._readers = readers
        self._indexes = indexes
        self._range_states = range_states
        self._tombstones = tombstones
        self._cache = cache
        self._damaged = damaged
        # Orders without arrays and objects among their values, and the LSN for which that is true.
        self._sortable_at_lsn: dict[tuple[int, Order], int] = {}

    @property
    def index_builds(self) -> IndexBuilds:
        running = self._indexes.building  # each is one statement, which does not tell how far it is
        return IndexBuilds(running, 0.0 if running else 1.0)

    async def drop_disallowed_indexes(self, container: Container) -> None:
        await self._indexes.drop_disallowed(container)

    async def search(self, container: Container, search: Search) -> SearchPage:
        try:
            page = await self._search(container, search)
        except IndexDropped:
            page = await self._search(container, search._replace(indexable=_NO_PATHS))
        if self._damaged.ids:
            self._damaged.check(container.number, page.rows)
        return page

    async def _search(self, container: Container, search: Search) -> SearchPage:
        if search.order is not None:
            return await self._ordered_search(container, search, search.order)
        number = container.number
        work = self._work_without_choice(number, search)
        if work is None:
            access = await self._choose_access(container, search)
            if access.candidate is not None and access.index_name is not None:
                work = self._indexed_search(number, search, access.candidate, access.index_name)
        if work is None:
            return await self._readers.in_thread(lambda db: scan_items(db, number, search))
        return await self._readers.run(container, *work)

    def try_search(self, container: Container, search: Search) -> SearchPage | None:
        if self._damaged.ids:
            return None  # `search` looks for damaged items
        number, order = container.number, search.order
        try:
            if order is None:
                work = self._work_without_choice(number, search)
                return None if work is None else self._readers.try_on_loop(container, *work)
            is_whole = search.where is None and search.pk_prefix is None
            if not is_whole or order.path not in search.indexable:
                return None
            index = self._indexes.find(number, order.path)
            if index is None:
                return None
            shape = (number, None, order, True)
            return self._readers.try_on_loop(
                container, shape, lambda db: self._first_in_order(db, container, search, index)
            )
        except IndexDropped:
            return None

    def try_count(self, container: Container, search: Search) -> int | None:
        number = container.number
        candidate = only_candidate(search)
        index = None if candidate is None else self._indexes.find(number, candidate.path)
        if index is None:
            return None
        try:
            return self._readers.try_on_loop(
                container,
                _count_shape(number, search),
                lambda db: self._count(db, number, search, index),
            )
        except IndexDropped:
            return None

    def _work_without_choice(self, number: int, search: Search) -> _ShapedWork | None:
        """The search where there is one way to do it and no index to create, as nearly always."""
        if search.where is None:
            return None
        if search.pk_prefix is not None:
            shape = (number, search.where.condition, search.pk_prefix)
            return shape, lambda db: scan_items(db, number, search)
        candidate = only_candidate(search)
        index = None if candidate is None else self._indexes.find(number, candidate.path)
        if candidate is None or index is None:
            return None
        return self._indexed_search(number, search, candidate, index)

    def _indexed_search(
        self, number: int, search: Search, candidate: IndexCandidate, index: str
    ) -> _ShapedWork:
        shape = (number, search.where and search.where.condition, candidate.path)
        return shape, lambda db: self._search_by_index(db, number, search, candidate, index)

    def _search_by_index(
        self,
        db: apsw.Connection,
        number: int,
        search: Search,
        candidate: IndexCandidate,
        index: str,
    ) -> SearchPage:
        is_whole = search.where is not None and candidate.term is search.where.condition
        if is_whole and self._readers.sees_committed_state(db):
            has_tombstones = number in self._tombstones
            numbers = searches.find(
                db, number, search, candidate, index, has_tombstones=has_tombstones
            )
            if numbers is not None and len(numbers) <= _MAX_ROW_LOOKUPS:
                return self._look_up(db, number, search, numbers)
        return searches.search_by_index(db, number, search, candidate, index)

    # In the order of a property

    def _first_in_order(
        self, db: apsw.Connection, container: Container, search: Search, index: str
    ) -> SearchPage | None:
        """The first items in an order; None if they do not fit on a page."""
        number, order = container.number, search.order
        assert order is not None  # noqa: S101
        if self._has_nested(db, container, order, index):
            return None
        if search.limit < _MAX_ROW_LOOKUPS and self._readers.sees_committed_state(db):
            has_tombstones = number in self._tombstones
            numbers = searches.first_numbers(
                db, number, search, order, index, has_tombstones=has_tombstones
            )
            page = self._look_up(db, number, search, numbers, is_ordered=True)
            return page if len(page.rows) == len(numbers) else None
        page = searches.ordered_search(db, number, search, order, index)
        return page if not page.has_more or len(page.rows) == search.limit else None

    async def _ordered_search(
        self, container: Container, search: Search, order: Order
    ) -> SearchPage:
        access = await self._choose_access(container, search)
        if not access.is_ordered or access.index_name is None:
            return NOT_ORDERED
        index = access.index_name
        shape = (
            container.number,
            search.where and search.where.condition,
            order,
            search.start is None,
        )
        return await self._readers.run(
            container, shape, lambda db: self._search_in_order(db, container, search, order, index)
        )

    def _search_in_order(
        self, db: apsw.Connection, container: Container, search: Search, order: Order, index: str
    ) -> SearchPage:
        number = container.number
        if self._has_nested(db, container, order, index):
            return NOT_ORDERED
        is_first = search.start is None and search.where is None
        is_small = search.limit < _MAX_ROW_LOOKUPS
        if not (is_first and is_small and self._readers.sees_committed_state(db)):
            return searches.ordered_search(db, number, search, order, index)
        has_tombstones = number in self._tombstones
        keys = searches.find_first(db, number, search, order, index, has_tombstones=has_tombstones)
        rows = self._look_up(db, number, search, [*map(itemgetter(0), keys)]).rows
        if len(rows) == len(keys):
            return SearchPage(rows, False, None, True)
        item_number, rank, value = keys[len(rows)]
        return SearchPage(rows, True, OrderPosition(rank, value, item_number), True)

    def _has_nested(
        self, db: apsw.Connection, container: Container, order: Order, index: str
    ) -> bool:
        """True if arrays or objects are among the values, whose order an index does not know."""
        number = container.number
        if not self._readers.sees_committed_state(db):
            return searches.has_nested(db, number, order, index)
        lsn = container_state(self._range_states, container).lsn
        if self._sortable_at_lsn.get((number, order)) == lsn:
            return False
        if searches.has_nested(db, number, order, index):
            return True
        if len(self._sortable_at_lsn) >= _MOST_ORDERS:
            self._sortable_at_lsn.clear()
        self._sortable_at_lsn[number, order] = lsn
        return False

    def _look_up(
        self,
        db: apsw.Connection,
        number: int,
        search: Search,
        numbers: list[int],
        *,
        is_ordered: bool = False,
    ) -> SearchPage:
        """A page of the numbered items; rows in the cache need not be read and decoded again."""
        known = self._cache.get_numbered(number, numbers)
        if None not in known:
            rows = cast("list[Row]", known)
            whole = complete_page(search, rows, is_ordered=is_ordered)
            if whole is not None:
                return whole
        page = RowPageBuilder(search)
        for each, row in zip(numbers, known, strict=True):
            if row is None:
                row = checked_row(db.execute(_row_sql(number), (each,)).get)  # noqa: PLW2901
                self._cache.put(number, row)
            if not page.add(row):
                return SearchPage(page.rows, True, None, is_ordered)
        return SearchPage(page.rows, False, None, is_ordered)

    # Counting

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        try:
            await self._count_groups(container, search, paths, on_groups)
        except IndexDropped:  # raised before the first group
            search = search._replace(indexable=_NO_PATHS)
            await self._count_groups(container, search, paths, on_groups)

    async def _count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        number = container.number
        access = await self._choose_access(container, search, paths)

        def count(db: apsw.Connection) -> int:
            return self._count(db, number, search, access.index_name)

        if paths:
            await self._readers.in_thread(
                lambda db: group_counts.count_groups(
                    db, number, search, access.index_name, paths, on_groups
                )
            )
        elif access.candidate is not None:
            items = await self._readers.run(container, _count_shape(number, search), count)
            on_groups([GroupCount(items, {})])
        else:
            on_groups([GroupCount(await self._readers.in_thread(count), {})])

    def _count(self, db: apsw.Connection, number: int, search: Search, index: str | None) -> int:
        is_visible = number not in self._tombstones and self._readers.sees_committed_state(db)
        return group_counts.count(db, number, search, index, has_tombstones=not is_visible)

    # The access path

    async def access_path(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[PropertyPath] | None = None,
    ) -> AccessPath:
        try:
            return await self._access_path(container, search, group_paths or ())
        except IndexDropped:
            search = search._replace(indexable=_NO_PATHS)
            return await self._access_path(container, search, group_paths or ())

    async def _access_path(
        self, container: Container, search: Search, group_paths: Sequence[PropertyPath]
    ) -> AccessPath:
        number = container.number
        access = await self._choose_access(container, search, group_paths, creates=False)
        if access.candidate is not None and access.index_name is not None:
            examined = await self._count_items(
                container, search, access.candidate, access.index_name, _NO_LIMIT
            )
        else:
            scope = search if required_ids(search) else search._replace(where=None)
            examined = await self._readers.in_thread(
                lambda db: group_counts.count(db, number, scope, None)
            )
        return access.describe(search, examined)

    async def _choose_access(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[PropertyPath] = (),
        *,
        creates: bool = True,
    ) -> Access:
        async def find(path: PropertyPath) -> str | None:
            if creates:
                return await self._indexes.ensure(container, path)
            return self._indexes.find(container.number, path)

        async def count(candidate: IndexCandidate, index: str, limit: int) -> int:
            return await self._count_items(container, search, candidate, index, limit)

        return await choose_access(search, find, count, group_paths)

    async def _count_items(
        self,
        container: Container,
        search: Search,
        candidate: IndexCandidate,
        index: str,
        limit: int,
    ) -> int:
        number = container.number
        return await self._readers.run(
            container,
            (number, limit, candidate),
            lambda db: searches.count_up_to(db, number, search, candidate, index, limit),
        )


def _count_shape(number: int, search: Search) -> Hashable:
    return number, "count", search.where and search.where.condition


@lru_cache(maxsize=1024)
def _row_sql(number: int) -> str:
    return f"SELECT {CHECKED_COLUMNS} FROM items_{number} WHERE number = ?"
