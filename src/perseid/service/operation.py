"""One request's view of one container. It does not change until the request is answered.

Every answer with a status below 500 is checked against the catalog version: the store checks when
it reads or writes items, `check_catalog_version` checks other answers, and `http/app.py` checks
errors. If another server process has changed the metadata, StaleCatalog is raised, nothing was
done, and the request starts again.
"""

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
    """The container at admission, one `now`, and the cutoff of expired items at that time.

    `written` is the `_ts` for imported items that were written at another time.
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
        """The `_ts` of items that this request writes."""
        return int(self.now) if self.written is None else self.written


def begin(account: Account, container: Container, now: float) -> Operation:
    # As `Operation(…)`, in half the time: every request about items makes one.
    return tuple.__new__(Operation, (account, container, now, account.cutoff(container, now), None))


def rebase_to_now(op: Operation) -> Operation:
    """The operation with the current time and policy, taken when its write is decided.

    The write may have waited for others. Items that expired in the meantime may have been reported
    as expired, so the time is the current one, up to the durable clock limit. StaleCatalog if the
    container's definition has changed: then the request starts again.
    """
    account = op.account
    if account.catalog.container_by_rid(op.container.rid) is not op.container:
        raise StaleCatalog
    now = account.durable_now()
    if now < int(op.now) + 1:
        return op
    return op._replace(now=now, cutoff=account.cutoff(op.container, now))


async def check_catalog_version(op: Operation) -> None:
    """StaleCatalog unless the container is still the one that the request started with.

    The store checks this when it reads or writes items; this is for answers that do neither.
    """
    await op.stores.metadata.check_catalog_version()
    if op.account.catalog.container_by_rid(op.container.rid) is not op.container:
        raise StaleCatalog


async def retry_if_stale(op: Operation, work: Callable[[Operation], Awaitable[T]]) -> T:
    """Runs one of the transactions of a request that has several.

    If the container has changed since the request started, this transaction uses the current
    container and the current time; the transactions before it stay as they are.
    """
    while True:
        try:
            return await work(op)
        except StaleCatalog:
            await op.account.reload()
            database, name = op.container.database.id, op.container.id
            container = op.account.catalog.container_of_items(database, name)
            op = begin(op.account, container, op.account.durable_now())
