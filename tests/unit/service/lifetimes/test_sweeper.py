"""The sweeper ends when it is told to, whatever else happens in that moment."""

from __future__ import annotations

import asyncio

import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.server import opened
from perseid.service.lifetimes.sweeper import Sweeper


@pytest.mark.parametrize("turns", range(4))
def test_a_wake_up_does_not_hide_a_cancellation(turns: int) -> None:
    """A test that moves the clock last stops its server right afterwards."""

    async def ends() -> bool:
        async with opened(Settings(memory=True), MovableClock()) as account:
            sweeper = Sweeper(account)
            sweeping = asyncio.create_task(sweeper.run())
            for _ in range(5):  # until it waits
                await asyncio.sleep(0)
            sweeper.wake()
            for _ in range(turns):
                await asyncio.sleep(0)
            sweeping.cancel()
            done, _ = await asyncio.wait([sweeping], timeout=60)
            sweeping.cancel()
            return bool(done)

    assert asyncio.run(ends())
