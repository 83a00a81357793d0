"""The account: the stores, the catalog and the settings, which every operation gets."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perseid.clock import Clock, ClockJump, ClockSetting
from perseid.config import Settings
from perseid.errors import NOT_WRITTEN_ERRORS, Conflict, StaleCatalog
from perseid.ids import make_etag
from perseid.model import Container, StorageUsage
from perseid.service.catalog import Catalog
from perseid.service.queries.disconnects import DisconnectWatcher
from perseid.service.queries.evaluation import Evaluation
from perseid.service.queries.plan_cache import PlanCache
from perseid.service.throughput.budgets import Budgets
from perseid.store.protocol import Stores
from perseid.store.types import AuditEntry, PutResource, RemoveResource, StaleResource, StoreError
from perseid.ttl import Cutoff, Policy

if TYPE_CHECKING:
    from perseid.workers.pool import WorkerPool

T = TypeVar("T")

log = logging.getLogger(__name__)

CLOCK_LIMIT_AHEAD: Final = 2.0


@dataclass(slots=True)
class Account:
    settings: Settings
    stores: Stores
    clock: Clock
    catalog: Catalog
    secret: bytes  # signs continuation tokens; stored with the data, so tokens survive a restart
    # Metadata changes are rare and depend on each other, so they run one at a time.
    metadata_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # The latest time that may be shown without making it durable first: see `persist_clock`.
    # Infinite for a clock that is stored elsewhere.
    durable_clock_limit: float = 0.0
    exact_clock_limits: int = 0  # how many were stored that do not lie ahead
    clock_limit_at_start: float = 0.0  # as the last run stored it
    # While a jump of the system clock is neither confirmed nor rejected: the jump, and what the
    # clock would show without it.
    jump: ClockJump | None = None
    corrected_time: Callable[[], float] | None = None
    requests: int = 0  # admitted so far; background work pauses while this rises
    # Containers, by rid and etag, whose policy change is still being counted for the audit log.
    # They are not purged until then, because purged items would be missing from the count.
    pending_audit_counts: set[tuple[str, str]] = field(default_factory=set)
    background: set[asyncio.Task[None]] = field(default_factory=set)
    plans: PlanCache = field(default_factory=PlanCache)
    evaluation: Evaluation = field(default_factory=Evaluation)
    disconnects: DisconnectWatcher = field(default_factory=DisconnectWatcher)
    # What clients have to trust, in PEM; None if the server does not use HTTPS.
    trusted_certificate: bytes | None = None
    budgets: Budgets | None = None  # None: throughput is not enforced
    _workers: WorkerPool | None = None  # None: none was needed yet
    _body_workers: WorkerPool | None = None

    @property
    def running_requests(self) -> set[Any]:
        """The requests that are being answered, which the stores know as well."""
        return self.stores.load.running

    @property
    def workers(self) -> WorkerPool:
        """The worker processes; none is started before the first call."""
        if self._workers is None:
            from perseid.workers.pool import WorkerPool  # imported here because many need none

            self._workers = WorkerPool(self.settings.query_workers, self._worker_memory)
        return self._workers

    @property
    def body_workers(self) -> WorkerPool:
        """One worker process for large bodies, which would wait for long queries in the others."""
        if self._body_workers is None:
            from perseid.workers.pool import WorkerPool  # imported here because many need none

            size = min(self.settings.query_workers, 1)
            self._body_workers = WorkerPool(size, self._worker_memory)
        return self._body_workers

    @property
    def _worker_memory(self) -> int:
        return self.settings.query_memory * 1024 * 1024

    async def close_workers(self) -> None:
        """Ends the worker processes and the thread for evaluation, if there are any."""
        self.evaluation.close()
        for workers in (self._workers, self._body_workers):
            if workers is not None:
                await workers.close()

    def cutoff(self, container: Container, now: float) -> Cutoff:
        """The cutoff of expired items, for the whole of a request admitted at `now`."""
        return container.policy.cutoff(int(now), revive_unpurged=self.settings.revive_unpurged)

    def cutoff_under(self, policy: Policy, now: float) -> Cutoff:
        """The cutoff of expired items at `now` under a policy."""
        return policy.cutoff(int(now), revive_unpurged=self.settings.revive_unpurged)

    async def usage(
        self, container: Container, cutoff: Cutoff, range_index: int | None = None
    ) -> StorageUsage:
        """The storage that the container uses, in all its ranges or in one."""
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

        `follow_up_change` is called in between. It may return a second change, for what happened
        while the first was written; both become visible together.
        """
        try:
            await self.stores.metadata.change(changes)
        except StaleResource as exc:
            raise Conflict(
                f"The resource '{exc}' was changed by another request at the same time."
            ) from exc
        follow_up = None if follow_up_change is None else follow_up_change()
        self.catalog.apply(changes if follow_up is None else [*changes, follow_up])
        if self.budgets is not None:
            self.budgets.refresh(self.catalog.has_resource)
        if follow_up is not None:
            try:
                await self.stores.metadata.change([follow_up])
            # The first change is durable and in force.
            except (*NOT_WRITTEN_ERRORS, StaleResource, StaleCatalog) as exc:
                log.warning("the follow-up of a metadata change could not be stored: %s", exc)

    def lsns(self, container: Container) -> Awaitable[tuple[int, ...]]:
        """The LSN of each range of the container, for session tokens."""
        return self.stores.items.lsns(container)

    async def check_store(self) -> None:
        """Raises an error unless the stored data can be read."""
        await self.stores.values.get("token_secret")

    async def publish_clock(self, setting: ClockSetting) -> None:
        """Stores the setting of a movable clock for all server processes."""
        await self.stores.metadata.publish_clock(setting)

    async def check_catalog(self, catalog: Catalog) -> None:
        """StaleCatalog unless `catalog`, which an answer rests on, is current."""
        await self.stores.metadata.check_catalog_version()
        if self.catalog is not catalog:
            raise StaleCatalog

    async def check_catalog_version(self) -> None:
        """StaleCatalog unless the catalog is the one of all server processes.

        For answers that rest on the catalog alone: the store checks by itself when it reads items.
        """
        generation = self.stores.metadata.generation
        await self.stores.metadata.check_catalog_version()
        # Another request may have reloaded the catalog while this one waited.
        if self.stores.metadata.generation != generation:
            raise StaleCatalog

    async def reload(self) -> None:
        """Builds the catalog again if another server process has changed the metadata.

        Waits for metadata changes of this process that are under way.
        """
        metadata = self.stores.metadata
        known_generation = metadata.generation
        async with self.metadata_lock:
            if metadata.generation != known_generation:
                return  # another request has reloaded it while this one waited
            resources = await metadata.resources()
            # Nothing is awaited between reading the resources and swapping the catalog, so no
            # request sees the new generation together with the old catalog.
            if metadata.generation != known_generation:
                retention = self.settings.change_feed_retention
                self.catalog = Catalog(resources, retention, metadata.generation)
                if self.budgets is not None:
                    self.budgets.refresh(self.catalog.has_resource)

    async def retry_if_stale(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does the work, and repeats it from the start as long as its metadata is outdated."""
        while True:
            try:
                return await work()
            except StaleCatalog:
                await self.reload()

    async def persist_clock(
        self, now: float, ahead: float = CLOCK_LIMIT_AHEAD, *, early: float = 0.0
    ) -> None:
        """Makes durable what the clock shows until `ahead` seconds after `now`.

        A restart begins at the stored limit, so a system clock that was set back does not make
        expired items live again, whenever the server was killed. The limit lies some seconds
        ahead, so hardly any request waits for a write; background work calls this `early` seconds
        before it is due, and then none does. Requests continue if the limit cannot be stored, so
        that a full disk does not prevent reads.
        """
        if self.durable_clock_limit == inf or (
            now + early <= self.durable_clock_limit and ahead > 0
        ):
            return
        if ahead > 0:
            limit = max(now, self.clock.latest_within(early + ahead))
        else:
            # A lower limit holds at once: no answer may use a time after it from here on.
            limit = now
            self.durable_clock_limit = min(self.durable_clock_limit, limit)
            self.exact_clock_limits += 1
        exact_limits = self.exact_clock_limits
        try:
            await self.stores.values.put("clock", f"{now!r} {limit!r}")
        except NOT_WRITTEN_ERRORS as exc:
            if ahead == 0:
                raise
            log.warning("the durable clock limit could not be stored: %s", exc.message)
        if exact_limits == self.exact_clock_limits:  # else another one was stored after this one
            self.durable_clock_limit = max(self.durable_clock_limit, limit)

    def durable_now(self) -> float:
        """The current time, or the durable clock limit if the clock has passed it."""
        return min(self.clock.now(), self.durable_clock_limit)

    async def new_etag(self, now: float) -> str:
        return make_etag(int(now), await self.stores.metadata.next_number("etag"))


async def open_account(settings: Settings, stores: Stores, clock: Clock) -> Account:
    """Reads the metadata, and starts the clock at or after every time that was shown."""
    secret = await stores.values.get("token_secret")
    if secret is None:
        secret = await stores.values.put_if_absent("token_secret", secrets.token_hex(32))
    limit = 0.0
    stored = await stores.values.get("clock")
    if stored is not None:
        try:
            _last_time, limit = map(float, stored.split())
        except ValueError as exc:
            raise StoreError("the durable clock limit in the database is damaged") from exc
        # Answers may have used every time up to the limit. After a clean stop it is the last time
        # shown; after a crash the clock stands still until the system time has passed it.
        clock.advance_to_at_least(limit)
    resources = await stores.metadata.resources()
    catalog = Catalog(resources, settings.change_feed_retention, stores.metadata.generation)
    budgets = Budgets() if settings.enforce_throughput else None
    try:
        key = bytes.fromhex(secret)
    except ValueError as exc:
        raise StoreError("the secret for continuation tokens in the database is damaged") from exc
    account = Account(settings, stores, clock, catalog, key, budgets=budgets)
    account.clock_limit_at_start = limit
    await account.retry_if_stale(lambda: _follow_retention(account))
    return account


async def _follow_retention(account: Account) -> None:
    """Starts or stops the change logs of containers that follow the server's retention."""
    changes = []
    for container in account.catalog.containers():
        resource = account.catalog.resource(container.rid)
        keeps_versions = container.retention > 0
        if resource.state.get("keeps_versions", False) != keeps_versions:
            state = resource.state | {"keeps_versions": keeps_versions}
            changes.append(PutResource(resource._replace(state=state), replaces=resource.etag))
    if changes:
        await account.change(changes)
