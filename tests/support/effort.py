"""Compares how much processor time two calls take; the rest of the machine has no influence."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def ratio(work: Callable[[], object], baseline: Callable[[], object]) -> float:
    """How often the processor time of `baseline` fits into that of `work`: the best of a few."""
    gc.collect()
    gc.disable()
    try:
        return min(_seconds(work) for _ in range(3)) / min(_seconds(baseline) for _ in range(3))
    finally:
        gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
