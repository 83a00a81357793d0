"""The command line against a server of the test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perseid.config import Settings
from tests.support.cli import Cli, invoke
from tests.support.running import running
from tests.support.servers import RunningServer, frozen_clock

START = 2_000_000_000  # 2033-05-18 03:33:20 UTC


@pytest.fixture(scope="module")
def frozen_server() -> Iterator[RunningServer]:
    """A private server whose clock stands still at START until a test moves it."""
    clock = frozen_clock(START)
    # Strict: commands ask for direct answers.
    with running(Settings(memory=True, no_sweeper=True, relaxed=False), clock) as settings:
        yield RunningServer(settings, clock)


@pytest.fixture
def cli(endpoint: str) -> Cli:
    """Runs `perseid` against the server of the test."""
    return lambda *arguments, **rest: invoke(endpoint, *arguments, **rest)
