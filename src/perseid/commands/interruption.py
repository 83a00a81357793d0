"""Ctrl-C in commands that can stop in an orderly way and continue later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130  # exit code after Ctrl-C, as shells use it


@contextmanager
def interruptible(is_file: bool) -> Iterator[threading.Event]:
    """Sets the event on the first Ctrl-C; a second Ctrl-C has its usual effect.

    Without a file the command may be blocked reading standard input, where it could not check the
    event, so Ctrl-C keeps its usual effect from the start.
    """
    stop = threading.Event()
    if not is_file or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous_handler = signal.getsignal(signal.SIGINT)

    def request_stop(_signal: int, _frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, previous_handler)

    signal.signal(signal.SIGINT, request_stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous_handler)
