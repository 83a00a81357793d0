"""The server's answers to a worker that counts groups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Final

import pytest

from perseid.conditions import PropertyPath
from perseid.service.queries.page_server import _Answers
from perseid.store.types import GroupCount, OnGroups, Search
from perseid.workers.messages import EncodedAnswer, decode_answer

FIRST: Final = ("first_groups", Search(), ())


class Source:
    """Counts 10,000 groups in a thread, as stores do."""

    def __init__(self, error: Exception | None = None) -> None:
        self.has_ended = threading.Event()
        self._error = error

    async def count_groups(
        self, _search: Search, _paths: Sequence[PropertyPath], on_groups: OnGroups
    ) -> None:
        await asyncio.to_thread(self._count, on_groups)

    def _count(self, on_groups: OnGroups) -> None:
        try:
            on_groups(GroupCount(number, {"n": number}) for number in range(10_000))
            if self._error is not None:
                raise self._error
        finally:
            self.has_ended.set()

    def __getattr__(self, _name: str) -> Any:  # the other methods are not called
        return None


async def _groups(answers: _Answers) -> list[int]:
    """The counts of all groups, in the order of the batches."""
    counts: list[int] = []
    batch: EncodedAnswer | None = await answers.answer(FIRST)
    while batch is not None:
        counts += decode_answer(memoryview(b"".join(batch.pieces)))[0]
        batch = await answers.answer(("next_groups",))
    return counts


def test_groups_come_in_batches_up_to_the_last() -> None:
    async def run() -> None:
        source: Any = Source()
        answers = _Answers(source)
        assert await _groups(answers) == [*range(10_000)]
        await answers.close()

    asyncio.run(run())


def test_an_error_of_the_store_is_raised() -> None:
    async def run() -> None:
        source: Any = Source(ValueError("bad"))
        answers = _Answers(source)
        with pytest.raises(ValueError, match="bad"):
            await _groups(answers)
        await answers.close()

    asyncio.run(run())


def test_the_thread_of_a_count_ends_when_the_worker_stops_early() -> None:
    async def run() -> None:
        source: Any = Source()
        answers = _Answers(source)
        await answers.answer(FIRST)
        await answers.close()
        assert await asyncio.to_thread(source.has_ended.wait, 10)

    asyncio.run(run())
