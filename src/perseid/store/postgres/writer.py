"""Writes on PostgreSQL: the writes that wait for a range share its next transaction.

The counters of a range are one row, which each writing transaction locks until it is durable; so
transactions on a range are ordered across all server processes. Each process collects the writes
that wait for a range, reads all their rows at once, decides one after the other in memory, and
sends all changes together with the COMMIT.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import psycopg

from perseid.errors import OwnerNotFound, without_frames
from perseid.model import Container, ItemKey, Row
from perseid.store.postgres import property_values, statements
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.failures import as_client_error, is_single_write_error
from perseid.store.postgres.overlay import Overlay
from perseid.store.postgres.pool import DatabaseConnection, Pool
from perseid.store.postgres.property_indexes import kept_indexes
from perseid.store.postgres.property_values import PropertyIndexSet
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.transactions import Statement, commit, execute, pipelined, transact
from perseid.store.sql.range_state import RangeState
from perseid.store.types import Decision, PartitionAtCutoff, View
from perseid.ttl import live_sql

T = TypeVar("T")

LARGEST_GROUP: Final = 64
_PARTITION_SIZE: Final = (
    "SELECT COALESCE(SUM(size), 0)::bigint FROM items WHERE part = $1 AND pk = $2 AND "
    + live_sql("$3", "$4")
)


class _Job:
    __slots__ = ("container", "decide", "error", "future", "is_heavy", "keys", "result")

    def __init__(
        self,
        container: Container,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[Any]],
        is_heavy: bool,
        future: asyncio.Future[Any],
    ) -> None:
        self.container = container
        self.keys = keys
        self.decide = decide
        self.is_heavy = is_heavy
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class PostgresWriter:
    """All writes to items of this process."""

    def __init__(
        self, pool: Pool, catalog_version: CatalogVersion, now: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._now = now
        self._waiting: dict[str, deque[_Job]] = {}  # by range
        self._tasks: set[asyncio.Task[None]] = set()
        # By range: how often its list of property indexes has changed, and the list.
        self._indexes: dict[str, tuple[int, PropertyIndexSet]] = {}

    def write(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
        *,
        is_heavy: bool,
    ) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = _Job(container, keys, decide, is_heavy, future)
        part = range_key(container.number, range_index)
        waiting = self._waiting.get(part)
        if waiting is not None:
            waiting.append(job)
        else:
            self._waiting[part] = deque((job,))
            task = loop.create_task(self._write_range(part))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def close(self) -> None:
        """Finishes everything that was submitted."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _write_range(self, part: str) -> None:
        """Runs groups until no write waits for the range."""
        waiting = self._waiting[part]
        while waiting:
            group = [waiting.popleft()]
            if not group[0].is_heavy:
                while waiting and not waiting[0].is_heavy and len(group) < LARGEST_GROUP:
                    group.append(waiting.popleft())
            try:
                await self._run(part, group)
            except BaseException as exc:
                for job in group:
                    job.error = job.error or without_frames(as_client_error(exc))
                if not isinstance(exc, Exception):
                    _answer(group)
                    raise
            _answer(group)
        del self._waiting[part]

    async def _run(self, part: str, group: list[_Job]) -> None:
        try:
            await self._try(part, group)
        except psycopg.Error as exc:
            if len(group) == 1 or not is_single_write_error(exc):
                raise
            # The database rejected one of the writes; each runs again alone.
            for job in group:
                try:
                    await self._try(part, [job])
                except Exception as alone:
                    job.error = without_frames(as_client_error(alone))

    async def _try(self, part: str, group: list[_Job]) -> None:
        await transact(self._pool, lambda db: self._attempt(db, part, group))

    async def _attempt(self, db: DatabaseConnection, part: str, group: list[_Job]) -> None:
        for job in group:
            job.result = job.error = None
        keys = [*{key: None for job in group for key in job.keys if is_storable_key(key)}]
        lock, version, rows = await pipelined(
            db,
            ("BEGIN", ()),
            (statements.LOCK, (part,)),
            (statements.VERSION, ()),
            _find(part, keys),
        )
        if not lock:
            current = version[0][0]
            for job in group:
                job.error = _missing(self._catalog_version, current, job.container)
            await db.execute("ROLLBACK")
            return
        *counters, floor, _lease_holder, _until, index_version = lock[0]
        indexes = await self._kept_indexes(db, part, index_version)
        overlay = Overlay(RangeState._make(counters), map(Row._make, rows))
        unique_key_owners: dict[bytes, Row | None] = {}  # in the database
        for job in group:
            try:
                self._catalog_version.check(version[0][0], job.container)
                self._catalog_version.check_write(job.container)
                decision = await self._decide(db, part, job, overlay, indexes, unique_key_owners)
                ts = None if floor is None else decision.second(self._now)
                overlay.add_changes(decision.changes, ts)
                job.result = decision.result
            except psycopg.Error:
                raise
            except Exception as exc:
                job.error = without_frames(exc)
        sent = _statements(part, group[0].container, overlay, indexes)
        await commit(db, *sent, is_writing=bool(sent) or overlay.is_sent)

    async def _kept_indexes(
        self, db: DatabaseConnection, part: str, version: int
    ) -> PropertyIndexSet:
        """The property indexes whose entries the writes of a transaction keep."""
        if not version:
            return ()
        known = self._indexes.get(part)
        if known is None or known[0] != version:
            self._indexes[part] = known = version, await kept_indexes(db, part)
        return known[1]

    async def _decide(
        self,
        db: DatabaseConnection,
        part: str,
        job: _Job,
        overlay: Overlay,
        indexes: PropertyIndexSet,
        unique_key_owners: dict[bytes, Row | None],
    ) -> Decision[Any]:
        rows = {key: overlay.row(key) for key in job.keys}
        owners: dict[bytes, Row | None] = {}
        sizes: dict[PartitionAtCutoff, int] = {}
        has_unique = bool(job.container.unique_keys)
        range_state = overlay.range_state
        while True:
            view = View(rows, owners, sizes, range_state.lsn + 1, range_state.size)
            decision = (
                await asyncio.to_thread(job.decide, view) if job.is_heavy else job.decide(view)
            )
            partitions = [each for each in decision.needs_sizes if each not in sizes]
            if partitions:
                # The size must include the changes of earlier writes of this transaction.
                if overlay.is_changed:
                    await pipelined(db, *_statements(part, job.container, overlay, indexes))
                    overlay.sent()
                    unique_key_owners.clear()
                for each in partitions:
                    values = (part, each.pk, *each.cutoff)
                    ((sizes[each],),) = await execute(db, _PARTITION_SIZE, values)
            entries = [e for e in decision.entries() if e not in owners] if has_unique else []
            if entries:
                await _read_owners(db, part, entries, unique_key_owners)
                owners |= {
                    entry: overlay.unique_key_owner(entry, unique_key_owners[entry])
                    for entry in entries
                }
            if not partitions and not entries:
                return decision


async def _read_owners(
    db: DatabaseConnection,
    part: str,
    entries: Iterable[bytes],
    stored_owners: dict[bytes, Row | None],
) -> None:
    """Adds the rows that own the entries in the database, as far as they are not known."""
    unread = [entry for entry in entries if entry not in stored_owners]
    if unread:
        stored_owners.update(dict.fromkeys(unread))
        for entry, *columns in await execute(db, statements.UNIQUE_KEY_OWNERS, (part, unread)):
            stored_owners[entry] = Row._make(columns)


def _answer(group: Iterable[_Job]) -> None:
    for job in group:
        if job.future.done():  # the client disconnected; the write stands
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def is_storable_key(key: ItemKey) -> bool:
    """True if an item can have that key: PostgreSQL's text has neither NUL nor lone surrogates."""
    return "\0" not in key.id and (key.id.isascii() or not _has_surrogates(key.id))


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _missing(catalog_version: CatalogVersion, version: int, container: Container) -> BaseException:
    """Why a range is missing: the container was dropped, by this or another process."""
    try:
        catalog_version.check(version, container)
        catalog_version.check_write(container)
    except Exception as exc:
        return exc
    return OwnerNotFound()


def _find(part: str, keys: Sequence[ItemKey]) -> Statement:
    if len(keys) == 1:
        return statements.FIND_ONE, (part, *keys[0])
    return statements.FIND, (part, *statements.key_arrays(keys))


def _statements(
    part: str, container: Container, overlay: Overlay, indexes: PropertyIndexSet
) -> list[Statement]:
    """The statements that apply the changes of the overlay."""
    if not overlay.is_changed:
        return []
    sent: list[Statement] = []
    if container.unique_keys and (released := overlay.released()):
        sent.append((statements.RELEASE, (part, released)))
    if gone := overlay.gone():
        numbers = [row.number for row in gone]
        sent.append((statements.DELETE, (part, numbers)))
        if indexes:
            sent.append((property_values.DELETE, (part, numbers)))
    new, changed = overlay.written()
    sent += statements.inserts(part, container.number, new)
    sent += statements.upserts(part, container.number, changed)
    if indexes and new:
        sent.append(property_values.insert_values(part, [row.number for row in new], indexes))
    if indexes and changed:
        sent.append(property_values.replace_values(part, [row.number for row in changed], indexes))
    if container.unique_keys:
        sent += statements.reserve_entries(part, overlay.reserved())
    sent += statements.log_inserts(part, overlay.log)
    sent.append(statements.update_range_state(part, overlay.range_state))
    return sent
