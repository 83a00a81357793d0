"""The account: the store, the catalog and the settings, handed to every operation."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from perseid.clock import Clock
from perseid.config import Settings
from perseid.errors import NOT_WRITTEN_ERRORS, Conflict, StaleCatalog
from perseid.ids import make_etag
from perseid.model import Container, StorageUsage
from perseid.service.catalog import Catalog
from perseid.service.queries.disconnects import DisconnectWatcher
from perseid.service.queries.plan_cache import PlanCache
from perseid.service.throughput.budgets import Budgets
from perseid.store.protocol import Stores
from perseid.store.types import AuditEntry, PutResource, RemoveResource, StaleResource, StoreError
from perseid.ttl import Cutoff, Policy

T = TypeVar("T")

log = logging.getLogger(__name__)

CLOCK_LIMIT_AHEAD: Final = 2.0


@dataclass(slots=True)
class Account:
    settings: Settings
    stores: Stores
    clock: Clock
    catalog: Catalog
    secret: bytes  # signs continuation tokens; kept with the data, so tokens survive a restart
    # Metadata changes are rare and depend on each other: one at a time.
    metadata_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # No later time than this may be shown before it is made durable: see `reach`. Infinite for a
    # clock that is kept elsewhere.
    durable_clock_limit: float = 0.0
    requests: int = 0  # admitted so far; background work looks at it to make way
    # Containers, by rid and etag, whose policy change is still being counted for the audit log:
    # until then nothing of theirs is removed, or the count would be short.
    pending_audit_counts: set[tuple[str, str]] = field(default_factory=set)
    background: set[asyncio.Task[None]] = field(default_factory=set)
    plans: PlanCache = field(default_factory=PlanCache)
    disconnects: DisconnectWatcher = field(default_factory=DisconnectWatcher)
    budgets: Budgets | None = None  # None: throughput is not enforced

    def cutoff(self, container: Container, now: float) -> Cutoff:
        """What is dead in the container, for the whole of a request admitted at `now`."""
        return self.cutoff_under(container.policy, now)

    def cutoff_under(self, policy: Policy, now: float) -> Cutoff:
        """What is dead at `now` under a policy."""
        return policy.cutoff(int(now), revive_unpurged=self.settings.revive_unpurged)

    async def usage(
        self, container: Container, cutoff: Cutoff, range_index: int | None = None
    ) -> StorageUsage:
        """What the container holds, over all its ranges or in one."""
        usages = [
            await self.stores.items.usage(container, key_range.index, cutoff)
            for key_range in container.ranges
            if range_index is None or range_index == key_range.index
        ]
        return StorageUsage._make(map(sum, zip(*usages, strict=True)))

    async def change(
        self,
        changes: Sequence[PutResource | RemoveResource | AuditEntry],
        follow_up_change: Callable[[], PutResource | None] | None = None,
    ) -> None:
        """Makes metadata changes durable, then visible.

        `amended` is asked in between: for what has become of a resource by then.
        """
        try:
            await self.stores.metadata.change(changes)
        except StaleResource as exc:
            raise Conflict(
                f"The resource '{exc}' was changed by someone else at the same moment."
            ) from exc
        follow_up = None if follow_up_change is None else follow_up_change()
        self.catalog.apply(changes if follow_up is None else [*changes, follow_up])
        if self.budgets is not None:
            self.budgets.refresh(self.catalog.has_resource)
        if follow_up is not None:
            try:
                await self.stores.metadata.change([follow_up])
            except (
                *NOT_WRITTEN_ERRORS,
                StaleResource,
                StaleCatalog,
            ) as exc:  # the change itself stands
                log.warning("a change that took long could not be amended: %s", exc)

    async def reload(self) -> None:
        """Takes up what other front ends have changed. Whoever changes metadata is let finish."""
        known_epoch = self.stores.metadata.catalog_generation
        async with self.metadata_lock:
            if self.stores.metadata.catalog_generation != known_epoch:
                return  # somebody has done it meanwhile
            resources = await self.stores.metadata.resources()
            if self.stores.metadata.catalog_generation != known_epoch:
                retention = self.settings.change_feed_retention
                self.catalog = Catalog(
                    resources, retention, self.stores.metadata.catalog_generation
                )
                if self.budgets is not None:
                    self.budgets.refresh(self.catalog.has_resource)

    async def retry_if_stale(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does work that begins anew if it was begun with outdated metadata."""
        while True:
            try:
                return await work()
            except StaleCatalog:
                await self.reload()

    async def persist_clock(
        self, now: float, ahead: float = CLOCK_LIMIT_AHEAD, *, early: float = 0.0
    ) -> None:
        """Makes durable that the clock has shown `now`, and may show a little more.

        A crash and a system clock set back must not bring anyone back to life. Storing a mark
        some seconds ahead means that hardly any request waits for it; done `early` seconds before
        it must be, none does. A disk that takes nothing does not keep anyone from reading.
        """
        if self.durable_clock_limit == inf or (
            now + early <= self.durable_clock_limit and ahead > 0
        ):
            return
        limit = now + early + ahead
        try:
            await self.stores.values.put_meta("clock", f"{now!r} {limit!r}")
        except NOT_WRITTEN_ERRORS as exc:
            if ahead == 0:
                raise
            log.warning("the clock's mark could not be stored: %s", exc.message)
        self.durable_clock_limit = limit

    async def new_etag(self, now: float) -> str:
        return make_etag(int(now), await self.stores.metadata.next_number("etag"))


async def open_account(settings: Settings, stores: Stores, clock: Clock) -> Account:
    """Reads the metadata and takes up where the last run ended."""
    secret = await stores.values.get_meta("token_secret")
    if secret is None:
        secret = await stores.values.put_meta_if_absent("token_secret", secrets.token_hex(32))
    stored = await stores.values.get_meta("clock")
    if stored is not None:
        try:
            last_time, limit = map(float, stored.split())
        except ValueError as exc:
            raise StoreError("the clock's mark in the database is damaged") from exc
        # A clock that has not gone back needs no help; one that has starts where nobody has been.
        clock.advance_to_at_least(limit if clock.now() < last_time else last_time)
    resources = await stores.metadata.resources()
    catalog = Catalog(resources, settings.change_feed_retention, stores.metadata.catalog_generation)
    budgets = Budgets() if settings.enforce_throughput else None
    try:
        key = bytes.fromhex(secret)
    except ValueError as exc:
        raise StoreError("the secret behind continuation tokens is damaged") from exc
    account = Account(settings, stores, clock, catalog, key, budgets=budgets)
    await account.retry_if_stale(lambda: _follow_retention(account))
    return account


async def _follow_retention(account: Account) -> None:
    """Begins or ends the logs of containers for which the server's settings have changed."""
    changes = []
    for container in account.catalog.containers():
        resource = account.catalog.resource(container.rid)
        keeps = container.retention > 0
        if resource.state.get("keeps_versions", False) != keeps:
            state = resource.state | {"keeps_versions": keeps}
            changes.append(PutResource(resource._replace(state=state), replaces=resource.etag))
    if changes:
        await account.change(changes)
