"""Work stops when its client disconnects, and only then."""

from __future__ import annotations

import asyncio

import pytest

from perseid.service.queries import disconnects
from perseid.service.queries.disconnects import (
    ClientDisconnected,
    DisconnectWatch,
    DisconnectWatcher,
)


@pytest.fixture(autouse=True)
def _watch_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disconnects, "_WATCH_AFTER_SECONDS", 0.001)


def test_a_disconnect_cancels_the_work() -> None:
    async def work() -> None:
        async def disconnect_now() -> None:
            return

        with (
            pytest.raises(ClientDisconnected),
            DisconnectWatch(DisconnectWatcher(), disconnect_now),
        ):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # the task itself goes on

    asyncio.run(asyncio.wait_for(work(), 60))


def test_work_of_a_connected_client_finishes() -> None:
    async def work() -> int:
        watcher = DisconnectWatcher()
        with DisconnectWatch(watcher, asyncio.Event().wait):  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
        with DisconnectWatch(watcher, None):
            await asyncio.sleep(0)
        return 7

    assert asyncio.run(asyncio.wait_for(work(), 60)) == 7


def test_other_cancellations_stay_cancellations() -> None:
    async def work() -> None:
        with DisconnectWatch(DisconnectWatcher(), asyncio.Event().wait):  # type: ignore[arg-type]
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), 60))
