"""Memory of a server and of its child processes, sampled while a scenario runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psutil  # type: ignore[import-untyped]

SAMPLE_SECONDS: Final = 0.1
MEGABYTE: Final = 1024 * 1024


class Peaks:
    """The highest values so far, in bytes."""

    def __init__(self) -> None:
        self.server = 0
        self.workers = 0  # all of them together
        self.worker_count = 0

    def add(self, process: psutil.Process) -> None:
        with suppress(psutil.NoSuchProcess):
            self.server = max(self.server, process.memory_info().rss)
            sizes = [_size(each) for each in process.children(recursive=True)]
            self.workers = max(self.workers, sum(sizes))
            self.worker_count = max(self.worker_count, len(sizes))


def _size(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        size: int = process.memory_info().rss
        return size
    return 0


@contextmanager
def sampled(process_id: int, limit: int, on_limit: Callable[[], None]) -> Iterator[Peaks]:
    """Samples until the block ends; calls `on_limit` once the server has more than `limit`."""
    peaks = Peaks()
    ended = threading.Event()
    process = psutil.Process(process_id)

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            peaks.add(process)
            if peaks.server + peaks.workers > limit:
                on_limit()

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peaks
    finally:
        ended.set()
        sampler.join()
