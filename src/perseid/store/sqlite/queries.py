"""Reads of many items: chooses between indexes and scans, and the thread that does the work."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from math import inf
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, cast

import apsw

from perseid.conditions import Order, OrderPosition, PropertyPath
from perseid.errors import NOT_WRITTEN_ERRORS
from perseid.index_paths import is_indexable
from perseid.model import Container, Row
from perseid.store.sql.candidates import (
    SORTED_UP_TO,
    IndexCandidate,
    best_candidate,
    leads,
    only_candidate,
    required_ids,
)
from perseid.store.sql.pages import PageBuilder, complete_page
from perseid.store.sql.range_state import EMPTY_RANGE, RangeState
from perseid.store.sqlite import group_counts, indexes, searches
from perseid.store.sqlite.group import DRIVER_ERRORS
from perseid.store.sqlite.indexes import IndexDropped, PropertyIndexes
from perseid.store.sqlite.row_cache import RowCache
from perseid.store.sqlite.scans import COLUMNS, scan_items
from perseid.store.sqlite.writer import GroupCommitWriter, as_client_error, client_errors
from perseid.store.types import AccessPath, OrderedPage, Page, Search

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
_FastSearch = tuple[Hashable, Work[T]]  # the shape of a query, and what is to be done

_THREADS: Final = 4
# Steps of SQLite's machine that the event loop can spare for a query: a fraction of a millisecond.
_LOOP_STEPS: Final = 5_000
# Decoding large items takes longer than those steps tell.
_SMALL_ITEM: Final = 8 * 1024
_SKIPPED_TRIES: Final = 50  # queries of a shape that took longer, before it is tried again
_REMEMBERED: Final = 4096
_MAX_ROW_LOOKUPS: Final = 128  # rows, one by one


class SqliteQueries:
    """Runs scans, searches and counts on connections of its own, or briefly on the caller's.

    What uses an index raises IndexGone if that was dropped between its choice and its use.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        writer: GroupCommitWriter,
        write_db: apsw.Connection,
        range_states: Mapping[tuple[int, int], RangeState],
        graves: Mapping[int, object],  # by container: what was cleared and is not removed
        cache: RowCache,
    ) -> None:
        self._connect = connect
        self._writer = writer
        self._write_db = write_db
        self._range_states = range_states
        self._tombstones = graves
        self._cache = cache
        self._loop_db = connect()  # for the event loop's thread
        self._step_limit = _StepLimit()
        self._loop_db.set_progress_handler(self._step_limit, _LOOP_STEPS, id=_StepLimit)
        self._local = threading.local()
        self._connections = [self._loop_db]
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="perseid-scan")
        self._indexes = PropertyIndexes(write_db)
        self._building: dict[tuple[int, PropertyPath], asyncio.Future[None]] = {}
        self._failed: dict[tuple[int, PropertyPath], float] = {}  # and when
        self._tries_to_skip: dict[Hashable, int] = {}
        # Orders in which no array or object was found, and how often the container was written
        # by then.
        self._sortable_at_lsn: dict[tuple[int, Order], int] = {}

    def close(self) -> None:
        self._threads.shutdown()
        for db in self._connections:
            db.close()

    def drop_container(self, number: int) -> None:
        """After a container is gone."""
        self._indexes.drop_container(number)

    def end_snapshot(self) -> None:
        """Before anything is written: a state of the file that somebody looks at stays in its log.

        As long as nothing is, queries share one look at it, and need not lock it each.
        """
        if self._loop_db.in_transaction:
            self._loop_db.execute("COMMIT")

    async def in_thread(self, work: Work[T]) -> T:
        """Does the work in a thread; if nobody waits for it any longer, it is interrupted."""
        job = _Job(work)

        def run() -> T:
            db: apsw.Connection | None = getattr(self._local, "db", None)
            if db is None:
                with client_errors():
                    db = self._local.db = self._connect()
                self._connections.append(db)
            return job.run(db)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except asyncio.CancelledError:
            job.interrupt()
            raise

    async def search(self, container: Container, search: Search) -> Page:
        number = container.number
        fast_search = self._known_fast_search(number, search)
        if fast_search is None and (found := await self._candidate(container, search)) is not None:
            fast_search = self._candidate_search(number, search, *found)
        if fast_search is None:
            return await self.in_thread(lambda db: scan_items(db, number, search))
        return await self._run_adaptively(container, *fast_search)

    def try_search(self, container: Container, search: Search, order: Order | None) -> Page | None:
        if order is None:
            fast_search = self._known_fast_search(container.number, search)
            return None if fast_search is None else self._try_on_loop(container, *fast_search)
        if (
            search.where is not None
            or search.pk_prefix is not None
            or order.path not in search.indexable
        ):
            return None
        index = self._indexes.find(container.number, order.path)
        if index is None:
            return None
        return self._try_on_loop(
            container,
            (container.number, None, order, True),
            lambda db: self._first(db, container, search, order, index),
        )

    def _known_fast_search(self, number: int, search: Search) -> _FastSearch[Page] | None:
        """How to scan where nothing is to be chosen or made before, as nearly always."""
        if search.where is None:
            return None
        if search.pk_prefix is not None:
            shape = (number, search.where.condition, search.pk_prefix)
            return shape, lambda db: scan_items(db, number, search)
        candidate = only_candidate(search)
        index = None if candidate is None else self._indexes.find(number, candidate.path)
        return (
            None
            if candidate is None or index is None
            else self._candidate_search(number, search, candidate, index)
        )

    def _candidate_search(
        self, number: int, search: Search, candidate: IndexCandidate, index: str
    ) -> _FastSearch[Page]:
        shape = (number, search.where and search.where.condition, candidate.path)
        return shape, lambda db: self._search_by_index(db, number, search, candidate, index)

    def _search_by_index(
        self,
        db: apsw.Connection,
        number: int,
        search: Search,
        candidate: IndexCandidate,
        index: str,
    ) -> Page:
        if (
            search.where is not None
            and candidate.term is search.where.condition
            and self._may_look_up(db)
        ):
            has_tombstones = number in self._tombstones
            numbers = searches.find(
                db, number, search, candidate, index, has_tombstones=has_tombstones
            )
            if numbers is not None and len(numbers) <= _MAX_ROW_LOOKUPS:
                return self._look_up(db, number, search, numbers)
        return searches.search_by_index(db, number, search, candidate, index)

    def _first(
        self, db: apsw.Connection, container: Container, search: Search, order: Order, index: str
    ) -> Page | None:
        """The first items in an order, if they fit on a page."""
        number = container.number
        if self._has_nested(db, container, order, index):
            return None
        if search.limit < _MAX_ROW_LOOKUPS and self._may_look_up(db):
            has_tombstones = number in self._tombstones
            numbers = searches.first_numbers(
                db, number, search, order, index, has_tombstones=has_tombstones
            )
            page = self._look_up(db, number, search, numbers)
            return page if len(page.rows) == len(numbers) else None
        rows, next_position = searches.ordered_search(db, number, search, order, index, None)
        return Page(rows, False) if next_position is None or len(rows) == search.limit else None

    async def ordered_search(
        self, container: Container, search: Search, order: Order, start: OrderPosition | None
    ) -> OrderedPage | None:
        number = container.number
        if search.pk_prefix is not None or order.path not in search.indexable:
            return None
        found = None if search.where is None else await self._candidate(container, search)
        if (
            found is not None
            and found[0].path != order.path
            and await self._count_up_to(container, search, *found, SORTED_UP_TO + 1) <= SORTED_UP_TO
        ):
            return None
        index = await self._index(container, order.path)
        if index is None:
            return None

        def ordered_search(db: apsw.Connection) -> OrderedPage | None:
            if self._has_nested(db, container, order, index):
                return None
            if (
                start is None
                and search.where is None
                and search.limit < _MAX_ROW_LOOKUPS
                and self._may_look_up(db)
            ):
                has_tombstones = number in self._tombstones
                order_keys = searches.find_first(
                    db, number, search, order, index, has_tombstones=has_tombstones
                )
                page = self._look_up(db, number, search, [*map(itemgetter(0), order_keys)])
                at = len(page.rows)
                if at == len(order_keys):
                    return OrderedPage(page.rows, None)
                return OrderedPage(page.rows, OrderPosition(*order_keys[at][1:], order_keys[at][0]))
            return searches.ordered_search(db, number, search, order, index, start)

        shape = (number, search.where and search.where.condition, order, start is None)
        return await self._run_adaptively(container, shape, ordered_search)

    def _may_look_up(self, db: apsw.Connection) -> bool:
        """Whether what memory has is what the file says: rows in the cache, and where partitions
        were cleared."""
        return db is self._loop_db and self._writer.is_file_unchanging

    def _look_up(
        self, db: apsw.Connection, number: int, search: Search, numbers: list[int]
    ) -> Page:
        """A page of the numbered items. Where all the rest is in an index, rows that were read
        lately need not be read, and made into text, again."""
        known = self._cache.get_numbered(number, numbers)
        if (
            None not in known
            and (whole := complete_page(search, cast("list[Row]", known))) is not None
        ):
            return whole
        page = PageBuilder(search)
        for each, row in zip(numbers, known, strict=True):
            if row is None:
                row = Row._make(db.execute(_row_sql(number), (each,)).get)  # noqa: PLW2901
                self._cache.put(number, row)
            if not page.add(row):
                return Page(page.rows, True)
        return Page(page.rows, False)

    def _has_nested(
        self, db: apsw.Connection, container: Container, order: Order, index: str
    ) -> bool:
        number = container.number
        if not self._may_look_up(db):
            return searches.has_nested(db, number, order, index)
        written = self._container_state(container).lsn
        if self._sortable_at_lsn.get((number, order)) == written:
            return False
        if searches.has_nested(db, number, order, index):
            return True
        if len(self._sortable_at_lsn) >= _REMEMBERED:
            self._sortable_at_lsn.clear()
        self._sortable_at_lsn[number, order] = written
        return False

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_group: Callable[[int, dict[str, Any]], None],
    ) -> None:
        number = container.number
        found = await self._candidate(container, search)
        index = None if found is None else found[1]
        if index is None and len(paths) == 1 and paths[0] in search.indexable:
            index = await self._index(container, paths[0])

        def work(db: apsw.Connection) -> None:
            group_counts.count_groups(db, number, search, index, paths, on_group)

        def count(db: apsw.Connection) -> int:
            return group_counts.count(db, number, search, index)

        if paths:
            await self.in_thread(work)
        elif found is not None:
            shape = (number, "count", search.where and search.where.condition)
            on_group(await self._run_adaptively(container, shape, count), {})
        else:
            on_group(await self.in_thread(count), {})

    async def access_path(
        self,
        container: Container,
        search: Search,
        order: Order | None,
        grouped_paths: Sequence[PropertyPath] | None = None,
    ) -> AccessPath:
        number = container.number
        known = set(self._indexes.paths(number)) & search.indexable
        everything = search._replace(where=None)

        def find(db: apsw.Connection) -> AccessPath:
            if search.pk_prefix is not None:
                within = search if required_ids(search) else everything
                return AccessPath("key", None, group_counts.count(db, number, within, None))
            for candidate in leads(search.where.condition) if search.where else ():
                index = (
                    self._indexes.find(number, candidate.path) if candidate.path in known else None
                )
                if index is not None:
                    examined = searches.count_up_to(db, number, search, candidate, index, 2**31)
                    if order is None or candidate.path == order.path or examined <= SORTED_UP_TO:
                        return AccessPath("index", candidate.path, examined)
            examined = group_counts.count(db, number, everything, None)
            if order is not None and order.path in known:
                return AccessPath("order", order.path, examined)
            if grouped_paths is not None and len(grouped_paths) == 1 and grouped_paths[0] in known:
                return AccessPath("index", grouped_paths[0], examined)
            return AccessPath("scan", None, examined)

        return await self.in_thread(find)

    async def drop_disallowed_indexes(self, container: Container) -> None:
        disallowed = [
            path
            for path in self._indexes.paths(container.number)
            if not is_indexable(container, path)
        ]
        if disallowed:

            def drop() -> None:
                for path in disallowed:
                    self._indexes.drop(self._write_db, container.number, path)

            await self._writer.submit(drop, is_heavy=True)

    async def _candidate(
        self, container: Container, search: Search
    ) -> tuple[IndexCandidate, str] | None:
        """The part of the condition to follow and its index, which is made if it pays."""
        return await best_candidate(
            search,
            lambda path: self._index(container, path),
            lambda candidate, index: self._count_up_to(
                container, search, candidate, index, SORTED_UP_TO
            ),
        )

    async def _count_up_to(
        self, container: Container, search: Search, candidate: IndexCandidate, index: str, most: int
    ) -> int:
        number = container.number
        return await self._run_adaptively(
            container,
            (number, most, candidate),
            lambda db: searches.count_up_to(db, number, search, candidate, index, most),
        )

    async def _index(self, container: Container, path: PropertyPath) -> str | None:
        """The index over a path, made now if the container is large enough to need one."""
        number = container.number
        name = self._indexes.find(number, path)
        if name is not None:
            return name
        items = self._container_state(container).items
        index_key = (number, path)
        if items < indexes.LEAST_ITEMS or self._failed_recently(index_key):
            return None
        building = self._building.get(index_key)
        if building is None:
            building = self._building[index_key] = asyncio.ensure_future(self._build(number, path))
            building.add_done_callback(lambda _: self._building.pop(index_key, None))
        # Shielded: others may wait for it when this client has gone.
        await asyncio.shield(building)
        return self._indexes.find(number, path)

    def _failed_recently(self, index_key: tuple[int, PropertyPath]) -> bool:
        """Whether the index could not be made a moment ago: queries do without it meanwhile."""
        failed = self._failed.get(index_key)
        return failed is not None and time.monotonic() - failed < indexes.RETRY_DELAY

    async def _build(self, number: int, path: PropertyPath) -> None:
        try:
            publish = await self._writer.submit(
                lambda: self._indexes.create(self._write_db, number, path), is_heavy=True
            )
        except NOT_WRITTEN_ERRORS as exc:
            log.warning("an index could not be made: %s", exc.message)
            if len(self._failed) >= _REMEMBERED:
                self._failed.clear()
            self._failed[number, path] = time.monotonic()
        else:
            publish()

    def _container_state(self, container: Container) -> RangeState:
        """How often a container was written, and what it holds, over all its ranges."""
        number = container.number
        if len(container.ranges) == 1:
            return self._range_states.get((number, 0), EMPTY_RANGE)
        parts = [
            self._range_states.get((number, part.index), EMPTY_RANGE) for part in container.ranges
        ]
        return RangeState._make(map(sum, zip(*parts, strict=True)))

    async def _run_adaptively(self, container: Container, shape: Hashable, work: Work[T]) -> T:
        """Does on the spot what takes microseconds, as a point read is done, and else in a thread.

        Nobody knows beforehand, so it is tried for a moment; a shape that took longer is not tried
        again for a while.
        """
        if self._tries_to_skip and (waits := self._tries_to_skip.get(shape, 0)):
            self._tries_to_skip[shape] = waits - 1
            return await self.in_thread(work)
        found = self._try_on_loop(container, shape, work)
        return await self.in_thread(work) if found is None else found

    def _try_on_loop(self, container: Container, shape: Hashable, work: Work[T]) -> T | None:
        """What the work gives; None if it takes longer than a moment, or would."""
        if self._tries_to_skip and self._tries_to_skip.get(shape, 0):
            return None
        container_state = self._container_state(container)
        if container_state.size > container_state.items * _SMALL_ITEM:
            return None
        db = self._loop_db
        if self._writer.is_file_unchanging and not db.in_transaction:
            db.execute("BEGIN")
        self._step_limit.left = 2
        try:
            return work(db)
        except apsw.InterruptError:
            if len(self._tries_to_skip) >= _REMEMBERED:
                self._tries_to_skip.clear()
            self._tries_to_skip[shape] = _SKIPPED_TRIES
            return None
        except DRIVER_ERRORS as exc:
            raise _as_query_error(exc) from exc
        finally:
            self._step_limit.left = inf


@lru_cache(maxsize=1024)
def _row_sql(number: int) -> str:
    return f"SELECT {COLUMNS} FROM items_{number} WHERE number = ?"


def _as_query_error(exc: Exception) -> BaseException:
    if isinstance(exc, apsw.SQLError) and str(exc).startswith("no such index"):
        return IndexDropped(str(exc))
    return as_client_error(exc)


class _Job(Generic[T]):
    """Work on a connection that another thread may interrupt while it runs, and only then."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._is_cancelled = False

    def run(self, db: apsw.Connection) -> T:
        with self._lock:
            if self._is_cancelled:
                raise apsw.InterruptError
            self._db = db
        try:
            return self._work(db)
        except DRIVER_ERRORS as exc:
            raise _as_query_error(exc) from exc
        finally:
            with self._lock:
                self._db = None

    def interrupt(self) -> None:
        with self._lock:
            self._is_cancelled = True
            if self._db is not None:
                self._db.interrupt()


class _StepLimit:
    """Ends a statement the second time it is asked since the moment began.

    SQLite counts the steps of a statement over all its runs, so the first time may come at once.
    What is no part of the work is never ended: a COMMIT between two moments is a statement too.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = inf

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0
