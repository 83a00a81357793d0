"""Fills a store without a server: items of any age, hundreds in each transaction.

A client could neither choose `_ts` nor write a million items in a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import orjson

from bench.storage import ServerData, Storage
from perseid import charges, ids, partition
from perseid.documents import seal
from perseid.model import LSN_SHIFT, Container, Row, item_number
from perseid.server import opened
from perseid.service.account import Account
from perseid.service.resources import containers, databases
from perseid.store.types import Decision, Put, View

DATABASE: Final = "bench"
PARTITION_KEY: Final = {"paths": ["/pk"], "kind": "Hash", "version": 2}
_BATCH: Final = 1 << LSN_SHIFT  # as many as one LSN has numbers for
_TEXT: Final = "x" * 100
# Keys in a random order would take five times as long to load. Mixed within blocks of this size,
# their order still differs from the order of creation.
_BLOCK: Final = 4096
_STRIDE: Final = 2531  # odd, so that its multiples modulo a power of two are all different


class StoredItem(NamedTuple):
    """An item as if it had been written at `ts`; without a `ttl` the container's applies."""

    kind: str  # a prefix that distinguishes items with the same number
    number: int
    ts: int
    ttl: int | None = None

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.number:08d}"

    @property
    def pk(self) -> str:
        """A logical partition for each item."""
        block, within = divmod(self.number, _BLOCK)
        return f"{block:04x}{within * _STRIDE % _BLOCK:03x}-{self.kind}"

    def value(self) -> dict[str, Any]:
        value = {"id": self.id, "pk": self.pk, "n": self.number, "text": _TEXT}
        return value if self.ttl is None else value | {"ttl": self.ttl}


@asynccontextmanager
async def new_account(server_data: ServerData, storage: Storage) -> AsyncIterator[Account]:
    """A new account with an empty database; all data is on disk when the block ends."""
    async with opened(server_data.settings) as account:
        await databases.create(account, {"id": DATABASE}, None, account.clock.now())
        yield account
    # Data that is still being written to disk would slow down the next measurement.
    storage.flush(server_data)


async def create(account: Account, name: str, default_ttl: int) -> Container:
    body = definition(name, default_ttl)
    return await containers.create(account, DATABASE, body, None, account.clock.now())


def definition(name: str, default_ttl: int) -> dict[str, Any]:
    return {"id": name, "partitionKey": PARTITION_KEY, "defaultTtl": default_ttl}


async def fill(
    account: Account, container: Container, count: int, make_item: Callable[[int], StoredItem]
) -> None:
    """Stores make_item(0), make_item(1), … in this order of creation."""
    if count == 0:
        return
    # All items have the same shape.
    terms = charges.count_terms(make_item(0).value(), container.index)

    async def write(first: int) -> None:
        numbers = range(first, min(first + _BATCH, count))

        def decide(view: View) -> Decision[None]:
            rows = [
                _row(container, make_item(number), view.lsn, place, terms)
                for place, number in enumerate(numbers)
            ]
            return Decision([Put(row) for row in rows], None)

        await account.stores.items.write(container, 0, (), decide)

    await asyncio.gather(*map(write, range(0, count, _BATCH)))


def _row(container: Container, item: StoredItem, lsn: int, place: int, terms: int) -> Row:
    pk = partition.canonical((item.pk,))
    epk = bytes.fromhex(partition.effective_of(pk, container.key))
    number = item_number(0, lsn, place)
    etag = ids.make_etag(item.ts, container.number << 60 | number)
    rid = ids.child_rid(container.rid, "document", number)
    body = seal(orjson.dumps(item.value()), rid, container.docs_link, etag, item.ts)
    return Row(number, pk, item.id, epk, item.ts, item.ttl, lsn, etag, len(body), terms, body)
