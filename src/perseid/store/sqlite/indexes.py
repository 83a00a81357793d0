"""Indexes over properties of stored items, created when a query first needs one.

An index over a path holds the rank of the value's type, the value, and the item's number: equal
values are in order of creation, and all values in the order of ORDER BY. The columns `ts` and `ttl`
let it filter out expired items without reading them. The name of an index contains its path, so the
schema of the file lists the existing indexes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import apsw
import orjson

from perseid.conditions import PropertyPath
from perseid.errors import NOT_WRITTEN_ERRORS
from perseid.index_paths import is_indexable
from perseid.model import Container
from perseid.store.sql import index_limits
from perseid.store.sql.range_state import RangeState, container_state
from perseid.store.sqlite.conditions_sql import rank_sql, value_sql
from perseid.store.sqlite.disk_reserve import DiskReserve
from perseid.store.sqlite.writer import GroupCommitWriter

log = logging.getLogger(__name__)

_MOST_FAILURES: Final = 4096


class IndexDropped(Exception):
    """The index that a search was about to use was dropped to make room for another."""


class PropertyIndexes:
    """The existing indexes by container and path, and when each was last used."""

    def __init__(
        self,
        write_db: apsw.Connection,
        writer: GroupCommitWriter,
        range_states: Mapping[tuple[int, int], RangeState],
        reserve: DiskReserve,
    ) -> None:
        self._write_db = write_db
        self._reserve = reserve
        self._writer = writer
        self._range_states = range_states
        self._known: dict[int, dict[PropertyPath, str]] = {}
        self._last_used: dict[str, float] = {}
        self._one_build = asyncio.Lock()  # so that writes go in between
        self._building: dict[tuple[int, PropertyPath], asyncio.Future[None]] = {}
        self._failed_at: dict[tuple[int, PropertyPath], float] = {}
        for (name,) in write_db.execute("SELECT name FROM sqlite_schema WHERE type = 'index'"):
            table, mark, path = name.partition("_by_")
            if mark:
                number = int(table.removeprefix("items_"))
                path = path[: path.rindex("]") + 1]
                self._known.setdefault(number, {})[tuple(orjson.loads(path))] = name

    @property
    def building(self) -> int:
        """How many indexes are being created."""
        return len(self._building)

    def find(self, number: int, path: PropertyPath) -> str | None:
        """The name of the index over a path; counts as a use of it."""
        name = self._known.get(number, {}).get(path)
        if name is not None:
            self._last_used[name] = time.monotonic()
        return name

    def paths(self, number: int) -> list[PropertyPath]:
        return list(self._known.get(number, {}))

    async def ensure(self, container: Container, path: PropertyPath) -> str | None:
        """The index over a path; it is created if the container is large enough to need it."""
        number = container.number
        name = self.find(number, path)
        if name is not None:
            return name
        items = container_state(self._range_states, container).items
        key = (number, path)
        if (
            items < index_limits.LEAST_ITEMS
            or self._has_failed_recently(key)
            or not self._has_room(number)
        ):
            return None
        building = self._building.get(key)
        if building is None:
            building = self._building[key] = asyncio.ensure_future(self._build(number, path))
            building.add_done_callback(lambda _: self._building.pop(key, None))
        # Shielded: other queries may wait for it when this client has disconnected.
        await asyncio.shield(building)
        return self.find(number, path)

    def _has_room(self, number: int) -> bool:
        """True if the container may have another index, perhaps in the place of an unused one."""
        known = self._known.get(number, {})
        return len(known) < index_limits.MOST_INDEXES or self._replaceable(known) is not None

    def _replaceable(self, known: Mapping[PropertyPath, str]) -> str | None:
        return index_limits.replaceable(known.values(), self._last_used, time.monotonic())

    def _has_failed_recently(self, key: tuple[int, PropertyPath]) -> bool:
        failed_at = self._failed_at.get(key)
        return failed_at is not None and time.monotonic() - failed_at < index_limits.RETRY_DELAY

    async def _build(self, number: int, path: PropertyPath) -> None:
        try:
            async with self._one_build:
                if not self._has_room(number):
                    return  # others were created meanwhile
                publish = await self._writer.submit(
                    lambda: self._create(number, path), is_heavy=True
                )
        except NOT_WRITTEN_ERRORS as exc:
            log.warning("an index could not be created: %s", exc.message)
            if len(self._failed_at) >= _MOST_FAILURES:
                self._failed_at.clear()
            self._failed_at[number, path] = time.monotonic()
        else:
            publish()

    def _create(self, number: int, path: PropertyPath) -> Callable[[], None]:
        """Creates the index inside a transaction; drops the least recently used one if there are
        many. The caller runs the returned function once that is durable."""
        self._reserve.refuse_growth()
        name = _name(number, path)
        known = self._known.get(number, {})
        if len(known) >= index_limits.MOST_INDEXES:
            unused = self._replaceable(known)
            if unused is None:  # used a moment ago
                return lambda: None
            self._drop(number, next(each for each in known if known[each] == unused))
        self._write_db.execute(
            f"CREATE INDEX IF NOT EXISTS {_quoted(name)} ON items_{number}"
            f" ({rank_sql(path)}, {value_sql(path)}, number, ts, ttl)"
        )

        def publish() -> None:
            self._known.setdefault(number, {})[path] = name
            self._last_used[name] = time.monotonic()

        return publish

    async def drop_disallowed(self, container: Container) -> None:
        """Drops the indexes that the indexing policy no longer allows."""
        number = container.number
        disallowed = [path for path in self.paths(number) if not is_indexable(container, path)]
        if disallowed:

            def drop() -> None:
                for path in disallowed:
                    self._drop(number, path)

            await self._writer.submit(drop, is_heavy=True)

    def _drop(self, number: int, path: PropertyPath) -> None:
        """Queries stop using the index at once. If the transaction is rolled back, the next
        attempt to create it makes it known again."""
        name = self._known.get(number, {}).pop(path, None)
        if name is not None:
            self._write_db.execute(f"DROP INDEX IF EXISTS {_quoted(name)}")

    def drop_container(self, number: int) -> None:
        """After the table of the container was dropped."""
        self._known.pop(number, None)


def _name(number: int, path: PropertyPath) -> str:
    """SQLite ignores case in names, so a path with capital letters gets a digest."""
    text = orjson.dumps(path).decode()
    if text != text.lower():
        text += hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return f"items_{number}_by_{text}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def indexed_by(name: str) -> str:
    return f"INDEXED BY {_quoted(name)}"
