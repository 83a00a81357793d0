"""Compares all stored items with their checksums, a few in each second, once a day.

Disks lose bits over years, so there is no hurry: many items in a second without requests, a few in
others. The position is stored now and then, so that a restart does not begin again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from perseid.errors import NOT_WRITTEN_ERRORS
from perseid.model import Container
from perseid.service.account import Account

log = logging.getLogger(__name__)

_LARGE_STEP: Final = 1000  # items, in a second without requests: some ten milliseconds in a thread
_SMALL_STEP: Final = 50
_STEPS_UNSTORED: Final = 60
_PAUSE: Final = 24 * 3600  # seconds between the ends of two passes
_POSITION_KEY: Final = "verified"  # the name under which the position is stored


@dataclass(slots=True)
class Verification:
    """One per account; `step` is called by the sweeper in every tick."""

    account: Account
    checked: int = 0  # since the start
    _container: int | None = None  # the number of the container that is being read
    _after: int = -1  # the number of the last item that was read
    _finished_at: float | None = None
    _steps: int = 0  # since the position was stored
    _is_loaded: bool = False
    _requests: int = 0

    @property
    def damaged(self) -> int:
        """How many items are known to be damaged."""
        return self.account.stores.integrity.damaged_items

    async def step(self) -> None:
        """Verifies some items, unless a pass was finished less than a day ago."""
        if not self._is_loaded:
            await self._load()
        now = self.account.clock.now()
        if self._finished_at is not None and 0 <= now - self._finished_at < _PAUSE:
            return
        container = self._next_container()
        if container is None:
            await self._finish(now)
            return
        try:
            page = await self.account.stores.integrity.verify(
                container, self._after, self._step_size()
            )
        except NOT_WRITTEN_ERRORS as exc:
            log.error("items of %s cannot be verified: %s", container.path, exc.message)
            self._container, self._after = container.number + 1, -1
            return
        for item_id in page.damaged:
            log.error(
                "the item '%s' of %s is damaged: its content is not what was written; replace or"
                " delete it",
                item_id.encode(errors="replace").decode(),
                container.path,
            )
        self.checked += page.checked
        if page.next_after is None:
            self._container, self._after = container.number + 1, -1
        else:
            self._container, self._after = container.number, page.next_after
        self._steps += 1
        if self._steps >= _STEPS_UNSTORED:
            await self._store(None)

    def _step_size(self) -> int:
        is_idle = self._requests == self.account.requests
        self._requests = self.account.requests
        return _LARGE_STEP if is_idle else _SMALL_STEP

    def _next_container(self) -> Container | None:
        """The container at the position, or the first one after it."""
        containers = self.account.catalog.containers()
        following = [each for each in containers if each.number >= (self._container or 0)]
        container = min(following, key=lambda each: each.number, default=None)
        if container is not None and container.number != self._container:
            self._after = -1
        return container

    async def _finish(self, now: float) -> None:
        is_long = self._steps > 1 or self._finished_at is not None
        self._container, self._after, self._finished_at = None, -1, now
        if is_long:  # a short pass may be repeated after each start
            await self._store(now)

    async def _load(self) -> None:
        self._is_loaded = True
        stored = await self.account.stores.values.get(_POSITION_KEY)
        if stored is None:
            return
        kind, *values = stored.split()
        if kind == "finished":
            self._finished_at = float(values[0])
        else:
            self._container, self._after = int(values[0]), int(values[1])

    async def _store(self, finished_at: float | None) -> None:
        self._steps = 0
        at = f"at {self._container or 0} {self._after}"
        value = at if finished_at is None else f"finished {finished_at!r}"
        await self.account.stores.values.put(_POSITION_KEY, value)
