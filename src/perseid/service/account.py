"""The account: the store, the catalog and the settings, handed to every operation."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from perseid.clock import Clock
from perseid.config import Settings
from perseid.errors import Conflict
from perseid.ids import make_etag
from perseid.model import Container
from perseid.service.catalog import Catalog
from perseid.store.protocol import Note, PutResource, RemoveResource, StaleResource, Store
from perseid.ttl import Horizon


@dataclass(slots=True)
class Account:
    settings: Settings
    store: Store
    clock: Clock
    catalog: Catalog
    secret: bytes  # signs continuation tokens; kept with the data, so tokens survive a restart
    # Metadata changes are rare and depend on each other: one at a time.
    metadata: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0  # admitted so far; background work looks at it to make way
    # Containers whose last policy change is still being counted for the audit log: until then
    # nothing of theirs is removed, or the count would be short.
    uncounted: set[str] = field(default_factory=set)
    background: set[asyncio.Task[None]] = field(default_factory=set)

    def horizon(self, container: Container, now: float) -> Horizon:
        """What is dead in the container, for the whole of a request admitted at `now`."""
        return container.policy.horizon(int(now), revive_unpurged=self.settings.revive_unpurged)

    async def change(self, changes: Sequence[PutResource | RemoveResource | Note]) -> None:
        """Makes metadata changes durable, then visible."""
        try:
            await self.store.change(changes)
        except StaleResource as exc:
            raise Conflict(
                f"The resource '{exc}' was changed by someone else at the same moment."
            ) from exc
        self.catalog.apply(changes)

    async def new_etag(self, now: float) -> str:
        return make_etag(int(now), await self.store.next_number("etag"))


async def open_account(settings: Settings, store: Store, clock: Clock) -> Account:
    """Reads the metadata and takes up where the last run ended."""
    secret = await store.get_meta("token_secret")
    if secret is None:
        secret = secrets.token_hex(32)
        await store.put_meta("token_secret", secret)
    highest = await store.get_meta("clock")
    if highest is not None:
        clock.raise_floor(float(highest))
    catalog = Catalog(await store.resources())
    return Account(settings, store, clock, catalog, bytes.fromhex(secret))
