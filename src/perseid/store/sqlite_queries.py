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

from perseid.conditions import Order, Path, Place
from perseid.errors import UNWRITTEN
from perseid.model import Container, Row
from perseid.store import combining, property_indexes, searching
from perseid.store.group import DRIVER_ERRORS
from perseid.store.leads import FEW, Lead, best_lead, leads, only_lead, wanted_ids
from perseid.store.pages import Filling, at_once
from perseid.store.position import START, Position
from perseid.store.property_indexes import IndexGone, PropertyIndexes
from perseid.store.protocol import Access, Page, Scan, Walk
from perseid.store.row_cache import RowCache
from perseid.store.scanning import COLUMNS, run_scan
from perseid.store.writer import Writer, as_client_error, client_errors

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
_Way = tuple[Hashable, Work[T]]  # the shape of a query, and what is to be done

_THREADS: Final = 4
# Steps of SQLite's machine that the event loop can spare for a query: a fraction of a millisecond.
_MOMENT: Final = 5_000
# Decoding large items takes longer than those steps tell.
_SMALL_ITEM: Final = 8 * 1024
_PATIENCE: Final = 50  # queries of a shape that took longer, before it is tried again
_REMEMBERED: Final = 4096
_MOST_LOOKED_UP: Final = 128  # rows, one by one


class SqliteQueries:
    """Runs scans, searches and counts on connections of its own, or briefly on the caller's.

    What uses an index raises IndexGone if that was dropped between its choice and its use.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        writer: Writer,
        write_db: apsw.Connection,
        positions: Mapping[tuple[int, int], Position],
        graves: Mapping[int, object],  # by container: what was cleared and is not removed
        cache: RowCache,
    ) -> None:
        self._connect = connect
        self._writer = writer
        self._write_db = write_db
        self._positions = positions
        self._graves = graves
        self._cache = cache
        self._here = connect()  # for the event loop's thread
        self._moment = _Moment()
        self._here.set_progress_handler(self._moment, _MOMENT, id=_Moment)
        self._local = threading.local()
        self._connections = [self._here]
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="perseid-scan")
        self._indexes = PropertyIndexes(write_db)
        self._building: dict[tuple[int, Path], asyncio.Future[None]] = {}
        self._failed: dict[tuple[int, Path], float] = {}  # and when
        self._slow: dict[Hashable, int] = {}
        # Orders in which no array or object was found, and how often the container was written
        # by then.
        self._plain: dict[tuple[int, Order], int] = {}

    def close(self) -> None:
        self._threads.shutdown()
        for db in self._connections:
            db.close()

    def forget(self, number: int) -> None:
        """After a container is gone."""
        self._indexes.forget(number)

    def let_go(self) -> None:
        """Before anything is written: a state of the file that somebody looks at stays in its log.

        As long as nothing is, queries share one look at it, and need not lock it each.
        """
        if self._here.in_transaction:
            self._here.execute("COMMIT")

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

    async def scan(self, container: Container, scan: Scan) -> Page:
        number = container.number
        way = self._known_way(number, scan)
        if way is None and (found := await self._lead(container, scan)) is not None:
            way = self._led_way(number, scan, *found)
        if way is None:
            return await self.in_thread(lambda db: run_scan(db, number, scan))
        return await self._quickly(container, *way)

    def at_once(self, container: Container, scan: Scan, order: Order | None) -> Page | None:
        if order is None:
            way = self._known_way(container.number, scan)
            return None if way is None else self._tried(container, *way)
        if scan.where is not None or scan.pk_prefix is not None or order.path not in scan.indexable:
            return None
        index = self._indexes.find(container.number, order.path)
        if index is None:
            return None
        return self._tried(
            container,
            (container.number, None, order, True),
            lambda db: self._first(db, container, scan, order, index),
        )

    def _known_way(self, number: int, scan: Scan) -> _Way[Page] | None:
        """How to scan where nothing is to be chosen or made before, as nearly always."""
        if scan.where is None:
            return None
        if scan.pk_prefix is not None:
            shape = (number, scan.where.condition, scan.pk_prefix)
            return shape, lambda db: run_scan(db, number, scan)
        lead = only_lead(scan)
        index = None if lead is None else self._indexes.find(number, lead.path)
        return None if lead is None or index is None else self._led_way(number, scan, lead, index)

    def _led_way(self, number: int, scan: Scan, lead: Lead, index: str) -> _Way[Page]:
        shape = (number, scan.where and scan.where.condition, lead.path)
        return shape, lambda db: self._follow(db, number, scan, lead, index)

    def _follow(self, db: apsw.Connection, number: int, scan: Scan, lead: Lead, index: str) -> Page:
        if scan.where is not None and lead.term is scan.where.condition and self._may_look_up(db):
            has_graves = number in self._graves
            numbers = searching.find(db, number, scan, lead, index, has_graves=has_graves)
            if numbers is not None and len(numbers) <= _MOST_LOOKED_UP:
                return self._look_up(db, number, scan, numbers)
        return searching.follow(db, number, scan, lead, index)

    def _first(
        self, db: apsw.Connection, container: Container, scan: Scan, order: Order, index: str
    ) -> Page | None:
        """The first items in an order, if they fit on a page."""
        number = container.number
        if self._has_nested(db, container, order, index):
            return None
        if scan.limit < _MOST_LOOKED_UP and self._may_look_up(db):
            has_graves = number in self._graves
            numbers = searching.first_numbers(db, number, scan, order, index, has_graves=has_graves)
            page = self._look_up(db, number, scan, numbers)
            return page if len(page.rows) == len(numbers) else None
        rows, onward = searching.walk(db, number, scan, order, index, None)
        return Page(rows, False) if onward is None or len(rows) == scan.limit else None

    async def walk(
        self, container: Container, scan: Scan, order: Order, start: Place | None
    ) -> Walk | None:
        number = container.number
        if scan.pk_prefix is not None or order.path not in scan.indexable:
            return None
        found = None if scan.where is None else await self._lead(container, scan)
        if (
            found is not None
            and found[0].path != order.path
            and await self._count_up_to(container, scan, *found, FEW + 1) <= FEW
        ):
            return None
        index = await self._index(container, order.path)
        if index is None:
            return None

        def walk(db: apsw.Connection) -> Walk | None:
            if self._has_nested(db, container, order, index):
                return None
            if (
                start is None
                and scan.where is None
                and scan.limit < _MOST_LOOKED_UP
                and self._may_look_up(db)
            ):
                has_graves = number in self._graves
                places = searching.find_first(db, number, scan, order, index, has_graves=has_graves)
                page = self._look_up(db, number, scan, [*map(itemgetter(0), places)])
                at = len(page.rows)
                if at == len(places):
                    return Walk(page.rows, None)
                return Walk(page.rows, Place(*places[at][1:], places[at][0]))
            return searching.walk(db, number, scan, order, index, start)

        shape = (number, scan.where and scan.where.condition, order, start is None)
        return await self._quickly(container, shape, walk)

    def _may_look_up(self, db: apsw.Connection) -> bool:
        """Whether what memory has is what the file says: rows in the cache, and where partitions
        were cleared."""
        return db is self._here and self._writer.is_still

    def _look_up(self, db: apsw.Connection, number: int, scan: Scan, numbers: list[int]) -> Page:
        """A page of the numbered items. Where all the rest is in an index, rows that were read
        lately need not be read, and made into text, again."""
        known = self._cache.get_numbered(number, numbers)
        if None not in known and (whole := at_once(scan, cast("list[Row]", known))) is not None:
            return whole
        page = Filling(scan)
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
            return searching.has_nested(db, number, order, index)
        written = self._extent(container).lsn
        if self._plain.get((number, order)) == written:
            return False
        if searching.has_nested(db, number, order, index):
            return True
        if len(self._plain) >= _REMEMBERED:
            self._plain.clear()
        self._plain[number, order] = written
        return False

    async def combine(
        self,
        container: Container,
        scan: Scan,
        paths: Sequence[Path],
        take: Callable[[int, dict[str, Any]], None],
    ) -> None:
        number = container.number
        found = await self._lead(container, scan)
        index = None if found is None else found[1]
        if index is None and len(paths) == 1 and paths[0] in scan.indexable:
            index = await self._index(container, paths[0])

        def work(db: apsw.Connection) -> None:
            combining.combine(db, number, scan, index, paths, take)

        def count(db: apsw.Connection) -> int:
            return combining.count(db, number, scan, index)

        if paths:
            await self.in_thread(work)
        elif found is not None:
            shape = (number, "count", scan.where and scan.where.condition)
            take(await self._quickly(container, shape, count), {})
        else:
            take(await self.in_thread(count), {})

    async def access(
        self,
        container: Container,
        scan: Scan,
        order: Order | None,
        combined: Sequence[Path] | None = None,
    ) -> Access:
        number = container.number
        known = set(self._indexes.paths(number)) & scan.indexable
        everything = scan._replace(where=None)

        def find(db: apsw.Connection) -> Access:
            if scan.pk_prefix is not None:
                within = scan if wanted_ids(scan) else everything
                return Access("key", None, combining.count(db, number, within, None))
            for lead in leads(scan.where.condition) if scan.where else ():
                index = self._indexes.find(number, lead.path) if lead.path in known else None
                if index is not None:
                    looked = searching.count_up_to(db, number, scan, lead, index, 2**31)
                    if order is None or lead.path == order.path or looked <= FEW:
                        return Access("index", lead.path, looked)
            looked = combining.count(db, number, everything, None)
            if order is not None and order.path in known:
                return Access("order", order.path, looked)
            if combined is not None and len(combined) == 1 and combined[0] in known:
                return Access("index", combined[0], looked)
            return Access("scan", None, looked)

        return await self.in_thread(find)

    async def keep_indexes(self, container: Container, keep: Callable[[Path], bool]) -> None:
        unwanted = [path for path in self._indexes.paths(container.number) if not keep(path)]
        if unwanted:

            def drop() -> None:
                for path in unwanted:
                    self._indexes.drop(self._write_db, container.number, path)

            await self._writer.submit(drop, is_heavy=True)

    async def _lead(self, container: Container, scan: Scan) -> tuple[Lead, str] | None:
        """The part of the condition to follow and its index, which is made if it pays."""
        return await best_lead(
            scan,
            lambda path: self._index(container, path),
            lambda lead, index: self._count_up_to(container, scan, lead, index, FEW),
        )

    async def _count_up_to(
        self, container: Container, scan: Scan, lead: Lead, index: str, most: int
    ) -> int:
        number = container.number
        return await self._quickly(
            container,
            (number, most, lead),
            lambda db: searching.count_up_to(db, number, scan, lead, index, most),
        )

    async def _index(self, container: Container, path: Path) -> str | None:
        """The index over a path, made now if the container is large enough to need one."""
        number = container.number
        name = self._indexes.find(number, path)
        if name is not None:
            return name
        items = self._extent(container).items
        place = (number, path)
        if items < property_indexes.LEAST_ITEMS or self._is_hopeless(place):
            return None
        building = self._building.get(place)
        if building is None:
            building = self._building[place] = asyncio.ensure_future(self._build(number, path))
            building.add_done_callback(lambda _: self._building.pop(place, None))
        # Shielded: others may wait for it when this client has gone.
        await asyncio.shield(building)
        return self._indexes.find(number, path)

    def _is_hopeless(self, place: tuple[int, Path]) -> bool:
        """Whether the index could not be made a moment ago: queries do without it meanwhile."""
        failed = self._failed.get(place)
        return failed is not None and time.monotonic() - failed < property_indexes.PAUSE

    async def _build(self, number: int, path: Path) -> None:
        try:
            publish = await self._writer.submit(
                lambda: self._indexes.create(self._write_db, number, path), is_heavy=True
            )
        except UNWRITTEN as exc:
            log.warning("an index could not be made: %s", exc.message)
            if len(self._failed) >= _REMEMBERED:
                self._failed.clear()
            self._failed[number, path] = time.monotonic()
        else:
            publish()

    def _extent(self, container: Container) -> Position:
        """How often a container was written, and what it holds, over all its ranges."""
        number = container.number
        if len(container.ranges) == 1:
            return self._positions.get((number, 0), START)
        parts = [self._positions.get((number, part.index), START) for part in container.ranges]
        return Position._make(map(sum, zip(*parts, strict=True)))

    async def _quickly(self, container: Container, shape: Hashable, work: Work[T]) -> T:
        """Does on the spot what takes microseconds, as a point read is done, and else in a thread.

        Nobody knows beforehand, so it is tried for a moment; a shape that took longer is not tried
        again for a while.
        """
        if self._slow and (waits := self._slow.get(shape, 0)):
            self._slow[shape] = waits - 1
            return await self.in_thread(work)
        found = self._tried(container, shape, work)
        return await self.in_thread(work) if found is None else found

    def _tried(self, container: Container, shape: Hashable, work: Work[T]) -> T | None:
        """What the work gives; None if it takes longer than a moment, or would."""
        if self._slow and self._slow.get(shape, 0):
            return None
        extent = self._extent(container)
        if extent.size > extent.items * _SMALL_ITEM:
            return None
        db = self._here
        if self._writer.is_still and not db.in_transaction:
            db.execute("BEGIN")
        self._moment.left = 2
        try:
            return work(db)
        except apsw.InterruptError:
            if len(self._slow) >= _REMEMBERED:
                self._slow.clear()
            self._slow[shape] = _PATIENCE
            return None
        except DRIVER_ERRORS as exc:
            raise _told(exc) from exc
        finally:
            self._moment.left = inf


@lru_cache(maxsize=1024)
def _row_sql(number: int) -> str:
    return f"SELECT {COLUMNS} FROM items_{number} WHERE number = ?"


def _told(exc: Exception) -> BaseException:
    if isinstance(exc, apsw.SQLError) and str(exc).startswith("no such index"):
        return IndexGone(str(exc))
    return as_client_error(exc)


class _Job(Generic[T]):
    """Work on a connection that another thread may interrupt while it runs, and only then."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._is_unwanted = False

    def run(self, db: apsw.Connection) -> T:
        with self._lock:
            if self._is_unwanted:
                raise apsw.InterruptError
            self._db = db
        try:
            return self._work(db)
        except DRIVER_ERRORS as exc:
            raise _told(exc) from exc
        finally:
            with self._lock:
                self._db = None

    def interrupt(self) -> None:
        with self._lock:
            self._is_unwanted = True
            if self._db is not None:
                self._db.interrupt()


class _Moment:
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
