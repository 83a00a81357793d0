"""Containers filled below the API, and server processes that purge them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import orjson
import pytest

from perseid import ids, partition
from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.documents import seal
from perseid.model import Container, Row, item_number
from perseid.server import opened
from perseid.service.account import Account
from perseid.service.items import unique_keys
from perseid.service.resources import containers, databases
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.types import Decision, PurgedItem, PurgeRequest, PurgeResult, Put, View
from tests.support.builders import PARTITION_KEY
from tests.support.processes import ServerProcess, server_process
from tests.support.raw import RawClient

BATCH = 250


# Setting the stage
class DatedItem(NamedTuple):
    """An item to be put on disk as if it had been written at `ts`."""

    id: str
    ts: int
    ttl: int | None = None


@asynccontextmanager
async def container_at(
    settings: Settings, clock: MovableClock, default_ttl: int | None, **rest: Any
) -> AsyncIterator[tuple[Account, Container]]:
    """An open account with one new container, `d/c`; nothing serves it and nothing sweeps it."""
    async with opened(settings, clock) as account:
        await databases.create(account, {"id": "d"}, None, clock.now())
        body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": default_ttl, **rest}
        yield account, await containers.create(account, "d", body, None, clock.now())


async def store_items(account: Account, container: Container, kept: Sequence[DatedItem]) -> None:
    """Stores items in the logical partition `p`, many in a transaction, each with its own time."""
    pk = partition.canonical(("p",))
    epk = bytes.fromhex(partition.effective_of(pk, container.key))

    def put(item: DatedItem, lsn: int, place: int) -> Put:
        value: dict[str, Any] = {"id": item.id, "pk": "p", "mark": item.id}
        if item.ttl is not None:
            value["ttl"] = item.ttl
        number = item_number(0, lsn, place)
        etag = ids.make_etag(item.ts, container.number << 60 | number)
        rid = ids.child_rid(container.rid, "document", number)
        body = seal(orjson.dumps(value), rid, container.docs_link, etag, item.ts)
        row = Row(
            number, pk, item.id, epk, item.ts, item.ttl, lsn, etag, len(body), len(value), body
        )
        unique = unique_keys.entries(container, pk, value) if container.unique_keys else ()
        return Put(row, None, unique)

    async def write(first: int) -> None:
        def decide(view: View) -> Decision[None]:
            batch = kept[first : first + BATCH]
            return Decision([put(item, view.lsn, place) for place, item in enumerate(batch)], None)

        await account.stores.items.write(container, 0, (), decide)

    await asyncio.gather(*map(write, range(0, len(kept), BATCH)))


@contextmanager
def process(settings: Settings, *options: str) -> Iterator[ServerProcess]:
    """A server process with a clock that can be moved."""
    with server_process(settings, "--test-clock", *options) as server:
        yield server


def backlog(raw: RawClient, admin: str = "/_perseid/ttl/d/c") -> int:
    reply = raw.get(admin)
    assert reply.status == 200, reply
    count: int = reply.json["pendingPurge"]["items"]
    return count


async def on_disk(account: Account, container: Container) -> int:
    """Items, expired or not."""
    cutoff = account.cutoff(container, account.clock.now())
    usage = await account.stores.items.usage(container, 0, cutoff)
    return usage.items + usage.expired_items


@contextmanager
def noted_steps(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[str, list[PurgedItem]]]]:
    """The purge steps while the block runs: in which container, and what was purged."""
    steps: list[tuple[str, list[PurgedItem]]] = []
    purge = account.stores.expiry.purge

    async def noted(request: PurgeRequest) -> PurgeResult:
        result = await purge(request)
        steps.append((request.container.id, result.items))
        return result

    with monkeypatch.context() as patched:
        patched.setattr(account.stores.expiry, "purge", noted)
        yield steps


async def set_default_ttl(account: Account, default_ttl: int | None) -> Container:
    body = {**account.catalog.container("d", "c").properties, "defaultTtl": default_ttl}
    now = account.clock.now()
    return await containers.replace(account, "d", "c", body, if_match=None, now=now)


class Disk(NamedTuple):
    """What the file holds while no server runs."""

    ids: list[str]
    items: int
    size: int
    counted: tuple[int, int]
    entries: set[int]
    numbers: set[int]
    verdict: str


def examine(data: Path) -> Disk:
    db = apsw.Connection(str(data / DATABASE_FILE))
    try:
        (name,) = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if name.startswith("items_")
        ]
        number = name.removeprefix("items_")
        rows = list(db.execute(f"SELECT id, number, size FROM {name} ORDER BY id"))
        return Disk(
            [id_ for id_, _, _ in rows],
            len(rows),
            sum(size for _, _, size in rows),
            db.execute("SELECT items, bytes FROM positions WHERE container = ?", (number,)).get,
            {entry for (entry,) in db.execute(f"SELECT number FROM unique_{number}")},
            {number for _, number, _ in rows},
            db.execute("PRAGMA integrity_check").get,
        )
    finally:
        db.close()
