"""One request's view of one container: admitted once, the same until its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from perseid.errors import StaleCatalog
from perseid.model import Container
from perseid.service.account import Account
from perseid.store.protocol import Stores
from perseid.ttl import Cutoff

T = TypeVar("T")


class Operation(NamedTuple):
    """The container as it stood at admission, one `now`, and what is dead at that moment.

    `written` is for items that are to look as if they had been written in another second.
    """

    account: Account
    container: Container
    now: float
    cutoff: Cutoff
    written: int | None = None

    @property
    def stores(self) -> Stores:
        return self.account.stores

    @property
    def ts(self) -> int:
        """The whole second that items written by this request carry."""
        return int(self.now) if self.written is None else self.written


def begin(account: Account, container: Container, now: float) -> Operation:
    return Operation(account, container, now, account.cutoff(container, now))


def rebase_to_now(op: Operation) -> Operation:
    """The operation at the moment in which a write is decided, which others may have held up.

    Whoever has died meanwhile may have been seen dead, so the time is that of this moment, as far
    as it may be shown. Under another definition of the container the request begins again.
    """
    account = op.account
    if account.catalog.container_by_rid(op.container.rid) is not op.container:
        raise StaleCatalog
    next_second = int(op.now) + 1
    now = account.clock.now()
    if now < next_second or account.durable_clock_limit < next_second:
        return op
    now = min(now, account.durable_clock_limit)
    return op._replace(now=now, cutoff=account.cutoff(op.container, now))


async def check_catalog_version(op: Operation) -> None:
    """StaleCatalog unless the container is still what the request has begun with.

    What looks at items finds out by itself; this is for answers that rest on the container alone.
    """
    await op.stores.metadata.check_catalog_version()
    if op.account.catalog.container_by_rid(op.container.rid) is not op.container:
        raise StaleCatalog


async def retry_if_stale(op: Operation, work: Callable[[Operation], Awaitable[T]]) -> T:
    """Does one of the transactions of a request that has several.

    If the container has changed since the request began, this one is done with the container as it
    is now, and the time as it is now; those before it stand.
    """
    while True:
        try:
            return await work(op)
        except StaleCatalog:
            await op.account.reload()
            database, name = op.container.database.id, op.container.id
            container = op.account.catalog.container_of_items(database, name)
            op = begin(op.account, container, op.account.clock.now())
