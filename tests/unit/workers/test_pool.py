"""Worker processes: results, errors, deadlines, memory, cancelled calls, and how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perseid.errors import (
    BadRequest,
    QueryError,
    QueryProblem,
    RequestTimeout,
    ResourceNotFound,
    ServiceUnavailable,
    StaleCatalog,
    TooManyRequests,
)
from perseid.workers import pool as pool_module
from perseid.workers.messages import AnswerWithParts
from perseid.workers.pool import MEGABYTE, WorkerBug, WorkerPool
from tests.unit.workers import functions

T = TypeVar("T")


@asynccontextmanager
async def opened(size: int = 1, megabytes: int = 256) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(size, megabytes * MEGABYTE)
    try:
        yield pool
    finally:
        await pool.close()


def with_pool(test: Callable[[WorkerPool], Awaitable[T]], size: int = 1) -> T:
    async def run() -> T:
        async with opened(size) as pool:
            return await test(pool)

    return asyncio.run(run())


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def ended(process_id: int) -> bool:
    """True once the process is gone; the test's own time limit is the bound."""
    async with asyncio.timeout(60):
        while is_running(process_id):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return True


def test_a_call_runs_in_another_process_that_is_kept() -> None:
    async def test(pool: WorkerPool) -> None:
        first = await pool.call(functions.process_id, seconds=60)
        assert first != os.getpid()
        assert await pool.call(functions.add, 2, 3, seconds=60) == 5
        assert await pool.call(functions.process_id, seconds=60) == first

    with_pool(test)


def test_workers_run_with_lower_priority() -> None:
    expected = min(os.nice(0) + 10, 19)
    assert with_pool(lambda pool: pool.call(functions.priority, seconds=60)) == expected


def test_no_process_is_started_before_the_first_call() -> None:
    async def test(pool: WorkerPool) -> int:
        return len(pool._workers)

    assert with_pool(test) == 0


def test_without_workers_calls_run_in_a_thread() -> None:
    async def test(pool: WorkerPool) -> tuple[int, str]:
        process = await pool.call(functions.process_id, seconds=60)
        return process, await pool.call(lambda: threading.current_thread().name, seconds=60)

    process, thread = with_pool(test, size=0)
    assert process == os.getpid()
    assert thread != threading.main_thread().name


def test_errors_for_clients_come_back_with_their_fields() -> None:
    async def error_of(pool: WorkerPool, kind: str) -> Any:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            await pool.call(functions.fail, kind, seconds=60)
        return caught.value

    async def test(pool: WorkerPool) -> None:
        missing = await error_of(pool, "missing")
        assert type(missing) is ResourceNotFound
        assert missing.status == 404
        busy = await error_of(pool, "busy")
        assert type(busy) is TooManyRequests
        assert (busy.message, busy.headers, busy.charge) == ("Busy.", (("a", "b"),), 2.5)
        assert (busy.details, busy.sub_status) == ({"more": 1}, 3200)
        query = await error_of(pool, "query")
        assert type(query) is QueryError
        assert query.problems == (QueryProblem("SC1", "bad", 1, 2),)
        assert type(await error_of(pool, "stale")) is StaleCatalog
        bug = await error_of(pool, "bug")
        assert type(bug) is WorkerBug
        assert "ZeroDivisionError: a bug" in str(bug)
        assert len(pool._workers) == 1

    with_pool(test)


def test_the_server_answers_questions_of_a_call() -> None:
    async def answer(content: Any) -> Any:
        return [content]

    async def test(pool: WorkerPool) -> list[Any]:
        return await pool.call(functions.ask_twice, 1, "b", seconds=60, answer=answer)

    assert with_pool(test) == [[1], ["b"]]


@pytest.mark.parametrize("length", [0, 10, 3 * MEGABYTE])  # one that a socket takes at once, or not
def test_parts_of_an_answer_arrive_as_they_are(length: int) -> None:
    parts = [b"a" * length, b"", b"b" * length]

    async def answer(content: Any) -> Any:
        return AnswerWithParts((content, None), parts) if content else None

    async def test(pool: WorkerPool) -> list[Any]:
        return await pool.call(functions.ask_twice, 1, 0, seconds=60, answer=answer)

    assert with_pool(test) == [((1, None), parts), None]


def test_an_error_of_an_answer_stops_the_call() -> None:
    async def answer(content: Any) -> Any:
        raise StaleCatalog

    async def test(pool: WorkerPool) -> None:
        with pytest.raises(StaleCatalog):
            await pool.call(functions.ask_twice, 1, 2, seconds=60, answer=answer)
        assert await pool.call(functions.add, 1, 1, seconds=60) == 2

    with_pool(test)


def test_a_late_call_ends_its_worker_and_no_other_call() -> None:
    async def test(pool: WorkerPool) -> None:
        first = await pool.call(functions.process_id, seconds=60)
        with pytest.raises(RequestTimeout, match="stopped after"):
            await pool.call(functions.run_forever, seconds=0.1)
        assert await pool.call(functions.process_id, seconds=60) != first
        assert await ended(first)

    with_pool(test)


def test_a_cancelled_call_ends_its_worker() -> None:
    async def test(pool: WorkerPool) -> None:
        process = await pool.call(functions.process_id, seconds=60)
        started = asyncio.Event()

        async def answer(_: Any) -> None:
            started.set()

        call = asyncio.create_task(
            pool.call(functions.ask_and_run_forever, seconds=60, answer=answer)
        )
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await ended(process)
        assert await pool.call(functions.add, 1, 1, seconds=60) == 2

    with_pool(test)


def test_memory_is_limited() -> None:
    async def test(pool: WorkerPool) -> None:
        with pytest.raises(BadRequest, match="more than 256 MB of memory"):
            await pool.call(functions.allocate, 1000, seconds=60)
        assert await pool.call(functions.allocate, 10, seconds=60) == 10

    with_pool(test)


def test_a_worker_that_has_grown_is_replaced() -> None:
    async def test(pool: WorkerPool) -> None:
        process = await pool.call(functions.process_id, seconds=60)
        await pool.call(functions.keep, 150, seconds=60)
        assert await pool.call(functions.process_id, seconds=60) != process
        assert await ended(process)

    with_pool(test)


def test_a_worker_that_keeps_less_than_it_may_is_kept() -> None:
    """Nothing else in the worker counts, such as the memory that malloc reserves for threads."""

    async def test(pool: WorkerPool) -> None:
        process = await pool.call(functions.process_id, seconds=60)
        await pool.call(functions.keep, 90, seconds=60)
        assert await pool.call(functions.process_id, seconds=60) == process

    with_pool(test)


def test_a_result_that_is_too_large_is_refused() -> None:
    async def test(pool: WorkerPool) -> None:
        result = await pool.call(functions.result_of, 60 * MEGABYTE, seconds=60)
        assert len(result) == 60 * MEGABYTE
        with pytest.raises(BadRequest, match="too many for one response"):
            await pool.call(functions.result_of, 65 * MEGABYTE, seconds=60)

    with_pool(test)


@pytest.mark.parametrize(
    ("status", "error"),
    [(3, ServiceUnavailable), (-signal.SIGSEGV, ServiceUnavailable), (-signal.SIGABRT, BadRequest)],
)
def test_a_crash_is_an_error_of_that_call_alone(status: int, error: type[Exception]) -> None:
    async def test(pool: WorkerPool) -> None:
        with pytest.raises(error):
            await pool.call(functions.end_process, int(status), seconds=60)
        assert await pool.call(functions.add, 1, 1, seconds=60) == 2

    with_pool(test)


def test_an_idle_worker_that_was_killed_is_replaced() -> None:
    async def test(pool: WorkerPool) -> None:
        process = await pool.call(functions.process_id, seconds=60)
        os.kill(process, signal.SIGKILL)
        os.waitid(  # noqa: ASYNC222
            os.P_PID, process, os.WEXITED | os.WNOWAIT
        )
        assert await pool.call(functions.add, 1, 1, seconds=60) == 2

    with_pool(test)


def test_calls_wait_their_turn_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_MOST_WAITING", 2)

    async def test(pool: WorkerPool) -> None:
        release = asyncio.Event()

        async def answer(content: Any) -> Any:
            await release.wait()
            return content

        running = asyncio.create_task(
            pool.call(functions.ask_twice, 1, 2, seconds=60, answer=answer)
        )
        await asyncio.sleep(0)
        waiting = [
            asyncio.create_task(pool.call(functions.add, 1, each, seconds=60)) for each in (1, 2)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="retry later"):
            await pool.call(functions.add, 1, 3, seconds=60)
        release.set()
        assert await running == [1, 2]
        assert await asyncio.gather(*waiting) == [2, 3]

    with_pool(test)


def test_idle_workers_end_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_SECONDS", 0.01)

    async def test(pool: WorkerPool) -> None:
        process = await pool.call(functions.process_id, seconds=60)
        assert await ended(process)

    with_pool(test)


def test_closing_ends_all_workers() -> None:
    async def test(pool: WorkerPool) -> list[int]:
        return await asyncio.gather(
            *(pool.call(functions.process_id, seconds=60) for _ in range(2))
        )

    assert not any(map(is_running, with_pool(test, size=2)))


_SERVER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from perseid.workers.pool import WorkerPool
from tests.unit.workers import functions

async def main():
    pool = WorkerPool(2, 2**28)
    await asyncio.gather(*(pool.call(functions.process_id, seconds=60) for _ in range(2)))
    processes = [each._process.pid for each in pool._workers]
    async def answer(_):
        print(*processes, flush=True)
    await pool.call(functions.ask_and_run_forever, seconds=60, answer=answer)

asyncio.run(main())
"""


def test_workers_end_when_their_server_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(Path(__file__).parents[3])],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        processes = [*map(int, server.stdout.readline().split())]
        assert len(processes) == 2
        assert all(map(is_running, processes))
        server.kill()

    async def all_ended() -> None:
        for process in processes:
            assert await ended(process)

    asyncio.run(all_ended())
