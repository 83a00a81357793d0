"""Where the texts of items are decoded: on the event loop, in a thread, or in a worker process.

A single call decodes a text and holds the interpreter meanwhile, in a thread, too. For 2 MB of
small values these are tenths of a second. So a worker process decodes texts with many values. What
it returns must not contain the values: to read them takes as long as to decode them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from perseid.documents import has_many_values
from perseid.service.account import Account
from perseid.service.items.one_thread import LARGE, in_one_thread

T = TypeVar("T")

_SECONDS: Final = 20.0  # for the start of the worker and a second of work, on a busy machine


async def run_decoding(
    account: Account, texts: Sequence[bytes], work: Callable[..., T], *arguments: Any
) -> T:
    """Runs work that decodes the texts. `work` is a function of a module, for worker processes."""
    if sum(map(len, texts)) <= LARGE:
        return work(*arguments)
    if has_many_values(*texts) and account.body_workers.size:
        return await account.body_workers.call(work, *arguments, seconds=_SECONDS)
    return await in_one_thread(work, *arguments)
