"""Compares how much processor time two calls take; the rest of the machine has little influence."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def ratio(
    work: Callable[[], object],
    baseline: Callable[[], object],
    clock: Callable[[], float] = time.thread_time,
    times: int = 3,
) -> float:
    """How often the processor time of `baseline` fits into that of `work`: the best of `times`.

    `clock` is `time.process_time` if other threads, such as those of a server, do the work.
    """

    def seconds(call: Callable[[], object]) -> float:
        started = clock()
        call()
        return clock() - started

    gc.collect()
    gc.disable()
    try:
        quickest = min(seconds(baseline) for _ in range(times))
        return min(seconds(work) for _ in range(times)) / quickest
    finally:
        gc.enable()
