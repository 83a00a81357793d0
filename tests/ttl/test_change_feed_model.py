"""Both modes of the change feed against a model: writes, expiries, purges, restarts, readers."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid import documents, partition
from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.errors import BadRequest, NotFound
from perseid.model import Container
from perseid.server import opened
from perseid.service import change_feed
from perseid.service.account import Account
from perseid.service.change_feed import FROM_NOW, ChangeFeedStart
from perseid.service.items import point_operations
from perseid.service.operation import begin
from perseid.service.resources import containers, databases
from perseid.service.throughput.rules import Throughput
from perseid.store.types import PurgeRequest, Search
from perseid.ttl import is_live
from tests.support.builders import PARTITION_KEY
from tests.support.stores import SQLITE, Stores

RETENTION = 60
IDS = 6


class Stored(NamedTuple):
    """An item on disk, expired or not."""

    version: int
    ts: int
    ttl: int | None
    lsn: int


class Line(NamedTuple):
    """An expected record."""

    lsn: int
    ts: int
    kind: str
    id: str
    version: int | None
    previous: int | None


@dataclass
class Part:
    """A range as it should be."""

    lsn: int = 0
    items: dict[str, Stored] = field(default_factory=dict)
    log: list[Line] = field(default_factory=list)


@dataclass
class Reader:
    part: int
    etag: str | None
    lsn: int


class World:
    """A real account and the model of it."""

    def __init__(self, settings: Settings, ranges: int, default_ttl: int | None) -> None:
        self.settings = settings
        self.clock = MovableClock()
        self.clock.set(math.ceil(self.clock.freeze()))
        self.ranges = ranges
        self.default_ttl = default_ttl
        self.parts = [Part() for _ in range(ranges)]
        self.versions = 0
        self.latest = [Reader(part, None, 0) for part in range(ranges)]
        self.all = [Reader(part, None, 0) for part in range(ranges)]
        self.stack = AsyncExitStack()
        self.account: Account
        self.container: Container

    async def open(self) -> None:
        self.account = await self.stack.enter_async_context(opened(self.settings, self.clock))

    async def start(self) -> None:
        await self.open()
        now = self.clock.now()
        await databases.create(self.account, {"id": "d"}, None, now)
        body: dict[str, Any] = {
            "id": "c",
            "partitionKey": PARTITION_KEY,
            "changeFeedPolicy": {"retentionDuration": RETENTION // 60},
        }
        if self.default_ttl is not None:
            body["defaultTtl"] = self.default_ttl
        throughput = Throughput(self.ranges * 6_000)
        self.container = await containers.create(self.account, "d", body, throughput, now)
        assert len(self.container.ranges) == self.ranges
        for reader in self.all:
            found = await change_feed.read_versions(
                begin(self.account, self.container, now),
                Search(range_index=reader.part),
                ChangeFeedStart(FROM_NOW, None),
            )
            reader.etag = found.etag

    async def restart(self) -> None:
        await self.stack.aclose()
        self.stack = AsyncExitStack()
        await self.open()
        self.container = self.account.catalog.container("d", "c")

    @property
    def now(self) -> int:
        return int(self.clock.now())

    def part_of(self, id_: str) -> int:
        epk = partition.effective((id_,), self.container.key)
        return partition.range_of(epk, self.container.ranges).index

    def is_live(self, item: Stored) -> bool:
        return is_live(item.ts, item.ttl, self.account.cutoff(self.container, self.now))

    async def upsert(self, id_: str, ttl: int | None) -> None:
        self.versions += 1
        body: dict[str, Any] = {"id": id_, "pk": id_, "v": self.versions}
        if ttl is not None:
            body["ttl"] = ttl
        checked_item = point_operations.checked_item(
            self.container, documents.parse(orjson.dumps(body)), None
        )
        op = begin(self.account, self.container, self.clock.now())
        await point_operations.upsert(op, checked_item, None)
        index = self.part_of(id_)
        part = self.parts[index]
        part.lsn += 1
        old = part.items.get(id_)
        if old is not None and not self.is_live(old):
            part.log.append(Line(part.lsn, self.now, "expire", id_, None, old.lsn))
            old = None
        kind, previous = ("create", None) if old is None else ("replace", old.lsn)
        part.log.append(Line(part.lsn, self.now, kind, id_, self.versions, previous))
        part.items[id_] = Stored(self.versions, self.now, ttl, part.lsn)

    async def delete(self, id_: str) -> None:
        op = begin(self.account, self.container, self.clock.now())
        part = self.parts[self.part_of(id_)]
        place = point_operations.logical_partition_of(self.container, orjson.dumps([id_]).decode())
        old = part.items.get(id_)
        if old is None or not self.is_live(old):
            with pytest.raises(NotFound):
                await point_operations.delete(op, place, id_, None)
            return
        await point_operations.delete(op, place, id_, None)
        part.lsn += 1
        part.log.append(Line(part.lsn, self.now, "delete", id_, old.version, old.lsn))
        del part.items[id_]

    async def purge(self, index: int, limit: int) -> None:
        cutoff = self.account.cutoff(self.container, self.now)
        part = self.parts[index]
        expired = {id_ for id_, item in part.items.items() if not self.is_live(item)}
        names = {
            row.number: row.id
            for row in (
                await self.account.stores.queries.search(self.container, Search(range_index=index))
            ).rows
        }
        result = await self.account.stores.expiry.purge(
            PurgeRequest(self.container, index, cutoff, limit)
        )
        gone = [names[purged_item.number] for purged_item in result.items]
        assert len(gone) == min(limit, len(expired))
        assert set(gone) <= expired
        if gone:
            part.lsn += 1
        for id_ in gone:
            old = part.items.pop(id_)
            part.log.append(Line(part.lsn, self.now, "expire", id_, None, old.lsn))

    async def read_latest(self, reader: Reader, limit: int) -> None:
        part = self.parts[reader.part]
        expected = sorted(
            (item.lsn, id_, item.version)
            for id_, item in part.items.items()
            if item.lsn > reader.lsn and self.is_live(item)
        )
        op = begin(self.account, self.container, self.clock.now())
        scope = Search(range_index=reader.part, limit=limit, cutoff=op.cutoff)
        found = await change_feed.read_latest(op, scope, ChangeFeedStart(reader.etag, None))
        shown = [(row.lsn, row.id, orjson.loads(row.body)["v"]) for row in found.rows]
        assert shown == expected[:limit]
        reader.lsn = shown[-1][0] if len(expected) > limit else part.lsn
        reader.etag = found.etag
        assert reader.etag == f'"{reader.lsn}"'

    async def read_all(self, reader: Reader, limit: int) -> None:
        part = self.parts[reader.part]
        expected = [line for line in part.log if line.lsn > reader.lsn]
        op = begin(self.account, self.container, self.clock.now())
        scope = Search(range_index=reader.part, limit=limit)
        if expected and expected[0].ts <= self.now - RETENTION:
            with pytest.raises(BadRequest, match="retention"):
                await change_feed.read_versions(op, scope, ChangeFeedStart(reader.etag, None))
            found = await change_feed.read_versions(op, scope, ChangeFeedStart(FROM_NOW, None))
            assert found.changes == []
            reader.lsn = part.lsn
        else:
            found = await change_feed.read_versions(op, scope, ChangeFeedStart(reader.etag, None))
            page = expected[:limit]
            if page:  # the last transaction is shown to its end
                page = [line for line in expected if line.lsn <= page[-1].lsn]
            shown = [
                Line(
                    change.lsn,
                    change.ts,
                    change.kind,
                    change.id,
                    None if change.body is None else orjson.loads(change.body)["v"],
                    change.previous_lsn,
                )
                for change in found.changes
            ]
            assert shown == page
            reader.lsn = page[-1].lsn if len(page) < len(expected) else part.lsn
        reader.etag = found.etag
        assert reader.etag == f'"{reader.lsn}"'

    async def whole(self) -> None:
        """The whole container in one feed shows everyone alive, once."""
        op = begin(self.account, self.container, self.clock.now())
        etag, seen = None, []
        while True:
            scope = Search(limit=2, cutoff=op.cutoff)
            found = await change_feed.read_latest(op, scope, ChangeFeedStart(etag, None))
            if not found.rows:
                break
            seen += [row.id for row in found.rows]
            etag = found.etag
        alive = [
            id_ for part in self.parts for id_, item in part.items.items() if self.is_live(item)
        ]
        assert sorted(seen) == sorted(alive)


ID = st.integers(0, IDS - 1).map(lambda number: f"i{number}")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ID, st.sampled_from([None, -1, 1, 3, 8])),
        st.tuples(st.just("upsert"), ID, st.sampled_from([None, -1, 1, 3, 8])),
        st.tuples(st.just("delete"), ID),
        st.tuples(st.just("advance"), st.sampled_from([1, 2, 5, 25])),
        st.tuples(st.just("purge"), st.integers(1, 3)),
        st.tuples(st.just("latest"), st.integers(1, 4)),
        st.tuples(st.just("all"), st.integers(1, 4)),
        st.tuples(st.just("forget"), st.integers(1, 4)),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


async def play(settings: Settings, ranges: int, default_ttl: int | None, steps: list[Any]) -> None:
    world = World(settings, ranges, default_ttl)
    try:
        await world.start()
        for name, *values in [*steps, ("latest", 2), ("all", 100)]:
            if name == "upsert":
                await world.upsert(*values)
            elif name == "delete":
                await world.delete(*values)
            elif name == "advance":
                world.clock.advance(values[0])
            elif name == "purge":
                for part in range(ranges):
                    await world.purge(part, values[0])
            elif name == "latest":
                for reader in world.latest:
                    await world.read_latest(reader, values[0])
            elif name == "all":
                for reader in world.all:
                    await world.read_all(reader, values[0])
            elif name == "forget":
                await world.account.stores.changes.trim(
                    world.container, world.now - RETENTION, values[0]
                )
            else:
                await world.restart()
        await world.whole()
    finally:
        await world.stack.aclose()


def test_both_modes_agree_with_the_model(stores: Stores) -> None:
    @given(ranges=st.sampled_from([1, 3]), default_ttl=st.sampled_from([None, -1, 4]), steps=STEPS)
    @settings(
        # Each has a database of its own, and restarts.
        max_examples=60 if stores is SQLITE else 15,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def agree(ranges: int, default_ttl: int | None, steps: list[Any]) -> None:
        with stores.place() as place:
            asyncio.run(play(place.lasting(), ranges, default_ttl, steps))

    agree()
