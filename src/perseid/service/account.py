"""The account: the store, the catalog and the settings, handed to every operation."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, TypeVar

from perseid.clock import Clock
from perseid.config import Settings
from perseid.errors import UNWRITTEN, Conflict
from perseid.ids import make_etag
from perseid.model import Container, Usage
from perseid.service.budgets import Budgets
from perseid.service.catalog import Catalog
from perseid.store.protocol import (
    Note,
    PutResource,
    RemoveResource,
    StaleCatalog,
    StaleResource,
    Store,
    StoreError,
)
from perseid.ttl import Horizon, Policy

T = TypeVar("T")

log = logging.getLogger(__name__)

CLOCK_AHEAD: Final = 2.0


@dataclass(slots=True)
class Account:
    settings: Settings
    store: Store
    clock: Clock
    catalog: Catalog
    secret: bytes  # signs continuation tokens; kept with the data, so tokens survive a restart
    # Metadata changes are rare and depend on each other: one at a time.
    metadata: asyncio.Lock = field(default_factory=asyncio.Lock)
    # No later time than this may be shown before it is made durable: see `reach`. Infinite for a
    # clock that is kept elsewhere.
    clock_mark: float = 0.0
    requests: int = 0  # admitted so far; background work looks at it to make way
    # Containers, by rid and etag, whose policy change is still being counted for the audit log:
    # until then nothing of theirs is removed, or the count would be short.
    uncounted: set[tuple[str, str]] = field(default_factory=set)
    background: set[asyncio.Task[None]] = field(default_factory=set)
    plans: dict[Any, Any] = field(default_factory=dict)  # of queries: see `plans.plan_for`
    budgets: Budgets | None = None  # None: throughput is not enforced

    def horizon(self, container: Container, now: float) -> Horizon:
        """What is dead in the container, for the whole of a request admitted at `now`."""
        return self.horizon_of(container.policy, now)

    def horizon_of(self, policy: Policy, now: float) -> Horizon:
        """What is dead at `now` under a policy."""
        return policy.horizon(int(now), revive_unpurged=self.settings.revive_unpurged)

    async def usage(
        self, container: Container, horizon: Horizon, range_index: int | None = None
    ) -> Usage:
        """What the container holds, over all its ranges or in one."""
        usages = [
            await self.store.usage(container, part.index, horizon)
            for part in container.ranges
            if range_index is None or range_index == part.index
        ]
        return Usage._make(map(sum, zip(*usages, strict=True)))

    async def change(
        self,
        changes: Sequence[PutResource | RemoveResource | Note],
        amended: Callable[[], PutResource | None] | None = None,
    ) -> None:
        """Makes metadata changes durable, then visible.

        `amended` is asked in between: for what has become of a resource by then.
        """
        try:
            await self.store.change(changes)
        except StaleResource as exc:
            raise Conflict(
                f"The resource '{exc}' was changed by someone else at the same moment."
            ) from exc
        more = None if amended is None else amended()
        self.catalog.apply(changes if more is None else [*changes, more])
        if self.budgets is not None:
            self.budgets.follow(self.catalog.has)
        if more is not None:
            try:
                await self.store.change([more])
            except (*UNWRITTEN, StaleResource, StaleCatalog) as exc:  # the change itself stands
                log.warning("a change that took long could not be amended: %s", exc)

    async def reload(self) -> None:
        """Takes up what other front ends have changed. Whoever changes metadata is let finish."""
        seen = self.store.epoch
        async with self.metadata:
            if self.store.epoch != seen:
                return  # somebody has done it meanwhile
            resources = await self.store.resources()
            if self.store.epoch != seen:
                retention = self.settings.change_feed_retention
                self.catalog = Catalog(resources, retention, self.store.epoch)
                if self.budgets is not None:
                    self.budgets.follow(self.catalog.has)

    async def on_current(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does work that begins anew if it was begun with outdated metadata."""
        while True:
            try:
                return await work()
            except StaleCatalog:
                await self.reload()

    async def reach(self, now: float, ahead: float = CLOCK_AHEAD, *, early: float = 0.0) -> None:
        """Makes durable that the clock has shown `now`, and may show a little more.

        A crash and a system clock set back must not bring anyone back to life. Storing a mark
        some seconds ahead means that hardly any request waits for it; done `early` seconds before
        it must be, none does. A disk that takes nothing does not keep anyone from reading.
        """
        if self.clock_mark == inf or (now + early <= self.clock_mark and ahead > 0):
            return
        mark = now + early + ahead
        try:
            await self.store.put_meta("clock", f"{now!r} {mark!r}")
        except UNWRITTEN as exc:
            if ahead == 0:
                raise
            log.warning("the clock's mark could not be stored: %s", exc.message)
        self.clock_mark = mark

    async def new_etag(self, now: float) -> str:
        return make_etag(int(now), await self.store.next_number("etag"))


async def open_account(settings: Settings, store: Store, clock: Clock) -> Account:
    """Reads the metadata and takes up where the last run ended."""
    secret = await store.get_meta("token_secret")
    if secret is None:
        secret = await store.keep_meta("token_secret", secrets.token_hex(32))
    stored = await store.get_meta("clock")
    if stored is not None:
        try:
            shown, mark = map(float, stored.split())
        except ValueError as exc:
            raise StoreError("the clock's mark in the database is damaged") from exc
        # A clock that has not gone back needs no help; one that has starts where nobody has been.
        clock.raise_floor(mark if clock.now() < shown else shown)
    resources = await store.resources()
    catalog = Catalog(resources, settings.change_feed_retention, store.epoch)
    budgets = Budgets() if settings.enforce_throughput else None
    try:
        key = bytes.fromhex(secret)
    except ValueError as exc:
        raise StoreError("the secret behind continuation tokens is damaged") from exc
    account = Account(settings, store, clock, catalog, key, budgets=budgets)
    await account.on_current(lambda: _follow_retention(account))
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
