"""A progress bar with rate and remaining time, on a terminal only."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from perseid.commands.output import console

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID


class ProgressDisplay(Protocol):
    def show(self, items: int, done: float | None) -> None:
        """Shows the number of items so far and the completed part of the total."""
        ...


class _NoDisplay:
    def show(self, items: int, done: float | None) -> None:
        """Standard error is not a terminal: shows nothing."""


class _BarDisplay:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def show(self, items: int, done: float | None) -> None:
        self._progress.update(self._task, completed=done, items=items)


class _TerminalDisplay(AbstractContextManager[ProgressDisplay]):
    def __init__(self, what: str, total: float | None, start: float) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, TimeRemainingColumn
        from rich.text import Text

        class Count(ProgressColumn):
            """Items so far, and items per second in this run."""

            def render(self, task: Task) -> Text:
                items, elapsed = task.fields["items"], task.elapsed or 0
                rate = (items - task.fields["before"]) / elapsed if elapsed else 0
                return Text(f"{items:,} items  {rate:,.0f}/s")

        self._progress = Progress(
            "{task.description}",
            BarColumn(),
            "{task.percentage:>3.0f}%",
            Count(),
            TimeRemainingColumn(),
            console=console(stderr=True),
        )
        self._what, self._total, self._before = what, total, start

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        task = self._progress.add_task(
            self._what, total=self._total, items=self._before, before=self._before
        )
        return _BarDisplay(self._progress, task)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def progress_bar(
    what: str, total: float | None, start: int = 0
) -> AbstractContextManager[ProgressDisplay]:
    """A bar on standard error if that is a terminal; `start` items were done by earlier runs."""
    if not sys.stderr.isatty():
        return nullcontext(_NoDisplay())
    return _TerminalDisplay(what, total, start)
