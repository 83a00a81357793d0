"""Callers that wait for the same result share a call, and none gets an outdated one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from perseid.errors import ServiceUnavailable
from perseid.store.postgres.shared_calls import SharedCalls

pytestmark = pytest.mark.only_on("postgres", reason="only its store shares calls")


class Calls:
    """Calls that end when the test says so."""

    def __init__(self) -> None:
        self.shared: SharedCalls[int] = SharedCalls()
        self.begun: list[asyncio.Future[int]] = []

    async def work(self) -> int:
        self.begun.append(asyncio.get_running_loop().create_future())
        return await self.begun[-1]

    def ask(self, key: str = "a") -> asyncio.Task[int]:
        return asyncio.ensure_future(self.shared.call(key, self.work))

    async def until_begun(self, count: int) -> None:
        for _ in range(20):  # turns of the loop; nothing here waits for anything else
            await asyncio.sleep(0)
        assert len(self.begun) == count


def play(scenario: Callable[[Calls], object]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            await scenario(Calls())  # type: ignore[misc]

    asyncio.run(run())


def test_those_that_wait_share_the_next_call() -> None:
    async def scenario(calls: Calls) -> None:
        first = calls.ask()
        await calls.until_begun(1)
        waiting = [calls.ask() for _ in range(3)]
        await calls.until_begun(1)
        calls.begun[0].set_result(1)
        assert await first == 1
        await calls.until_begun(2)
        late = calls.ask()  # after the second call has begun
        calls.begun[1].set_result(2)
        assert await asyncio.gather(*waiting) == [2, 2, 2]
        await calls.until_begun(3)
        calls.begun[2].set_result(3)
        assert await late == 3
        again = calls.ask()
        await calls.until_begun(4)
        calls.begun[3].set_result(4)
        assert await again == 4

    play(scenario)


def test_keys_do_not_wait_for_each_other() -> None:
    async def scenario(calls: Calls) -> None:
        both = [calls.ask("a"), calls.ask("b")]
        await calls.until_begun(2)
        calls.begun[1].set_result(2)
        assert await both[1] == 2
        calls.begun[0].set_result(1)
        assert await both[0] == 1

    play(scenario)


def test_an_error_reaches_those_of_its_call() -> None:
    async def scenario(calls: Calls) -> None:
        first = calls.ask()
        await calls.until_begun(1)
        waiting = [calls.ask(), calls.ask()]
        await calls.until_begun(1)
        calls.begun[0].set_exception(ServiceUnavailable("one"))
        with pytest.raises(ServiceUnavailable, match="one"):
            await first
        await calls.until_begun(2)
        last = calls.ask()
        calls.begun[1].set_exception(ServiceUnavailable("two"))
        for each in waiting:
            with pytest.raises(ServiceUnavailable, match="two"):
                await each
        await calls.until_begun(3)
        calls.begun[2].set_result(3)
        assert await last == 3

    play(scenario)


@pytest.mark.parametrize("place", [0, 1])
def test_a_caller_that_gives_up_takes_nothing_from_others(place: int) -> None:
    async def scenario(calls: Calls) -> None:
        asked = [calls.ask()]
        await calls.until_begun(1)
        asked += [calls.ask(), calls.ask()]
        await calls.until_begun(1)
        gone = asked.pop(place)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        if place == 1:
            calls.begun[0].set_result(1)
            assert await asked.pop(0) == 1
        await calls.until_begun(2)
        calls.begun[1].set_result(2)
        assert await asyncio.gather(*asked) == [2] * len(asked)

    play(scenario)
